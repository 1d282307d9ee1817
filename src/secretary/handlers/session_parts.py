"""The parts of a talk: its page, what is said in it, its slides."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from ..core.callables import LazyCallable
from ..core.errors import EngineUnavailable
from ..core.languages import language_code
from ..documents.assembly import RESULTS_FILE
from ..jobs.handler import JobContext, results_as_json
from ..media.speech.engines import Transcription, Word
from ..media.transcript import SRT_FILE, TEXT_FILE, VTT_FILE, Spoken, Transcript, record_of
from ..storage import append_log
from ..web.talk import TalkPage
from .existing_subtitles import LOAD, LOAD_TIMEOUT, TELL_LANGUAGE
from .media_pipeline import PUT_TOGETHER
from .office import OfficeParameters, office
from .pdf import PdfParameters, pdf
from .subjobs import part_of
from .video import VideoParameters, video

READ_PAGE: LazyCallable[TalkPage] = LazyCallable("web.page", "read_talk_page")
PAGE_TIMEOUT = timedelta(minutes=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcribed:
    """What is said; `directory` has it as files."""

    directory: Path
    language: str
    text: str
    markdown: str
    #: Pictures from the video, with their times.
    frames: Sequence[dict[str, Any]] = ()

    FILES = (TEXT_FILE, SRT_FILE, VTT_FILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slide:
    """A page of the slides, or a picture from the video."""

    number: int
    picture: Path | None
    text: str
    time: float | None = None


async def read_page(ctx: JobContext[Any], url: str) -> TalkPage:
    found = await ctx.sources.download(url, ctx.scratch / "page")
    return await ctx.run(READ_PAGE, str(found.path), url, wall_time=PAGE_TIMEOUT)


async def transcript_of_subtitles(
    ctx: JobContext[Any], url: str, language: str | None
) -> Transcribed:
    """Somebody has written down what is said: nobody need listen."""
    found = await ctx.sources.download(url, ctx.scratch / "subtitles")
    said = await ctx.run(LOAD, str(found.path), wall_time=LOAD_TIMEOUT)
    told: str | None = await ctx.run(TELL_LANGUAGE, said)
    spoken_in = language or language_code(told or "") or "und"
    await asyncio.to_thread(_keep, ctx.directory, said, spoken_in)
    spoken = Spoken(directory=str(ctx.directory), pieces=1, language=spoken_in)
    await ctx.run(PUT_TOGETHER, Transcript(shown=str(ctx.directory), spoken=spoken))
    return await asyncio.to_thread(_transcribed, ctx.directory, ())


def _keep(directory: Path, said: Sequence[Word], language: str) -> None:
    heard = Transcription(language=language, said=tuple(said), confidence=1.0)
    append_log.append(str(directory), 0, record_of(heard))


async def transcript_of_video(ctx: JobContext[Any]) -> Transcribed:
    results = results_as_json(await video.run(ctx)) or {}
    return await asyncio.to_thread(_transcribed, ctx.directory, results["frames"])


def _transcribed(directory: Path, frames: Sequence[dict[str, Any]]) -> Transcribed:
    told = json.loads((directory / RESULTS_FILE).read_bytes())
    return Transcribed(
        directory=directory,
        language=told["transcription"]["source_language"],
        text=(directory / TEXT_FILE).read_text(encoding="utf-8"),
        markdown=told["markdown_content"] or "",
        frames=frames,
    )


def video_part(
    ctx: JobContext[Any], url: str, language: str | None, *, with_frames: bool
) -> JobContext[Any]:
    wish = ctx.parameters
    parameters = VideoParameters(
        url=url,
        source_language=language,
        include_frames=with_frames,
        include_slide_text=with_frames,
        use_cache=wish.use_cache,
        force_refresh=wish.force_refresh or wish.force_overwrite,
    )
    return part_of(ctx, "video", parameters, first=30, last=80)


async def slides_of(ctx: JobContext[Any], url: str) -> list[Slide]:
    """Each page as a picture with its text; without LibreOffice the texts of an office file."""
    wish = ctx.parameters
    common = {
        "url": url,
        "use_cache": wish.use_cache,
        "force_refresh": wish.force_refresh or wish.force_overwrite,
    }
    parameters = PdfParameters(**common, extraction_method="preview_and_native")
    part = part_of(ctx, "slides", parameters, first=5, last=30)
    try:
        await pdf.run(part)
    except EngineUnavailable as error:
        await ctx.log(f"slides: {error.message}; they are read without pictures", "warning")
        part = part_of(ctx, "slides", OfficeParameters(**common), first=5, last=30)
        await office.run(part)
    return await asyncio.to_thread(_slides, part.directory)


def _slides(directory: Path) -> list[Slide]:
    told = json.loads((directory / RESULTS_FILE).read_bytes())
    slides = []
    for content in told["metadata"]["text_contents"]:
        number = int(content["page"])
        picture = directory / f"preview_{number:03d}.jpg"
        text = directory / f"page_{number:03d}.txt"
        slides.append(
            Slide(
                number=number,
                picture=picture if picture.exists() else None,
                text=text.read_text(encoding="utf-8") if text.exists() else "",
            )
        )
    return slides


def slides_in_video(words: Transcribed) -> list[Slide]:
    return [
        Slide(
            number=number,
            picture=words.directory / str(frame["file"]),
            text=frame.get("text") or "",
            time=frame["time"],
        )
        for number, frame in enumerate(words.frames, start=1)
    ]
