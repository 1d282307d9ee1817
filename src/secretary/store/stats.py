"""Counts, throughput and usage: how many jobs there are, how many finished when, and what each
user used.

Finished jobs are counted in time slots beside the jobs, so that no chart has to count jobs.
"""

import asyncio
import logging
import math
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

from ..core.errors import QuotaExceeded, StoreUnavailable
from ..core.job import Job, JobStatus, iso, utc_now

logger = logging.getLogger(__name__)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: The length of a time slot, and how long slots are retained.
SLOT = timedelta(minutes=2)
RETENTION = timedelta(days=8)
#: Jobs are counted per slot and per hour, so that long time spans need few numbers too.
WIDTHS = (1, timedelta(hours=1) // SLOT)

#: Waiting times are counted in logarithmic buckets, each a fifth wider than the one before:
#: a few numbers describe any number of jobs, and percentiles are accurate to within 10 %.
MIN_WAIT_S = 0.001
BUCKETS_PER_OCTAVE = 4
#: The bucket of jobs that never started, or that finished in a later attempt.
UNKNOWN = -1

ALL_USERS = "all"
FAILED = JobStatus.FAILED.value

FLUSH_AFTER_S = 1.0
#: How many counters are buffered at most while the store is unreachable.
MAX_BUFFERED = 50_000


class StatsStore(Protocol):
    """Counts and statistics; each call is cheap however many jobs there are."""

    #: The name of the database in API responses and logs.
    kind: str

    async def counts(self) -> Mapping[str, Mapping[JobStatus, int]]:
        """Return the number of jobs by type and state."""

    async def counts_of_user(self, user_id: str) -> Mapping[JobStatus, int]:
        """Return the number of jobs of one user by state."""

    async def throughput(
        self, since: datetime, *, step: timedelta, intervals: int, user_id: str | None = None
    ) -> list["Throughput"]:
        """Return what finished in each interval, by type, for everyone or one user.

        `since` is the start of a slot and `step` a multiple of `SLOT`. Jobs that were restarted
        or deleted later stay counted.
        """

    async def waiting_since(self) -> Mapping[str, datetime]:
        """Return since when the next job of each type has been ready to start; of a type's
        priorities, the longest wait counts."""

    async def busy_slots(self) -> Mapping[str, Mapping[str, int]]:
        """Return the number of running jobs per worker and job type, without idle workers."""

    async def check_writable(self) -> None:
        """Raise `StoreUnavailable` if a write could not start now. Writes nothing."""

    async def describe(self) -> Mapping[str, Any]:
        """Return versions, topology and durability for `doctor`."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a user, or all of them, used on one day."""

    jobs: int = 0
    pages: int = 0
    audio_seconds: float = 0.0
    #: How many users used something.
    users: int = 0


@dataclass(frozen=True, slots=True)
class JobCharge:
    """New or restarted jobs that count towards the quota of a user."""

    user_id: str
    day: date
    jobs: int
    #: How many jobs the user may have on this day; None counts without a limit.
    limit: int | None = None
    #: Another quota that is used up: it refuses the jobs, but not the repetition of a request.
    refusal: QuotaExceeded | None = None

    def exceeded(self, used: int) -> QuotaExceeded:
        assert self.limit is not None
        return quota_exceeded(
            "jobs_per_day", self.limit, used, requested=self.jobs, resets_at=end_of_day(self.day)
        )


class UsageStore(Protocol):
    """What users used; counted only while there are quotas."""

    async def usage(self, day: date, user_id: str | None = None) -> Usage:
        """Return what one user used on a day, or all users together."""

    async def charge(self, charges: Sequence[JobCharge]) -> None:
        """Count jobs for their users: all of them, or none and raise `QuotaExceeded`. However many
        processes do so at once, no limit is exceeded."""

    async def add_usage(
        self, job: Job, *, pages: int, audio_seconds: float, stored_bytes: int | None = None
    ) -> None:
        """Count what an attempt used for the job's user; `stored_bytes` is the size of its files,
        unless it is unchanged."""

    async def stored_bytes(self, user_id: str) -> int:
        """Return the size of the files of a user's jobs."""

    async def forget_files(self, job_id: str) -> None:
        """Record that the files of a job were removed."""


#: When to retry if files have to be deleted first.
STORAGE_RETRY_SECONDS = 3600.0
#: How long the usage of a day is retained.
USAGE_RETENTION = timedelta(days=35)


def end_of_day(day: date) -> datetime:
    return datetime.combine(day + timedelta(days=1), time(), UTC)


#: What the message calls each quota.
QUOTA_UNITS = {
    "jobs_per_day": "jobs per day",
    "pages_per_day": "pages per day",
    "audio_minutes_per_day": "minutes of audio per day",
    "stored_mb": "MB of stored files",
}


def quota_exceeded(
    name: str,
    limit: float,
    used: float,
    *,
    requested: float | None = None,
    resets_at: datetime | None = None,
) -> QuotaExceeded:
    """Without `resets_at`, deleting jobs makes room, as retention does sooner or later."""
    asked = f", {requested:,.10g} requested" if requested is not None else ""
    remedy = f"it resets at {iso(resets_at)}" if resets_at else "delete jobs to free space"
    wait = (resets_at - utc_now()).total_seconds() if resets_at else STORAGE_RETRY_SECONDS
    return QuotaExceeded(
        f"The quota of {limit:,.10g} {QUOTA_UNITS[name]} is used up"
        f" ({used:,.10g} used{asked}); {remedy}",
        retry_after=max(math.ceil(wait), 1),
        details={
            "quota": name,
            "limit": limit,
            "used": used,
            "requested": requested,
            "resets_at": iso(resets_at) if resets_at else None,
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """What finished of one job type in one interval."""

    interval: int
    job_type: str
    completed: int = 0
    cancelled: int = 0
    #: Number of failures by error code.
    failed: Mapping[str, int] = field(default_factory=dict)
    #: Number of jobs by bucket of their waiting time.
    waits: Mapping[int, int] = field(default_factory=dict)


def throughput_of(rows: Iterable[tuple[int, str, str, str, int, int]]) -> list[Throughput]:
    """Sum up counters: interval, job type, status, error code, bucket and number of jobs."""
    ended: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    failed: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    waits: dict[tuple[int, str], Counter[int]] = defaultdict(Counter)
    for interval, job_type, status, code, bucket, n in rows:
        ended[interval, job_type][status] += n
        if status == FAILED:
            failed[interval, job_type][code] += n
        if bucket != UNKNOWN:
            waits[interval, job_type][bucket] += n
    return [
        Throughput(
            interval=key[0],
            job_type=key[1],
            completed=counts[JobStatus.COMPLETED.value],
            cancelled=counts[JobStatus.CANCELLED.value],
            failed=dict(failed[key]),
            waits=dict(waits[key]),
        )
        for key, counts in ended.items()
    ]


class FinishedJob(NamedTuple):
    """What statistics need of a finished job. A tuple, as there is one for each job."""

    job_type: str
    user_id: str | None
    status: str
    at: datetime
    code: str | None = None
    waited: timedelta | None = None

    @classmethod
    def of(cls, job: Job, status: JobStatus, at: datetime) -> "FinishedJob":
        waited = wait_of(job.attempt, job.created_at, job.processing_started_at)
        return cls(job.job_type, job.user_id, status.value, at, waited=waited)


class StatsKey(NamedTuple):
    """The counter of a finished job."""

    scope: str
    slot: int
    job_type: str
    status: str
    code: str
    bucket: int


def wait_of(attempt: int, created_at: datetime, started_at: datetime | None) -> timedelta | None:
    """How long a job waited for its first attempt; None for any other attempt."""
    return started_at - created_at if started_at is not None and attempt == 1 else None


def scope_of(user_id: str | None) -> str:
    """Each job is counted for everyone and for its owner."""
    return ALL_USERS if user_id is None else f"user:{user_id}"


def slot_of(at: datetime) -> int:
    return (at - EPOCH) // SLOT


def width_for(first: int, width: int) -> int:
    """The widest slots that make up intervals of this width beginning with this slot."""
    return max(one for one in WIDTHS if width % one == first % one == 0)


def count_finished(finished: Iterable[FinishedJob]) -> Counter[StatsKey]:
    counts: Counter[StatsKey] = Counter()
    for job in finished:
        code = (job.code or "") if job.status == FAILED else ""
        key = (slot_of(job.at), job.job_type, job.status, code, bucket_of(job.waited))
        counts[StatsKey(ALL_USERS, *key)] += 1
        if job.user_id is not None:
            counts[StatsKey(scope_of(job.user_id), *key)] += 1
    return counts


def bucket_of(waited: timedelta | None) -> int:
    if waited is None:
        return UNKNOWN
    ratio = max(waited.total_seconds(), MIN_WAIT_S) / MIN_WAIT_S
    return math.ceil(math.log2(ratio) * BUCKETS_PER_OCTAVE)


def quantile(waits: Mapping[int, int], share: float) -> float | None:
    """The approximate waiting time in seconds that this share of the jobs did not exceed."""
    total = sum(waits.values())
    if total == 0:
        return None
    cumulative = accumulate(waits[bucket] for bucket in sorted(waits))
    rank = math.ceil(total * share)
    bucket = next(one for one, n in zip(sorted(waits), cumulative, strict=True) if n >= rank)
    return float(MIN_WAIT_S * 2 ** ((bucket - 0.5) / BUCKETS_PER_OCTAVE)) if bucket else 0.0


class StatsBuffer:
    """Collects finished jobs and writes their counters once a second."""

    def __init__(self, write: Callable[[Counter[StatsKey]], Awaitable[object]]) -> None:
        self._write = write
        self._finished: list[FinishedJob] = []
        self._counts: Counter[StatsKey] = Counter()
        self._writing: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def add(self, finished: Iterable[FinishedJob]) -> None:
        self._finished += finished
        if self._finished and (self._writing is None or self._writing.done()):
            self._writing = asyncio.create_task(self._flush_later())

    async def _flush_later(self) -> None:
        while self._finished or self._counts:
            with suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_AFTER_S):
                    await self._closing.wait()
            try:
                await self.flush()
            except StoreUnavailable as error:
                logger.warning("Could not write throughput counters: %s", error)
                if self._closing.is_set():
                    return

    async def flush(self) -> None:
        finished, self._finished = self._finished, []
        counts, self._counts = self._counts + count_finished(finished), Counter()
        if not counts:
            return
        try:
            await self._write(counts)
        except StoreUnavailable:
            if len(counts) < MAX_BUFFERED:
                self._counts += counts
            raise

    async def close(self) -> None:
        """Flush. A write in progress is not cancelled: nobody could tell whether it was made."""
        self._closing.set()
        if self._writing is not None:
            await self._writing
        if self._finished or self._counts:
            logger.warning("The throughput counters of the last jobs were not written")
