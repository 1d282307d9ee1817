"""Renders a template: writes the values into the front matter and the body."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ...core.errors import InvalidParameters, UpstreamFailed
from . import front_matter
from .parsing import NAME_KEY, SOURCE_KEY
from .template import Entry, Interpolation, Json, Section, Slot, SlotPosition, Template
from .values import is_empty, normalize_answer, to_json, validate_answer


@dataclass(frozen=True, slots=True)
class Rendered:
    markdown: str
    #: The front matter, as JSON.
    front_matter: dict[str, Json]
    #: The answers of the model, by field.
    structured_data: dict[str, Json]
    warnings: list[str] = field(default_factory=list)


def render(
    template: Template, context: Mapping[str, Any], filled: Mapping[str, Any], text: str
) -> Rendered:
    """Render the template. Raises `UpstreamFailed` if `filled` does not match its fields. Slots
    inside values are never expanded."""
    if faults := validate_answer(template.fields, filled):
        problems = "; ".join(faults[:10])
        raise UpstreamFailed(f"The answer of the language model is not valid: {problems}")
    answers = {
        one.name: normalize_answer(one.field_type, to_json(filled[one.name]))
        for one in template.fields
    }
    values = {SOURCE_KEY: to_json(text), NAME_KEY: template.name, **to_json(context), **answers}
    missing = [name for name in template.context_keys if values.get(name) is None]
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
            f"{entry.verbatim or front_matter.dump_entry(entry.key, values[entry.key])}\n"
            for entry in entries
        )
    except front_matter.UnwritableKey as error:
        raise InvalidParameters(str(error)) from None


def _value(value: Any, values: Mapping[str, Json]) -> Json:
    match value:
        case Slot(name):
            return values[name]
        case Interpolation(pieces):
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
    """A list in the slot of a list item is merged into the list."""
    value = _value(part, values)
    return value if isinstance(part, Slot) and isinstance(value, list) else [value]


def _body(template: Template, values: Mapping[str, Json], answered: frozenset[str]) -> str:
    """The body, without sections that contain nothing but empty values."""
    positions = iter(template.positions)
    texts = [_section(section, values, positions, answered) for section in template.sections]
    rendered: list[str] = []
    level_below = 0
    for section, text in zip(reversed(template.sections), reversed(texts), strict=True):
        if level_below <= section.level and _has_only_empty_values(section, values):
            continue
        rendered.append(text)
        level_below = section.level
    return "".join(reversed(rendered))


def _section(
    section: Section,
    values: Mapping[str, Json],
    positions: Iterator[SlotPosition],
    answered: frozenset[str],
) -> str:
    """An empty value that is alone on its line, or after a label, removes the line."""
    parts: list[str] = []
    gone: Literal["line", "blank"] | None = None
    for piece in (*section.heading, *section.pieces):
        if isinstance(piece, Slot):
            position = next(positions)
            text = render_value(values[piece.name], position, from_model=piece.name in answered)
            gone = "line" if position.form in ("alone", "labelled") and not text else None
            if not gone:
                parts.append(text)
            elif position.lead or position.bullet or position.form == "labelled":
                parts.pop()
        elif gone == "line":
            gone = "blank" if _is_after_blank(parts) else None
        elif gone == "blank" and piece == "\n":
            continue
        else:
            gone = None
            parts.append(piece)
    return "".join(parts)


def _is_after_blank(parts: list[str]) -> bool:
    """Whether an empty line, or nothing, precedes."""
    return not parts or (parts[-1] == "\n" and all(part.endswith("\n") for part in parts[-2:-1]))


def _has_only_empty_values(section: Section, values: Mapping[str, Json]) -> bool:
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
    # Without front matter, a value must not look like it.
    return f"***{body[3:]}\n" if body.startswith("---") else f"{body}\n"


#: Control characters, by which many programs take a file for binary.
CONTROLS = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 127])
IN_A_LINK = re.compile(r"[\s()<>\"'\\]")
PIPE = re.compile(r"(?<!\\)\|")


def render_value(value: Json, position: SlotPosition, *, from_model: bool) -> str:
    match position.form:
        case "alone":
            first, *rest = _lines(value, position.bullet) or [""]
            return "\n".join([first, *((position.lead + line).rstrip() for line in rest)])
        case "open" | "labelled" if from_model and isinstance(value, str) and not position.bullet:
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
    """Any value as part of a sentence."""
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
    """The lines of a value; the template itself has the bullet of the first."""
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        first, *rest = _table(value)
        return [first, *(" " * len(bullet) + line for line in rest)]
    if isinstance(value, list):
        return _list_items([_block(item) for item in value], bullet)
    if isinstance(value, dict):
        pairs = ((one_line(key), one_line(item)) for key, item in value.items())
        return _list_items([f"{key}: {text}" for key, text in pairs if text], bullet)
    first, *rest = _block(value).split("\n")
    return [first, *(" " * len(bullet) + line for line in rest)]


def _block(value: Json) -> str:
    return _clean(value) if isinstance(value, str) else one_line(value)


def _list_items(texts: list[str], bullet: str) -> list[str]:
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


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode())
