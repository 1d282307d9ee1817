"""What ended when, by type: tallies beside the jobs, so that a chart never counts the jobs."""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import NamedTuple

from ..core.job import Job, JobStatus

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: Time is told in slots of this length, for so long.
SLOT = timedelta(minutes=2)
KEPT = timedelta(days=8)

#: Waiting times are told in rungs of a ladder, each a fifth longer than the one before: so those
#: of any number of jobs are a few numbers, and quantiles are right to within a tenth.
SHORTEST_S = 0.001
RUNGS_PER_OCTAVE = 4
#: Everything is counted in single slots and in hours, so that long spans are few numbers too.
WIDTHS = (1, timedelta(hours=1) // SLOT)

EVERYBODY = "all"
FAILED = JobStatus.FAILED.value
#: The rung of those who never started, or whose first start is not the one that ended.
UNKNOWN = -1


class Ending(NamedTuple):
    """The end of one job, as far as tallies go. A tuple, as there is one for each job."""

    job_type: str
    user_id: str | None
    status: str
    at: datetime
    code: str | None = None
    waited: timedelta | None = None

    @classmethod
    def of(cls, job: Job, status: JobStatus, at: datetime) -> "Ending":
        waited = wait_of(job.attempt, job.created_at, job.processing_started_at)
        return cls(job.job_type, job.user_id, status.value, at, waited=waited)


def wait_of(attempt: int, created_at: datetime, started_at: datetime | None) -> timedelta | None:
    """How long a job waited for its start; None unless that is the first one."""
    return started_at - created_at if started_at is not None and attempt == 1 else None


class Place(NamedTuple):
    """Where the end of a job is counted."""

    scope: str
    slot: int
    job_type: str
    status: str
    code: str
    rung: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """What ended of one type in one part of a span of time."""

    part: int
    job_type: str
    completed: int = 0
    cancelled: int = 0
    #: How many failed, by the code of their error.
    failed: Mapping[str, int] = field(default_factory=dict)
    #: How many had waited how long, by rung.
    waits: Mapping[int, int] = field(default_factory=dict)


def scope_of(user_id: str | None) -> str:
    """Everything is counted for all together, and for its owner."""
    return EVERYBODY if user_id is None else f"user:{user_id}"


def slot_of(at: datetime) -> int:
    return (at - EPOCH) // SLOT


def start_of(slot: int) -> datetime:
    return EPOCH + slot * SLOT


def tally(endings: Iterable[Ending]) -> Counter[Place]:
    counted: Counter[Place] = Counter()
    for ending in endings:
        code = (ending.code or "") if ending.status == FAILED else ""
        counted_as = (
            slot_of(ending.at), ending.job_type, ending.status, code, rung_of(ending.waited),
        )  # fmt: skip
        counted[Place(EVERYBODY, *counted_as)] += 1
        if ending.user_id is not None:
            counted[Place(scope_of(ending.user_id), *counted_as)] += 1
    return counted


def width_for(first: int, width: int) -> int:
    """The widest slots of which parts of this width, from this slot on, are made up."""
    return max(one for one in WIDTHS if width % one == first % one == 0)


def rung_of(waited: timedelta | None) -> int:
    if waited is None:
        return UNKNOWN
    times = max(waited.total_seconds(), SHORTEST_S) / SHORTEST_S
    return math.ceil(math.log2(times) * RUNGS_PER_OCTAVE)


def quantile(waits: Mapping[int, int], part: float) -> float | None:
    """So many seconds had this part of the jobs waited at the most, about; None without any."""
    total = sum(waits.values())
    if total == 0:
        return None
    below = accumulate(waits[rung] for rung in sorted(waits))
    place = math.ceil(total * part)
    rung = next(rung for rung, n in zip(sorted(waits), below, strict=True) if n >= place)
    return float(SHORTEST_S * 2 ** ((rung - 0.5) / RUNGS_PER_OCTAVE)) if rung else 0.0


logger = logging.getLogger(__name__)

WRITE_AFTER_S = 1.0
#: While the store does not answer no more places than this are remembered.
MOST_PLACES = 50_000


class StatsBuffer:
    def __init__(
        self,
        write: Callable[[Counter[Place]], Awaitable[object]],
        *,
        unavailable: type[Exception],
    ) -> None:
        """`unavailable` is what `write` raises when the store does not answer."""
        self._write = write
        self._unavailable = unavailable
        self._ended: list[Ending] = []
        self._counted: Counter[Place] = Counter()
        self._writing: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def note(self, endings: Iterable[Ending]) -> None:
        self._ended += endings
        if self._ended and (self._writing is None or self._writing.done()):
            self._writing = asyncio.create_task(self._write_soon())

    async def _write_soon(self) -> None:
        while self._ended or self._counted:
            with suppress(TimeoutError):
                async with asyncio.timeout(WRITE_AFTER_S):
                    await self._closing.wait()
            try:
                await self.write()
            except self._unavailable as error:
                logger.warning("What ended could not be counted yet: %s", type(error).__name__)
                if self._closing.is_set():
                    return

    async def write(self) -> None:
        ended, self._ended = self._ended, []
        taken, self._counted = self._counted + tally(ended), Counter()
        if not taken:
            return
        try:
            await self._write(taken)
        except self._unavailable:
            if len(taken) < MOST_PLACES:
                self._counted += taken
            raise

    async def close(self) -> None:
        """Not by cancelling: nobody could tell whether a write that was under way was made."""
        self._closing.set()
        if self._writing is not None:
            await self._writing
        if self._ended or self._counted:
            logger.warning("What ended last was not counted")
