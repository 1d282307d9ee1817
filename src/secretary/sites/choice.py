"""How a recording at a URL is fetched: a file as it is, all else with yt-dlp."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from ..errors import DownloadFailed, EngineUnavailable, KindRefused
from ..fetch import OnProgress, download
from ..network.client import Network
from ..sources import SourceFile
from .fetching import fetch_from_site
from .media import SiteMedia, SiteRequest

#: Lists of pieces, which only together are a recording.
_LISTS = frozenset(
    {
        "application/vnd.apple.mpegurl", "application/x-mpegurl", "audio/mpegurl",
        "audio/x-mpegurl", "application/dash+xml",
    }
)  # fmt: skip
_PAGES = frozenset({"text/html", "application/xhtml+xml"})
#: Often announced as nothing in particular.
_LIST_ENDINGS = (".m3u8", ".mpd")
#: With these some sites answer whoever is no browser.
_PERHAPS_A_SITE = frozenset({202, 401, 403, 405, 406, 429, 503})
#: For a sandbox process to find its own end before it is found.
_GRACE = timedelta(seconds=30)
_LOOK_EVERY = 0.5
_NOTE_EVERY = 0.2

#: As `JobContext.run`.
Run = Callable[..., Awaitable[Any]]


async def media_source(
    request: SiteRequest, run: Run, on_progress: OnProgress | None = None
) -> SiteMedia | SourceFile:
    """What is at `request.url`: a file, or what a site has to give and to say."""
    Network(request.allow_hosts).check(request.url)
    refused: DownloadFailed | None = None
    if not httpx.URL(request.url).path.lower().endswith(_LIST_ENDINGS):
        try:
            return await _as_file(request, on_progress)
        except KindRefused:
            pass
        except DownloadFailed as error:
            if error.details.get("status") not in _PERHAPS_A_SITE:
                raise
            refused = error
    try:
        return await _as_site(request, run, on_progress)
    except EngineUnavailable:
        if refused is not None:
            raise refused from None
        raise


async def _as_file(request: SiteRequest, on_progress: OnProgress | None) -> SourceFile:
    done = await download(
        Network(request.allow_hosts),
        request.url,
        request.into / "download",
        limits=request.limits,
        on_progress=on_progress,
        unwanted=_PAGES | _LISTS,
    )
    return SourceFile(done.path, done.file_name)


async def _as_site(request: SiteRequest, run: Run, on_progress: OnProgress | None) -> SiteMedia:
    async with _told(request, on_progress):
        media: SiteMedia = await run(fetched, request, wall_time=request.limits.total + _GRACE)
        return media


async def fetched(request: SiteRequest) -> SiteMedia:
    """In the sandbox process. How far it is stands in a file: a call says only how it ended."""
    return await fetch_from_site(request, _Notes(_notes_of(request)).write)


def _notes_of(request: SiteRequest) -> Path:
    return request.into / "site-progress"


@dataclass
class _Notes:
    path: Path
    _written_at: float = 0.0

    def write(self, done: int, total: int | None) -> None:
        now = time.monotonic()
        if now - self._written_at >= _NOTE_EVERY:
            self._written_at = now
            self.path.write_text(f"{done} {total or ''}", encoding="ascii")


@asynccontextmanager
async def _told(request: SiteRequest, on_progress: OnProgress | None) -> AsyncIterator[None]:
    """Meanwhile, what is noted is told."""
    if on_progress is None:
        yield
        return
    notes = _notes_of(request)
    telling = asyncio.create_task(_keep_telling(notes, on_progress))
    try:
        yield
        _tell(notes, on_progress)
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def _keep_telling(notes: Path, on_progress: OnProgress) -> None:
    while True:
        await asyncio.sleep(_LOOK_EVERY)
        _tell(notes, on_progress)


def _tell(notes: Path, on_progress: OnProgress) -> None:
    done, _, total = _read(notes).partition(" ")
    if done.isdigit():
        on_progress(int(done), int(total) if total.isdigit() else None)


def _read(notes: Path) -> str:
    try:
        return notes.read_text(encoding="ascii")
    except FileNotFoundError:
        return ""
