"""How a recording at a URL is fetched: a file as it is, all else with yt-dlp."""

import asyncio
import json
import re
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx

from ...config import MEBIBYTE
from ...core.errors import (
    AddressRefused,
    DownloadFailed,
    EngineUnavailable,
    JobFailed,
    UnexpectedContentType,
)
from ...network.client import Network
from ...network.downloads import OnProgress, download
from ...network.egress_proxy import EgressProxy, open_egress_proxy
from ...storage.sources import SourceFile
from . import metadata, process
from .metadata import SiteMedia, SiteRequest, SiteSubtitles, known_error, unknown_error
from .process import YtdlpResult, run

#: Pages, scripts and what encryption adds, beside the recording itself.
_BESIDE_BYTES = 16 * MEBIBYTE
_BESIDE_SHARE = 20
#: In an address, orders to yt-dlp itself.
_SMUGGLED = "__youtubedl_smuggle"
_UNFINISHED = {".part", ".ytdl", ".temp", ".json", ".vtt"}


async def fetch_from_site(
    request: SiteRequest,
    on_progress: OnProgress | None = None,
    network: Network | None = None,
) -> SiteMedia:
    """
    To be run in a sandbox process: that ends yt-dlp, and what it started, on cancellation and on
    the death of the worker alike, watches their memory, and keeps the bytes of a recording, which
    all pass through the gateway, off the worker's own loop.
    """
    network = network or Network(request.allow_hosts)
    network.check(request.url)
    host = httpx.URL(request.url).host
    if _SMUGGLED in unquote(unquote(request.url)):
        raise AddressRefused(f"The URL of {host} is not one of the web", host=host)
    command = process.find_ytdlp()
    directory = request.directory / "site"
    shutil.rmtree(directory, ignore_errors=True)  # of an attempt that was cut off
    directory.mkdir(parents=True)
    seconds = request.limits.total.total_seconds()
    most = request.limits.max_bytes
    try:
        async with (
            asyncio.timeout(seconds) as limit,
            open_egress_proxy(
                network,
                max_bytes=most + most // _BESIDE_SHARE + _BESIDE_BYTES,
                idle=request.limits.idle,
            ) as gateway,
        ):
            return await _Visit(request, host, command, directory, gateway, on_progress).make()
    except TimeoutError:
        if not limit.expired():
            raise
        text = f"The download from {host} took longer than {seconds:g} s"
        raise DownloadFailed(text, host=host) from None


@dataclass
class _Visit:
    """One visit to a site: a look at what there is, then the download of it."""

    request: SiteRequest
    host: str
    command: Sequence[str]
    directory: Path
    gateway: EgressProxy
    on_progress: OnProgress | None
    _files: "_Files" = field(init=False)

    async def make(self) -> SiteMedia:
        info = await self._look()
        metadata.check_allowed(info, self.request, self.host)
        languages, automatic = metadata.select_subtitles(info, self.request)
        self._files = _Files(metadata.sizes(info)[1] or None)
        ran = await self._download(process.subtitle_options(languages, automatic=automatic))
        if ran.code and languages and self.gateway.refused is None:
            ran = await self._download({})  # better without them than not at all
        path = await self._found(ran)
        subtitles = [
            SiteSubtitles(language=language, path=file)
            for language in languages
            if _is_file(file := self.directory / f"{process.NAME}.{language}.vtt")
        ]
        return metadata.to_site_media(info, path, subtitles, self.request)

    async def _look(self) -> metadata.Info:
        look = {"--dump-single-json": None, "--skip-download": None}
        with self._info_file.open("xb") as output:
            ran = await self._run(self._options | look, self.request.url, output=output)
        if ran.code or not self._info_file.stat().st_size:
            raise await self._failure(ran)
        info = await asyncio.to_thread(metadata.parse_info, self._info_file, self.host)
        # What is fetched is what was looked at, and not what the page says when asked again.
        kept = {name: value for name, value in info.items() if name != "webpage_url"}
        await asyncio.to_thread(self._info_file.write_text, json.dumps(kept), encoding="utf-8")
        return info

    async def _download(self, subtitles: process.Options) -> YtdlpResult:
        known = {"--load-info-json": str(self._info_file)}
        more = {**subtitles, **process.progress_options(), **known}
        return await self._run(self._options | more, on_line=self._notice)

    @property
    def _info_file(self) -> Path:
        return self.directory / "info.json"

    @property
    def _options(self) -> dict[str, str | None]:
        request = self.request
        return process.options(self.directory, self.gateway.url, request.kind, request.limits)

    async def _run(self, options: process.Options, url: str = "", **more: object) -> YtdlpResult:
        """Until it ends by itself, or the gateway has let through all that it may."""
        running = asyncio.create_task(
            run(
                self.command,
                process.encode_options(options, url),
                directory=self.directory,
                proxy=self.gateway.url,
                port=self.gateway.port,
                **more,  # type: ignore[arg-type]
            )
        )
        used_up = asyncio.create_task(self.gateway.limit_reached.wait())
        try:
            await asyncio.wait([running, used_up], return_when=asyncio.FIRST_COMPLETED)
            if self.gateway.limit_reached.is_set():
                raise metadata.too_large(self.request, self.host)
            return running.result()
        finally:
            for task in (running, used_up):
                task.cancel()
            await asyncio.gather(running, used_up, return_exceptions=True)

    def _notice(self, line: str) -> None:
        if self._files.notice(line) and self.on_progress is not None:
            self.on_progress(self._files.done, self._files.total)

    async def _found(self, ran: YtdlpResult) -> Path:
        """The file, when there is one and nothing went wrong."""
        if "max-filesize" in ran.said:
            raise metadata.too_large(self.request, self.host)
        files = [
            path
            for path in self.directory.iterdir()
            if path.stem == process.NAME and path.suffix not in _UNFINISHED and _is_file(path)
        ]
        # Without the piece that was refused there may still be a file, with a hole in it.
        is_whole = not ran.code and self.gateway.refused is None and len(files) == 1
        if not is_whole or not files[0].stat().st_size:
            raise await self._failure(ran)
        if files[0].stat().st_size > self.request.limits.max_bytes:
            raise metadata.too_large(self.request, self.host)
        return files[0]

    async def _failure(self, ran: YtdlpResult) -> JobFailed:
        """Where the gateway refused an address, that is the reason for all that followed."""
        if self.gateway.refused is not None:
            return self.gateway.refused
        found = known_error(ran.complained, self.host, hidden=str(self.directory))
        if found is not None:
            return found
        version = (await self._run({"--version": None})).said.strip()
        return unknown_error(ran.complained, self.host, hidden=str(self.directory), version=version)


@dataclass
class _Files:
    """How far the files have come that are fetched one after the other."""

    expected: int | None
    _before: int = 0
    _now: int = 0
    _now_total: int = 0

    def notice(self, line: str) -> bool:
        match = re.search(rf"{process.PROGRESS} (\w+) (\d+) ([\d.]+|NA)\s*$", line)
        if match is None:
            return False
        self._now = int(match[2])
        self._now_total = 0 if match[3] == "NA" else int(float(match[3]))
        if match[1] == "finished":
            self._before += self._now
            self._now = self._now_total = 0
        return True

    @property
    def done(self) -> int:
        return self._before + self._now

    @property
    def total(self) -> int | None:
        if self._now and not self._now_total:
            return max(self.expected, self.done) if self.expected else None
        return max(self._before + self._now_total, self.expected or 0) or None


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


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


async def fetch_media(
    request: SiteRequest, run: Run, on_progress: OnProgress | None = None
) -> SiteMedia | SourceFile:
    """What is at `request.url`: a file, or what a site has to give and to say."""
    Network(request.allow_hosts).check(request.url)
    refused: DownloadFailed | None = None
    if not httpx.URL(request.url).path.lower().endswith(_LIST_ENDINGS):
        try:
            return await _as_file(request, on_progress)
        except UnexpectedContentType:
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
        request.directory / "download",
        limits=request.limits,
        on_progress=on_progress,
        unwanted=_PAGES | _LISTS,
    )
    return SourceFile(done.path, done.file_name)


async def _as_site(request: SiteRequest, run: Run, on_progress: OnProgress | None) -> SiteMedia:
    async with _told(request, on_progress):
        media: SiteMedia = await run(
            fetch_in_sandbox, request, wall_time=request.limits.total + _GRACE
        )
        return media


async def fetch_in_sandbox(request: SiteRequest) -> SiteMedia:
    """In the sandbox process. How far it is stands in a file: a call says only how it ended."""
    return await fetch_from_site(request, _Notes(_notes_of(request)).write)


def _notes_of(request: SiteRequest) -> Path:
    return request.directory / "site-progress"


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
