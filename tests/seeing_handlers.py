"""A handler from outside that asks a vision model."""

from typing import Any

from secretary import JobContext, Registry, handles
from secretary.handler import AnyParameters


@handles("seeing")
async def seeing(ctx: JobContext[AnyParameters]) -> dict[str, Any]:
    page = await ctx.llm.read_picture(b"\xff\xd8\xff a picture")
    return {"markdown_content": page, "llm_info": ctx.llm.info()}


def register(registry: Registry) -> None:
    registry.add(seeing)
