"""Routes for batches, including batches created from uploaded files or a conference schedule."""

import asyncio
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Request
from fastapi.responses import Response
from pydantic import GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from ..core import errors
from ..core.files import AUDIO_TYPES, IMAGE_TYPES, OFFICE_TYPES, VIDEO_TYPES
from ..core.job import Batch, Delivery, JobError, new_id
from ..jobs.conference_import import ConferenceImporter, ScheduleRequest, batch_request
from ..jobs.handler import Registry
from ..jobs.submission import BatchRequest, parse_request, resolved_job_type
from ..storage.sources import Upload
from ..store import BatchQuery
from . import models, requests
from .auth import Caller
from .ingress import FILE_TYPES, parameters_of, refuse_other_sources, require_file_type
from .jobs import deliveries_response
from .models import DeliveryList, EnqueuedBatch, Envelope, ResponseModel
from .openapi import FILE, JSON_TEXT, URL, Schema, creates, error_responses, form_body, make_router
from .responses import enqueued, job_error_response, success

router = make_router("batches")

ENQUEUED = creates(Envelope[EnqueuedBatch], "The jobs are waiting for workers")
ENQUEUED_FROM_FILE: Any = ENQUEUED | {"responses": ENQUEUED["responses"] | error_responses([415])}


class _OptionallyWrapped:
    """Documents that a batch is also accepted inside `{"batch": {…}}`."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        batch = handler(schema)
        wrapped = {"type": "object", "required": ["batch"], "properties": {"batch": batch}}
        return {"anyOf": [batch, wrapped]}


BatchBody = Annotated[BatchRequest, _OptionallyWrapped()]
ActiveBody = Annotated[bool | None, Body(alias="isActive", embed=True)]


@router.post("/jobs/batch", **ENQUEUED, name="submit_batch_of_jobs")
@router.post("/batches", **ENQUEUED)
async def submit_batch(
    request: Request, batch: BatchBody, user: Caller, key: requests.IdempotencyKey = None
) -> Response:
    """Submit several jobs, all or nothing."""
    submitted = requests.with_trace(request, batch)
    stored = await requests.job_service_of(request).submit_batch(submitted, user=user, key=key)
    return _enqueued(request, submitted, *stored)


def _enqueued(
    request: Request, submitted: BatchRequest, batch: Batch, job_ids: list[str]
) -> Response:
    warnings = requests.job_service_of(request).warnings(submitted)
    data = {"batch_id": batch.batch_id, "job_ids": job_ids, "batch": batch.document()}
    return enqueued(request, f"/api/batches/{batch.batch_id}", data, warnings)


class BatchPage(ResponseModel):
    batches: list[models.Batch]
    next_cursor: str | None


@router.get("/batches", response_model=Envelope[BatchPage])
async def list_batches(
    request: Request,
    user: Caller,
    user_id: requests.OptionalText = None,
    archived: requests.ArchivedFilter = "false",
    limit: requests.Limit = 100,
    cursor: requests.Cursor = None,
) -> Response:
    """List batches, newest first."""
    query = BatchQuery(
        user_id=user_id, archived=requests.ARCHIVED[archived], limit=limit, cursor=cursor
    )
    page = await requests.job_service_of(request).batches(query, user=user)
    batches = [batch.document() for batch in page.items]
    return success(request, "batches", {"batches": batches, "next_cursor": page.next_cursor})


BATCH: Any = {"response_model": Envelope[models.Batch]}


@router.get("/batch/{batch_id}", **BATCH, name="get_batch_by_old_path")
@router.get("/jobs/batch/{batch_id}", **BATCH, name="get_batch_of_jobs")
@router.get("/batches/{batch_id}", **BATCH)
async def get_batch(
    request: Request, batch_id: requests.BatchId, user: Caller, include: requests.IncludeJobs = None
) -> Response:
    """Return a batch; `include=jobs` adds its jobs."""
    with_jobs, job_service = (
        requests.read_names("include", include, ["jobs"]),
        requests.job_service_of(request),
    )
    document = (await job_service.batch(batch_id, user=user)).document()
    if with_jobs:
        jobs = await job_service.jobs_of_batch(batch_id, user=user)
        document["jobs"] = [job.summary() for job in jobs]
    return success(request, "batches", document, process_id=batch_id)


class DeletedBatch(ResponseModel):
    batch_id: str
    deleted: Literal[True]


@router.delete("/batches/{batch_id}", response_model=Envelope[DeletedBatch])
async def delete_batch(request: Request, batch_id: requests.BatchId, user: Caller) -> Response:
    """Delete a finished batch, its jobs and their files."""
    await requests.job_service_of(request).delete_batch(batch_id, user=user)
    return success(request, "batches", {"batch_id": batch_id, "deleted": True}, process_id=batch_id)


@router.post("/batches/{batch_id}/archive", **BATCH)
async def archive_batch(request: Request, batch_id: requests.BatchId, user: Caller) -> Response:
    """Hide a batch and its jobs from default listings. Nothing is deleted."""
    batch = await requests.job_service_of(request).archive_batch(batch_id, user=user)
    return _batch_response(request, batch)


@router.post("/batches/{batch_id}/unarchive", **BATCH)
async def unarchive_batch(request: Request, batch_id: requests.BatchId, user: Caller) -> Response:
    """Show an archived batch and its jobs in listings again."""
    job_service = requests.job_service_of(request)
    batch = await job_service.archive_batch(batch_id, user=user, archived=False)
    return _batch_response(request, batch)


@router.post("/batches/{batch_id}/toggle-active", response_model=Envelope[models.Batch])
async def toggle_active(
    request: Request, batch_id: requests.BatchId, user: Caller, active: ActiveBody = None
) -> Response:
    """Pause or resume a batch. Without a body, toggles the current state."""
    batch = await requests.job_service_of(request).set_batch_active(batch_id, active, user=user)
    return _batch_response(request, batch)


@router.post("/batches/{batch_id}/cancel", **BATCH)
async def cancel_batch(request: Request, batch_id: requests.BatchId, user: Caller) -> Response:
    """Cancel all unfinished jobs of a batch."""
    job_service = requests.job_service_of(request)
    job_ids = await job_service.cancel_batch(batch_id, user=user)
    return _batch_response(request, await job_service.batch(batch_id, user=user), job_ids)


@router.post("/batches/{batch_id}/restart-failed", **BATCH)
async def restart_failed(request: Request, batch_id: requests.BatchId, user: Caller) -> Response:
    """Run the failed jobs of a batch again."""
    job_service = requests.job_service_of(request)
    job_ids = await job_service.restart_failed(batch_id, user=user)
    return _batch_response(request, await job_service.batch(batch_id, user=user), job_ids)


def _batch_response(
    request: Request, batch: Batch, changed_job_ids: list[str] | None = None
) -> Response:
    document = batch.document()
    if changed_job_ids is not None:
        document["job_ids"] = changed_job_ids
    return success(request, "batches", document, process_id=batch.batch_id)


@router.get("/batches/{batch_id}/deliveries", response_model=Envelope[DeliveryList])
async def list_deliveries_of_batch(
    request: Request, batch_id: requests.BatchId, user: Caller
) -> Response:
    """List the deliveries of the batch's webhook, with every attempt."""
    batch = await requests.job_service_of(request).batch(batch_id, user=user)
    return deliveries_response(request, "batches", batch.deliveries, process_id=batch_id)


@router.post("/batches/{batch_id}/deliveries/{n}/replay", response_model=Envelope[Delivery])
async def replay_delivery_of_batch(
    request: Request, batch_id: requests.BatchId, n: requests.DeliveryNumber, user: Caller
) -> Response:
    """Send the final event of the batch again, with the same `webhook-id`."""
    delivery = await requests.job_service_of(request).replay_batch(batch_id, n, user=user)
    return success(request, "batches", delivery.model_dump(mode="json"), process_id=batch_id)


# Batches from uploaded files: one job per file

FROM_FILES_PATH = "/api/batches/from-files"
MAX_FILES = 500

#: Of containers that hold audio or video.
AUDIO_SUFFIXES = (".m4a", ".m4b", ".oga", ".ogg", ".opus", ".weba", ".mka", ".wma", ".aac")

#: Defaults for all jobs; a job's own value takes precedence.
JOB_DEFAULTS = ("job_type", "parameters", "priority", "run_at", "max_attempts", "timeout_s")
FILES_CALL_FIELDS = (
    "jobs", "callback_url", "callback_token", "job_id", "is_active", *JOB_DEFAULTS,
)  # fmt: skip
BATCH_FIELDS = (
    "batch_name", "user_id", "access_control", "webhook", "traceparent", "retention_days",
)  # fmt: skip

FILES_BODY: Schema = {
    "type": "object",
    "required": ["file"],
    "properties": {
        "file": {
            "type": "array",
            "items": FILE,
            "minItems": 1,
            "maxItems": MAX_FILES,
            "description": "The files, each as a part of this name",
        },
        "batch_name": {"type": "string", "maxLength": 500},
        "job_type": {
            "type": "string",
            "enum": sorted(FILE_TYPES),
            "description": "Detected from each file's content if omitted",
        },
        "parameters": {**JSON_TEXT, "description": "Parameters of all jobs"},
        "jobs": {
            **JSON_TEXT,
            "description": "A list as in `POST /api/batches`; `file` of a job is the index of its"
            " file, from 0. If omitted, each file gets one job",
        },
        "webhook": JSON_TEXT,
        "access_control": JSON_TEXT,
        "retention_days": {"type": "number", "minimum": 0},
        "callback_url": URL,
        "callback_token": {"type": "string"},
        "jobId": {"type": "string"},
    },
}


@router.post(
    "/batches/from-files",
    **ENQUEUED_FROM_FILE,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"multipart/form-data": {"schema": FILES_BODY}},
        }
    },
)
async def submit_files(
    request: Request, user: Caller, key: requests.IdempotencyKey = None
) -> Response:
    """Submit one job per uploaded file, all or nothing."""
    job_service = requests.job_service_of(request)
    form = await requests.read_files(request, job_service.files.uploads, max_files=MAX_FILES)
    async with job_service.adding(form.uploads) as job_ids:
        batch, uploads = _read_files_form(form)
        submitted = requests.with_trace(request, batch)
        stored = await job_service.submit_batch(submitted, user=user, key=key, uploads=uploads)
        job_ids += stored[1]
    return _enqueued(request, submitted, *stored)


def _read_files_form(form: requests.Form) -> tuple[BatchRequest, list[Upload | None]]:
    """The batch, and the file of each of its jobs."""
    if not form.uploads:
        raise errors.InvalidParameters("file: at least one file is required")
    fields = requests.Fields(form.fields)
    if "file" in fields:
        raise errors.InvalidParameters("file: must be sent as a file, in a multipart form")
    call = fields.take(FILES_CALL_FIELDS)
    batch = fields.take(BATCH_FIELDS, callback=call)
    if "is_active" in call:
        batch["isActive"] = call["is_active"]
    defaults = {name: call[name] for name in JOB_DEFAULTS if name in call}
    # As on the routes for one file, any other field of the form is a parameter.
    defaults["parameters"] = fields.rest | _read_parameters(call.get("parameters"))
    given = [{"file": number} for number in range(len(form.uploads))]
    if text := call.get("jobs"):
        given = requests.parse_json("jobs", text)
    if not isinstance(given, list) or not all(isinstance(job, dict) for job in given):
        raise errors.InvalidParameters("jobs: must be a list of jobs")
    jobs = [_with_defaults(job, defaults) for job in given]
    uploads = [_take_file(job, number, form.uploads) for number, job in enumerate(jobs)]
    used = [upload.job_id for upload in uploads if upload is not None]
    for number, upload in enumerate(form.uploads):
        if used.count(upload.job_id) != 1:
            text = f"jobs: file {number} ({upload.name}) must belong to exactly one job"
            raise errors.InvalidParameters(text)
    pairs = zip(jobs, uploads, strict=True)
    jobs = [_with_source(job, upload) if upload else job for job, upload in pairs]
    return parse_request(BatchRequest, {**batch, "jobs": jobs}), uploads


def _with_defaults(job: dict[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in job.items() if value not in ("", None)}
    parameters = _read_parameters(given.get("parameters"))
    return {**defaults, **given, "parameters": {**defaults["parameters"], **parameters}}


def _read_parameters(value: Any) -> dict[str, Any]:
    parameters = {} if value is None else requests.parse_json("parameters", value)
    if not isinstance(parameters, dict):
        raise errors.InvalidParameters("parameters: must be an object")
    return parameters


def _take_file(job: dict[str, Any], number: int, received: list[Upload]) -> Upload | None:
    match job.pop("file", None):
        case None:
            return None
        case int(at) if not isinstance(at, bool) and 0 <= at < len(received):
            return received[at]
    expected = f"must be the index of a file, from 0 to {len(received) - 1}"
    raise errors.InvalidParameters(f"jobs.{number}.file: {expected}")


def _with_source(job: dict[str, Any], upload: Upload) -> dict[str, Any]:
    job_type = job.get("job_type") or detect_job_type(upload)
    if job_type is not None and resolved_job_type(str(job_type)) not in FILE_TYPES:
        raise errors.InvalidParameters(f"job_type: {str(job_type)[:100]!r} does not accept files")
    refuse_other_sources(job["parameters"])
    if job_type is None and upload.size:
        valid = ", ".join(sorted(FILE_TYPES))
        text = f"{upload.name}: The file type is unknown; set job_type to one of {valid}"
        raise errors.UnsupportedFile(text)
    file_types = FILE_TYPES.get(resolved_job_type(str(job_type)), frozenset())
    require_file_type(upload, file_types, name=upload.name)
    parameters = {**job["parameters"], "file_source": upload.source()}
    return {**job, "job_type": job_type, "parameters": parameters}


def detect_job_type(upload: Upload) -> str | None:
    """The job type for a file, by its content."""
    if upload.kind in AUDIO_TYPES & VIDEO_TYPES:  # the file name decides
        return "audio" if upload.name.lower().endswith(AUDIO_SUFFIXES) else "video"
    file_types = {
        "pdf": {"pdf"},
        "imageocr": IMAGE_TYPES,
        "office": OFFICE_TYPES,
        "audio": AUDIO_TYPES,
        "video": VIDEO_TYPES,
    }
    return next((name for name, kinds in file_types.items() if upload.kind in kinds), None)


# Batches from a conference schedule: one session job per talk

SCHEDULE_SOURCES = ("url", "schedule")
#: Fields of the call, not parameters of the jobs.
SCHEDULE_CALL_FIELDS = (*SCHEDULE_SOURCES, "callback_url", "callback_token", "job_id")
SCHEDULE_EXAMPLE = {
    "schedule": '<schedule><conference><title>MiniCon</title></conference><day date="2031-02-01">'
    '<room name="Hall"><event id="1"><title>Ducks in a row</title><start>10:00</start>'
    "<url>https://example.org/talks/1</url><track>Birds</track></event></room></day></schedule>",
    "track": "Birds",
    "target_language": "de",
}


def schedule_router(registry: Registry) -> APIRouter:
    """Its request body is documented with the parameters of the registered `session` type."""
    text: Schema = {"type": "string"}
    several: Schema = {"anyOf": [text, {"type": "array", "items": text}]}
    properties: Schema = {
        **parameters_of(registry, "session"),
        "url": URL | {"description": "The URL of the schedule"},
        "schedule": {
            "anyOf": [text, {"type": "object", "additionalProperties": True}],
            "description": "The schedule itself",
        },
        "event": text | {"description": "Overrides the name of the conference"},
        "track": several | {"description": "Only these tracks; `*` matches anything"},
        "day": several | {"description": "Only these days: a date, a number or a weekday"},
        "title": several | {"description": "Only talks whose title contains this"},
        "batch_name": text,
        "webhook": {"$ref": "#/components/schemas/Webhook"},
    }
    body = form_body(
        properties, file=FILE, sources=SCHEDULE_SOURCES, exclusive=True, example=SCHEDULE_EXAMPLE
    )
    router = make_router("batches")
    router.add_api_route(
        "/batches/from-schedule",
        submit_schedule,
        methods=["POST"],
        **ENQUEUED_FROM_FILE,
        openapi_extra=body,
    )
    return router


async def submit_schedule(
    request: Request, user: Caller, key: requests.IdempotencyKey = None
) -> Response:
    """Submit one session job per talk of a conference schedule, all or nothing."""
    job_service, upload_id = requests.job_service_of(request), new_id("job")
    uploads = job_service.files.uploads.local_only()
    form = await requests.read_form(request, uploads, job_id=upload_id)
    try:
        fields = requests.Fields(form.fields)
        call = fields.take(SCHEDULE_CALL_FIELDS)
        batch = fields.take(ScheduleRequest.model_fields, callback=call)
        submitted = parse_request(ScheduleRequest, {**fields.rest, **batch})
        talks = await _read_talks(request, form, call, submitted)
    except (errors.FileCorrupt, errors.FileTooLarge, errors.UnsupportedFile) as error:
        failure = JobError(code=error.code, message=error.message, details=error.details)
        return job_error_response(failure)
    finally:
        await job_service.files.uploads.remove_local(upload_id)
    submission = requests.with_trace(request, batch_request(submitted, talks))
    stored = await job_service.submit_batch(submission, user=user, key=key)
    return _enqueued(request, submission, *stored)


async def _read_talks(
    request: Request, form: requests.Form, call: Mapping[str, Any], submitted: ScheduleRequest
) -> list[dict[str, Any]]:
    importer: ConferenceImporter = request.app.state.schedules
    if sum(name in call for name in SCHEDULE_SOURCES) + len(form.uploads) != 1:
        raise errors.InvalidParameters("file: exactly one of file, url and schedule is required")
    if form.upload is not None:
        uploads = requests.job_service_of(request).files.uploads
        path = uploads.path_of(form.upload.job_id, form.upload.source())
        return await importer.read(await asyncio.to_thread(path.read_bytes), submitted)
    if "schedule" in call:
        schedule = call["schedule"]
        text = schedule if isinstance(schedule, str) else json.dumps(schedule)
        return await importer.read(text.encode("utf-8", "replace"), submitted)
    if not isinstance(call["url"], str):
        raise errors.InvalidParameters("url: must be a string")
    return await importer.fetch(call["url"], submitted)
