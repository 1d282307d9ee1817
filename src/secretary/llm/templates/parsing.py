"""Parses templates, and reports errors with their lines."""

import re
from collections.abc import Iterable, Iterator
from typing import NoReturn

from ...core.errors import InvalidTemplate
from .front_matter import read_entries
from .template import (
    TEXT_TYPE,
    BaseType,
    Diagnostic,
    Entry,
    Field,
    FieldType,
    Interpolation,
    Pieces,
    Placeholder,
    Section,
    Slot,
    SlotPosition,
    Template,
    find_placeholders,
)

MAX_LENGTH = 256 * 1024
MAX_FRONT_MATTER = 64 * 1024
MAX_FIELDS = 200
MAX_DIAGNOSTICS = 50

#: The values that are the source itself and the name of the template.
SOURCE_KEY = "text"
NAME_KEY = "template"

SYSTEM_PROMPT = re.compile(r"(?im)^---[ \t]*systemprompt[ \t]*:?[ \t]*$")
FENCE = re.compile(r"---[ \t]*")
CLOSING = re.compile(r"(?m)^---[ \t]*$")


def parse(text: str, name: str = "inline", *, language: str | None = None) -> Template:
    """Parse a template. Raises `InvalidTemplate` with all errors."""
    return TemplateParser(text, name, language).template()


def invalid_template(name: str, faults: Iterable[Diagnostic]) -> InvalidTemplate:
    ordered = sorted(faults, key=lambda fault: fault.line)[:MAX_DIAGNOSTICS]
    return InvalidTemplate(
        f"The template {name} cannot be used: " + "; ".join(map(str, ordered)),
        faults=[{"line": fault.line, "message": fault.message} for fault in ordered],
    )


class TemplateParser:
    """Parses one template and collects its errors and warnings."""

    def __init__(self, text: str, name: str, language: str | None) -> None:
        self.text, self.name, self.language = text, name, language
        self.faults: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = []

    def template(self) -> Template:
        if len(self.text) > MAX_LENGTH:
            self._fail(Diagnostic(1, f"The template is longer than {MAX_LENGTH:,} characters"))
        source = _tidy(self.text)
        document, prompt = _without_prompt(source)
        head, body, head_line, body_line = self._halves(document)
        report_error, report_warning = self.faults.append, self.warnings.append
        head_parts = _without_comments(find_placeholders(head, head_line, report_error))
        body_parts = find_placeholders(body, body_line, report_error)
        entries = read_entries(
            head_parts, head_line, report_error=report_error, report_warning=report_warning
        )
        fields = self._fields(head_parts, body_parts)
        sections = sections_of(_slots(body_parts))
        if not self.faults and not entries and not body.strip():
            self.faults.append(Diagnostic(1, "The template is empty"))
        if self.faults:
            self._fail(*self.faults)
        return Template(
            name=self.name,
            title=_title(head) or self.name,
            language=self.language,
            fields=tuple(fields.values()),
            context_keys=self._context_keys(entries, sections, fields),
            entries=tuple(entries),
            sections=sections,
            positions=slot_positions(sections),
            system_prompt=prompt,
            source=source,
            warnings=tuple(self.warnings),
        )

    def _fail(self, *faults: Diagnostic) -> NoReturn:
        raise invalid_template(self.name, faults)

    def _halves(self, document: str) -> tuple[str, str, int, int]:
        """The front matter, the body, and the numbers of their first lines."""
        text = document.lstrip("\n")
        first, _, rest = text.partition("\n")
        skipped = len(document) - len(text)
        if not FENCE.fullmatch(first):
            return "", document, 1, 1
        match = CLOSING.search(rest)
        if match is None:
            text = "The front matter is not closed: a line `---` is missing"
            self._fail(Diagnostic(skipped + 1, text))
        head = rest[: match.start()].removesuffix("\n")
        if len(head) > MAX_FRONT_MATTER:
            text = f"The front matter is longer than {MAX_FRONT_MATTER:,} characters"
            self._fail(Diagnostic(skipped + 1, text))
        body_line = skipped + 3 + rest.count("\n", 0, match.start())
        return head, rest[match.end() :].removeprefix("\n"), skipped + 2, body_line

    def _fields(
        self, head: Iterable[str | Placeholder], body: Iterable[str | Placeholder]
    ) -> dict[str, Field]:
        """Each field once: its first occurrence counts."""
        fields: dict[str, Field] = {}
        for pieces, in_front_matter in ((head, True), (body, False)):
            for piece in pieces:
                if isinstance(piece, Placeholder) and piece.instruction is not None:
                    self._add(fields, piece, piece.instruction, in_front_matter)
        if len(fields) > MAX_FIELDS:
            self.faults.append(Diagnostic(1, f"There are more than {MAX_FIELDS} fields"))
        if SOURCE_KEY in fields:
            text = "`text` is a field here, so the source itself cannot be put into the document"
            self.warnings.append(Diagnostic(fields[SOURCE_KEY].line, text))
        return fields

    def _add(
        self,
        fields: dict[str, Field],
        placeholder: Placeholder,
        instruction: str,
        in_front_matter: bool,
    ) -> None:
        name, line = placeholder.name, placeholder.line
        field_type, rest = parse_field_type(instruction, in_front_matter=in_front_matter)
        field = Field(name, rest.strip() or name, field_type, line)
        first = fields.setdefault(name, field)
        if first.instruction != field.instruction:
            text = f"`{name}` has another instruction in line {first.line}; that one is used"
            self.warnings.append(Diagnostic(line, text))

    def _context_keys(
        self, entries: Iterable[Entry], sections: Iterable[Section], fields: dict[str, Field]
    ) -> tuple[str, ...]:
        slots = [slot for entry in entries for slot in _slots_in(entry.value)]
        for section in sections:
            slots += [p for p in (*section.heading, *section.pieces) if isinstance(p, Slot)]
        names = dict.fromkeys(slot.name for slot in slots)
        return tuple(
            name for name in names if name not in fields and name not in (SOURCE_KEY, NAME_KEY)
        )


def _tidy(text: str) -> str:
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _without_prompt(text: str) -> tuple[str, str]:
    match = SYSTEM_PROMPT.search(text)
    if match is None:
        return text, ""
    prompt = text[match.end() :].strip()
    # Many templates end with a stray `---`.
    return text[: match.start()], prompt.removesuffix("\n---").rstrip()


def _without_comments(pieces: Iterable[str | Placeholder]) -> list[str | Placeholder]:
    """Placeholders in comments of the front matter are ignored."""
    parts: list[str | Placeholder] = []
    is_comment, at_beginning = False, True
    for piece in pieces:
        if isinstance(piece, Placeholder):
            parts.append("…" + "\n#" * piece.breaks if is_comment else piece)
            at_beginning = False
            continue
        last = piece.rpartition("\n")[2]
        if "\n" in piece or at_beginning:
            is_comment, at_beginning = last.startswith("#"), not last
        parts.append(piece)
    return parts


def _slots(pieces: Iterable[str | Placeholder]) -> Pieces:
    return tuple(piece if isinstance(piece, str) else Slot(piece.name) for piece in pieces)


def _slots_in(value: object) -> Iterable[Slot]:
    match value:
        case Slot():
            yield value
        case Interpolation(pieces):
            yield from (piece for piece in pieces if isinstance(piece, Slot))
        case dict():
            for item in value.values():
                yield from _slots_in(item)
        case list():
            for item in value:
                yield from _slots_in(item)


def _title(head: str) -> str:
    """The title is a comment on the first line of the front matter."""
    first = head.partition("\n")[0]
    return first[1:].strip()[:200] if first.startswith("#") else ""


TYPE_NAMES: dict[str, BaseType] = {
    "text": "text", "string": "text",
    "number": "number", "numbers": "number", "zahl": "number", "zahlen": "number",
    "integer": "integer", "integers": "integer", "ganzzahl": "integer", "ganzzahlen": "integer",
    "boolean": "boolean", "booleans": "boolean", "wahrheitswert": "boolean",
    "date": "date", "dates": "date", "datum": "date",
    "texts": "text", "strings": "text", "texte": "text",
}  # fmt: skip

WORD = "|".join(sorted(TYPE_NAMES, key=len, reverse=True))
LIST = r"(?:list|liste|array)"
OF = r"(?:of|von|aus)"
LEADING_SORT = re.compile(rf"({WORD})\s*:\s*", re.IGNORECASE)
LEADING_LIST = re.compile(rf"{LIST}(?:\s+{OF}\s+({WORD}))?\s*:\s*", re.IGNORECASE)
LEADING_CHOICE = re.compile(
    rf"({LIST}\s+{OF}\s+)?(?:one\s+of|eines\s+von)\s+([^|:\n]+(?:\|[^|:\n]+)+):\s*", re.IGNORECASE
)
LEADING_OBJECT = re.compile(
    rf"(?:optional(?:es)?\s+)?({LIST}\s+{OF}\s+)?(?:(?:object|objekt)\s+)?"
    r"\{([^{}]{1,2000})\}\s*:?\s*",
    re.IGNORECASE,
)
#: Phrases by which templates without types name them.
PHRASE_LIST = re.compile(
    r"(?:optional(?:es)?\s+)?(?:array\b|list\s+of\b|liste\s+(?:von|der|aller|mit|aus|an)\b)",
    re.IGNORECASE,
)
PHRASE_INTEGER = re.compile(
    r"\b(?:als\s+ganzzahl(?:en)?|as\s+(?:an\s+)?integers?)\b", re.IGNORECASE
)
PHRASE_NUMBER = re.compile(r"\b(?:als\s+zahl(?:en)?|as\s+(?:a\s+)?numbers?)\b", re.IGNORECASE)
PHRASE_NULL = re.compile(r"\bnull\b")
PART = re.compile(rf"([^\W\d][\w-]{{0,63}})(?:\s*:\s*({LIST}|{WORD}))?", re.IGNORECASE)

#: A type is looked for in this many characters; the rest is prose.
MAX_TYPE_PREFIX = 4000


def parse_field_type(instruction: str, *, in_front_matter: bool) -> tuple[FieldType, str]:
    """The type, and the instruction without it. A phrase such as "as a number" sets the type in
    the front matter only; in the body the value is part of a sentence."""
    head, rest = instruction[:MAX_TYPE_PREFIX], instruction[MAX_TYPE_PREFIX:]
    if match := LEADING_CHOICE.match(head):
        choices = tuple(dict.fromkeys(part.strip() for part in match[2].split("|")))
        field_type = FieldType(base="choice", is_list=bool(match[1]), choices=choices)
        return field_type, head[match.end() :] + rest
    if (match := LEADING_OBJECT.match(head)) and (properties := _properties(match[2])):
        is_list = bool(match[1])
        return FieldType(
            base="object", is_list=is_list, nullable=not is_list, properties=properties
        ), instruction
    if match := LEADING_LIST.match(head):
        base = TYPE_NAMES[(match[1] or "text").lower()]
        return FieldType(base=base, is_list=True), head[match.end() :] + rest
    if match := LEADING_SORT.match(head):
        return _single(TYPE_NAMES[match[1].lower()]), head[match.end() :] + rest
    return _said(instruction, head, in_front_matter), instruction


def _said(instruction: str, head: str, in_front_matter: bool) -> FieldType:
    base: BaseType = "text"
    if in_front_matter and PHRASE_INTEGER.search(instruction):
        base = "integer"
    elif in_front_matter and PHRASE_NUMBER.search(instruction):
        base = "number"
    if PHRASE_LIST.match(head):
        return FieldType(base=base, is_list=True)
    if base == "text":
        return FieldType(nullable=True) if PHRASE_NULL.search(instruction) else TEXT_TYPE
    return _single(base)


def _single(base: BaseType) -> FieldType:
    """A text can be empty; an unknown number or date must be null."""
    return FieldType(base=base, nullable=base != "text")


def _properties(text: str) -> tuple[tuple[str, FieldType], ...]:
    """Parse `name, pages: integer, tags: list`; empty if the text is something else."""
    properties: dict[str, FieldType] = {}
    for item in text.split(","):
        match = PART.fullmatch(item.strip())
        if match is None:
            return ()
        word = (match[2] or "text").lower()
        properties[match[1]] = (
            _single(TYPE_NAMES[word]) if word in TYPE_NAMES else FieldType(is_list=True)
        )
    return tuple(properties.items())


HEADING = re.compile(r"(#{1,6})(?:[ \t]|$)")
CODE = re.compile(r"[ ]{0,3}(```|~~~)")
#: What may precede a slot that is alone on its line: quotes, indents, a bullet.
LEAD = re.compile(r"((?:[ \t]*>)*[ \t]*)((?:[-*+]|[0-9]{1,9}[.)])[ \t]+)?")
#: `- **Place:** `: a label, which is dropped together with an empty value.
LABEL = re.compile(LEAD.pattern + r"(?:\*\*|__)?[^\n:*_]{1,60}:(?:\*\*|__)?[ \t]*")


def sections_of(pieces: Pieces) -> tuple[Section, ...]:
    """Split at headings; what precedes the first one has level 0."""
    sections: list[Section] = []
    level, heading, content = 0, [], []  # type: ignore[var-annotated]
    in_code = False
    for line in _lines(pieces):
        first = line[0] if line and isinstance(line[0], str) else ""
        if CODE.match(first):
            in_code = not in_code
        match = None if in_code else HEADING.match(first)
        if match:
            sections.append(Section(level, tuple(heading), tuple(content)))
            level, heading, content = len(match[1]), line, []
        else:
            content.extend(line)
    sections.append(Section(level, tuple(heading), tuple(content)))
    return tuple(section for section in sections if section.heading or section.pieces)


def _lines(pieces: Pieces) -> Iterator[list[str | Slot]]:
    """The pieces line by line, each with its line break."""
    line: list[str | Slot] = []
    for piece in pieces:
        if isinstance(piece, Slot):
            line.append(piece)
            continue
        first, *rest = piece.split("\n")
        for part in rest:
            line.append(first + "\n")
            yield line
            line, first = [], part
        if first:
            line.append(first)
    if line:
        yield line


def slot_positions(sections: tuple[Section, ...]) -> tuple[SlotPosition, ...]:
    """The position of every slot, in order."""
    return tuple(
        position
        for section in sections
        for line in _lines((*section.heading, *section.pieces))
        for position in _line_positions(line)
    )


def _line_positions(line: list[str | Slot]) -> Iterator[SlotPosition]:
    first = line[0] if isinstance(line[0], str) else ""
    for index, piece in enumerate(line):
        if isinstance(piece, Slot):
            before = line[index - 1] if index else ""
            after = line[index + 1] if index + 1 < len(line) else ""
            yield _position(
                first, before, after, is_second=index <= 1, is_last=index + 2 >= len(line)
            )


def _position(
    first: str, before: str | Slot, after: str | Slot, *, is_second: bool, is_last: bool
) -> SlotPosition:
    if HEADING.match(first):
        return SlotPosition("heading")
    if first.lstrip().startswith("|"):
        return SlotPosition("cell")
    left = before if isinstance(before, str) else None
    right = after if isinstance(after, str) else None
    if left is not None and right is not None and left.endswith("](") and right.startswith(")"):
        return SlotPosition("link")
    if left is not None and right is not None and left.endswith("[") and right.startswith("]("):
        return SlotPosition("link text")
    if not is_last or right is None or right.strip():
        return SlotPosition("inline")
    lead = LEAD.fullmatch(left) if is_second and left is not None else None
    if lead is None:
        label = LABEL.fullmatch(left) if is_second and left is not None else None
        return SlotPosition("labelled", bullet=label[2] or "") if label else SlotPosition("open")
    return SlotPosition("alone", lead[1], lead[2] or "")
