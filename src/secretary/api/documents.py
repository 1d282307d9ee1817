"""Jobs and batches as clients see them, for the API's own description: drawn from the models."""

from typing import Any

from pydantic import BaseModel

from ..job import NO_RESULTS, Batch, Job, JobStatus, Webhook
from .asked import BIG
from .schemas import COUNT, NAMED, NULL, TEXT, TEXTS, Schema, list_of, or_null, ref


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
            "Results": {"type": "object", "required": list(NO_RESULTS)},
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
