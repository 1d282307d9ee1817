"""Reads what an ingress route is sent: a form with or without a file, or JSON."""

import json
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic.alias_generators import to_snake
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.exceptions import HTTPException

from ..core.errors import InvalidParameters
from ..core.file_types import disposed_name
from ..core.job import new_id
from ..storage.uploads import Upload, Uploads

#: A form has this many fields at the most.
MAX_FIELDS = 200
FILE_FIELDS = frozenset({"file", "files", "upload"})


@dataclass(slots=True)
class Form:
    fields: dict[str, Any] = field(default_factory=dict)
    upload: Upload | None = None


@dataclass(slots=True)
class FilesForm:
    """Each file is the upload of a job of its own."""

    fields: dict[str, Any]
    uploads: list[Upload]


async def read_form(
    request: Request, uploads: Uploads, *, job_id: str, max_fields_bytes: int
) -> Form:
    """What stands in the body; where a body says nothing, the query is heard."""
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    match kind.lower():
        case b"multipart/form-data":
            parts = _Parts(_boundary(options), max_fields_bytes)
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


async def read_files(
    request: Request, uploads: Uploads, *, max_files: int, max_fields_bytes: int
) -> FilesForm:
    """Several files, written one after another as they come; all of them, or none is left."""
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind.lower() != b"multipart/form-data":
        raise InvalidParameters("The body must be a multipart form, with its Content-Type")
    parts = _Parts(_boundary(options), max_fields_bytes, max_files)
    stream = request.stream()
    received: list[Upload] = []
    try:
        while (name := await parts.next_file(stream)) is not None:
            upload = await uploads.receive(new_id("job"), name, parts.file(stream))
            if name or upload.size:
                received.append(upload)
            else:  # what a browser sends for a file that nobody chose
                await uploads.remove(upload.job_id)
        fields = {**request.query_params, **parts.fields()}
        if len(fields) > MAX_FIELDS:
            raise _too_many_fields()
        return FilesForm(fields, received)
    except BaseException:
        for upload in received:
            await uploads.remove(upload.job_id)
        raise


def _boundary(options: dict[bytes, bytes]) -> bytes:
    boundary = options.get(b"boundary")
    if not boundary:
        raise InvalidParameters("The form has no boundary in its Content-Type")
    return boundary


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


@dataclass(slots=True)
class _File:
    """A file that has begun: its name, and what has come of it and was not fetched yet."""

    name: str
    data: list[bytes] = field(default_factory=list)
    ended: bool = False


class _Parts:
    """A multipart body as it comes. The parser calls back; what it says is kept here until it
    is asked for, and of files that is never more than one piece of the body."""

    def __init__(self, boundary: bytes, max_fields_bytes: int, max_files: int = 1) -> None:
        self._max = max_fields_bytes
        self._max_files = max_files
        self._size = 0
        self._fields: list[tuple[str, bytearray]] = []
        self._headers: dict[bytes, bytes] = {}
        self._header_name = bytearray()
        self._header_value = bytearray()
        #: Files that have begun and were not fetched yet: a piece of a body may hold several.
        self._waiting: deque[_File] = deque()
        self._count = 0
        #: The file whose data comes, and the one that is fetched.
        self._coming: _File | None = None
        self._fetched = _File("")
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
        while not self._waiting:
            if not await self._feed(stream):
                if not self._ended:
                    raise InvalidParameters("The form ends too soon")
                return None
        self._fetched = self._waiting.popleft()
        return self._fetched.name

    async def file(self, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The content of the file that `next_file` named."""
        file = self._fetched
        while True:
            data, file.data = file.data, []
            for piece in data:
                yield piece
            if file.ended:
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
        if file_name is None and b"filename" not in options:
            self._fields.append((name, bytearray()))
            return
        if name not in FILE_FIELDS:
            raise InvalidParameters(f"{name[:100]}: a file is sent in the field `file`")
        self._count += 1
        if self._count > self._max_files:
            many = f"{self._max_files} files at the most" if self._max_files > 1 else "one file"
            raise InvalidParameters(f"One request takes {many}")
        self._coming = _File(file_name or "")
        self._waiting.append(self._coming)

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._coming is not None:
            self._coming.data.append(data[start:end])
            return
        self._size += end - start
        if self._size > self._max:
            raise _too_large(self._max)
        self._fields[-1][1].extend(data[start:end])

    def _part_end(self) -> None:
        if self._coming is not None:
            self._coming.ended = True
            self._coming = None

    def _end(self) -> None:
        self._ended = True


@contextmanager
def _as_invalid() -> Iterator[None]:
    try:
        yield
    except FormParserError:
        raise InvalidParameters("The form cannot be read") from None


#: No field is called longer; to find the words in a name takes time by the square of its length.
LONGEST_NAME = 100
#: A form has only texts: these are JSON in it.
JSON_IN_FORMS = ("webhook", "access_control")


class Fields:
    """Those that say something. They are taken by their names in snake case; `rest` are those that
    nobody took, as the client spelled them."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.rest = {name: value for name, value in given.items() if value not in ("", None)}
        self._spelled = {to_snake(name): name for name in self.rest if len(name) <= LONGEST_NAME}

    def __contains__(self, name: str) -> bool:
        return name in self._spelled

    def take(self, names: Iterable[str]) -> dict[str, Any]:
        found = [name for name in names if name in self._spelled]
        taken = {name: self.rest.pop(self._spelled.pop(name)) for name in found}
        read = {name: from_json(name, taken[name]) for name in JSON_IN_FORMS if name in taken}
        return taken | read


def from_json(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise InvalidParameters(f"{name}: it must be JSON") from None


def callback(taken: Mapping[str, Any]) -> dict[str, Any]:
    """The webhook that `callback_url` and its companions name."""
    return {
        "url": taken["callback_url"],
        "token": taken.get("callback_token"),
        "jobId": taken.get("job_id"),
    }
