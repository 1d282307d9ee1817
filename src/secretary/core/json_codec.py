"""JSON as bytes: results can be megabytes, and to write them must not hold up a process."""

import json
from typing import Any

import orjson


def encode_json(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        # Half a surrogate pair, a number of more than 64 bits: rare, and valid JSON all the same.
        return json.dumps(value, separators=(",", ":")).encode()


def encode_json_text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if is_valid_unicode(text):
        return text
    return json.dumps(value, separators=(",", ":"))  # half a surrogate pair: escaped, it survives


def is_valid_unicode(value: str) -> bool:
    """Whether it can be written as UTF-8."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
