"""What a template is, once it was read: frozen, and the same for every document made with it."""

from dataclasses import dataclass, field
from typing import Any, Literal

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
