"""Fields of a request that no job type knows: they are kept, and a warning names each of them."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from ..core.job import JobWarning, flatten_parameters
from .handler import Registry, field_names, ignored_field_names

UNKNOWN_FIELD = "UNKNOWN_FIELD"
#: Further unknown fields are only counted.
MAX_WARNINGS = 20
#: A longer name is cut, and no similar one is looked for.
MAX_NAME_LENGTH = 80
#: How similar a known name must be to be suggested, from 0 to 1.
MIN_SIMILARITY = 0.7

#: Fields around the parameters, which clients may misspell too: those of a job and a batch, and
#: those of an ingress route.
REQUEST_FIELDS = frozenset({
    "job_type", "parameters", "job_name", "priority", "run_at", "max_attempts", "timeout_s",
    "user_id", "access_control", "webhook", "batch_name", "jobs", "isActive",
    "callback_url", "callback_token", "jobId", "wait_ms", "sync", "async", "file",
})  # fmt: skip
#: Keys among the parameters that hold other fields.
CONTAINERS = frozenset({"extra", "webhook"})
#: Fields that only ingress routes know, and what other routes have instead.
ELSEWHERE = {"callback_url": "webhook", "callback_token": "webhook"}


def unknown_field_warnings(
    registry: Registry, submissions: Iterable[tuple[str, Mapping[str, Any]]]
) -> list[JobWarning]:
    """The warnings about jobs, given by their types and parameters; each field is named once. A job
    type whose model accepts everything has no unknown fields."""
    found: dict[tuple[type[BaseModel], str], None] = {}  # an ordered set
    for job_type, parameters in submissions:
        if job_type in registry:
            model = registry[job_type].parameters
            found |= dict.fromkeys((model, name) for name in _unknown_fields(model, parameters))
    messages = dict.fromkeys(_message(*one) for one in list(found)[:MAX_WARNINGS])
    if (more := len(found) - MAX_WARNINGS) > 0:
        messages[f"{more} more unknown field{'s' if more > 1 else ''}"] = None
    return [JobWarning(code=UNKNOWN_FIELD, message=message) for message in messages]


def _unknown_fields(model: type[BaseModel], parameters: Mapping[str, Any]) -> list[str]:
    if model.model_config.get("extra") == "allow":
        return []
    known, ignored = field_names(model), ignored_field_names(model)
    return [
        name
        for name, value in flatten_parameters(parameters).items()
        if name not in known
        and name not in CONTAINERS
        and value is not None
        and name.replace("_", "").lower() not in ignored
    ]


@lru_cache(maxsize=1000)
def _message(model: type[BaseModel], name: str) -> str:
    shown = name if len(name) <= MAX_NAME_LENGTH else name[:MAX_NAME_LENGTH] + "…"
    # Line breaks and control characters could forge lines of a log.
    shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in shown)
    meant = _similar_field(model, name) if len(name) <= MAX_NAME_LENGTH else None
    hint = f'; did you mean "{meant}"?' if meant else ""
    return f'Unknown field "{shown}"{hint}'


def _similar_field(model: type[BaseModel], name: str) -> str | None:
    if name in REQUEST_FIELDS:
        return ELSEWHERE.get(name)
    names = sorted(field_names(model) | REQUEST_FIELDS)
    return next(iter(get_close_matches(name, names, n=1, cutoff=MIN_SIMILARITY)), None)
