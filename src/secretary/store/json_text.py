"""JSON as both stores keep it: whatever JSON can say comes back unchanged."""

import json
from typing import Any


def dumps(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if is_text(text):
        return text
    return json.dumps(value, separators=(",", ":"))  # half a surrogate pair: escaped, it survives


def is_text(value: str) -> bool:
    """Whether it can be written as UTF-8."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
