"""A custom handler that calls a vision model and reads the templates."""

from typing import Any

from secretary import JobContext, Registry, handles
from secretary.jobs.handler import AnyParameters


@handles("seeing")
async def seeing(ctx: JobContext[AnyParameters]) -> dict[str, Any]:
    page = await ctx.llm.read_picture(b"\xff\xd8\xff a picture")
    own = [one.name for one in ctx.templates.listed() if one.origin == "own"]
    return {"markdown_content": page, "llm_info": ctx.llm.info(), "templates": own}


def register(registry: Registry) -> None:
    registry.add(seeing)
