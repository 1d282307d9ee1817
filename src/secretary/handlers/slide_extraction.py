"""The slides of a video: window by window, each kept when it is done, then drawn and read."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any

import orjson

from ..core.callables import LazyCallable, map_limited
from ..documents.ocr.engines import open_engine
from ..documents.page_store import PageStore
from ..jobs.handler import JobContext
from ..media.recording import PictureTrack, Recording
from ..media.slides import WINDOW_S, Candidate, DrawnSlide, Seen, Slide, SlideText, windows
from ..media.transcript import Picture
from ..storage import append_log
from ..storage.cache import CacheEntry
from ..version import __version__
from .cache_policy import made_after
from .document_pipeline import Document
from .transcription import GRACE, SoundProgress

LOOK: LazyCallable[Seen] = LazyCallable("media.slides", "look")
CHOOSE: LazyCallable[list[Slide]] = LazyCallable("media.slides", "choose")
DRAW: LazyCallable[list[DrawnSlide]] = LazyCallable("media.slides", "draw")
READ: LazyCallable[SlideText] = LazyCallable("media.slides", "read")

#: A window of five minutes takes seconds; this is for a machine that is very busy.
WINDOW_TIMEOUT = timedelta(minutes=20)
DRAW_TIMEOUT = timedelta(minutes=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    slide: Slide
    #: None where nobody asked for it.
    text: SlideText | None = None

    def as_picture(self) -> Picture:
        text = self.text.text if self.text else ""
        return Picture(time=self.slide.time, file=self.slide.file_name, text=text)

    def as_result(self) -> dict[str, Any]:
        slide = self.slide
        told = {"time": slide.time, "end": slide.end, "file": slide.file_name}
        return told | ({"text": self.text.text} if self.text else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    frames: Sequence[Frame]
    #: Relative to the data directory.
    directory: str
    made: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SlideExtraction:
    """One video on its way through its windows."""

    ctx: JobContext[Any]
    document: Document
    recording: Recording
    track: PictureTrack
    first_percent: int
    last_percent: int

    async def run(self, *, with_text: bool, languages: str | None) -> Frames:
        entry = await self.ctx.entry(
            "slides",
            self.document.sha256,
            "frames",
            options={"track": self.track.stream} if len(self.recording.pictures) > 1 else {},
            version=f"secretary {__version__}",
        )
        entry.note({})
        seen, made = await self._seen(entry)
        choose = partial(CHOOSE, seen, limit=self.ctx.media.max_frames)
        slides = await self.ctx.run(choose, wall_time=WINDOW_TIMEOUT)
        page_store = PageStore(str(entry.directory), str(self.ctx.directory))
        await map_limited(slides, self.ctx.processes, partial(self._draw, page_store, entry))
        frames = [Frame(slide=slide) for slide in slides]
        if with_text:
            texts = await self._texts(slides, page_store, languages)
            pairs = zip(slides, texts, strict=True)
            frames = [Frame(slide=slide, text=text) for slide, text in pairs]
        return Frames(frames=frames, directory=entry.name, made=made)

    async def _seen(self, entry: CacheEntry) -> tuple[list[Seen], bool]:
        """And whether any of it had to be looked for. Where nobody says how long the video is,
        windows are looked at until there are no more pictures."""
        known = await self._known(entry)
        limit = self.ctx.media.max_duration.total_seconds()
        duration = self.recording.duration
        progress = SoundProgress(
            self.ctx,
            "looking_for_slides",
            duration or limit,
            first_percent=self.first_percent,
            last_percent=self.last_percent,
        )

        async def look(window: tuple[int, float, float]) -> Seen:
            number, start, end = window
            call = partial(
                LOOK,
                self.document.path,
                self.track,
                start,
                end,
                timeout_s=WINDOW_TIMEOUT.total_seconds(),
                program=self.ctx.media.ffmpeg,
            )
            make = partial(self.ctx.run, call, wall_time=WINDOW_TIMEOUT + GRACE)
            told = await self._kept(entry, known, number, make)
            await progress.advance(end - start)
            candidates = tuple(Candidate(**candidate) for candidate in told.pop("candidates"))
            return Seen(**told, candidates=candidates)

        if duration is not None:
            spans = [(n, *span) for n, span in enumerate(windows(duration), start=1)]
            made = any(number not in known for number, _, _ in spans)
            return await map_limited(spans, self.ctx.processes, look), made
        found: list[Seen] = []
        for number in count(1):
            start = (number - 1) * WINDOW_S
            seen = await look((number, start, start + WINDOW_S))
            if seen.is_empty or start > limit:
                break
            found.append(seen)
        return found, len(found) > len(known)

    async def _draw(self, page_store: PageStore, entry: CacheEntry, slide: Slide) -> None:
        """The name tells the moment too: another limit, and other slides have the numbers."""
        kept = f"frame_{slide.number:03d}_{slide.at:.3f}.jpg"
        if not (entry.directory / kept).exists() or made_after(self.ctx):
            into = self.ctx.scratch / f"slide_{slide.number}"
            into.mkdir(exist_ok=True)
            call = partial(
                DRAW,
                self.document.path,
                self.track,
                [slide],
                str(into),
                timeout_s=DRAW_TIMEOUT.total_seconds(),
                program=self.ctx.media.ffmpeg,
            )
            (drawn,) = await self.ctx.run(call, wall_time=DRAW_TIMEOUT + GRACE)
            content = await asyncio.to_thread((into / drawn.name).read_bytes)
            await asyncio.to_thread(_write, page_store, kept, content)
        await asyncio.to_thread(page_store.link, kept, slide.file_name)

    async def _texts(
        self, slides: Sequence[Slide], page_store: PageStore, languages: str | None
    ) -> list[SlideText]:
        documents = self.ctx.documents
        languages = languages or documents.ocr_language
        engine = open_engine(documents.ocr_engine, documents.ocr_data_directory)
        entry = await self.ctx.entry(
            "slides",
            self.document.sha256,
            "text",
            options={"languages": languages, "engine": engine.name},
            version=f"secretary {__version__}, {engine.version}",
        )
        entry.note({})
        known = await self._known(entry)

        async def read(slide: Slide) -> SlideText:
            number = round(slide.at * 1000)  # which slide it is, however many there are
            call = partial(
                READ,
                f"{page_store.job_directory}/{slide.file_name}",
                slide,
                languages=languages,
                ocr_engine=documents.ocr_engine,
                ocr_data_directory=documents.ocr_data_directory,
            )
            make = partial(self.ctx.run, call, wall_time=documents.page_timeout)
            return SlideText(**await self._kept(entry, known, number, make))

        return await map_limited(slides, self.ctx.processes, read)

    async def _known(self, entry: CacheEntry) -> dict[int, append_log.RecordRef]:
        since = made_after(self.ctx)
        return await asyncio.to_thread(append_log.index, str(entry.directory), made_after=since)

    async def _kept(
        self,
        entry: CacheEntry,
        known: Mapping[int, append_log.RecordRef],
        number: int,
        make: Callable[[], Awaitable[Any]],
    ) -> dict[str, Any]:
        """What is on record under this number; else what is made now, put on record."""
        if number in known:
            record = await asyncio.to_thread(lambda: next(append_log.read([known[number]])))
        else:
            record = orjson.dumps(asdict(await make()))
            keep = partial(append_log.append, not_before=made_after(self.ctx))
            await asyncio.to_thread(keep, str(entry.directory), number, record)
            entry.touch()
        told: dict[str, Any] = orjson.loads(record)
        return told


def _write(page_store: PageStore, name: str, content: bytes) -> None:
    with page_store.atomic_write(name) as path, open(path, "xb") as file:
        file.write(content)
