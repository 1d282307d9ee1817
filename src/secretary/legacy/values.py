"""Single values of older documents, which are seldom quite what they should be."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, get_args
from uuid import UUID, uuid5

from pydantic import ValidationError

from ..job import (
    MAX_LOG_MESSAGE,
    OWNER_ONLY,
    AccessControl,
    JobError,
    JobStatus,
    LogEntry,
    LogLevel,
    Webhook,
    iso,
)
from ..webhook_rules import any_url, problems_of

#: Ids that are not of our form become one of it, always the same.
NAMESPACE = UUID("6f1d6d1e-6c0b-5c0e-9c55-5ec2e7a2ab1e")
FITTING = re.compile(r"[A-Za-z0-9_-]{1,100}")

STATUSES = {status.value: status for status in JobStatus} | {
    "queued": JobStatus.PENDING,
    "running": JobStatus.PROCESSING,
    "error": JobStatus.FAILED,
    "canceled": JobStatus.CANCELLED,
}
LEVELS = {level: level for level in get_args(LogLevel)} | {"warn": "warning", "fatal": "critical"}


class Unreadable(Exception):
    """The document is not one that can be taken over; the text says why."""


def id_of(kind: Literal["job", "batch"], document: Mapping[str, Any]) -> str:
    own = document.get(f"{kind}_id") or document.get("_id")
    if not own:
        raise Unreadable("it has no id")
    return fitting_id(kind, str(own))


def fitting_id(kind: Literal["job", "batch"], own: str) -> str:
    if own.startswith(f"{kind}-") and FITTING.fullmatch(own):
        return own
    return f"{kind}-{uuid5(NAMESPACE, f'{kind}/{own}')}"


def status_of(document: Mapping[str, Any]) -> JobStatus:
    told = str(document.get("status") or "").lower()
    if told not in STATUSES:
        raise Unreadable(f"its status is {told or 'missing'}")
    return STATUSES[told]


def time_of(value: Any) -> datetime | None:
    """Without a zone it is UTC: so the older service wrote it."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def created_at_of(document: Mapping[str, Any]) -> datetime:
    """As it is told, or as the id that MongoDB gave tells it."""
    if (told := time_of(document.get("created_at"))) is not None:
        return told
    own = str(document.get("_id", ""))
    if re.fullmatch("[0-9a-f]{24}", own):
        return datetime.fromtimestamp(int(own[:8], 16), UTC)
    raise Unreadable("it does not tell when it was created")


def json_of(value: Any) -> Any:
    """The same with times as texts."""
    match value:
        case datetime():
            at = time_of(value)
            assert at is not None
            return iso(at)
        case Mapping():
            return {key: json_of(item) for key, item in value.items()}
        case list():
            return [json_of(item) for item in value]
        case _:
            return value


def text_or_none(value: Any) -> str | None:
    return str(value) if value not in (None, "") else None


def error_of(value: Any) -> JobError | None:
    if not value:
        return None
    if not isinstance(value, Mapping):
        return JobError(code="INTERNAL_ERROR", message=str(value))
    details = json_of(value.get("details"))
    if details is not None and not isinstance(details, dict):
        details = {"told": details}
    code = text_or_none(value.get("code")) or "INTERNAL_ERROR"
    return JobError(code=code, message=str(value.get("message") or ""), details=details)


def access_of(value: Any) -> AccessControl:
    if not isinstance(value, Mapping):
        return OWNER_ONLY
    lists = {
        name: tuple(str(user) for user in value.get(name) or () if user)
        for name in ("read_access", "write_access", "admin_access")
    }
    public = str(value.get("visibility")).lower() == "public"
    return AccessControl(visibility="public" if public else "private", **lists)


def log_of(value: Any, otherwise: datetime) -> LogEntry:
    if not isinstance(value, Mapping):
        return LogEntry(timestamp=otherwise, message=str(value)[:MAX_LOG_MESSAGE])
    told = str(value.get("level") or "info").lower()
    return LogEntry.model_validate(
        {
            "timestamp": time_of(value.get("timestamp")) or otherwise,
            "level": LEVELS.get(told, "info"),
            "message": str(value.get("message") or "")[:MAX_LOG_MESSAGE],
        }
    )


def webhook_of(value: Any) -> Webhook | None:
    """None also for one that could never be told anything."""
    if not isinstance(value, Mapping) or not value.get("url"):
        return None
    try:
        webhook = Webhook.model_validate(
            {name: item for name, item in json_of(value).items() if item is not None}
        )
    except ValidationError:
        return None
    return None if list(problems_of(webhook, any_url)) else webhook
