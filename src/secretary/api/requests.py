"""Reads requests: shared parameters, forms and JSON bodies, and uploads as they arrive."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
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
from ..core.files import disposed_name, safe_name
from ..core.http_headers import read_traceparent
from ..core.job import LARGE_FIELDS, JobStatus, new_id
from ..jobs import submission
from ..jobs.service import JobService
from ..jobs.submission import UtcDatetime
from ..storage.sources import FALLBACK_NAME, Upload, Uploads

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
    uploads: list[Upload] = field(default_factory=list)

    @property
    def upload(self) -> Upload | None:
        return self.uploads[0] if self.uploads else None


async def read_form(request: Request, uploads: Uploads, *, job_id: str, max_files: int = 1) -> Form:
    """Read a body. All of its files belong to one job."""
    media_type, options = parse_options_header(request.headers.get("content-type", ""))
    match media_type.lower():
        case b"multipart/form-data":
            return await _read_multipart(request, options, uploads, lambda: job_id, max_files)
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
    """Read a multipart form with several files, each of its own job; if one fails, none is
    kept."""
    media_type, options = parse_options_header(request.headers.get("content-type", ""))
    if media_type.lower() != b"multipart/form-data":
        raise InvalidParameters("The body must be a multipart form, with a matching Content-Type")
    return await _read_multipart(request, options, uploads, lambda: new_id("job"), max_files)


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
    request: Request,
    options: Mapping[bytes, bytes],
    uploads: Uploads,
    job_id: Callable[[], str],
    max_files: int = 1,
) -> Form:
    """Write the files to disk as they arrive; fields may come before and after them. `options` are
    those of the Content-Type."""
    if not (boundary := options.get(b"boundary")):
        raise InvalidParameters("The Content-Type of the form has no boundary")
    fields: list[tuple[str, bytearray]] = []
    received: list[Upload] = []
    file_count, field_bytes, max_bytes = 0, 0, request.app.state.max_body_bytes
    try:
        async with aclosing(_parse_multipart(request, boundary)) as events:
            async for name, file_name in _parts(events):
                if len(fields) >= MAX_FIELDS:
                    raise _too_many_fields()
                if file_name is None:
                    fields.append((name, bytearray()))
                    async for data in _content(events, "form"):
                        fields[-1][1].extend(data)
                        field_bytes += len(data)
                        if field_bytes > max_bytes:
                            raise _too_large(max_bytes)
                    continue
                file_count += 1
                if file_count > max_files:
                    many = f"at most {max_files} files" if max_files > 1 else "one file"
                    raise InvalidParameters(f"A request may have {many}")
                content = _content(events, "file")
                if not file_name:
                    first = await anext(content, None)
                    if first is None:  # browsers send this for an empty file input
                        continue
                    content = _prepended(first, content)
                upload_id = job_id()
                name = _unused_name(file_name, upload_id, received)
                received.append(await uploads.receive(upload_id, name, content))
        try:
            texts = {name: value.decode() for name, value in fields}
        except UnicodeDecodeError:
            raise InvalidParameters("A form field is not valid UTF-8") from None
        return Form(_with_query(request, texts), received)
    except BaseException:
        for upload in received:
            await uploads.remove(upload.job_id)
        raise


async def _prepended(
    first: memoryview, content: AsyncIterator[memoryview]
) -> AsyncIterator[memoryview]:
    yield first
    async for data in content:
        yield data


def _unused_name(name: str, job_id: str, received: Sequence[Upload]) -> str:
    """Another name if the job has a file of this name already."""
    safe, number = safe_name(name) or FALLBACK_NAME, 1
    # Some file systems do not distinguish upper and lower case.
    taken = {upload.name.casefold() for upload in received if upload.job_id == job_id}
    unused = safe
    while unused.casefold() in taken:
        number += 1
        unused = safe_name(f"{number}-{safe}")
    return unused


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


#: What the parser reports of a body.
_EVENTS = (
    "header_field", "header_value", "header_end", "headers_finished", "part_data", "part_end",
    "end",
)  # fmt: skip
_Events = AsyncGenerator[tuple[str, memoryview], None]


async def _parse_multipart(request: Request, boundary: bytes) -> _Events:
    """Parse a body as it arrives. No more than one chunk of it is in memory."""
    events: list[tuple[str, memoryview]] = []

    def collect(kind: str) -> Callable[..., None]:
        return lambda data=b"", start=0, end=0: events.append((kind, memoryview(data)[start:end]))

    try:
        callbacks: Any = {f"on_{kind}": collect(kind) for kind in _EVENTS}
        parser = MultipartParser(boundary, callbacks)
        async for chunk in request.stream():
            parser.write(chunk)
            for event in events:
                yield event
            events.clear()
    except FormParserError:  # the boundary may be too long, too
        raise InvalidParameters("The form is malformed") from None


async def _parts(events: _Events) -> AsyncIterator[tuple[str, str | None]]:
    """The name of each field, and of its file if it has one; read the content of a part before
    you continue with the next."""
    headers: dict[bytes, bytes] = {}
    header, value, is_complete = b"", b"", False
    async for kind, data in events:
        match kind:
            case "header_field":
                header += data
            case "header_value":
                value += data
            case "header_end":
                headers[header.lower()] = value
                header = value = b""
            case "headers_finished":
                yield _part_names(headers.get(b"content-disposition", b""))
                headers = {}
            case "end":
                is_complete = True
    if not is_complete:
        raise InvalidParameters("The form is incomplete")


def _part_names(disposition: bytes) -> tuple[str, str | None]:
    _, options = parse_options_header(disposition)
    name = options.get(b"name", b"").decode(errors="replace")
    file_name = disposed_name(disposition.decode(errors="replace"))
    if file_name is None and b"filename" not in options:
        return name, None
    if name not in FILE_FIELDS:
        raise InvalidParameters(f"{name[:100]}: send files in the field `file`")
    return name, file_name or ""


async def _content(events: _Events, whole: str) -> AsyncIterator[memoryview]:
    """The content of the current part, which belongs to a form or file as a whole."""
    async for kind, data in events:
        if kind == "part_end":
            return
        yield data
    raise InvalidParameters(f"The {whole} is incomplete")


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
