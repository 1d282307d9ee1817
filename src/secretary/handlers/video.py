"""Job type `video`: transcribes a video and extracts its slides."""

# Slides are found window by window. Each window, frame and text is cached as soon as it is done, so
# that an attempt that was interrupted continues where it stopped.

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import count

from pydantic import Field

from ..core.callables import LazyCallable, map_limited
from ..core.errors import UnsupportedFile
from ..core.files import AUDIO_TYPES, VIDEO_TYPES
from ..documents.ocr.engines import open_engine
from ..documents.pages import PageStore
from ..jobs.handler import JobContext, handles
from ..jobs.job_log import counted
from ..media.probe import Recording, VideoTrack
from ..media.slides import WINDOW_S, ScannedWindow, Slide, SlideCandidate, windows
from .document_pipeline import Document
from .media_pipeline import (
    TIMEOUT,
    ExtractedSlides,
    RecordingParameters,
    assemble_results,
    get_transcript,
    resolve_media,
)
from .parameters import Frame, RecordCache, RecordingResults, ocr_language_field
from .progress import MediaProgress
from .transcription import run_with_ffmpeg

SCAN: LazyCallable[ScannedWindow] = LazyCallable(
    "media.slide_detection", "scan_window", returns=ScannedWindow
)
SELECT: LazyCallable[list[Slide]] = LazyCallable(
    "media.slide_detection", "select_slides", returns=list[Slide]
)
DRAW: LazyCallable[None] = LazyCallable("media.slides", "save_slide", returns=None)
READ: LazyCallable[str] = LazyCallable("media.slides", "read_slide", returns=str)

#: A window of five minutes takes seconds; this is for a very busy machine.
WINDOW_TIMEOUT = timedelta(minutes=20)
DRAW_TIMEOUT = timedelta(minutes=2)
#: Where transcription ends and slide extraction begins, and where that ends.
TRANSCRIBED_PERCENT, EXTRACTED_PERCENT = 65, 90


class VideoParameters(RecordingParameters):
    include_transcript: bool = Field(default=True, description="Transcribe the speech")
    include_frames: bool = Field(default=True, description="Extract the slides as images")
    include_slide_text: bool = Field(default=False, description="Read the slides by OCR")
    ocr_language: str | None = ocr_language_field()

    @property
    def needs_frames(self) -> bool:
        return self.include_frames or self.include_slide_text or not self.include_transcript


VideoContext = JobContext[VideoParameters]


@handles("video", VideoParameters, timeout=TIMEOUT)
async def video(ctx: VideoContext) -> RecordingResults:
    parameters = ctx.parameters
    if parameters.needs_frames:
        media = await resolve_media(ctx, VIDEO_TYPES, "video")
    else:
        media = await resolve_media(ctx, VIDEO_TYPES | AUDIO_TYPES, "audio")
    transcript = slides = None
    if parameters.include_transcript:
        transcript = await get_transcript(ctx, media, last_percent=TRANSCRIBED_PERCENT)
    if parameters.needs_frames and media.recording.video_tracks:
        slides = await _SlideExtraction(ctx, media.document, media.recording).run()
    elif parameters.needs_frames:
        if not parameters.include_transcript:
            raise UnsupportedFile("The file has no video track")
        await ctx.log("The file has no video track, only sound")
    return await assemble_results(ctx, media, transcript, slides)


@dataclass(frozen=True, slots=True)
class _SlideExtraction:
    """Extracts the slides of one video."""

    ctx: VideoContext
    document: Document
    recording: Recording

    @property
    def track(self) -> VideoTrack:
        return self.recording.video_tracks[0]

    async def run(self) -> ExtractedSlides:
        ctx = self.ctx
        options = {"track": self.track.stream} if len(self.recording.video_tracks) > 1 else {}
        cache = await RecordCache.open(
            ctx, "slides", self.document.sha256, "frames", options=options
        )
        cache.entry.save_metadata({})
        scans, processed = await self._scan(cache)
        select = partial(SELECT, scans, limit=ctx.media.max_frames)
        slides = await ctx.run(select, wall_time=WINDOW_TIMEOUT)
        how = "scanned now" if processed else "from the cache"
        scanned = f"{counted(len(scans), 'window')} of the video ({how})"
        await ctx.log(f"Found {counted(len(slides), 'slide')} in {scanned}")
        await map_limited(slides, ctx.processes, partial(self._draw, cache))
        texts: Sequence[str | None] = [None] * len(slides)
        if ctx.parameters.include_slide_text:
            texts = await self._read(slides)
        frames = [
            Frame(time=slide.time, end=slide.end, file=slide.file_name, text=text)
            for slide, text in zip(slides, texts, strict=True)
        ]
        return ExtractedSlides(frames=frames, directory=cache.entry.name, processed=processed)

    async def _scan(self, cache: RecordCache) -> tuple[list[ScannedWindow], bool]:
        """Scan all windows, and return whether any was not cached. Without a known duration,
        windows are scanned until there are no more frames."""
        limit = self.ctx.media.max_duration.total_seconds()
        duration = self.recording.duration
        progress = MediaProgress(
            self.ctx,
            "looking_for_slides",
            duration or limit,
            first_percent=TRANSCRIBED_PERCENT if self.ctx.parameters.include_transcript else 10,
            last_percent=EXTRACTED_PERCENT,
        )

        async def scan(window: tuple[int, float, float]) -> ScannedWindow:
            number, start, end = window
            args = SCAN, self.document.path, self.track, start, end
            run = partial(run_with_ffmpeg, self.ctx, *args, limit=WINDOW_TIMEOUT)
            values = await cache.load_or_make(number, run)
            await progress.advance(end - start)
            candidates = tuple(SlideCandidate(**each) for each in values.pop("candidates"))
            return ScannedWindow(**values, candidates=candidates)

        if duration is not None:
            spans = [(number, *span) for number, span in enumerate(windows(duration), start=1)]
            processed = any(number not in cache.cached for number, _, _ in spans)
            return await map_limited(spans, self.ctx.processes, scan), processed
        scans: list[ScannedWindow] = []
        for number in count(1):
            start = (number - 1) * WINDOW_S
            result = await scan((number, start, start + WINDOW_S))
            if result.is_empty or start > limit:
                break
            scans.append(result)
        return scans, len(scans) > len(cache.cached)

    async def _draw(self, cache: RecordCache, slide: Slide) -> None:
        """The cached name contains the time, because with another limit the numbers change."""
        name = f"frame_{slide.number:03d}_{slide.at:.3f}.jpg"
        directory = cache.entry.directory
        page_store = PageStore(str(directory), str(self.ctx.directory))
        if not (directory / name).exists() or cache.since:
            image = self.ctx.scratch / slide.file_name
            args = self.document.path, self.track, slide, str(image)
            await run_with_ffmpeg(self.ctx, DRAW, *args, limit=DRAW_TIMEOUT)

            def store() -> None:
                with page_store.atomic_write(name) as path, open(path, "xb") as file:
                    file.write(image.read_bytes())

            await asyncio.to_thread(store)
        await asyncio.to_thread(page_store.link, name, slide.file_name)

    async def _read(self, slides: Sequence[Slide]) -> list[str]:
        documents = self.ctx.documents
        languages = self.ctx.parameters.ocr_language or documents.ocr_language
        engine = open_engine(documents.ocr_engine, documents.ocr_data_directory)
        cache = await RecordCache.open(
            self.ctx,
            "slides",
            self.document.sha256,
            "text",
            options={"languages": languages, "engine": engine.name},
            made_with=engine.version,
        )
        cache.entry.save_metadata({})
        await self.ctx.log(f"Reading the slides with {engine.name} {engine.version}")

        async def read(slide: Slide) -> str:
            call = partial(
                READ,
                str(self.ctx.directory / slide.file_name),
                slide,
                languages=languages,
                ocr_engine=documents.ocr_engine,
                ocr_data_directory=documents.ocr_data_directory,
            )

            async def run() -> dict[str, str]:
                return {"text": await self.ctx.run(call, wall_time=documents.page_timeout)}

            number = round(slide.at * 1000)  # identifies the slide, however many there are
            return str((await cache.load_or_make(number, run))["text"])

        return await map_limited(slides, self.ctx.processes, read)
