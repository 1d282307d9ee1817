"""The MongoDB store, for services that run on several machines."""

from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase

from ...core.job import Batch, Job, LogEntry, Outcome, Progress, Released
from ..claims import Capacity, Rescued
from ..jobs import Added, CallbackKey, Changes, IdempotencyKey, JobQuery, Notifier
from ..stats import JobCharge, StatsBuffer, Throughput
from ..transfer import Kind, Record, RecordId
from . import claims, client_actions, outbox, queries, transfer, transitions
from .change_feed import ChangeStream, PollingFeed, WakeUp
from .client import ShieldedCalls, WriteBatcher, connect, translated
from .schema import SCHEMA_VERSION, Database, Document, add_logs, prepare, read_or_create_secret

P = ParamSpec("P")
T = TypeVar("T")

Work = Callable[Concatenate[Database, P], Coroutine[Any, Any, T]]
Method = Callable[Concatenate["MongoStore", P], Coroutine[Any, Any, T]]

DEFAULT_DATABASE = "secretary"


def _translated(method: Method[P, T]) -> Method[P, T]:
    """For calls of one step."""

    async def call(self: "MongoStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        with translated(self.address):
            return await method(self, *args, **kwargs)

    return call


def _shielded(method: Method[P, T]) -> Method[P, T]:
    """For calls of several steps, which must not stop halfway if the caller is cancelled."""

    async def call(self: "MongoStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        done = await self._shielded_calls.run(method(self, *args, **kwargs))
        self._own_writes.notify()
        return done

    return _translated(call)


def _call(work: Work[P, T]) -> Method[P, T]:
    """A method that passes the database to `work`, which is one step."""

    @_translated
    async def method(self: "MongoStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await work(self._db, *args, **kwargs)

    return method


def _run(work: Work[P, T], *, wakes: bool = False) -> Method[P, T]:
    """A method that passes the database to `work`, which has several steps."""

    @_shielded
    async def method(self: "MongoStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        done = await work(self._db, *args, **kwargs)
        if wakes:
            self._wakeup.notify()
        return done

    return method


class MongoStore:
    kind = "mongodb"
    remote = True

    def __init__(self, url: str) -> None:
        self._url = url
        #: The hosts, as messages may name them.
        self.address = ""
        self._client: AsyncMongoClient[Document]
        self._db: Database
        self._secret: bytes
        self._claims: claims.Claims
        self._wakeup: WakeUp
        self._shielded_calls = ShieldedCalls()
        self._own_writes = Notifier()
        self._feed: ChangeStream | PollingFeed
        self._additions: WriteBatcher[client_actions.NewJob, None]
        self._finishes: WriteBatcher[transitions.Change, bool]
        self._stats = StatsBuffer(self._write_stats)

    async def open(self) -> None:
        self._client, self.address = connect(self._url)
        try:
            with translated(self.address):
                db = Database(self.database)
                self._wakeup = WakeUp(db)
                await prepare(db)
                self._secret = await read_or_create_secret(db)
                await self._wakeup.open()
        except BaseException:
            await self._client.close()
            raise
        self._feed = ChangeStream(db)
        if self._wakeup.refused:
            db.record_change_times()
            self._feed = PollingFeed(db, self._own_writes)
        self._db = db
        db.on_finished = self._stats.add
        self._claims = claims.Claims(db, self._shielded_calls)
        self._additions = WriteBatcher(partial(client_actions.add_jobs, db))
        self._finishes = WriteBatcher(partial(transitions.apply, db))

    async def close(self) -> None:
        await self._wakeup.close()
        await self._shielded_calls.close()
        await self._additions.close()
        await self._finishes.close()
        await self._stats.close()
        await self._feed.close()
        await self._client.close()

    @property
    def database(self) -> AsyncDatabase[Document]:
        """The database, once the store is open; GridFS shares its connections."""
        return self._client.get_default_database(DEFAULT_DATABASE)

    def secret(self) -> bytes:
        return self._secret

    # Jobs and batches

    @_shielded
    async def add(
        self,
        jobs: Sequence[Job],
        *,
        batch: Batch | None = None,
        idempotency: IdempotencyKey | None = None,
        callback: CallbackKey | None = None,
        charges: Sequence[JobCharge] = (),
    ) -> Added:
        if len(jobs) != 1 and batch is None:
            raise ValueError("Several jobs need a batch")
        charging = client_actions.Charging(self._db, charges)
        if callback is not None and idempotency is None:
            job, known_id = await outbox.resolve_callback(
                self._db, jobs[0], callback, charging.charge_once
            )
            if known_id is not None and job is None:
                return Added([known_id], replayed=True)
            if known_id is not None:
                await client_actions.cancel(self._db, JobQuery(job_id=known_id))
            jobs = [job] if job is not None else jobs
        if idempotency is not None:
            store = partial(self._store, charging)
            added = await client_actions.add_once(self._db, jobs, batch, idempotency, store)
        else:
            await self._store(charging, jobs, batch)
            added = Added([job.job_id for job in jobs], batch.batch_id if batch else None)
        self._wakeup.notify()
        return added

    async def _store(
        self,
        charging: client_actions.Charging,
        jobs: Sequence[Job],
        batch: Batch | None,
        key: Document | None = None,
    ) -> None:
        async with charging:
            if batch is None:
                await self._additions.call(await client_actions.new_job(self._db, jobs[0], key))
            else:
                await client_actions.add_batch(self._db, jobs, batch, key=key)

    @_translated
    async def changes(
        self, since: str | None, *, limit: int = 1000, seconds: float = 0.0
    ) -> Changes:
        return await self._feed.changes(since, limit=limit, seconds=seconds)

    get = _call(queries.get_job)
    reporting_job = _call(outbox.reporting_job)
    find = _call(queries.find_jobs)
    cancel = _run(client_actions.cancel, wakes=True)
    restart = _run(client_actions.restart, wakes=True)
    archive = _run(client_actions.archive)
    delete = _run(client_actions.delete)
    expired = _call(queries.find_expired)

    get_batch = _call(queries.get_batch)
    find_batches = _call(queries.find_batches)
    change_batch = _run(client_actions.change_batch, wakes=True)
    delete_batch = _call(client_actions.delete_batch)

    # Claims

    register_worker = _call(claims.register_worker)
    workers = _call(claims.all_workers)
    renew = _call(claims.renew)

    @_shielded
    async def unregister_worker(self, worker_id: str) -> None:
        await self._claims.undo_orphaned_claims()
        await self._db.workers.delete_one({"_id": worker_id})

    @_translated
    async def claim(self, worker_id: str, capacity: Capacity) -> list[Job]:
        claimed = await self._claims.claim(worker_id, capacity)
        if claimed:
            self._own_writes.notify()
        return claimed

    @_translated
    async def report(
        self, job: Job, progress: Progress | None = None, logs: Sequence[LogEntry] = ()
    ) -> None:
        last = await transitions.report(self._db, job, progress, len(logs))
        if logs:
            await add_logs(self._db, job.job_id, logs, last=last)
        self._own_writes.notify()

    @_shielded
    async def finish(
        self, job: Job, outcome: Outcome, *, resources: Mapping[str, float] | None = None
    ) -> None:
        await transitions.finish(self._db, self._finishes.call, job, outcome, resources)
        if isinstance(outcome, Released):
            self._wakeup.notify()

    async def wait(self, since: int, *, seconds: float) -> int:
        return await self._wakeup.wait(since, seconds=seconds)

    @_shielded
    async def rescue(self, *, dead: Collection[str] = ()) -> list[Rescued]:
        rescued = await claims.rescue(self._db, dead)
        if rescued:
            self._wakeup.notify()
        return rescued

    tidy = _call(client_actions.tidy)

    # Webhooks

    claim_events = _run(outbox.claim)
    renew_events = _call(outbox.renew)
    record_delivery = _call(outbox.record_delivery)
    record_progress = _call(outbox.record_progress)
    next_event_due_at = _call(outbox.next_due_at)
    postpone_events = _call(outbox.postpone)
    replay_event = _call(outbox.replay)

    # Statistics

    counts = _call(queries.count_jobs)
    counts_of_user = _call(queries.count_jobs_of_user)
    waiting_since = _call(transitions.waiting_since)
    busy_slots = _call(claims.busy_slots)

    @_translated
    async def throughput(
        self, since: datetime, *, step: timedelta, intervals: int, user_id: str | None = None
    ) -> list[Throughput]:
        await self._stats.flush()  # include the jobs this process just finished
        return await queries.throughput(
            self._db, since, step=step, intervals=intervals, user_id=user_id
        )

    _write_stats = _call(queries.write_counters)

    usage = _call(queries.usage)
    charge = _run(queries.charge)
    add_usage = _run(queries.add_usage)
    stored_bytes = _call(queries.stored_bytes)
    forget_files = _call(queries.forget_files)

    @_translated
    async def check_writable(self) -> None:
        await self._db.command("ping")  # of the primary

    @_translated
    async def describe(self) -> Mapping[str, Any]:
        hello = await self._db.command("hello")
        build = await self._db.command("buildInfo")
        server_time: datetime = hello["localTime"]
        topology = "replica set" if "setName" in hello else "standalone"
        return {
            "kind": self.kind,
            "hosts": self.address,
            "database": self._db.name,
            "server_version": build["version"],
            "schema_version": SCHEMA_VERSION,
            "server_time": server_time if server_time.tzinfo else server_time.replace(tzinfo=UTC),
            "topology": "sharded cluster" if hello.get("msg") == "isdbgrid" else topology,
            "replica_set": hello.get("setName"),
            "members": hello.get("hosts", []),
            "write_concern": "majority, journaled",
        }

    # Transfer

    async def records(
        self, kind: Kind, ids: Collection[RecordId] | None = None
    ) -> AsyncIterator[list[Record]]:
        with translated(self.address):
            async for group in transfer.records(self._db, kind, ids):
                yield group

    import_records = _run(transfer.import_records, wakes=True)
