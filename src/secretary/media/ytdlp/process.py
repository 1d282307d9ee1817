"""Finds and runs yt-dlp: its options, its environment and its output."""

import asyncio
import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ...core.errors import EngineUnavailable
from ...core.processes import inherited_environment
from ...network import DownloadLimits
from ..ffmpeg import find_ffmpeg
from . import landlock
from .metadata import MediaKind

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
