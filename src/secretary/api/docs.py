"""The page on which people read about the API and try it. It needs nothing from elsewhere."""

from importlib.resources import files

from fastapi import APIRouter, HTTPException
from fastapi.responses import FileResponse, HTMLResponse, Response

router = APIRouter(prefix="/api/doc", include_in_schema=False)

#: Swagger UI, as a package carries it.
ASSETS = files("fastapi_swagger") / "resources"
KINDS = {
    "swagger-ui.css": "text/css",
    "swagger-ui-bundle.js": "text/javascript",
    "favicon-32x32.png": "image/png",
}

POLICY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
}

PAGE = """\
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

# A file of its own, because the page's policy runs nothing that is written into it.
START = """\
SwaggerUIBundle({
  url: "/api/openapi.json",
  dom_id: "#api",
  deepLinking: true,
  persistAuthorization: false,
  validatorUrl: null,
});
"""


@router.get("")
async def page() -> HTMLResponse:
    return HTMLResponse(PAGE, headers=POLICY)


@router.get("/start.js")
async def start() -> Response:
    return Response(START, media_type="text/javascript", headers={"Cache-Control": "no-cache"})


@router.get("/{name}")
async def asset(name: str) -> Response:
    if name not in KINDS:
        raise HTTPException(404)
    headers = {"Cache-Control": "public, max-age=3600"}
    return FileResponse(str(ASSETS / name), media_type=KINDS[name], headers=headers)
