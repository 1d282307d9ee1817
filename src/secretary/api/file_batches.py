"""Several files in, one batch out: a job for each file."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from ..core.errors import InvalidParameters, SecretaryError, StoreUnavailable, UnsupportedFile
from ..core.file_types import AUDIO_TYPES, IMAGE_TYPES, OFFICE_TYPES, VIDEO_TYPES
from ..jobs.submission import BatchRequest, parse_request
from ..storage.uploads import Upload, Uploads
from .auth import Caller
from .batches import answered
from .dependencies import Key, job_service_of, traced
from .forms import Fields, FilesForm, callback, from_json, read_files
from .ingress import ROUTES, SOURCES, require_kind
from .schemas import ADDRESS, FILE, TEXT, Schema

router = APIRouter(prefix="/api", tags=["batches"])

PATH = "/api/batches/from-files"
MAX_FILES = 500

#: Which files a job type takes.
KINDS = {ingress.job_type: ingress.kinds for ingress in ROUTES if ingress.kinds}
#: Containers for sound as well as for moving pictures: there the name is asked.
EITHER = AUDIO_TYPES & VIDEO_TYPES
ENDINGS_OF_SOUND = (".m4a", ".m4b", ".oga", ".ogg", ".opus", ".weba", ".mka", ".wma", ".aac")

#: Said once for all jobs; what a job says itself wins.
OF_EACH = ("job_type", "parameters", "priority", "run_at", "max_attempts", "timeout_s")
OF_THE_CALL = ("jobs", "callback_url", "callback_token", "job_id", "is_active", *OF_EACH)
OF_THE_BATCH = ("batch_name", "user_id", "access_control", "webhook", "traceparent")


@router.post("/batches/from-files", status_code=202)
async def submit_files(request: Request, user: Caller, key: Key = None) -> JSONResponse:
    """Hand in a job for each of several files, all or none."""
    job_service = job_service_of(request)
    form = await read_files(
        request,
        job_service.files.uploads,
        max_files=MAX_FILES,
        max_fields_bytes=request.app.state.max_body_bytes,
    )
    try:
        batch, uploads = _asked(form)
        stored, job_ids = await job_service.submit_batch(
            traced(request, batch), user=user, key=key, uploads=uploads
        )
    except SecretaryError as error:
        # A store that broke off may have the jobs all the same; then they need their files.
        if not isinstance(error, StoreUnavailable):
            await _remove(job_service.files.uploads, form.uploads)
        raise
    if form.uploads[0].job_id not in job_ids:  # the same request came before, with its own files
        await _remove(job_service.files.uploads, form.uploads)
    return answered(request, stored, job_ids)


async def _remove(uploads: Uploads, received: list[Upload]) -> None:
    for upload in received:
        await uploads.remove(upload.job_id)


def job_type_of(upload: Upload) -> str | None:
    """The type that a file is for when nobody says; its content tells, not its name."""
    kind = upload.kind
    if kind == "pdf":
        return "pdf"
    if kind in IMAGE_TYPES:
        return "imageocr"
    if kind in OFFICE_TYPES:
        return "office"
    if kind in EITHER:
        return "audio" if upload.name.lower().endswith(ENDINGS_OF_SOUND) else "video"
    if kind in AUDIO_TYPES:
        return "audio"
    return "video" if kind in VIDEO_TYPES else None


def _asked(form: FilesForm) -> tuple[BatchRequest, list[Upload | None]]:
    """The batch, and for each of its jobs the file that belongs to it."""
    if not form.uploads:
        raise InvalidParameters("file: at least one file is needed")
    fields = Fields(form.fields)
    if "file" in fields:
        raise InvalidParameters("file: it must be sent as a file, in a multipart form")
    control, about = fields.take(OF_THE_CALL), fields.take(OF_THE_BATCH)
    if "webhook" not in about and "callback_url" in control:
        about["webhook"] = callback(control)
    if "is_active" in control:
        about["isActive"] = control["is_active"]
    each = {name: control[name] for name in OF_EACH if name in control}
    # As on the routes for one file: whatever else a form has is a parameter.
    each["parameters"] = fields.rest | _object("parameters", control.get("parameters"))
    jobs, uploads = _jobs(control.get("jobs"), each, form.uploads)
    return parse_request(BatchRequest, {**about, "jobs": jobs}), uploads


def _jobs(
    text: str | None, each: Mapping[str, Any], received: list[Upload]
) -> tuple[list[Any], list[Upload | None]]:
    wanted = from_json("jobs", text) if text else [{"file": n} for n in range(len(received))]
    if not isinstance(wanted, list) or not all(isinstance(one, dict) for one in wanted):
        raise InvalidParameters("jobs: it must be a list of jobs")
    jobs = [_completed(one, each) for one in wanted]
    uploads = [_file_of(job, number, received) for number, job in enumerate(jobs)]
    used = [upload.job_id for upload in uploads if upload is not None]
    for number, upload in enumerate(received):
        if used.count(upload.job_id) != 1:
            raise InvalidParameters(f"jobs: file {number} ({upload.name}) must be of one job")
    return [_with_source(*pair) for pair in zip(jobs, uploads, strict=True)], uploads


def _completed(job: dict[str, Any], each: Mapping[str, Any]) -> dict[str, Any]:
    said = {name: value for name, value in job.items() if value not in ("", None)}
    own = _object("parameters", said.get("parameters"))
    return {**each, **said, "parameters": {**each["parameters"], **own}}


def _object(name: str, value: Any) -> dict[str, Any]:
    found = {} if value is None else from_json(name, value)
    if not isinstance(found, dict):
        raise InvalidParameters(f"{name}: it must be an object")
    return found


def _file_of(job: dict[str, Any], number: int, received: list[Upload]) -> Upload | None:
    match job.pop("file", None):
        case None:
            return None
        case int(at) if not isinstance(at, bool) and 0 <= at < len(received):
            return received[at]
    raise InvalidParameters(
        f"jobs.{number}.file: it must be the number of a file, from 0 to {len(received) - 1}"
    )


def _with_source(job: dict[str, Any], upload: Upload | None) -> dict[str, Any]:
    if upload is None:
        return job
    job_type = job.get("job_type") or job_type_of(upload)
    if job_type not in KINDS and job_type is not None:
        raise InvalidParameters(f"job_type: a job of type {str(job_type)[:100]!r} takes no file")
    named = [name for name in SOURCES if name in job["parameters"]]
    if named:
        raise InvalidParameters(f"{named[0]}: send either a file or this, not both")
    if job_type is None and upload.size:
        known = ", ".join(sorted(KINDS))
        raise UnsupportedFile(
            f"{upload.name}: The file is of no kind that is known; say its job_type: {known}"
        )
    require_kind(upload, KINDS.get(job_type or "", frozenset()), name=upload.name)
    parameters = {**job["parameters"], "file_source": upload.source()}
    return {**job, "job_type": job_type, "parameters": parameters}


def files_body() -> Schema:
    """For the API's own description."""
    in_json: Schema = {"type": "string", "contentMediaType": "application/json"}
    properties: Schema = {
        "file": {
            "type": "array",
            "items": FILE,
            "minItems": 1,
            "maxItems": MAX_FILES,
            "description": "The files, each in a part of its own of this name",
        },
        "batch_name": {**TEXT, "maxLength": 500},
        "job_type": {"enum": sorted(KINDS), "description": "Without it each file's content tells"},
        "parameters": {**in_json, "description": "Of all jobs"},
        "jobs": {
            **in_json,
            "description": "A list as in `POST /api/batches`; `file` of a job is the number of its"
            " file, from 0. Without it there is one job for each file",
        },
        "webhook": in_json,
        "access_control": in_json,
        "callback_url": ADDRESS,
        "callback_token": TEXT,
        "jobId": TEXT,
    }
    schema = {"type": "object", "required": ["file"], "properties": properties}
    return {"required": True, "content": {"multipart/form-data": {"schema": schema}}}
