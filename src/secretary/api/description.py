"""The API's own description (OpenAPI): FastAPI's, with our answers, errors, forms and keys."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from ..job import Batch, Job, JobStatus
from ..registry import Registry
from .access import security_schemes
from .errors import ERROR_RESPONSES, ERROR_SCHEMAS, error_kind
from .ingress import ROUTES, Ingress

Schema = dict[str, Any]

OPEN_PATHS = ("/api/health",)


def describe(api: FastAPI) -> Schema:
    if api.openapi_schema is None:
        document = FastAPI.openapi(api)
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                _complete(path, method, operation)
        registry: Registry = api.state.desk.registry
        for ingress in ROUTES:
            operation = document["paths"][f"/api{ingress.path}"]["post"]
            operation["requestBody"] = _form(ingress, registry)
        components = document["components"]
        for unused in ("HTTPValidationError", "ValidationError"):
            components["schemas"].pop(unused, None)
        components["schemas"] |= ERROR_SCHEMAS | _documents() | ENVELOPES
        components["responses"] = ERROR_RESPONSES
        components["securitySchemes"] = security_schemes()
    return api.openapi_schema or {}


def _complete(path: str, method: str, operation: Schema) -> None:
    responses = operation["responses"]
    responses.pop("422", None)
    responses["default"] = {"$ref": f"#/components/responses/{error_kind(path)}"}
    for status, schema in ANSWERS.get(f"{method.upper()} {path}", {}).items():
        known = responses.setdefault(str(status), {"description": "It worked"})
        known["content"] = {"application/json": {"schema": schema}}
    if not path.startswith(OPEN_PATHS):
        operation["security"] = [{"bearer": []}, {"key": []}]


# What is sent

COMMON_FIELDS: Schema = {
    "file": {"type": "string", "format": "binary", "description": "The file; or give a `url`"},
    "callback_url": {"type": "string", "description": "Where the events of the job go"},
    "callback_token": {"type": "string", "description": "Sent with them as a bearer token"},
    "jobId": {"type": "string", "description": "The client's own name for the job"},
    "wait_ms": {"type": "integer", "minimum": 0, "description": "Wait so long for the result"},
    "sync": {"type": "boolean", "description": "Wait for the result for up to 60 s"},
}


def _form(ingress: Ingress, registry: Registry) -> Schema:
    fields = dict(COMMON_FIELDS)
    if ingress.job_type in registry:
        schema = registry[ingress.job_type].parameters.model_json_schema()
        fields |= schema.get("properties", {})
    if not ingress.kinds:
        del fields["file"]
    plain = {name: field for name, field in fields.items() if name != "file"}
    contents = {
        "multipart/form-data": fields,
        "application/x-www-form-urlencoded": plain,
        "application/json": plain,
    }
    return {
        "content": {
            kind: {"schema": {"type": "object", "properties": properties}}
            for kind, properties in contents.items()
        }
    }


# What is answered


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "required": list(properties), "properties": properties}


def _list_of(name: str) -> Schema:
    return {"type": "array", "items": _ref(name)}


TEXT: Schema = {"type": "string"}
TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
NUMBER: Schema = {"type": "number"}
TEXTS: Schema = {"type": "array", "items": TEXT}
TRUTH: Schema = {"type": "boolean"}
ANYTHING: Schema = {"type": "object"}

ENVELOPES: Schema = {
    "Request": _object(processor=TEXT, timestamp=TEXT, parameters=ANYTHING),
    "Process": {
        **_object(id=TEXT, main_processor=TEXT),
        "properties": {
            "id": TEXT,
            "main_processor": TEXT,
            "started": TEXT,
            "duration_ms": NUMBER,
            "is_from_cache": TRUTH,
            "llm_info": ANYTHING,
        },
    },
    "Accepted": _object(
        status={"const": "accepted"},
        worker={"const": "secretary"},
        job_id=TEXT,
        process=_ref("Process"),
        job=_object(id=TEXT),
        webhook={"type": ["object", "null"]},
        links=_object(self=TEXT, stream=TEXT, cancel=TEXT),
        error={"type": "null"},
    ),
}


def _envelope(data: Schema) -> Schema:
    return _object(
        status={"const": "success"},
        request=_ref("Request"),
        process=_ref("Process"),
        data=data,
        error={"type": "null"},
    )


def _older(**parts: Schema) -> Schema:
    return _object(status={"const": "success"}, message=TEXT, **parts)


def _documents() -> Schema:
    """Jobs and batches as clients see them: as the models, but for what `document` changes."""
    schemas: Schema = {}
    counters = {f"{status}_jobs": {"type": "integer"} for status in JobStatus}
    shown = {"status": TEXT, "total_jobs": {"type": "integer"}, "batch_name": TEXT, **counters}
    schemas |= _document("Job", Job, hidden={"failures", "crashes"}, shown={})
    schemas |= _document("Batch", Batch, hidden={"counts", "started_at"}, shown=shown)
    return schemas


def _document(
    name: str, model: type[BaseModel], *, hidden: set[str], shown: Mapping[str, Schema]
) -> Schema:
    schema = model.model_json_schema(
        mode="serialization", ref_template="#/components/schemas/{model}"
    )
    definitions: Schema = schema.pop("$defs", {})
    properties = {key: one for key, one in schema["properties"].items() if key not in hidden}
    properties["webhook"] = {"type": ["object", "null"], "description": "Without its secrets"}
    properties |= shown
    required = [key for key in properties if key not in ("results", "logs", "jobs", "job_ids")]
    document = {"type": "object", "title": name, "required": required, "properties": properties}
    definitions.pop("Webhook", None)
    return definitions | {name: document}


JOB = {200: _envelope(_ref("Job"))}
BATCH = {200: _envelope(_ref("Batch"))}
PAGE = {"next_cursor": TEXT_OR_NULL}
ENQUEUED = {
    202: _envelope(_object(job_id=TEXT, job_ids=TEXTS, batch_id={"type": "null"}, job=_ref("Job")))
}
ENQUEUED_BATCH = {202: _envelope(_object(batch_id=TEXT, job_ids=TEXTS, batch=_ref("Batch")))}
TEXT_FILE = {200: _object(file_path=TEXT, content=TEXT)}
DELETED = {200: _envelope(_object(deleted=TRUTH))}
DELIVERIES = {200: _envelope(_object(deliveries=_list_of("Delivery")))}
DELIVERY = {200: _envelope(_ref("Delivery"))}
OLDER_JOB = _older(job=_ref("Job"))
OLDER_BATCH = _older(batch=_ref("Batch"))
PROCESSING = _object(status={"const": "processing"})

#: What each route answers, by status. One that is missing here describes itself.
ANSWERS: dict[str, dict[int, Schema]] = {
    "POST /api/jobs": ENQUEUED,
    "GET /api/jobs": {200: _envelope(_object(jobs=_list_of("Job"), **PAGE))},
    "GET /api/jobs/{job_id}": JOB,
    "DELETE /api/jobs/{job_id}": DELETED,
    "POST /api/jobs/{job_id}/cancel": JOB,
    "POST /api/jobs/{job_id}/restart": JOB,
    "POST /api/jobs/{job_id}/archive": JOB,
    "GET /api/jobs/{job_id}/deliveries": DELIVERIES,
    "POST /api/jobs/{job_id}/deliveries/{n}/replay": DELIVERY,
    "POST /api/jobs/batch": ENQUEUED_BATCH,
    "POST /api/batches": ENQUEUED_BATCH,
    "GET /api/batches": {200: _envelope(_object(batches=_list_of("Batch"), **PAGE))},
    "GET /api/batches/{batch_id}": BATCH,
    "GET /api/batch/{batch_id}": BATCH,
    "GET /api/jobs/batch/{batch_id}": BATCH,
    "DELETE /api/batches/{batch_id}": DELETED,
    "POST /api/batches/{batch_id}/archive": BATCH,
    "POST /api/batches/{batch_id}/toggle-active": BATCH,
    "POST /api/batches/{batch_id}/cancel": BATCH,
    "POST /api/batches/{batch_id}/restart-failed": BATCH,
    "GET /api/batches/{batch_id}/deliveries": DELIVERIES,
    "POST /api/batches/{batch_id}/deliveries/{n}/replay": DELIVERY,
    "GET /api/job-types": {
        200: _envelope(
            _object(
                job_types={
                    "type": "array",
                    "items": _object(job_type=TEXT, parameters=ANYTHING, limits=ANYTHING),
                }
            )
        )
    },
    "GET /api/health": {200: _envelope(ANYTHING)},
    "GET /api/health/live": {200: _envelope(_object(live=TRUTH))},
    "GET /api/health/ready": {200: _envelope(_object(ready=TRUTH))},
    "GET /api/pdf/text-content/{path}": TEXT_FILE,
    "GET /api/files/text/{path}": TEXT_FILE,
    "GET /api/jobs/{job_id}/download-archive": {202: PROCESSING},
    "GET /api/event-job/jobs/{job_id}/download-archive": {202: PROCESSING},
    "POST /api/event-job/submit": {201: OLDER_JOB},
    "POST /api/event-job/jobs": {201: OLDER_JOB},
    "GET /api/event-job/jobs": {200: _older(jobs=_list_of("Job"))},
    "GET /api/event-job/jobs/{job_id}": {200: OLDER_JOB},
    "GET /api/event-job/status/{job_id}": {200: OLDER_JOB},
    "DELETE /api/event-job/jobs/{job_id}": {200: OLDER_JOB},
    "POST /api/event-job/{job_id}/restart": {200: OLDER_JOB},
    "POST /api/event-job/batches": {201: OLDER_BATCH},
    "GET /api/event-job/batches": {200: _older(batches=_list_of("Batch"))},
    "GET /api/event-job/batches/{batch_id}": {200: OLDER_BATCH},
    "DELETE /api/event-job/batches/{batch_id}": {200: OLDER_BATCH},
    "POST /api/event-job/batches/{batch_id}/archive": {200: OLDER_BATCH},
    "POST /api/event-job/batches/{batch_id}/toggle-active": {200: OLDER_BATCH},
    **{
        f"POST /api{ingress.path}": {200: _envelope(ANYTHING), 202: _ref("Accepted")}
        for ingress in ROUTES
    },
}
