"""Reads what an ingress route is sent: a form with or without a file, or JSON."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.exceptions import HTTPException

from ..errors import InvalidParameters
from ..file_names import disposed_name
from ..uploads import Upload, Uploads

#: A form has this many fields at the most.
MAX_FIELDS = 200
FILE_FIELDS = frozenset({"file", "files", "upload"})


@dataclass(slots=True)
class Form:
    fields: dict[str, Any] = field(default_factory=dict)
    upload: Upload | None = None


async def read_form(
    request: Request, uploads: Uploads, *, job_id: str, max_fields_bytes: int
) -> Form:
    """What stands in the body; where a body says nothing, the query is heard."""
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    match kind.lower():
        case b"multipart/form-data":
            boundary = options.get(b"boundary")
            if not boundary:
                raise InvalidParameters("The form has no boundary in its Content-Type")
            parts = _Parts(boundary, max_fields_bytes)
            form = await _read_multipart(request, parts, uploads, job_id)
        case b"application/x-www-form-urlencoded":
            form = Form(_decoded(await _text(request, max_fields_bytes)))
        case b"" | b"application/json":
            form = Form(_object(await _text(request, max_fields_bytes)))
        case _:
            raise InvalidParameters("The body must be a form or JSON, with its Content-Type")
    form.fields = {**request.query_params, **form.fields}
    if len(form.fields) > MAX_FIELDS:
        await uploads.remove(job_id)
        raise _too_many_fields()
    return form


async def _text(request: Request, max_bytes: int) -> str:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise InvalidParameters("The body is not UTF-8") from None


def _too_large(max_bytes: int) -> HTTPException:
    return HTTPException(413, f"The fields may have {max_bytes:,} bytes at the most")


def _too_many_fields() -> InvalidParameters:
    return InvalidParameters(f"A request may have {MAX_FIELDS} fields at the most")


def _decoded(text: str) -> dict[str, Any]:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise _too_many_fields() from None
    return dict(pairs)


def _object(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidParameters("The body is not JSON") from None
    if not isinstance(value, dict):
        raise InvalidParameters("The body must be a JSON object")
    return value


async def _read_multipart(request: Request, parts: "_Parts", uploads: Uploads, job_id: str) -> Form:
    """The file goes to disk while it comes; the fields may stand before and behind it."""
    stream = request.stream()
    upload: Upload | None = None
    if (name := await parts.next_file(stream)) is not None:
        upload = await uploads.receive(job_id, name, parts.file(stream))
    try:
        await parts.next_file(stream)  # there is no second one: this reads to the end
        fields = parts.fields()
    except BaseException:
        await uploads.remove(job_id)
        raise
    if upload is not None and not upload.size and not name:
        # What a browser sends for a file that nobody chose.
        await uploads.remove(job_id)
        upload = None
    return Form(fields, upload)


class _Parts:
    """A multipart body as it comes. The parser calls back; what it says is kept here until it
    is asked for, and of a file that is never more than one piece of the body."""

    def __init__(self, boundary: bytes, max_fields_bytes: int) -> None:
        self._max = max_fields_bytes
        self._size = 0
        self._fields: list[tuple[str, bytearray]] = []
        self._headers: dict[bytes, bytes] = {}
        self._header_name = bytearray()
        self._header_value = bytearray()
        #: The name of a file that has begun and was not fetched yet.
        self._file_name: str | None = None
        self._had_file = False
        self._in_file = False
        self._file_data: list[bytes] = []
        self._ended = False
        with _as_invalid():  # a boundary may be too long
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin,
                    "on_header_field": self._header_field,
                    "on_header_value": self._header_part,
                    "on_header_end": self._header_end,
                    "on_headers_finished": self._headers_end,
                    "on_part_data": self._data,
                    "on_part_end": self._part_end,
                    "on_end": self._end,
                },
            )

    async def next_file(self, stream: AsyncIterator[bytes]) -> str | None:
        """Read on until a file begins; its name, None at the end of the body."""
        while self._file_name is None:
            if not await self._feed(stream):
                if not self._ended:
                    raise InvalidParameters("The form ends too soon")
                return None
        name, self._file_name = self._file_name, None
        return name

    async def file(self, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The content of the file that has begun."""
        while True:
            data, self._file_data = self._file_data, []
            for piece in data:
                yield piece
            if not self._in_file:
                return
            if not await self._feed(stream):
                raise InvalidParameters("The file ends too soon")

    def fields(self) -> dict[str, Any]:
        try:
            return {name: value.decode() for name, value in self._fields}
        except UnicodeDecodeError:
            raise InvalidParameters("A field of the form is not UTF-8") from None

    async def _feed(self, stream: AsyncIterator[bytes]) -> bool:
        async for piece in stream:
            if piece:
                with _as_invalid():
                    self._parser.write(piece)
                return True
        return False

    # What the parser says

    def _begin(self) -> None:
        self._headers = {}
        if len(self._fields) >= MAX_FIELDS:
            raise _too_many_fields()

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def _header_part(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _header_end(self) -> None:
        self._headers[bytes(self._header_name).lower()] = bytes(self._header_value)
        self._header_name.clear()
        self._header_value.clear()

    def _headers_end(self) -> None:
        disposition = self._headers.get(b"content-disposition", b"")
        _, options = parse_options_header(disposition)
        name = options.get(b"name", b"").decode(errors="replace")
        file_name = disposed_name(disposition.decode(errors="replace"))
        self._in_file = file_name is not None or b"filename" in options
        if not self._in_file:
            self._fields.append((name, bytearray()))
            return
        if name not in FILE_FIELDS:
            raise InvalidParameters(f"{name[:100]}: a file is sent in the field `file`")
        if self._had_file:
            raise InvalidParameters("One request takes one file")
        self._had_file = True
        self._file_name = file_name or ""

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._in_file:
            self._file_data.append(data[start:end])
            return
        self._size += end - start
        if self._size > self._max:
            raise _too_large(self._max)
        self._fields[-1][1].extend(data[start:end])

    def _part_end(self) -> None:
        self._in_file = False

    def _end(self) -> None:
        self._ended = True


@contextmanager
def _as_invalid() -> Iterator[None]:
    try:
        yield
    except FormParserError:
        raise InvalidParameters("The form cannot be read") from None
