"""Job type `session`: turns a conference talk, from its web page, video and slides, into one
document."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import Field

from ..core.callables import LazyCallable
from ..core.errors import (
    EngineUnavailable,
    InvalidParameters,
    JobFailed,
    ProcessDied,
    UnsupportedFile,
)
from ..core.json_codec import clean_text
from ..core.languages import language_code
from ..documents.assembly import RESULTS_FILE
from ..jobs.handler import JobContext, handles
from ..jobs.job_log import counted
from ..llm.templates import Rendered, Template, parse
from ..llm.templates.template import FieldType
from ..media.slides import SlideImage
from ..media.speech.engines import TimedText, Transcription
from ..media.transcript import (
    SRT_FILE,
    TEXT_FILE,
    VTT_FILE,
    StoredTranscript,
    Transcript,
    encode_record,
)
from ..storage import append_log
from ..web.talk import (
    ROOT,
    VIDEO_KINDS,
    LinkKind,
    SessionPaths,
    TalkPage,
    best_url,
    published_root,
    session_paths,
)
from .document_pipeline import PageOptions, check_source
from .media_pipeline import TIMEOUT, WRITE_TRANSCRIPT
from .office import read_office
from .parameters import (
    MAX_TEXT,
    Frame,
    MissingPart,
    PartError,
    RecordingResults,
    SessionResults,
    SourceParameters,
    StringList,
    text_field,
)
from .pdf import CONVERTIBLE, PdfParameters, read_pdf
from .progress import ScaledReporter
from .session_document import (
    Talk,
    TalkSlide,
    TalkTranscript,
    appendix,
    long_results,
    publish,
    slide_infos,
    source_text,
    template_context,
    write_files,
    write_page_texts,
)
from .text_generation import apply_template, find_template
from .transcription import DETECT_LANGUAGE, LOAD, LOAD_TIMEOUT
from .translation import (
    TranslationParameters,
    check_translation,
    detect_text_language,
    untranslated_warnings,
)
from .video import VideoParameters, video

T = TypeVar("T")
P = TypeVar("P", bound=SourceParameters)

READ_PAGE: LazyCallable[TalkPage] = LazyCallable("web.page", "read_talk_page", returns=TalkPage)
ALIGN: LazyCallable[list[int | None]] = LazyCallable(
    "media.slides", "align_slides", returns=list[int | None]
)
PAGE_TIMEOUT = timedelta(minutes=2)
ALIGN_TIMEOUT = timedelta(minutes=10)
DEFAULT_TEMPLATE = "Session"
#: Files of a transcript that are published with the document.
TRANSCRIPT_FILES = (TEXT_FILE, SRT_FILE, VTT_FILE)


class SessionParameters(TranslationParameters):
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
    speakers_url: StringList = Field(
        default_factory=list, description="Addresses of the speakers' pages"
    )
    speakers_image_url: StringList = Field(
        default_factory=list, description="Addresses of the speakers' pictures"
    )
    video_url: str | None = text_field(8000, "The video: a file, or a page of a media site")
    video_transcript: str | None = text_field(
        MAX_TEXT, "Transcript of the video, used instead of the video"
    )
    subtitles_url: str | None = text_field(
        8000, "Subtitles of the video, used instead of transcribing it"
    )
    attachments_url: str | None = text_field(8000, "The slides")
    target: str | None = text_field(500, "Ignored; some clients send it")
    create_archive: bool = Field(default=True, description="Make a ZIP of all files")


SessionContext = JobContext[SessionParameters]


@handles("session", SessionParameters, timeout=TIMEOUT)
async def session(ctx: SessionContext) -> SessionResults:
    parameters = ctx.parameters
    sources = (parameters.url, parameters.video_url, parameters.attachments_url)
    if not any((*sources, parameters.subtitles_url, parameters.video_transcript)):
        raise InvalidParameters("url: send the page of the talk, its video or its slides")
    await ctx.progress("initializing", 0)
    template = await find_template(ctx, default=DEFAULT_TEMPLATE)
    assert template is not None
    if parameters.strict:
        check_translation(ctx, parameters.source_language)
    template = prepared_template(template)
    has_model = "chat" in ctx.llm.options.models or not template.fields
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
        f" {counted(len(talk.slides), 'slide')}; {counted(len(talk.missing), 'part')} missing"
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
    if not has_model:
        reason = PartError(code=EngineUnavailable.code, message="No language model is configured")
        talk = replace(
            talk, missing=[*talk.missing, MissingPart(part="summary", url=None, error=reason)]
        )
    context = template_context(talk, paths)
    if "video_transcript" not in template.context_keys:
        del context["video_transcript"]  # the model sees it in the source

    def with_slides(filled: dict[str, Any]) -> dict[str, Any]:
        if not _describes_slides(template):
            return filled
        infos = slide_infos(talk, paths, filled["slides"])
        return {**filled, "slides": [info.model_dump(exclude={"time"}) for info in infos]}

    rendered = await apply_template(
        ctx,
        source_text(talk),
        template,
        context={"cache_key": ctx.job.job_id, **context, **(parameters.context or {})},
        target_language=talk.language,
        use_model=has_model,
        complete=with_slides,
    )
    more = appendix(talk, paths, has_model=has_model)
    markdown = f"{rendered.markdown.rstrip()}\n\n{more}\n" if more else rendered.markdown
    markdown = clean_text(markdown)
    results = await _write_results(ctx, talk, paths, rendered, markdown)
    return results.model_copy(update={"warnings": warnings})


#: How older templates write the places of the slides and the video.
SINGLE_BRACES = re.compile(r"(?<!\{)\{(slides|videoplayer)\}(?!\})")


def prepared_template(template: Template) -> Template:
    """The template with slots for `{slides}` and `{videoplayer}`, and with the address of the image
    of each slide that it asks for."""
    head, marker, prompt = template.source.partition("--- systemprompt")
    if SINGLE_BRACES.search(head):
        source = SINGLE_BRACES.sub(r"{{\1}}", head) + marker + prompt
        template = parse(source, template.name, language=template.language)
    if not _describes_slides(template):
        return template
    fields = tuple(
        replace(field, field_type=_with_image(field.field_type))
        if field.name == "slides"
        else field
        for field in template.fields
    )
    return replace(template, fields=fields)


def _describes_slides(template: Template) -> bool:
    """Whether a model describes each slide."""
    types = [field.field_type for field in template.fields if field.name == "slides"]
    return any(kind.is_list and kind.base == "object" for kind in types)


def _with_image(kind: FieldType) -> FieldType:
    names = [name for name, _ in kind.properties]
    if not names or "image_url" in names:
        return kind
    image = ("image_url", FieldType(optional=True))
    return replace(kind, properties=(*kind.properties, image))


# Read the parts ---------------------------------------------------------------------------------


async def _read_talk(ctx: SessionContext) -> Talk:
    """Read all parts of a talk. What the client sent takes precedence over the page."""
    missing: list[MissingPart] = []
    if ctx.parameters.url is not None:
        await ctx.progress("reading_page", 3, "Reading the page of the talk")
    page = await _attempt(ctx, missing, "page", ctx.parameters.url, _read_page)
    facts = _facts(ctx.parameters, page)
    deck = await _attempt(
        ctx, missing, "slides", facts["attachments_url"], partial(_read_slides, missing=missing)
    )
    slides = deck or []
    language = language_code(facts["source_language"] or "")
    transcript = await _given_transcript(ctx, language)
    if transcript is None:  # a person wrote the subtitles
        transcript = await _attempt(
            ctx, missing, "subtitles", facts["subtitles_url"], _read_subtitles, language
        )
    if transcript is None:
        transcript = await _attempt(
            ctx, missing, "video", facts["video_url"], _read_video, language
        )
    if transcript is not None and transcript.frames:
        slides = await _aligned(ctx, slides, transcript, missing)
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
        "speakers_url": [],
        "speakers_image_url": [],
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


async def _read_slides(
    ctx: SessionContext, url: str, *, missing: list[MissingPart]
) -> list[TalkSlide]:
    """The pages of the slides as images with their texts, by OCR where they have no text layer;
    without LibreOffice only the texts of an office file."""
    part = _subjob(ctx, "slides", PdfParameters, (5, 25))
    file = await ctx.sources.download(url, part.scratch / "slides")
    document = await check_source(file, CONVERTIBLE | {"pdf"})
    try:
        await read_pdf(part, document, PageOptions(method="preview_and_native"))
    except EngineUnavailable as error:
        await ctx.log(f"slides: {error.message}; reading them without images", "warning")
        await read_office(part, document)
    slides = await asyncio.to_thread(_load_slides, part.directory)
    if all(slide.text.strip() for slide in slides):
        return slides
    by_ocr = _subjob(ctx, "slides_ocr", PdfParameters, (25, 30))
    try:
        await read_pdf(by_ocr, document, PageOptions(method="auto"))
    except JobFailed as error:
        await ctx.log(f"slides: {error.message}; some have no text", "warning")
        reason = PartError(code=error.code, message=error.message)
        missing.append(MissingPart(part="slide_texts", url=url, error=reason))
        return slides
    texts = {
        slide.number: slide.text
        for slide in await asyncio.to_thread(_load_slides, by_ocr.directory)
    }
    return [
        slide if slide.text.strip() else replace(slide, text=texts.get(slide.number, ""))
        for slide in slides
    ]


def _load_slides(directory: Path) -> list[TalkSlide]:
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


async def _given_transcript(ctx: SessionContext, language: str | None) -> TalkTranscript | None:
    text = clean_text(ctx.parameters.video_transcript or "").strip()
    if not text:
        return None
    directory = ctx.scratch / "given"

    def write() -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / TEXT_FILE).write_text(f"{text}\n", encoding="utf-8", errors="replace")

    await asyncio.to_thread(write)
    detected = language or await asyncio.to_thread(detect_text_language, text)
    return TalkTranscript(
        directory=directory,
        language=detected or "und",
        text=text,
        markdown=text,
        files=(TEXT_FILE,),
    )


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


async def _read_video(ctx: SessionContext, url: str, language: str | None) -> TalkTranscript:
    part = _subjob(
        ctx,
        "video",
        VideoParameters,
        (30, 80),
        url=url,
        source_language=language,
        include_frames=True,
        include_slide_text=True,
    )
    results = await video.run(part)
    assert isinstance(results, RecordingResults)
    return await asyncio.to_thread(_load_transcript, part.directory, results.frames)


def _load_transcript(directory: Path, frames: Sequence[Frame]) -> TalkTranscript:
    results = json.loads((directory / RESULTS_FILE).read_bytes())
    segments = results["transcription"]["segments"]
    return TalkTranscript(
        directory=directory,
        language=results["transcription"]["source_language"],
        text=(directory / TEXT_FILE).read_text(encoding="utf-8"),
        markdown=results["markdown_content"] or "",
        files=TRANSCRIPT_FILES,
        segments=[TimedText(one["start"], one["end"], one["text"]) for one in segments],
        frames=frames,
    )


async def _aligned(
    ctx: SessionContext,
    slides: Sequence[TalkSlide],
    transcript: TalkTranscript,
    missing: list[MissingPart],
) -> list[TalkSlide]:
    """The slides with the times at which the video shows them. Without slides, the frames of the
    video take their place."""
    frames = transcript.frames
    paths = [transcript.directory / frame.file for frame in frames]
    if not slides:
        return [
            TalkSlide(
                number=number, image=path, text=frame.text or "", time=frame.time, frames=[frame]
            )
            for number, (frame, path) in enumerate(zip(frames, paths, strict=True), start=1)
        ]
    pages = [SlideImage(slide.text, str(slide.image) if slide.image else None) for slide in slides]
    shown = [
        SlideImage(frame.text or "", str(path)) for frame, path in zip(frames, paths, strict=True)
    ]
    matches = await ctx.run(ALIGN, pages, shown, wall_time=ALIGN_TIMEOUT)
    aligned = []
    for number, slide in enumerate(slides):
        own = [frame for frame, match in zip(frames, matches, strict=True) if match == number]
        aligned.append(replace(slide, frames=own, time=own[0].time if own else None))
    found = sum(1 for slide in aligned if slide.frames)
    await ctx.log(f"slides: {found} of {len(slides)} were found in the video")
    if not found:
        reason = PartError(code="NOT_FOUND", message="The video shows none of the slides")
        missing.append(MissingPart(part="slide_times", url=None, error=reason))
    return aligned


# Write the document -----------------------------------------------------------------------------


async def _write_results(
    ctx: SessionContext, talk: Talk, paths: SessionPaths, rendered: Rendered, markdown: str
) -> SessionResults:
    await ctx.progress("postprocessing", 95)
    directory = ctx.directory
    assets = await asyncio.to_thread(write_files, directory, paths, talk, markdown)
    await ctx.log(f"Output: {len(markdown):,} characters, {counted(len(assets), 'file')} beside it")
    page_texts = await asyncio.to_thread(write_page_texts, directory, talk)
    published = published_root(ctx.job.user_id)
    await asyncio.to_thread(publish, directory / ROOT, ctx.cache.data_directory / published)
    more = long_results(talk, rendered.structured_data, markdown)
    await asyncio.to_thread((directory / RESULTS_FILE).write_bytes, more)
    with_archive = ctx.parameters.create_archive
    described = rendered.structured_data.get("slides")
    return SessionResults(
        markdown_file=str(paths.document),
        attachments_url=talk.facts["attachments_url"],
        assets=assets,
        asset_dir=str(published / paths.assets.relative_to(ROOT)),
        target_dir=str(published / paths.document.parent.relative_to(ROOT)),
        archive_filename=f"{paths.document.stem}.zip" if with_archive else None,
        archive_root=ROOT,
        page_texts=page_texts,
        slides=slide_infos(talk, paths, described if isinstance(described, list) else ()),
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
