"""The dashboard: files that a browser runs. They use the same API as every other client."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import as_file, files

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response

from .files import is_known

router = APIRouter(include_in_schema=False)

KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
PAGE = "index.html"

#: Nothing inline, nothing from elsewhere; only two places may make HTML of text: our templates,
#: which escape, and the sanitiser.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:;"
    " media-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'; require-trusted-types-for 'script';"
    " trusted-types secretary dompurify"
)
HEADERS = {
    "Cache-Control": "no-cache",  # ask each time: a new version is there at once
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True, slots=True)
class Asset:
    body: bytes
    kind: str
    etag: str


@router.get("/")
async def page(request: Request) -> Response:
    return _sent(request, PAGE)


@router.get("/dashboard/{name:path}")
async def asset(request: Request, name: str) -> Response:
    return _sent(request, name)


def _sent(request: Request, name: str) -> Response:
    found = _assets().get(name)
    if found is None:
        raise HTTPException(404, "There is no such file")
    headers = {**HEADERS, "ETag": found.etag}
    if is_known(found.etag, request):
        return Response(status_code=304, headers=headers)
    return Response(found.body, media_type=found.kind, headers=headers)


@cache
def _assets() -> Mapping[str, Asset]:
    """All there are, by name: what is not among them cannot be asked for, whatever path it has."""
    with as_file(files("secretary") / "dashboard") as root:
        return {
            path.relative_to(root).as_posix(): _asset(path.read_bytes(), KINDS[path.suffix])
            for path in sorted(root.rglob("*"))
            if path.suffix in KINDS
        }


def _asset(body: bytes, kind: str) -> Asset:
    return Asset(body, kind, f'"{sha256(body).hexdigest()[:24]}"')
