"""Static pages: the dashboard and the interactive API documentation. Both work offline and use the
same API as every other client."""

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import as_file, files
from pathlib import PurePath

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import FileResponse, HTMLResponse, Response

from .responses import matches_etag

router = APIRouter(include_in_schema=False)

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

#: Nothing inline and nothing from other hosts. Only two policies may create HTML from text: our
#: templates, which escape, and the sanitiser.
DASHBOARD_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:;"
    " media-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'; require-trusted-types-for 'script';"
    " trusted-types secretary dompurify"
)
DASHBOARD_HEADERS = {
    "Cache-Control": "no-cache",  # revalidate, so that a new version is used at once
    "Content-Security-Policy": DASHBOARD_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


@router.get("/")
async def dashboard_page(request: Request) -> Response:
    return _asset_response(request, "index.html")


@router.get("/dashboard/{name:path}")
async def dashboard_asset(request: Request, name: str) -> Response:
    return _asset_response(request, name)


def _asset_response(request: Request, name: str) -> Response:
    if name not in _assets():
        raise HTTPException(404)
    body, etag = _assets()[name]
    headers = {**DASHBOARD_HEADERS, "ETag": etag}
    if matches_etag(etag, request):
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=MEDIA_TYPES[PurePath(name).suffix], headers=headers)


@cache
def _assets() -> Mapping[str, tuple[bytes, str]]:
    """All assets and their ETags by name. A lookup here cannot leave the directory, whatever the
    path."""
    with as_file(files("secretary") / "dashboard") as root:
        paths = [path for path in sorted(root.rglob("*")) if path.suffix in MEDIA_TYPES]
        bodies = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
    return {name: (body, f'"{sha256(body).hexdigest()[:24]}"') for name, body in bodies.items()}


# API documentation

DOCS_PATH = "/api/doc"
#: Swagger UI, from a package that bundles it.
SWAGGER_FILES = files("fastapi_swagger") / "resources"
SWAGGER_MEDIA_TYPES = {
    "swagger-ui.css": "text/css",
    "swagger-ui-bundle.js": "text/javascript",
    "favicon-32x32.png": "image/png",
}
DOCS_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
}
DOCS_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Secretary: the HTTP API</title>
<link rel="stylesheet" href="/api/doc/swagger-ui.css">
<link rel="icon" href="/api/doc/favicon-32x32.png">
</head>
<body>
<div id="api"></div>
<script src="/api/doc/swagger-ui-bundle.js"></script>
<script src="/api/doc/start.js"></script>
</body>
</html>
"""
# A separate file, because the page's policy forbids inline scripts.
DOCS_SCRIPT = """\
SwaggerUIBundle({
  url: "/api/openapi.json",
  dom_id: "#api",
  deepLinking: true,
  persistAuthorization: false,
  validatorUrl: null,
});
"""


@router.get(DOCS_PATH)
async def docs_page() -> HTMLResponse:
    return HTMLResponse(DOCS_PAGE, headers=DOCS_HEADERS)


@router.get(f"{DOCS_PATH}/start.js")
async def docs_script() -> Response:
    return Response(DOCS_SCRIPT, 200, {"Cache-Control": "no-cache"}, "text/javascript")


@router.get(f"{DOCS_PATH}/{{name}}")
async def docs_asset(name: str) -> Response:
    if name not in SWAGGER_MEDIA_TYPES:
        raise HTTPException(404)
    return FileResponse(
        str(SWAGGER_FILES / name),
        media_type=SWAGGER_MEDIA_TYPES[name],
        headers={"Cache-Control": "public, max-age=3600"},
    )
