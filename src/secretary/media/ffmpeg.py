"""How the ffmpeg program is found and started: it reads one file, and nothing else."""

import os
import selectors
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ..core.errors import (
    EngineUnavailable,
    FileCorrupt,
    FileTooLarge,
    ProcessingTimeout,
    UnsupportedFile,
    WorkerCrashed,
)
from ..core.file_types import detect_file_type
from ..core.processes import inherited_environment, running_program

_MISSING = "ffmpeg is not installed: install ffmpeg, or the Python package imageio-ffmpeg"
#: Who reads each kind. All that name other files (playlists, manifests, patterns of pictures) are
#: missing on purpose: ffmpeg would open what they name, and its guess is not ours.
DEMUXERS = {
    "aac": ("aac",),
    "aiff": ("aiff",),
    "amr": ("amr",),
    "asf": ("asf",),
    "au": ("au",),
    "avi": ("avi",),
    "caf": ("caf",),
    "flac": ("flac",),
    "flv": ("flv",),
    "mp3": ("mp3",),
    "mp4": ("mov",),
    "mpeg": ("mpeg", "mpegvideo"),
    "mpegts": ("mpegts",),
    "ogg": ("ogg",),
    "w64": ("w64",),
    "wav": ("wav",),
    "webm": ("matroska",),
}
#: A program's last words are at the end, and those on what a file holds at the beginning.
_SAID_BYTES = 256 * 1024
_CHUNK_BYTES = 64 * 1024
_MAX_BLOCK_BYTES = 256 * 1024 * 1024
#: How often somebody looks at what has been made.
_LOOK_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    #: On its standard error; the middle is left out where it is long.
    said: str


def program_at(path: str | None = None) -> str:
    """The one that is asked for, else the system's, else the one in a Python package."""
    found = shutil.which(path or "ffmpeg") or (None if path else _packaged())
    if found is None:
        raise EngineUnavailable(_MISSING)
    return os.path.abspath(found)


def _packaged() -> str | None:
    try:
        import imageio_ffmpeg

        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except (ImportError, RuntimeError):
        return None


def media_kind(path: str) -> str:
    """The kind of a file that can be opened; all others are refused here."""
    if not os.path.getsize(path):
        raise FileCorrupt("The file is empty")
    kind = detect_file_type(Path(path))
    if kind not in DEMUXERS:
        raise UnsupportedFile("The file is no sound or video of a kind that can be read", kind=kind)
    return kind


def opening(path: str, *, threads: int = 1, options: Sequence[str] = ()) -> list[str]:
    """The arguments by which a file is opened: as what its content says it is, and by itself.

    `options` (a place to begin at, for instance) are said before its name. In some kinds of files
    ffmpeg counts time from where the track begins that is read, not the first of them. To compare
    the times of tracks, say `-copyts` and take a recording's `start` from them.
    """
    demuxers = DEMUXERS[media_kind(path)]
    forced = ["-f", demuxers[0]] if len(demuxers) == 1 else []
    return [
        "-threads", str(threads),
        "-protocol_whitelist", "file,pipe",
        # Also for readers that would open a second one, for subtitles inside an AVI for instance.
        "-format_whitelist", ",".join(demuxers),
        *forced,
        *options,
        "-i", f"file:{os.path.abspath(path)}",
    ]  # fmt: skip


def run(
    arguments: Sequence[str],
    *,
    timeout_s: float,
    program: str | None = None,
    level: str = "error",
    directory: str | None = None,
    take: Callable[[bytes], None] | None = None,
    look: Callable[[], None] | None = None,
) -> Ended:
    """Runs to its end, however it ends. `take` gets what it writes to its standard output, `look`
    is called now and then; what they raise ends the program."""
    command = [
        program_at(program),
        "-nostdin", "-hide_banner", "-nostats", "-loglevel", level,
        "-max_alloc", str(_MAX_BLOCK_BYTES),
        *arguments,
    ]  # fmt: skip
    environment = {
        **inherited_environment(),
        "LC_ALL": "C",
        "AV_LOG_FORCE_NOCOLOR": "1",
        # A program that is linked statically crashes when it loads a converter of another libc, as
        # it would for the name of a TV station.
        "GCONV_PATH": "/nonexistent",
    }
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with running_program(command, env=environment, cwd=directory, bufsize=0, **pipes) as process:
        assert process.stdout is not None and process.stderr is not None
        said = _Said()
        takers = {process.stdout: take or _forget, process.stderr: said.take}
        deadline = time.monotonic() + timeout_s
        _drain(takers, deadline, timeout_s, look)
        try:
            code = process.wait(timeout=max(deadline - time.monotonic(), 1))
        except subprocess.TimeoutExpired:
            raise _late(timeout_s) from None
        if code < 0:
            raise WorkerCrashed("ffmpeg crashed while it read the file")
        return Ended(code, said.text())


def _drain(
    takers: dict[IO[bytes], Callable[[bytes], None]],
    deadline: float,
    timeout_s: float,
    look: Callable[[], None] | None,
) -> None:
    next_look = time.monotonic() + _LOOK_EVERY_S
    with selectors.DefaultSelector() as selector:
        for pipe, take in takers.items():
            selector.register(pipe, selectors.EVENT_READ, take)
        while selector.get_map():
            ready = selector.select(timeout=_LOOK_EVERY_S)
            now = time.monotonic()
            if now > deadline:
                raise _late(timeout_s)
            if look is not None and now >= next_look:
                look()
                next_look = now + _LOOK_EVERY_S
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK_BYTES)
                if chunk:
                    key.data(chunk)
                else:
                    selector.unregister(key.fileobj)


def _late(timeout_s: float) -> ProcessingTimeout:
    text = f"ffmpeg did not finish within {timeout_s:g} s"
    return ProcessingTimeout(text, timeout_s=timeout_s)


def _forget(_: bytes) -> None:
    pass


class _Said:
    """The beginning and the end of what is said, however much it is."""

    def __init__(self) -> None:
        self._begin = bytearray()
        self._end = bytearray()

    def take(self, chunk: bytes) -> None:
        room = _SAID_BYTES - len(self._begin)
        self._begin += chunk[:room]
        self._end += chunk[room:]
        if len(self._end) > 2 * _SAID_BYTES:
            del self._end[:-_SAID_BYTES]

    def text(self) -> str:
        return (self._begin + self._end).decode(errors="replace")


class Collected:
    """What a program writes, up to a limit."""

    def __init__(self, limit_bytes: int, what: str) -> None:
        self._limit_bytes = limit_bytes
        self._what = what
        self._content = bytearray()

    def take(self, chunk: bytes) -> None:
        self._content += chunk
        if len(self._content) > self._limit_bytes:
            text = f"{self._what} are larger than allowed"
            raise FileTooLarge(text, limit_bytes=self._limit_bytes)

    def text(self) -> str:
        return self._content.decode(errors="replace")
