"""Job type `track`: summarizes the talks of a conference track in one document."""

import asyncio
import json
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from pydantic import Field

from ..core.errors import UnsupportedFile
from ..core.json_codec import clean_text, clean_texts, encode_json
from ..core.languages import language_code
from ..documents.assembly import RESULTS_FILE
from ..jobs.handler import JobContext, handles
from ..web.talk import ROOT, published_root, track_path
from .parameters import TemplateParameters, TrackResults, text_field, with_requested_model
from .progress import StepProgress
from .session_document import publish
from .text_generation import apply_template, find_template

TIMEOUT = timedelta(hours=6)
DEFAULT_TEMPLATE = "Track_eco_social"


class TrackParameters(TemplateParameters):
    track: str = Field(min_length=1, max_length=500, description="Name of the track")
    event: str | None = text_field(500, "Name of the conference")


TrackContext = JobContext[TrackParameters]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackTalk:
    title: str
    speakers: tuple[str, ...]
    markdown: str


@handles("track", TrackParameters, timeout=TIMEOUT, io_bound=True)
async def track(ctx: TrackContext) -> TrackResults:
    """The talks are in the uploaded file: `POST /api/tracks/{name}/summary` collects those that the
    caller may read."""
    parameters = ctx.parameters
    await ctx.progress("initializing", 0)
    llm, warnings = with_requested_model(ctx.llm, "chat", parameters)
    ctx = replace(ctx, llm=llm)
    template = await find_template(ctx, default=DEFAULT_TEMPLATE)
    assert template is not None
    if template.fields:
        ctx.llm.model("chat")
    source = await ctx.source()
    talks = await asyncio.to_thread(load_talks, source.path)
    text = "\n\n".join(f"# {talk.title}\n\n{talk.markdown.strip()}" for talk in talks)
    if not any(talk.markdown.strip() for talk in talks):
        raise UnsupportedFile("The talks of the track have no text")
    await ctx.log(f"Summarizing {len(talks)} talks with the template {template.name}")
    language = language_code(parameters.target_language or template.language or "") or "en"
    rendered = await apply_template(
        ctx,
        text,
        template,
        context={
            "event": parameters.event or "",
            "track": parameters.track,
            "talks": [{"title": talk.title, "speakers": list(talk.speakers)} for talk in talks],
            **(parameters.context or {}),
        },
        target_language=language,
        progress=StepProgress(ctx, "summarizing", 10, 94),
    )
    await ctx.progress("postprocessing", 95)
    path = track_path(event=parameters.event, language=language, track=parameters.track)
    markdown = clean_text(rendered.markdown)
    await asyncio.to_thread(_write, ctx.directory / path, markdown)
    published = published_root(ctx.job.user_id)
    await asyncio.to_thread(publish, ctx.directory / ROOT, ctx.cache.data_directory / published)
    data = clean_texts(rendered.structured_data)
    texts = {"markdown_content": markdown, "structured_data": data}
    await asyncio.to_thread((ctx.directory / RESULTS_FILE).write_bytes, encode_json(texts))
    return TrackResults(
        warnings=warnings,
        markdown_file=str(path),
        target_dir=str(published / path.parent.relative_to(ROOT)),
        archive_filename=None,
        context=parameters.context,
        metadata={
            "track": parameters.track,
            "event": parameters.event,
            "language": language,
            "template": template.name,
            "session_count": len(talks),
            "sessions": [talk.title for talk in talks],
            "front_matter": rendered.front_matter,
        },
        llm_info=ctx.llm.info(),
        more_in=RESULTS_FILE,
    )


def load_talks(path: Path) -> list[TrackTalk]:
    talks = []
    try:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                talk = json.loads(line)
                speakers = tuple(map(str, talk["speakers"]))
                title, markdown = str(talk["title"]), str(talk["markdown"])
                talks.append(TrackTalk(title=title, speakers=speakers, markdown=markdown))
    except (ValueError, KeyError, TypeError):
        text = "The file has no talks; use POST /api/tracks/{name}/summary"
        raise UnsupportedFile(text) from None
    return talks


def _write(path: Path, markdown: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(markdown, encoding="utf-8", errors="replace")
