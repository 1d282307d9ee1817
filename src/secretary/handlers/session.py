"""Job type `session`: turns a conference talk, from its web page, video and slides, into one
document."""

import asyncio
import json
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import quote

from pydantic import BaseModel, Field

from ..core.callables import LazyCallable
from ..core.errors import (
    EngineUnavailable,
    InvalidParameters,
    JobFailed,
    ProcessDied,
    UnsupportedFile,
)
from ..core.files import atomic_write
from ..core.json_codec import encode_json
from ..core.languages import language_code
from ..documents.assembly import MAX_RESULTS_BYTES, RESULTS_FILE
from ..jobs.handler import JobContext, handles
from ..llm.templates import Rendered, Template, fill_without_model, render
from ..media.speech.engines import TimedText, Transcription
from ..media.transcript import (
    SRT_FILE,
    TEXT_FILE,
    VTT_FILE,
    StoredTranscript,
    Transcript,
    encode_record,
    format_clock,
)
from ..storage import append_log
from ..web.talk import (
    ROOT,
    SessionPaths,
    TalkPage,
    best_attachment,
    best_subtitles,
    best_video,
    session_paths,
)
from .media_pipeline import TIMEOUT, WRITE_TRANSCRIPT
from .office import OfficeParameters, office
from .parameters import (
    Frame,
    LanguageParameters,
    MissingPart,
    PartError,
    RecordingResults,
    SessionResults,
    StringList,
)
from .pdf import PdfParameters, pdf
from .progress import ScaledReporter
from .text_generation import apply_template, find_template
from .transcription import DETECT_LANGUAGE, LOAD, LOAD_TIMEOUT
from .video import VideoParameters, video

#: Texts of the document that come from neither a model nor a template, by language.
LABELS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "about": "About the talk",
        "transcript": "Transcript",
        "slide": "Slide",
        "text": "Text",
        "video": "Video",
        "files": "Transcript: {}",
        "missing": "Not available",
        "no_model": "This document has no summary: no language model is set.",
        "missing page": "The page",
        "missing video": "The video",
        "missing subtitles": "The subtitles",
        "missing slides": "The slides",
    },
    "de": {
        "about": "Über den Vortrag",
        "transcript": "Mitschrift",
        "slide": "Folie",
        "text": "Text",
        "video": "Video",
        "files": "Mitschrift: {}",
        "missing": "Nicht verfügbar",
        "no_model": "Ohne Zusammenfassung: Es ist kein Sprachmodell eingestellt.",
        "missing page": "Die Seite",
        "missing video": "Das Video",
        "missing subtitles": "Die Untertitel",
        "missing slides": "Die Folien",
    },
}


#: Files of a transcript that are published with the document.
TRANSCRIPT_FILES = (TEXT_FILE, SRT_FILE, VTT_FILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkTranscript:
    """The transcript of a talk; `directory` contains its files."""

    directory: Path
    language: str
    text: str
    markdown: str
    #: Slides found in the video.
    frames: Sequence[Frame] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkSlide:
    """A page of the slides, or a frame of the video."""

    number: int
    image: Path | None
    text: str
    time: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """All that is known about a talk."""

    facts: Mapping[str, Any]
    language: str
    page_text: str = ""
    links: Sequence[tuple[str, str]] = ()
    transcript: TalkTranscript | None = None
    slides: Sequence[TalkSlide] = ()
    missing: Sequence[MissingPart] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.page_text.strip() or self.transcript or self.slides)

    @property
    def labels(self) -> Mapping[str, str]:
        return LABELS.get(self.language, LABELS["en"])


def source_text(talk: Talk) -> str:
    """All texts of the talk, for a model."""
    parts = []
    if talk.page_text.strip():
        parts.append(f"# The page of the talk\n\n{talk.page_text.strip()}")
    if talk.transcript is not None:
        parts.append(f"# Transcript of the video\n\n{talk.transcript.text.strip()}")
    texts = [
        f"## Slide {slide.number}\n\n{slide.text.strip()}"
        for slide in talk.slides
        if slide.text.strip()
    ]
    if texts:
        parts.append("# Texts of the slides\n\n" + "\n\n".join(texts))
    return "\n\n".join(parts)


def template_context(talk: Talk, paths: SessionPaths) -> dict[str, Any]:
    """Values for the template. What the talk lacks is empty, not missing."""
    facts = {name: value if value is not None else "" for name, value in talk.facts.items()}
    return {
        **facts,
        "target_language": talk.language,
        "video": _video(talk, paths),
        "slides": _slides(talk, paths),
        "links": "\n".join(f"- [{_one_line(title)}]({url})" for title, url in talk.links),
    }


def _video(talk: Talk, paths: SessionPaths) -> str:
    lines = []
    if url := talk.facts.get("video_url"):
        lines.append(f"[{talk.labels['video']}]({url})")
    if talk.transcript is not None:
        directory = quote(str(paths.assets_from_document))
        files = ", ".join(f"[{name}]({directory}/{name})" for name in TRANSCRIPT_FILES)
        lines.append(talk.labels["files"].format(files))
    return "\n\n".join(lines)


def _slides(talk: Talk, paths: SessionPaths) -> str:
    """A table of the images and texts."""
    if not talk.slides:
        return ""
    directory = quote(str(paths.assets_from_document))
    rows = [f"| {talk.labels['slide']} | {talk.labels['text']} |", "|---|---|"]
    for slide in talk.slides:
        name = f"{talk.labels['slide']} {slide.number}"
        if slide.time is not None:
            name += f" ({format_clock(slide.time)})"
        image = f"![{name}]({directory}/{slide.image.name})" if slide.image else name
        rows.append(f"| {image} | {_table_cell(slide.text)} |")
    return "\n".join(rows)


def appendix(talk: Talk, *, has_model: bool) -> str:
    """What is added below the template: all texts if there is no model, and the missing parts."""
    blocks = []
    labels = talk.labels
    if not has_model:
        blocks.append(f"> {labels['no_model']}")
        if talk.page_text.strip():
            blocks.append(f"## {labels['about']}\n\n{_lower_headings(talk.page_text)}")
        if talk.transcript is not None:
            blocks.append(
                f"## {labels['transcript']}\n\n{_lower_headings(talk.transcript.markdown)}"
            )
    if talk.missing:
        lines = [
            f"- {labels[f'missing {part.part}']}"
            + (f" ({part.url})" if part.url else "")
            + f": {_one_line(part.error.message)}"
            for part in talk.missing
        ]
        blocks.append(f"## {labels['missing']}\n\n" + "\n".join(lines))
    return "\n\n".join(blocks)


def _lower_headings(markdown: str) -> str:
    """Move the headings two levels down, below those of the document."""
    return "\n".join(
        f"##{line}" if line.startswith("#") else line for line in markdown.strip().splitlines()
    )


def _table_cell(text: str) -> str:
    lines = (_escape(" ".join(line.split())) for line in text.splitlines() if line.strip())
    return "<br>".join(lines)


def _escape(text: str) -> str:
    for character in "\\<>[]*_`#|":
        text = text.replace(character, f"\\{character}")
    return text


def _one_line(text: str) -> str:
    return _escape(" ".join(text.split()))


def long_results(talk: Talk, structured: Mapping[str, Any], markdown: str) -> bytes:
    """The part of the results that is stored in a file. Texts that are too long for a response are
    left out."""
    slides = "\n\n".join(slide.text.strip() for slide in talk.slides if slide.text.strip())
    texts = {
        "markdown_content": markdown,
        "web_text": talk.page_text or None,
        "video_transcript": talk.transcript.text if talk.transcript else None,
        "attachments_text": slides or None,
    }
    room = MAX_RESULTS_BYTES
    results: dict[str, Any] = {"structured_data": dict(structured)}
    for name, text in texts.items():
        if text is None or len(text) > room:
            continue
        room -= len(text)
        results[name] = text
    return encode_json(results)


def write_files(directory: Path, paths: SessionPaths, talk: Talk, markdown: str) -> list[str]:
    """Write the directory tree of the talk, and return the names of its assets."""
    document, assets = directory / paths.document, directory / paths.assets
    document.parent.mkdir(parents=True, exist_ok=True)
    document.write_text(markdown, encoding="utf-8", errors="replace")
    images = [slide.image for slide in talk.slides if slide.image is not None]
    transcript = (
        [talk.transcript.directory / name for name in TRANSCRIPT_FILES] if talk.transcript else []
    )
    for path in (*images, *transcript):
        assets.mkdir(parents=True, exist_ok=True)
        _link_or_copy(path, assets / path.name)
    return [f"{paths.assets}/{path.name}" for path in (*images, *transcript)]


def publish(directory: Path, root: Path) -> None:
    """Copy the tree to `root`, which has those of all talks, replacing files of the same name."""
    for path in directory.rglob("*"):
        target = root / path.relative_to(directory)
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            # A unique name: translations of a talk share files and may be written concurrently.
            with atomic_write(target) as temporary:
                _link_or_copy(path, temporary)


def _link_or_copy(path: Path, target: Path) -> None:
    """A hard link, where possible: the scratch directory is removed, linked files stay."""
    try:
        os.link(path, target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(path, target)


T = TypeVar("T")
P = TypeVar("P", bound=BaseModel)

READ_PAGE: LazyCallable[TalkPage] = LazyCallable("web.page", "read_talk_page")
PAGE_TIMEOUT = timedelta(minutes=2)
DEFAULT_TEMPLATE = "Session"


class SessionParameters(LanguageParameters):
    event: str | None = Field(default=None, max_length=500, description="Name of the conference")
    session: str | None = Field(default=None, max_length=1000, description="Title of the talk")
    filename: str | None = Field(
        default=None, max_length=500, description="File name of the document"
    )
    track: str | None = Field(default=None, max_length=500, description="Track of the conference")
    day: str | None = Field(default=None, max_length=100, description="Date or weekday")
    starttime: str | None = Field(default=None, max_length=100, description="Such as `10:30`")
    endtime: str | None = Field(default=None, max_length=100, description="Such as `11:20`")
    speakers: StringList = Field(
        default_factory=list, description="Names, as a list or separated by commas"
    )
    video_url: str | None = Field(
        default=None, max_length=8000, description="The video: a file, or a page of a media site"
    )
    subtitles_url: str | None = Field(
        default=None,
        max_length=8000,
        description="Subtitles of the video, used instead of transcribing it",
    )
    attachments_url: str | None = Field(default=None, max_length=8000, description="The slides")
    create_archive: bool = Field(default=True, description="Make a ZIP of all files")


SessionContext = JobContext[SessionParameters]


@handles("session", SessionParameters, timeout=TIMEOUT)
async def session(ctx: SessionContext) -> SessionResults:
    parameters = ctx.parameters
    sources = (parameters.url, parameters.video_url, parameters.attachments_url)
    if not any((*sources, parameters.subtitles_url)):
        raise InvalidParameters("url: send the page of the talk, its video or its slides")
    await ctx.progress("initializing", 0)
    template = await find_template(ctx, default=DEFAULT_TEMPLATE)
    assert template is not None
    talk = await _TalkReader(ctx).read()
    if talk.is_empty:
        raise _empty_talk(talk.missing)
    paths = session_paths(
        event=talk.facts["event"],
        language=talk.language,
        track=talk.facts["track"],
        session=talk.facts["session"],
        filename=parameters.filename,
    )
    await ctx.progress("writing", 80, "Writing the document")
    rendered, has_model = await _render(ctx, talk, paths, template)
    more = appendix(talk, has_model=has_model)
    markdown = f"{rendered.markdown.rstrip()}\n\n{more}\n" if more else rendered.markdown
    return await _write_results(ctx, talk, paths, rendered, markdown)


def _empty_talk(missing: Sequence[MissingPart]) -> JobFailed:
    """The error of the first part that failed."""
    if not missing:
        return UnsupportedFile("The page has no text, and there is neither a video nor slides")
    first = missing[0].error
    error = JobFailed(first.message, missing=[part.model_dump() for part in missing])
    error.code = first.code
    return error


class _TalkReader:
    """Reads all parts of a talk. What the client sent takes precedence over the page."""

    def __init__(self, ctx: SessionContext) -> None:
        self._ctx = ctx
        self._missing: list[MissingPart] = []

    async def read(self) -> Talk:
        page = await self._read_page()
        facts = self._facts(page)
        slides = await self._read_slides(facts["attachments_url"])
        transcript = await self._read_transcript(facts, with_frames=not slides)
        if transcript is not None and not slides:
            slides = _slides_from_frames(transcript)
        target = language_code(self._ctx.parameters.target_language or "")
        spoken = (
            transcript.language if transcript else language_code(facts["source_language"] or "")
        )
        return Talk(
            facts=facts,
            language=target or (spoken if spoken != "und" else None) or "en",
            page_text=page.text if page else "",
            links=[(link.title or link.url, link.url) for link in page.links] if page else (),
            transcript=transcript,
            slides=slides,
            missing=self._missing,
        )

    async def _read_page(self) -> TalkPage | None:
        url = self._ctx.parameters.url
        if url is None:
            return None
        await self._ctx.progress("reading_page", 3, "Reading the page of the talk")
        return await self._try("page", url, partial(_read_page, self._ctx, url))

    def _facts(self, page: TalkPage | None) -> dict[str, Any]:
        parameters = self._ctx.parameters
        video = best_video(page.videos) if page else None
        slides = best_attachment(page.attachments) if page else None
        subtitles = best_subtitles(page.subtitles) if page else None
        from_page = {
            "session": page.title if page else None,
            "speakers": list(page.speakers) if page else [],
            "event": page.event if page else None,
            "track": page.track if page else None,
            "day": page.day if page else None,
            "starttime": page.starttime if page else None,
            "endtime": page.endtime if page else None,
            "url": parameters.url,
            "video_url": video.url if video else None,
            "subtitles_url": subtitles.url if subtitles else None,
            "attachments_url": slides.url if slides else None,
            "source_language": page.language if page else None,
        }
        sent = {name: value for name in from_page if (value := getattr(parameters, name))}
        facts = {**from_page, **sent}
        return {**facts, "title": facts["session"]}

    async def _read_slides(self, url: str | None) -> list[TalkSlide]:
        if url is None:
            return []
        return await self._try("slides", url, partial(_read_slides, self._ctx, url)) or []

    async def _read_transcript(
        self, facts: Mapping[str, Any], *, with_frames: bool
    ) -> TalkTranscript | None:
        """From subtitles if there are any: a person wrote them."""
        language = language_code(facts["source_language"] or "")
        if url := facts["subtitles_url"]:
            read = partial(_read_subtitles, self._ctx, url, language)
            transcript = await self._try("subtitles", url, read)
            if transcript is not None:
                return transcript
        if url := facts["video_url"]:
            read = partial(_read_video, self._ctx, url, language, with_frames=with_frames)
            return await self._try("video", url, read)
        return None

    async def _try(self, part: str, url: str, read: Callable[[], Awaitable[T]]) -> T | None:
        """Read one part, with one retry. If it fails for good, the talk goes without it."""
        try:
            return await read()
        except JobFailed as error:
            if not (error.retryable or isinstance(error, ProcessDied)):
                await self._skip(part, url, error)
                return None
            await self._ctx.log(f"{part}: {error.message} Retrying.", "warning")
        try:
            return await read()
        except JobFailed as error:
            await self._skip(part, url, error)
            return None

    async def _skip(self, part: str, url: str, error: JobFailed) -> None:
        message = f"{part}: {error.message} ({error.code}) The job continues without it."
        await self._ctx.log(message, "warning")
        reason = PartError(code=error.code, message=error.message)
        self._missing.append(MissingPart(part=part, url=url, error=reason))


def _subjob(
    ctx: SessionContext, name: str, parameters: P, first_percent: int, last_percent: int
) -> JobContext[P]:
    """The context of a part that is a job of another type. Its files are in scratch."""
    subjob = replace(
        ctx,
        parameters=cast(Any, parameters),
        attempt_directory=str(ctx.scratch / name),
        reporter=ScaledReporter(ctx.reporter, first_percent, last_percent, name),
    )
    return cast(JobContext[P], subjob)


async def _read_page(ctx: SessionContext, url: str) -> TalkPage:
    file = await ctx.sources.download(url, ctx.scratch / "page")
    return await ctx.run(READ_PAGE, str(file.path), url, wall_time=PAGE_TIMEOUT)


async def _read_slides(ctx: SessionContext, url: str) -> list[TalkSlide]:
    """An image and the text of each page; without LibreOffice only the texts of an office file."""
    common: dict[str, Any] = {
        "url": url,
        "use_cache": ctx.parameters.use_cache,
        "force_refresh": ctx.parameters.force_refresh or ctx.parameters.force_overwrite,
    }
    parameters = PdfParameters(**common, extraction_method="preview_and_native")
    part = _subjob(ctx, "slides", parameters, 5, 30)
    try:
        await pdf.run(part)
    except EngineUnavailable as error:
        await ctx.log(f"slides: {error.message}; reading them without images", "warning")
        await office.run(_subjob(ctx, "slides", OfficeParameters(**common), 5, 30))
    return await asyncio.to_thread(_load_slides, part.directory)


def _load_slides(directory: Path) -> list[TalkSlide]:
    results = json.loads((directory / RESULTS_FILE).read_bytes())
    slides = []
    for content in results["metadata"]["text_contents"]:
        number = int(content["page"])
        image = directory / f"preview_{number:03d}.jpg"
        text = directory / f"page_{number:03d}.txt"
        slides.append(
            TalkSlide(
                number=number,
                image=image if image.exists() else None,
                text=text.read_text(encoding="utf-8") if text.exists() else "",
            )
        )
    return slides


async def _read_subtitles(ctx: SessionContext, url: str, language: str | None) -> TalkTranscript:
    part = _subjob(ctx, "subtitles", ctx.parameters, 30, 40)
    file = await part.sources.download(url, part.scratch / "subtitles")
    sentences = await part.run(LOAD, str(file.path), wall_time=LOAD_TIMEOUT)
    detected: str | None = await part.run(DETECT_LANGUAGE, sentences)
    spoken_in = language or language_code(detected or "") or "und"
    await asyncio.to_thread(_store_sentences, part.directory, sentences, spoken_in)
    spoken = StoredTranscript(directory=str(part.directory), chunk_count=1, language=spoken_in)
    await part.run(WRITE_TRANSCRIPT, Transcript(directory=str(part.directory), spoken=spoken))
    return await asyncio.to_thread(_load_transcript, part.directory, [])


def _store_sentences(directory: Path, sentences: Sequence[TimedText], language: str) -> None:
    transcription = Transcription(language=language, segments=tuple(sentences), confidence=1.0)
    append_log.append(str(directory), 0, encode_record(transcription))


async def _read_video(
    ctx: SessionContext, url: str, language: str | None, *, with_frames: bool
) -> TalkTranscript:
    parameters = VideoParameters(
        url=url,
        source_language=language,
        include_frames=with_frames,
        include_slide_text=with_frames,
        use_cache=ctx.parameters.use_cache,
        force_refresh=ctx.parameters.force_refresh or ctx.parameters.force_overwrite,
    )
    part = _subjob(ctx, "video", parameters, 30, 80)
    results = await video.run(part)
    assert isinstance(results, RecordingResults)
    return await asyncio.to_thread(_load_transcript, part.directory, results.frames)


def _load_transcript(directory: Path, frames: Sequence[Frame]) -> TalkTranscript:
    results = json.loads((directory / RESULTS_FILE).read_bytes())
    return TalkTranscript(
        directory=directory,
        language=results["transcription"]["source_language"],
        text=(directory / TEXT_FILE).read_text(encoding="utf-8"),
        markdown=results["markdown_content"] or "",
        frames=frames,
    )


def _slides_from_frames(transcript: TalkTranscript) -> list[TalkSlide]:
    return [
        TalkSlide(
            number=number,
            image=transcript.directory / frame.file,
            text=frame.text or "",
            time=frame.time,
        )
        for number, frame in enumerate(transcript.frames, start=1)
    ]


async def _render(
    ctx: SessionContext, talk: Talk, paths: SessionPaths, template: Template
) -> tuple[Rendered, bool]:
    """The document, and whether it contains what a model wrote."""
    context = {**template_context(talk, paths), **(ctx.parameters.context or {})}
    text = source_text(talk)
    if "chat" in ctx.llm.options.models or not template.fields:
        rendered = await apply_template(
            ctx, text, template, context=context, target_language=talk.language
        )
        return rendered, True
    filled = fill_without_model(template.fields, context)
    rendered = await asyncio.to_thread(render, template, context, filled, text)
    for warning in rendered.warnings:
        await ctx.log(warning, "warning")
    return rendered, False


async def _write_results(
    ctx: SessionContext, talk: Talk, paths: SessionPaths, rendered: Rendered, markdown: str
) -> SessionResults:
    await ctx.progress("postprocessing", 95)
    directory = ctx.directory
    assets = await asyncio.to_thread(write_files, directory, paths, talk, markdown)
    await asyncio.to_thread(publish, directory / ROOT, ctx.cache.data_directory / ROOT)
    more = long_results(talk, rendered.structured_data, markdown)
    await asyncio.to_thread((directory / RESULTS_FILE).write_bytes, more)
    with_archive = ctx.parameters.create_archive
    return SessionResults(
        markdown_file=str(paths.document),
        attachments_url=talk.facts["attachments_url"],
        assets=[str(name) for name in assets],
        asset_dir=str(paths.assets),
        target_dir=str(paths.document.parent),
        archive_filename=f"{paths.document.stem}.zip" if with_archive else None,
        context=ctx.parameters.context,
        missing=list(talk.missing),
        metadata={
            **talk.facts,
            "language": talk.language,
            "front_matter": rendered.front_matter,
            "slides": len(talk.slides),
        },
        llm_info=ctx.llm.info(),
        more_in=RESULTS_FILE,
    )
