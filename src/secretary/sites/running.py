"""One run of yt-dlp: fenced, fed, listened to, and over with all it started when this is left."""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from . import program

_PIECE = 65536
#: The last words of a program are those that matter.
_KEPT = 65536


@dataclass(frozen=True, slots=True)
class Ran:
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
) -> Ran:
    process = await asyncio.create_subprocess_exec(
        *program.fenced([*command, *program.ARGUMENTS], port, directory),
        cwd=directory,
        env=program.environment(directory, proxy),
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
        return Ran(await process.wait(), said, complained)
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
