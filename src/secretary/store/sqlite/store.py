"""The SQLite store: one file, for everything that runs on one machine."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw

from ...core.errors import StoreUnavailable
from ...core.job import (
    Batch,
    Completed,
    Delivery,
    DeliveryAttempt,
    Job,
    JobStatus,
    LogEntry,
    Outcome,
    Progress,
    utc_now,
)
from ...core.json_codec import (
    LARGE_BYTES,
    encode_json_text,
    encode_off_loop,
    encode_strict_json,
)
from ...core.processes import boot_id
from ..claims import Capacity, Renewal, Rescued, WorkerInfo
from ..jobs import Added, BatchQuery, Changes, IdempotencyKey, JobQuery, Notifier, Page
from ..outbox import DueEvent, EventCapacity, ProgressSchedule
from ..stats import FinishedJob, StatsBuffer, StatsKey, Throughput
from ..transfer import Kind, Record, RecordId
from . import claims, jobs, outbox, queries, transfer
from .claims import Claims
from .connection import Readers, WakeUp, Writer, unavailable_error
from .jobs import add as add_jobs
from .schema import prepare
from .transfer import import_records

T = TypeVar("T")


class SqliteStore:
    """Each method that writes is one transaction; the functions it calls are part of that."""

    kind = "sqlite"
    remote = False

    def __init__(self, url: str) -> None:
        self._path = Path(url.removeprefix("sqlite://"))
        self._own_writes = Notifier()
        self._writer = Writer(self._path, on_commit=self._own_writes.notify)
        self._readers = Readers(self._path)
        self._wakeup = WakeUp(self._path.with_name(f"{self._path.name}-wake"))
        self._boot = boot_id()
        self._claims = Claims()
        self._expired_stats = queries.ExpiredStats()
        self._stats = StatsBuffer(self._write_stats, unavailable=StoreUnavailable)

    async def open(self) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            await asyncio.to_thread(prepare, self._path)
            self._writer.open(asyncio.get_running_loop())
            self._readers.open()
            self._wakeup.open()
        except (apsw.Error, OSError) as error:
            raise unavailable_error(error, self._path) from error

    async def close(self) -> None:
        self._wakeup.close()
        await self._stats.close()
        await self._writer.close()
        self._readers.close()

    # Jobs and batches

    async def add(
        self,
        jobs: Sequence[Job],
        *,
        batch: Batch | None = None,
        idempotency: IdempotencyKey | None = None,
    ) -> Added:
        if len(jobs) != 1 and batch is None:
            raise ValueError("Several jobs need a batch")
        work = partial(add_jobs, jobs=jobs, batch=batch, idempotency=idempotency)
        added = await self._writer.call(work, durable=True, heavy=len(jobs) > 1)
        self._wakeup.notify()
        return added

    async def get(self, job_id: str) -> Job:
        return await self._read_one(partial(queries.get_job, job_id=job_id))

    async def find(self, query: JobQuery) -> Page[Job]:
        if query.search_seconds is not None and query.job_id is None:
            search = partial(queries.search_jobs, query=query, seconds=query.search_seconds)
            return await self._readers.call(search)
        read = self._readers.call if query.job_id is None else self._read_one
        return await read(partial(queries.find_jobs, query=query))

    async def _read_one(self, read: Callable[..., T]) -> T:
        """Read one job on the event loop, or in a thread if its results are large."""
        try:
            small = partial(read, max_results_bytes=LARGE_BYTES)
            return await self._readers.call_on_loop(small)
        except queries.LargeResults:
            return await self._readers.call(read)

    async def get_batch(self, batch_id: str) -> Batch:
        return await self._readers.call(partial(queries.get_batch, batch_id=batch_id))

    async def find_batches(self, query: BatchQuery) -> Page[Batch]:
        return await self._readers.call(partial(queries.find_batches, query=query))

    async def changes(
        self, since: str | None, *, limit: int = 1000, seconds: float = 0.0
    ) -> Changes:
        read = partial(queries.changes, since=since, limit=limit)
        generation = self._own_writes.generation
        result = await self._readers.call(read)
        if result.items or result.gap or since is None or seconds <= 0:
            return result
        await self._own_writes.wait(generation, seconds=seconds)
        return await self._readers.call(read)

    async def cancel(self, query: JobQuery) -> list[str]:
        changed = await self._change(query, jobs.cancel)
        self._wakeup.notify()
        return changed

    async def restart(self, query: JobQuery) -> list[str]:
        changed = await self._change(query, jobs.restart)
        self._wakeup.notify()
        return changed

    async def archive(self, query: JobQuery, *, archived: bool = True) -> list[str]:
        return await self._change(query, partial(jobs.archive, archived=archived))

    async def delete(self, query: JobQuery) -> list[str]:
        return await self._change(query, jobs.delete)

    async def change_batch(
        self, batch_id: str, *, is_active: bool | None = None, archived: bool | None = None
    ) -> Batch:
        batch = await self._writer.call(
            lambda db: jobs.change_batch(db, batch_id, is_active=is_active, archived=archived),
            durable=True,
            heavy=True,
        )
        self._wakeup.notify()
        return batch

    async def delete_batch(self, batch_id: str) -> None:
        await self._writer.call(lambda db: jobs.delete_batch(db, batch_id), durable=True)

    async def counts(self) -> Mapping[str, Mapping[JobStatus, int]]:
        return await self._readers.call(queries.count_jobs)

    async def counts_of_user(self, user_id: str) -> Mapping[JobStatus, int]:
        return await self._readers.call(partial(queries.count_jobs_of_user, user_id=user_id))

    async def throughput(
        self, since: datetime, *, step: timedelta, intervals: int, user_id: str | None = None
    ) -> list[Throughput]:
        await self._stats.flush()  # include the jobs this process just finished
        return await self._readers.call(
            lambda db: queries.read_throughput(
                db, since, step=step, parts=intervals, user_id=user_id
            )
        )

    async def waiting_since(self) -> Mapping[str, datetime]:
        return await self._readers.call(jobs.waiting_since)

    # Claims

    async def register_worker(self, worker: WorkerInfo, lease: timedelta) -> None:
        await self._writer.call(
            lambda db: claims.register_worker(db, worker, lease, boot=self._boot)
        )

    async def unregister_worker(self, worker_id: str) -> None:
        await self._writer.call(lambda db: claims.unregister_worker(db, worker_id))

    async def workers(self) -> list[WorkerInfo]:
        return await self._readers.call(claims.all_workers)

    async def busy_slots(self) -> Mapping[str, int]:
        return await self._readers.call(claims.busy_slots)

    async def claim(self, worker_id: str, capacity: Capacity) -> list[Job]:
        order = (worker_id, capacity)
        claimed: list[Job] = await self._writer.call_with_others(self._claims.claim, order)
        return claimed

    async def renew(self, worker_id: str, lease: timedelta) -> Renewal:
        lease_until, renewal = await self._readers.call(
            partial(claims.read_lease, worker_id=worker_id)
        )
        if claims.needs_renewal(lease_until, lease):
            await self._writer.call(lambda db: claims.extend_lease(db, worker_id, lease))
        return renewal

    async def report(
        self, job: Job, progress: Progress | None = None, logs: Sequence[LogEntry] = ()
    ) -> None:
        await self._writer.call(lambda db: claims.report(db, job, progress, logs))

    async def finish(
        self, job: Job, outcome: Outcome, *, resources: Mapping[str, float] | None = None
    ) -> None:
        if isinstance(outcome, Completed):
            results = None
            if outcome.results is not None:
                results = (await encode_off_loop(outcome.results, encode_strict_json)).decode()
            used = encode_json_text(resources) if resources else None
            completion = claims.Completion(job, results, used)
            await self._writer.call_with_others(claims.complete, completion, durable=True)
            self._stats.add([FinishedJob.of(job, JobStatus.COMPLETED, utc_now())])
            return
        unfinished = outcome
        await self._writer.call(
            lambda db: claims.finish(db, job, unfinished, resources), durable=True
        )
        self._wakeup.notify()

    async def wait(self, since: int, *, seconds: float) -> int:
        return await self._wakeup.wait(since, seconds=seconds)

    # Webhooks

    async def claim_events(self, capacity: EventCapacity) -> list[DueEvent]:
        owner_ids = await self._readers.call(partial(outbox.choose, capacity=capacity))
        if not owner_ids:
            return []
        return await self._writer.call(lambda db: outbox.claim(db, owner_ids, capacity))

    async def renew_events(self, events: Sequence[DueEvent], lease: timedelta) -> None:
        owner_ids = [event.owner_id for event in events]
        await self._writer.call(lambda db: outbox.renew(db, owner_ids, lease))

    async def record_delivery(
        self, event: DueEvent, tried: DeliveryAttempt, *, next_try_at: datetime | None = None
    ) -> None:
        await self._writer.call(lambda db: outbox.record_delivery(db, event, tried, next_try_at))

    async def record_progress(
        self, event: DueEvent, tried: DeliveryAttempt | None, pace: ProgressSchedule | None
    ) -> None:
        await self._writer.call(lambda db: outbox.record_progress(db, event, tried, pace))

    async def next_event_due_at(self) -> datetime | None:
        return await self._readers.call(outbox.next_due_at)

    async def postpone_events(self, endpoint: str, until: datetime) -> None:
        await self._writer.call(lambda db: outbox.postpone(db, endpoint, until), heavy=True)

    async def replay_event(self, owner_id: str, n: int) -> Delivery:
        return await self._writer.call(lambda db: outbox.replay(db, owner_id, n), durable=True)

    # Maintenance

    async def rescue(self, *, dead: Collection[str] = (), max_crashes: int = 2) -> list[Rescued]:
        lost = partial(claims.has_lost_jobs, boot=self._boot)
        if not dead and not await self._readers.call(lost):
            return []
        work = partial(claims.rescue, boot=self._boot, dead=list(dead), max_crashes=max_crashes)
        rescued = await self._writer.call(work, durable=True, heavy=True)
        if rescued:
            self._wakeup.notify()
        return rescued

    async def expired(self, older_than: Mapping[JobStatus, datetime], *, limit: int) -> list[str]:
        return await self._readers.call(lambda db: jobs.find_expired(db, older_than, limit))

    async def tidy(self) -> None:
        await self._writer.call(partial(jobs.tidy, expired_stats=self._expired_stats), heavy=True)
        await self._readers.call(jobs.checkpoint)

    # Transfer

    async def records(
        self, kind: Kind, ids: Collection[RecordId] | None = None
    ) -> AsyncIterator[list[Record]]:
        if ids is not None:
            yield await self._readers.call(lambda db: transfer.read_by_id(db, kind, ids))
            return
        after: Any = None
        while True:
            group = await self._readers.call(partial(transfer.read_group, kind=kind, after=after))
            if not group.records:
                return
            after = group.last
            yield group.records

    async def import_records(self, records: Sequence[Record]) -> set[RecordId]:
        new = await self._writer.call(
            lambda db: import_records(db, records), durable=True, heavy=True
        )
        self._wakeup.notify()
        return new

    async def describe(self) -> Mapping[str, Any]:
        def work(db: apsw.Connection) -> dict[str, Any]:
            return {
                "kind": "sqlite",
                "path": str(self._path),
                "sqlite_version": apsw.sqlite_lib_version(),
                "schema_version": db.pragma("user_version"),
                "journal_mode": db.pragma("journal_mode"),
                "quick_check": db.execute("PRAGMA quick_check(1)").get,
                "bytes": db.pragma("page_count") * db.pragma("page_size"),
            }

        return await self._readers.call(work)

    async def _write_stats(self, counts: Counter[StatsKey]) -> None:
        await self._writer.call(lambda db: queries.write_counters(db, counts))

    async def _change(
        self, query: JobQuery, change: Callable[[apsw.Connection, JobQuery], list[str]]
    ) -> list[str]:
        heavy = query.job_id is None
        return await self._writer.call(lambda db: change(db, query), durable=True, heavy=heavy)
