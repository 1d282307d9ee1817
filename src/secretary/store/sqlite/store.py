"""Jobs in one SQLite file: the embedded store, for everything that runs on one machine."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import apsw

from ...errors import StoreUnavailable
from ...job import (
    Batch,
    Completed,
    Delivery,
    Job,
    JobStatus,
    LogEntry,
    Outcome,
    Progress,
    Try,
    utc_now,
)
from ...machine import boot_id
from .. import (
    Added,
    BatchQuery,
    Changes,
    IdempotencyKey,
    JobQuery,
    Page,
    Renewal,
    Rescued,
    Taker,
    Wanted,
    WorkerInfo,
)
from ..activity import Activity, Ending, Place
from ..json_text import dumps
from ..news import News
from ..outbox import DueEvent, EventsWanted, Pace
from ..tallies import Tallies
from ..transfer import Kind, Record, RecordId
from . import (
    activity,
    add,
    ending,
    events,
    export,
    line,
    reading,
    report,
    rescue,
    searching,
    tidy,
    wishes,
    workers,
)
from .changes import changes
from .claim import Claims
from .errors import unavailable_error
from .readers import Readers
from .schema import prepare
from .take_in import take_in
from .wakeup import WakeUp
from .writer import Writer


class SqliteStore:
    """Whatever a verb writes is one transaction, and the functions it calls are part of that."""

    kind = "sqlite"
    in_order = True
    remote = False

    def __init__(self, url: str) -> None:
        self._path = Path(url.removeprefix("sqlite://"))
        self._own_writes = News()
        self._writer = Writer(self._path, on_commit=self._own_writes.tell)
        self._readers = Readers(self._path)
        self._wakeup = WakeUp(self._path.with_name(f"{self._path.name}-wake"))
        self._boot = boot_id()
        self._claims = Claims()
        self._sweep = activity.Sweep()
        self._tallies = Tallies(self._write_tallies, unavailable=StoreUnavailable)
        self._writer.invited = self._claims.offer

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
        await self._tallies.close()
        await self._writer.close()
        self._readers.close()

    # Clients

    async def add(
        self,
        jobs: Sequence[Job],
        *,
        batch: Batch | None = None,
        idempotency: IdempotencyKey | None = None,
    ) -> Added:
        if len(jobs) != 1 and batch is None:
            raise ValueError("Several jobs need a batch")
        work = partial(add.add, jobs=jobs, batch=batch, idempotency=idempotency)
        many = len(jobs) > 1
        added, _ = await self._writer.call(work, durable=True, heavy=many, invites=not many)
        if not self._claims.taken.issuperset(added.job_ids):
            self._wakeup.tell()
        return added

    async def get(self, job_id: str) -> Job:
        return await self._readers.call_on_loop(partial(reading.get_job, job_id=job_id))

    async def find(self, query: JobQuery) -> Page[Job]:
        if query.search_seconds is not None and query.job_id is None:
            search = partial(searching.search_jobs, query=query, seconds=query.search_seconds)
            return await self._readers.call(search)
        read = self._readers.call if query.job_id is None else self._readers.call_on_loop
        return await read(partial(reading.find_jobs, query=query))

    async def get_batch(self, batch_id: str) -> Batch:
        return await self._readers.call(partial(reading.get_batch, batch_id=batch_id))

    async def find_batches(self, query: BatchQuery) -> Page[Batch]:
        return await self._readers.call(partial(reading.find_batches, query=query))

    async def changes(
        self, since: str | None, *, limit: int = 1000, seconds: float = 0.0
    ) -> Changes:
        look = partial(changes, since=since, limit=limit)
        written = self._own_writes.generation
        found = await self._readers.call(look)
        if found.items or found.gap or since is None or seconds <= 0:
            return found
        await self._own_writes.wait(written, seconds=seconds)
        return await self._readers.call(look)

    async def cancel(self, query: JobQuery) -> list[str]:
        changed = await self._change(query, wishes.cancel)
        self._wakeup.tell()
        return changed

    async def restart(self, query: JobQuery) -> list[str]:
        changed = await self._change(query, wishes.restart)
        self._wakeup.tell()
        return changed

    async def archive(self, query: JobQuery, *, archived: bool = True) -> list[str]:
        return await self._change(query, partial(wishes.archive, archived=archived))

    async def delete(self, query: JobQuery) -> list[str]:
        return await self._change(query, wishes.delete)

    async def change_batch(
        self, batch_id: str, *, is_active: bool | None = None, archived: bool | None = None
    ) -> Batch:
        batch = await self._writer.call(
            lambda db: wishes.change_batch(db, batch_id, is_active=is_active, archived=archived),
            durable=True,
            heavy=True,
        )
        self._wakeup.tell()
        return batch

    async def delete_batch(self, batch_id: str) -> None:
        await self._writer.call(lambda db: wishes.delete_batch(db, batch_id), durable=True)

    async def counts(self) -> Mapping[str, Mapping[JobStatus, int]]:
        return await self._readers.call(reading.count_jobs)

    async def counts_of_user(self, user_id: str) -> Mapping[JobStatus, int]:
        return await self._readers.call(partial(reading.count_jobs_of_user, user_id=user_id))

    async def activity(
        self, since: datetime, *, step: timedelta, parts: int, user_id: str | None = None
    ) -> list[Activity]:
        await self._tallies.write()  # who ended a job here sees it at once
        return await self._readers.call(
            lambda db: activity.read(db, since, step=step, parts=parts, user_id=user_id)
        )

    async def waiting_since(self) -> Mapping[str, datetime]:
        return await self._readers.call(line.waiting_since)

    # Workers

    async def enlist(self, worker: WorkerInfo, lease: timedelta) -> None:
        await self._writer.call(lambda db: workers.enlist(db, worker, lease, boot=self._boot))

    async def dismiss(self, worker_id: str) -> None:
        await self._writer.call(lambda db: workers.dismiss(db, worker_id))

    async def workers(self) -> list[WorkerInfo]:
        return await self._readers.call(workers.all_workers)

    async def busy_slots(self) -> Mapping[str, int]:
        return await self._readers.call(workers.busy_slots)

    async def claim(self, worker_id: str, wanted: Wanted) -> list[Job]:
        order = (worker_id, wanted)
        claimed: list[Job] = await self._writer.call_with_others(self._claims.claim, order)
        return claimed

    def employ(self, taker: Taker | None) -> None:
        self._claims.taker = taker

    async def renew(self, worker_id: str, lease: timedelta) -> Renewal:
        lease_until, renewal = await self._readers.call(partial(workers.look, worker_id=worker_id))
        if workers.is_short(lease_until, lease):
            await self._writer.call(lambda db: workers.prolong(db, worker_id, lease))
        return renewal

    async def report(
        self, job: Job, progress: Progress | None = None, logs: Sequence[LogEntry] = ()
    ) -> None:
        await self._writer.call(lambda db: report.report(db, job, progress, logs))

    async def finish(
        self, job: Job, outcome: Outcome, *, resources: Mapping[str, float] | None = None
    ) -> None:
        if isinstance(outcome, Completed):
            results = None if outcome.results is None else dumps(outcome.results)
            used = dumps(resources) if resources else None
            completion = ending.Completion(job, results, used)
            await self._writer.call_with_others(ending.complete, completion, durable=True)
            self._tallies.note([Ending.of(job, JobStatus.COMPLETED, utc_now())])
            return
        unfinished = outcome
        await self._writer.call(
            lambda db: ending.finish(db, job, unfinished, resources), durable=True
        )
        self._wakeup.tell()

    async def wait(self, since: int, *, seconds: float) -> int:
        return await self._wakeup.wait(since, seconds=seconds)

    # Webhooks

    async def take_events(self, wanted: EventsWanted) -> list[DueEvent]:
        chosen = await self._readers.call(partial(events.choose, wanted=wanted))
        if not chosen:
            return []
        return await self._writer.call(lambda db: events.take(db, chosen, wanted))

    async def hold_events(self, held: Sequence[DueEvent], lease: timedelta) -> None:
        owner_ids = [event.owner_id for event in held]
        await self._writer.call(lambda db: events.hold(db, owner_ids, lease))

    async def settle_event(
        self, event: DueEvent, tried: Try, *, next_try_at: datetime | None = None
    ) -> None:
        await self._writer.call(lambda db: events.settle(db, event, tried, next_try_at))

    async def pace_event(self, event: DueEvent, tried: Try | None, pace: Pace | None) -> None:
        await self._writer.call(lambda db: events.pace(db, event, tried, pace))

    async def events_due_since(self) -> datetime | None:
        return await self._readers.call(events.due_since)

    async def postpone_events(self, endpoint: str, until: datetime) -> None:
        await self._writer.call(lambda db: events.postpone(db, endpoint, until), heavy=True)

    async def replay_event(self, owner_id: str, n: int) -> Delivery:
        return await self._writer.call(lambda db: events.replay(db, owner_id, n), durable=True)

    # Upkeep

    async def rescue(self, *, dead: Collection[str] = (), max_crashes: int = 2) -> list[Rescued]:
        lost = partial(rescue.anything_lost, boot=self._boot)
        if not dead and not await self._readers.call(lost):
            return []
        work = partial(rescue.rescue, boot=self._boot, dead=list(dead), max_crashes=max_crashes)
        rescued = await self._writer.call(work, durable=True, heavy=True)
        if rescued:
            self._wakeup.tell()
        return rescued

    async def expired(self, older_than: Mapping[JobStatus, datetime], *, limit: int) -> list[str]:
        return await self._readers.call(lambda db: tidy.find_expired(db, older_than, limit))

    async def tidy(self) -> None:
        await self._writer.call(partial(tidy.tidy, sweep=self._sweep), heavy=True)
        await self._readers.call(tidy.checkpoint)

    # Copies

    async def records(
        self, kind: Kind, ids: Collection[RecordId] | None = None
    ) -> AsyncIterator[list[Record]]:
        if ids is not None:
            yield await self._readers.call(lambda db: export.read_some(db, kind, ids))
            return
        place: Any = None
        while True:
            group = await self._readers.call(partial(export.read_group, kind=kind, place=place))
            if not group.records:
                return
            place = group.place
            yield group.records

    async def take_in(self, records: Sequence[Record]) -> set[RecordId]:
        new = await self._writer.call(lambda db: take_in(db, records), durable=True, heavy=True)
        self._wakeup.tell()
        return new

    def depot(self) -> None:
        """Who has the file of the database has the directory beside it too."""

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

    async def _write_tallies(self, counted: Counter[Place]) -> None:
        await self._writer.call(lambda db: activity.write(db, counted))

    async def _change(
        self, query: JobQuery, wish: Callable[[apsw.Connection, JobQuery], list[str]]
    ) -> list[str]:
        heavy = query.job_id is None
        return await self._writer.call(lambda db: wish(db, query), durable=True, heavy=heavy)
