"""A file or a URL in, a job out: one route for each kind of document."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from ..errors import InvalidParameters, SecretaryError, StoreUnavailable, UnsupportedFile
from ..file_kinds import MOVING, OFFICE, PICTURES, SOUND
from ..job import Job, new_id
from ..submission import JobRequest, read
from ..uploads import Upload
from .access import Caller
from .asked import Key, desk_of
from .envelope import accepted
from .fields import Fields, callback
from .forms import Form, read_form
from .tracing import traced
from .waiting import patience_of, say_what_was_preferred, told_in_time

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
TEXTS = OFFICE | {"pdf"}

ROUTES = (
    Ingress("/pdf/process", "pdf", PDF),
    Ingress("/pdf/process-url", "pdf", PDF),
    Ingress("/office/process", "office", OFFICE),
    Ingress("/office/process-via-pdf", "office", OFFICE, {"via_pdf": True}),
    Ingress("/imageocr/process", "imageocr", PICTURES),
    Ingress("/imageocr/process-url", "imageocr", PICTURES),
    Ingress("/audio/process", "audio", SOUND | MOVING),
    Ingress("/video/process", "video", MOVING),
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
    desk = desk_of(request)
    job_id = new_id("job")
    form = await read_form(
        request,
        desk.files.uploads,
        job_id=job_id,
        max_fields_bytes=request.app.state.max_body_bytes,
    )
    try:
        asked = traced(request, _asked(form, ingress))
        patience = patience_of(request, form.fields)
        job = await desk.submit(asked, user=user, key=key, job_id=job_id, upload=form.upload)
    except SecretaryError as error:
        # A store that broke off may have the job all the same; then it needs its file.
        if not isinstance(error, StoreUnavailable):
            await desk.files.uploads.remove(job_id)
        raise
    if job.job_id != job_id:  # the same request came before, with its own upload
        await desk.files.uploads.remove(job_id)
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
    return read(JobRequest, {**about, "job_type": ingress.job_type, "parameters": parameters})


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
