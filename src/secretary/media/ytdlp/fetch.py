"""Fetches the recording at a URL: a file by a plain download, everything else with yt-dlp."""

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
from .metadata import SiteMedia, SiteRequest, SiteSubtitles
from .process import YtdlpResult

_PLAYLISTS = frozenset(
    {
        "application/vnd.apple.mpegurl", "application/x-mpegurl", "audio/mpegurl",
        "audio/x-mpegurl", "application/dash+xml",
    }
)  # fmt: skip
_PAGES = frozenset({"text/html", "application/xhtml+xml"})
#: Playlists often have a generic content type.
_PLAYLIST_SUFFIXES = (".m3u8", ".mpd")
#: Statuses with which some sites answer clients other than browsers.
_MAYBE_A_SITE = frozenset({202, 401, 403, 405, 406, 429, 503})
#: Lets the sandbox process report its own timeout before it is stopped.
_GRACE = timedelta(seconds=30)
_POLL_SECONDS = 0.5
_WRITE_SECONDS = 0.2
#: Traffic beside the recording: pages, scripts and the overhead of encryption.
_OVERHEAD_BYTES = 16 * MEBIBYTE
_OVERHEAD_DIVISOR = 20
#: Marks options for yt-dlp itself inside a URL.
_SMUGGLED = "__youtubedl_smuggle"
_UNFINISHED = {".part", ".ytdl", ".temp", ".json", ".vtt"}

#: As `JobContext.run`.
Run = Callable[..., Awaitable[Any]]


async def fetch_media(
    request: SiteRequest, run: Run, on_progress: OnProgress | None = None
) -> SiteMedia | SourceFile:
    """Return the file at `request.url`, or the recording of a site with its metadata."""
    Network(request.allow_hosts).check(request.url)
    refused: DownloadFailed | None = None
    if not httpx.URL(request.url).path.lower().endswith(_PLAYLIST_SUFFIXES):
        try:
            return await _download_file(request, on_progress)
        except UnexpectedContentType:
            pass
        except DownloadFailed as error:
            if error.details.get("status") not in _MAYBE_A_SITE:
                raise
            refused = error
    try:
        async with _forward_progress(request, on_progress):
            wall_time = request.limits.total + _GRACE
            media: SiteMedia = await run(fetch_in_sandbox, request, wall_time=wall_time)
            return media
    except EngineUnavailable:
        if refused is not None:
            raise refused from None
        raise


async def _download_file(request: SiteRequest, on_progress: OnProgress | None) -> SourceFile:
    done = await download(
        Network(request.allow_hosts),
        request.url,
        request.directory / "download",
        limits=request.limits,
        on_progress=on_progress,
        unwanted=_PAGES | _PLAYLISTS,
    )
    return SourceFile(done.path, done.file_name)


# Progress, through a file: a sandbox process reports nothing but its result ---------------------


async def fetch_in_sandbox(request: SiteRequest) -> SiteMedia:
    """Fetch in a sandbox process and write the progress to a file."""
    return await fetch_from_site(request, _ProgressFile(_progress_path(request)).write)


@dataclass
class _ProgressFile:
    path: Path
    _written_at: float = 0.0

    def write(self, done: int, total: int | None) -> None:
        now = time.monotonic()
        if now - self._written_at >= _WRITE_SECONDS:
            self._written_at = now
            self.path.write_text(f"{done} {total or ''}", encoding="ascii")


def _progress_path(request: SiteRequest) -> Path:
    return request.directory / "site-progress"


@asynccontextmanager
async def _forward_progress(
    request: SiteRequest, on_progress: OnProgress | None
) -> AsyncIterator[None]:
    """Report the progress of the sandbox process in the meantime."""
    if on_progress is None:
        yield
        return
    path = _progress_path(request)
    polling = asyncio.create_task(_poll_progress(path, on_progress))
    try:
        yield
        _report(path, on_progress)
    finally:
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)


async def _poll_progress(path: Path, on_progress: OnProgress) -> None:
    while True:
        await asyncio.sleep(_POLL_SECONDS)
        _report(path, on_progress)


def _report(path: Path, on_progress: OnProgress) -> None:
    try:
        done, _, total = path.read_text(encoding="ascii").partition(" ")
    except FileNotFoundError:
        return
    if done.isdigit():
        on_progress(int(done), int(total) if total.isdigit() else None)


# yt-dlp -----------------------------------------------------------------------------------------


async def fetch_from_site(
    request: SiteRequest,
    on_progress: OnProgress | None = None,
    network: Network | None = None,
) -> SiteMedia:
    """Run this in a sandbox process: it ends yt-dlp and its children on cancellation and when the
    worker dies, watches their memory, and keeps the traffic of the proxy off the worker's loop."""
    network = network or Network(request.allow_hosts)
    network.check(request.url)
    host = httpx.URL(request.url).host
    if _SMUGGLED in unquote(unquote(request.url)):
        raise AddressRefused(f"The URL of {host} is not a web address", host=host)
    command = process.find_ytdlp()
    directory = request.directory / "site"
    shutil.rmtree(directory, ignore_errors=True)  # of an interrupted attempt
    directory.mkdir(parents=True)
    seconds = request.limits.total.total_seconds()
    max_bytes = request.limits.max_bytes
    try:
        async with (
            asyncio.timeout(seconds) as timeout,
            open_egress_proxy(
                network,
                max_bytes=max_bytes + max_bytes // _OVERHEAD_DIVISOR + _OVERHEAD_BYTES,
                idle=request.limits.idle,
            ) as proxy,
        ):
            return await _SiteDownload(request, host, command, directory, proxy, on_progress).run()
    except TimeoutError:
        if not timeout.expired():
            raise
        text = f"The download from {host} took longer than {seconds:g} s"
        raise DownloadFailed(text, host=host) from None


@dataclass
class _SiteDownload:
    """Reads the metadata of a recording, then downloads it."""

    request: SiteRequest
    host: str
    command: Sequence[str]
    directory: Path
    proxy: EgressProxy
    on_progress: OnProgress | None
    _progress: "_Progress" = field(init=False)

    async def run(self) -> SiteMedia:
        info = await self._read_info()
        metadata.check_limits(info, self.request, self.host)
        languages, automatic = metadata.select_subtitles(info, self.request)
        self._progress = _Progress(metadata.sizes(info)[1] or None)
        result = await self._download(process.subtitle_options(languages, automatic=automatic))
        if result.exit_code and languages and self.proxy.refused is None:
            result = await self._download({})  # subtitles are optional
        path = await self._downloaded_file(result)
        subtitles = [
            SiteSubtitles(language=language, path=file)
            for language in languages
            if _is_file(file := self.directory / f"{process.NAME}.{language}.vtt")
        ]
        return metadata.to_site_media(info, path, subtitles, self.request)

    async def _read_info(self) -> metadata.Info:
        options = {"--dump-single-json": None, "--skip-download": None}
        with self._info_file.open("xb") as output:
            result = await self._run(self._options | options, self.request.url, output=output)
        if result.exit_code or not self._info_file.stat().st_size:
            raise await self._error(result)
        info = await asyncio.to_thread(metadata.read_info, self._info_file, self.host)
        # Without its URL, yt-dlp downloads what was checked and does not read the page again.
        checked = {name: value for name, value in info.items() if name != "webpage_url"}
        await asyncio.to_thread(self._info_file.write_text, json.dumps(checked), encoding="utf-8")
        return info

    async def _download(self, subtitles: process.Options) -> YtdlpResult:
        source = {"--load-info-json": str(self._info_file)}
        options = {**subtitles, **process.progress_options(), **source}
        return await self._run(self._options | options, on_line=self._on_line)

    @property
    def _info_file(self) -> Path:
        return self.directory / "info.json"

    @property
    def _options(self) -> dict[str, str | None]:
        request = self.request
        return process.base_options(self.directory, self.proxy.url, request.kind, request.limits)

    async def _run(self, options: process.Options, url: str = "", **more: Any) -> YtdlpResult:
        """Run until it ends, or until the proxy has transferred the limit."""
        proxy = self.proxy
        running = asyncio.create_task(
            process.run_ytdlp(
                self.command,
                options,
                url,
                directory=self.directory,
                proxy=proxy.url,
                port=proxy.port,
                **more,
            )
        )
        limit_reached = asyncio.create_task(proxy.limit_reached.wait())
        try:
            await asyncio.wait([running, limit_reached], return_when=asyncio.FIRST_COMPLETED)
            if proxy.limit_reached.is_set():
                raise metadata.too_large(self.request, self.host)
            return running.result()
        finally:
            for task in (running, limit_reached):
                task.cancel()
            await asyncio.gather(running, limit_reached, return_exceptions=True)

    def _on_line(self, line: str) -> None:
        if self._progress.parse(line) and self.on_progress is not None:
            self.on_progress(self._progress.done, self._progress.total)

    async def _downloaded_file(self, result: YtdlpResult) -> Path:
        if "max-filesize" in result.stdout:
            raise metadata.too_large(self.request, self.host)
        files = [
            path
            for path in self.directory.iterdir()
            if path.stem == process.NAME and path.suffix not in _UNFINISHED and _is_file(path)
        ]
        # If the proxy refused a fragment there may still be a file, with a gap in it.
        is_complete = not result.exit_code and self.proxy.refused is None and len(files) == 1
        if not is_complete or not files[0].stat().st_size:
            raise await self._error(result)
        if files[0].stat().st_size > self.request.limits.max_bytes:
            raise metadata.too_large(self.request, self.host)
        return files[0]

    async def _error(self, result: YtdlpResult) -> JobFailed:
        """If the proxy refused an address, that caused everything else."""
        if self.proxy.refused is not None:
            return self.proxy.refused
        hidden = str(self.directory)
        error = metadata.known_error(result.stderr, self.host, hidden=hidden)
        if error is not None:
            return error
        version = (await self._run({"--version": None})).stdout.strip()
        return metadata.unknown_error(result.stderr, self.host, hidden=hidden, version=version)


@dataclass
class _Progress:
    """The progress of files that are downloaded one after the other."""

    expected: int | None
    _finished: int = 0
    _current: int = 0
    _current_total: int = 0

    def parse(self, line: str) -> bool:
        """Return whether the line reports progress."""
        match = re.search(rf"{process.PROGRESS} (\w+) (\d+) ([\d.]+|NA)\s*$", line)
        if match is None:
            return False
        self._current = int(match[2])
        self._current_total = 0 if match[3] == "NA" else int(float(match[3]))
        if match[1] == "finished":
            self._finished += self._current
            self._current = self._current_total = 0
        return True

    @property
    def done(self) -> int:
        return self._finished + self._current

    @property
    def total(self) -> int | None:
        if self._current and not self._current_total:
            return max(self.expected, self.done) if self.expected else None
        return max(self._finished + self._current_total, self.expected or 0) or None


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
