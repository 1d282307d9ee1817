"""Whether earlier work may be used."""

from typing import Any

from ..handler import JobContext
from .parameters import SourceParameters


def is_fresh(parameters: SourceParameters) -> bool:
    """Whether the client wants the work done again."""
    return parameters.force_refresh or parameters.force_overwrite or not parameters.use_cache


def made_after(ctx: JobContext[Any]) -> float:
    """Pages older than this are not taken. Those of the job's own earlier tries are: a try that
    failed at page 180 has made 179."""
    if not is_fresh(ctx.parameters):
        return 0.0
    ends = [attempt.ended_at for attempt in ctx.job.attempts if attempt.error is None]
    return max([ctx.job.created_at, *(end for end in ends if end)]).timestamp()
