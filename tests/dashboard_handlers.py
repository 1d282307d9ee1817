"""Handlers with logs and results that give the dashboard much to show."""

import asyncio
from base64 import b64decode
from typing import Any

from pydantic import BaseModel, Field

from secretary import JobContext, Registry, handles

#: The smallest image.
PNG = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
DOCUMENT = """---
title: "Minutes of the board"
speakers: [Anna, Bert]
tags:
  - heating
  - roof
---

# Minutes

![The plan](assets/plan.png) and [the numbers](numbers.txt), not [outside](../../../x.txt).
"""


class ChattyParameters(BaseModel):
    lines: int = Field(default=10, ge=0)
    seconds: float = Field(default=0, ge=0)


@handles("chatty", ChattyParameters)
async def chatty(ctx: JobContext[ChattyParameters]) -> dict[str, Any]:
    lines = ctx.parameters.lines
    for number in range(lines):
        level: Any = "warning" if number % 10 == 9 else "info"
        await ctx.log(f"Line {number + 1}", level)
        await asyncio.sleep(ctx.parameters.seconds / lines)
    return {"structured_data": {"lines": lines}}


@handles("gathered")
async def gathered(ctx: JobContext[BaseModel]) -> dict[str, Any]:
    """A document in a directory of its own with an image beside it; one part is missing."""
    (ctx.directory / "talks" / "assets").mkdir(parents=True)
    (ctx.directory / "talks" / "minutes.md").write_text(DOCUMENT)
    (ctx.directory / "talks" / "numbers.txt").write_text("1 2 3")
    (ctx.directory / "talks" / "assets" / "plan.png").write_bytes(PNG)
    files = f"/api/files/{ctx.job.job_id}/talks"
    error = {"code": "DOWNLOAD_FAILED", "message": "The server answered with 404"}
    return {
        "markdown_file": f"{files}/minutes.md",
        "assets": [f"{files}/assets/plan.png", f"{files}/numbers.txt"],
        "missing": [{"part": "video", "url": "https://example.org/talk.mp4", "error": error}],
        "structured_data": {
            "title": "Minutes",
            "votes": [{"motion": "Roof", "for": 7, "against": 1}, {"motion": "Heating", "for": 8}],
            "place": {"room": "Library", "at": {"day": "Tuesday", "hour": 9}},
        },
    }


def register(registry: Registry) -> None:
    registry.add(chatty)
    registry.add(gathered)
