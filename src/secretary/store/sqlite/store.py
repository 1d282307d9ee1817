"""Jobs in one SQLite file: the embedded store, for everything that runs on one machine."""

import asyncio
import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import partial
from importlib.resources import files
from pathlib import Path
from threading import local
from typing import Any, TypeVar

import apsw

from ...errors import Conflict, KeyReused, LeaseLost, StoreUnavailable
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
    RENEW_BELOW,
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
from ..json_text import dumps
from ..news import News
from ..outbox import DueEvent, EventsWanted, Pace
from ..policy import Turns
from . import outbox, queue, reading
from .changes import NEXT_REVISION, changes, drop_old_traces, leave_trace
from .rows import insert_batch, microseconds, moment
from .wakeup import WakeUp
from .writer import Writer, connect, unavailable_error

T = TypeVar("T")

SCHEMA_VERSION = 1
APPLICATION_ID = 0x5EC2E7A2  # tells a database of ours from any other

READ_THREADS = 2
KEY_LIFETIME = timedelta(days=1)


class SqliteStore:
    kind = "sqlite"
    in_order = True

    def __init__(self, url: str) -> None:
        self._path = Path(url.removeprefix("sqlite://"))
        self._own_writes = News()
        self._writer = Writer(self._path, on_commit=self._own_writes.tell)
        self._readers = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="sqlite-reader")
        self._connections = local()
        self._opened: list[apsw.Connection] = []
        self._on_loop: apsw.Connection
        self._wakeup = WakeUp(self._path.with_name(f"{self._path.name}-wake"))
        self._turns = Turns()
        self._boot = boot_id()
        self._taker: Taker | None = None
        #: What the last transaction gave to the worker of this process: of that no one is told.
        self._taken: frozenset[str] = frozenset()
        self._writer.invited = self._offer

    async def open(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            await asyncio.to_thread(_prepare, self._path)
            self._writer.open(asyncio.get_running_loop())
            self._on_loop = connect(self._path, read_only=True)
            self._on_loop.set_busy_handler(None)
            self._wakeup.open()
        except (apsw.Error, OSError) as error:
            raise unavailable_error(error, self._path) from error

    async def close(self) -> None:
        self._wakeup.close()
        await self._writer.close()
        self._readers.shutdown()
        for connection in (self._on_loop, *self._opened):
            connection.close()

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
        work = partial(_add, jobs=jobs, batch=batch, idempotency=idempotency)
        many = len(jobs) > 1
        added, _ = await self._writer.call(work, durable=True, heavy=many, invites=not many)
        if not self._taken.issuperset(added.job_ids):
            self._wakeup.tell()
        return added

    async def get(self, job_id: str) -> Job:
        return await self._look_up(partial(reading.get_job, job_id=job_id))

    async def find(self, query: JobQuery) -> Page[Job]:
        read = self._read if query.job_id is None else self._look_up
        return await read(partial(reading.find_jobs, query=query))

    async def get_batch(self, batch_id: str) -> Batch:
        return await self._read(partial(reading.get_batch, batch_id=batch_id))

    async def find_batches(self, query: BatchQuery) -> Page[Batch]:
        return await self._read(partial(reading.find_batches, query=query))

    async def changes(
        self, since: str | None, *, limit: int = 1000, seconds: float = 0.0
    ) -> Changes:
        look = partial(changes, since=since, limit=limit)
        written = self._own_writes.generation
        found = await self._read(look)
        if found.items or found.gap or since is None or seconds <= 0:
            return found
        await self._own_writes.wait(written, seconds=seconds)
        return await self._read(look)

    async def cancel(self, query: JobQuery) -> list[str]:
        only = ("status IN ('pending', 'processing') AND cancel_requested = 0", ())
        changed = await self._change(query, only, queue.cancel)
        self._wakeup.tell()
        return changed

    async def restart(
        self, query: JobQuery, *, parameters: Mapping[str, Any] | None = None
    ) -> list[str]:
        work = partial(queue.restart, parameters=parameters)
        changed = await self._change(query, _ENDED, work)
        self._wakeup.tell()
        return changed

    async def archive(self, query: JobQuery, *, archived: bool = True) -> list[str]:
        def work(db: apsw.Connection, seqs: Sequence[int]) -> None:
            for seq in seqs:
                db.execute(
                    f"UPDATE jobs SET archived = ?, revision = {NEXT_REVISION} WHERE seq = ?",
                    (archived, seq),
                )

        return await self._change(query, ("archived = ?", (not archived,)), work)

    async def delete(self, query: JobQuery) -> list[str]:
        def work(db: apsw.Connection, seqs: Sequence[int]) -> None:
            for seq in seqs:
                row: Any = db.execute(
                    "DELETE FROM jobs WHERE seq = ? RETURNING job_id, batch_id, revision", (seq,)
                ).fetchone()
                outbox.forget(db, row[0])
                leave_trace(db, job_id=row[0], batch_id=row[1], above=row[2])

        return await self._change(query, _ENDED, work)

    async def change_batch(
        self, batch_id: str, *, is_active: bool | None = None, archived: bool | None = None
    ) -> Batch:
        work = partial(_change_batch, batch_id=batch_id, is_active=is_active, archived=archived)
        batch = await self._writer.call(work, durable=True, heavy=True)
        self._wakeup.tell()
        return batch

    async def delete_batch(self, batch_id: str) -> None:
        def work(db: apsw.Connection) -> None:
            if reading.get_batch(db, batch_id).total_jobs:
                raise Conflict(f"The batch {batch_id} still has jobs")
            outbox.forget(db, batch_id)
            db.execute("DELETE FROM batches WHERE batch_id = ?", (batch_id,))
            leave_trace(db, job_id=None, batch_id=batch_id)

        await self._writer.call(work, durable=True)

    async def counts(self) -> Mapping[str, Mapping[JobStatus, int]]:
        def work(db: apsw.Connection) -> dict[str, dict[JobStatus, int]]:
            found: dict[str, dict[JobStatus, int]] = {}
            for job_type, status, n in db.execute("SELECT * FROM tallies WHERE n > 0"):
                found.setdefault(job_type, {})[JobStatus(status)] = n
            return found

        return await self._read(work)

    async def waiting_since(self) -> Mapping[str, datetime]:
        return await self._read(queue.waiting_since)

    # Workers

    async def enlist(self, worker: WorkerInfo, lease: timedelta) -> None:
        info = {**asdict(worker), "started_at": microseconds(worker.started_at)}
        del info["seen_at"]

        def work(db: apsw.Connection) -> None:
            db.execute(
                "INSERT INTO workers VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE"
                " SET info = excluded.info, seen_at = excluded.seen_at,"
                " lease_until = excluded.lease_until",
                (
                    worker.worker_id,
                    json.dumps(info),
                    microseconds(utc_now()),
                    time.monotonic() + lease.total_seconds(),
                    self._boot,
                ),
            )

        await self._writer.call(work)

    async def dismiss(self, worker_id: str) -> None:
        def work(db: apsw.Connection) -> None:
            db.execute("DELETE FROM workers WHERE worker_id = ?", (worker_id,))

        await self._writer.call(work)

    async def workers(self) -> list[WorkerInfo]:
        def work(db: apsw.Connection) -> list[WorkerInfo]:
            rows = db.execute("SELECT info, seen_at FROM workers ORDER BY worker_id")
            return [_worker_from(info, seen_at) for info, seen_at in rows]

        return await self._read(work)

    async def claim(self, worker_id: str, wanted: Wanted) -> list[Job]:
        claimed: list[Job] = await self._writer.call_with_others(self._claim, (worker_id, wanted))
        return claimed

    def _claim(
        self, db: apsw.Connection, claims: list[tuple[str, Wanted]]
    ) -> list[list[Job] | LeaseLost]:
        answers: list[list[Job] | LeaseLost] = []
        for worker_id, wanted in claims:
            try:
                answers.append(queue.claim(db, self._turns, worker_id, wanted))
            except LeaseLost as error:
                answers.append(error)
        return answers

    def employ(self, taker: Taker | None) -> None:
        self._taker = taker

    def _offer(
        self, db: apsw.Connection, additions: list[tuple[Added, dict[int, Job]]]
    ) -> Callable[[], None]:
        """Let the worker of this process claim in the transaction that adds jobs."""
        self._taken = frozenset()
        order = self._taker.ready_for() if self._taker is not None else None
        if self._taker is None or order is None:
            return _nothing
        added = {seq: job for _, jobs in additions for seq, job in jobs.items()}
        try:
            jobs = queue.claim(db, self._turns, *order, added=added)
        except LeaseLost:  # it will notice when it asks
            return _nothing
        self._taken = frozenset(job.job_id for job in jobs)
        return partial(self._taker.take, jobs)

    async def renew(self, worker_id: str, lease: timedelta) -> Renewal:
        def look(db: apsw.Connection) -> tuple[float, Renewal]:
            lease_until = db.execute(
                "SELECT lease_until FROM workers WHERE worker_id = ?", (worker_id,)
            ).get
            if lease_until is None:
                raise LeaseLost(f"The worker {worker_id} is not enlisted")
            rows: list[Any] = db.execute(
                "SELECT job_id, attempt, cancel_requested FROM jobs INDEXED BY jobs_running"
                " WHERE worker_id = ? AND status = 'processing'",
                (worker_id,),
            ).fetchall()
            cancelled = frozenset(job_id for job_id, _, cancel in rows if cancel)
            return lease_until, Renewal({job_id: n for job_id, n, _ in rows}, cancelled)

        lease_until, renewal = await self._read(look)
        if lease_until - time.monotonic() < lease.total_seconds() * RENEW_BELOW:
            await self._writer.call(partial(self._prolong, worker_id=worker_id, lease=lease))
        return renewal

    def _prolong(self, db: apsw.Connection, worker_id: str, lease: timedelta) -> None:
        db.execute(
            "UPDATE workers SET lease_until = ?, seen_at = ? WHERE worker_id = ?",
            (time.monotonic() + lease.total_seconds(), microseconds(utc_now()), worker_id),
        )
        if not db.changes():
            raise LeaseLost(f"The worker {worker_id} is not enlisted")

    async def report(
        self, job: Job, progress: Progress | None = None, logs: Sequence[LogEntry] = ()
    ) -> None:
        await self._writer.call(lambda db: queue.report(db, job, progress, logs))

    async def finish(
        self, job: Job, outcome: Outcome, *, resources: Mapping[str, float] | None = None
    ) -> None:
        if isinstance(outcome, Completed):
            results = None if outcome.results is None else dumps(outcome.results)
            used = dumps(resources) if resources else None
            completion = queue.Completion(job, results, used)
            await self._writer.call_with_others(queue.complete, completion, durable=True)
            return
        unfinished = outcome
        await self._writer.call(
            lambda db: queue.finish(db, job, unfinished, resources), durable=True
        )
        self._wakeup.tell()

    async def wait(self, since: int, *, seconds: float) -> int:
        return await self._wakeup.wait(since, seconds=seconds)

    # Webhooks

    async def take_events(self, wanted: EventsWanted) -> list[DueEvent]:
        chosen = await self._read(partial(outbox.choose, wanted=wanted))
        if not chosen:
            return []
        return await self._writer.call(lambda db: outbox.take(db, chosen, wanted))

    async def hold_events(self, held: Sequence[DueEvent], lease: timedelta) -> None:
        owner_ids = [event.owner_id for event in held]
        await self._writer.call(lambda db: outbox.hold(db, owner_ids, lease))

    async def settle_event(
        self, event: DueEvent, tried: Try, *, next_try_at: datetime | None = None
    ) -> None:
        await self._writer.call(lambda db: outbox.settle(db, event, tried, next_try_at))

    async def pace_event(self, event: DueEvent, tried: Try | None, pace: Pace | None) -> None:
        await self._writer.call(lambda db: outbox.pace(db, event, tried, pace))

    async def postpone_events(self, endpoint: str, until: datetime) -> None:
        await self._writer.call(lambda db: outbox.postpone(db, endpoint, until), heavy=True)

    async def replay_event(self, owner_id: str, n: int) -> Delivery:
        return await self._writer.call(lambda db: outbox.replay(db, owner_id, n), durable=True)

    # Upkeep

    async def rescue(self, *, dead: Collection[str] = (), max_crashes: int = 2) -> list[Rescued]:
        if not dead and not await self._read(self._anything_lost):
            return []

        def work(db: apsw.Connection) -> list[Rescued]:
            return queue.rescue(
                db, self._boot, time.monotonic(), dead=list(dead), max_crashes=max_crashes
            )

        rescued = await self._writer.call(work, durable=True, heavy=True)
        if rescued:
            self._wakeup.tell()
        return rescued

    def _anything_lost(self, db: apsw.Connection) -> bool:
        lapsed = db.execute(
            "SELECT 1 FROM workers WHERE boot <> ? OR lease_until < ? LIMIT 1",
            (self._boot, time.monotonic()),
        ).get
        return bool(lapsed or db.execute(queue.ABANDONED).fetchone())

    async def expired(self, older_than: Mapping[JobStatus, datetime], *, limit: int) -> list[str]:
        def work(db: apsw.Connection) -> list[str]:
            found: list[str] = []
            for status, before in older_than.items():
                rows = db.execute(
                    "SELECT job_id FROM jobs INDEXED BY jobs_ended WHERE status = ?"
                    " AND completed_at IS NOT NULL AND completed_at < ?"
                    " ORDER BY completed_at LIMIT ?",
                    (status.value, microseconds(before), limit - len(found)),
                )
                found += [job_id for (job_id,) in rows]
            return found

        return await self._read(work)

    async def tidy(self) -> None:
        def work(db: apsw.Connection) -> None:
            now = microseconds(utc_now())
            db.execute("DELETE FROM idempotency_keys WHERE expires_at < ?", (now,))
            drop_old_traces(db)
            db.execute("PRAGMA incremental_vacuum(1000)").fetchall()

        await self._writer.call(work, heavy=True)
        await self._read(lambda db: db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE))

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

        return await self._read(work)

    # Ways to the database

    async def _look_up(self, work: Callable[[apsw.Connection], T]) -> T:
        """Read one job by its id, on the loop: a thread would take longer to be told of it."""
        try:
            return work(self._on_loop)
        except apsw.Error:  # busy, or in trouble: the thread may wait, and tells what it is
            return await self._read(work)

    async def _read(self, work: Callable[[apsw.Connection], T]) -> T:
        def run() -> T:
            try:
                return work(self._connection())
            except apsw.Error as error:
                raise unavailable_error(error, self._path) from error

        return await asyncio.get_running_loop().run_in_executor(self._readers, run)

    def _connection(self) -> apsw.Connection:
        if not hasattr(self._connections, "db"):
            self._connections.db = connect(self._path, read_only=True)
            self._opened.append(self._connections.db)
        db: apsw.Connection = self._connections.db
        return db

    async def _change(
        self,
        query: JobQuery,
        only: reading.Term,
        change: Callable[[apsw.Connection, Sequence[int]], None],
    ) -> list[str]:
        """Apply `change` to the jobs a query finds that also fulfil `only`; say which."""

        def work(db: apsw.Connection) -> list[str]:
            seqs = [seq for seq, _ in reading.find_seqs(db, query, only=[only])]
            ids = [db.execute("SELECT job_id FROM jobs WHERE seq = ?", (s,)).get for s in seqs]
            change(db, seqs)
            return ids

        heavy = query.job_id is None
        return await self._writer.call(work, durable=True, heavy=heavy)


_ENDED: reading.Term = ("status IN ('completed', 'failed', 'cancelled')", ())


def _prepare(path: Path) -> None:
    """Make the tables of a new database; refuse one that is not ours or that is from the future."""
    db = connect(path)
    db.execute("BEGIN IMMEDIATE")
    try:
        version = db.pragma("user_version")
        known = db.pragma("application_id")
        if version > SCHEMA_VERSION:
            raise StoreUnavailable(
                f"The database {path.name} in {path.parent} was written by a newer version of "
                f"Secretary (schema {version}; this version knows {SCHEMA_VERSION}). "
                "Install that version, or use another data directory."
            )
        if version == 0:
            if known not in (0, APPLICATION_ID) or db.execute("SELECT 1 FROM sqlite_schema").get:
                raise StoreUnavailable(
                    f"The file {path.name} in {path.parent} is a database of another program"
                )
            db.execute((files(__package__) / "schema.sql").read_text())
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        db.execute("COMMIT")
    finally:
        db.close()


def _add(
    db: apsw.Connection,
    *,
    jobs: Sequence[Job],
    batch: Batch | None,
    idempotency: IdempotencyKey | None,
) -> tuple[Added, dict[int, Job]]:
    """What was stored, and the jobs by the numbers of their rows."""
    if idempotency is not None and (known := _known_key(db, idempotency)) is not None:
        return known, {}
    try:
        if batch is not None:
            insert_batch(db, batch)
            if batch.webhook is not None:
                outbox.register(db, "batch", batch.batch_id, batch.webhook)
        stored = queue.enqueue(db, jobs, held=batch is not None and not batch.is_active)
    except apsw.ConstraintError as error:
        raise Conflict("A job or batch with this id is already stored") from error
    if batch is not None and not jobs:
        queue.settle_batch(db, batch.batch_id)
    added = Added([job.job_id for job in jobs], batch.batch_id if batch else None)
    if idempotency is not None:
        _keep_key(db, idempotency, added)
    return added, stored


def _known_key(db: apsw.Connection, key: IdempotencyKey) -> Added | None:
    row = db.execute(
        "SELECT fingerprint, job_ids, batch_id FROM idempotency_keys"
        " WHERE scope = ? AND key = ? AND expires_at > ?",
        (key.scope, key.key, microseconds(utc_now())),
    ).fetchone()
    if row is None:
        return None
    if row[0] != key.fingerprint:
        raise KeyReused("This idempotency key was used for another request")
    return Added(json.loads(row[1]), row[2], replayed=True)


def _keep_key(db: apsw.Connection, key: IdempotencyKey, added: Added) -> None:
    expires_at = key.expires_at or utc_now() + KEY_LIFETIME
    db.execute(
        "INSERT OR REPLACE INTO idempotency_keys VALUES (?, ?, ?, ?, ?, ?)",
        (
            key.scope,
            key.key,
            key.fingerprint,
            json.dumps(added.job_ids),
            added.batch_id,
            microseconds(expires_at),
        ),
    )


def _change_batch(
    db: apsw.Connection, *, batch_id: str, is_active: bool | None, archived: bool | None
) -> Batch:
    batch = reading.get_batch(db, batch_id)
    now = microseconds(utc_now())
    if is_active is not None and is_active != batch.is_active:
        db.execute("UPDATE batches SET is_active = ? WHERE batch_id = ?", (is_active, batch_id))
        # Set free, they join the line with the next claim, as jobs whose time has come.
        db.execute(
            "UPDATE jobs SET held = ?, turn = NULL, run_at = coalesce(run_at, ?),"
            f" revision = {NEXT_REVISION} WHERE batch_id = ? AND status = 'pending'",
            (not is_active, now, batch_id),
        )
    if archived is not None and archived != batch.archived:
        db.execute("UPDATE batches SET archived = ? WHERE batch_id = ?", (archived, batch_id))
        db.execute(
            f"UPDATE jobs SET archived = ?, revision = {NEXT_REVISION} WHERE batch_id = ?",
            (archived, batch_id),
        )
    db.execute("UPDATE batches SET updated_at = ? WHERE batch_id = ?", (now, batch_id))
    leave_trace(db, job_id=None, batch_id=batch_id)
    return reading.get_batch(db, batch_id)


def _nothing() -> None:
    pass


def _worker_from(info: str, seen_at: int) -> WorkerInfo:
    fields = json.loads(info)
    fields["started_at"] = moment(fields["started_at"])
    return WorkerInfo(**fields, seen_at=moment(seen_at))
