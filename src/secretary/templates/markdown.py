"""Writes a value into the body of a document, as fits the place where it stands."""

import json
import re

from .template import Json, Place

#: No text has a use for them, and many programs take a file with one for no text at all.
CONTROLS = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 127])
IN_A_LINK = re.compile(r"[\s()<>\"'\\]")
PIPE = re.compile(r"(?<!\\)\|")


def written(value: Json, place: Place, *, from_model: bool) -> str:
    match place.form:
        case "alone":
            first, *rest = _lines(value, place.bullet) or [""]
            return "\n".join([first, *((place.lead + line).rstrip() for line in rest)])
        case "open" | "labelled" if from_model and isinstance(value, str) and not place.bullet:
            return _clean(value)
        case "cell":
            return _in_a_cell(value)
        case "link":
            return IN_A_LINK.sub(_percent, one_line(value))
        case "link text":
            return re.sub(r"([\[\]])", r"\\\1", one_line(value))
        case _:
            return one_line(value)


def one_line(value: Json) -> str:
    """Any value as a part of a sentence."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str():
            return " ".join(_clean(value).split())
        case list():
            return ", ".join(text for item in value if (text := one_line(item)))
        case dict():
            pairs = ((key, one_line(item)) for key, item in value.items())
            return "; ".join(f"{one_line(key)}: {text}" for key, text in pairs if text)
        case _:
            return json.dumps(value)


def _lines(value: Json, bullet: str) -> list[str]:
    """Without what the template itself has before the first."""
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        first, *rest = _table(value)
        return [first, *(" " * len(bullet) + line for line in rest)]
    if isinstance(value, list):
        return _items([_block(item) for item in value], bullet)
    if isinstance(value, dict):
        pairs = ((one_line(key), one_line(item)) for key, item in value.items())
        return _items([f"{key}: {text}" for key, text in pairs if text], bullet)
    first, *rest = _block(value).split("\n")
    return [first, *(" " * len(bullet) + line for line in rest)]


def _block(value: Json) -> str:
    return _clean(value) if isinstance(value, str) else one_line(value)


def _items(texts: list[str], bullet: str) -> list[str]:
    own, bullet = bullet, bullet or "- "
    lines: list[str] = []
    for text in filter(None, texts):
        first, *rest = text.split("\n")
        lines.append(first if own and not lines else bullet + first)
        lines += [" " * len(bullet) + line for line in rest]
    return lines


def _table(rows: list[dict[str, Json]]) -> list[str]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, ["---"] * len(names)]
    lines += [[_in_a_cell(row.get(name)) for name in names] for row in rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def _in_a_cell(value: Json) -> str:
    return PIPE.sub(r"\\|", one_line(value))


def _clean(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n").translate(CONTROLS)
    return text.strip("\n").rstrip()


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())
