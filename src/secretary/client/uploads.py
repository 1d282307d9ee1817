"""Files on their way to the service: a multipart form that can be sent again from its beginning."""

import asyncio
import io
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

#: A path, the content itself, or something to read it from.
Source = str | os.PathLike[str] | bytes | bytearray | BinaryIO

PIECE_BYTES = 256 * 1024
#: What cannot be rewound is kept in memory up to here, then in a file.
SPOOL_BYTES = 8 * 1024 * 1024
FALLBACK_NAME = "upload"


class Form:
    """Fields and open files, each from where it stands; `pieces` begins anew each time."""

    def __init__(self, fields: Mapping[str, str], *files: tuple[BinaryIO, str]) -> None:
        boundary = secrets.token_hex(16)
        self.content_type = f"multipart/form-data; boundary={boundary}"
        self._fields = b"".join(
            _part(boundary, f'name="{_quoted(key)}"') + value.encode() + b"\r\n"
            for key, value in fields.items()
        )
        self._files = [_Content(boundary, file, name) for file, name in files]
        self._tail = f"--{boundary}--\r\n".encode()

    @property
    def length(self) -> int:
        return len(self._fields) + sum(one.length for one in self._files) + len(self._tail)

    async def pieces(self) -> AsyncIterator[bytes]:
        yield self._fields
        for content in self._files:
            async for piece in content.pieces():
                yield piece
        yield self._tail


class _Content:
    """One file of a form."""

    def __init__(self, boundary: str, file: BinaryIO, name: str) -> None:
        disposition = f'name="file"; filename="{_quoted(name)}"'
        self._head = _part(boundary, disposition, binary=True)
        self._file = file
        self._start = file.tell()
        file.seek(0, os.SEEK_END)
        self._size = file.tell() - self._start

    @property
    def length(self) -> int:
        return len(self._head) + self._size + 2

    async def pieces(self) -> AsyncIterator[bytes]:
        self._file.seek(self._start)
        yield self._head
        left = self._size
        # A file that grows meanwhile is sent as long as it was announced.
        while left and (piece := await asyncio.to_thread(self._file.read, min(left, PIECE_BYTES))):
            left -= len(piece)
            yield piece
        yield b"\r\n"


@asynccontextmanager
async def opened(source: Source, name: str | None = None) -> AsyncIterator[tuple[BinaryIO, str]]:
    """The file, at the place where it begins, and what it is called."""
    if isinstance(source, bytes | bytearray):
        yield io.BytesIO(source), name or FALLBACK_NAME
    elif isinstance(source, str | os.PathLike):
        with await asyncio.to_thread(open, source, "rb") as file:
            yield file, name or Path(source).name
    elif source.seekable():
        start = source.tell()
        try:
            yield source, name or _name_of(source)
        finally:
            source.seek(start)
    else:
        with tempfile.SpooledTemporaryFile(SPOOL_BYTES) as kept:
            await asyncio.to_thread(shutil.copyfileobj, source, kept)
            kept.seek(0)
            yield kept, name or _name_of(source)  # type: ignore[misc]  # it has all that a file has


def as_text(value: Any) -> str:
    """A value as a form has it."""
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat()
        case list() | tuple() if all(isinstance(part, str) for part in value):
            return ",".join(value)
        case dict() | list() | tuple():
            return json.dumps(value)
        case _:
            return str(value)


def _name_of(file: BinaryIO) -> str:
    name = getattr(file, "name", None)  # of other people's types
    return Path(name).name if isinstance(name, str) and name else FALLBACK_NAME


def _part(boundary: str, disposition: str, *, binary: bool = False) -> bytes:
    kind = "Content-Type: application/octet-stream\r\n" if binary else ""
    return (f"--{boundary}\r\nContent-Disposition: form-data; {disposition}\r\n{kind}\r\n").encode()


def _quoted(name: str) -> str:
    """As browsers do it."""
    return name.replace("\r", "%0D").replace("\n", "%0A").replace('"', "%22")
