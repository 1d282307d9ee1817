"""A file or a URL in, a job out: one route for each kind of document."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from ..core.errors import InvalidParameters, SecretaryError, StoreUnavailable, UnsupportedFile
from ..core.file_types import AUDIO_TYPES, IMAGE_TYPES, OFFICE_TYPES, VIDEO_TYPES
from ..core.job import Job, JobStatus, new_id
from ..jobs.events import EventHub
from ..jobs.submission import JobRequest, parse_request
from ..storage.uploads import Upload
from .auth import Caller
from .dependencies import Key, job_service_of, traced
from .envelope import accepted, finished
from .errors import job_error_response
from .forms import Fields, Form, callback, read_form

LONGEST_SECONDS = 60.0
TRUE = frozenset({"true", "1", "yes", "on"})
FALSE = frozenset({"false", "0", "no", "off", ""})


def patience_of(request: Request, fields: Mapping[str, Any]) -> float:
    """How many seconds the client wants to wait; 0: not at all."""
    told = {name.replace("_", "").lower(): value for name, value in fields.items()}
    if _is_true(told.get("sync")):
        return LONGEST_SECONDS
    milliseconds = _number("wait_ms", told.get("waitms") or 0)
    return min(max(milliseconds / 1000, _preferred(request)), LONGEST_SECONDS)


def _is_true(value: Any) -> bool:
    text = str(value if value is not None else "").lower()
    if text not in TRUE | FALSE:
        raise InvalidParameters("sync: it must be true or false")
    return text in TRUE


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = -1
    if not 0 <= number < float("inf"):
        raise InvalidParameters(f"{name}: it must be a number of at least 0")
    return number


def _preferred(request: Request) -> float:
    """`Prefer: respond-async, wait=10` (RFC 7240). What is not understood is ignored."""
    for part in request.headers.get("prefer", "").replace(";", ",").split(","):
        name, _, value = part.partition("=")
        seconds = value.strip().strip('"')
        if name.strip().lower() == "wait" and seconds.isascii() and seconds.isdigit():
            return min(float(seconds[:6]), LONGEST_SECONDS)
    return 0


async def told_in_time(request: Request, job: Job, seconds: float) -> JSONResponse | None:
    """How the job ended, or None when it has not after so many seconds."""
    hub: EventHub = request.app.state.hub
    ended = await hub.wait_until_final(job.job_id, seconds)
    if ended is None:
        return None
    if ended.status is JobStatus.COMPLETED:
        response = finished(request, await job_service_of(request).with_results(ended))
    else:
        assert ended.error is not None
        response = job_error_response(ended.error)
    response.headers["Location"] = f"/api/jobs/{job.job_id}"
    return response


def say_what_was_preferred(request: Request, response: JSONResponse) -> None:
    """Also an answer that the end of the job did not come in time for has waited."""
    if seconds := _preferred(request):
        response.headers["Preference-Applied"] = f"wait={seconds:g}"


router = APIRouter(prefix="/api", tags=["ingress"])

#: What a job says about itself beside its parameters; some clients send it with the form.
OF_THE_JOB = frozenset(JobRequest.model_fields) - {"job_type", "parameters"}
#: How a job names what it works on, if not by an upload.
SOURCES = ("url", "file_path", "file_source")
#: Heard by the route itself.
OF_THE_CALL = frozenset({"wait_ms", "sync", "callback_url", "callback_token", "job_id"})


@dataclass(frozen=True, slots=True)
class Ingress:
    """One route: its job type, the kinds of files it takes, and what it sets by itself."""

    path: str
    job_type: str
    kinds: frozenset[str] = frozenset()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    #: Else the job may go without: a transformer's text may stand in the request.
    needs_source: bool = True
    #: A body in JSON, for the API's own description: what it needs no schema tells.
    example: Mapping[str, Any] | None = None


PDF = frozenset({"pdf", "pptx", "odp", "ole"})
TEXTS = OFFICE_TYPES | {"pdf"}

ROUTES = (
    Ingress("/pdf/process", "pdf", PDF),
    Ingress("/pdf/process-url", "pdf", PDF),
    Ingress("/office/process", "office", OFFICE_TYPES),
    Ingress("/office/process-via-pdf", "office", OFFICE_TYPES, {"via_pdf": True}),
    Ingress("/imageocr/process", "imageocr", IMAGE_TYPES),
    Ingress("/imageocr/process-url", "imageocr", IMAGE_TYPES),
    Ingress("/audio/process", "audio", AUDIO_TYPES | VIDEO_TYPES),
    Ingress("/video/process", "video", VIDEO_TYPES),
    Ingress("/video/youtube", "video"),
    Ingress(
        "/transformer/template",
        "transformer",
        TEXTS,
        needs_source=False,
        example={
            "text": "They are *red*.",
            "template_content": "# {{name}}\n\n{{text}}",
            "context": {"name": "Apples"},
        },
    ),
    Ingress(
        "/transformer/text",
        "transformer",
        TEXTS,
        needs_source=False,
        example={"text": "# Apples\n\nThey are *red*.", "target_format": "html"},
    ),
    Ingress("/session/process", "session"),
)
#: Paths whose bodies may be as large as an upload.
UPLOAD_PATHS = frozenset(f"/api{ingress.path}" for ingress in ROUTES if ingress.kinds)


async def _receive(
    request: Request, ingress: Ingress, user: str | None, key: str | None
) -> JSONResponse:
    job_service = job_service_of(request)
    job_id = new_id("job")
    form = await read_form(
        request,
        job_service.files.uploads,
        job_id=job_id,
        max_fields_bytes=request.app.state.max_body_bytes,
    )
    try:
        asked = traced(request, _asked(form, ingress))
        patience = patience_of(request, form.fields)
        job = await job_service.submit(asked, user=user, key=key, job_id=job_id, upload=form.upload)
    except SecretaryError as error:
        # A store that broke off may have the job all the same; then it needs its file.
        if not isinstance(error, StoreUnavailable):
            await job_service.files.uploads.remove(job_id)
        raise
    if job.job_id != job_id:  # the same request came before, with its own upload
        await job_service.files.uploads.remove(job_id)
    told = await told_in_time(request, job, patience) if patience else None
    answer = told or accepted(request, job, _client_id(job))
    say_what_was_preferred(request, answer)
    return answer


def _asked(form: Form, ingress: Ingress) -> JobRequest:
    fields = Fields(form.fields)
    if "file" in fields:
        raise InvalidParameters("file: it must be sent as a file, in a multipart form")
    _require_source(fields, form, ingress)
    control, about = fields.take(OF_THE_CALL), fields.take(OF_THE_JOB)
    parameters = fields.rest
    if "webhook" not in about and "callback_url" in control:
        about["webhook"] = callback(control)
    elif "job_id" in control:
        parameters["jobId"] = control["job_id"]
    if form.upload is not None:
        parameters["file_source"] = form.upload.source()
    parameters |= ingress.parameters
    return parse_request(
        JobRequest, {**about, "job_type": ingress.job_type, "parameters": parameters}
    )


def _require_source(fields: Fields, form: Form, ingress: Ingress) -> None:
    upload = form.upload
    named = [name for name in SOURCES if name in fields]
    if upload is None and not named and ingress.needs_source:
        raise InvalidParameters("file: a file or a url is needed")
    if upload is None:
        return
    if named:
        raise InvalidParameters(f"{named[0]}: send either a file or this, not both")
    require_kind(upload, ingress.kinds)


def require_kind(upload: Upload, kinds: frozenset[str], *, name: str | None = None) -> None:
    """`name` is told where there are several files."""
    place = f"{name}: " if name else ""
    if not upload.size:
        raise UnsupportedFile(f"{place}The file is empty")
    if upload.kind not in kinds:
        told = f"a {upload.kind} file" if upload.kind else "of no kind that is known"
        wanted = ", ".join(sorted(kinds)) or "none"
        taker = "this job type" if name else "this route"
        raise UnsupportedFile(f"{place}The file is {told}; {taker} takes: {wanted}")


def _client_id(job: Job) -> str | None:
    """The client's own name for the job, if it gave one."""
    told = job.webhook.job_id if job.webhook else None
    extra = job.parameters.get("extra")
    return told or (extra.get("jobId") if isinstance(extra, dict) else None)


def _add_route(ingress: Ingress) -> None:
    async def receive(request: Request, user: Caller, key: Key = None) -> JSONResponse:
        return await _receive(request, ingress, user, key)

    name = ingress.path.strip("/").replace("/", "_").replace("-", "_")
    router.add_api_route(
        ingress.path,
        receive,
        methods=["POST"],
        status_code=202,
        name=name,
        summary=f"Hand in a {ingress.job_type} job",
        description=f"Always a job, of type `{ingress.job_type}`.",
    )


for _ingress in ROUTES:
    _add_route(_ingress)
