"""Imports jobs and batches of the legacy service (`event_jobs`, `event_batches`), which it leaves
unchanged."""

import base64
import binascii
import math
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeVar, get_args
from uuid import UUID, uuid5

from bson import Binary
from pydantic import ValidationError
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import ConfigurationError
from pymongo.read_concern import ReadConcern

from ..core.errors import InvalidParameters, NotFound
from ..core.files import safe_name
from ..core.job import (
    DEFAULT_JOB_TYPE,
    FINAL_STATUSES,
    MAX_LOG_ENTRIES,
    MAX_LOG_MESSAGE,
    OWNER_ONLY,
    QUEUED,
    AccessControl,
    Batch,
    Job,
    JobError,
    JobStatus,
    LogEntry,
    LogLevel,
    Progress,
    Webhook,
    iso,
    normalize_parameters,
)
from ..jobs.submission import accept_any_url, webhook_problems
from ..storage.blob_store import BlobStore
from ..store import Store
from ..store.mongo.client import connect, translated
from ..store.mongo.schema import Document
from ..store.outbox import first_event
from ..store.transfer import BatchRecord, JobRecord, Kind, Record, RecordId

LegacyCollection = Literal["event_jobs", "event_batches"]
COLLECTIONS = ["event_jobs", "event_batches"]
#: Documents per page; each may contain an archive of several megabytes.
GROUP = 20

#: Only has JSON values.
LegacyDocument = Mapping[str, Any]

#: The status that jobs running in the legacy service are imported with.
RunningJobs = Literal["failed", "pending"]


@dataclass(frozen=True, slots=True)
class LegacyJob:
    record: JobRecord
    #: The ZIP inside the document; it becomes an artifact.
    archive: bytes | None

    @property
    def record_id(self) -> str:
        return self.record.record_id


T = TypeVar("T", LegacyJob, BatchRecord)


@dataclass(frozen=True, slots=True)
class LegacySource:
    """The database of the legacy service."""

    database: AsyncDatabase[Document]
    address: str

    async def documents(self, name: LegacyCollection) -> AsyncIterator[list[LegacyDocument]]:
        """Read all documents of a collection, oldest first, page by page: importing a page may take
        longer than a cursor lives."""
        last: Document = {}
        while True:
            with translated(self.address):
                documents = self.database[name].find(last, sort=[("_id", 1)], limit=GROUP)
                page = await documents.to_list()
            if not page:
                return
            last = {"_id": {"$gt": page[-1]["_id"]}}
            yield [to_json(document) for document in page]


@asynccontextmanager
async def open_legacy_source(url: str) -> AsyncIterator[LegacySource]:
    """Raises `NotFound` if neither collection exists."""
    client, address = connect(url, socketTimeoutMS=60_000)
    async with client:
        try:
            database = client.get_default_database()
        except ConfigurationError:
            raise InvalidParameters(
                "Name the database in the address: mongodb://host/database"
            ) from None
        database = database.with_options(read_concern=ReadConcern("majority"))
        with translated(address):
            names = await database.list_collection_names(filter={"name": {"$in": COLLECTIONS}})
        if not names:
            raise NotFound(f"The database {database.name} has no {' and no '.join(COLLECTIONS)}")
        yield LegacySource(database, address)


def to_json(value: Any) -> Any:
    """Convert BSON types that JSON lacks to text."""
    match value:
        case dict():
            return {str(key): to_json(item) for key, item in value.items()}
        case list():
            return [to_json(item) for item in value]
        case bool() | None | str():
            return value
        case datetime():
            return iso(_as_utc(value))
        case int():
            return int(value)  # also converts Int64
        case float():
            return value if math.isfinite(value) else str(value)
        case Binary() | bytes():
            return bytes(value).hex()
        case _:  # such as ObjectId
            return str(value)


@dataclass(slots=True)
class KindReport:
    found: int = 0
    imported: int = 0
    #: Already imported.
    skipped: int = 0
    #: Reasons by the id in the legacy service.
    unreadable: dict[str, str] = field(default_factory=dict)
    #: Unknown fields that were dropped, with the number of documents.
    left_behind: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class LegacyReport:
    jobs: KindReport = field(default_factory=KindReport)
    batches: KindReport = field(default_factory=KindReport)
    archives: int = 0
    #: Of the imported jobs.
    by_status: Counter[JobStatus] = field(default_factory=Counter)


@dataclass(slots=True)
class LegacyImporter:
    """Imports everything once: ids are mapped deterministically, so a repeated run adds nothing."""

    source: LegacySource
    #: None for a dry run without an existing store.
    store: Store | None
    files: BlobStore | None
    running: RunningJobs = "failed"
    dry_run: bool = False
    _report: LegacyReport = field(default_factory=LegacyReport)
    #: Ids of batches with pending jobs.
    _open: set[str] = field(default_factory=set)

    async def run(self, tell: Callable[[int], object] = lambda found: None) -> LegacyReport:
        inactive = {
            record_id("batch", document)
            async for group in self.source.documents("event_batches")
            for document in group
            if not is_active(document) and (document.get("batch_id") or document.get("_id"))
        }
        async for group in self.source.documents("event_jobs"):
            await self._import_jobs(group, inactive)
            tell(self._report.jobs.found)
        convert = partial(convert_batch, still_open=self._open)
        async for group in self.source.documents("event_batches"):
            report = self._report.batches
            batches = _convert_group(group, convert, report, "batch_id", BATCH_FIELDS)
            await self._store("batches", await self._new("batches", batches), len(batches))
        return self._report

    async def _import_jobs(self, group: list[LegacyDocument], inactive: set[str]) -> None:
        convert = partial(convert_job, inactive=inactive, running=self.running)
        readable = _convert_group(group, convert, self._report.jobs, "job_id", JOB_FIELDS)
        jobs = [one.record.job for one in readable.values()]
        pending = [job for job in jobs if job.status is JobStatus.PENDING]
        self._open |= {job.batch_id for job in pending if job.batch_id}
        new = await self._new("jobs", readable)
        with TemporaryDirectory(prefix="legacy-") as directory:
            # Before the jobs, so that every imported job has its archive.
            for one in new:
                if one.archive is not None and self.files is not None and not self.dry_run:
                    path, job = Path(directory) / "archive", one.record.job
                    path.write_bytes(one.archive)
                    name = (job.results or {})["archive_filename"]
                    await self.files.put([(f"jobs/{job.job_id}/{job.attempt}/{name}", path)])
        imported = await self._store("jobs", [one.record for one in new], len(readable))
        for one in new:
            if one.record_id in imported:
                self._report.by_status[one.record.job.status] += 1
                self._report.archives += one.archive is not None

    async def _new(self, kind: Kind, readable: Mapping[str, T]) -> list[T]:
        """Those that the store does not have."""
        stored: set[RecordId] = set()
        if self.store is not None and readable:
            async for group in self.store.records(kind, list(readable)):
                stored |= {record.record_id for record in group}
        return [one for record_id, one in readable.items() if record_id not in stored]

    async def _store(
        self, kind: Literal["jobs", "batches"], records: Sequence[Record], readable: int
    ) -> set[RecordId]:
        imported: set[RecordId] = {record.record_id for record in records}
        if records and self.store is not None and not self.dry_run:
            imported = await self.store.import_records(records)
        report: KindReport = getattr(self._report, kind)
        report.imported += len(imported)
        report.skipped += readable - len(imported)
        return imported


def _convert_group(
    group: list[LegacyDocument],
    convert: Callable[[LegacyDocument], T],
    report: KindReport,
    id_field: str,
    known_fields: Set[str],
) -> dict[str, T]:
    readable: dict[str, T] = {}
    for document in group:
        report.found += 1
        try:
            converted = convert(document)
            if converted.record_id in readable:
                raise UnreadableDocument("another document has the same id")
        except UnreadableDocument as error:
            report.unreadable[str(document.get(id_field) or document.get("_id"))] = str(error)
        else:
            readable[converted.record_id] = converted
            report.left_behind.update(document.keys() - known_fields)
    return readable


#: Namespace of the ids derived from legacy ids that are not valid here.
NAMESPACE = UUID("6f1d6d1e-6c0b-5c0e-9c55-5ec2e7a2ab1e")
VALID_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")

STATUSES = {status.value: status for status in JobStatus} | {
    "queued": JobStatus.PENDING,
    "running": JobStatus.PROCESSING,
    "error": JobStatus.FAILED,
    "canceled": JobStatus.CANCELLED,
}
LEVELS = {level: level for level in get_args(LogLevel)} | {"warn": "warning", "fatal": "critical"}


class UnreadableDocument(Exception):
    """The document cannot be imported; the message says why."""


def record_id(kind: Literal["job", "batch"], document: LegacyDocument) -> str:
    own = document.get(f"{kind}_id") or document.get("_id")
    if not own:
        raise UnreadableDocument("it has no id")
    return valid_id(kind, str(own))


def valid_id(kind: Literal["job", "batch"], own: str) -> str:
    if own.startswith(f"{kind}-") and VALID_ID.fullmatch(own):
        return own
    return f"{kind}-{uuid5(NAMESPACE, f'{kind}/{own}')}"


def parse_time(value: Any) -> datetime | None:
    """Times without a zone are UTC, as the legacy service wrote them."""
    try:
        return _as_utc(datetime.fromisoformat(value))
    except (TypeError, ValueError):
        return None


def _as_utc(at: datetime) -> datetime:
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def creation_time(document: LegacyDocument) -> datetime:
    """From the field, or from the MongoDB ObjectId."""
    if (created_at := parse_time(document.get("created_at"))) is not None:
        return created_at
    own = str(document.get("_id", ""))
    if re.fullmatch("[0-9a-f]{24}", own):
        return datetime.fromtimestamp(int(own[:8], 16), UTC)
    raise UnreadableDocument("it has no creation time")


def text_or_none(value: Any) -> str | None:
    return str(value) if value not in (None, "") else None


def convert_error(value: Any) -> JobError | None:
    if not value:
        return None
    if not isinstance(value, Mapping):
        return JobError(code="INTERNAL_ERROR", message=str(value))
    details = value.get("details")
    if details is not None and not isinstance(details, dict):
        details = {"told": details}
    code = text_or_none(value.get("code")) or "INTERNAL_ERROR"
    return JobError(code=code, message=str(value.get("message") or ""), details=details)


def _ownership(document: LegacyDocument) -> dict[str, Any]:
    """The fields for owner, access and archive, which jobs and batches share."""
    access, stored = OWNER_ONLY, document.get("access_control")
    if isinstance(stored, Mapping):
        lists = {
            name: tuple(str(user) for user in stored.get(name) or () if user)
            for name in ("read_access", "write_access", "admin_access")
        }
        is_public = str(stored.get("visibility")).lower() == "public"
        access = AccessControl(visibility="public" if is_public else "private", **lists)
    user_id, archived = text_or_none(document.get("user_id")), bool(document.get("archived"))
    return {"user_id": user_id, "access_control": access, "archived": archived}


def convert_logs(value: Any, otherwise: datetime) -> tuple[tuple[LogEntry, ...], int]:
    """Return the newest entries, as many as a job keeps, and the number of dropped ones."""
    stored = value if isinstance(value, list) else []
    entries: list[LogEntry] = []
    for one in stored[-MAX_LOG_ENTRIES:]:
        fields = one if isinstance(one, Mapping) else {"message": str(one)}
        entry = {
            "timestamp": parse_time(fields.get("timestamp")) or otherwise,
            "level": LEVELS.get(str(fields.get("level") or "info").lower(), "info"),
            "message": str(fields.get("message") or "")[:MAX_LOG_MESSAGE],
        }
        entries.append(LogEntry.model_validate(entry))
    return tuple(entries), len(stored) - len(entries)


def convert_webhook(value: Any) -> Webhook | None:
    """None also for a webhook to which every delivery would fail."""
    if not isinstance(value, Mapping) or not value.get("url"):
        return None
    try:
        webhook = Webhook.model_validate(
            {name: item for name, item in value.items() if item is not None}
        )
    except ValidationError:
        return None
    return None if list(webhook_problems(webhook, accept_any_url)) else webhook


#: The worker id in the attempts of imported jobs.
LEGACY_WORKER_ID = "event_jobs"
ARCHIVE_NAME = "archive.zip"
#: Fields that are imported, or derived from imported ones.
JOB_FIELDS = frozenset({
    "_id", "job_id", "job_type", "job_name", "status", "parameters", "progress", "results", "error",
    "created_at", "updated_at", "processing_started_at", "completed_at", "batch_id", "user_id",
    "access_control", "logs", "archived", "webhook",
})  # fmt: skip
BATCH_FIELDS = frozenset({
    "_id", "batch_id", "batch_name", "status", "total_jobs", "completed_jobs", "failed_jobs",
    "pending_jobs", "processing_jobs", "cancelled_jobs", "isActive", "is_active", "archived",
    "created_at", "updated_at", "completed_at", "user_id", "access_control", "webhook",
})  # fmt: skip

INTERRUPTED = JobError(
    code="WORKER_CRASHED",
    message="The job was running in the legacy service when it was imported; you can restart it",
)
CANCELLED = JobError(code="CANCELLED", message="The job was cancelled")
NO_REASON = JobError(code="INTERNAL_ERROR", message="The legacy service recorded no reason")


def convert_job(
    document: LegacyDocument, *, inactive: Collection[str] = (), running: RunningJobs = "failed"
) -> LegacyJob:
    try:
        return _convert_job(document, inactive, running)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UnreadableDocument(f"{place}: {first['msg']}") from None


def _convert_job(
    document: LegacyDocument, inactive: Collection[str], running: RunningJobs
) -> LegacyJob:
    stored_status = str(document.get("status") or "").lower()
    if stored_status not in STATUSES:
        raise UnreadableDocument(f"its status is {stored_status or 'missing'}")
    legacy_status = STATUSES[stored_status]
    status = JobStatus(running) if legacy_status is JobStatus.PROCESSING else legacy_status
    created_at = creation_time(document)
    parameters, webhook = _parameters(document)
    results, archive = _results(document)
    batch_id = text_or_none(document.get("batch_id"))
    logs, dropped = convert_logs(document.get("logs"), created_at)
    job = Job(
        job_id=record_id("job", document),
        job_type=str(document.get("job_type") or DEFAULT_JOB_TYPE),
        job_name=text_or_none(document.get("job_name")),
        status=status,
        parameters=parameters,
        results=results if status in FINAL_STATUSES else None,
        created_at=created_at,
        batch_id=valid_id("batch", batch_id) if batch_id else None,
        logs=logs,
        webhook=webhook,
        **_ownership(document),
        **_state(document, status, legacy_status, created_at),
    )
    if status is not JobStatus.COMPLETED or job.results is None:
        archive = None
    elif archive is not None:
        name = safe_name(str(job.results.get("archive_filename") or "")) or ARCHIVE_NAME
        url = f"/api/jobs/{job.job_id}/download-archive"
        results = {**job.results, "archive_filename": name, "archive_url": url}
        job = job.model_copy(update={"results": results})
    record = JobRecord(job=job, dropped_logs=dropped)
    if status is JobStatus.PENDING:
        record = replace(record, paused=job.batch_id in inactive, outbox=first_event(webhook))
    return LegacyJob(record, archive)


def _state(
    document: LegacyDocument, status: JobStatus, legacy_status: JobStatus, created_at: datetime
) -> dict[str, Any]:
    """The fields that depend on the status: times, progress, error, attempt."""
    updated_at = parse_time(document.get("updated_at")) or created_at
    if status not in FINAL_STATUSES:
        return {"updated_at": updated_at, "progress": QUEUED}
    error = convert_error(document.get("error"))
    if legacy_status is JobStatus.PROCESSING:
        error = INTERRUPTED
    elif status is JobStatus.COMPLETED:
        error = None
    else:
        error = error or (NO_REASON if status is JobStatus.FAILED else CANCELLED)
    stored = document.get("progress")
    stored = stored if isinstance(stored, Mapping) else {}
    percent = stored.get("percent")
    step, number = "completed", 100
    if status is not JobStatus.COMPLETED:
        step = str(stored.get("step") or "queued")
        number = int(percent) if isinstance(percent, int | float) else 0
    started_at = parse_time(document.get("processing_started_at"))
    completed_at = parse_time(document.get("completed_at")) or updated_at
    message = str(stored.get("message") or "")
    return {
        "updated_at": updated_at,
        "progress": Progress(step=step, percent=min(max(number, 0), 100), message=message),
        "error": error,
        "processing_started_at": started_at,
        "completed_at": completed_at,
        "attempt": 1,
        "worker_id": LEGACY_WORKER_ID if started_at else None,
        "failures": int(status is JobStatus.FAILED),
        "cancel_requested": status is JobStatus.CANCELLED,
    }


def _parameters(document: LegacyDocument) -> tuple[dict[str, Any], Webhook | None]:
    """The parameters without the webhook that may be among them: clients can read parameters, but
    must not see its token."""
    given = document.get("parameters") or {}
    if not isinstance(given, dict):
        raise UnreadableDocument("its parameters are not a document")
    parameters = normalize_parameters(given, None)
    webhook = convert_webhook(document.get("webhook"))
    for place in (parameters, parameters.get("extra")):
        if isinstance(place, dict):
            inner, url = place.pop("webhook", None), place.pop("callback_url", None)
            token = place.pop("callback_token", None)
            webhook = (
                webhook or convert_webhook(inner) or convert_webhook({"url": url, "token": token})
            )
    return parameters, webhook


def _results(document: LegacyDocument) -> tuple[dict[str, Any] | None, bytes | None]:
    """The results, and the archive that may be inside them."""
    stored = document.get("results")
    if not isinstance(stored, dict):
        return None, None
    results = {name: value for name, value in stored.items() if name != "archive_data"}
    data = stored.get("archive_data")
    try:
        archive = base64.b64decode(data, validate=True) if isinstance(data, str) else None
    except (binascii.Error, ValueError):
        archive = None
    return results, archive or None


def convert_batch(document: LegacyDocument, *, still_open: Collection[str] = ()) -> BatchRecord:
    """`still_open` has the ids of batches with pending jobs. Counters are recomputed."""
    created_at = creation_time(document)
    updated_at = parse_time(document.get("updated_at")) or created_at
    batch_id = record_id("batch", document)
    ended_at = parse_time(document.get("completed_at")) or updated_at
    waited = str(document.get("status") or "").lower() in ("", "pending", "queued")
    batch = Batch(
        batch_id=batch_id,
        batch_name=text_or_none(document.get("batch_name")),
        created_at=created_at,
        updated_at=updated_at,
        started_at=None if waited else created_at,
        completed_at=None if batch_id in still_open else ended_at,
        is_active=is_active(document),
        webhook=convert_webhook(document.get("webhook")),
        **_ownership(document),
    )
    return BatchRecord(batch=batch)


def is_active(document: LegacyDocument) -> bool:
    active = document.get("isActive", document.get("is_active"))
    return active is None or bool(active)
