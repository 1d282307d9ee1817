"""Job type `session`: a talk of a conference, from its web page to one document."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from pydantic import Field

from ..core.errors import InvalidParameters, JobFailed, UnsupportedFile
from ..core.job import RESULTS_FILE_KEY
from ..core.languages import language_code
from ..documents.assembly import RESULTS_FILE
from ..jobs.handler import JobContext, handles
from ..llm.templates import Rendered, Template, render, without_model
from ..web.links import best_attachment, best_subtitles, best_video
from ..web.paths import ROOT, SessionPaths, session_paths
from ..web.talk import TalkPage
from .audio import TIMEOUT
from .cache_policy import archive_url, file_url
from .parameters import LanguageParameters, Words
from .session_document import (
    Talk,
    appendix,
    long_results,
    publish,
    source_text,
    template_context,
    write_files,
)
from .session_parts import (
    Slide,
    Transcribed,
    read_page,
    slides_in_video,
    slides_of,
    transcript_of_subtitles,
    transcript_of_video,
    video_part,
)
from .subjobs import Missing, had, part_of
from .text_generation import apply_template, named_template

T = TypeVar("T")

TEMPLATE = "Session"


class SessionParameters(LanguageParameters):
    event: str | None = Field(default=None, max_length=500, description="The conference")
    session: str | None = Field(default=None, max_length=1000, description="The title of the talk")
    filename: str | None = Field(default=None, max_length=500, description="Of the document")
    track: str | None = Field(default=None, max_length=500, description="Where it belongs")
    day: str | None = Field(default=None, max_length=100, description="A date or a weekday")
    starttime: str | None = Field(default=None, max_length=100, description="Like `10:30`")
    endtime: str | None = Field(default=None, max_length=100, description="Like `11:20`")
    speakers: Words = Field(default_factory=list, description="Names, as a list or with commas")
    video_url: str | None = Field(
        default=None, max_length=8000, description="The video: a file, or a page of a site"
    )
    subtitles_url: str | None = Field(
        default=None, max_length=8000, description="Subtitles of the video: nobody need listen"
    )
    attachments_url: str | None = Field(default=None, max_length=8000, description="The slides")
    create_archive: bool = Field(default=True, description="A ZIP with everything")


@handles("session", SessionParameters, timeout=TIMEOUT)
async def session(ctx: JobContext[SessionParameters]) -> dict[str, Any]:
    wish = ctx.parameters
    if not (wish.url or wish.video_url or wish.attachments_url or wish.subtitles_url):
        raise InvalidParameters("url: the page of the talk, its video or its slides are needed")
    await ctx.progress("initializing", 0)
    template = await named_template(ctx)
    if template is None:
        find = partial(ctx.templates.find, TEMPLATE, language=wish.target_language)
        template = await asyncio.to_thread(find)
    talk = await _Gathering(ctx).talk()
    if talk.is_empty:
        raise _nothing_left(talk.missing)
    paths = session_paths(
        event=talk.facts["event"],
        language=talk.language,
        track=talk.facts["track"],
        session=talk.facts["session"],
        filename=wish.filename,
    )
    await ctx.progress("writing", 80, "The document is written")
    rendered, has_model = await _rendered(ctx, talk, paths, template)
    more = appendix(talk, has_model=has_model)
    markdown = f"{rendered.markdown.rstrip()}\n\n{more}\n" if more else rendered.markdown
    return await _results(ctx, talk, paths, rendered, markdown)


def _nothing_left(missing: Sequence[Missing]) -> JobFailed:
    """The first part that failed says it best."""
    if not missing:
        return UnsupportedFile("The page tells nothing, and there is neither a video nor slides")
    first, *others = missing
    error = JobFailed(first.message, missing=[one.as_json() for one in (first, *others)])
    error.code = first.code
    return error


class _Gathering:
    """Looks for all parts of a talk: what the client says comes before what the page says."""

    def __init__(self, ctx: JobContext[SessionParameters]) -> None:
        self._ctx = ctx
        self._missing: list[Missing] = []

    async def talk(self) -> Talk:
        page = await self._page()
        facts = self._facts(page)
        slides = await self._slides(facts["attachments_url"])
        words = await self._words(facts, with_frames=not slides)
        if words is not None and not slides:
            slides = slides_in_video(words)
        target = language_code(self._ctx.parameters.target_language or "")
        spoken = words.language if words else language_code(facts["source_language"] or "")
        return Talk(
            facts=facts,
            language=target or (spoken if spoken != "und" else None) or "en",
            page_text=page.text if page else "",
            links=[(link.title or link.url, link.url) for link in page.links] if page else (),
            words=words,
            slides=slides,
            missing=self._missing,
        )

    async def _page(self) -> TalkPage | None:
        url = self._ctx.parameters.url
        if url is None:
            return None
        await self._ctx.progress("reading_page", 3, "The page of the talk is read")
        return await self._had("page", url, partial(read_page, self._ctx, url))

    def _facts(self, page: TalkPage | None) -> dict[str, Any]:
        wish = self._ctx.parameters
        video = best_video(page.videos) if page else None
        slides = best_attachment(page.attachments) if page else None
        subtitles = best_subtitles(page.subtitles) if page else None
        told = {
            "session": page.title if page else None,
            "speakers": list(page.speakers) if page else [],
            "event": page.event if page else None,
            "track": page.track if page else None,
            "day": page.day if page else None,
            "starttime": page.starttime if page else None,
            "endtime": page.endtime if page else None,
            "url": wish.url,
            "video_url": video.url if video else None,
            "subtitles_url": subtitles.url if subtitles else None,
            "attachments_url": slides.url if slides else None,
            "source_language": page.language if page else None,
        }
        given = {name: getattr(wish, name) for name in told if getattr(wish, name)}
        facts = {**told, **given}
        return {**facts, "title": facts["session"]}

    async def _slides(self, url: str | None) -> list[Slide]:
        if url is None:
            return []
        return await self._had("slides", url, partial(slides_of, self._ctx, url)) or []

    async def _words(self, facts: Mapping[str, Any], *, with_frames: bool) -> Transcribed | None:
        """Subtitles that somebody has written are better than what an engine hears."""
        ctx = self._ctx
        language = language_code(facts["source_language"] or "")
        if url := facts["subtitles_url"]:
            part = part_of(ctx, "subtitles", ctx.parameters, first=30, last=40)
            words = await self._had(
                "subtitles", url, partial(transcript_of_subtitles, part, url, language)
            )
            if words is not None:
                return words
        if url := facts["video_url"]:
            part = video_part(ctx, url, language, with_frames=with_frames)
            return await self._had("video", url, partial(transcript_of_video, part))
        return None

    async def _had(self, part: str, url: str, work: Callable[[], Awaitable[T]]) -> T | None:
        found = await had(self._ctx, part, url, work)
        if isinstance(found, Missing):
            self._missing.append(found)
            return None
        return found


async def _rendered(
    ctx: JobContext[SessionParameters], talk: Talk, paths: SessionPaths, template: Template
) -> tuple[Rendered, bool]:
    """The document, and whether a model has a part in it."""
    given = ctx.parameters.context or {}
    context = {**template_context(talk, paths), **given}
    text = source_text(talk)
    has_model = "chat" in ctx.llm.options.models or not template.fields
    if has_model:
        rendered = await apply_template(
            ctx, text, template, context=context, target_language=talk.language
        )
    else:
        filled = without_model(template.fields, context)
        rendered = await asyncio.to_thread(render, template, context, filled, text)
    for warning in rendered.warnings:
        await ctx.log(warning, "warning")
    return rendered, has_model


async def _results(
    ctx: JobContext[SessionParameters],
    talk: Talk,
    paths: SessionPaths,
    rendered: Rendered,
    markdown: str,
) -> dict[str, Any]:
    await ctx.progress("postprocessing", 95)
    directory, job = ctx.directory, ctx.job
    assets = await asyncio.to_thread(write_files, directory, paths, talk, markdown)
    tree = directory / ROOT
    await asyncio.to_thread(publish, tree, ctx.cache.data_directory / ROOT)
    more = long_results(talk, rendered.structured_data, markdown)
    await asyncio.to_thread((directory / RESULTS_FILE).write_bytes, more)
    wants_archive = ctx.parameters.create_archive
    return {
        "markdown_file": file_url(job, paths.document),
        "markdown_content": None,
        "web_text": None,
        "video_transcript": None,
        "attachments_text": None,
        "structured_data": None,
        "attachments_url": talk.facts["attachments_url"],
        "assets": [file_url(job, name) for name in assets],
        "asset_dir": str(paths.assets),
        "target_dir": str(paths.document.parent),
        "archive_url": archive_url(job) if wants_archive else None,
        "archive_filename": f"{paths.document.stem}.zip" if wants_archive else None,
        "context": ctx.parameters.context,
        "missing": [one.as_json() for one in talk.missing],
        "metadata": {
            **talk.facts,
            "language": talk.language,
            "front_matter": rendered.front_matter,
            "slides": len(talk.slides),
        },
        "llm_info": ctx.llm.info(),
        RESULTS_FILE_KEY: RESULTS_FILE,
    }
