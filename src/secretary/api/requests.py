"""Reads requests: shared parameters, forms and JSON bodies, and uploads as they arrive."""

import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qsl

from fastapi import Header, Path, Query, Request
from pydantic import WithJsonSchema
from pydantic.alias_generators import to_snake
from pydantic.json_schema import SkipJsonSchema
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.exceptions import HTTPException

from ..core.errors import InvalidParameters
from ..core.files import disposed_name
from ..core.http_headers import read_traceparent
from ..core.job import JobStatus, new_id
from ..jobs import submission
from ..jobs.service import JobService
from ..jobs.submission import UtcDatetime
from ..storage.sources import Upload, Uploads

#: Fields that lists omit unless `include` asks for them.
LARGE_FIELDS = frozenset({"results", "logs"})
ARCHIVED: dict[str, bool | None] = {"false": False, "true": True, "all": None}

UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def _id_of(kind: str) -> Any:
    """Documented, not enforced: an id of another form is a 404, like one that does not exist."""
    return Path(json_schema_extra={"pattern": f"^{kind}-{UUID}$"})


def _comma_separated(*names: str) -> WithJsonSchema:
    one = "|".join(names)
    item = {"type": "string", "pattern": f"^(({one})(,({one}))*)?$"}
    return WithJsonSchema({"type": "array", "items": item})


JobId = Annotated[str, _id_of("job")]
BatchId = Annotated[str, _id_of("batch")]
#: No job has more deliveries than a store can count.
DeliveryNumber = Annotated[int, Path(ge=1, le=2**31 - 1)]

OptionalText = str | SkipJsonSchema[None]
StatusFilter = Annotated[
    list[str] | None,
    _comma_separated(*JobStatus),
    Query(description="One or more states, separated by commas"),
]
IncludeLarge = Annotated[
    list[str] | None,
    _comma_separated(*sorted(LARGE_FIELDS)),
    Query(description="`results`, `logs` or both"),
]
IncludeJobs = Annotated[
    list[str] | None, _comma_separated("jobs"), Query(description="`jobs` adds the jobs")
]
TimeFilter = Annotated[
    UtcDatetime | None,
    WithJsonSchema({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "number"}]}),
    Query(description="A time with its UTC offset, or seconds since 1970"),
]
ArchivedFilter = Annotated[
    Literal["false", "true", "all"], Query(description="`true`: only archived ones")
]
Limit = Annotated[int, Query(ge=1, le=1000)]
Cursor = Annotated[
    OptionalText,
    Query(description="`next_cursor` of the previous page", json_schema_extra={"minLength": 1}),
]
IdempotencyKey = Annotated[
    OptionalText,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="Retrying with the same key and body returns the first response",
        json_schema_extra={"pattern": r"\S"},
    ),
]


def job_service_of(request: Request) -> JobService:
    job_service: JobService = request.app.state.job_service
    return job_service


def read_statuses(texts: list[str] | None) -> frozenset[JobStatus] | None:
    names = read_names("status", texts, tuple(JobStatus))
    return frozenset(JobStatus(name) for name in names) or None


def read_names(parameter: str, texts: list[str] | None, allowed: Sequence[str]) -> frozenset[str]:
    """Read `?x=a,b&x=c` as {a, b, c}."""
    names = frozenset(part for text in texts or () for part in text.split(",") if part)
    if unknown := names - set(allowed):
        listed, valid = ", ".join(sorted(unknown)), ", ".join(allowed)
        raise InvalidParameters(f"{parameter}: {listed!r} is not one of {valid}")
    return names


R = TypeVar("R", bound=submission.Request)


def with_trace(request: Request, submitted: R) -> R:
    """The submission with the trace context of its request, unless it names its own."""
    traceparent: str | None = request.scope["state"].get("traceparent")
    traceparent = traceparent or read_traceparent(request.headers.get("traceparent"))
    if traceparent is None or submitted.traceparent is not None:
        return submitted
    return submitted.model_copy(update={"traceparent": traceparent})


MAX_FIELDS = 200
FILE_FIELDS = frozenset({"file", "files", "upload"})


@dataclass(slots=True)
class Form:
    fields: dict[str, Any] = field(default_factory=dict)
    #: Each file is the upload of its own job.
    uploads: list[Upload] = field(default_factory=list)

    @property
    def upload(self) -> Upload | None:
        return self.uploads[0] if self.uploads else None


async def read_form(request: Request, uploads: Uploads, *, job_id: str) -> Form:
    """Read a body with at most one file."""
    media_type, options = parse_options_header(request.headers.get("content-type", ""))
    match media_type.lower():
        case b"multipart/form-data":
            parts = _MultipartReader(options, request.app.state.max_body_bytes)
            return await _read_multipart(request, parts, uploads, lambda: job_id)
        case b"application/x-www-form-urlencoded":
            text = await _text(request)
            try:
                pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS)
            except ValueError:
                raise _too_many_fields() from None
            return Form(_with_query(request, dict(pairs)))
        case b"" | b"application/json":
            text = await _text(request)
            try:
                value = json.loads(text) if text.strip() else {}
            except (ValueError, RecursionError):
                raise InvalidParameters("The body is not valid JSON") from None
            if not isinstance(value, dict):
                raise InvalidParameters("The body must be a JSON object")
            return Form(_with_query(request, value))
    raise InvalidParameters("The body must be a form or JSON, with a matching Content-Type")


async def read_files(request: Request, uploads: Uploads, *, max_files: int) -> Form:
    """Read a multipart form with several files; if one fails, none is kept."""
    media_type, options = parse_options_header(request.headers.get("content-type", ""))
    if media_type.lower() != b"multipart/form-data":
        raise InvalidParameters("The body must be a multipart form, with a matching Content-Type")
    parts = _MultipartReader(options, request.app.state.max_body_bytes, max_files)
    return await _read_multipart(request, parts, uploads, lambda: new_id("job"))


async def _text(request: Request) -> str:
    body, max_bytes = bytearray(), request.app.state.max_body_bytes
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise InvalidParameters("The body is not valid UTF-8") from None


async def _read_multipart(
    request: Request, parts: "_MultipartReader", uploads: Uploads, job_id: Callable[[], str]
) -> Form:
    """Write the files to disk as they arrive; fields may come before and after them."""
    stream = request.stream()
    received: list[Upload] = []
    try:
        while (name := await parts.next_file(stream)) is not None:
            upload = await uploads.receive(job_id(), name, parts.file(stream))
            if name or upload.size:
                received.append(upload)
            else:  # browsers send this for an empty file input
                await uploads.remove(upload.job_id)
        return Form(_with_query(request, parts.fields()), received)
    except BaseException:
        await remove_uploads(uploads, received)
        raise


async def remove_uploads(uploads: Uploads, received: Iterable[Upload]) -> None:
    for upload in received:
        await uploads.remove(upload.job_id)


def _with_query(request: Request, fields: dict[str, Any]) -> dict[str, Any]:
    """Fields that the body does not set are taken from the query string."""
    fields = {**request.query_params, **fields}
    if len(fields) > MAX_FIELDS:
        raise _too_many_fields()
    return fields


def _too_large(max_bytes: int) -> HTTPException:
    return HTTPException(413, f"The fields exceed the limit of {max_bytes:,} bytes")


def _too_many_fields() -> InvalidParameters:
    return InvalidParameters(f"A request may have at most {MAX_FIELDS} fields")


@dataclass(slots=True)
class _IncomingFile:
    """A file that has started to arrive, with the data not yet consumed."""

    name: str
    data: list[bytes] = field(default_factory=list)
    ended: bool = False


class _MultipartReader:
    """Parses a multipart body incrementally. Parser callbacks buffer fields and files until they
    are consumed; of a file, that is never more than one chunk of the body."""

    def __init__(
        self, options: Mapping[bytes, bytes], max_fields_bytes: int, max_files: int = 1
    ) -> None:
        """`options` are those of the Content-Type."""
        if not (boundary := options.get(b"boundary")):
            raise InvalidParameters("The Content-Type of the form has no boundary")
        self._max = max_fields_bytes
        self._max_files = max_files
        self._size = 0
        self._fields: list[tuple[str, bytearray]] = []
        self._headers: dict[bytes, bytes] = {}
        self._header_name = name = bytearray()
        self._header_value = value = bytearray()
        #: Files not yet returned by `next_file`: one chunk of the body may hold several.
        self._started: deque[_IncomingFile] = deque()
        self._count = 0
        #: The file that is being parsed, and the one that is being consumed.
        self._parsing: _IncomingFile | None = None
        self._consuming = _IncomingFile("")
        self._ended = False
        with _parser_errors():  # the boundary may be too long
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin,
                    "on_header_field": lambda data, start, end: name.extend(data[start:end]),
                    "on_header_value": lambda data, start, end: value.extend(data[start:end]),
                    "on_header_end": self._header_end,
                    "on_headers_finished": self._headers_end,
                    "on_part_data": self._data,
                    "on_part_end": self._part_end,
                    "on_end": self._end,
                },
            )

    async def next_file(self, stream: AsyncIterator[bytes]) -> str | None:
        """Parse until the next file starts; return its name, or None at the end of the body."""
        while not self._started:
            if not await self._feed(stream):
                if not self._ended:
                    raise InvalidParameters("The form is incomplete")
                return None
        self._consuming = self._started.popleft()
        return self._consuming.name

    async def file(self, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The content of the file that `next_file` returned."""
        file = self._consuming
        while True:
            data, file.data = file.data, []
            for chunk in data:
                yield chunk
            if file.ended:
                return
            if not await self._feed(stream):
                raise InvalidParameters("The file is incomplete")

    def fields(self) -> dict[str, Any]:
        try:
            return {name: value.decode() for name, value in self._fields}
        except UnicodeDecodeError:
            raise InvalidParameters("A form field is not valid UTF-8") from None

    async def _feed(self, stream: AsyncIterator[bytes]) -> bool:
        async for chunk in stream:
            if chunk:
                with _parser_errors():
                    self._parser.write(chunk)
                return True
        return False

    # Parser callbacks

    def _begin(self) -> None:
        self._headers = {}
        if len(self._fields) >= MAX_FIELDS:
            raise _too_many_fields()

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
            raise InvalidParameters(f"{name[:100]}: send files in the field `file`")
        self._count += 1
        if self._count > self._max_files:
            many = f"at most {self._max_files} files" if self._max_files > 1 else "one file"
            raise InvalidParameters(f"A request may have {many}")
        self._parsing = _IncomingFile(file_name or "")
        self._started.append(self._parsing)

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._parsing is not None:
            self._parsing.data.append(data[start:end])
            return
        self._size += end - start
        if self._size > self._max:
            raise _too_large(self._max)
        self._fields[-1][1].extend(data[start:end])

    def _part_end(self) -> None:
        if self._parsing is not None:
            self._parsing.ended = True
            self._parsing = None

    def _end(self) -> None:
        self._ended = True


@contextmanager
def _parser_errors() -> Iterator[None]:
    try:
        yield
    except FormParserError:
        raise InvalidParameters("The form is malformed") from None


#: No known field has a longer name; converting a name to snake case takes quadratic time.
MAX_NAME_LENGTH = 100
#: Fields that forms carry as JSON text.
JSON_FIELDS = ("webhook", "access_control")


class Fields:
    """The non-empty fields of a request. `take` finds them by their snake_case names; `rest` are
    the remaining ones as the client spelled them."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.rest = {name: value for name, value in given.items() if value not in ("", None)}
        self._spellings = {
            to_snake(name): name for name in self.rest if len(name) <= MAX_NAME_LENGTH
        }

    def __contains__(self, name: object) -> bool:
        return name in self._spellings

    def take(
        self, names: Iterable[str], callback: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Fields taken earlier may describe a webhook as `callback_url`, `callback_token` and
        `jobId`."""
        present = [name for name in names if name in self._spellings]
        taken = {name: self.rest.pop(self._spellings.pop(name)) for name in present}
        taken |= {name: parse_json(name, taken[name]) for name in JSON_FIELDS if name in taken}
        if callback and "callback_url" in callback and "webhook" not in taken:
            taken["webhook"] = {
                "url": callback["callback_url"],
                "token": callback.get("callback_token"),
                "jobId": callback.get("job_id"),
            }
        return taken


def parse_json(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise InvalidParameters(f"{name}: must be JSON") from None
