"""The protocols of the job store, and how to open one by URL."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any, Generic, Protocol, TypeVar, cast

from pydantic import AwareDatetime, Field

from ..core.job import Batch, Job, JobStatus, LogEntry, Outcome, Progress, StoredModel, utc_now
from ..storage.blob_store import BlobStore
from .outbox import Outbox
from .throughput import Throughput
from .transfer import Transfer

T = TypeVar("T")

STORES = {
    "sqlite": "secretary.store.sqlite:SqliteStore",
    "mongodb": "secretary.store.mongo:MongoStore",
    "mongodb+srv": "secretary.store.mongo:MongoStore",
}

#: A class of jobs that waits while others are served gains one priority level in this time.
AGEING = timedelta(minutes=1)

#: A lease is written anew when this part of it or less is left.
RENEW_BELOW = 0.9

#: So long a request that is sent again with its idempotency key is known.
KEY_LIFETIME = timedelta(days=1)


class JobQuery(StoredModel):
    """Which jobs: all given terms hold together. Newest first; `cursor` goes on behind a page."""

    job_id: str | None = None
    status: frozenset[JobStatus] | None = None
    job_type: str | None = None
    batch_id: str | None = None
    user_id: str | None = None
    archived: bool | None = None
    error_code: str | None = None
    #: Found in the job's id, name or batch.
    text: str | None = None
    created_after: AwareDatetime | None = None
    created_before: AwareDatetime | None = None
    #: Only what this user may read; None: everything.
    visible_to: str | None = None
    #: Look for so long only; then a page may be short, and `Page.searched_to` tells how far it got.
    search_seconds: float | None = None
    #: `results` and `logs` are big; they come only when asked for.
    include: frozenset[str] = frozenset()
    limit: int = Field(default=100, ge=1, le=1000)
    cursor: str | None = None


class BatchQuery(StoredModel):
    user_id: str | None = None
    archived: bool | None = None
    visible_to: str | None = None
    limit: int = Field(default=100, ge=1, le=1000)
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    items: list[T]
    next_cursor: str | None = None
    #: All jobs down to this time were looked at, those before it not yet: `next_cursor` goes on.
    searched_to: datetime | None = None


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """`key` is unique within its scope (a user); `fingerprint` tells one body from another."""

    key: str
    fingerprint: str
    scope: str = ""
    expires_at: datetime = field(default_factory=lambda: utc_now() + KEY_LIFETIME)


@dataclass(frozen=True, slots=True)
class Added:
    """The ids that were stored, or, when the idempotency key was known, those stored then."""

    job_ids: list[str]
    batch_id: str | None = None
    replayed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    """A worker process as others see it. `worker_id` is new at each start, whatever the host."""

    worker_id: str
    host: str
    pid: int
    #: Machine boot, process namespace and start time of the pid: tells on the same machine at
    #: once whether the process still lives.
    birth: str
    slots: int
    version: str
    #: Those it takes; none named: all.
    job_types: Sequence[str] = ()
    #: Those of them that it has a handler for.
    handles: Sequence[str] = ()
    started_at: datetime
    seen_at: datetime
    draining: bool = False

    @classmethod
    def known_of(cls, told: Mapping[str, Any]) -> "WorkerInfo":
        """What this version knows of what a worker tells, which may be of a newer one."""
        return cls(**{one.name: told[one.name] for one in fields(cls) if one.name in told})


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What a worker can take on now. The limits count all jobs that run, on any worker."""

    slots: int
    #: None: every type, those too that nobody has a handler for, so that they can be refused.
    job_types: Collection[str] | None = None
    #: Types that it cannot do and another one can.
    left_to_others: Collection[str] = ()
    max_per_type: Mapping[str, int] = field(default_factory=dict)
    max_per_user: int | None = None

    def serves(self, job_type: str) -> bool:
        if self.job_types is None:
            return job_type not in self.left_to_others
        return job_type in self.job_types


@dataclass(frozen=True, slots=True)
class Renewal:
    """The jobs a worker still owns, by id with their attempt, and those someone wants cancelled."""

    held: Mapping[str, int]
    cancelled: frozenset[str]


@dataclass(frozen=True, slots=True)
class Rescued:
    """A job whose worker vanished: pending again, failed when that happened too often, or
    cancelled where someone had asked for that."""

    job_id: str
    attempt: int
    worker_id: str
    failed: bool
    cancelled: bool = False


class Taker(Protocol):
    """A worker of this process that takes jobs without having asked for each."""

    def ready_for(self) -> tuple[str, Capacity] | None:
        """Its id and what it can take on right now; None: nothing."""
        ...

    def take(self, jobs: list[Job]) -> None: ...


@dataclass(frozen=True, slots=True)
class Change:
    """A job that changed, was added or deleted; without `job_id` a batch that itself changed."""

    job_id: str | None
    batch_id: str | None


@dataclass(frozen=True, slots=True)
class Changes:
    """`position` is behind these changes: pass it as `since` to read on."""

    items: list[Change]
    position: str
    #: What changed before these is not known any more: whoever needs to know must look.
    gap: bool = False


class JobStore(Outbox, Transfer, Protocol):
    """Where jobs live.

    Each call is atomic. What `add` and a final `finish` return is on disk.
    `report` and `finish` take the job that `claim` returned and raise `LeaseLost` once that
    claim no longer holds. Any call raises `StoreUnavailable` when the store does not answer.
    What an implementation owes is written as tests: tests/contract.
    """

    #: What it is called in answers and logs.
    kind: str
    #: Calls take effect in the order in which one process made them.
    in_order: bool
    #: It is reached over a network, which may fail for one machine and not for others.
    remote: bool

    async def open(self) -> None: ...
    async def close(self) -> None: ...

    # Clients

    async def add(
        self,
        jobs: Sequence[Job],
        *,
        batch: Batch | None = None,
        idempotency: IdempotencyKey | None = None,
    ) -> Added:
        """Store all jobs (and their batch) or none. Several jobs need a batch.

        The same idempotency key with another fingerprint is a `Conflict`.
        """
        ...

    async def get(self, job_id: str) -> Job: ...
    async def find(self, query: JobQuery) -> Page[Job]: ...
    async def get_batch(self, batch_id: str) -> Batch: ...
    async def find_batches(self, query: BatchQuery) -> Page[Batch]: ...

    async def changes(
        self, since: str | None, *, limit: int = 1000, seconds: float = 0.0
    ) -> Changes:
        """What changed after a position, whoever changed it; with None only the position of now.

        Nothing is left out, but something may be told twice. If there is nothing to tell it
        waits for so many seconds at the most, and looks again at once when this process
        changed something.
        """
        ...

    # Changes on the first `limit` jobs that a query finds and that are in a state that allows
    # it; each says which jobs it changed. Call again until it says none.

    async def cancel(self, query: JobQuery) -> list[str]:
        """Pending jobs end at once; of running ones the worker is told (`Renewal.cancelled`)."""
        ...

    async def restart(self, query: JobQuery) -> list[str]:
        """Make ended jobs pending again; results, error and progress are cleared."""
        ...

    async def archive(self, query: JobQuery, *, archived: bool = True) -> list[str]: ...

    async def delete(self, query: JobQuery) -> list[str]:
        """Forget ended jobs. Their files are the caller's to remove first."""
        ...

    async def change_batch(
        self, batch_id: str, *, is_active: bool | None = None, archived: bool | None = None
    ) -> Batch:
        """An inactive batch starts none of its pending jobs. Archiving covers its jobs too."""
        ...

    async def delete_batch(self, batch_id: str) -> None:
        """Forget a batch that has no jobs left; `Conflict` while it has."""
        ...

    async def counts(self) -> Mapping[str, Mapping[JobStatus, int]]:
        """How many jobs there are, by type and state."""
        ...

    async def counts_of_user(self, user_id: str) -> Mapping[JobStatus, int]:
        """How many jobs this user owns, by state."""
        ...

    async def activity(
        self, since: datetime, *, step: timedelta, parts: int, user_id: str | None = None
    ) -> list[Throughput]:
        """What ended in each part of a span of time, by type: of all jobs, or of a user's own.

        `since` is the start of a slot and `step` some slots long (`activity.SLOT`); what was
        restarted or deleted since then stays counted. Cheap, however many jobs there are.
        """
        ...

    async def waiting_since(self) -> Mapping[str, datetime]:
        """Since when the next job of each type waits that could start now; of the priorities of
        a type the one that waits longest counts. Cheap, however many jobs there are."""
        ...

    # Workers

    async def register_worker(self, worker: WorkerInfo, lease: timedelta) -> None:
        """Announce a worker, or what has changed about it. Everything it claims is its until
        its lease lapses."""
        ...

    async def unregister_worker(self, worker_id: str) -> None:
        """Forget a worker that holds no jobs any more."""
        ...

    async def workers(self) -> list[WorkerInfo]: ...

    async def busy_slots(self) -> Mapping[str, int]:
        """How many jobs each worker runs; who runs none is left out."""
        ...

    async def claim(self, worker_id: str, wanted: Capacity) -> list[Job]:
        """Give the jobs that should start next to this worker.

        Higher priority first, first in first out within it, users in turn; a waiting class of
        jobs gains a level with each `AGEING`. Raises `LeaseLost` when the worker is not enlisted.
        """
        ...

    def employ(self, taker: Taker | None) -> None:
        """Let the store hand jobs that were added in this process to a worker of this process,
        in the very write that adds them. A store that cannot do this leaves it to `claim`."""
        ...

    async def renew(self, worker_id: str, lease: timedelta) -> Renewal:
        """Keep everything this worker holds. Cheap enough to call twice a second."""
        ...

    async def report(
        self, job: Job, progress: Progress | None = None, logs: Sequence[LogEntry] = ()
    ) -> None: ...

    async def finish(
        self, job: Job, outcome: Outcome, *, resources: Mapping[str, float] | None = None
    ) -> None:
        """Record how this attempt ended; with a final state also the duty to tell the webhook."""
        ...

    async def wait(self, since: int, *, seconds: float) -> int:
        """Wait until there may be something to claim or to cancel, `seconds` at the most.

        Gives a number to pass as `since` next time, so that nothing is missed in between.
        """
        ...

    # Upkeep

    async def rescue(self, *, dead: Collection[str] = (), max_crashes: int = 2) -> list[Rescued]:
        """Take the jobs away from workers whose lease lapsed and from those known to be `dead`.

        A job that lost its worker `max_crashes` times fails: it must not do so for ever.
        """
        ...

    async def expired(self, older_than: Mapping[JobStatus, datetime], *, limit: int) -> list[str]:
        """Ids of ended jobs that ended before the time given for their state, oldest first."""
        ...

    async def tidy(self) -> None:
        """What the store needs from time to time: settle batches, drop old keys, checkpoint."""
        ...

    def blob_store(self) -> BlobStore | None:
        """Where the store can keep files too, for all machines that use it."""
        ...

    async def describe(self) -> Mapping[str, Any]:
        """Facts about the store for `doctor`: versions, topology, durability."""
        ...


def open_store(url: str) -> JobStore:
    """Build the store that `url` names. The driver is imported only now, so it stays optional."""
    scheme, _, _ = url.partition("://")
    module, _, name = STORES[scheme].partition(":")
    return cast(JobStore, getattr(import_module(module), name)(url))
