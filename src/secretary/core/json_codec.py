"""JSON encoding, and texts without control characters. Results can be tens of megabytes: large
values are encoded off the event loop."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import orjson

T = TypeVar("T")
R = TypeVar("R")

#: Values of about this size are handled in a thread; for smaller ones that costs more than it
#: saves.
LARGE_BYTES = 64 * 1024
#: What a number, a key or an empty container counts.
_NODE_BYTES = 16
#: Objects are encoded member by member down to this depth (a response has its results at the
#: third level), and lists in slices: a slice of pages takes milliseconds.
_SPLIT_DEPTH = 4
_SLICE_ITEMS = 16


def encode_json(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        # A lone surrogate or an integer of more than 64 bits: rare, but valid JSON.
        return json.dumps(value, separators=(",", ":")).encode()


def encode_json_text(value: Any) -> str:
    """Raises ValueError for NaN and infinity."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if is_valid_unicode(text):
        return text
    return json.dumps(value, separators=(",", ":"))  # escaped, a lone surrogate survives


def encode_strict_json(value: Any) -> bytes:
    return encode_json_text(value).encode()


def is_valid_unicode(text: str) -> bool:
    """Whether the text can be encoded as UTF-8: it has no lone surrogates."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


#: Control characters other than tabs and line breaks.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
#: Those that separate words: vertical tab, form feed, next line.
_SEPARATORS = "\x0b\x0c\x85"


def clean_text(text: str) -> str:
    """The text without control characters: documents and models produce them, and databases, XML
    and terminals choke on them."""
    return _CONTROL.sub(lambda match: " " if match[0] in _SEPARATORS else "", text)


def clean_texts(value: T) -> T:
    """JSON with all its texts and keys cleaned."""
    cleaned: Any = value
    if isinstance(value, str):
        cleaned = clean_text(value)
    elif isinstance(value, dict):
        cleaned = {clean_texts(key): clean_texts(item) for key, item in value.items()}
    elif isinstance(value, list):
        cleaned = [clean_texts(item) for item in value]
    return cast(T, cleaned)


def is_large(value: Any) -> bool:
    """Whether the value is too large for the event loop. Looks at no more than it has to."""
    left, pending = LARGE_BYTES, [value]
    while pending:
        item = pending.pop()
        left -= _NODE_BYTES
        if isinstance(item, str | bytes):
            left -= len(item)
        elif isinstance(item, dict):
            left -= _NODE_BYTES * len(item)
            pending += item.values() if left > 0 else ()
        elif isinstance(item, list | tuple):
            left -= _NODE_BYTES * len(item)
            pending += item if left > 0 else ()
        if left <= 0:
            return True
    return False


async def off_loop(function: Callable[[T], R], value: T) -> R:
    """Call the function, in a thread if the value is large."""
    return await asyncio.to_thread(function, value) if is_large(value) else function(value)


async def encode_off_loop(value: Any, encode: Callable[[Any], bytes] = encode_json) -> bytes:
    """Encode a value: what exceeds `LARGE_BYTES` in a thread. Cheaper than measuring it first."""
    if not _may_be_large(value):
        return encode(value)
    parts, encoded, size = _encoded_parts(value, encode), list[bytes](), 0
    if not _has_long_text(value):
        for part in parts:
            encoded.append(part)
            size += len(part)
            if size > LARGE_BYTES:
                break
        else:
            return b"".join(encoded)
    return await asyncio.to_thread(lambda: b"".join((*encoded, *parts)))


def _may_be_large(value: Any) -> bool:
    """Whether it has a long text or list; does not look into long lists."""
    pending = [value]
    for item in pending:  # a loop over exact types: every response passes through here
        kind = type(item)
        if (kind is str and len(item) > LARGE_BYTES) or (kind is list and len(item) > _SLICE_ITEMS):
            return True
        pending += item.values() if kind is dict else item if kind is list else ()
    return False


def _has_long_text(value: Any, depth: int = _SPLIT_DEPTH) -> bool:
    if isinstance(value, dict):
        return depth > 0 and any(_has_long_text(item, depth - 1) for item in value.values())
    return isinstance(value, str) and len(value) > LARGE_BYTES


def encode_in_parts(value: Any, encode: Callable[[Any], bytes] = encode_json) -> bytes:
    """Encode a value without stopping other threads: an encoder holds the interpreter lock, so one
    call for a large value would stop the event loop even from a thread."""
    return b"".join(_encoded_parts(value, encode)) if _may_be_large(value) else encode(value)


def _encoded_parts(
    value: Any, encode: Callable[[Any], bytes], depth: int = _SPLIT_DEPTH
) -> Iterator[bytes]:
    if value and depth and isinstance(value, dict) and all(isinstance(key, str) for key in value):
        for number, (key, item) in enumerate(value.items()):
            yield b"%b%b:" % (b"," if number else b"{", encode(key))
            yield from _encoded_parts(item, encode, depth - 1)
        yield b"}"
    elif isinstance(value, list) and len(value) > _SLICE_ITEMS:
        for start in range(0, len(value), _SLICE_ITEMS):
            yield b"," if start else b"["
            yield encode(value[start : start + _SLICE_ITEMS])[1:-1]
        yield b"]"
    else:
        yield encode(value)
