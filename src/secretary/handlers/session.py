"""Job type `session`: turns a conference talk, from its web page, video and slides, into one
document."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast
from urllib.parse import quote

from pydantic import Field

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
from ..jobs.job_log import counted
from ..llm.templates import Rendered
from ..media.speech.engines import Transcription
from ..media.transcript import (
    SRT_FILE,
    TEXT_FILE,
    VTT_FILE,
    StoredTranscript,
    Transcript,
    encode_record,
    escaped_line,
    format_clock,
)
from ..storage import append_log
from ..web.talk import ROOT, VIDEO_KINDS, LinkKind, SessionPaths, TalkPage, best_url, session_paths
from .media_pipeline import TIMEOUT, WRITE_TRANSCRIPT, link_or_copy
from .office import OfficeParameters, office
from .parameters import (
    Frame,
    MissingPart,
    PartError,
    RecordingResults,
    SessionResults,
    SourceParameters,
    StringList,
    text_field,
)
from .pdf import PdfParameters, pdf
from .progress import ScaledReporter
from .text_generation import apply_template, find_template
from .transcription import DETECT_LANGUAGE, LOAD, LOAD_TIMEOUT
from .translation import TranslationParameters, check_translation, untranslated_warnings
from .video import VideoParameters, video

T = TypeVar("T")
P = TypeVar("P", bound=SourceParameters)

READ_PAGE: LazyCallable[TalkPage] = LazyCallable("web.page", "read_talk_page")
PAGE_TIMEOUT = timedelta(minutes=2)
DEFAULT_TEMPLATE = "Session"
#: Files of a transcript that are published with the document.
TRANSCRIPT_FILES = (TEXT_FILE, SRT_FILE, VTT_FILE)

#: Texts of the document that come from neither a model nor a template, in English and German.
LABELS: Mapping[str, tuple[str, str]] = {
    "about": ("About the talk", "Über den Vortrag"),
    "transcript": ("Transcript", "Mitschrift"),
    "slide": ("Slide", "Folie"),
    "text": ("Text", "Text"),
    "video": ("Video", "Video"),
    "files": ("Transcript: {}", "Mitschrift: {}"),
    "missing": ("Not available", "Nicht verfügbar"),
    "no_model": (
        "This document has no summary: no language model is set.",
        "Ohne Zusammenfassung: Es ist kein Sprachmodell eingestellt.",
    ),
    "missing page": ("The page", "Die Seite"),
    "missing video": ("The video", "Das Video"),
    "missing subtitles": ("The subtitles", "Die Untertitel"),
    "missing slides": ("The slides", "Die Folien"),
}


class SessionParameters(TranslationParameters):
    ignored_fields: ClassVar[frozenset[str]] = frozenset({
        "speakers_url", "speakers_image_url", "target", "video_transcript",
    })  # fmt: skip

    event: str | None = text_field(500, "Name of the conference")
    session: str | None = text_field(1000, "Title of the talk")
    filename: str | None = text_field(500, "File name of the document")
    track: str | None = text_field(500, "Track of the conference")
    day: str | None = text_field(100, "Date or weekday")
    starttime: str | None = text_field(100, "Such as `10:30`")
    endtime: str | None = text_field(100, "Such as `11:20`")
    speakers: StringList = Field(
        default_factory=list, description="Names, as a list or separated by commas"
    )
    video_url: str | None = text_field(8000, "The video: a file, or a page of a media site")
    subtitles_url: str | None = text_field(
        8000, "Subtitles of the video, used instead of transcribing it"
    )
    attachments_url: str | None = text_field(8000, "The slides")
    create_archive: bool = Field(default=True, description="Make a ZIP of all files")


SessionContext = JobContext[SessionParameters]


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
    page_text: str
    links: Sequence[tuple[str, str]]
    transcript: TalkTranscript | None
    slides: Sequence[TalkSlide]
    missing: Sequence[MissingPart]

    @property
    def spoken_in(self) -> str | None:
        """The language of the talk; None if it is unknown."""
        if self.transcript is not None:
            return self.transcript.language
        return language_code(self.facts["source_language"] or "")

    @property
    def labels(self) -> Mapping[str, str]:
        is_german = self.language == "de"
        return {name: german if is_german else text for name, (text, german) in LABELS.items()}


@handles("session", SessionParameters, timeout=TIMEOUT)
async def session(ctx: SessionContext) -> SessionResults:
    parameters = ctx.parameters
    sources = (parameters.url, parameters.video_url, parameters.attachments_url)
    if not any((*sources, parameters.subtitles_url)):
        raise InvalidParameters("url: send the page of the talk, its video or its slides")
    await ctx.progress("initializing", 0)
    template = await find_template(ctx, default=DEFAULT_TEMPLATE)
    assert template is not None
    if parameters.strict:
        check_translation(ctx, parameters.source_language)
    talk = await _read_talk(ctx)
    if not (talk.page_text.strip() or talk.transcript or talk.slides):
        if not talk.missing:
            raise UnsupportedFile("The page has no text, and there is neither a video nor slides")
        first = talk.missing[0].error  # of the first part that failed
        error = JobFailed(first.message, missing=[part.model_dump() for part in talk.missing])
        error.code = first.code
        raise error
    transcript = (
        f"a transcript in {talk.transcript.language}" if talk.transcript else "no transcript"
    )
    await ctx.log(
        f"Talk: page of {len(talk.page_text):,} characters, {transcript},"
        f" {counted(len(talk.slides), 'slide')}; {len(talk.missing)} parts are missing"
    )
    paths = session_paths(
        event=talk.facts["event"],
        language=talk.language,
        track=talk.facts["track"],
        session=talk.facts["session"],
        filename=parameters.filename,
    )
    warnings = await untranslated_warnings(ctx, talk.spoken_in) if talk.spoken_in else []
    await ctx.progress("writing", 80, "Writing the document")
    has_model = "chat" in ctx.llm.options.models or not template.fields
    rendered = await apply_template(
        ctx,
        source_text(talk),
        template,
        context={**template_context(talk, paths), **(parameters.context or {})},
        target_language=talk.language,
        use_model=has_model,
    )
    more = appendix(talk, has_model=has_model)
    markdown = f"{rendered.markdown.rstrip()}\n\n{more}\n" if more else rendered.markdown
    results = await _write_results(ctx, talk, paths, rendered, markdown)
    return results.model_copy(update={"warnings": warnings})


# Read the parts ---------------------------------------------------------------------------------


async def _read_talk(ctx: SessionContext) -> Talk:
    """Read all parts of a talk. What the client sent takes precedence over the page."""
    missing: list[MissingPart] = []
    if ctx.parameters.url is not None:
        await ctx.progress("reading_page", 3, "Reading the page of the talk")
    page = await _attempt(ctx, missing, "page", ctx.parameters.url, _read_page)
    facts = _facts(ctx.parameters, page)
    slides = await _attempt(ctx, missing, "slides", facts["attachments_url"], _read_slides) or []
    language = language_code(facts["source_language"] or "")
    # A person wrote the subtitles.
    transcript = await _attempt(
        ctx, missing, "subtitles", facts["subtitles_url"], _read_subtitles, language
    )
    if transcript is None:
        with_frames = not slides
        transcript = await _attempt(
            ctx, missing, "video", facts["video_url"], _read_video, language, with_frames
        )
    if transcript is not None and not slides:
        slides = [
            TalkSlide(
                number=number,
                image=transcript.directory / frame.file,
                text=frame.text or "",
                time=frame.time,
            )
            for number, frame in enumerate(transcript.frames, start=1)
        ]
    target = language_code(ctx.parameters.target_language or "")
    spoken = transcript.language if transcript else language
    others = [link for link in page.links if link.kind is LinkKind.OTHER] if page else []
    return Talk(
        facts=facts,
        language=target or (spoken if spoken != "und" else None) or "en",
        page_text=page.text if page else "",
        links=[(link.title or link.url, link.url) for link in others],
        transcript=transcript,
        slides=slides,
        missing=missing,
    )


async def _attempt(
    ctx: SessionContext,
    missing: list[MissingPart],
    part: str,
    url: str | None,
    read: Callable[..., Awaitable[T]],
    *args: Any,
) -> T | None:
    """Read one part, with one retry. If it fails for good, the talk goes without it."""
    if url is None:
        return None
    for is_retry in (False, True):
        try:
            return await read(ctx, url, *args)
        except JobFailed as error:
            if not is_retry and (error.retryable or isinstance(error, ProcessDied)):
                await ctx.log(f"{part}: {error.message} Retrying.", "warning")
                continue
            message = f"{part}: {error.message} ({error.code}) The job continues without it."
            await ctx.log(message, "warning")
            reason = PartError(code=error.code, message=error.message)
            missing.append(MissingPart(part=part, url=url, error=reason))
            break
    return None


def _facts(parameters: SessionParameters, page: TalkPage | None) -> dict[str, Any]:
    links = page.links if page else ()
    from_page = {
        "session": page.title if page else None,
        "speakers": list(page.speakers) if page else [],
        **{
            name: getattr(page, name, None)
            for name in ("event", "track", "day", "starttime", "endtime")
        },
        "url": parameters.url,
        "video_url": best_url(links, *VIDEO_KINDS),
        "subtitles_url": best_url(links, LinkKind.SUBTITLES),
        "attachments_url": best_url(links, LinkKind.ATTACHMENT),
        "source_language": page.language if page else None,
    }
    sent = {name: value for name in from_page if (value := getattr(parameters, name))}
    facts = {**from_page, **sent}
    return {**facts, "title": facts["session"]}


async def _read_page(ctx: SessionContext, url: str) -> TalkPage:
    file = await ctx.download(url, "page")
    return await ctx.run(READ_PAGE, str(file.path), url, wall_time=PAGE_TIMEOUT)


def _subjob(
    ctx: SessionContext, name: str, model: type[P], percents: tuple[int, int], **parameters: Any
) -> JobContext[P]:
    """The context of a part that is a job of another type. Its files are in scratch."""
    use_cache = ctx.parameters.use_cache
    force_refresh = ctx.parameters.force_refresh or ctx.parameters.force_overwrite
    options = model(use_cache=use_cache, force_refresh=force_refresh, **parameters)
    subjob = replace(
        ctx,
        parameters=cast(Any, options),
        attempt_directory=str(ctx.scratch / name),
        reporter=ScaledReporter(ctx.reporter, *percents, name),
    )
    return cast(JobContext[P], subjob)


async def _read_slides(ctx: SessionContext, url: str) -> list[TalkSlide]:
    """The pages of the slides as images with their texts; without LibreOffice only the texts of an
    office file."""
    method = {"extraction_method": "preview_and_native"}
    part = _subjob(ctx, "slides", PdfParameters, (5, 30), url=url, **method)
    try:
        await pdf.run(part)
    except EngineUnavailable as error:
        await ctx.log(f"slides: {error.message}; reading them without images", "warning")
        await office.run(_subjob(ctx, "slides", OfficeParameters, (5, 30), url=url))

    def load(directory: Path) -> list[TalkSlide]:
        results = json.loads((directory / RESULTS_FILE).read_bytes())
        slides = []
        for content in results["metadata"]["text_contents"]:
            number = int(content["page"])
            image = directory / f"preview_{number:03d}.jpg"
            file = directory / f"page_{number:03d}.txt"
            text = file.read_text(encoding="utf-8") if file.exists() else ""
            image_or_none = image if image.exists() else None
            slides.append(TalkSlide(number=number, image=image_or_none, text=text))
        return slides

    return await asyncio.to_thread(load, part.directory)


async def _read_subtitles(ctx: SessionContext, url: str, language: str | None) -> TalkTranscript:
    part = _subjob(ctx, "subtitles", SourceParameters, (30, 40))
    directory = str(part.directory)
    file = await part.download(url, "subtitles")
    sentences = await part.run(LOAD, str(file.path), wall_time=LOAD_TIMEOUT)
    detected: str | None = await part.run(DETECT_LANGUAGE, sentences)
    spoken_in = language or language_code(detected or "") or "und"
    segments = Transcription(language=spoken_in, segments=tuple(sentences), confidence=1.0)
    record = await asyncio.to_thread(encode_record, segments)
    await asyncio.to_thread(append_log.append, directory, 0, record)
    spoken = StoredTranscript(directory=directory, chunk_count=1, language=spoken_in)
    await part.run(WRITE_TRANSCRIPT, Transcript(directory=directory, spoken=spoken))
    return await asyncio.to_thread(_load_transcript, part.directory, [])


async def _read_video(
    ctx: SessionContext, url: str, language: str | None, with_frames: bool
) -> TalkTranscript:
    part = _subjob(
        ctx,
        "video",
        VideoParameters,
        (30, 80),
        url=url,
        source_language=language,
        include_frames=with_frames,
        include_slide_text=with_frames,
    )
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


# Write the document -----------------------------------------------------------------------------


async def _write_results(
    ctx: SessionContext, talk: Talk, paths: SessionPaths, rendered: Rendered, markdown: str
) -> SessionResults:
    await ctx.progress("postprocessing", 95)
    directory = ctx.directory
    assets = await asyncio.to_thread(write_files, directory, paths, talk, markdown)
    await ctx.log(f"Output: {len(markdown):,} characters, {counted(len(assets), 'file')} beside it")
    await asyncio.to_thread(publish, directory / ROOT, ctx.cache.data_directory / ROOT)
    more = long_results(talk, rendered.structured_data, markdown)
    await asyncio.to_thread((directory / RESULTS_FILE).write_bytes, more)
    with_archive = ctx.parameters.create_archive
    return SessionResults(
        markdown_file=str(paths.document),
        attachments_url=talk.facts["attachments_url"],
        assets=assets,
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


def source_text(talk: Talk) -> str:
    """All texts of the talk, for a model."""
    slides = (
        f"## Slide {slide.number}\n\n{slide.text.strip()}"
        for slide in talk.slides
        if slide.text.strip()
    )
    texts = {
        "The page of the talk": talk.page_text.strip(),
        "Transcript of the video": talk.transcript.text.strip() if talk.transcript else "",
        "Texts of the slides": "\n\n".join(slides),
    }
    return "\n\n".join(f"# {heading}\n\n{text}" for heading, text in texts.items() if text)


def template_context(talk: Talk, paths: SessionPaths) -> dict[str, Any]:
    """Values for the template. What the talk lacks is empty, not missing."""
    labels, directory = talk.labels, quote(str(paths.assets_from_document))
    video = []
    if url := talk.facts.get("video_url"):
        video.append(f"[{labels['video']}]({url})")
    if talk.transcript is not None:
        files = ", ".join(f"[{name}]({directory}/{name})" for name in TRANSCRIPT_FILES)
        video.append(labels["files"].format(files))
    table = [f"| {labels['slide']} | {labels['text']} |", "|---|---|"] if talk.slides else []
    for slide in talk.slides:
        name = f"{labels['slide']} {slide.number}"
        if slide.time is not None:
            name += f" ({format_clock(slide.time)})"
        image = f"![{name}]({directory}/{slide.image.name})" if slide.image else name
        text = "<br>".join(_one_line(line) for line in slide.text.splitlines() if line.strip())
        table.append(f"| {image} | {text} |")
    return {
        **{name: value if value is not None else "" for name, value in talk.facts.items()},
        "target_language": talk.language,
        "video": "\n\n".join(video),
        "slides": "\n".join(table),
        "links": "\n".join(f"- [{_one_line(title)}]({url})" for title, url in talk.links),
    }


def appendix(talk: Talk, *, has_model: bool) -> str:
    """What is added below the template: all texts if there is no model, and the missing parts."""
    blocks = []
    labels = talk.labels
    if not has_model:
        blocks.append(f"> {labels['no_model']}")
        if talk.page_text.strip():
            blocks.append(f"## {labels['about']}\n\n{_lower_headings(talk.page_text)}")
        if talk.transcript is not None:
            text = _lower_headings(talk.transcript.markdown)
            blocks.append(f"## {labels['transcript']}\n\n{text}")
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


def _one_line(text: str) -> str:
    """Escaped for Markdown, also inside a table."""
    return escaped_line(text).replace("|", "\\|")


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
        if text is not None and len(text) <= room:
            room -= len(text)
            results[name] = text
    return encode_json(results)


def write_files(directory: Path, paths: SessionPaths, talk: Talk, markdown: str) -> list[str]:
    """Write the directory tree of the talk, and return the names of its assets."""
    document, assets = directory / paths.document, directory / paths.assets
    document.parent.mkdir(parents=True, exist_ok=True)
    document.write_text(markdown, encoding="utf-8", errors="replace")
    files = [slide.image for slide in talk.slides if slide.image is not None]
    if talk.transcript:
        files += [talk.transcript.directory / name for name in TRANSCRIPT_FILES]
    for path in files:
        assets.mkdir(parents=True, exist_ok=True)
        link_or_copy(path, assets / path.name)
    return [f"{paths.assets}/{path.name}" for path in files]


def publish(directory: Path, root: Path) -> None:
    """Copy the tree to `root`, which has those of all talks, replacing files of the same name."""
    for path in directory.rglob("*"):
        if path.is_file():
            target = root / path.relative_to(directory)
            target.parent.mkdir(parents=True, exist_ok=True)
            # A unique name: translations of a talk share files and may be written concurrently.
            with atomic_write(target) as temporary:
                link_or_copy(path, temporary)
