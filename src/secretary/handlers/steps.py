"""How far the parts of a work are, told as `translating:3/7`."""

from dataclasses import dataclass
from typing import Any

from ..handler import JobContext, Reporter
from ..job import LogEntry, Progress


@dataclass(slots=True)
class Steps:
    """Percents from the first to the last; where more is expected later, they grow slower."""

    ctx: JobContext[Any]
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
        self._percent = max(self._percent, reached)  # never backwards
        done = f"{self._done}/{self._expected}"
        await self.ctx.progress(f"{self.name}:{done}", self._percent, f"{done} parts are done")


@dataclass(frozen=True, slots=True)
class ShareOfProgress:
    """For a work that is a part of another: its 0 to 100 % are these, and its name, if it has one,
    stands before all it says."""

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
