"""Who is asking: the API key of a request and the user it acts for."""

import hmac
import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address, ip_network
from typing import Annotated, Any

from fastapi import Depends, Header, Request
from starlette.requests import HTTPConnection
from starlette.types import Scope

from ..core.errors import AccessDenied, RateLimited, Unauthorized

MINUTE = 60.0
#: Of so many the state is kept; who is forgotten has a full bucket again.
MAX_KNOWN = 10_000


@dataclass(frozen=True, slots=True)
class Grant:
    allowed: bool
    #: How many more are allowed at once.
    remaining: int
    #: Whole seconds until the next one is allowed; 0: now.
    wait: int


class TokenBucket:
    """`per_minute` at once, then as many spread over each minute."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_minute = per_minute
        self._per_second = per_minute / MINUTE
        self._clock = clock
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def look(self, who: Hashable) -> Grant:
        """What `take` would say, without taking."""
        return self._grant(self._tokens(who, self._clock()))

    def take(self, who: Hashable) -> Grant:
        now = self._clock()
        tokens = self._tokens(who, now)
        grant = self._grant(tokens)
        if grant.allowed:
            self._buckets[who] = (tokens - 1, now)
            self._buckets.move_to_end(who)
            if len(self._buckets) > MAX_KNOWN:
                self._buckets.popitem(last=False)
        return grant

    def _tokens(self, who: Hashable, now: float) -> float:
        tokens, at = self._buckets.get(who, (float(self.per_minute), now))
        return min(tokens + (now - at) * self._per_second, float(self.per_minute))

    def _grant(self, tokens: float) -> Grant:
        if tokens >= 1:
            return Grant(True, int(tokens) - 1, 0)
        return Grant(False, 0, max(1, math.ceil((1 - tokens) / self._per_second)))


MAX_USER_ID = 200
#: A host with or without its port.
AUTHORITY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:[0-9]*)?")

#: These paths and all below them need no key; everything else does, what is not there included.
OPEN = ("/api/health", "/api/doc", "/api/openapi.json", "/dashboard")
#: And this one, the page of the dashboard: it asks for the key itself.
OPEN_PAGE = "/"

#: From one address. A person mistypes less often, and a key cannot be guessed at this pace.
WRONG_KEYS_PER_MINUTE = 20


@dataclass(frozen=True, slots=True)
class ApiKey:
    """`key`, or `key:user` for one that can act for that user only."""

    key: bytes
    user: str | None = None

    @classmethod
    def parse(cls, text: str) -> "ApiKey":
        key, _, user = text.partition(":")
        return cls(key.encode(), user or None)


def is_open(path: str) -> bool:
    return path == OPEN_PAGE or any(path == root or path.startswith(f"{root}/") for root in OPEN)


class Authenticator:
    """Lets requests through that show a valid key. Without any keys it trusts this machine,
    but not the pages that a browser on this machine shows."""

    def __init__(self, api_keys: Sequence[str], *, requests_per_minute: int = 0) -> None:
        self._keys = [ApiKey.parse(text) for text in api_keys]
        self._requests = TokenBucket(requests_per_minute) if requests_per_minute else None
        self._wrong_keys = TokenBucket(WRONG_KEYS_PER_MINUTE)

    def admit(self, scope: Scope) -> None:
        """Raises unless this request may come in. Its body is not read before."""
        if is_open(scope["path"]):
            return
        connection = HTTPConnection(scope)
        key = None
        if self._keys:
            key = self._known(_given_key(connection), _source(scope))
        else:
            _require_local(connection)
        scope["state"]["key"] = key
        if self._requests is not None:
            self._spend(self._requests, key.key if key else _source(scope), scope)

    def _spend(self, requests: TokenBucket, who: bytes | str, scope: Scope) -> None:
        grant = requests.take(who)
        headers = {
            "RateLimit-Policy": f'"default";q={requests.per_minute};w=60',
            "RateLimit": f'"default";r={grant.remaining};t={grant.wait}',
        }
        scope["state"]["headers"] = [
            (name.lower().encode(), value.encode()) for name, value in headers.items()
        ]
        if not grant.allowed:
            raise RateLimited("There are too many requests", retry_after=grant.wait)

    def _known(self, given: str, source: str) -> ApiKey:
        if not given:
            raise Unauthorized("The API key is missing or not valid")
        # Also a right key waits: if it did not, the answer would tell it from the wrong ones.
        if not (grant := self._wrong_keys.look(source)).allowed:
            raise RateLimited("There were too many wrong API keys", retry_after=grant.wait)
        # All keys are looked at, so that the time tells nothing about them.
        found = [key for key in self._keys if hmac.compare_digest(key.key, given.encode())]
        if not found:
            self._wrong_keys.take(source)
            raise Unauthorized("The API key is missing or not valid")
        return found[0]


def _source(scope: Scope) -> str:
    """Where a request comes from. Who has one IPv6 address has a whole network of them."""
    host = scope["client"][0] if scope.get("client") else ""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv4Address):
        return host
    # As some proxies write an IPv4 address: all of these are in one network.
    mapped = address.ipv4_mapped
    return str(mapped or ip_network((host, 64), strict=False))


def _given_key(connection: HTTPConnection) -> str:
    """Empty when there is none. Two different ones are none: what stands before us may have
    looked at the other."""
    given = set(connection.headers.getlist("x-secretary-api-key"))
    for header in connection.headers.getlist("authorization"):
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


def _require_local(request: HTTPConnection) -> None:
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
        str | None,
        Header(alias="X-User-ID", max_length=MAX_USER_ID, description="The acting user"),
    ] = None,
) -> str | None:
    """The user that a request acts for; None: an operator. The doorway has let it in."""
    if x_user_id is not None and not x_user_id.strip():
        # Who hands names on has none for somebody who has not logged in: no operator, that.
        raise AccessDenied("X-User-ID names no user")
    if len(set(request.headers.getlist("x-user-id"))) > 1:
        raise AccessDenied("X-User-ID names more than one user")
    key: ApiKey | None = request.state.key
    bound, claimed = key.user if key else None, _text(x_user_id) if x_user_id else None
    if bound is not None and claimed not in (None, bound):
        raise AccessDenied("This API key belongs to another user than X-User-ID names")
    user: str | None = bound or claimed
    request.state.user = user
    return user


#: The user that a request acts for. Every route but the open ones has a parameter of this type.
Caller = Annotated[str | None, Depends(_caller)]


def security_schemes() -> dict[str, Any]:
    """For the API's own description."""
    return {
        "bearer": {"type": "http", "scheme": "bearer"},
        "key": {"type": "apiKey", "in": "header", "name": "X-Secretary-Api-Key"},
    }
