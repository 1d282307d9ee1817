"""Multipart uploads that can be sent again from the beginning."""

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

#: A path, the content itself, or an open file.
Source = str | os.PathLike[str] | bytes | bytearray | BinaryIO

CHUNK_BYTES = 256 * 1024
#: A stream that cannot be rewound is buffered in memory up to this size, then on disk.
SPOOL_BYTES = 8 * 1024 * 1024
DEFAULT_FILE_NAME = "upload"


class Form:
    """A multipart form of fields and open files; `chunks` can be called repeatedly."""

    def __init__(self, fields: Mapping[str, str], *files: tuple[BinaryIO, str]) -> None:
        boundary = secrets.token_hex(16)
        self.content_type = f"multipart/form-data; boundary={boundary}"
        self._fields = b"".join(
            _part_header(boundary, f'name="{_quote(key)}"') + value.encode() + b"\r\n"
            for key, value in fields.items()
        )
        self._files = [_FilePart(boundary, file, name) for file, name in files]
        self._end = f"--{boundary}--\r\n".encode()

    @property
    def length(self) -> int:
        return len(self._fields) + sum(part.length for part in self._files) + len(self._end)

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._fields
        for part in self._files:
            async for chunk in part.chunks():
                yield chunk
        yield self._end


class _FilePart:
    """A file of a form, read from its current position."""

    def __init__(self, boundary: str, file: BinaryIO, name: str) -> None:
        disposition = f'name="file"; filename="{_quote(name)}"'
        self._header = _part_header(boundary, disposition, binary=True)
        self._file = file
        self._start = file.tell()
        file.seek(0, os.SEEK_END)
        self._size = file.tell() - self._start

    @property
    def length(self) -> int:
        return len(self._header) + self._size + 2

    async def chunks(self) -> AsyncIterator[bytes]:
        self._file.seek(self._start)
        yield self._header
        remaining = self._size
        # Of a file that grows meanwhile, send only the announced length.
        while remaining:
            chunk = await asyncio.to_thread(self._file.read, min(remaining, CHUNK_BYTES))
            if not chunk:
                break
            remaining -= len(chunk)
            yield chunk
        yield b"\r\n"


@asynccontextmanager
async def open_source(
    source: Source, name: str | None = None
) -> AsyncIterator[tuple[BinaryIO, str]]:
    """Open a source as a seekable file, and determine its name."""
    if isinstance(source, bytes | bytearray):
        yield io.BytesIO(source), name or DEFAULT_FILE_NAME
    elif isinstance(source, str | os.PathLike):
        with await asyncio.to_thread(open, source, "rb") as file:
            yield file, name or Path(source).name
    elif source.seekable():
        start = source.tell()
        try:
            yield source, name or _file_name(source)
        finally:
            source.seek(start)
    else:
        with tempfile.SpooledTemporaryFile(SPOOL_BYTES) as buffer:
            await asyncio.to_thread(shutil.copyfileobj, source, buffer)
            buffer.seek(0)
            yield buffer, name or _file_name(source)  # type: ignore[misc]  # has all methods of one


def form_value(value: Any) -> str:
    """Encode a value as a form field."""
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


def _file_name(file: BinaryIO) -> str:
    name = getattr(file, "name", None)  # other file-like types may lack it
    return Path(name).name if isinstance(name, str) and name else DEFAULT_FILE_NAME


def _part_header(boundary: str, disposition: str, *, binary: bool = False) -> bytes:
    content_type = "Content-Type: application/octet-stream\r\n" if binary else ""
    header = f"Content-Disposition: form-data; {disposition}\r\n{content_type}"
    return f"--{boundary}\r\n{header}\r\n".encode()


def _quote(name: str) -> str:
    """Escape a name as browsers do."""
    return name.replace("\r", "%0D").replace("\n", "%0A").replace('"', "%22")
