"""Runs ffmpeg with limits: it reads one file and nothing else."""

import contextlib
import os
import selectors
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ..core import errors
from ..core.files import detect_file_type
from ..core.processes import inherited_environment, running_program

#: The ffmpeg demuxers for each file type. Formats that reference other files (playlists, manifests,
#: image sequences) are left out on purpose: ffmpeg would open whatever they name.
_SAME_NAMES = (
    "aac", "aiff", "amr", "asf", "au", "avi", "caf", "flac", "flv", "mp3", "mpegts", "ogg", "w64",
    "wav",
)  # fmt: skip
DEMUXERS = {name: (name,) for name in _SAME_NAMES} | {
    "mp4": ("mov",),
    "mpeg": ("mpeg", "mpegvideo"),
    "webm": ("matroska",),
}
#: How much of stderr is kept from its start (the stream list) and from its end (the errors).
_STDERR_BYTES = 256 * 1024
_READ_BYTES = 64 * 1024
_MAX_ALLOCATION = 256 * 1024 * 1024
#: Seconds between calls of `on_tick`.
_TICK_S = 0.1


@dataclass(frozen=True, slots=True)
class FfmpegResult:
    exit_code: int
    #: Long output is cut in the middle.
    stderr: str


def find_ffmpeg(path: str | None = None) -> str:
    """Return the configured program, else the system's, else the one from imageio-ffmpeg."""
    program = shutil.which(path or "ffmpeg")
    if program is None and path is None:
        with contextlib.suppress(ImportError, RuntimeError):
            import imageio_ffmpeg

            program = str(imageio_ffmpeg.get_ffmpeg_exe())
    if program is None:
        raise errors.EngineUnavailable(
            "ffmpeg is not installed: install ffmpeg, or the Python package imageio-ffmpeg"
        )
    return os.path.abspath(program)


def detect_container(path: str) -> str:
    """Return the file type; raise if ffmpeg may not open it."""
    if not os.path.getsize(path):
        raise errors.FileCorrupt("The file is empty")
    file_type = detect_file_type(Path(path))
    if file_type not in DEMUXERS:
        raise errors.UnsupportedFile(
            "The file is not a supported audio or video format", kind=file_type
        )
    return file_type


def input_arguments(path: str, *, options: Sequence[str] = ()) -> list[str]:
    """Return the arguments that open a file with the demuxer for its content, and no other file.

    `options` (such as a start time) come before the file name. For some containers ffmpeg counts
    time from the start of the selected track, not of the first one. To compare times across
    tracks, pass `-copyts` and subtract the `start` of the recording.
    """
    demuxers = DEMUXERS[detect_container(path)]
    forced = ["-f", demuxers[0]] if len(demuxers) == 1 else []
    return [
        "-threads", "1",
        "-protocol_whitelist", "file,pipe",
        # Some demuxers open a second one, for example for subtitles inside an AVI.
        "-format_whitelist", ",".join(demuxers),
        *forced,
        *options,
        "-i", f"file:{os.path.abspath(path)}",
    ]  # fmt: skip


def run_ffmpeg(
    arguments: Sequence[str],
    *,
    timeout_s: float,
    program: str | None = None,
    level: str = "error",
    directory: str | None = None,
    on_output: Callable[[bytes], None] | None = None,
    on_tick: Callable[[], None] | None = None,
) -> FfmpegResult:
    """Run ffmpeg to its end, whatever its exit code. `on_output` receives its standard output,
    `on_tick` is called ten times a second; an exception in either stops ffmpeg."""
    command = [
        find_ffmpeg(program),
        "-nostdin", "-hide_banner", "-nostats", "-loglevel", level,
        "-max_alloc", str(_MAX_ALLOCATION),
        *arguments,
    ]  # fmt: skip
    environment = {
        **inherited_environment(),
        "LC_ALL": "C",
        "AV_LOG_FORCE_NOCOLOR": "1",
        # A statically linked ffmpeg crashes if it loads an iconv module of another libc, which
        # the name of a TV station can trigger.
        "GCONV_PATH": "/nonexistent",
    }
    stderr = bytearray()

    def keep_errors(data: bytes) -> None:
        stderr.extend(data)
        if len(stderr) > 3 * _STDERR_BYTES:
            del stderr[_STDERR_BYTES:-_STDERR_BYTES]

    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with running_program(command, env=environment, cwd=directory, bufsize=0, **pipes) as process:
        assert process.stdout is not None and process.stderr is not None
        consumers = {process.stdout: on_output or (lambda _: None), process.stderr: keep_errors}
        deadline = time.monotonic() + timeout_s
        try:
            _drain(consumers, deadline, on_tick)
            exit_code = process.wait(timeout=max(deadline - time.monotonic(), 1))
        except (TimeoutError, subprocess.TimeoutExpired):
            text = f"ffmpeg did not finish within {timeout_s:g} s"
            raise errors.ProcessingTimeout(text, timeout_s=timeout_s) from None
        if exit_code < 0:
            raise errors.WorkerCrashed("ffmpeg crashed while reading the file")
        return FfmpegResult(exit_code, stderr.decode(errors="replace"))


def _drain(
    consumers: dict[IO[bytes], Callable[[bytes], None]],
    deadline: float,
    on_tick: Callable[[], None] | None,
) -> None:
    next_tick = time.monotonic() + _TICK_S
    with selectors.DefaultSelector() as selector:
        for pipe, consume in consumers.items():
            selector.register(pipe, selectors.EVENT_READ, consume)
        while selector.get_map():
            ready = selector.select(timeout=_TICK_S)
            now = time.monotonic()
            if now > deadline:
                raise TimeoutError
            if on_tick is not None and now >= next_tick:
                on_tick()
                next_tick = now + _TICK_S
            for key, _ in ready:
                data = os.read(key.fd, _READ_BYTES)
                if data:
                    key.data(data)
                else:
                    selector.unregister(key.fileobj)


def bounded(content: bytearray, limit_bytes: int, what: str) -> Callable[[bytes], None]:
    """Return a consumer that collects output and raises when it exceeds a limit."""

    def append(data: bytes) -> None:
        content.extend(data)
        if len(content) > limit_bytes:
            raise errors.FileTooLarge(f"{what} are larger than allowed", limit_bytes=limit_bytes)

    return append
