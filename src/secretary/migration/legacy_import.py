"""Takes over what the older service has stored, without changing anything there."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Container, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Protocol, cast

from ..core.job import JobStatus
from ..storage.blob_store import BlobStore
from ..store import Store
from ..store.transfer import BatchRecord, Kind, Record, RecordId
from .legacy_documents import (
    BATCH_FIELDS,
    JOB_FIELDS,
    LegacyJob,
    RunningJobs,
    UnreadableDocument,
    convert_batch,
    convert_job,
    is_active,
    record_id,
)

LegacyCollection = Literal["event_jobs", "event_batches"]

#: What JSON can say, and times.
LegacyDocument = Mapping[str, Any]


class LegacySource(Protocol):
    async def open(self) -> None:
        """`NotFound` when there is neither of the collections."""
        ...

    async def close(self) -> None: ...

    def documents(self, name: LegacyCollection) -> AsyncIterator[list[LegacyDocument]]:
        """All documents of a collection, oldest first, in groups that fit into memory."""
        ...


def open_legacy_source(url: str) -> LegacySource:
    """The driver is imported only now, so it stays optional."""
    module = import_module("secretary.migration.legacy_source")
    return cast(LegacySource, module.MongoLegacySource(url))


@dataclass(slots=True)
class KindReport:
    found: int = 0
    imported: int = 0
    #: They were here already.
    skipped: int = 0
    #: By their ids there, with the reason.
    unreadable: dict[str, str] = field(default_factory=dict)
    #: Fields that mean nothing here and were left behind, with the number of documents.
    left_behind: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class LegacyReport:
    jobs: KindReport = field(default_factory=KindReport)
    batches: KindReport = field(default_factory=KindReport)
    archives: int = 0
    #: Of the jobs that were imported.
    by_status: Counter[JobStatus] = field(default_factory=Counter)


class LegacyImporter:
    """Ids stay the same, or become always the same: so a second time nothing is new."""

    def __init__(
        self,
        older: LegacySource,
        store: Store | None,
        files: BlobStore | None,
        *,
        running: RunningJobs = "failed",
        dry_run: bool = False,
    ) -> None:
        """`store` is None where a dry run finds that there is none yet."""
        self._older = older
        self._store = store
        self._files = files
        self._running = running
        self._dry_run = dry_run
        self._report = LegacyReport()
        #: Batches with jobs that wait.
        self._open: set[str] = set()

    async def run(self, tell: Callable[[int], object] = lambda found: None) -> LegacyReport:
        inactive = await self._inactive()
        async for group in self._older.documents("event_jobs"):
            await self._take_jobs(group, inactive)
            tell(self._report.jobs.found)
        async for group in self._older.documents("event_batches"):
            await self._take_batches(group)
        return self._report

    async def _inactive(self) -> set[str]:
        found: set[str] = set()
        async for group in self._older.documents("event_batches"):
            for document in group:
                if not is_active(document) and (document.get("batch_id") or document.get("_id")):
                    found.add(record_id("batch", document))
        return found

    async def _take_jobs(self, group: list[LegacyDocument], inactive: set[str]) -> None:
        report = self._report.jobs
        jobs: dict[RecordId, LegacyJob] = {}
        for document in group:
            report.found += 1
            try:
                job = convert_job(document, inactive=inactive, running=self._running)
                _check_new(job.record, jobs)
            except UnreadableDocument as error:
                report.unreadable[_name(document, "job_id")] = str(error)
                continue
            jobs[job.record.record_id] = job
            report.left_behind.update(document.keys() - JOB_FIELDS)
            if job.record.job.status is JobStatus.PENDING and job.record.job.batch_id:
                self._open.add(job.record.job.batch_id)
        known = await self._known("jobs", list(jobs))
        new = [job for record_id, job in jobs.items() if record_id not in known]
        if not self._dry_run:
            await self._put_archives(new)
        taken = await self._take_in([job.record for job in new])
        self._note(report, len(jobs), taken)
        for job in new:
            if job.record.record_id in taken:
                self._report.by_status[job.record.job.status] += 1
                self._report.archives += job.archive is not None

    async def _put_archives(self, jobs: list[LegacyJob]) -> None:
        """First, so that a job that is there has its archive."""
        with TemporaryDirectory(prefix="legacy-") as place:
            for n, older in enumerate(jobs):
                if older.archive is None or self._files is None:
                    continue
                job, path = older.record.job, Path(place) / str(n)
                path.write_bytes(older.archive)
                name = (job.results or {})["archive_filename"]
                await self._files.put([(f"jobs/{job.job_id}/{job.attempt}/{name}", path)])
                path.unlink()

    async def _take_batches(self, group: list[LegacyDocument]) -> None:
        report = self._report.batches
        batches: dict[RecordId, BatchRecord] = {}
        for document in group:
            report.found += 1
            try:
                batch = convert_batch(document, still_open=self._open)
                _check_new(batch, batches)
            except UnreadableDocument as error:
                report.unreadable[_name(document, "batch_id")] = str(error)
                continue
            batches[batch.record_id] = batch
            report.left_behind.update(document.keys() - BATCH_FIELDS)
        known = await self._known("batches", list(batches))
        taken = await self._take_in([b for name, b in batches.items() if name not in known])
        self._note(report, len(batches), taken)

    async def _known(self, kind: Kind, ids: list[RecordId]) -> set[RecordId]:
        if self._store is None or not ids:
            return set()
        found = self._store.records(kind, ids)
        return {record.record_id async for group in found for record in group}

    async def _take_in(self, records: list[Record]) -> set[RecordId]:
        if self._dry_run or self._store is None:
            return {record.record_id for record in records}
        return await self._store.import_records(records) if records else set()

    def _note(self, report: KindReport, readable: int, taken: set[RecordId]) -> None:
        report.imported += len(taken)
        report.skipped += readable - len(taken)


def _check_new(record: Record, among: Container[RecordId]) -> None:
    if record.record_id in among:
        raise UnreadableDocument("another document has the same id")


def _name(document: LegacyDocument, field_name: str) -> str:
    return str(document.get(field_name) or document.get("_id"))
