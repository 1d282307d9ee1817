"""Progress reports of the job types: by seconds of a recording, by steps, as a part of a job."""

import time
from dataclasses import dataclass, field

from ..core.job import LogEntry, Progress
from ..jobs.handler import JobContext, Reporter
from ..media.transcript import format_clock
from .parameters import CacheParameters

#: An estimate of the remaining time needs at least this many seconds of observed pace.
MIN_OBSERVED_SECONDS = 3.0


@dataclass(slots=True)
class MediaProgress:
    """Progress by seconds of a recording, with an estimate of the remaining time."""

    ctx: JobContext[CacheParameters]
    step: str
    total: float
    done: float = 0.0
    first_percent: int = field(kw_only=True)
    last_percent: int = field(kw_only=True)
    _started: float = field(default_factory=time.monotonic)
    #: Seconds that this attempt has processed: cached parts took no time.
    _processed: float = 0.0

    async def advance(self, seconds: float) -> None:
        before = self.done
        self.done = min(self.done + seconds, self.total)
        self._processed += self.done - before
        await self.report()

    async def report(self) -> None:
        share = self.done / self.total if self.total else 1.0
        elapsed, left = time.monotonic() - self._started, ""
        if self._processed and elapsed >= MIN_OBSERVED_SECONDS and self.done < self.total:
            remaining = elapsed / self._processed * (self.total - self.done)
            left = f", about {format_clock(remaining)} left"
        await self.ctx.progress(
            f"{self.step}:{int(self.done)}/{int(self.total)}",
            self.first_percent + int((self.last_percent - self.first_percent) * share),
            f"{format_clock(self.done)} of {format_clock(self.total)} is done{left}",
        )


@dataclass(slots=True)
class StepProgress:
    """Progress by steps whose number may grow while the job runs; it never goes backwards."""

    ctx: JobContext[CacheParameters]
    name: str
    first_percent: int
    last_percent: int
    _done: int = 0
    _expected: int = 0
    _percent: int = 0

    def expect(self, more: int) -> None:
        self._expected += more

    async def advance(self) -> None:
        self._done += 1
        share = self._done / max(self._expected, self._done)
        reached = self.first_percent + int((self.last_percent - self.first_percent) * share)
        self._percent = max(self._percent, reached)
        done = f"{self._done}/{self._expected}"
        await self.ctx.progress(f"{self.name}:{done}", self._percent, f"{done} parts are done")


@dataclass(frozen=True, slots=True)
class ScaledReporter:
    """Reports a part of a job: its 0 to 100 % are mapped to a share of the job's progress, and
    its name, if any, is put before steps and log messages."""

    reporter: Reporter
    first_percent: int
    last_percent: int
    name: str = ""

    def progress(self, progress: Progress) -> None:
        share = self.last_percent - self.first_percent
        percent = self.first_percent + share * progress.percent // 100
        step = f"{self.name}/{progress.step}" if self.name else progress.step
        self.reporter.progress(progress.model_copy(update={"percent": percent, "step": step}))

    def log(self, entry: LogEntry) -> None:
        message = f"{self.name}: {entry.message}" if self.name else entry.message
        self.reporter.log(entry.model_copy(update={"message": message}))
