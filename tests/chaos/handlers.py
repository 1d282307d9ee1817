"""A handler that keeps a journal of its attempts, so that a checker can find overlapping ones."""

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

from secretary import JobContext, Registry, handles
from secretary.core.errors import UpstreamFailed
from secretary.jobs.handler import AnyParameters

BEAT = 0.05


@handles("chaos", max_attempts=50)
async def chaos(ctx: JobContext[AnyParameters]) -> dict[str, Any]:
    parameters = ctx.job.parameters
    journal = Path(parameters["journal"])
    _note(journal, ctx, "start")
    await ctx.log(f"attempt {ctx.job.attempt}")
    beats = max(1, int(parameters["seconds"] / BEAT))
    for beat in range(beats):
        if parameters["blocking"]:
            time.sleep(BEAT)
        else:
            await asyncio.sleep(BEAT)
        _note(journal, ctx, "beat")
        await ctx.progress("working", 100 * beat // beats)
    if parameters["fails"] > ctx.job.failures:
        _note(journal, ctx, "failure")
        error = UpstreamFailed("on purpose")
        raise error
    _note(journal, ctx, "end")
    return {"attempt": ctx.job.attempt}


def _note(journal: Path, ctx: JobContext[AnyParameters], event: str) -> None:
    """One line in one write: O_APPEND keeps it intact with several processes."""
    line = json.dumps([ctx.job.job_id, ctx.job.attempt, event, time.monotonic(), os.getpid()])
    descriptor = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line.encode() + b"\n")
    finally:
        os.close(descriptor)


def register(registry: Registry) -> None:
    registry.add(chaos)
