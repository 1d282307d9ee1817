"""Job type `selftest`: checks that queue, worker, sandbox, progress and logs work together."""

import asyncio
import platform

from pydantic import BaseModel, Field

from ..jobs.handler import JobContext, handles


class SelftestParameters(BaseModel):
    seconds: float = Field(default=1.0, ge=0, le=3600, description="Duration in seconds")
    steps: int = Field(default=10, ge=1, le=1000, description="Number of progress reports")


@handles("selftest", SelftestParameters)
async def selftest(ctx: JobContext[SelftestParameters]) -> dict[str, object]:
    seconds, steps = ctx.parameters.seconds, ctx.parameters.steps
    for step in range(steps):
        await ctx.progress(f"step:{step + 1}/{steps}", 100 * step // steps)
        await asyncio.sleep(seconds / steps)
    version = await ctx.run(platform.python_version)
    await ctx.log(f"A sandbox process with Python {version} answered")
    return {"structured_data": {"steps": steps, "seconds": seconds, "python": version}}
