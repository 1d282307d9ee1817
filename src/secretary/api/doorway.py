"""What happens to a request before it is looked at: it is noted, limited and its path tidied."""

import time

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import error_response


class Doorway:
    def __init__(self, app: ASGIApp, max_body_bytes: int) -> None:
        self._app = app
        self._max = max_body_bytes
        self._refusal = f"A request body may have {max_body_bytes:,} bytes at the most"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})["arrived_at"] = time.time()
        announced = Headers(scope=scope).get("content-length", "")
        if announced.isdigit() and int(announced) > self._max:
            await error_response(413, self._refusal)(scope, receive, send)
            return
        await self._app(_without_slash(scope), self._counted(receive), send)

    def _counted(self, receive: Receive) -> Receive:
        """A body that comes in pieces does not say how large it will be."""
        size = 0

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._max:
                raise HTTPException(413, self._refusal)
            return message

        return counted


def _without_slash(scope: Scope) -> Scope:
    """Every route of the API is also there with a slash behind it. No redirect: some clients
    follow one without the body or with another method."""
    path: str = scope["path"]
    if not (path.startswith("/api/") and path.endswith("/")):
        return scope
    raw_path: bytes = scope.get("raw_path") or path.encode()
    return {**scope, "path": path[:-1], "raw_path": raw_path.removesuffix(b"/")}
