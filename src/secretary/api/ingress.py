"""Ingress routes: a file or URL in, a job out. Most of them wait for the result."""

import asyncio
import base64
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from ..core.errors import InvalidParameters, NotFound, UnsupportedFile
from ..core.files import AUDIO_TYPES, IMAGE_TYPES, OFFICE_TYPES, VIDEO_TYPES
from ..core.job import Job, JobStatus, new_id
from ..jobs.events import EventHub
from ..jobs.handler import Registry
from ..jobs.submission import JobRequest, parse_request
from ..storage.artifacts import JobFiles
from ..storage.sources import Upload
from .auth import Caller
from .models import Envelope, ProcessInfo, RequestWarnings, ResponseModel, Results, TalkOutput
from .openapi import (
    FILE,
    LOCATION,
    PROCESS_ID,
    URL,
    WAITED,
    Responses,
    Schema,
    error_responses,
    form_body,
    make_router,
    properties_of,
)
from .requests import Fields, Form, IdempotencyKey, job_service_of, read_form, with_trace
from .responses import JOB_STATUS, accepted, finished, job_error_response

#: Fields of the job itself, which some clients send along with its parameters.
JOB_FIELDS = frozenset(JobRequest.model_fields) - {"job_type", "parameters"}
#: Parameters that name the source if it is not uploaded.
SOURCES = ("url", "file_path", "file_source", "file_sources")
#: Fields of the call, not parameters of the job.
CALL_FIELDS = frozenset({"wait_ms", "sync", "async", "callback_url", "callback_token", "job_id"})

TRUE = frozenset({"true", "1", "yes", "on"})
FALSE = frozenset({"false", "0", "no", "off", ""})
#: As many images are analyzed together.
MAX_ANALYZED_IMAGES = 10
#: A larger archive is not part of the response; `archive_url` serves it.
MAX_INLINE_ARCHIVE = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class IngressRoute:
    """A path, its job type, the file types it accepts and the parameters it presets."""

    path: str
    job_type: str
    file_types: frozenset[str] = frozenset()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    example: Mapping[str, Any] | None = None
    max_files: int = 1

    @property
    def needs_source(self) -> bool:
        """Whether a file or URL is required; other routes take a text as part of the request."""
        return self.job_type not in ("transformer", "chat", "embedding", "text2image")

    @property
    def waits(self) -> bool:
        """Whether a request without a callback waits for the result."""
        return self.job_type not in ("pdf", "office")


PDF_TYPES = frozenset({"pdf", "pptx", "odp", "ole"})
TEXT_TYPES = OFFICE_TYPES | {"pdf"}
TEXT_EXAMPLE = {"text": "# Apples\n\nThey are *red*.", "target_format": "html"}
TEMPLATE_EXAMPLE = {
    "text": "They are *red*.",
    "template_content": "# {{name}}\n\n{{text}}",
    "context": {"name": "Apples"},
}
CHAT_EXAMPLE = {"messages": [{"role": "user", "content": "What is a leap year?"}], "temperature": 0}
EMBEDDING_EXAMPLE = {"markdown": "# Apples\n\nThey are *red*.", "chunk_size": 1000}
IMAGE_EXAMPLE = {"prompt": "A red apple on a white table", "size": "1024x1024"}

ROUTES = (
    IngressRoute("/pdf/process", "pdf", PDF_TYPES),
    IngressRoute("/pdf/process-url", "pdf", PDF_TYPES),
    IngressRoute("/pdf/process-mistral-ocr", "pdf", PDF_TYPES, {"mistral_ocr": True}),
    IngressRoute("/office/process", "office", OFFICE_TYPES),
    IngressRoute("/office/process-via-pdf", "office", OFFICE_TYPES, {"via_pdf": True}),
    IngressRoute("/imageocr/process", "imageocr", IMAGE_TYPES),
    IngressRoute("/imageocr/process-url", "imageocr", IMAGE_TYPES),
    IngressRoute(
        "/image-analyzer/process", "imageanalyzer", IMAGE_TYPES, max_files=MAX_ANALYZED_IMAGES
    ),
    IngressRoute("/image-analyzer/process-url", "imageanalyzer", IMAGE_TYPES),
    IngressRoute("/audio/process", "audio", AUDIO_TYPES | VIDEO_TYPES),
    IngressRoute("/video/process", "video", VIDEO_TYPES),
    IngressRoute("/video/youtube", "video"),
    IngressRoute("/transformer/template", "transformer", TEXT_TYPES, example=TEMPLATE_EXAMPLE),
    IngressRoute("/transformer/text", "transformer", TEXT_TYPES, example=TEXT_EXAMPLE),
    IngressRoute("/transformer/text/file", "transformer", TEXT_TYPES, example=TEXT_EXAMPLE),
    IngressRoute("/transformer/xxl-text", "transformer", TEXT_TYPES, {"summarize": True}),
    IngressRoute("/transformer/chat", "chat", example=CHAT_EXAMPLE),
    IngressRoute("/rag/embed-text", "embedding", example=EMBEDDING_EXAMPLE),
    IngressRoute("/text2image/generate", "text2image", example=IMAGE_EXAMPLE),
    IngressRoute("/session/process", "session"),
)
#: Paths whose bodies may be as large as an upload.
UPLOAD_PATHS = frozenset(f"/api{route.path}" for route in ROUTES if route.file_types)
#: The file types each job type accepts.
FILE_TYPES = {route.job_type: route.file_types for route in ROUTES if route.file_types}


class AcceptedJob(ResponseModel):
    id: str
    client_id: Any = Field(None, description="The `jobId` of the request")


class AcceptedWebhook(ResponseModel):
    delivered_to: str


class AcceptedLinks(ResponseModel):
    self: str
    stream: str
    cancel: str


class Accepted(ResponseModel):
    """The job was created; poll, stream or wait for the webhook."""

    status: Literal["accepted"]
    worker: Literal["secretary"]
    job_id: str
    process: ProcessInfo
    job: AcceptedJob
    webhook: AcceptedWebhook | None
    links: AcceptedLinks
    warnings: RequestWarnings = None
    error: None


class CallFields(BaseModel):
    """Fields that every ingress route accepts, beside those of the job and its parameters."""

    callback_url: str = Field(json_schema_extra=URL, description="Receives the job's events")
    callback_token: str = Field(description="Sent to the callback as a bearer token")
    jobId: str = Field(description="The client's own id for the job")
    wait_ms: int = Field(ge=0, description="Wait at most this long for the result; 0 is ignored")
    sync: bool = Field(description="Wait for the result, or return 202 at once")
    async_: bool = Field(alias="async", description="Return 202 at once")


PREFER: Schema = {
    "name": "Prefer",
    "in": "header",
    "description": "`wait=10`: wait at most this many seconds for the result."
    " `respond-async`: return 202 at once",
    "schema": {"type": "string"},
}
WAITS = "Without a callback, the response is the result, unless the request asks for `async`."
RETURNS_AT_ONCE = "The response is 202, unless the request asks to wait."
RESPONSES = error_responses((415, *JOB_STATUS.values())) | {
    200: {
        "model": Envelope[Results],
        "description": "The job completed while the request waited",
        "headers": LOCATION | WAITED | PROCESS_ID,
    },
    202: {"headers": LOCATION | WAITED | PROCESS_ID},
}

TALK_RESPONSE: Responses = {200: {**RESPONSES[200], "model": Envelope[TalkOutput]}}


def ingress_router(registry: Registry) -> APIRouter:
    """Request bodies are documented with the parameters of the registered job types."""
    router = make_router("ingress")
    job = properties_of(JobRequest)
    common = {name: job[name] for name in sorted(JOB_FIELDS)} | properties_of(CallFields)
    file = FILE | {"description": "The file, or name its `url`"}
    for route in ROUTES:
        body = form_body(
            common | parameters_of(registry, route.job_type),
            file=file if route.file_types else None,
            max_files=route.max_files,
            sources=SOURCES if route.needs_source else (),
            required=_required_parameters(registry, route),
            example=route.example,
        )
        router.add_api_route(
            route.path,
            _endpoint(route),
            methods=["POST"],
            status_code=202,
            name=route.path.strip("/").replace("/", "_").replace("-", "_"),
            summary=f"Submit a {route.job_type} job",
            description=f"Create a job of type `{route.job_type}` from a form or JSON. "
            + (WAITS if route.waits else RETURNS_AT_ONCE),
            response_model=Accepted,
            response_description="The job was created",
            responses=RESPONSES | (TALK_RESPONSE if route.job_type == "session" else {}),
            openapi_extra={"parameters": [PREFER], **body},
        )
    return router


def _endpoint(route: IngressRoute) -> Any:
    async def endpoint(request: Request, user: Caller, key: IdempotencyKey = None) -> Response:
        job_id, seconds, response = await _submit(request, route, user, key)
        if seconds:
            response = await wait_for_result(request, job_id, seconds) or response
        if applied := applied_preference(request, waited=bool(seconds)):
            response.headers["Preference-Applied"] = applied
        response.headers["X-Process-Id"] = job_id
        return response

    return endpoint


async def _submit(
    request: Request, route: IngressRoute, user: str | None, key: str | None
) -> tuple[str, float, Response]:
    """The id of the new job, how long to wait for its result, and the response that does not wait.
    The request itself, which may be megabytes of text, is not kept while this waits."""
    job_service = job_service_of(request)
    form = await read_form(
        request, job_service.files.uploads, job_id=new_id("job"), max_files=route.max_files
    )
    async with job_service.adding(form.uploads) as job_ids:
        submitted = with_trace(request, read_submission(form, route))
        seconds = wait_seconds(request, form.fields, submitted, waits=route.waits)
        if submitted.webhook is None or key is not None:
            job = await job_service.submit(submitted, user=user, key=key, uploads=form.uploads)
        else:
            job = await job_service.submit_for_callback(submitted, user=user, uploads=form.uploads)
        job_ids.append(job.job_id)
    return job.job_id, seconds, accepted(job, job_service.warnings(submitted))


def _required_parameters(registry: Registry, route: IngressRoute) -> tuple[str, ...]:
    """Of routes that take no source; on the others, it is the source that is required."""
    if route.needs_source or route.job_type not in registry:
        return ()
    model: type[BaseModel] = registry[route.job_type].parameters
    return tuple(model.model_json_schema().get("required", ()))


def parameters_of(registry: Registry, job_type: str) -> Schema:
    if job_type not in registry:
        return {}
    model: type[BaseModel] = registry[job_type].parameters
    return properties_of(model)


def read_submission(form: Form, route: IngressRoute) -> JobRequest:
    fields = Fields(form.fields)
    for name in ("file", "files"):
        if name in fields:
            raise InvalidParameters(f"{name}: must be sent as a file, in a multipart form")
    if form.uploads:
        refuse_other_sources(fields)
        for upload in form.uploads:
            which = upload.name if len(form.uploads) > 1 else None
            require_file_type(upload, route.file_types, name=which)
    elif route.needs_source and not any(name in fields for name in SOURCES):
        raise InvalidParameters("file: a file or a url is required")
    has_webhook = "webhook" in fields
    call = fields.take(CALL_FIELDS)
    job, parameters = fields.take(JOB_FIELDS, callback=call), fields.rest
    if "job_id" in call and (has_webhook or "callback_url" not in call):
        parameters["jobId"] = call["job_id"]
    if len(form.uploads) > 1:
        parameters["file_sources"] = [upload.source() for upload in form.uploads]
    elif form.upload is not None:
        parameters["file_source"] = form.upload.source()
    parameters |= route.parameters
    return parse_request(JobRequest, {**job, "job_type": route.job_type, "parameters": parameters})


def refuse_other_sources(given: Container[str]) -> None:
    for name in SOURCES:
        if name in given:
            raise InvalidParameters(f"{name}: send either a file or this, not both")


def require_file_type(
    upload: Upload, file_types: frozenset[str], *, name: str | None = None
) -> None:
    """`name` says which file it is, on routes that accept several."""
    prefix = f"{name}: " if name else ""
    if not upload.size:
        raise UnsupportedFile(f"{prefix}The file is empty")
    if upload.kind not in file_types:
        actual = f"The file type is {upload.kind}" if upload.kind else "The file type is unknown"
        accepted_types = ", ".join(sorted(file_types)) or "none"
        consumer = "this job type" if name else "this route"
        raise UnsupportedFile(f"{prefix}{actual}; {consumer} accepts: {accepted_types}")


# Waiting for the result


def wait_seconds(
    request: Request, fields: Mapping[str, Any], submitted: JobRequest, *, waits: bool
) -> float:
    """How long the response waits for the result; 0 for not at all. `waits` is whether it does if
    the request says nothing about it."""
    limit: float = request.app.state.max_wait_seconds
    given = {name.replace("_", "").lower(): value for name, value in fields.items()}
    sync, is_async = _read_flag("sync", given), _read_flag("async", given)
    if sync and is_async:
        raise InvalidParameters("sync and async: choose one")
    if sync:
        return limit
    try:
        wait_ms = float(given.get("waitms") or 0)
    except (TypeError, ValueError, OverflowError):
        wait_ms = -1
    if not 0 <= wait_ms < float("inf"):
        raise InvalidParameters("wait_ms: must be a number of at least 0")
    if wait := max(wait_ms / 1000, _preferred_wait(request)):
        return min(wait, limit)
    is_async = is_async or sync is False or "respond-async" in _preferences(request)
    starts_now = submitted.webhook is None and submitted.run_at is None
    return limit if waits and starts_now and not is_async else 0


def _read_flag(name: str, given: Mapping[str, Any]) -> bool | None:
    text = str(given.get(name) if given.get(name) is not None else "").lower()
    if text not in TRUE | FALSE:
        raise InvalidParameters(f"{name}: must be true or false")
    return text in TRUE if text else None


def _preferences(request: Request) -> dict[str, str]:
    """`Prefer: respond-async, wait=10` (RFC 7240)."""
    parts = request.headers.get("prefer", "").replace(";", ",").split(",")
    pairs = (part.partition("=") for part in parts)
    return {name.strip().lower(): value.strip().strip('"') for name, _, value in reversed([*pairs])}


def _preferred_wait(request: Request) -> float:
    text = _preferences(request).get("wait", "")
    return float(text[:6]) if text.isascii() and text.isdigit() else 0.0


def applied_preference(request: Request, *, waited: bool) -> str | None:
    if seconds := _preferred_wait(request):
        return f"wait={min(seconds, request.app.state.max_wait_seconds):g}"
    return "respond-async" if "respond-async" in _preferences(request) and not waited else None


async def wait_for_result(request: Request, job_id: str, seconds: float) -> Response | None:
    """The outcome of the job, or None if it has not finished in time or the client has left."""
    hub: EventHub = request.app.state.hub
    waiting = asyncio.create_task(hub.wait_until_final(job_id, seconds))
    leaving = asyncio.create_task(_until_disconnected(request))
    try:
        await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        ended = waiting.result() if waiting.done() else None
    finally:
        waiting.cancel()
        leaving.cancel()
    if ended is None:
        return None
    if ended.status is JobStatus.COMPLETED:
        files = job_service_of(request).files
        complete = await files.load_results(ended)
        match ended.job_type:
            case "session":
                data = {"output": await _talk(files, ended, complete)}
            case "text2image":
                data = await _with_image_data(files, ended, complete)
            case _:
                data = _with_output_text(complete)
        return finished(request, complete, data)
    assert ended.error is not None
    response = job_error_response(ended.error)
    response.headers["Location"] = f"/api/jobs/{job_id}"
    return response


def _with_output_text(job: Job) -> dict[str, Any]:
    """The results; if a template was applied to a transcript, clients that wait prefer its text."""
    results = job.public_results
    if "transcription" in results and "template" in (results.get("metadata") or {}):
        results["output_text"] = results["markdown_content"]
    return results


async def _talk(files: JobFiles, job: Job, complete: Job) -> dict[str, Any]:
    """The results of a talk, with the archive itself and the path of the document in it: clients
    store both without another download."""
    output = complete.public_results
    output["markdown_file"] = (job.results or {}).get("markdown_file")
    try:
        archive = await files.archive(job)
    except NotFound:  # the request wanted none
        return output
    if archive.size <= MAX_INLINE_ARCHIVE:
        content = await files.read(archive)
        encoded = await asyncio.to_thread(base64.b64encode, content)
        output["archive_data"] = encoded.decode("ascii")
    return output


async def _with_image_data(files: JobFiles, job: Job, complete: Job) -> dict[str, Any]:
    """The results of a `text2image` job with the images themselves, as base64."""
    data = complete.public_results
    images = []
    for stored, image in zip((job.results or {})["images"], data["images"], strict=True):
        content = await files.read(await files.find(job, stored["file"]))
        encoded = await asyncio.to_thread(base64.b64encode, content)
        images.append({**image, "image_base64": encoded.decode("ascii")})
    return {**data, "images": images, "image_base64": images[0]["image_base64"]}


async def _until_disconnected(request: Request) -> None:
    """Its body has been read, so the only message that can follow is the end of the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
