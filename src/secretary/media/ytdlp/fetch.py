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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

import httpx

from ...config import MEBIBYTE
from ...core import errors, fence
from ...core.files import inside
from ...core.processes import inherited_environment
from ...network.client import Network
from ...network.downloads import OnProgress, download, time_limit
from ...network.egress_proxy import EgressProxy, open_egress_proxy, until_first_ends
from ...storage.sources import SourceFile
from ..ffmpeg import find_ffmpeg
from . import metadata
from .metadata import SiteMedia, SiteRequest

MISSING = (
    "Pages and video sites need the program yt-dlp, which is not installed:"
    " pip install 'secretary[sites]'"
)
#: The content types of playlists and of pages, which are left to yt-dlp.
_NOT_FILES = frozenset(
    {
        "application/vnd.apple.mpegurl", "application/x-mpegurl", "audio/mpegurl",
        "audio/x-mpegurl", "application/dash+xml", "text/html", "application/xhtml+xml",
    }
)  # fmt: skip
#: Playlists often have a generic content type.
_PLAYLIST_SUFFIXES = (".m3u8", ".mpd")
#: Statuses with which some sites answer clients other than browsers.
_MAYBE_A_SITE = frozenset({202, 401, 403, 405, 406, 429, 503})
#: Lets the sandbox process report its own timeout before it is stopped.
_GRACE = timedelta(seconds=30)
_POLL_SECONDS = 0.5
_WRITE_SECONDS = 0.2
#: A sandbox process reports nothing but its result, so the progress goes through this file.
_PROGRESS_FILE = "site-progress"

#: As `JobContext.run`.
Run = Callable[..., Awaitable[Any]]


async def fetch_media(
    request: SiteRequest, run: Run, network: Network, on_progress: OnProgress | None = None
) -> SiteMedia | SourceFile:
    """Return the file at `request.url`, or the recording of a site with its metadata."""
    network.check(request.url)
    refused: errors.DownloadFailed | None = None
    if not httpx.URL(request.url).path.lower().endswith(_PLAYLIST_SUFFIXES):
        try:
            file = await download(
                network,
                request.url,
                request.directory / "download",
                limits=request.limits,
                on_progress=on_progress,
                unwanted=_NOT_FILES,
            )
            return SourceFile(file.path, file.file_name)
        except errors.UnexpectedContentType:
            pass
        except errors.DownloadFailed as error:
            if error.details.get("status") not in _MAYBE_A_SITE:
                raise
            refused = error

    def report() -> None:
        with contextlib.suppress(FileNotFoundError):
            text = (request.directory / _PROGRESS_FILE).read_text(encoding="ascii")
            done, _, total = text.partition(" ")
            if done.isdigit() and on_progress is not None:
                on_progress(int(done), int(total) if total.isdigit() else None)

    async def poll() -> None:
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            report()

    polling = asyncio.create_task(poll())
    try:
        wall_time = request.limits.total + _GRACE
        media: SiteMedia = await run(fetch_in_sandbox, request, wall_time=wall_time)
        report()
        for path in (media.path, *media.subtitles.values()):
            inside(path, request.directory)
        return media
    except errors.EngineUnavailable:
        if refused is not None:
            raise refused from None
        raise
    finally:
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)


async def fetch_in_sandbox(request: SiteRequest) -> SiteMedia:
    """Fetch in a sandbox process and write the progress to a file."""
    written_at = 0.0

    def write(done: int, total: int | None) -> None:
        nonlocal written_at
        now = time.monotonic()
        if now - written_at >= _WRITE_SECONDS:
            written_at = now
            path = request.directory / _PROGRESS_FILE
            path.write_text(f"{done} {total or ''}", encoding="ascii")

    return await fetch_from_site(request, write)


fetch_in_sandbox.uses_network = True  # type: ignore[attr-defined]  # for `Sandbox.run`


# yt-dlp -----------------------------------------------------------------------------------------

#: The stem of downloaded files.
NAME = "media"
MAX_HEIGHT = 720
#: Formats that are downloaded over HTTP, without another program or port.
_HTTP_ONLY = "[protocol~='^(https?|m3u8(_native)?|http_dash_segments(_generator)?)$']"
#: Formats that ffmpeg may detect in a download: no playlists, which lead it to other files.
_CONTAINERS = "mov,matroska,webm,mpegts,mp3,aac,ogg,flac,wav,flv,avi,webvtt,srt,ass,ttml"
_PROXIES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
_PROGRESS = "secretary-progress"
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
#: The whole command line. All other options, such as the secret of the proxy, go through standard
#: input, so that other users of the machine cannot see them.
ARGUMENTS = ("--ignore-config", "--config-locations", "-")
#: How much of the end of the output is kept: the last lines tell the error.
_OUTPUT_BYTES = 65536
#: Traffic beside the recording: pages, scripts and the overhead of encryption.
_OVERHEAD_BYTES = 16 * MEBIBYTE
_OVERHEAD_DIVISOR = 20
#: Marks options for yt-dlp itself inside a URL.
_SMUGGLED = "__youtubedl_smuggle"
_UNFINISHED = {".part", ".ytdl", ".temp", ".json", ".vtt"}

Options = Mapping[str, str | None]

#: Keeps everything of the machine and its users out, and never accepts a recording with gaps.
_FLAGS = (
    "--no-exec --no-plugin-dirs --no-remote-components --no-cookies --no-cookies-from-browser"
    " --no-cache-dir --no-warnings --no-mtime --no-playlist --no-wait-for-video"
    " --abort-on-unavailable-fragments --hls-prefer-native"
)
_ALWAYS: Options = {
    **dict.fromkeys(_FLAGS.split()),
    "--xff": "never",
    "--color": "never",
    "--playlist-items": "1:2",  # enough to see that there are several
    "--retries": "3",
    "--fragment-retries": "3",
    "--extractor-retries": "1",
    "--format-sort": f"res:{MAX_HEIGHT},vcodec:h264",
    "--downloader": "native",
    # ffmpeg downloads encrypted fragments, the one exception; they must not name local files.
    "--downloader-args": "ffmpeg_i:-protocol_whitelist http,https,tls,tcp,httpproxy,crypto,data",
    "--postprocessor-args": (
        f"ffmpeg_i:-protocol_whitelist file,pipe -format_whitelist {_CONTAINERS}"
    ),
    "--output": f"{NAME}.%(ext)s",
}
_DOWNLOADING: Options = {
    "--progress": None,
    "--newline": None,
    "--progress-template": (
        f"download:{_PROGRESS} %(progress.status)s %(progress.downloaded_bytes)s"
        " %(progress.total_bytes,progress.total_bytes_estimate)s"
    ),
}


def find_ytdlp() -> list[str]:
    """Return the command that runs yt-dlp. The service's own environment comes first: operators
    update it there, while the version of a Linux distribution is often years old."""
    if importlib.util.find_spec("yt_dlp") is not None:
        # -P: do not import modules from the download directory.
        return [sys.executable, "-P", "-m", "yt_dlp"]
    program = shutil.which("yt-dlp")
    if program is None:
        raise errors.EngineUnavailable(MISSING)
    return [program]


async def fetch_from_site(
    request: SiteRequest, on_progress: OnProgress | None = None, network: Network | None = None
) -> SiteMedia:
    """Run this in a sandbox process: it ends yt-dlp and its children on cancellation and when the
    worker dies, watches their memory, and keeps the traffic of the proxy off the worker's loop."""
    network = network or Network(request.allow_hosts, allow_private=request.allow_private)
    network.check(request.url)
    host = httpx.URL(request.url).host
    if _SMUGGLED in unquote(unquote(request.url)):
        raise errors.AddressRefused(f"The URL of {host} is not a web address", host=host)
    command = find_ytdlp()
    directory = request.directory / "site"
    shutil.rmtree(directory, ignore_errors=True)  # of an interrupted attempt
    directory.mkdir(parents=True)
    limits = request.limits
    max_bytes = limits.max_bytes + limits.max_bytes // _OVERHEAD_DIVISOR + _OVERHEAD_BYTES
    async with (
        time_limit(limits, host),
        open_egress_proxy(network, max_bytes=max_bytes, idle=limits.idle) as proxy,
    ):
        return await _SiteDownload(request, host, command, directory, proxy, on_progress).run()


@dataclass(frozen=True, slots=True)
class _YtdlpResult:
    exit_code: int
    stdout: str
    stderr: str


@dataclass
class _SiteDownload:
    """Reads the metadata of a recording, then downloads it."""

    request: SiteRequest
    host: str
    command: Sequence[str]
    directory: Path
    proxy: EgressProxy
    on_progress: OnProgress | None

    @property
    def _info_file(self) -> Path:
        return self.directory / "info.json"

    async def run(self) -> SiteMedia:
        options = self._base_options()
        info = await self._read_info(options)
        metadata.check_limits(info, self.request, self.host)
        languages = metadata.select_subtitles(info, self.request)
        progress = _Progress(metadata.sizes(info)[1] or None, self.on_progress)
        options |= {**_DOWNLOADING, "--load-info-json": str(self._info_file)}
        subtitles = {
            "--write-subs": None,
            "--sub-langs": ",".join(map(re.escape, languages)),
            "--sub-format": "vtt/srt/best",
            "--convert-subs": "vtt",
        }
        with_subtitles = {**options, **subtitles} if languages else options
        result = await self._run(with_subtitles, on_line=progress.parse)
        if result.exit_code and languages and self.proxy.refused is None:
            result = await self._run(options, on_line=progress.parse)  # subtitles are optional
        path = await self._downloaded_file(result)
        files = {
            language: file
            for language in languages
            if _is_file(file := self.directory / f"{NAME}.{language}.vtt")
        }
        return metadata.to_site_media(info, path, files, self.request)

    def _base_options(self) -> dict[str, str | None]:
        """Select the smallest format that is enough: audio for a transcript, legible slides."""
        limits = self.request.limits
        low, any_format = f"[height<=?{MAX_HEIGHT}]{_HTTP_ONLY}", f"w{_HTTP_ONLY}/w*{_HTTP_ONLY}"
        single = f"b{low}/{any_format}"
        options = {
            **_ALWAYS,
            "--proxy": self.proxy.url,
            "--paths": str(self.directory),
            "--socket-timeout": f"{limits.idle.total_seconds():g}",
            "--max-filesize": str(limits.max_bytes),
            "--format": single,
        }
        with contextlib.suppress(errors.EngineUnavailable):
            # Merges separate audio and video; without it such formats are not selected.
            options["--ffmpeg-location"] = find_ffmpeg()
            options["--format"] = f"bv*{low}+ba{_HTTP_ONLY}/{single}"
        if self.request.kind == "audio":
            options["--format"] = f"ba{_HTTP_ONLY}/{any_format}"
        if any(os.environ.get(name) for name in _CERTIFICATES):
            options["--compat-options"] = "no-certifi"  # certifi would override the configured ones
        return options

    async def _read_info(self, options: Options) -> metadata.Info:
        reading = {"--dump-single-json": None, "--skip-download": None}
        with self._info_file.open("xb") as output:
            result = await self._run({**options, **reading}, self.request.url, output=output)
        if result.exit_code or not self._info_file.stat().st_size:
            raise await self._error(result)
        info = await asyncio.to_thread(metadata.read_info, self._info_file, self.host)
        # Without its URL, yt-dlp downloads what was checked and does not read the page again.
        checked = {name: value for name, value in info.items() if name != "webpage_url"}
        await asyncio.to_thread(self._info_file.write_text, json.dumps(checked), encoding="utf-8")
        return info

    async def _downloaded_file(self, result: _YtdlpResult) -> Path:
        files = [
            path
            for path in self.directory.iterdir()
            if path.stem == NAME and path.suffix not in _UNFINISHED and _is_file(path)
        ]
        size = files[0].stat().st_size if len(files) == 1 else 0
        # If the proxy refused a fragment there may still be a file, with a gap in it.
        is_complete = size and not result.exit_code and self.proxy.refused is None
        is_too_large = is_complete and size > self.request.limits.max_bytes
        if is_too_large or "max-filesize" in result.stdout:
            raise metadata.too_large(self.request, self.host)
        if not is_complete:
            raise await self._error(result)
        return files[0]

    async def _error(self, result: _YtdlpResult) -> errors.JobFailed:
        """If the proxy refused an address, that caused everything else."""
        if self.proxy.refused is not None:
            return self.proxy.refused
        hidden = str(self.directory)
        error = metadata.known_error(result.stderr, self.host, hidden=hidden)
        if error is not None:
            return error
        version = (await self._run({"--version": None})).stdout.strip()
        return metadata.unknown_error(result.stderr, self.host, hidden=hidden, version=version)

    async def _run(
        self,
        options: Options,
        url: str = "",
        *,
        output: IO[bytes] | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> _YtdlpResult:
        """Run yt-dlp until it ends, or until the proxy has transferred the limit. Its standard
        output goes to the file `output`, or line by line to `on_line`."""
        execution = self._execute(options, url, output, on_line)
        result = await until_first_ends(execution, self.proxy.limit_reached.wait())
        if not isinstance(result, _YtdlpResult) or self.proxy.limit_reached.is_set():
            raise metadata.too_large(self.request, self.host)
        return result

    async def _execute(
        self,
        options: Options,
        url: str,
        output: IO[bytes] | None,
        on_line: Callable[[str], None] | None,
    ) -> _YtdlpResult:
        """Run yt-dlp to its end; it can reach nothing but the proxy."""
        directory = str(self.directory)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", fence.__file__),
            json.dumps({"writes": [directory], "port": self.proxy.port}),
            *(*self.command, *ARGUMENTS),
            cwd=directory,
            env={
                **inherited_environment("PATH", "LANG", "TZ", *_CERTIFICATES),
                **dict.fromkeys(_PROXIES, self.proxy.url),  # for children, above all ffmpeg
                "HOME": directory,
                "TMPDIR": directory,
                # A static ffmpeg crashes if it loads iconv modules of another C library (mpegts).
                "GCONV_PATH": "/nonexistent",
                "PYTHONUTF8": "1",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if output is None else output,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        lines = [
            name if value is None else f"{name} {shlex.quote(value)}"
            for name, value in options.items()
        ]
        lines.append(shlex.quote(url) if url else "")
        try:
            _, stdout, stderr = await asyncio.gather(
                _write(process.stdin, "\n".join(lines).encode()),
                _read_lines(process.stdout, on_line),
                _read_lines(process.stderr, None),
            )
            return _YtdlpResult(await process.wait(), stdout, stderr)
        finally:
            # Also ends an ffmpeg that it started.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


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
    while stream is not None and (data := await stream.read(_OUTPUT_BYTES)):
        tail = (tail + data)[-_OUTPUT_BYTES:]
        *lines, partial = (partial + data).split(b"\n")
        partial = partial[-_OUTPUT_BYTES:]
        if on_line is not None:
            for line in lines:
                on_line(line.decode("utf-8", "replace"))
    return tail.decode("utf-8", "replace")


@dataclass
class _Progress:
    """Reports the progress of files that are downloaded one after the other."""

    expected: int | None
    on_progress: OnProgress | None
    _finished: int = 0

    def parse(self, line: str) -> None:
        match = re.search(rf"{_PROGRESS} (\w+) (\d+) ([\d.]+|NA)\s*$", line)
        if match is None or self.on_progress is None:
            return
        current, total = int(match[2]), 0 if match[3] == "NA" else int(float(match[3]))
        if match[1] == "finished":
            self._finished += current
            current = total = 0
        done = self._finished + current
        if current and not total:
            self.on_progress(done, max(self.expected, done) if self.expected else None)
        else:
            self.on_progress(done, max(self._finished + total, self.expected or 0) or None)


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
