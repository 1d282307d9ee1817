"""The SQLite store: one file, for everything that runs on one machine."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import apsw

from ...core.files import load_or_create_secret
from ...core.job import Completed, Job, JobStatus, Outcome, utc_now
from ...core.json_codec import LARGE_BYTES, encode_json_text, encode_off_loop, encode_strict_json
from ..claims import RENEW_BELOW, Capacity, FairScheduler, Renewal, Rescued
from ..jobs import Changes, JobQuery, Notifier, Page
from ..outbox import DueEvent, EventCapacity
from ..stats import FinishedJob, StatsBuffer, Throughput
from ..transfer import Kind, Record, RecordId
from . import claims, outbox, queries, transfer
from . import jobs as job_actions
from .connection import Readers, WakeUp, Writer, unavailable_error
from .schema import prepare

P = ParamSpec("P")
T = TypeVar("T")

Work = Callable[Concatenate[apsw.Connection, P], T]
Method = Callable[Concatenate["SqliteStore", P], Coroutine[Any, Any, T]]


def _read(work: Work[P, T]) -> Method[P, T]:
    """A method that runs `work` in a reader thread."""

    async def method(self: "SqliteStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._readers.call(lambda db: work(db, *args, **kwargs))

    return method


def _write(
    work: Work[P, T],
    *,
    durable: bool = False,
    heavy: bool | Callable[P, bool] = False,
    wakes: bool = False,
) -> Method[P, T]:
    """A method that runs `work` in a transaction."""

    async def method(self: "SqliteStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        is_heavy = heavy(*args, **kwargs) if callable(heavy) else heavy
        written = await self._writer.call(
            lambda db: work(db, *args, **kwargs), durable=durable, heavy=is_heavy
        )
        if wakes:
            self._wakeup.notify()
        return written

    return method


def _selects_many(query: JobQuery, **_: object) -> bool:
    return query.job_id is None


def _adds_many(jobs: Sequence[Job], **_: object) -> bool:
    return len(jobs) > 1


#: Beside the database.
SECRET_FILE = "secret.key"


class SqliteStore:
    kind = "sqlite"
    remote = False

    def __init__(self, url: str) -> None:
        self._path = Path(url.removeprefix("sqlite://"))
        self._own_writes = Notifier()
        self._writer = Writer(self._path, on_commit=self._own_writes.notify)
        self._readers = Readers(self._path)
        self._wakeup = WakeUp(self._path.with_name(f"{self._path.name}-wake"))
        self._claim = partial(claims.claim_together, FairScheduler())
        self._stats = StatsBuffer(self._write_stats)
        self._last_tidied_scope = ""

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

    def secret(self) -> bytes:
        """In a file of its own: copies of the database do not contain it."""
        return load_or_create_secret(self._path.with_name(SECRET_FILE))

    # Jobs and batches

    add = _write(job_actions.add, durable=True, heavy=_adds_many, wakes=True)

    reporting_job = _read(outbox.reporting_job)

    async def get(self, job_id: str) -> Job:
        return await self._read_one(partial(queries.get_job, job_id=job_id))

    async def find(self, query: JobQuery) -> Page[Job]:
        read = self._readers.call if query.job_id is None else self._read_one
        return await read(partial(queries.find_jobs, query=query))

    async def _read_one(self, read: Callable[..., T]) -> T:
        """Read one job on the event loop, or in a thread if its results are large."""
        try:
            return await self._readers.call_on_loop(partial(read, max_results_bytes=LARGE_BYTES))
        except queries.LargeResults:
            return await self._readers.call(read)

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

    cancel = _write(job_actions.cancel, durable=True, heavy=_selects_many, wakes=True)
    restart = _write(job_actions.restart, durable=True, heavy=_selects_many, wakes=True)
    archive = _write(job_actions.archive, durable=True, heavy=_selects_many)
    delete = _write(job_actions.delete, durable=True, heavy=_selects_many)
    expired = _read(queries.find_expired)

    get_batch = _read(queries.get_batch)
    find_batches = _read(queries.find_batches)
    change_batch = _write(job_actions.change_batch, durable=True, heavy=True, wakes=True)
    delete_batch = _write(job_actions.delete_batch, durable=True)

    # Claims

    register_worker = _write(claims.register_worker)
    unregister_worker = _write(claims.unregister_worker)
    workers = _read(claims.all_workers)

    async def claim(self, worker_id: str, capacity: Capacity) -> list[Job]:
        claimed: list[Job] = await self._writer.call_with_others(self._claim, (worker_id, capacity))
        return claimed

    async def renew(self, worker_id: str, lease: timedelta) -> Renewal:
        remaining, renewal = await self._readers.call(
            partial(claims.read_lease, worker_id=worker_id)
        )
        if remaining < lease.total_seconds() * RENEW_BELOW:
            await self._writer.call(lambda db: claims.extend_lease(db, worker_id, lease))
        return renewal

    report = _write(claims.report)

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
        work = partial(claims.finish, job=job, outcome=outcome, resources=resources)
        await self._writer.call(work, durable=True)
        self._wakeup.notify()

    async def wait(self, since: int, *, seconds: float) -> int:
        return await self._wakeup.wait(since, seconds=seconds)

    async def rescue(self, *, dead: Collection[str] = ()) -> list[Rescued]:
        if not dead and not await self._readers.call(claims.has_lost_jobs):
            return []
        work = partial(claims.rescue, dead=dead)
        rescued = await self._writer.call(work, durable=True, heavy=True)
        if rescued:
            self._wakeup.notify()
        return rescued

    async def tidy(self) -> None:
        work = partial(job_actions.tidy, last_scope=self._last_tidied_scope)
        self._last_tidied_scope = await self._writer.call(work, heavy=True)
        # Outside of a transaction.
        await self._readers.call(lambda db: db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE))

    # Webhooks

    async def claim_events(self, capacity: EventCapacity) -> list[DueEvent]:
        owner_ids = await self._readers.call(partial(outbox.choose, capacity=capacity))
        if not owner_ids:
            return []
        return await self._writer.call(lambda db: outbox.claim(db, owner_ids, capacity))

    renew_events = _write(outbox.renew)
    record_delivery = _write(outbox.record_delivery)
    record_progress = _write(outbox.record_progress)
    next_event_due_at = _read(outbox.next_due_at)
    postpone_events = _write(outbox.postpone, heavy=True)
    replay_event = _write(outbox.replay, durable=True)

    # Statistics

    counts = _read(queries.count_jobs)
    counts_of_user = _read(queries.count_jobs_of_user)
    waiting_since = _read(job_actions.waiting_since)
    busy_slots = _read(claims.busy_slots)

    async def throughput(
        self, since: datetime, *, step: timedelta, intervals: int, user_id: str | None = None
    ) -> list[Throughput]:
        await self._stats.flush()  # include the jobs this process just finished
        return await self._throughput(since, step=step, intervals=intervals, user_id=user_id)

    _throughput = _read(queries.throughput)

    _write_stats = _write(queries.write_counters)

    usage = _read(queries.usage)
    charge = _write(queries.charge)
    add_usage = _write(queries.add_usage)
    stored_bytes = _read(queries.stored_bytes)
    forget_files = _write(queries.forget_files)

    async def check_writable(self) -> None:
        await self._writer.check_lock()

    async def describe(self) -> Mapping[str, Any]:
        return await self._readers.call(
            lambda db: {
                "kind": self.kind,
                "path": str(self._path),
                "sqlite_version": apsw.sqlite_lib_version(),
                "schema_version": db.pragma("user_version"),
                "journal_mode": db.pragma("journal_mode"),
                "quick_check": db.execute("PRAGMA quick_check(1)").get,
                "bytes": db.pragma("page_count") * db.pragma("page_size"),
            }
        )

    # Transfer

    async def records(
        self, kind: Kind, ids: Collection[RecordId] | None = None
    ) -> AsyncIterator[list[Record]]:
        if ids is not None:
            yield await self._readers.call(lambda db: transfer.read_by_id(db, kind, ids))
            return
        after: Any = None
        while True:
            group, after = await self._readers.call(
                partial(transfer.read_group, kind=kind, after=after)
            )
            if not group:
                return
            yield group

    import_records = _write(transfer.import_records, durable=True, heavy=True, wakes=True)
