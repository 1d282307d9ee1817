"""How results, messages and errors of a sandbox process reach the worker: as JSON of a known type.

The process may be under the control of a hostile document, so the worker never unpickles what it
sends: it validates the JSON against the return annotation of the function it has called.
"""

import builtins
import functools
import json
import traceback
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

from pydantic import BaseModel, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from ...core.callables import LazyCallable
from ...core.errors import JobFailed, SecretaryError
from ...core.job import replace_lone_surrogates

_TRACEBACK_CHARACTERS = 16_000
_ERROR_BYTES = 512 * 1024
#: Attributes of errors that are sent along; those with other types are dropped.
_ATTRIBUTES: Mapping[str, Any] = {
    "code": str,
    "details": dict[str, Any],
    "message": str,
    "partial": str,
}


class RemoteError(SecretaryError):
    """An exception of a type unknown to the worker; the message is the name of its type.

    Every exception from a sandbox has a `remote_traceback`: for the log, not for clients.
    """

    remote_traceback = ""


def return_type(function: Callable[..., Any]) -> Any:
    """The declared result of a function, also of a lazy or partial one. Without an annotation it
    is Any: whatever JSON can represent, and bytes."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type):
        return function
    if isinstance(function, LazyCallable):
        return type(None) if function.returns is None else function.returns
    try:
        return typing.get_type_hints(function).get("return", Any)
    except (NameError, TypeError):  # a name that exists for type checkers only, or a builtin
        return Any


@functools.lru_cache(256)
def _adapter(expected: Any) -> TypeAdapter[Any]:
    return TypeAdapter(expected)


def prepare(expected: Any) -> None:
    """Build what `encode` needs for this type, which takes a while for large ones."""
    _adapter(expected)


def encode(value: Any, expected: Any = Any) -> bytes:
    """JSON; of bytes the bytes themselves. Raises TypeError for what has no such form."""
    if isinstance(value, bytes):
        return b"b" + value
    try:
        adapter = _adapter(expected)
        try:
            return b"j" + adapter.dump_json(value, warnings=False)
        except (PydanticSerializationError, UnicodeEncodeError):
            plain = replace_lone_surrogates(adapter.dump_python(value, warnings=False))
            return b"j" + to_json(plain)
    except (PydanticSerializationError, PydanticUserError, UnicodeEncodeError) as error:
        raise TypeError(f"a {type(value).__name__} cannot be sent to the worker") from error


def decode(data: bytes, expected: Any = Any) -> Any:
    """The value, if it is of the expected type."""
    try:
        if data[:1] == b"b" and expected in (bytes, Any):
            return data[1:]
        if data[:1] == b"j" and expected is not bytes:
            return _adapter(expected).validate_json(memoryview(data)[1:].tobytes())
    except ValidationError as error:
        text = f"a sandbox process returned no valid {expected}: {error.error_count()} errors"
        raise RemoteError(text) from None
    raise RemoteError(f"a sandbox process returned no {expected}")


# Errors -----------------------------------------------------------------------------------------


class _ErrorRecord(BaseModel):
    #: The names of its type and of the bases of that, up to `Exception`.
    types: list[str]
    traceback: str
    #: Only plain values.
    arguments: list[str | int | float | bool | None] | None
    attributes: dict[str, Any]
    retry_after_s: float | None = None


def encode_error(error: BaseException) -> bytes:
    """Its type, traceback and, for errors of this package and of Python, its content."""
    text = "".join(traceback.format_exception(error))[-_TRACEBACK_CHARACTERS:]
    is_known = isinstance(error, JobFailed) or type(error).__module__ == "builtins"
    types = [_qualified(each) for each in type(error).__mro__[:-2]]
    record: dict[str, Any] = {"types": types, "traceback": text, "attributes": {}}
    record["arguments"] = [*error.args] if is_known and isinstance(error, Exception) else None
    with suppress(Exception):  # whatever its attributes are, its type and traceback arrive
        if isinstance(error, JobFailed):
            attributes = {name: getattr(error, name, None) for name in _ATTRIBUTES}
            record["attributes"] = {name: item for name, item in attributes.items() if item}
        if isinstance(error, JobFailed) and error.retry_after is not None:
            record["retry_after_s"] = error.retry_after.total_seconds()
        data = _error_json(record)
        if len(data) <= _ERROR_BYTES:
            _ErrorRecord.model_validate_json(data)
            return data
    return _error_json({**record, "arguments": None, "attributes": {}, "retry_after_s": None})


def _error_json(record: dict[str, Any]) -> bytes:
    return json.dumps(replace_lone_surrogates(record)).encode()


def decode_error(data: bytes) -> Exception:
    """The exception, or a `RemoteError` if its type is neither ours nor Python's."""
    try:
        record = _ErrorRecord.model_validate_json(data)
    except ValidationError:
        return RemoteError("a sandbox process failed without a valid error")
    name = record.types[0].rpartition(".")[2] if record.types else "Exception"
    error: Exception = RemoteError(name)
    if record.arguments is not None:
        with suppress(Exception):  # arguments that its type refuses
            error = _rebuild(record) or error
    error.__dict__["remote_traceback"] = record.traceback
    # A note is shown when the error is logged, but is not part of its message.
    error.add_note(f"In the sandbox process:\n{record.traceback}")
    return error


def _rebuild(record: _ErrorRecord) -> Exception | None:
    first = record.types[0]
    if first.startswith("builtins."):
        builtin = getattr(builtins, first.removeprefix("builtins."), None)
        if isinstance(builtin, type) and issubclass(builtin, Exception):
            return builtin(*record.arguments or ())
        return None
    # An error type of a user's handler may exist only in the child: take its closest known base.
    # Other errors of this package, such as a lost lease, are never a child's to report.
    known = {_qualified(each): each for each in _error_types(JobFailed)}
    known_type = next((known[name] for name in record.types if name in known), None)
    if known_type is None:
        return None
    error = known_type.__new__(known_type, *record.arguments or ())
    error.args = tuple(record.arguments or ())
    for name, kind in _ATTRIBUTES.items():
        value = record.attributes.get(name)
        if value is not None and value != getattr(error, name, None):
            error.__dict__[name] = _adapter(kind).validate_python(value)
    error.__dict__.setdefault("details", {})
    error.__dict__.setdefault("message", str(error))
    if record.retry_after_s is not None:
        error.retry_after = timedelta(seconds=record.retry_after_s)
    return error


def _error_types(base: type[JobFailed]) -> Iterator[type[JobFailed]]:
    yield base
    for each in base.__subclasses__():
        yield from _error_types(each)


def _qualified(each: type) -> str:
    return f"{each.__module__}.{each.__qualname__}"
