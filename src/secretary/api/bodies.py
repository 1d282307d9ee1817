"""What may be sent, for the API's own description: forms, JSON and parameters."""

from typing import Any

from pydantic import BaseModel

from ..job import EVENT_NAMES, JobStatus
from ..registry import Registry
from ..submission import JobRequest
from .ingress import OF_THE_JOB, ROUTES, SOURCES, Ingress
from .schemas import ADDRESS, FILE, NAMED, NULL, TEXT, Schema, ref

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
GIVEN_FILE = FILE | {"description": "The file; or give a `url`"}


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
