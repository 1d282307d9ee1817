"""Parts of a job that are jobs of other types by themselves: each with a place, a share of the
progress and a second try of its own."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic import BaseModel

from ..errors import JobFailed, ProcessDied
from ..handler import JobContext
from .steps import ShareOfProgress

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
