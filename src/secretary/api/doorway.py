"""What happens to a request before it is looked at: it is noted, limited and its path tidied."""

import time
from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import error_response

TWO_LENGTHS = "A body has either a Content-Length or a Transfer-Encoding, not both"


class Doorway:
    """`limits` are those of paths that differ from all others."""

    def __init__(self, app: ASGIApp, max_body_bytes: int, limits: Mapping[str, int]) -> None:
        self._app = app
        self._max = max_body_bytes
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})["arrived_at"] = time.time()
        scope = _without_slash(scope)
        limit = self._limits.get(scope["path"], self._max)
        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy before us may go by the other one, and see another request in the rest.
            refusal = error_response(400, TWO_LENGTHS, headers={"Connection": "close"})
            await refusal(scope, receive, send)
            return
        announced = headers.get("content-length", "")
        if announced.isascii() and announced.isdigit() and int(announced) > limit:
            await error_response(413, _refusal(limit))(scope, receive, send)
            return
        await self._app(scope, self._counted(receive, limit), send)

    def _counted(self, receive: Receive, limit: int) -> Receive:
        """A body that comes in pieces does not say how large it will be."""
        size = 0

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > limit:
                raise HTTPException(413, _refusal(limit))
            return message

        return counted


def _refusal(limit: int) -> str:
    return f"A request body may have {limit:,} bytes at the most"


def _without_slash(scope: Scope) -> Scope:
    """Every route of the API is also there with a slash behind it. No redirect: some clients
    follow one without the body or with another method."""
    path: str = scope["path"]
    if not (path.startswith("/api/") and path.endswith("/")):
        return scope
    raw_path: bytes = scope.get("raw_path") or path.encode()
    return {**scope, "path": path[:-1], "raw_path": raw_path.removesuffix(b"/")}
