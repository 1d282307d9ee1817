"""Reads a template, and says of what it cannot read where it is and why."""

import re
from collections.abc import Iterable, Iterator
from typing import NoReturn

from ...core.errors import InvalidTemplate
from .front_matter import read_entries
from .template import TEXT as KindsTEXT
from .template import (
    Entry,
    Fault,
    Field,
    Kind,
    Mark,
    Mixed,
    Pieces,
    Place,
    Section,
    Slot,
    Sort,
    Template,
    find_marks,
)

HEADING = re.compile(r"(#{1,6})(?:[ \t]|$)")
CODE = re.compile(r"[ ]{0,3}(```|~~~)")
#: What may stand before a text that has its line for itself: quotes, indents, a bullet.
LEAD = re.compile(r"((?:[ \t]*>)*[ \t]*)((?:[-*+]|[0-9]{1,9}[.)])[ \t]+)?")
#: `- **Place:** `: of no use without what is behind it.
LABEL = re.compile(LEAD.pattern + r"(?:\*\*|__)?[^\n:*_]{1,60}:(?:\*\*|__)?[ \t]*")


def sections_of(pieces: Pieces) -> tuple[Section, ...]:
    """Apart at headings; what comes before the first has level 0."""
    sections: list[Section] = []
    level, heading, content = 0, [], []  # type: ignore[var-annotated]
    in_code = False
    for line in _lines(pieces):
        first = line[0] if line and isinstance(line[0], str) else ""
        if CODE.match(first):
            in_code = not in_code
        found = None if in_code else HEADING.match(first)
        if found:
            sections.append(Section(level, tuple(heading), tuple(content)))
            level, heading, content = len(found[1]), line, []
        else:
            content.extend(line)
    sections.append(Section(level, tuple(heading), tuple(content)))
    return tuple(section for section in sections if section.heading or section.pieces)


def _lines(pieces: Pieces) -> Iterator[list[str | Slot]]:
    """The pieces line by line, each with the break at its end."""
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


def places_of(sections: tuple[Section, ...]) -> tuple[Place, ...]:
    """For every slot, in the order in which they stand."""
    return tuple(
        place
        for section in sections
        for line in _lines((*section.heading, *section.pieces))
        for place in _places(line)
    )


def _places(line: list[str | Slot]) -> Iterator[Place]:
    first = line[0] if isinstance(line[0], str) else ""
    for index, piece in enumerate(line):
        if isinstance(piece, Slot):
            before = line[index - 1] if index else ""
            after = line[index + 1] if index + 1 < len(line) else ""
            yield _place(first, before, after, is_second=index <= 1, is_last=index + 2 >= len(line))


def _place(
    first: str, before: str | Slot, after: str | Slot, *, is_second: bool, is_last: bool
) -> Place:
    if HEADING.match(first):
        return Place("heading")
    if first.lstrip().startswith("|"):
        return Place("cell")
    left = before if isinstance(before, str) else None
    right = after if isinstance(after, str) else None
    if left is not None and right is not None and left.endswith("](") and right.startswith(")"):
        return Place("link")
    if left is not None and right is not None and left.endswith("[") and right.startswith("]("):
        return Place("link text")
    if not is_last or right is None or right.strip():
        return Place("inline")
    lead = LEAD.fullmatch(left) if is_second and left is not None else None
    if lead is None:
        label = LABEL.fullmatch(left) if is_second and left is not None else None
        return Place("labelled", bullet=label[2] or "") if label else Place("open")
    return Place("alone", lead[1], lead[2] or "")


SORTS: dict[str, Sort] = {
    "text": "text", "string": "text",
    "number": "number", "numbers": "number", "zahl": "number", "zahlen": "number",
    "integer": "integer", "integers": "integer", "ganzzahl": "integer", "ganzzahlen": "integer",
    "boolean": "boolean", "booleans": "boolean", "wahrheitswert": "boolean",
    "date": "date", "dates": "date", "datum": "date",
    "texts": "text", "strings": "text", "texte": "text",
}  # fmt: skip

WORD = "|".join(sorted(SORTS, key=len, reverse=True))
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
#: How templates without types say it.
SAID_LIST = re.compile(
    r"(?:optional(?:es)?\s+)?(?:array\b|list\s+of\b|liste\s+(?:von|der|aller|mit|aus|an)\b)",
    re.IGNORECASE,
)
SAID_INTEGER = re.compile(r"\b(?:als\s+ganzzahl(?:en)?|as\s+(?:an\s+)?integers?)\b", re.IGNORECASE)
SAID_NUMBER = re.compile(r"\b(?:als\s+zahl(?:en)?|as\s+(?:a\s+)?numbers?)\b", re.IGNORECASE)
SAID_NULL = re.compile(r"\bnull\b")
PART = re.compile(rf"([^\W\d][\w-]{{0,63}})(?:\s*:\s*({LIST}|{WORD}))?", re.IGNORECASE)

#: Long enough for every type; what is behind it is prose.
FAR_ENOUGH = 4000


def kind_of(instruction: str, *, in_front_matter: bool) -> tuple[Kind, str]:
    """The kind, and the instruction without the type in front of it. In the front matter a
    number in so many words is one; in the body it is a part of a sentence."""
    head, rest = instruction[:FAR_ENOUGH], instruction[FAR_ENOUGH:]
    if found := LEADING_CHOICE.match(head):
        choices = tuple(dict.fromkeys(part.strip() for part in found[2].split("|")))
        kind = Kind(sort="choice", is_list=bool(found[1]), choices=choices)
        return kind, head[found.end() :] + rest
    if (found := LEADING_OBJECT.match(head)) and (parts := _parts(found[2])):
        is_list = bool(found[1])
        return Kind(sort="object", is_list=is_list, nullable=not is_list, parts=parts), instruction
    if found := LEADING_LIST.match(head):
        sort = SORTS[(found[1] or "text").lower()]
        return Kind(sort=sort, is_list=True), head[found.end() :] + rest
    if found := LEADING_SORT.match(head):
        return _single(SORTS[found[1].lower()]), head[found.end() :] + rest
    return _said(instruction, head, in_front_matter), instruction


def _said(instruction: str, head: str, in_front_matter: bool) -> Kind:
    sort: Sort = "text"
    if in_front_matter and SAID_INTEGER.search(instruction):
        sort = "integer"
    elif in_front_matter and SAID_NUMBER.search(instruction):
        sort = "number"
    if SAID_LIST.match(head):
        return Kind(sort=sort, is_list=True)
    if sort == "text":
        return Kind(nullable=True) if SAID_NULL.search(instruction) else KindsTEXT
    return _single(sort)


def _single(sort: Sort) -> Kind:
    """A text can be empty; of a number or a date that nobody told only null is true."""
    return Kind(sort=sort, nullable=sort != "text")


def _parts(text: str) -> tuple[tuple[str, Kind], ...]:
    """`name, pages: integer, tags: list`; nothing if that is not what it is."""
    parts: dict[str, Kind] = {}
    for item in text.split(","):
        found = PART.fullmatch(item.strip())
        if found is None:
            return ()
        word = (found[2] or "text").lower()
        parts[found[1]] = _single(SORTS[word]) if word in SORTS else Kind(is_list=True)
    return tuple(parts.items())


LARGEST = 256 * 1024
LARGEST_FRONT_MATTER = 64 * 1024
MOST_FIELDS = 200
MOST_FAULTS = 50

#: The value that is the source itself, and that which is the template's name.
TEXT = "text"
NAME = "template"

SYSTEM_PROMPT = re.compile(r"(?im)^---[ \t]*systemprompt[ \t]*:?[ \t]*$")
FENCE = re.compile(r"---[ \t]*")
CLOSING = re.compile(r"(?m)^---[ \t]*$")


def parse(text: str, name: str = "inline", *, language: str | None = None) -> Template:
    """Raises `InvalidTemplate` with all that is wrong."""
    return Reading(text, name, language).template()


def unusable(name: str, faults: Iterable[Fault]) -> InvalidTemplate:
    ordered = sorted(faults, key=lambda fault: fault.line)[:MOST_FAULTS]
    return InvalidTemplate(
        f"The template {name} cannot be used: " + "; ".join(map(str, ordered)),
        faults=[{"line": fault.line, "message": fault.message} for fault in ordered],
    )


class Reading:
    """One template on its way from text to `Template`; what is wrong with it is collected."""

    def __init__(self, text: str, name: str, language: str | None) -> None:
        self.text, self.name, self.language = text, name, language
        self.faults: list[Fault] = []
        self.warnings: list[Fault] = []

    def template(self) -> Template:
        if len(self.text) > LARGEST:
            self._fail(Fault(1, f"The template is longer than {LARGEST:,} characters"))
        source = _tidy(self.text)
        document, prompt = _without_prompt(source)
        head, body, head_line, body_line = self._halves(document)
        complain, warn = self.faults.append, self.warnings.append
        head_marks = _without_comments(find_marks(head, head_line, complain))
        body_marks = find_marks(body, body_line, complain)
        entries = read_entries(head_marks, head_line, complain=complain, warn=warn)
        fields = self._fields(head_marks, body_marks)
        sections = sections_of(_slots(body_marks))
        if not self.faults and not entries and not body.strip():
            self.faults.append(Fault(1, "The template is empty"))
        if self.faults:
            self._fail(*self.faults)
        return Template(
            name=self.name,
            title=_title(head) or self.name,
            language=self.language,
            fields=tuple(fields.values()),
            keys=self._keys(entries, sections, fields),
            entries=tuple(entries),
            sections=sections,
            places=places_of(sections),
            system_prompt=prompt,
            source=source,
            warnings=tuple(self.warnings),
        )

    def _fail(self, *faults: Fault) -> NoReturn:
        raise unusable(self.name, faults)

    def _halves(self, document: str) -> tuple[str, str, int, int]:
        """The front matter, the body, and the lines on which they begin."""
        text = document.lstrip("\n")
        first, _, rest = text.partition("\n")
        skipped = len(document) - len(text)
        if not FENCE.fullmatch(first):
            return "", document, 1, 1
        found = CLOSING.search(rest)
        if found is None:
            text = "The front matter is not closed: a line `---` is missing"
            self._fail(Fault(skipped + 1, text))
        head = rest[: found.start()].removesuffix("\n")
        if len(head) > LARGEST_FRONT_MATTER:
            text = f"The front matter is longer than {LARGEST_FRONT_MATTER:,} characters"
            self._fail(Fault(skipped + 1, text))
        body_line = skipped + 3 + rest.count("\n", 0, found.start())
        return head, rest[found.end() :].removeprefix("\n"), skipped + 2, body_line

    def _fields(self, head: Iterable[str | Mark], body: Iterable[str | Mark]) -> dict[str, Field]:
        """Each once: where it is asked for first."""
        fields: dict[str, Field] = {}
        for pieces, in_front_matter in ((head, True), (body, False)):
            for mark in pieces:
                if isinstance(mark, Mark) and mark.instruction is not None:
                    self._add(fields, mark, mark.instruction, in_front_matter)
        if len(fields) > MOST_FIELDS:
            self.faults.append(Fault(1, f"There are more than {MOST_FIELDS} fields"))
        if TEXT in fields:
            text = "`text` is a field here, so the source itself cannot be put into the document"
            self.warnings.append(Fault(fields[TEXT].line, text))
        return fields

    def _add(
        self, fields: dict[str, Field], mark: Mark, instruction: str, in_front_matter: bool
    ) -> None:
        kind, told = kind_of(instruction, in_front_matter=in_front_matter)
        if not told.strip():
            told = mark.name
        known = fields.setdefault(mark.name, Field(mark.name, told.strip(), kind, mark.line))
        if known.instruction != told.strip():
            text = f"`{mark.name}` has another instruction in line {known.line}, which counts"
            self.warnings.append(Fault(mark.line, text))

    def _keys(
        self, entries: Iterable[Entry], sections: Iterable[Section], fields: dict[str, Field]
    ) -> tuple[str, ...]:
        slots = [slot for entry in entries for slot in _slots_in(entry.value)]
        for section in sections:
            slots += [p for p in (*section.heading, *section.pieces) if isinstance(p, Slot)]
        names = dict.fromkeys(slot.name for slot in slots)
        return tuple(name for name in names if name not in fields and name not in (TEXT, NAME))


def _tidy(text: str) -> str:
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _without_prompt(text: str) -> tuple[str, str]:
    found = SYSTEM_PROMPT.search(text)
    if found is None:
        return text, ""
    prompt = text[found.end() :].strip()
    # Many end with a line that closes nothing.
    return text[: found.start()], prompt.removesuffix("\n---").rstrip()


def _without_comments(pieces: Iterable[str | Mark]) -> list[str | Mark]:
    """What stands in a comment of the front matter is not asked for."""
    kept: list[str | Mark] = []
    is_comment, at_beginning = False, True
    for piece in pieces:
        if isinstance(piece, Mark):
            kept.append("…" + "\n#" * piece.breaks if is_comment else piece)
            at_beginning = False
            continue
        last = piece.rpartition("\n")[2]
        if "\n" in piece or at_beginning:
            is_comment, at_beginning = last.startswith("#"), not last
        kept.append(piece)
    return kept


def _slots(pieces: Iterable[str | Mark]) -> Pieces:
    return tuple(piece if isinstance(piece, str) else Slot(piece.name) for piece in pieces)


def _slots_in(value: object) -> Iterable[Slot]:
    match value:
        case Slot():
            yield value
        case Mixed(pieces):
            yield from (piece for piece in pieces if isinstance(piece, Slot))
        case dict():
            for item in value.values():
                yield from _slots_in(item)
        case list():
            for item in value:
                yield from _slots_in(item)


def _title(head: str) -> str:
    """A comment on the first line of the front matter says what the template is for."""
    first = head.partition("\n")[0]
    return first[1:].strip()[:200] if first.startswith("#") else ""
