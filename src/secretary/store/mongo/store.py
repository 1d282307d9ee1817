"""The MongoDB store, for services that run on several machines."""

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Mapping,
    Sequence,
)
from datetime import UTC, datetime, timedelta
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import PyMongoError

from ...core.job import (
    Batch,
    Delivery,
    DeliveryAttempt,
    Job,
    JobStatus,
    LogEntry,
    Outcome,
    Progress,
    Released,
)
from ..claims import Capacity, Renewal, Rescued, WorkerInfo
from ..jobs import Added, BatchQuery, Changes, IdempotencyKey, JobQuery, Notifier, Page
from ..outbox import DueEvent, EventCapacity, ProgressSchedule
from ..stats import StatsBuffer, Throughput
from ..transfer import Kind, Record, RecordId
from . import claims, client_actions, outbox, queries, transfer, transitions
from .change_feed import ChangeStream, PollingFeed, WakeUp
from .claims import Claims
from .client import ShieldedCalls, WriteBatcher, connect, translated
from .queue import waiting_since
from .rows import add_logs
from .schema import SCHEMA_VERSION, Database, Document, prepare
from .transfer import import_records
from .transitions import Change, apply

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_DATABASE = "secretary"


def _translated(
    method: Callable[Concatenate["MongoStore", P], Awaitable[T]],
) -> Callable[Concatenate["MongoStore", P], Coroutine[Any, Any, T]]:
    @wraps(method)
    async def call(self: "MongoStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        with translated(self._address):
            return await method(self, *args, **kwargs)

    return call


def _shielded(
    method: Callable[Concatenate["MongoStore", P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["MongoStore", P], Coroutine[Any, Any, T]]:
    """For calls of several steps, which must not stop halfway if the caller is cancelled."""

    @_translated
    @wraps(method)
    async def call(self: "MongoStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        done = await self._shielded_calls.run(method(self, *args, **kwargs))
        self._own_writes.notify()
        return done

    return call


class MongoStore:
    kind = "mongodb"
    remote = True

    def __init__(self, url: str) -> None:
        self._url = url
        self._address = ""
        self._client: AsyncMongoClient[Document]
        self._db: Database
        self._claims: Claims
        self._housekeeping: client_actions.Housekeeping
        self._wakeup: WakeUp
        self._shielded_calls = ShieldedCalls()
        self._own_writes = Notifier()
        self._feed: ChangeStream | PollingFeed
        self._additions: WriteBatcher[client_actions.NewJob, None]
        self._finishes: WriteBatcher[Change, bool]
        self._stats: StatsBuffer

    async def open(self) -> None:
        self._client, self._address = connect(self._url)
        try:
            with translated(self._address):
                db = Database(self.database)
                self._wakeup = WakeUp(db)
                await prepare(db)
                await self._wakeup.open()
        except BaseException:
            await self._client.close()
            raise
        self._feed = ChangeStream(db)
        if self._wakeup.refused:
            db.record_change_times()
            self._feed = PollingFeed(db, self._own_writes)
        self._db = db
        write = partial(queries.write_counters, db.activity)
        self._stats = StatsBuffer(write, unavailable=PyMongoError)
        db.on_finished = self._stats.add
        self._claims = Claims(db)
        self._housekeeping = client_actions.Housekeeping(db)
        self._additions = WriteBatcher(partial(client_actions.add_jobs, db))
        self._finishes = WriteBatcher(partial(apply, db))

    async def close(self) -> None:
        await self._wakeup.close()
        await self._shielded_calls.close()
        await self._claims.close()
        await self._additions.close()
        await self._finishes.close()
        await self._stats.close()
        await self._feed.close()
        await self._client.close()

    @property
    def database(self) -> AsyncDatabase[Document]:
        """The database, once the store is open; GridFS shares its connections."""
        return self._client.get_default_database(DEFAULT_DATABASE)

    @property
    def address(self) -> str:
        """The hosts, as messages may name them."""
        return self._address

    # Jobs and batches

    @_shielded
    async def add(
        self,
        jobs: Sequence[Job],
        *,
        batch: Batch | None = None,
        idempotency: IdempotencyKey | None = None,
    ) -> Added:
        if len(jobs) != 1 and batch is None:
            raise ValueError("Several jobs need a batch")
        added = await self._add(jobs, batch, idempotency)
        self._wakeup.notify()
        return added

    async def _add(
        self, jobs: Sequence[Job], batch: Batch | None, idempotency: IdempotencyKey | None
    ) -> Added:
        if idempotency is not None:
            return await client_actions.add_once(self._db, jobs, batch, idempotency, self._store)
        await self._store(jobs, batch)
        return Added([job.job_id for job in jobs], batch.batch_id if batch else None)

    async def _store(
        self, jobs: Sequence[Job], batch: Batch | None, key: Document | None = None
    ) -> None:
        if batch is None:
            await self._additions.call(await client_actions.new_job(self._db, jobs[0], key))
        else:
            await client_actions.add_batch(self._db, jobs, batch, key=key)

    @_translated
    async def get(self, job_id: str) -> Job:
        return await queries.get_job(self._db, job_id)

    @_translated
    async def find(self, query: JobQuery) -> Page[Job]:
        if query.search_seconds is not None and query.job_id is None:
            return await queries.search_jobs(self._db, query, query.search_seconds)
        return await queries.find_jobs(self._db, query)

    @_translated
    async def get_batch(self, batch_id: str) -> Batch:
        return await queries.get_batch(self._db, batch_id)

    @_translated
    async def find_batches(self, query: BatchQuery) -> Page[Batch]:
        return await queries.find_batches(self._db, query)

    @_translated
    async def changes(
        self, since: str | None, *, limit: int = 1000, seconds: float = 0.0
    ) -> Changes:
        return await self._feed.changes(since, limit=limit, seconds=seconds)

    @_shielded
    async def cancel(self, query: JobQuery) -> list[str]:
        changed = await client_actions.cancel(self._db, query)
        self._wakeup.notify()
        return changed

    @_shielded
    async def restart(self, query: JobQuery) -> list[str]:
        changed = await client_actions.restart(self._db, query)
        self._wakeup.notify()
        return changed

    @_shielded
    async def archive(self, query: JobQuery, *, archived: bool = True) -> list[str]:
        return await client_actions.archive(self._db, query, archived=archived)

    @_shielded
    async def delete(self, query: JobQuery) -> list[str]:
        return await client_actions.delete(self._db, query)

    @_shielded
    async def change_batch(
        self, batch_id: str, *, is_active: bool | None = None, archived: bool | None = None
    ) -> Batch:
        batch = await client_actions.change_batch(
            self._db, batch_id, is_active=is_active, archived=archived
        )
        self._wakeup.notify()
        return batch

    @_translated
    async def delete_batch(self, batch_id: str) -> None:
        await client_actions.delete_batch(self._db, batch_id)

    @_translated
    async def counts(self) -> Mapping[str, Mapping[JobStatus, int]]:
        return await queries.count_jobs(self._db)

    @_translated
    async def counts_of_user(self, user_id: str) -> Mapping[JobStatus, int]:
        return await queries.count_jobs_of_user(self._db, user_id)

    @_translated
    async def throughput(
        self, since: datetime, *, step: timedelta, intervals: int, user_id: str | None = None
    ) -> list[Throughput]:
        await self._stats.flush()  # include the jobs this process just finished
        return await queries.read_throughput(
            self._db.activity, since, step=step, parts=intervals, user_id=user_id
        )  # fmt: skip

    @_translated
    async def waiting_since(self) -> Mapping[str, datetime]:
        return await waiting_since(self._db)

    # Claims

    @_translated
    async def register_worker(self, worker: WorkerInfo, lease: timedelta) -> None:
        await claims.register_worker(self._db, worker, lease)

    @_shielded
    async def unregister_worker(self, worker_id: str) -> None:
        await self._claims.undo_orphaned_claims()
        await self._db.workers.delete_one({"_id": worker_id})

    @_translated
    async def workers(self) -> list[WorkerInfo]:
        return await claims.all_workers(self._db)

    @_translated
    async def busy_slots(self) -> Mapping[str, int]:
        return await claims.busy_slots(self._db)

    @_translated
    async def claim(self, worker_id: str, capacity: Capacity) -> list[Job]:
        claimed = await self._claims.claim(worker_id, capacity)
        if claimed:
            self._own_writes.notify()
        return claimed

    @_translated
    async def renew(self, worker_id: str, lease: timedelta) -> Renewal:
        return await claims.renew(self._db, worker_id, lease)

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

    # Webhooks

    @_shielded
    async def claim_events(self, capacity: EventCapacity) -> list[DueEvent]:
        return await outbox.claim(self._db, capacity)

    @_translated
    async def renew_events(self, events: Sequence[DueEvent], lease: timedelta) -> None:
        await outbox.renew(self._db, events, lease)

    @_translated
    async def record_delivery(
        self, event: DueEvent, tried: DeliveryAttempt, *, next_try_at: datetime | None = None
    ) -> None:
        await outbox.record_delivery(self._db, event, tried, next_try_at)

    @_translated
    async def record_progress(
        self, event: DueEvent, tried: DeliveryAttempt | None, pace: ProgressSchedule | None
    ) -> None:
        await outbox.record_progress(self._db, event, tried, pace)

    @_translated
    async def next_event_due_at(self) -> datetime | None:
        return await outbox.next_due_at(self._db)

    @_translated
    async def postpone_events(self, endpoint: str, until: datetime) -> None:
        await outbox.postpone(self._db, endpoint, until)

    @_translated
    async def replay_event(self, owner_id: str, n: int) -> Delivery:
        return await outbox.replay(self._db, owner_id, n)

    # Maintenance

    @_shielded
    async def rescue(self, *, dead: Collection[str] = (), max_crashes: int = 2) -> list[Rescued]:
        rescued = await claims.rescue(self._db, dead, max_crashes)
        if rescued:
            self._wakeup.notify()
        return rescued

    @_translated
    async def expired(self, older_than: Mapping[JobStatus, datetime], *, limit: int) -> list[str]:
        return await queries.find_expired(self._db, older_than, limit)

    @_translated
    async def tidy(self) -> None:
        await self._housekeeping.tidy()

    # Transfer

    async def records(
        self, kind: Kind, ids: Collection[RecordId] | None = None
    ) -> AsyncIterator[list[Record]]:
        with translated(self._address):
            async for group in transfer.records(self._db, kind, ids):
                yield group

    @_shielded
    async def import_records(self, records: Sequence[Record]) -> set[RecordId]:
        new = await import_records(self._db, records)
        self._wakeup.notify()
        return new

    @_translated
    async def describe(self) -> Mapping[str, Any]:
        hello = await self._db.command("hello")
        build = await self._db.command("buildInfo")
        return {
            "kind": "mongodb",
            "hosts": self._address,
            "database": self._db.name,
            "server_version": build["version"],
            "schema_version": SCHEMA_VERSION,
            "server_time": _aware(hello["localTime"]),
            "topology": _topology(hello),
            "replica_set": hello.get("setName"),
            "members": hello.get("hosts", []),
            "write_concern": "majority, journaled",
        }


def _topology(hello: Document) -> str:
    if hello.get("msg") == "isdbgrid":
        return "sharded cluster"
    return "replica set" if "setName" in hello else "standalone"


def _aware(at: datetime) -> datetime:
    return at if at.tzinfo else at.replace(tzinfo=UTC)
