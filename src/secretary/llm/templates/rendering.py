"""Makes the document: the template with all its values in place."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ...core.errors import InvalidParameters, UpstreamFailed
from . import front_matter
from .parsing import NAME, TEXT
from .template import Entry, Json, Mixed, Place, Section, Slot, Template
from .values import as_asked, faults_of, is_empty, plain

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
        return _markdown_items([_block(item) for item in value], bullet)
    if isinstance(value, dict):
        pairs = ((one_line(key), one_line(item)) for key, item in value.items())
        return _markdown_items([f"{key}: {text}" for key, text in pairs if text], bullet)
    first, *rest = _block(value).split("\n")
    return [first, *(" " * len(bullet) + line for line in rest)]


def _block(value: Json) -> str:
    return _clean(value) if isinstance(value, str) else one_line(value)


def _markdown_items(texts: list[str], bullet: str) -> list[str]:
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


@dataclass(frozen=True, slots=True)
class Rendered:
    markdown: str
    #: What the front matter holds, as JSON.
    front_matter: dict[str, Json]
    #: What the model answered, by field.
    structured_data: dict[str, Json]
    warnings: list[str] = field(default_factory=list)


def render(
    template: Template, context: Mapping[str, Any], filled: Mapping[str, Any], text: str
) -> Rendered:
    """Raises `UpstreamFailed` when `filled` is not what the template asks for. A value is never
    looked through for further slots, whatever it holds."""
    if faults := faults_of(template.fields, filled):
        told = "; ".join(faults[:10])
        raise UpstreamFailed(f"The answer of the language model does not fit: {told}")
    answers = {one.name: as_asked(one.kind, plain(filled[one.name])) for one in template.fields}
    values = {TEXT: plain(text), NAME: template.name, **plain(context), **answers}
    missing = [name for name in template.keys if values.get(name) is None]
    values |= dict.fromkeys(missing, "")
    body = _body(template, values, frozenset(answers))
    front_matter = {entry.key: _value(entry.value, values) for entry in template.entries}
    return Rendered(
        markdown=_joined(_head(template.entries, front_matter), body),
        front_matter=front_matter,
        structured_data=answers,
        warnings=[f"There is no value for `{name}`: it is left empty" for name in missing],
    )


def _head(entries: tuple[Entry, ...], values: Mapping[str, Json]) -> str:
    try:
        return "".join(
            f"{entry.verbatim or front_matter.written(entry.key, values[entry.key])}\n"
            for entry in entries
        )
    except front_matter.UnwritableKey as error:
        raise InvalidParameters(str(error)) from None


def _value(value: Any, values: Mapping[str, Json]) -> Json:
    match value:
        case Slot(name):
            return values[name]
        case Mixed(pieces):
            return "".join(
                one_line(values[piece.name]) if isinstance(piece, Slot) else piece
                for piece in pieces
            )
        case dict():
            return {key: _value(item, values) for key, item in value.items()}
        case list():
            return [item for part in value for item in _items(part, values)]
        case _:
            return value


def _items(part: Any, values: Mapping[str, Json]) -> list[Json]:
    """A list that stands as an item of a list becomes a part of it."""
    value = _value(part, values)
    return value if isinstance(part, Slot) and isinstance(value, list) else [value]


def _body(template: Template, values: Mapping[str, Json], answered: frozenset[str]) -> str:
    """A section in which all values are empty, and nothing else is, is left out."""
    places = iter(template.places)
    written = [_section(section, values, places, answered) for section in template.sections]
    kept: list[str] = []
    level_below = 0
    for section, text in zip(reversed(template.sections), reversed(written), strict=True):
        if level_below <= section.level and _is_idle(section, values):
            continue
        kept.append(text)
        level_below = section.level
    return "".join(reversed(kept))


def _section(
    section: Section,
    values: Mapping[str, Json],
    places: Iterator[Place],
    answered: frozenset[str],
) -> str:
    """An empty value that has a line for itself, or with a label, takes the line with it."""
    parts: list[str] = []
    gone: Literal["line", "blank"] | None = None
    for piece in (*section.heading, *section.pieces):
        if isinstance(piece, Slot):
            place = next(places)
            text = written(values[piece.name], place, from_model=piece.name in answered)
            gone = "line" if place.form in ("alone", "labelled") and not text else None
            if not gone:
                parts.append(text)
            elif place.lead or place.bullet or place.form == "labelled":
                parts.pop()
        elif gone == "line":
            gone = "blank" if _is_open(parts) else None
        elif gone == "blank" and piece == "\n":
            continue
        else:
            gone = None
            parts.append(piece)
    return "".join(parts)


def _is_open(parts: list[str]) -> bool:
    """Whether an empty line comes before, or nothing."""
    return not parts or (parts[-1] == "\n" and all(part.endswith("\n") for part in parts[-2:-1]))


def _is_idle(section: Section, values: Mapping[str, Json]) -> bool:
    slots = [piece for piece in section.pieces if isinstance(piece, Slot)]
    return (
        section.level > 0
        and bool(slots)
        and all(is_empty(values[slot.name]) for slot in slots)
        and not any(isinstance(piece, Slot) for piece in section.heading)
        and not any(isinstance(piece, str) and piece.strip() for piece in section.pieces)
    )


def _joined(head: str, body: str) -> str:
    body = body.strip("\n")
    if head:
        return f"---\n{head}---\n\n{body}\n" if body else f"---\n{head}---\n"
    # Without a front matter of its own the document must not get one from a value.
    return f"***{body[3:]}\n" if body.startswith("---") else f"{body}\n"
