"""The program yt-dlp: where it is, and how it is told what to do."""

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

from ...config import DownloadLimits
from ...core.errors import EngineUnavailable
from ...core.processes import inherited_environment
from ..ffmpeg import find_ffmpeg
from . import landlock
from .metadata import MediaKind

MISSING = (
    "Pages and video sites need the program yt-dlp, which is not installed:"
    " pip install 'secretary[sites]'"
)
#: Of the files that it makes.
NAME = "media"
HIGHEST = 720
#: Only what is fetched by http: no other program is started for it, and no other port used.
_BY_HTTP = "[protocol~='^(https?|m3u8(_native)?|http_dash_segments(_generator)?)$']"
#: What ffmpeg may take a file for that was fetched: no playlist that leads it to other files.
_CONTAINERS = "mov,matroska,webm,mpegts,mp3,aac,ogg,flac,wav,flv,avi,webvtt,srt,ass,ttml"
_PROXIES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
PROGRESS = "secretary-progress"
_PROGRESS = (
    f"download:{PROGRESS} %(progress.status)s %(progress.downloaded_bytes)s"
    " %(progress.total_bytes,progress.total_bytes_estimate)s"
)
_AUTHORITIES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def find_ytdlp() -> list[str]:
    """
    The command that runs yt-dlp. Our own environment comes first: what an operator installs there
    is for us, while a system's own is often years old.
    """
    if importlib.util.find_spec("yt_dlp") is not None:
        # -P: modules are not looked for where the downloads lie.
        return [sys.executable, "-P", "-m", "yt_dlp"]
    program = shutil.which("yt-dlp")
    if program is None:
        raise EngineUnavailable(MISSING)
    return [program]


def with_landlock(command: Iterable[str], port: int, directory: Path) -> list[str]:
    """The same command, in a fence."""
    return [sys.executable, "-I", "-S", landlock.__file__, str(port), str(directory), *command]


def environment(directory: Path, proxy: str) -> dict[str, str]:
    return {
        **inherited_environment("PATH", "LANG", "TZ", *_AUTHORITIES),
        **dict.fromkeys(_PROXIES, proxy),  # for what yt-dlp starts, ffmpeg above all
        "HOME": str(directory),
        "TMPDIR": str(directory),
        # A static ffmpeg breaks when it loads the converters of another C library (mpegts).
        "GCONV_PATH": "/nonexistent",
        "PYTHONUTF8": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


#: The whole command line: all else, the proxy's secret above all, is not for everyone to see.
ARGUMENTS = ("--ignore-config", "--config-locations", "-")

Options = Mapping[str, str | None]


def encode_options(options: Options, url: str = "") -> bytes:
    """Options as yt-dlp reads them from its standard input."""
    pairs = options.items()
    lines = [name if value is None else f"{name} {shlex.quote(value)}" for name, value in pairs]
    return "\n".join([*lines, shlex.quote(url) if url else ""]).encode()


#: Nothing of the machine or its user is to play a part.
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
    "--abort-on-unavailable-fragments": None,  # a recording with a hole is not one
    "--format-sort": f"res:{HIGHEST},vcodec:h264",
    "--downloader": "native",
    "--hls-prefer-native": None,
    # The one exception, for encrypted pieces. What is in them is not to name files of ours.
    "--downloader-args": "ffmpeg_i:-protocol_whitelist http,https,tls,tcp,httpproxy,crypto,data",
    "--postprocessor-args": (
        f"ffmpeg_i:-protocol_whitelist file,pipe -format_whitelist {_CONTAINERS}"
    ),
    "--output": f"{NAME}.%(ext)s",
}


def options(
    directory: Path, proxy: str, want: MediaKind, limits: DownloadLimits
) -> dict[str, str | None]:
    """What holds whenever it runs for one recording."""
    ffmpeg = _ffmpeg()
    given = {
        **_ALWAYS,
        "--proxy": proxy,
        "--paths": str(directory),
        "--socket-timeout": f"{limits.idle.total_seconds():g}",
        "--max-filesize": str(limits.max_bytes),
        "--format": _format(want, may_merge=ffmpeg is not None),
    }
    if ffmpeg is not None:
        given["--ffmpeg-location"] = ffmpeg
    if any(os.environ.get(name) for name in _AUTHORITIES):
        given["--compat-options"] = "no-certifi"  # else they would be passed over
    return given


def subtitle_options(languages: Iterable[str], *, automatic: bool) -> dict[str, str | None]:
    named = ",".join(map(re.escape, languages))
    if not named:
        return {}
    written = "--write-auto-subs" if automatic else "--write-subs"
    return {
        written: None,
        "--sub-langs": named,
        "--sub-format": "vtt/srt/best",
        "--convert-subs": "vtt",
    }


def progress_options() -> dict[str, str | None]:
    return {"--progress": None, "--newline": None, "--progress-template": _PROGRESS}


def _format(want: MediaKind, *, may_merge: bool) -> str:
    """The smallest that serves: sound alone for a transcript, slides that can still be read."""
    low = f"[height<=?{HIGHEST}]{_BY_HTTP}"
    if want == "audio":
        return f"ba{_BY_HTTP}/w{_BY_HTTP}/w*{_BY_HTTP}"
    single = f"b{low}/w{_BY_HTTP}/w*{_BY_HTTP}"
    return f"bv*{low}+ba{_BY_HTTP}/{single}" if may_merge else single


def _ffmpeg() -> str | None:
    """To put picture and sound together that come apart; None: such are not chosen."""
    try:
        return find_ffmpeg()
    except EngineUnavailable:
        return None


_PIECE = 65536
#: The last words of a program are those that matter.
_KEPT = 65536


@dataclass(frozen=True, slots=True)
class YtdlpResult:
    code: int
    said: str
    complained: str


async def run(
    command: Sequence[str],
    told: bytes,
    *,
    directory: Path,
    proxy: str,
    port: int,
    output: IO[bytes] | None = None,
    on_line: Callable[[str], None] | None = None,
) -> YtdlpResult:
    process = await asyncio.create_subprocess_exec(
        *with_landlock([*command, *ARGUMENTS], port, directory),
        cwd=directory,
        env=environment(directory, proxy),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if output is None else output,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        _, said, complained = await asyncio.gather(
            _feed(process.stdin, told),
            _lines(process.stdout, on_line),
            _lines(process.stderr, None),
        )
        return YtdlpResult(await process.wait(), said, complained)
    finally:
        # ffmpeg may be at work below it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _feed(stream: asyncio.StreamWriter | None, told: bytes) -> None:
    assert stream is not None
    with contextlib.suppress(ConnectionError):  # it ended before it had read all
        stream.write(told)
        await stream.drain()
    stream.close()


async def _lines(stream: asyncio.StreamReader | None, on_line: Callable[[str], None] | None) -> str:
    """The end of what is said, each line shown to `on_line` when it is complete."""
    kept, begun = b"", b""
    while stream is not None and (piece := await stream.read(_PIECE)):
        kept = (kept + piece)[-_KEPT:]
        *lines, begun = (begun + piece).split(b"\n")
        begun = begun[-_KEPT:]
        if on_line is not None:
            for line in lines:
                on_line(line.decode("utf-8", "replace"))
    return kept.decode("utf-8", "replace")
