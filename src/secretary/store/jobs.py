"""What clients ask of a store: jobs, batches and the feed of their changes."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar

from pydantic import AwareDatetime, Field

from ..core.job import MAX_LOG_ENTRIES, Batch, Job, JobStatus, LogEntry, StoredModel, utc_now
from .stats import JobCharge

T = TypeVar("T")

#: How long a request can be repeated with the same idempotency key.
KEY_LIFETIME = timedelta(days=1)
#: How long a client may submit a job again for the same callback.
CALLBACK_LIFETIME = timedelta(days=90)


class JobQuery(StoredModel):
    """Selects jobs that match all given terms, newest first; `cursor` continues after a page."""

    job_id: str | None = None
    status: frozenset[JobStatus] | None = None
    job_type: str | None = None
    batch_id: str | None = None
    user_id: str | None = None
    archived: bool | None = None
    error_code: str | None = None
    #: Matches the job's id, name or batch.
    text: str | None = None
    created_after: AwareDatetime | None = None
    created_before: AwareDatetime | None = None
    #: Only jobs this user may read; None selects all.
    visible_to: str | None = None
    #: Stop searching after this time: the page may be short, and `Page.searched_to` tells how
    #: far the search got.
    search_seconds: float | None = None
    #: `results` and `logs` are large and only loaded on request.
    include: frozenset[str] = frozenset()
    limit: int = Field(default=100, ge=1, le=1000)
    cursor: str | None = None


class BatchQuery(StoredModel):
    """Selects batches that match all given terms, newest first."""

    user_id: str | None = None
    archived: bool | None = None
    visible_to: str | None = None
    limit: int = Field(default=100, ge=1, le=1000)
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list; `next_cursor` is None on the last one."""

    items: list[T]
    next_cursor: str | None = None
    #: The search ran out of time here: older jobs were not searched; `next_cursor` continues.
    searched_to: datetime | None = None


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """`key` is unique within its scope (a user); `fingerprint` identifies the request body."""

    key: str
    fingerprint: str
    scope: str = ""
    expires_at: datetime = field(default_factory=lambda: utc_now() + KEY_LIFETIME)


@dataclass(frozen=True, slots=True)
class CallbackKey:
    """`key` identifies a job as the client knows it, by its owner, source and callback URL;
    `fingerprint` identifies the request body without the token."""

    key: str
    fingerprint: str
    expires_at: datetime = field(default_factory=lambda: utc_now() + CALLBACK_LIFETIME)


@dataclass(frozen=True, slots=True)
class Added:
    """The stored ids, or those of the original request when the request was a repetition."""

    job_ids: list[str]
    batch_id: str | None = None
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """A job that was added, changed or deleted; without `job_id`, a batch that changed."""

    job_id: str | None
    batch_id: str | None


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes, and the position after them: pass it as `since` to continue."""

    items: list[Change]
    position: str
    #: Changes before these are no longer available: readers must reload their state.
    gap: bool = False


class JobStore(Protocol):
    """Jobs as clients see them.

    `cancel`, `restart`, `archive` and `delete` change up to `limit` jobs that match the query and
    are in a state that allows it, and return their ids. Repeat until they return none.
    """

    async def add(
        self,
        jobs: Sequence[Job],
        *,
        batch: Batch | None = None,
        idempotency: IdempotencyKey | None = None,
        callback: CallbackKey | None = None,
        charges: Sequence[JobCharge] = (),
    ) -> Added:
        """Store all jobs (and their batch) durably, or none. Several jobs need a batch.

        With `charges` the jobs count towards the quotas of their users; raises `QuotaExceeded` if
        one is used up. Repetitions of a request neither count nor are refused.

        Raises `Conflict` if the idempotency key was used with another fingerprint.

        With `callback` the job has a webhook, and a job with the same key and another token is
        replaced: if it is the same request and unfinished, it only gets the new token, and nothing
        is stored. Otherwise it is cancelled and sends no more events, and the new job reports under
        the id of the first. An idempotency key takes precedence.
        """

    async def get(self, job_id: str) -> Job: ...

    async def reporting_job(self, process_id: str) -> str | None:
        """The id of the last job whose events report this `process.id`, if it was submitted for a
        callback."""

    async def find(self, query: JobQuery) -> Page[Job]: ...

    async def changes(
        self, since: str | None, *, limit: int = 1000, seconds: float = 0.0
    ) -> Changes:
        """Return what any process changed after a position; None returns the current position.

        Every change is delivered at least once. Without changes, waits up to `seconds`, and less
        if this process changes something.
        """

    async def cancel(self, query: JobQuery) -> list[str]:
        """Cancel pending jobs at once and running ones through `Renewal.cancelled`."""

    async def restart(self, query: JobQuery) -> list[str]:
        """Make finished jobs pending again and clear results, error and progress."""

    async def archive(self, query: JobQuery, *, archived: bool = True) -> list[str]: ...

    async def delete(self, query: JobQuery) -> list[str]:
        """Delete finished jobs. Callers remove the jobs' files first."""

    async def expired(self, older_than: Mapping[JobStatus, datetime], *, limit: int) -> list[str]:
        """Return ids of jobs whose retention has ended: their own (`Job.expires_at`), or else the
        time given for their state, before which they finished. Oldest first."""


class BatchStore(Protocol):
    """Batches as clients see them."""

    async def get_batch(self, batch_id: str) -> Batch: ...
    async def find_batches(self, query: BatchQuery) -> Page[Batch]: ...

    async def change_batch(
        self, batch_id: str, *, is_active: bool | None = None, archived: bool | None = None
    ) -> Batch:
        """Pause, resume or archive a batch. None of its pending jobs starts while it is inactive;
        archiving includes its jobs."""

    async def delete_batch(self, batch_id: str) -> None:
        """Delete an empty batch; raises `Conflict` while it has jobs."""


#: The retained log entries of a job, each with its number among all that were ever written.
NumberedLog = Sequence[tuple[int, LogEntry]]


def log_for_clients(numbered: NumberedLog) -> list[LogEntry]:
    """Return the log entries, preceded by a note if older ones were dropped."""
    entries = [entry for _, entry in numbered]
    if numbered and (dropped := numbered[0][0] - 1):
        text = f"{dropped} older entries were dropped; a job keeps the last {MAX_LOG_ENTRIES}"
        at = entries[0].timestamp
        entries.insert(0, LogEntry(timestamp=at, level="warning", message=text))
    return entries


class TimeBudget:
    """Splits a search into steps so that it stops in time.

    The first step is small, as most pages fill up soon; each further one is as large as the pace
    so far permits.
    """

    FIRST, GROWTH = 200, 6

    def __init__(self, seconds: float) -> None:
        self._started = time.monotonic()
        self._seconds = seconds
        self._scanned = 0
        self.step = self.FIRST

    def next_step(self) -> bool:
        """Set the size of the next step; False when there is no time for one."""
        self._scanned += self.step
        spent = time.monotonic() - self._started
        # Use half of the remaining time: on a busy machine the pace can change at any moment.
        possible = int(self._scanned / max(spent, 1e-6) * (self._seconds - spent) / 2)
        self.step = min(self.step * self.GROWTH, possible)
        return possible >= self.FIRST


class Notifier:
    """A counter that grows with each notification, so that waiters miss none."""

    def __init__(self) -> None:
        self.generation = 0
        self._waiters: set[asyncio.Future[None]] = set()

    async def wait(self, since: int, *, seconds: float) -> int:
        """Wait up to `seconds` until the counter differs from `since`; returns the counter."""
        if self.generation == since:
            # Not asyncio.wait_for: its extra task would double the latency of a claim.
            loop = asyncio.get_running_loop()
            waiter = loop.create_future()
            timer = loop.call_later(seconds, resolve, waiter)
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                timer.cancel()
                self._waiters.discard(waiter)
        return self.generation

    def notify(self) -> None:
        self.generation += 1
        for waiter in self._waiters:
            resolve(waiter)


def resolve(future: asyncio.Future[Any], answer: Any = None) -> None:
    """Answer a caller, unless it was cancelled; an exception is raised there."""
    if future.done():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
