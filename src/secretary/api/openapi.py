"""The OpenAPI document, and what FastAPI cannot derive from signatures: scopes, error responses,
headers and form bodies."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from ..core.json_codec import encode_json
from .auth import is_open, require_scope, scope_of_route, security
from .responses import Error, LegacyError, is_legacy, matches_etag

Schema = dict[str, Any]
Responses = dict[int | str, dict[str, Any]]

DESCRIPTION = """\
Turns documents and recordings into Markdown. Every request that needs work becomes a durable job:
poll it, stream its progress, or receive a webhook when it finishes."""

TAGS = [
    {"name": "ingress", "description": "Upload a file or name a URL; get a job."},
    {"name": "tracks", "description": "Summaries of the talks of a conference track."},
    {"name": "jobs", "description": "Submit, inspect and control jobs."},
    {"name": "batches", "description": "Groups of jobs that are submitted together."},
    {"name": "files", "description": "The files jobs produce."},
    {"name": "streams", "description": "Server-sent events."},
    {"name": "templates", "description": "Templates for generated documents."},
    {"name": "overview", "description": "Queue, throughput, workers and installation."},
    {"name": "health", "description": "Liveness and readiness probes."},
    {"name": "metrics", "description": "Prometheus metrics."},
    {"name": "event-job", "description": "The event-job API for older clients."},
]

ERROR_DESCRIPTIONS = {
    400: "The request is invalid; `details.problems` names each field",
    401: "The API key is missing or invalid",
    403: "The caller is not allowed to do this",
    404: "Not found, or not visible to the caller",
    409: "The job, batch or idempotency key is not in a state that allows this",
    413: "The request body is too large",
    415: "This route does not accept files of this type",
    416: "The requested range is outside the file",
    422: "The Idempotency-Key was used for a different request, or the file cannot be read",
    429: "Too many requests or wrong API keys, or a quota is used up (`QUOTA_EXCEEDED`)",
    500: "Internal error",
    502: "The source or an upstream service returned no usable response",
    503: "The store or an engine is unavailable",
    504: "The job exceeded its time limit",
}


def header(description: str, *, required: bool = True, kind: str = "string") -> Schema:
    return {"description": description, "required": required, "schema": {"type": kind}}


ERROR_HEADERS = {
    401: {"WWW-Authenticate": header("The authentication scheme")},
    416: {"Content-Range": header("The size of the file")},
    429: {"Retry-After": header("Seconds to wait before retrying", kind="integer")},
    503: {"Retry-After": header("Seconds to wait before retrying", required=False, kind="integer")},
}
LOCATION = {"Location": header("The path of the job or batch")}
PROCESS_ID = {"X-Process-Id": header("The id of the job")}
WAITED = {"Preference-Applied": header("The preference that was honored", required=False)}


def creates(model: type[BaseModel], description: str, *, status: int = 202) -> Any:
    """Options of a route that adds a job or batch and returns its path."""
    return {
        "status_code": status,
        "response_model": model,
        "response_description": description,
        "responses": {status: {"headers": LOCATION}},
    }


class DocumentedRoute(APIRoute):
    """Requires a scope of the API key, and documents the errors that routes have in common;
    `responses` adds those of one route."""

    def __init__(self, path: str, endpoint: Any, **options: Any) -> None:
        statuses, responses = {400, 429, 500, 503}, options["responses"] or {}
        #: None for routes that need no key.
        self.required_scope: str | None = None
        if is_open(path):
            options["openapi_extra"] = {"security": []}
        else:
            methods, status = options["methods"], options["status_code"]
            self.required_scope = scope_of_route(path, methods, status)
            # FastAPI would document a 422 of its own form if none were declared.
            statuses |= {401, 403, 422}
            if not options["dependencies"]:
                extra = options["openapi_extra"] or {}
                extra = {**extra, "security": security(self.required_scope)}
                options["openapi_extra"] = extra
        if "{" in path:
            statuses |= {404}
        if "GET" not in options["methods"]:
            statuses |= {409, 413}
        if 206 in responses:
            statuses |= {416}
        errors = error_responses(statuses, LegacyError if is_legacy(path) else Error)
        super().__init__(path, endpoint, **options | {"responses": errors | responses})

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.required_scope is not None and scope["method"] in (self.methods or ()):
            require_scope(scope, self.required_scope)
        await super().handle(scope, receive, send)


def error_responses(statuses: Iterable[int], model: type[Error] = Error) -> Responses:
    # Only the 500, which every route has, names the model: FastAPI builds a validator for each use.
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    content = {"content": {"application/json": {"schema": schema}}}
    return {
        status: {
            "description": ERROR_DESCRIPTIONS[status],
            **({"model": model} if status == 500 else content),
            **({"headers": ERROR_HEADERS[status]} if status in ERROR_HEADERS else {}),
        }
        for status in sorted(statuses)
    }


def make_router(tag: str, *, prefix: str = "/api") -> APIRouter:
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        route_class=DocumentedRoute,
        generate_unique_id_function=lambda route: route.name,
    )


class EncodedDocument(NamedTuple):
    body: bytes
    etag: str


class OpenApiDocument:
    """The document as bytes. It takes a large part of a second to build and does not change, so it
    is built once, in a thread; concurrent callers share the work."""

    def __init__(self, build: Callable[[], Schema]) -> None:
        self._build = build
        self._encoding: asyncio.Task[EncodedDocument] | None = None

    async def get(self) -> EncodedDocument:
        if self._encoding is None or self._encoding.cancelled():
            self._encoding = asyncio.create_task(asyncio.to_thread(self._encode))
        # A client that disconnects must not cancel the work of the others.
        return await asyncio.shield(self._encoding)

    def _encode(self) -> EncodedDocument:
        body = encode_json(self._build())
        return EncodedDocument(body, f'"{sha256(body).hexdigest()[:24]}"')


document_router = APIRouter(include_in_schema=False)


# The second path is that of the previous service.
@document_router.api_route("/api/openapi.json", methods=["GET", "HEAD"])
@document_router.api_route("/api/swagger.json", methods=["GET", "HEAD"])
async def openapi_document(request: Request) -> Response:
    document: OpenApiDocument = request.app.state.openapi_document
    body, etag = await document.get()
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    if matches_etag(etag, request):
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


#: Models that FastAPI documents as components, because JSON routes accept them too.
SHARED = frozenset({"Webhook", "AccessControl"})
FILE: Schema = {"type": "string", "format": "binary"}
JSON_TEXT: Schema = {"type": "string", "contentMediaType": "application/json"}
URL: Schema = {"type": "string", "format": "uri", "pattern": "^https?://"}


@cache
def properties_of(model: type[BaseModel]) -> Schema:
    """The JSON Schema of each field. Nested models are inlined: FastAPI collects components only
    from signatures, and routes that stream uploads do not declare their body there."""
    schema = model.model_json_schema(ref_template="{model}")
    definitions = schema.get("$defs", {})

    def inlined(value: Any, parents: tuple[str, ...] = ()) -> Any:
        match value:
            case {"$ref": str(name)} if name in SHARED:
                return {**value, "$ref": f"#/components/schemas/{name}"}
            case {"$ref": str(name)} if name in parents:
                return {"type": "object"}
            case {"$ref": str(name)}:
                rest = {key: item for key, item in value.items() if key != "$ref"}
                return inlined(definitions[name], (*parents, name)) | rest
            case dict():
                return {key: inlined(item, parents) for key, item in value.items()}
            case list():
                return [inlined(item, parents) for item in value]
        return value

    properties: Schema = inlined(schema.get("properties", {}))
    return properties


def form_body(
    properties: Mapping[str, Schema],
    *,
    file: Schema | None = None,
    max_files: int = 1,
    sources: tuple[str, ...] = (),
    required: tuple[str, ...] = (),
    exclusive: bool = False,
    example: Mapping[str, Any] | None = None,
) -> Schema:
    """A request body accepted as multipart form, URL-encoded form or JSON. One of `sources` is
    required, and only one if `exclusive`; `file`, or `files` for several, is a source
    of multipart forms."""
    fields = {name: _form_field(schema) for name, schema in properties.items()}
    uploads = {"file": file} if file else {}
    if max_files > 1:
        uploads["files"] = {"type": "array", "items": FILE, "minItems": 1, "maxItems": max_files}
    media_types = {
        "multipart/form-data": uploads | fields,
        "application/x-www-form-urlencoded": fields,
        "application/json": dict(properties),
    }
    content: Schema = {}
    for media_type, accepted in media_types.items():
        schema: Schema = {"type": "object", "properties": accepted}
        if required:
            schema["required"] = list(required)
        if sources:
            choices = [name for name in ("file", "files", *sources) if name in accepted]
            schema["oneOf" if exclusive else "anyOf"] = [
                {"required": [name], "properties": {name: {}}} for name in choices
            ]
        content[media_type] = {"schema": schema}
    if example is not None:
        content["application/json"]["example"] = dict(example)
    return {"requestBody": {"required": bool(sources or required), "content": content}}


def _form_field(schema: Schema) -> Schema:
    """A field of a form is text: it cannot be null, and structured values are JSON."""
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    rest = {name: value for name, value in schema.items() if name not in ("anyOf", "default")}
    if len(choices) == 1:
        schema = rest | choices[0]
    elif choices:
        schema = rest | {"anyOf": choices}
    if "$ref" in schema or schema.get("type") == "object":
        return JSON_TEXT | {key: value for key, value in rest.items() if key == "description"}
    if schema.get("type") == "array":
        return {"type": "string", "description": "Comma-separated"}
    return schema
