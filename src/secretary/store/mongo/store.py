"""Jobs in MongoDB: the store for services that run on several machines."""

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
from pymongo.errors import PyMongoError

from ...job import (
    Batch,
    Delivery,
    Job,
    JobStatus,
    LogEntry,
    Outcome,
    Progress,
    Released,
    Try,
)
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
from ..activity import Activity
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
    gridfs,
    reading,
    rescue,
    searching,
    tidy,
    wishes,
    workers,
)
from .calls import Calls
from .change import Change, apply
from .claim import Claims
from .client import connect
from .contents import add_logs
from .errors import translated
from .follow import Follower
from .gridfs import GridFsDepot
from .group import Group
from .line import waiting_since
from .poll import Poller
from .schema import SCHEMA_VERSION, Database, Document, prepare
from .take_in import take_in
from .watch import Watch

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


def _to_its_end(
    method: Callable[Concatenate["MongoStore", P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["MongoStore", P], Coroutine[Any, Any, T]]:
    """For calls of several steps: none stops halfway because its caller has given up."""

    @_translated
    @wraps(method)
    async def call(self: "MongoStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        done = await self._calls.run(method(self, *args, **kwargs))
        self._own_writes.tell()
        return done

    return call


class MongoStore:
    kind = "mongodb"
    #: A claim may overtake the end of a job that was asked for before.
    in_order = False
    remote = True

    def __init__(self, url: str) -> None:
        self._url = url
        self._address = ""
        self._client: AsyncMongoClient[Document]
        self._db: Database
        self._claims: Claims
        self._caretaker: tidy.Caretaker
        self._watch: Watch
        self._calls = Calls()
        self._own_writes = News()
        self._feed: Follower | Poller
        self._additions: Group[add.NewJob, None]
        self._endings: Group[Change, bool]
        self._tallies: Tallies

    async def open(self) -> None:
        self._client, self._address = connect(self._url)
        try:
            with translated(self._address):
                database = self._client.get_default_database(DEFAULT_DATABASE)
                db = Database(database)
                self._watch = Watch(db)
                await prepare(db)
                await gridfs.prepare(database)
                await self._watch.open()
        except BaseException:
            await self._client.close()
            raise
        self._feed = Follower(db)
        if self._watch.refused:
            db.note_times_of_change()
            self._feed = Poller(db, self._own_writes)
        self._db = db
        write = partial(activity.write, db.activity)
        self._tallies = Tallies(write, unavailable=PyMongoError)
        db.count_endings = self._tallies.note
        self._claims = Claims(db)
        self._caretaker = tidy.Caretaker(db)
        self._additions = Group(partial(add.add_jobs, db))
        self._endings = Group(partial(apply, db))

    async def close(self) -> None:
        await self._watch.close()
        await self._calls.close()
        await self._claims.close()
        await self._additions.close()
        await self._endings.close()
        await self._tallies.close()
        await self._feed.close()
        await self._client.close()

    # Clients

    @_to_its_end
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
        self._watch.tell()
        return added

    async def _add(
        self, jobs: Sequence[Job], batch: Batch | None, idempotency: IdempotencyKey | None
    ) -> Added:
        if idempotency is not None:
            return await add.add_once(self._db, jobs, batch, idempotency, self._store)
        await self._store(jobs, batch)
        return Added([job.job_id for job in jobs], batch.batch_id if batch else None)

    async def _store(
        self, jobs: Sequence[Job], batch: Batch | None, key: Document | None = None
    ) -> None:
        if batch is None:
            await self._additions.call(await add.new_job(self._db, jobs[0], key))
        else:
            await add.add_batch(self._db, jobs, batch, key=key)

    @_translated
    async def get(self, job_id: str) -> Job:
        return await reading.get_job(self._db, job_id)

    @_translated
    async def find(self, query: JobQuery) -> Page[Job]:
        if query.search_seconds is not None and query.job_id is None:
            return await searching.search_jobs(self._db, query, query.search_seconds)
        return await reading.find_jobs(self._db, query)

    @_translated
    async def get_batch(self, batch_id: str) -> Batch:
        return await reading.get_batch(self._db, batch_id)

    @_translated
    async def find_batches(self, query: BatchQuery) -> Page[Batch]:
        return await reading.find_batches(self._db, query)

    @_translated
    async def changes(
        self, since: str | None, *, limit: int = 1000, seconds: float = 0.0
    ) -> Changes:
        return await self._feed.changes(since, limit=limit, seconds=seconds)

    @_to_its_end
    async def cancel(self, query: JobQuery) -> list[str]:
        changed = await wishes.cancel(self._db, query)
        self._watch.tell()
        return changed

    @_to_its_end
    async def restart(self, query: JobQuery) -> list[str]:
        changed = await wishes.restart(self._db, query)
        self._watch.tell()
        return changed

    @_to_its_end
    async def archive(self, query: JobQuery, *, archived: bool = True) -> list[str]:
        return await wishes.archive(self._db, query, archived=archived)

    @_to_its_end
    async def delete(self, query: JobQuery) -> list[str]:
        return await wishes.delete(self._db, query)

    @_to_its_end
    async def change_batch(
        self, batch_id: str, *, is_active: bool | None = None, archived: bool | None = None
    ) -> Batch:
        batch = await wishes.change_batch(
            self._db, batch_id, is_active=is_active, archived=archived
        )
        self._watch.tell()
        return batch

    @_translated
    async def delete_batch(self, batch_id: str) -> None:
        await wishes.delete_batch(self._db, batch_id)

    @_translated
    async def counts(self) -> Mapping[str, Mapping[JobStatus, int]]:
        return await reading.count_jobs(self._db)

    @_translated
    async def counts_of_user(self, user_id: str) -> Mapping[JobStatus, int]:
        return await reading.count_jobs_of_user(self._db, user_id)

    @_translated
    async def activity(
        self, since: datetime, *, step: timedelta, parts: int, user_id: str | None = None
    ) -> list[Activity]:
        await self._tallies.write()  # who ended a job here sees it at once
        return await activity.read(
            self._db.activity, since, step=step, parts=parts, user_id=user_id
        )  # fmt: skip

    @_translated
    async def waiting_since(self) -> Mapping[str, datetime]:
        return await waiting_since(self._db)

    # Workers

    @_translated
    async def enlist(self, worker: WorkerInfo, lease: timedelta) -> None:
        await workers.enlist(self._db, worker, lease)

    @_to_its_end
    async def dismiss(self, worker_id: str) -> None:
        await self._claims.give_back_unwanted()
        await self._db.workers.delete_one({"_id": worker_id})

    @_translated
    async def workers(self) -> list[WorkerInfo]:
        return await workers.all_workers(self._db)

    @_translated
    async def busy_slots(self) -> Mapping[str, int]:
        return await workers.busy_slots(self._db)

    @_translated
    async def claim(self, worker_id: str, wanted: Wanted) -> list[Job]:
        claimed = await self._claims.claim(worker_id, wanted)
        if claimed:
            self._own_writes.tell()
        return claimed

    def employ(self, taker: Taker | None) -> None:
        """A write here goes to a server: a worker claims by itself as quickly."""

    @_translated
    async def renew(self, worker_id: str, lease: timedelta) -> Renewal:
        return await workers.renew(self._db, worker_id, lease)

    @_translated
    async def report(
        self, job: Job, progress: Progress | None = None, logs: Sequence[LogEntry] = ()
    ) -> None:
        last = await ending.report(self._db, job, progress, len(logs))
        if logs:
            await add_logs(self._db, job.job_id, logs, last=last)
        self._own_writes.tell()

    @_to_its_end
    async def finish(
        self, job: Job, outcome: Outcome, *, resources: Mapping[str, float] | None = None
    ) -> None:
        await ending.finish(self._db, self._endings.call, job, outcome, resources)
        if isinstance(outcome, Released):
            self._watch.tell()

    async def wait(self, since: int, *, seconds: float) -> int:
        return await self._watch.wait(since, seconds=seconds)

    # Webhooks

    @_to_its_end
    async def take_events(self, wanted: EventsWanted) -> list[DueEvent]:
        return await events.take(self._db, wanted)

    @_translated
    async def hold_events(self, held: Sequence[DueEvent], lease: timedelta) -> None:
        await events.hold(self._db, held, lease)

    @_translated
    async def settle_event(
        self, event: DueEvent, tried: Try, *, next_try_at: datetime | None = None
    ) -> None:
        await events.settle(self._db, event, tried, next_try_at)

    @_translated
    async def pace_event(self, event: DueEvent, tried: Try | None, pace: Pace | None) -> None:
        await events.pace(self._db, event, tried, pace)

    @_translated
    async def events_due_since(self) -> datetime | None:
        return await events.due_since(self._db)

    @_translated
    async def postpone_events(self, endpoint: str, until: datetime) -> None:
        await events.postpone(self._db, endpoint, until)

    @_translated
    async def replay_event(self, owner_id: str, n: int) -> Delivery:
        return await events.replay(self._db, owner_id, n)

    # Upkeep

    @_to_its_end
    async def rescue(self, *, dead: Collection[str] = (), max_crashes: int = 2) -> list[Rescued]:
        rescued = await rescue.rescue(self._db, dead, max_crashes)
        if rescued:
            self._watch.tell()
        return rescued

    @_translated
    async def expired(self, older_than: Mapping[JobStatus, datetime], *, limit: int) -> list[str]:
        return await reading.find_expired(self._db, older_than, limit)

    @_translated
    async def tidy(self) -> None:
        await self._caretaker.tidy()

    # Copies

    async def records(
        self, kind: Kind, ids: Collection[RecordId] | None = None
    ) -> AsyncIterator[list[Record]]:
        with translated(self._address):
            async for group in export.records(self._db, kind, ids):
                yield group

    @_to_its_end
    async def take_in(self, records: Sequence[Record]) -> set[RecordId]:
        new = await take_in(self._db, records)
        self._watch.tell()
        return new

    def depot(self) -> GridFsDepot:
        return GridFsDepot(self._client.get_default_database(DEFAULT_DATABASE), self._address)

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
