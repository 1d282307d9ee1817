"""Authentication: the API key of a request, its scopes, the user it acts for, and rate limits."""

import hmac
import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime
from ipaddress import IPv4Address, ip_address, ip_network
from typing import Annotated, Protocol

from fastapi import Depends, Header, Request, Security
from fastapi.security import APIKeyHeader, HTTPBearer
from pydantic.json_schema import SkipJsonSchema
from starlette.datastructures import Headers
from starlette.types import Scope

from ..core.errors import AccessDenied, RateLimited, Unauthorized
from ..core.job import utc_now

#: These paths and everything below them need no key; all other paths do, unknown ones included.
#: The dashboard's page at `/` is open as well: it asks for the key itself.
OPEN_PATHS = ("/api/health", "/api/doc", "/api/openapi.json", "/api/swagger.json", "/dashboard")

MAX_USER_ID = 200
#: Per client address. Nobody mistypes that often.
WRONG_KEYS_PER_MINUTE = 20
#: Per client address, which a whole network may share. Their cost is known: each takes less than a
#: millisecond.
PROBES_PER_MINUTE = 6000
PAGES_PER_MINUTE = 3000
PROBES = "/api/health"
#: Clients a token bucket remembers; a forgotten one starts with a full bucket.
MAX_CLIENTS = 10_000
MINUTE = 60.0
#: A host with or without a port.
AUTHORITY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:[0-9]*)?")


#: What a key may do: read jobs, files and statistics; add jobs; change and delete existing jobs;
#: fetch `/metrics`. A key without scopes in the settings has all of them.
SCOPES = frozenset({"read", "submit", "operate", "metrics"})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class KeySettings(Protocol):
    """A key as the settings describe it."""

    @property
    def key(self) -> str: ...
    @property
    def user(self) -> str | None: ...
    @property
    def scopes(self) -> Collection[str]: ...
    @property
    def expires_at(self) -> datetime | None: ...


@dataclass(frozen=True, slots=True)
class ApiKey:
    key: bytes
    #: The only user it may act for; None for an operator's key.
    user: str | None
    scopes: frozenset[str] = SCOPES
    expires_at: datetime | None = None

    @classmethod
    def configured(cls, setting: str | KeySettings) -> "ApiKey":
        """From `key`, from `key:user` for a key that acts for that user only, or in detail."""
        if isinstance(setting, str):
            key, _, user = setting.partition(":")
            return cls(key.encode(), user or None)
        scopes = frozenset(setting.scopes)
        return cls(setting.key.encode(), setting.user, scopes, setting.expires_at)


@dataclass(frozen=True, slots=True)
class RateLimitState:
    allowed: bool
    #: Requests that may follow at once.
    remaining: int
    #: Whole seconds until the next request is allowed; 0 means now.
    retry_after: int


class TokenBucket:
    """Allows a burst of `per_minute`, then the same number spread over each minute."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_minute = per_minute
        self._per_second = per_minute / MINUTE
        self._clock = clock
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def peek(self, client: Hashable) -> RateLimitState:
        """What `take` would return, without taking a token."""
        return self._state(self._tokens(client, self._clock()))

    def take(self, client: Hashable) -> RateLimitState:
        now = self._clock()
        tokens = self._tokens(client, now)
        state = self._state(tokens)
        if state.allowed:
            self._buckets[client] = (tokens - 1, now)
            self._buckets.move_to_end(client)
            if len(self._buckets) > MAX_CLIENTS:
                self._buckets.popitem(last=False)
        return state

    def _tokens(self, client: Hashable, now: float) -> float:
        tokens, at = self._buckets.get(client, (float(self.per_minute), now))
        return min(tokens + (now - at) * self._per_second, float(self.per_minute))

    def _state(self, tokens: float) -> RateLimitState:
        if tokens >= 1:
            return RateLimitState(True, int(tokens) - 1, 0)
        return RateLimitState(False, 0, max(1, math.ceil((1 - tokens) / self._per_second)))


class Authenticator:
    """Admits requests with a valid key. Without configured keys it trusts this machine, but not
    the pages that a browser on this machine shows."""

    def __init__(
        self,
        api_keys: Sequence[str | KeySettings],
        *,
        requests_per_minute: int = 0,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._keys = [ApiKey.configured(setting) for setting in api_keys]
        self._requests = TokenBucket(requests_per_minute) if requests_per_minute else None
        self._wrong_keys = TokenBucket(WRONG_KEYS_PER_MINUTE)
        self._probes = TokenBucket(PROBES_PER_MINUTE)
        self._pages = TokenBucket(PAGES_PER_MINUTE)
        self._now = now

    def authenticate(self, scope: Scope) -> None:
        """Raise unless the request may proceed; its body has not been read yet."""
        path: str = scope["path"]
        if is_open(path):
            bucket = self._probes if path.startswith(PROBES) else self._pages
            _require_token(bucket.take(_client_address(scope)))
            return
        headers = Headers(scope=scope)
        key = self._verify(headers, _client_address(scope)) if self._keys else None
        if key is None:
            _require_local(scope["method"], headers)
        scope["state"]["user_of_key"] = key.user if key else None
        scope["state"]["scopes"] = key.scopes if key else SCOPES
        if self._requests is None:
            return
        state = self._requests.take(key.key if key else _client_address(scope))
        scope["state"]["headers"] = [
            (b"ratelimit-policy", f'"default";q={self._requests.per_minute};w=60'.encode()),
            (b"ratelimit", f'"default";r={state.remaining};t={state.retry_after}'.encode()),
        ]
        _require_token(state)

    def _verify(self, headers: Headers, address: str) -> ApiKey:
        if not (presented := _presented_key(headers)):
            raise Unauthorized("The API key is missing or invalid")
        # Compare with every key, so that the time taken reveals nothing about them.
        matches = [key for key in self._keys if hmac.compare_digest(key.key, presented.encode())]
        if not matches:
            # Only wrong keys have to wait: many clients may share the address of a proxy.
            _require_token(self._wrong_keys.take(address), "Too many wrong API keys")
            raise Unauthorized("The API key is missing or invalid")
        key = matches[0]
        if key.expires_at is not None and key.expires_at <= self._now():
            raise Unauthorized("The API key has expired")
        return key


def _require_token(state: RateLimitState, message: str = "Too many requests") -> None:
    if not state.allowed:
        raise RateLimited(message, retry_after=state.retry_after)


def scope_of_route(path: str, methods: Collection[str], status: int | None) -> str:
    """The scope a key needs for a route. Routes that answer 201 or 202 add jobs."""
    if path == "/metrics":
        return "metrics"
    if SAFE_METHODS.issuperset(methods):
        return "read"
    return "submit" if status in (201, 202) else "operate"


def require_scope(scope: Scope, required: str) -> None:
    if required not in scope["state"]["scopes"]:
        raise AccessDenied(f"This API key does not have the scope '{required}'")


def is_open(path: str) -> bool:
    return path == "/" or any(path == root or path.startswith(f"{root}/") for root in OPEN_PATHS)


def _client_address(scope: Scope) -> str:
    """The client's address; for IPv6 its /64 network, which usually belongs to one client."""
    host = scope["client"][0] if scope.get("client") else ""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv4Address):
        return host
    # Some proxies write IPv4 addresses as IPv6; all of them share one /64.
    return str(address.ipv4_mapped or ip_network((host, 64), strict=False))


def _presented_key(headers: Headers) -> str:
    """The key of a request, empty if there is none. Two different keys count as none: a proxy in
    front of us may have checked the other one."""
    keys = set(headers.getlist("x-secretary-api-key"))
    for header in headers.getlist("authorization"):
        scheme, _, credentials = header.partition(" ")
        if scheme.lower() == "bearer":
            keys.add(credentials.strip())
    keys.discard("")
    return _decode_header(keys.pop()) if len(keys) == 1 else ""


def _decode_header(value: str) -> str:
    """Clients send UTF-8, which the server decodes as Latin-1."""
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return value


def _require_local(method: str, headers: Headers) -> None:
    """Refuse pages of other sites that reach us through the user's browser: directly (Origin), or
    by a host name that resolves to this machine (Host). Only our own pages may change anything;
    other local ports belong to other programs."""
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not _is_loopback(hosts[0]):
        raise AccessDenied("Without API keys, only requests to localhost are allowed")
    origin = headers.get("origin")
    if origin is not None and not _is_loopback(origin.partition("://")[2]):
        raise AccessDenied("Without API keys, requests from other sites are not allowed")
    if method not in SAFE_METHODS and not _is_same_origin(headers, origin, hosts[0]):
        raise AccessDenied("Without API keys, pages of other origins cannot change anything")


def _is_same_origin(headers: Headers, origin: str | None, host: str) -> bool:
    """Browsers send Sec-Fetch-Site, which no page can change, or at least Origin; other clients
    send neither."""
    if (site := headers.get("sec-fetch-site")) is not None:
        return site in ("same-origin", "none")
    return origin is None or origin.partition("://")[2].lower() == host.lower()


def _is_loopback(authority: str) -> bool:
    """Not left to the framework, which treats a host it cannot parse as local."""
    if (match := AUTHORITY.fullmatch(authority)) is None:
        return False
    host = match["host"].lower()
    try:
        return host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


#: Only for the OpenAPI document: the middleware checks the keys. One route has these dependencies;
#: the others just name the schemes, because each dependency costs time in every request. OpenAPI
#: calls the scopes of such schemes roles.
SECURITY_SCHEMES = (
    Security(HTTPBearer(scheme_name="bearer", auto_error=False), scopes=["read"]),
    Security(
        APIKeyHeader(name="X-Secretary-Api-Key", scheme_name="key", auto_error=False),
        scopes=["read"],
    ),
)


def security(scope: str) -> list[dict[str, list[str]]]:
    return [{"bearer": [scope]}, {"key": [scope]}]


# Async although it awaits nothing: FastAPI runs other dependencies in a thread pool.
async def _caller(
    request: Request,
    x_user_id: Annotated[
        str | SkipJsonSchema[None],
        Header(alias="X-User-ID", max_length=MAX_USER_ID, description="The acting user"),
    ] = None,
) -> str | None:
    """The user a request acts for; None for an operator. The middleware has authenticated it."""
    if x_user_id is not None and not x_user_id.strip():
        # A client that forwards user names sends an empty one for anonymous users, who must not
        # become operators.
        raise AccessDenied("X-User-ID is empty")
    if len(set(request.headers.getlist("x-user-id"))) > 1:
        raise AccessDenied("X-User-ID names more than one user")
    bound: str | None = request.state.user_of_key
    claimed = _decode_header(x_user_id) if x_user_id else None
    if bound is not None and claimed not in (None, bound):
        raise AccessDenied("This API key belongs to a different user than X-User-ID names")
    request.state.user = bound or claimed
    return bound or claimed


#: The user a request acts for. Every route that needs a key has a parameter of this type.
Caller = Annotated[str | None, Depends(_caller)]
