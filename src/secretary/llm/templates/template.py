"""What a template is, once it was read: frozen, and the same for every document made with it."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from ...core import languages

Sort = Literal["text", "number", "integer", "boolean", "date", "choice", "object"]

#: As JSON has them: values for a template, and what a model answers.
Json = Any


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong or doubtful in a template, and on which line."""

    line: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a model may answer for a field."""

    sort: Sort = "text"
    is_list: bool = False
    #: May be null where the source is silent; a text is empty then.
    nullable: bool = False
    choices: tuple[str, ...] = ()
    #: The parts of an object, by name.
    parts: tuple[tuple[str, "Kind"], ...] = ()

    def __str__(self) -> str:
        if self.sort == "choice":
            inner = "one of " + " | ".join(self.choices)
        elif self.sort == "object":
            inner = "{" + ", ".join(f"{name}: {kind}" for name, kind in self.parts) + "}"
        else:
            inner = self.sort
        return f"list of {inner}" if self.is_list else inner


TEXT = Kind()


@dataclass(frozen=True, slots=True)
class Field:
    """Something the model is asked for."""

    name: str
    instruction: str
    kind: Kind
    line: int

    def document(self) -> dict[str, str]:
        return {"name": self.name, "type": str(self.kind), "instruction": self.instruction}


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in a template where a value goes: that of a field, or one from the context."""

    name: str


#: A text with slots in it.
Pieces = tuple[str | Slot, ...]


@dataclass(frozen=True, slots=True)
class Mixed:
    """A value in the front matter that has text beside its slots."""

    pieces: Pieces


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of the front matter. `value` is JSON with `Slot` and `Mixed` inside."""

    key: str
    value: Any
    line: int
    #: The lines as they stand, of an entry that is the same in every document.
    verbatim: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """How a slot stands in the body, which decides how a value is written there."""

    form: Literal["alone", "labelled", "open", "inline", "heading", "cell", "link", "link text"]
    #: What its line begins with: quotes and indents, then a bullet.
    lead: str = ""
    bullet: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with what is below it, up to the next one."""

    level: int
    heading: Pieces
    pieces: Pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    name: str
    title: str = ""
    #: By the suffix of its name, like `de`.
    language: str | None = None
    fields: tuple[Field, ...] = ()
    #: What it wants to find in the context.
    keys: tuple[str, ...] = ()
    entries: tuple[Entry, ...] = ()
    sections: tuple[Section, ...] = ()
    system_prompt: str = ""
    source: str = ""
    warnings: tuple[Fault, ...] = ()
    #: How each slot of the body stands there, in their order.
    places: tuple[Place, ...] = field(default=(), repr=False)


def language_code(language: str) -> str | None:
    """`de` for `de-AT` and for `German`; None for what is neither a code nor a name we know."""
    code = language.strip().lower().replace("_", "-").partition("-")[0]
    return languages.language_code(language) or (
        code if len(code) == 2 and code.isalpha() else None
    )


def language_name(language: str) -> str | None:
    """In English. A name we do not know is taken at its word, if it is one word: it goes into
    a model's instructions, and must not be able to be one."""
    name = languages.english_name(language)
    return name if name.isalpha() and len(name) <= 35 else None


TYPES = {"text": "string", "date": "string", "choice": "string"}
FORM = {"date": "YYYY-MM-DD"}

Schema = dict[str, Any]


def schema(template: Template) -> Schema:
    """Strict: every field is required, and there are no others."""
    return _object({field.name: _described(field) for field in template.fields})


def _described(field: Field) -> Schema:
    told = field.instruction
    if form := FORM.get(field.kind.sort):
        told = f"{told} ({form})"
    return {**_of(field.kind), "description": told}


def _of(kind: Kind) -> Schema:
    if kind.is_list:
        return {"type": "array", "items": _single(kind)}
    single = _single(kind)
    return {**single, "type": [single["type"], "null"]} if kind.nullable else single


def _single(kind: Kind) -> Schema:
    if kind.sort == "object":
        return _object({name: _of(part) for name, part in kind.parts})
    found: Schema = {"type": TYPES.get(kind.sort, kind.sort)}
    return {**found, "enum": list(kind.choices)} if kind.choices else found


def _object(properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


LONGEST_NAME = 64
NAME = re.compile(r"[^\W\d][\w-]*")
SHOWN = 40


@dataclass(frozen=True, slots=True)
class Mark:
    """One `{{…}}`. Without an instruction it is a place for a value that is known otherwise."""

    name: str
    instruction: str | None
    line: int
    #: How many lines it goes on for.
    breaks: int


def find_marks(text: str, line: int, complain: Callable[[Fault], None]) -> list[str | Mark]:
    """The text with its marks apart; `line` is the number of its first line."""
    pieces: list[str | Mark] = []
    position = 0
    while (start := text.find("{{", position)) >= 0:
        line += text.count("\n", position, start)
        pieces.append(text[position:start])
        end = _end(text, start + 2)
        if end is None:
            shown = _shown(text[start:])
            complain(Fault(line, f"`{shown}` is not closed: there is no `}}}}` behind it"))
            return pieces
        inner = text[start + 2 : end]
        breaks = inner.count("\n")
        if mark := _read(inner, line, breaks, complain):
            pieces.append(mark)
        line += breaks
        position = end + 2
    pieces.append(text[position:])
    return pieces


def _end(text: str, start: int) -> int | None:
    """Where the `}}` is. An instruction may end with a brace of its own: `{{a|{b, c}}}`."""
    end = text.find("}}", start)
    if end < 0:
        return None
    open_braces = text.count("{", start, end) - text.count("}", start, end)
    while open_braces > 0 and text.startswith("}}}", end):
        open_braces -= 1
        end += 1
    return end


def _read(inner: str, line: int, breaks: int, complain: Callable[[Fault], None]) -> Mark | None:
    name, bar, instruction = inner.partition("|")
    name, instruction = name.strip(), instruction.strip()
    shown = _shown("{{" + inner + "}}")
    if "{{" in inner:
        complain(Fault(line, f"`{shown}` has another `{{{{` inside; is a `}}}}` missing?"))
    elif not NAME.fullmatch(name):
        text = "a name begins with a letter and has letters, digits, `_` and `-` only"
        complain(Fault(line, f"`{shown}` has no usable name: {text}"))
    elif len(name) > LONGEST_NAME:
        complain(Fault(line, f"`{shown}`: the name is longer than {LONGEST_NAME} characters"))
    elif bar and not instruction:
        text = f"write `{{{{{name}}}}}` for a value from the context"
        complain(Fault(line, f"`{shown}` has no instruction behind the `|`; {text}"))
    else:
        return Mark(name, instruction if bar else None, line, breaks)
    return None


def _shown(text: str) -> str:
    text = " ".join(text[: 4 * SHOWN].split())
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"
