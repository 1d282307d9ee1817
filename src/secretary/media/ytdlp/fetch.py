"""Fetches the recording at a URL: a file by a plain download, everything else with yt-dlp."""

import asyncio
import contextlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import IO, Any
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
from ...core.processes import inherited_environment
from ...network import DownloadLimits
from ...network.client import Network
from ...network.downloads import OnProgress, download
from ...network.egress_proxy import EgressProxy, open_egress_proxy
from ...storage.sources import SourceFile
from ..ffmpeg import find_ffmpeg
from . import landlock, metadata
from .metadata import MediaKind, SiteMedia, SiteRequest, SiteSubtitles

MISSING = (
    "Pages and video sites need the program yt-dlp, which is not installed:"
    " pip install 'secretary[sites]'"
)
#: The stem of downloaded files.
NAME = "media"
MAX_HEIGHT = 720
#: Formats that are downloaded over HTTP, without another program or port.
_HTTP_ONLY = "[protocol~='^(https?|m3u8(_native)?|http_dash_segments(_generator)?)$']"
#: Formats that ffmpeg may detect in a download: no playlists, which lead it to other files.
_CONTAINERS = "mov,matroska,webm,mpegts,mp3,aac,ogg,flac,wav,flv,avi,webvtt,srt,ass,ttml"
_PROXIES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
PROGRESS = "secretary-progress"
_PROGRESS_TEMPLATE = (
    f"download:{PROGRESS} %(progress.status)s %(progress.downloaded_bytes)s"
    " %(progress.total_bytes,progress.total_bytes_estimate)s"
)
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
#: The whole command line. All other options, such as the secret of the proxy, go through standard
#: input, so that other users of the machine cannot see them.
ARGUMENTS = ("--ignore-config", "--config-locations", "-")
_READ_BYTES = 65536
#: How much of the end of the output is kept: the last lines tell the error.
_OUTPUT_BYTES = 65536

Options = Mapping[str, str | None]

#: Keeps everything of the machine and its users out.
_ALWAYS: Options = {
    "--no-exec": None,
    "--no-plugin-dirs": None,
    "--no-remote-components": None,
    "--no-cookies": None,
    "--no-cookies-from-browser": None,
    "--no-cache-dir": None,
    "--xff": "never",
    "--color": "never",
    "--no-warnings": None,
    "--no-mtime": None,
    "--no-playlist": None,
    "--playlist-items": "1:2",  # enough to see that there are several
    "--no-wait-for-video": None,
    "--retries": "3",
    "--fragment-retries": "3",
    "--extractor-retries": "1",
    "--abort-on-unavailable-fragments": None,  # never accept a recording with gaps
    "--format-sort": f"res:{MAX_HEIGHT},vcodec:h264",
    "--downloader": "native",
    "--hls-prefer-native": None,
    # ffmpeg downloads encrypted fragments, the one exception; they must not name local files.
    "--downloader-args": "ffmpeg_i:-protocol_whitelist http,https,tls,tcp,httpproxy,crypto,data",
    "--postprocessor-args": (
        f"ffmpeg_i:-protocol_whitelist file,pipe -format_whitelist {_CONTAINERS}"
    ),
    "--output": f"{NAME}.%(ext)s",
}


@dataclass(frozen=True, slots=True)
class YtdlpResult:
    exit_code: int
    stdout: str
    stderr: str


def find_ytdlp() -> list[str]:
    """Return the command that runs yt-dlp. The service's own environment comes first: operators
    update it there, while the version of a Linux distribution is often years old."""
    if importlib.util.find_spec("yt_dlp") is not None:
        # -P: do not import modules from the download directory.
        return [sys.executable, "-P", "-m", "yt_dlp"]
    program = shutil.which("yt-dlp")
    if program is None:
        raise EngineUnavailable(MISSING)
    return [program]


def base_options(
    directory: Path, proxy: str, kind: MediaKind, limits: DownloadLimits
) -> dict[str, str | None]:
    """Return the options of every run for one recording."""
    ffmpeg = _ffmpeg()
    options = {
        **_ALWAYS,
        "--proxy": proxy,
        "--paths": str(directory),
        "--socket-timeout": f"{limits.idle.total_seconds():g}",
        "--max-filesize": str(limits.max_bytes),
        "--format": _format(kind, can_merge=ffmpeg is not None),
    }
    if ffmpeg is not None:
        options["--ffmpeg-location"] = ffmpeg
    if any(os.environ.get(name) for name in _CERTIFICATES):
        options["--compat-options"] = "no-certifi"  # certifi would override the configured ones
    return options


def _ffmpeg() -> str | None:
    """Merges separate audio and video; without it such formats are not selected."""
    try:
        return find_ffmpeg()
    except EngineUnavailable:
        return None


def _format(kind: MediaKind, *, can_merge: bool) -> str:
    """Select the smallest format that is enough: audio for a transcript, legible slides."""
    low = f"[height<=?{MAX_HEIGHT}]{_HTTP_ONLY}"
    if kind == "audio":
        return f"ba{_HTTP_ONLY}/w{_HTTP_ONLY}/w*{_HTTP_ONLY}"
    single = f"b{low}/w{_HTTP_ONLY}/w*{_HTTP_ONLY}"
    return f"bv*{low}+ba{_HTTP_ONLY}/{single}" if can_merge else single


def subtitle_options(languages: Iterable[str], *, automatic: bool) -> dict[str, str | None]:
    patterns = ",".join(map(re.escape, languages))
    if not patterns:
        return {}
    return {
        "--write-auto-subs" if automatic else "--write-subs": None,
        "--sub-langs": patterns,
        "--sub-format": "vtt/srt/best",
        "--convert-subs": "vtt",
    }


def progress_options() -> dict[str, str | None]:
    return {"--progress": None, "--newline": None, "--progress-template": _PROGRESS_TEMPLATE}


async def run_ytdlp(
    command: Sequence[str],
    options: Options,
    url: str = "",
    *,
    directory: Path,
    proxy: str,
    port: int,
    output: IO[bytes] | None = None,
    on_line: Callable[[str], None] | None = None,
) -> YtdlpResult:
    """Run yt-dlp to its end; it can reach nothing but the proxy at `port`. Its standard output goes
    to the file `output`, or line by line to `on_line`."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", landlock.__file__, str(port), str(directory)),
        *(*command, *ARGUMENTS),
        cwd=directory,
        env=_environment(directory, proxy),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if output is None else output,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        _, stdout, stderr = await asyncio.gather(
            _write(process.stdin, _encode_options(options, url)),
            _read_lines(process.stdout, on_line),
            _read_lines(process.stderr, None),
        )
        return YtdlpResult(await process.wait(), stdout, stderr)
    finally:
        # Also ends an ffmpeg that it started.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _environment(directory: Path, proxy: str) -> dict[str, str]:
    return {
        **inherited_environment("PATH", "LANG", "TZ", *_CERTIFICATES),
        **dict.fromkeys(_PROXIES, proxy),  # for child processes, above all ffmpeg
        "HOME": str(directory),
        "TMPDIR": str(directory),
        # A static ffmpeg crashes if it loads iconv modules of another C library (mpegts).
        "GCONV_PATH": "/nonexistent",
        "PYTHONUTF8": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _encode_options(options: Options, url: str) -> bytes:
    """Encode options as yt-dlp reads them from standard input."""
    pairs = options.items()
    lines = [name if value is None else f"{name} {shlex.quote(value)}" for name, value in pairs]
    return "\n".join([*lines, shlex.quote(url) if url else ""]).encode()


async def _write(stream: asyncio.StreamWriter | None, data: bytes) -> None:
    assert stream is not None
    with contextlib.suppress(ConnectionError):  # it ended before it had read everything
        stream.write(data)
        await stream.drain()
    stream.close()


async def _read_lines(
    stream: asyncio.StreamReader | None, on_line: Callable[[str], None] | None
) -> str:
    """Return the end of the output; call `on_line` with each complete line."""
    tail, partial = b"", b""
    while stream is not None and (data := await stream.read(_READ_BYTES)):
        tail = (tail + data)[-_OUTPUT_BYTES:]
        *lines, partial = (partial + data).split(b"\n")
        partial = partial[-_OUTPUT_BYTES:]
        if on_line is not None:
            for line in lines:
                on_line(line.decode("utf-8", "replace"))
    return tail.decode("utf-8", "replace")


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
    request: SiteRequest, run: Run, network: Network, on_progress: OnProgress | None = None
) -> SiteMedia | SourceFile:
    """Return the file at `request.url`, or the recording of a site with its metadata."""
    network.check(request.url)
    refused: DownloadFailed | None = None
    if not httpx.URL(request.url).path.lower().endswith(_PLAYLIST_SUFFIXES):
        try:
            done = await download(
                network,
                request.url,
                request.directory / "download",
                limits=request.limits,
                on_progress=on_progress,
                unwanted=_PAGES | _PLAYLISTS,
            )
            return SourceFile(done.path, done.file_name)
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
    command = find_ytdlp()
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
        result = await self._download(subtitle_options(languages, automatic=automatic))
        if result.exit_code and languages and self.proxy.refused is None:
            result = await self._download({})  # subtitles are optional
        path = await self._downloaded_file(result)
        subtitles = [
            SiteSubtitles(language=language, path=file)
            for language in languages
            if _is_file(file := self.directory / f"{NAME}.{language}.vtt")
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

    async def _download(self, subtitles: Options) -> YtdlpResult:
        source = {"--load-info-json": str(self._info_file)}
        options = {**subtitles, **progress_options(), **source}
        return await self._run(self._options | options, on_line=self._on_line)

    @property
    def _info_file(self) -> Path:
        return self.directory / "info.json"

    @property
    def _options(self) -> dict[str, str | None]:
        request = self.request
        return base_options(self.directory, self.proxy.url, request.kind, request.limits)

    async def _run(self, options: Options, url: str = "", **more: Any) -> YtdlpResult:
        """Run until it ends, or until the proxy has transferred the limit."""
        proxy = self.proxy
        running = asyncio.create_task(
            run_ytdlp(
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
            if path.stem == NAME and path.suffix not in _UNFINISHED and _is_file(path)
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
        match = re.search(rf"{PROGRESS} (\w+) (\d+) ([\d.]+|NA)\s*$", line)
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
