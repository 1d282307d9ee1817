"""Reads a template, and says of what it cannot read where it is and why."""

import re
from collections.abc import Iterable
from typing import NoReturn

from ..errors import InvalidTemplate
from .bodies import places_of, sections_of
from .front_matter import read_entries
from .kinds import kind_of
from .slots import Mark, find_marks
from .template import Entry, Fault, Field, Mixed, Pieces, Section, Slot, Template

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
