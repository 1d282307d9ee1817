"""Who is asking: the API key of a request and the user it acts for."""

import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated, Any

from fastapi import Depends, Header, Request

from ..errors import AccessDenied, Unauthorized

MAX_USER_ID = 200
#: A host with or without its port.
AUTHORITY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:[0-9]*)?")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """`key`, or `key:user` for one that can act for that user only."""

    key: bytes
    user: str | None = None

    @classmethod
    def parse(cls, text: str) -> "ApiKey":
        key, _, user = text.partition(":")
        return cls(key.encode(), user or None)


class Gate:
    """Lets requests through that show a valid key. Without any keys it trusts this machine,
    but not the pages that a browser on this machine shows."""

    def __init__(self, api_keys: Sequence[str]) -> None:
        self._keys = [ApiKey.parse(text) for text in api_keys]

    def user_of(self, request: Request, user_id: str | None) -> str | None:
        """The user that a request acts for; None: an operator."""
        if not self._keys:
            _require_local(request)
            return user_id
        bound = self._known(_given_key(request)).user
        if bound is not None and user_id not in (None, bound):
            raise AccessDenied("This API key belongs to another user than X-User-ID names")
        return bound or user_id

    def _known(self, given: str) -> ApiKey:
        # All keys are looked at, so that the time tells nothing about them.
        found = [key for key in self._keys if hmac.compare_digest(key.key, given.encode())]
        if not given or not found:
            raise Unauthorized("The API key is missing or not valid")
        return found[0]


def _given_key(request: Request) -> str:
    """Empty when there is none. Two different ones are none: what stands before us may have
    looked at the other."""
    given = set(request.headers.getlist("x-secretary-api-key"))
    for header in request.headers.getlist("authorization"):
        scheme, _, credentials = header.partition(" ")
        if scheme.lower() == "bearer":
            given.add(credentials.strip())
    given.discard("")
    return _text(given.pop()) if len(given) == 1 else ""


def _text(header: str) -> str:
    """What a client meant that sent UTF-8, which no header knows."""
    try:
        return header.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return header


def _require_local(request: Request) -> None:
    """A page of another site must not reach us through the user's browser, be it directly
    (Origin) or by a name that it lets point here (Host)."""
    hosts = request.headers.getlist("host")
    if len(hosts) != 1 or not _is_loopback(hosts[0]):
        raise AccessDenied("Without API keys only requests to localhost are answered")
    origin = request.headers.get("origin")
    if origin is not None and not _is_loopback(origin.partition("://")[2]):
        raise AccessDenied("Without API keys requests of other sites are not answered")


def _is_loopback(authority: str) -> bool:
    """The framework is not asked: it takes a host that it cannot read for ours."""
    found = AUTHORITY.fullmatch(authority)
    if found is None:
        return False
    host = found["host"].lower()
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


# Async though it waits for nothing: FastAPI runs what is not async in a pool of threads.
async def _caller(
    request: Request,
    x_user_id: Annotated[
        str | None, Header(max_length=MAX_USER_ID, description="The acting user")
    ] = None,
) -> str | None:
    if len(set(request.headers.getlist("x-user-id"))) > 1:
        raise AccessDenied("X-User-ID names more than one user")
    gate: Gate = request.app.state.gate
    return gate.user_of(request, _text(x_user_id) if x_user_id else None)


#: The user that a request acts for. Every route but the open ones has a parameter of this type.
Caller = Annotated[str | None, Depends(_caller)]


def security_schemes() -> dict[str, Any]:
    """For the API's own description."""
    return {
        "bearer": {"type": "http", "scheme": "bearer"},
        "key": {"type": "apiKey", "in": "header", "name": "X-Secretary-Api-Key"},
    }
