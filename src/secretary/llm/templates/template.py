"""The parsed template, its JSON Schema for a model, and the `{{…}}` syntax."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

BaseType = Literal["text", "number", "integer", "boolean", "date", "choice", "object"]

#: A JSON value: given for a template, or answered by a model.
Json = Any


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """An error or a warning about a template, with its line."""

    line: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldType:
    """The type of value a model may answer for a field."""

    base: BaseType = "text"
    is_list: bool = False
    #: Null if the source does not say; a text is empty then.
    nullable: bool = False
    #: Left out of the result if the source does not say.
    optional: bool = False
    choices: tuple[str, ...] = ()
    #: The properties of an object, by name; without any, the object may have all.
    properties: tuple[tuple[str, "FieldType"], ...] = ()

    def __str__(self) -> str:
        if self.base == "choice":
            inner = "one of " + " | ".join(filter(None, self.choices))
        elif self.base == "object" and self.properties:
            inner = "{" + ", ".join(f"{name}: {kind}" for name, kind in self.properties) + "}"
        else:
            inner = self.base
        return f"list of {inner}" if self.is_list else inner


@dataclass(frozen=True, slots=True)
class Field:
    """A value that the model fills in."""

    name: str
    instruction: str
    field_type: FieldType
    line: int

    def document(self) -> dict[str, str]:
        return {"name": self.name, "type": str(self.field_type), "instruction": self.instruction}


@dataclass(frozen=True, slots=True)
class SlotPosition:
    """The position of a slot in the body, which decides how its value is written."""

    form: Literal["alone", "labelled", "open", "inline", "heading", "cell", "link", "link text"]
    #: The beginning of its line: quotes and indents, then a bullet.
    lead: str = ""
    bullet: str = ""


@dataclass(frozen=True, slots=True)
class Slot:
    """Where the value of a field, or one from the context, is inserted."""

    name: str
    position: SlotPosition = SlotPosition("inline")


#: A text with slots in it.
Pieces = tuple[str | Slot, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of the front matter. `value` is JSON with `Slot` and `Pieces` inside."""

    key: str
    value: Any
    line: int
    #: The source lines of an entry without slots.
    verbatim: str | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its content, up to the next heading."""

    level: int
    heading: Pieces
    pieces: Pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    name: str
    title: str = ""
    #: From the suffix of its name, such as `de`.
    language: str | None = None
    fields: tuple[Field, ...] = ()
    #: Names of the values it takes from the context.
    context_keys: tuple[str, ...] = ()
    entries: tuple[Entry, ...] = ()
    sections: tuple[Section, ...] = ()
    system_prompt: str = ""
    source: str = ""
    warnings: tuple[Diagnostic, ...] = ()


#: How a value of the type is written, for the model.
FORM = {"date": "YYYY-MM-DD"}

Schema = dict[str, Any]


def schema(template: Template) -> Schema:
    """The JSON Schema of the answer: fields are required unless they are optional, and there are no
    others."""
    properties = {}
    for one in template.fields:
        form = FORM.get(one.field_type.base)
        description = f"{one.instruction} ({form})" if form else one.instruction
        properties[one.name] = {**_schema_of(one.field_type), "description": description}
    optional = {one.name for one in template.fields if one.field_type.optional}
    return _object(properties, optional)


def _schema_of(field_type: FieldType) -> Schema:
    if field_type.is_list:
        items = _schema_of(replace(field_type, is_list=False, nullable=False))
        return {"type": "array", "items": items}
    if field_type.base == "object":
        parts = {name: _schema_of(part) for name, part in field_type.properties}
        optional = {name for name, part in field_type.properties if part.optional}
        single = _object(parts, optional) if parts else {"type": "object"}
    else:
        is_text = field_type.base in ("text", "date", "choice")
        single = {"type": "string" if is_text else field_type.base}
        if field_type.choices:
            null: list[str | None] = [None] if field_type.nullable else []
            single = {**single, "enum": [*field_type.choices, *null]}
    return {**single, "type": [single["type"], "null"]} if field_type.nullable else single


def _object(properties: Schema, optional: set[str]) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


MAX_NAME = 64
NAME = re.compile(r"[^\W\d][\w-]*")
MAX_SHOWN = 40

#: Called with the line and the message of an error or a warning.
Report = Callable[[int, str], None]


@dataclass(frozen=True, slots=True)
class Placeholder:
    """One `{{name|instruction}}`. Without an instruction its value comes from the context."""

    name: str
    instruction: str | None
    line: int
    #: Number of line breaks inside.
    breaks: int


def find_placeholders(text: str, line: int, report_error: Report) -> list[str | Placeholder]:
    """Split the text at its placeholders; `line` is the number of its first line."""
    pieces: list[str | Placeholder] = []
    position = 0
    while (start := text.find("{{", position)) >= 0:
        line += text.count("\n", position, start)
        pieces.append(text[position:start])
        end = text.find("}}", start + 2)
        if end < 0:
            report_error(line, f"`{_shown(text[start:])}` is not closed: `}}}}` is missing")
            return pieces
        # An instruction may end with a brace: `{{a|{b, c}}}`.
        open_braces = text.count("{", start + 2, end) - text.count("}", start + 2, end)
        while open_braces > 0 and text.startswith("}}}", end):
            open_braces -= 1
            end += 1
        inner = text[start + 2 : end]
        if placeholder := _parse(inner, line, report_error):
            pieces.append(placeholder)
        line += inner.count("\n")
        position = end + 2
    pieces.append(text[position:])
    return pieces


def _parse(inner: str, line: int, report_error: Report) -> Placeholder | None:
    name, bar, instruction = inner.partition("|")
    name, instruction = name.strip(), instruction.strip()
    shown = _shown("{{" + inner + "}}")
    if "{{" in inner:
        report_error(line, f"`{shown}` has another `{{{{` inside; is a `}}}}` missing?")
    elif not NAME.fullmatch(name):
        text = "a name begins with a letter and has letters, digits, `_` and `-` only"
        report_error(line, f"`{shown}` has no usable name: {text}")
    elif len(name) > MAX_NAME:
        report_error(line, f"`{shown}`: the name is longer than {MAX_NAME} characters")
    elif bar and not instruction:
        text = f"write `{{{{{name}}}}}` for a value from the context"
        report_error(line, f"`{shown}` has no instruction after the `|`; {text}")
    else:
        return Placeholder(name, instruction if bar else None, line, inner.count("\n"))
    return None


def _shown(text: str) -> str:
    text = " ".join(text[: 4 * MAX_SHOWN].split())
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"
