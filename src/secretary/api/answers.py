"""What each route answers when it went well, by status: for the API's own description."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..metrics import CONTENT_TYPE
from .ingress import ROUTES
from .schemas import (
    COUNT,
    MAYBE_TEXT,
    MOMENT,
    NULL,
    TEXT,
    TEXTS,
    TRUTH,
    Schema,
    list_of,
    object_of,
    or_null,
    ref,
)


@dataclass(frozen=True, slots=True)
class Answer:
    description: str
    schema: Schema | None = None
    media: str = "application/json"
    headers: Mapping[str, Schema] = field(default_factory=dict)

    def described(self) -> Schema:
        described: Schema = {"description": self.description}
        if self.headers:
            described["headers"] = dict(self.headers)
        if self.schema is not None:
            described["content"] = {self.media: {"schema": self.schema}}
        return described


def header(description: str, *, required: bool = True, **schema: object) -> Schema:
    return {"description": description, "required": required, "schema": schema}


def _envelope(data: Schema) -> Schema:
    return object_of(
        status={"const": "success"},
        request=ref("Request"),
        process=ref("Process"),
        data=data,
        error=NULL,
    )


def _older(**parts: Schema) -> Schema:
    return object_of(status={"const": "success"}, message=TEXT, **parts)


Answers = Mapping[int, Answer]

LOCATION = {"Location": header("Where the job or batch is found", type="string")}
WAITED = {
    "Preference-Applied": header("How long `Prefer` let it wait", required=False, type="string")
}
LATER = {"Retry-After": header("In so many seconds it is worth to ask again", type="integer")}
FILE_HEADERS = {"ETag": header("Of this version of the file", type="string")}
RANGE = {"Content-Range": header("Which part it is", required=False, type="string")}


def _told(data: Schema) -> Answers:
    return {200: Answer("It worked", _envelope(data))}


def _told_older(**parts: Schema) -> Answers:
    return {200: Answer("It worked", _older(**parts))}


def _part_of_list(name: str, of: str) -> Answers:
    extent = {
        "total": COUNT,
        "total_is_exact": TRUTH,
        "count": COUNT,
        "limit": COUNT,
        "skip": COUNT,
    }
    return _told_older(**{name: list_of(of)}, **extent)


JOB = _told(ref("Job"))
BATCH = _told(ref("Batch"))
PAGE: dict[str, Schema] = {"next_cursor": MAYBE_TEXT}
ENQUEUED = _envelope(object_of(job_id=TEXT, job_ids=TEXTS, batch_id=NULL, job=ref("Job")))
ENQUEUED_JOB = {202: Answer("It waits for a worker", ENQUEUED, headers=LOCATION)}
ENQUEUED_BATCH = {
    202: Answer(
        "Its jobs wait for workers",
        _envelope(object_of(batch_id=TEXT, job_ids=TEXTS, batch=ref("Batch"))),
        headers=LOCATION,
    )
}
ACCEPTED = {
    200: Answer(
        "The job has ended in the time to wait",
        _envelope(ref("Results")),
        headers=LOCATION | WAITED,
    ),
    202: Answer("It has become a job", ref("Accepted"), headers=LOCATION | WAITED),
}
DELIVERIES = _told(object_of(deliveries=list_of("Delivery")))
DELIVERY = _told(ref("Delivery"))
TEXT_FILE = {200: Answer("The text", object_of(file_path=TEXT, content=TEXT))}
FILE = {
    200: Answer("The file", {}, "*/*", FILE_HEADERS),
    206: Answer("The ranges of it that were asked for", {}, "*/*", FILE_HEADERS | RANGE),
    304: Answer("The client has it already (`If-None-Match`)", headers=FILE_HEADERS),
}
PROCESSING = object_of(status={"const": "processing"}, job_id=TEXT)
ARCHIVE = {**FILE, 202: Answer("The job has not ended", PROCESSING, headers=LATER)}
STREAM = {
    200: Answer("Server-sent events: `event`, `id`, and `data` in JSON", {}, "text/event-stream"),
    204: Answer("It has ended, and the client has seen how"),
}
OLDER_JOB = _told_older(job=ref("Job"))
OLDER_BATCH = _told_older(batch=ref("Batch"))
CREATED_JOB = {201: Answer("It waits for a worker", _older(job=ref("Job")), headers=LOCATION)}
CREATED_BATCH = {
    201: Answer(
        "Its jobs wait for workers", _older(batch=ref("Batch"), job_ids=TEXTS), headers=LOCATION
    )
}

#: Every route has its line.
ANSWERS: dict[str, Answers] = {
    "POST /api/jobs": ENQUEUED_JOB,
    "GET /api/jobs": _told(
        object_of(jobs=list_of("ListedJob"), searched_to=or_null(MOMENT), **PAGE)
    ),
    "POST /api/jobs/bulk": _told(ref("Bulk")),
    "GET /api/jobs/{job_id}": JOB,
    "DELETE /api/jobs/{job_id}": _told(object_of(job_id=TEXT, deleted={"const": True})),
    "POST /api/jobs/{job_id}/cancel": JOB,
    "POST /api/jobs/{job_id}/restart": JOB,
    "POST /api/jobs/{job_id}/again": ENQUEUED_JOB,
    "POST /api/jobs/{job_id}/archive": JOB,
    "POST /api/jobs/{job_id}/unarchive": JOB,
    "GET /api/jobs/{job_id}/deliveries": DELIVERIES,
    "POST /api/jobs/{job_id}/deliveries/{n}/replay": DELIVERY,
    "GET /api/jobs/{job_id}/stream": STREAM,
    "GET /api/jobs/{job_id}/files": _told(
        object_of(
            attempt=COUNT,
            files={"type": "array", "items": object_of(name=TEXT, url=TEXT, size=COUNT)},
        )
    ),
    "GET /api/jobs/{job_id}/download-archive": ARCHIVE,
    "POST /api/jobs/batch": ENQUEUED_BATCH,
    "POST /api/batches": ENQUEUED_BATCH,
    "POST /api/batches/from-schedule": ENQUEUED_BATCH,
    "POST /api/batches/from-files": ENQUEUED_BATCH,
    "GET /api/batches": _told(object_of(batches=list_of("Batch"), **PAGE)),
    "GET /api/batches/{batch_id}": BATCH,
    "GET /api/batch/{batch_id}": BATCH,
    "GET /api/jobs/batch/{batch_id}": BATCH,
    "DELETE /api/batches/{batch_id}": _told(object_of(batch_id=TEXT, deleted={"const": True})),
    "POST /api/batches/{batch_id}/archive": BATCH,
    "POST /api/batches/{batch_id}/unarchive": BATCH,
    "POST /api/batches/{batch_id}/toggle-active": BATCH,
    "POST /api/batches/{batch_id}/cancel": BATCH,
    "POST /api/batches/{batch_id}/restart-failed": BATCH,
    "GET /api/batches/{batch_id}/deliveries": DELIVERIES,
    "POST /api/batches/{batch_id}/deliveries/{n}/replay": DELIVERY,
    "GET /api/batches/{batch_id}/stream": STREAM,
    "GET /api/events": STREAM,
    "GET /api/templates": _told(object_of(templates=list_of("Template"))),
    "GET /api/templates/{name}": _told(ref("WholeTemplate")),
    "GET /api/job-types": _told(object_of(job_types=list_of("JobType"))),
    "GET /api/overview": _told(ref("Overview")),
    "GET /api/system": _told(ref("System")),
    "GET /api/workers": _told(object_of(workers=list_of("Worker"))),
    "GET /api/health": _told(ref("Health")),
    "GET /api/health/live": _told(object_of(live={"const": True})),
    "GET /api/health/ready": _told(object_of(ready={"const": True})),
    "GET /metrics": {200: Answer("The metrics", TEXT, CONTENT_TYPE.partition(";")[0])},
    "GET /api/pdf/text-content/{path}": TEXT_FILE,
    "GET /api/files/text/{path}": TEXT_FILE,
    "GET /api/files/{path}": FILE,
    "GET /api/event-job/files/{path}": FILE,
    "GET /api/event-job/jobs/{job_id}/download-archive": ARCHIVE,
    "POST /api/event-job/submit": CREATED_JOB,
    "POST /api/event-job/jobs": CREATED_JOB,
    "GET /api/event-job/jobs": _part_of_list("jobs", "ListedJob"),
    "GET /api/event-job/jobs/{job_id}": OLDER_JOB,
    "GET /api/event-job/status/{job_id}": OLDER_JOB,
    "DELETE /api/event-job/jobs/{job_id}": _told_older(job=ref("ListedJob")),
    "POST /api/event-job/{job_id}/restart": OLDER_JOB,
    "POST /api/event-job/batches": CREATED_BATCH,
    "GET /api/event-job/batches": _part_of_list("batches", "Batch"),
    "GET /api/event-job/batches/{batch_id}": OLDER_BATCH,
    "DELETE /api/event-job/batches/{batch_id}": OLDER_BATCH,
    "POST /api/event-job/batches/{batch_id}/archive": OLDER_BATCH,
    "POST /api/event-job/batches/{batch_id}/toggle-active": OLDER_BATCH,
    **{f"POST /api{ingress.path}": ACCEPTED for ingress in ROUTES},
}
