"""A reader of front matter as an existing client application has it: line by line, without YAML."""

import json
import re
from typing import Any

PLAIN_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")


def client_front_matter(markdown: str) -> dict[str, Any]:
    """One `key: value` a line. A value in quotes, brackets or braces is JSON; `true`, `false` and
    plain numbers have their types; everything else, `null` too, is a text."""
    first, *lines = markdown.split("\n")
    assert first == "---"
    fields: dict[str, Any] = {}
    for line in lines[: lines.index("---")]:
        key, colon, value = line.partition(":")
        assert colon, line
        fields[key] = _value(value.strip())
    return fields


def _value(text: str) -> Any:
    if text[:1] in ('"', "[", "{"):
        return json.loads(text)
    if text in ("true", "false"):
        return text == "true"
    if PLAIN_NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return text
