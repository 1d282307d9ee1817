"""Parts of a job that are jobs of other types by themselves: each with a place, a share of the
progress and a second try of its own."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic import BaseModel

from ..core.errors import JobFailed, ProcessDied
from ..core.job import LogEntry, Progress
from ..jobs.handler import JobContext, Reporter


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


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Missing:
    """What could not be had, and why."""

    part: str
    url: str | None
    code: str
    message: str

    def as_json(self) -> dict[str, Any]:
        return {
            "part": self.part,
            "url": self.url,
            "error": {"code": self.code, "message": self.message},
        }


def part_of(
    ctx: JobContext[Any], name: str, parameters: BaseModel, *, first: int, last: int
) -> JobContext[Any]:
    """What the part makes lies in scratch: what is worth keeping is taken from there."""
    return replace(
        ctx,
        parameters=parameters,
        attempt_directory=str(ctx.scratch / name),
        reporter=ShareOfProgress(ctx.reporter, first, last, name),
    )


async def had(
    ctx: JobContext[Any], part: str, url: str | None, work: Callable[[], Awaitable[T]]
) -> T | Missing:
    """What comes of it; or, where it fails for good, what to say about that."""
    try:
        return await work()
    except JobFailed as error:
        if not (error.retryable or isinstance(error, ProcessDied)):
            return await _without(ctx, part, url, error)
        await ctx.log(f"{part}: {error.message} It is tried again.", "warning")
    try:
        return await work()
    except JobFailed as error:
        return await _without(ctx, part, url, error)


async def _without(ctx: JobContext[Any], part: str, url: str | None, error: JobFailed) -> Missing:
    await ctx.log(f"{part}: {error.message} ({error.code}) The job goes on without.", "warning")
    return Missing(part, url, error.code, error.message)
