"""JSON as bytes: results can be megabytes, and to write them must not hold up a process."""

import json
from typing import Any

import orjson


def json_bytes(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        # Half a surrogate pair, a number of more than 64 bits: rare, and valid JSON all the same.
        return json.dumps(value, separators=(",", ":")).encode()
