"""The API's own description (OpenAPI): FastAPI's, with what we know better."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel

from ..core.job import EMPTY_RESULTS, EVENT_NAMES, Batch, Job, JobStatus, Webhook
from ..jobs.registry import Registry
from ..jobs.submission import JobRequest
from ..observability.metrics import CONTENT_TYPE
from .auth import is_open, security_schemes
from .conferences import PATH as FROM_SCHEDULE
from .conferences import schedule_body
from .dependencies import BIG
from .errors import ERROR_SCHEMAS, JOB_STATUS, error_kind
from .file_batches import PATH as FROM_FILES
from .file_batches import files_body
from .ingress import OF_THE_JOB, ROUTES, SOURCES, Ingress
from .schemas import (
    ADDRESS,
    ANYTHING,
    COUNT,
    MAYBE_NUMBER,
    MAYBE_TEXT,
    NAMED,
    NULL,
    NUMBER,
    TEXT,
    TEXTS,
    TRUTH,
    Schema,
    list_of,
    object_of,
    or_null,
    ref,
)
from .schemas import FILE as BodiesFILE
from .schemas import MOMENT as AnswerPartsMOMENT
from .schemas import MOMENT as AnswersMOMENT

ANSWER_PARTS: Schema = {
    "Request": object_of(processor=TEXT, timestamp=AnswerPartsMOMENT, parameters=ANYTHING),
    "Process": {
        "type": "object",
        "required": ["id", "main_processor"],
        "properties": {
            "id": TEXT,
            "main_processor": TEXT,
            "started": AnswerPartsMOMENT,
            "duration_ms": NUMBER,
            "is_from_cache": TRUTH,
            "llm_info": ANYTHING,
        },
    },
    "Accepted": object_of(
        status={"const": "accepted"},
        worker={"const": "secretary"},
        job_id=TEXT,
        process=ref("Process"),
        job={
            "type": "object",
            "required": ["id"],
            "properties": {"id": TEXT, "client_id": {"description": "The `jobId` that was sent"}},
        },
        webhook=or_null(object_of(delivered_to=TEXT)),
        links=object_of(self=TEXT, stream=TEXT, cancel=TEXT),
        error=NULL,
    ),
    "JobType": object_of(
        job_type=TEXT,
        parameters=ANYTHING,
        limits=object_of(timeout_s=MAYBE_NUMBER, max_attempts={"type": ["integer", "null"]}),
    ),
    "Template": object_of(
        name=TEXT,
        title=TEXT,
        language=MAYBE_TEXT,
        source={"enum": ["own", "shipped"]},
        fields={"type": "array", "items": object_of(name=TEXT, type=TEXT, instruction=TEXT)},
        context_keys=TEXTS,
        faults={"type": "array", "items": object_of(line=COUNT, message=TEXT)},
    ),
    "WholeTemplate": {
        "allOf": [ref("Template")],
        **object_of(
            content=MAYBE_TEXT,
            system_prompt=MAYBE_TEXT,
            schema={"type": ["object", "null"]},
        ),
    },
    "Health": object_of(
        version=TEXT,
        uptime_s=NUMBER,
        stopping=TRUTH,
        store=object_of(kind=TEXT, answers=TRUTH),
        workers=COUNT,
        slots=COUNT,
        jobs=object_of(**dict.fromkeys(JobStatus, COUNT)),
    ),
    "Bulk": object_of(
        action=TEXT,
        dry_run=TRUTH,
        count=COUNT,
        refused=COUNT,
        refusals={"type": "array", "items": object_of(job_id=TEXT, code=TEXT, message=TEXT)},
        next_cursor=MAYBE_TEXT,
        as_of=AnswerPartsMOMENT,
    ),
    "Overview": object_of(
        jobs=object_of(**dict.fromkeys(JobStatus, COUNT)),
        counted_at=AnswerPartsMOMENT,
        of_user=MAYBE_TEXT,
        oldest_wait_s=MAYBE_NUMBER,
        workers=COUNT,
        slots=COUNT,
        busy=COUNT,
        crew={"type": "array", "items": {"allOf": [ref("Worker")], **object_of(busy=COUNT)}},
        part_s=NUMBER,
        series=list_of("PartOfTime"),
    ),
    "PartOfTime": {
        "allOf": [ref("Ended")],
        **object_of(
            **{"from": AnswerPartsMOMENT},
            failures={"type": "object", "additionalProperties": COUNT},
            types={"type": "object", "additionalProperties": ref("Ended")},
        ),
    },
    "Ended": object_of(
        completed=COUNT,
        failed=COUNT,
        cancelled=COUNT,
        wait_p50_s=MAYBE_NUMBER,
        wait_p95_s=MAYBE_NUMBER,
    ),
    "System": object_of(
        version=TEXT,
        uptime_s=NUMBER,
        store=object_of(kind=TEXT),
        webhook_lag_s=NUMBER,
        workers=list_of("Worker"),
        disk=object_of(total_bytes=COUNT, free_bytes=COUNT),
        cache=object_of(bytes=COUNT, max_bytes=COUNT),
        engines={**or_null(list_of("Engine")), "description": "For operators"},
        settings={"type": ["object", "null"], "description": "For operators; without secrets"},
    ),
    "Engine": object_of(
        subject=TEXT,
        verdict={"enum": ["ok", "info", "warning", "problem"]},
        fact=TEXT,
        remedy=MAYBE_TEXT,
    ),
    "Worker": object_of(
        worker_id=TEXT,
        host=TEXT,
        slots=COUNT,
        version=TEXT,
        job_types=TEXTS,
        handles=TEXTS,
        started_at=AnswerPartsMOMENT,
        seen_at=AnswerPartsMOMENT,
        draining=TRUTH,
        alive=TRUTH,
    ),
}


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
        object_of(jobs=list_of("ListedJob"), searched_to=or_null(AnswersMOMENT), **PAGE)
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


INGRESS_PATHS = frozenset(f"/api{ingress.path}" for ingress in ROUTES)

UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def _some_of(*names: str) -> Schema:
    one = "|".join(names)
    return {"type": "array", "items": {"type": "string", "pattern": f"^(({one})(,({one}))*)?$"}}


MOMENT: Schema = {
    "anyOf": [{"type": "string", "format": "date-time"}, {"type": "number"}],
    "description": "With its offset, or in seconds since 1970",
}

#: Parameters that are read more strictly than their types say. A path with another id than
#: these is none that exists: a 404, like an id that is unknown.
PARAMETERS: dict[str, Schema] = {
    "job_id": {"type": "string", "pattern": f"^job-{UUID}$"},
    "batch_id": {"type": "string", "pattern": f"^batch-{UUID}$"},
    "path": {
        "type": "string",
        "pattern": f"^(jobs/)?job-{UUID}/.",
        "description": "The id of a job and the name of one of its files",
    },
    "status": _some_of(*JobStatus),
    "include": _some_of("jobs"),
    "cursor": {
        "type": "string",
        "minLength": 1,
        "description": "`next_cursor` of the page before; any other text is refused",
    },
    "created_after": MOMENT,
    "created_before": MOMENT,
    "Idempotency-Key": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"\S"},
}


def _header(name: str, description: str) -> Schema:
    return {"name": name, "in": "header", "description": description, "schema": TEXT}


#: Headers that the routes themselves look for.
PREFER = _header("Prefer", "`wait=10`: wait so many seconds for the result, at most 60")
OF_FILES = (
    _header("Range", "`bytes=0-999`: only these"),
    _header("If-None-Match", "The `ETag` of the version that the client has"),
    _header("If-Range", "The `ETag` of the version of which the client has a part"),
)


def complete_parameters(path: str, operation: Schema) -> None:
    if path in INGRESS_PATHS:
        operation["parameters"].append(PREFER)
    if "206" in operation["responses"]:
        operation["parameters"].extend(OF_FILES)
    for parameter in operation.get("parameters", ()):
        name = parameter["name"]
        is_filter = parameter["in"] == "query" and name == "batch_id"  # may be any text
        if (path, name) == ("/api/jobs", "include"):
            parameter["schema"] = _some_of("results", "logs")
        elif name in PARAMETERS and not is_filter:
            parameter["schema"] = PARAMETERS[name]
        else:
            parameter["schema"] = _never_null(parameter["schema"])


def complete_requests(schemas: Schema) -> None:
    webhook = schemas["Webhook"]["properties"]
    webhook["url"] = ADDRESS | {"description": "`{jobId}` in it is replaced"}
    webhook["headers"] |= {
        "propertyNames": {"pattern": "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"},
        "additionalProperties": {"type": "string", "pattern": r"^[^\x00-\x08\x0a-\x1f\x7f]*$"},
    }
    webhook["events"] = {
        "type": ["array", "null"],
        "items": {"enum": list(EVENT_NAMES)},
        "description": "Which ones; without it all",
    }


def batch_body() -> Schema:
    """A batch, or the same inside of `batch`."""
    inside = {"type": "object", "required": ["batch"], "properties": {"batch": ref("BatchRequest")}}
    return {
        "required": True,
        "content": {"application/json": {"schema": {"anyOf": [ref("BatchRequest"), inside]}}},
    }


COMMON_FIELDS: dict[str, Schema] = {
    "callback_url": ADDRESS | {"description": "Where the events of the job go"},
    "callback_token": {"type": "string", "description": "Sent with them as a bearer token"},
    "jobId": {"type": "string", "description": "The client's own name for the job"},
    "wait_ms": {"type": "integer", "minimum": 0, "description": "Wait so long for the result"},
    "sync": {"type": "boolean", "description": "Wait for the result for up to 60 s"},
}
GIVEN_FILE = BodiesFILE | {"description": "The file; or give a `url`"}


def form_body(ingress: Ingress, registry: Registry) -> Schema:
    about = JobRequest.model_json_schema()["properties"]
    plain = {name: about[name] for name in sorted(OF_THE_JOB) if name in about} | COMMON_FIELDS
    plain |= {"webhook": ref("Webhook"), "access_control": ref("AccessControl")}
    plain |= parameters_of(ingress.job_type, registry).get("properties", {})
    # None of the forms that exist sends parts of a job that have parts themselves.
    fields = {name: _as_field(schema) for name, schema in plain.items() if "$ref" not in schema}
    contents = {
        "multipart/form-data": ({"file": GIVEN_FILE} | fields) if ingress.kinds else fields,
        "application/x-www-form-urlencoded": fields,
        "application/json": plain,
    }
    content: Schema = {
        media: {"schema": _form(properties, ingress.needs_source)}
        for media, properties in contents.items()
    }
    if ingress.example is not None:
        content["application/json"]["example"] = dict(ingress.example)
    return {"required": ingress.needs_source, "content": content}


def parts_of_forms(registry: Registry) -> Schema:
    """The schemas of models inside of those that the parameters of job types are."""
    parts: Schema = {}
    for ingress in ROUTES:
        parts |= parameters_of(ingress.job_type, registry).get("$defs", {})
    return parts


def parameters_of(job_type: str, registry: Registry) -> Schema:
    if job_type not in registry:
        return {}
    model: type[BaseModel] = registry[job_type].parameters
    return model.model_json_schema(ref_template=NAMED)


def _form(properties: Schema, needs_source: bool) -> Schema:
    schema: Schema = {"type": "object", "properties": properties}
    if needs_source:
        sources = [name for name in ("file", *SOURCES) if name in properties]
        given = {"minLength": 1, "minProperties": 1, "type": ["string", "object"]}
        schema["anyOf"] = [{"required": [name], "properties": {name: given}} for name in sources]
    return schema


def _as_field(schema: Schema) -> Schema:
    """The same where there is only text: no null, and JSON for what has parts."""
    schema = _never_null(schema)
    match schema:
        case {"type": "object"}:
            return {"type": "string", "contentMediaType": "application/json"}
        case {"type": "array"}:
            return {"type": "string", "description": "Divided by commas"}
    return schema


def _never_null(schema: Schema) -> Schema:
    if "anyOf" not in schema:
        return schema
    kinds: list[Any] = [one for one in schema["anyOf"] if one != NULL]
    rest = {name: value for name, value in schema.items() if name not in ("anyOf", "default")}
    return {**rest, **kinds[0]} if len(kinds) == 1 else {**rest, "anyOf": kinds}


def documents() -> Schema:
    """Jobs and batches as the models have them, but for what `document()` changes."""
    job, parts = _drawn(Job, hidden={"failures", "crashes"})
    batch, more = _drawn(Batch, hidden={"counts", "started_at"})
    job["properties"]["results"] = or_null(ref("Results"))
    batch["properties"] |= _counted()
    batch["required"] = sorted(batch["properties"])
    batch["properties"] |= {
        "jobs": {**list_of("ListedJob"), "description": "Only with `include=jobs`"},
        "job_ids": {**TEXTS, "description": "The changed ones"},
    }
    listed = {**job, "required": [name for name in job["required"] if name not in BIG]}
    return (
        parts
        | more
        | {
            "ListedJob": listed,
            "Job": {"allOf": [ref("ListedJob")], "required": sorted(BIG)},
            "Batch": batch,
            "Results": {"type": "object", "required": list(EMPTY_RESULTS)},
            "ShownWebhook": _shown_webhook(),
        }
    )


def _drawn(model: type[BaseModel], *, hidden: set[str]) -> tuple[Schema, Schema]:
    """The schema of a document, and those of its parts by name."""
    schema = model.model_json_schema(mode="serialization", ref_template=NAMED)
    parts: Schema = schema["$defs"]
    properties = {name: one for name, one in schema["properties"].items() if name not in hidden}
    # Requests have parts of the same name that may be left open.
    properties["access_control"] = parts.pop("AccessControl")
    properties["webhook"] = or_null(ref("ShownWebhook"))
    del parts["Webhook"]
    _say_utc([properties, parts])
    document = {"type": "object", "required": sorted(properties), "properties": properties}
    return document, parts


def _say_utc(schemas: Any) -> None:
    """Every time that is answered ends in `Z`."""
    if isinstance(schemas, list):
        for schema in schemas:
            _say_utc(schema)
    elif isinstance(schemas, dict):
        if schemas.get("format") == "date-time":
            schemas["pattern"] = "Z$"
        _say_utc(list(schemas.values()))


def _counted() -> Schema:
    counters = ("total_jobs", *(f"{status}_jobs" for status in JobStatus))
    return {
        "status": ref("JobStatus"),
        "batch_name": TEXT,
        **dict.fromkeys(counters, COUNT),
    }


def _shown_webhook() -> Schema:
    """No schema of an answer has room for a secret."""
    properties = Webhook.model_json_schema(mode="serialization")["properties"]
    properties |= {
        "token": NULL,
        "secret": NULL,
        "headers": {"type": "object", "additionalProperties": NULL},
    }
    return {
        "type": "object",
        "required": sorted(properties),
        "properties": properties,
        "additionalProperties": False,
        "description": "Without its secrets",
    }


REASONS = {
    400: "The request does not fit; `details.problems` names each field",
    401: "The API key is missing or not valid",
    403: "The caller may not do this",
    404: "There is no such thing, or none that the caller may see",
    409: "It does not fit the state that the job, batch or key is in",
    413: "The request is too large",
    415: "The file is not of a kind that this route takes",
    416: "The file has no such range",
    422: "The Idempotency-Key belongs to another request, or the file cannot be read",
    429: "There were too many requests or wrong keys",
    500: "A fault of the service",
    502: "The source or a service that the job needs gave no usable answer",
    503: "The store or an engine cannot be used at the moment",
    504: "The job ran past its time limit",
}
HEADERS = {
    401: {"WWW-Authenticate": header("How to show a key", type="string")},
    416: {"Content-Range": header("How long the file is", type="string")},
    429: {"Retry-After": header("In so many seconds it is allowed again", type="integer")},
    503: {"Retry-After": header("In so many seconds", required=False, type="integer")},
}


def refusals(path: str, method: str, operation: Schema) -> Schema:
    """By status, as references to `refusal_responses`."""
    kind = error_kind(path)
    return {
        str(status): {"$ref": f"#/components/responses/{kind}{status}"}
        for status in sorted(_statuses(path, method, operation))
    }


def refusal_responses() -> Schema:
    return {
        f"{kind}{status}": Answer(text, ref(kind), headers=HEADERS.get(status, {})).described()
        for kind in ERROR_SCHEMAS
        for status, text in REASONS.items()
    }


def _statuses(path: str, method: str, operation: Schema) -> set[int]:
    statuses = {500, 503}
    if not is_open(path):
        statuses |= {400, 401, 403, 429}  # a user's name, too, can be wrong
    if "{" in path:
        statuses |= {404}
        if method != "get":
            statuses |= {409}
    if "requestBody" in operation:
        statuses |= {400, 413}
    names = {parameter["name"] for parameter in operation.get("parameters", ())}
    if "Idempotency-Key" in names:
        statuses |= {409, 422}
    if path in INGRESS_PATHS:
        statuses |= {415, *JOB_STATUS.values()}
    if path == FROM_FILES:
        statuses |= {415}
    if path == FROM_SCHEDULE:
        statuses |= {415, 422}
    if "206" in operation["responses"]:
        statuses |= {416}
    return statuses


BATCH_PATHS = ("/api/batches", "/api/jobs/batch", "/api/event-job/batches")


def describe(api: FastAPI) -> Schema:
    if api.openapi_schema is None:
        _name_operations(api)
        document = FastAPI.openapi(api)
        registry: Registry = api.state.job_service.registry
        _complete_bodies(document["paths"], registry)
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                _complete(path, method, operation)
        components = document["components"]
        for unused in ("HTTPValidationError", "ValidationError"):
            components["schemas"].pop(unused, None)
        complete_requests(components["schemas"])
        parts = parts_of_forms(registry)
        components["schemas"] |= parts | ERROR_SCHEMAS | documents() | ANSWER_PARTS
        components["responses"] = refusal_responses()
        components["securitySchemes"] = security_schemes()
    return api.openapi_schema or {}


def _name_operations(api: FastAPI) -> None:
    """As the functions are called; the framework adds path and method to it."""
    for route in api.routes:
        if isinstance(route, APIRoute):
            route.operation_id = route.unique_id = route.name


def _complete_bodies(paths: Schema, registry: Registry) -> None:
    for ingress in ROUTES:
        paths[f"/api{ingress.path}"]["post"]["requestBody"] = form_body(ingress, registry)
    session = parameters_of("session", registry)
    paths[FROM_SCHEDULE]["post"]["requestBody"] = schedule_body(session)
    paths[FROM_FILES]["post"]["requestBody"] = files_body()
    for path in BATCH_PATHS:
        paths[path]["post"]["requestBody"] = batch_body()


def _complete(path: str, method: str, operation: Schema) -> None:
    answers = ANSWERS[f"{method.upper()} {path}"]
    operation["responses"] = {str(status): one.described() for status, one in answers.items()}
    complete_parameters(path, operation)
    operation["responses"] |= refusals(path, method, operation)
    if not is_open(path):
        operation["security"] = [{"bearer": []}, {"key": []}]
