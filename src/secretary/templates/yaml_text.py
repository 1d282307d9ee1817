"""Writes values as YAML that every reader takes for what they are, old (1.1) and new (1.2)."""

import re
from collections.abc import Iterator
from typing import Any

from .template import Json

#: Readers need not look further for the colon behind a key.
LONGEST_KEY = 1000

#: Of a text without quotes: to look through a very long one takes much memory.
LONGEST_BARE = 1000

#: What needs no quotes beyond doubt; a colon only inside a word, as in a URL.
BARE = re.compile(r"[^\W\d_](?:[\w ./,;()+&@=-]|:(?=[\w/])|(?<=\S)#(?=\w))*")
#: In whatever case they are something else than a text, to some reader.
WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf"})

#: Not to be written as they are: controls, breaks and marks that a reader refuses or changes.
HARMFUL = re.compile('[\x00-\x1f\x7f-\x9f"\\\\\u2028\u2029\ufeff\ufffe\uffff]')
NOT_IN_A_BLOCK = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
NAMED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


class UnwritableKey(ValueError):
    """A key that is too long."""


def written(key: str, value: Json) -> str:
    """One entry of a mapping, without the break at its end."""
    return "\n".join(_entry(key, value, ""))


def _entry(key: str, value: Json, pad: str) -> Iterator[str]:
    name = _text(key)
    if len(name) > LONGEST_KEY:
        raise UnwritableKey(f"The key {key[:40]}… is too long for a front matter")
    if isinstance(value, dict | list) and value:
        yield f"{pad}{name}:"
        yield from _inner(value, pad + "  ")
    else:
        yield f"{pad}{name}: {_scalar(value, pad)}"


def _inner(value: dict[str, Json] | list[Json], pad: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _entry(key, item, pad)
        return
    for item in value:
        if isinstance(item, dict | list) and item:
            lines = _inner(item, pad + "  ")
            yield f"{pad}- {next(lines).removeprefix(pad + '  ')}"
            yield from lines
        else:
            yield f"{pad}- {_scalar(item, pad)}"


def _scalar(value: Any, pad: str) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _float(value)
        case str():
            return _block(value, pad) or _text(value)
        case _:
            return "[]" if isinstance(value, list) else "{}"


def _float(value: float) -> str:
    """`1e+20` is a text to an old reader: there must be a point in it."""
    text = repr(value)
    return text if "." in text or "e" not in text else text.replace("e", ".0e")


def _text(text: str) -> str:
    return text if _needs_no_quotes(text) else '"' + HARMFUL.sub(_escaped, text) + '"'


def _needs_no_quotes(text: str) -> bool:
    if len(text) > LONGEST_BARE or not BARE.fullmatch(text):
        return False
    return text[-1] != " " and text.lower() not in WORDS


def _escaped(found: re.Match[str]) -> str:
    char = found[0]
    return NAMED.get(char) or (f"\\x{ord(char):02x}" if char < "\xff" else f"\\u{ord(char):04x}")


def _block(text: str, pad: str) -> str | None:
    """Several lines as they are, where nothing in them could be misread."""
    lines = text.split("\n")
    ends = len(lines) > 1 and not lines[-1]
    if ends:
        lines.pop()
    if len(lines) < 2 or not lines[-1] or lines[0][:1] in ("", " ", "\t"):
        return None
    if NOT_IN_A_BLOCK.search(text) or any(line and not line.strip() for line in lines):
        return None
    body = "\n".join(f"{pad}  {line}" if line else "" for line in lines)
    return f"{'|' if ends else '|-'}\n{body}"
