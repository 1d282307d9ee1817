"""The results of texts that were made, in the form that all job types share."""

import asyncio
from collections.abc import Mapping
from typing import Any

from ..file_names import safe_name
from ..handler import JobContext
from ..job import MORE_IN
from ..processors.assembly import RESULTS_FILE
from ..processors.text_files import FILES, MADE_FILE, MadeText, TargetFormat
from ..remote import Remote
from ..templates import Rendered
from .file_links import archive_url, file_url
from .text_sources import SourceText

WRITE: Remote[None] = Remote("processors.text_files", "write_made")


async def text_results(
    ctx: JobContext[Any],
    source: SourceText,
    *,
    markdown: str,
    rendered: Rendered | None,
    facts: Mapping[str, Any],
    is_from_cache: bool,
) -> dict[str, Any]:
    wanted: TargetFormat = ctx.parameters.target_format or "markdown"
    made = MadeText(
        shown=str(ctx.directory),
        markdown=markdown,
        structured_data=rendered.structured_data if rendered else None,
        target_format=wanted,
        front_matter=rendered.front_matter if rendered else None,
        title=_title(rendered) or source.title,
        language=facts.get("target_language") or facts.get("source_language"),
    )
    if wanted in ("html", "text"):  # to read Markdown takes time
        await ctx.run(WRITE, made, wall_time=ctx.documents.conversion_timeout)
    else:
        await asyncio.to_thread(WRITE, made)

    told = {"file_name": source.file_name, "title": source.title, "url": source.url}
    known = {name: value for name, value in {**told, **facts}.items() if value is not None}
    return {
        "text": None,
        "text_file": file_url(ctx.job, FILES[wanted]),
        "markdown_content": None,
        "markdown_file": file_url(ctx.job, MADE_FILE),
        "structured_data": None,
        "archive_url": archive_url(ctx.job),
        "archive_filename": safe_name(f"{source.name}_files.zip"),
        "context": ctx.parameters.context,
        "is_from_cache": is_from_cache,
        "metadata": {**known, "target_format": wanted, "characters": len(source.text)},
        "llm_info": ctx.llm.info(),
        MORE_IN: RESULTS_FILE,
    }


def _title(rendered: Rendered | None) -> str | None:
    title = rendered.front_matter.get("title") if rendered else None
    return title if isinstance(title, str) and title else None
