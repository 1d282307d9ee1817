"""Parses templates, and reports errors with their lines."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ...core.errors import InvalidTemplate
from .field_types import field_type_of
from .front_matter import read_entries
from .template import (
    Diagnostic,
    Field,
    Placeholder,
    Report,
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
    faults: list[Diagnostic] = []
    warnings: list[Diagnostic] = []

    def report_error(line: int, message: str) -> None:
        faults.append(Diagnostic(line, message))

    def report_warning(line: int, message: str) -> None:
        warnings.append(Diagnostic(line, message))

    source = _tidy(text, name)
    match = SYSTEM_PROMPT.search(source)
    document = source[: match.start()] if match else source
    # Many templates end with a stray `---`.
    prompt = source[match.end() :].strip().removesuffix("\n---").rstrip() if match else ""
    head, body, head_line, body_line = _halves(document, name)
    head_parts = _without_comments(find_placeholders(head, head_line, report_error))
    body_parts = find_placeholders(body, body_line, report_error)
    entries = read_entries(head_parts, head_line, report_error, report_warning)
    fields = _fields(head_parts, body_parts, report_warning)
    if len(fields) > MAX_FIELDS:
        report_error(1, f"There are more than {MAX_FIELDS} fields")
    if not faults and not entries and not body.strip():
        report_error(1, "The template is empty")
    if faults:
        raise invalid_template(name, faults)
    slots = [piece if isinstance(piece, str) else Slot(piece.name) for piece in body_parts]
    sections = _sections(slots)
    values = [*(entry.value for entry in entries), *slots]
    used = dict.fromkeys(slot.name for slot in _slots_in(values))
    known = {*fields, SOURCE_KEY, NAME_KEY}
    first = head.partition("\n")[0]  # the title is a comment on the first line
    title = first[1:].strip()[:200] if first.startswith("#") else ""
    return Template(
        name=name,
        title=title or name,
        language=language,
        fields=tuple(fields.values()),
        context_keys=tuple(key for key in used if key not in known),
        entries=tuple(entries),
        sections=sections,
        system_prompt=prompt,
        source=source,
        warnings=tuple(warnings),
    )


def with_fields(template: Template, descriptions: Mapping[str, str]) -> Template:
    """The template with more fields, and with more about those it has."""
    fields = {field.name: field for field in template.fields}
    faults: list[Diagnostic] = []
    for name, description in descriptions.items():
        slot = f"{{{{{name}|{description}}}}}"
        pieces = find_placeholders(
            slot, 1, lambda line, text: faults.append(Diagnostic(line, text))
        )
        if not faults and (len(pieces) != 3 or any(pieces[::2])):
            faults.append(Diagnostic(1, f"`{name[:40]}` is no description of a field"))
        if faults:
            raise invalid_template(template.name, faults)
        if (known := fields.get(name)) is not None:
            instruction = f"{known.instruction}\n{description.strip()}"
            fields[name] = replace(known, instruction=instruction)
        else:
            fields |= _fields(pieces, (), lambda line, text: None)
    if len(fields) > MAX_FIELDS:
        fault = Diagnostic(1, f"There are more than {MAX_FIELDS} fields")
        raise invalid_template(template.name, [fault])
    keys = tuple(key for key in template.context_keys if key not in fields)
    return replace(template, fields=tuple(fields.values()), context_keys=keys)


def invalid_template(name: str, faults: Iterable[Diagnostic]) -> InvalidTemplate:
    ordered = sorted(faults, key=lambda fault: fault.line)[:MAX_DIAGNOSTICS]
    return InvalidTemplate(
        f"The template {name} cannot be used: " + "; ".join(map(str, ordered)),
        faults=[{"line": fault.line, "message": fault.message} for fault in ordered],
    )


def _tidy(text: str, name: str) -> str:
    if len(text) > MAX_LENGTH:
        fault = Diagnostic(1, f"The template is longer than {MAX_LENGTH:,} characters")
        raise invalid_template(name, [fault])
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _halves(document: str, name: str) -> tuple[str, str, int, int]:
    """The front matter, the body, and the numbers of their first lines."""
    text = document.lstrip("\n")
    first, _, rest = text.partition("\n")
    skipped = len(document) - len(text)
    if not FENCE.fullmatch(first):
        return "", document, 1, 1
    match = CLOSING.search(rest)
    if match is None:
        fault = "The front matter is not closed: a line `---` is missing"
        raise invalid_template(name, [Diagnostic(skipped + 1, fault)])
    head = rest[: match.start()].removesuffix("\n")
    if len(head) > MAX_FRONT_MATTER:
        fault = f"The front matter is longer than {MAX_FRONT_MATTER:,} characters"
        raise invalid_template(name, [Diagnostic(skipped + 1, fault)])
    body_line = skipped + 3 + rest.count("\n", 0, match.start())
    return head, rest[match.end() :].removeprefix("\n"), skipped + 2, body_line


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


def _fields(
    head: Iterable[str | Placeholder], body: Iterable[str | Placeholder], report_warning: Report
) -> dict[str, Field]:
    """Each field once: its first occurrence counts."""
    fields: dict[str, Field] = {}
    for pieces, in_front_matter in ((head, True), (body, False)):
        for piece in pieces:
            if not isinstance(piece, Placeholder) or piece.instruction is None:
                continue
            name = piece.name
            field_type, rest = field_type_of(piece.instruction, in_front_matter=in_front_matter)
            field = Field(name, rest.strip() or name, field_type, piece.line)
            first = fields.setdefault(name, field)
            if first.instruction != field.instruction:
                text = f"`{name}` has another instruction in line {first.line}; that one is used"
                report_warning(piece.line, text)
    if SOURCE_KEY in fields:
        text = "`text` is a field here, so the source itself cannot be put into the document"
        report_warning(fields[SOURCE_KEY].line, text)
    return fields


def _slots_in(value: object) -> Iterator[Slot]:
    match value:
        case Slot():
            yield value
        case dict():
            yield from _slots_in([*value.values()])
        case list() | tuple():
            for item in value:
                yield from _slots_in(item)


HEADING = re.compile(r"(#{1,6})(?:[ \t]|$)")
CODE = re.compile(r"[ ]{0,3}(```|~~~)")
#: What may precede a slot that is alone on its line: quotes, indents, a bullet.
LEAD = re.compile(r"((?:[ \t]*>)*[ \t]*)((?:[-*+]|[0-9]{1,9}[.)])[ \t]+)?")
#: `- **Place:** `: a label, which is dropped together with an empty value.
LABEL = re.compile(LEAD.pattern + r"(?:\*\*|__)?[^\n:*_]{1,60}:(?:\*\*|__)?[ \t]*")


def _sections(pieces: Iterable[str | Slot]) -> tuple[Section, ...]:
    """Split at headings; what precedes the first one has level 0."""
    sections: list[Section] = []
    level, heading, content = 0, [], []  # type: ignore[var-annotated]
    in_code = False
    for line in _lines(pieces):
        first = line[0] if isinstance(line[0], str) else ""
        if CODE.match(first):
            in_code = not in_code
        match = None if in_code else HEADING.match(first)
        if match:
            sections.append(Section(level, tuple(heading), tuple(content)))
            level, heading, content = len(match[1]), [], []
        (heading if match else content).extend(
            replace(piece, position=_position(line, index)) if isinstance(piece, Slot) else piece
            for index, piece in enumerate(line)
        )
    sections.append(Section(level, tuple(heading), tuple(content)))
    return tuple(section for section in sections if section.heading or section.pieces)


def _lines(pieces: Iterable[str | Slot]) -> Iterator[list[str | Slot]]:
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


def _position(line: list[str | Slot], index: int) -> SlotPosition:
    first = line[0] if isinstance(line[0], str) else ""
    if HEADING.match(first):
        return SlotPosition("heading")
    if first.lstrip().startswith("|"):
        return SlotPosition("cell")
    before = line[index - 1] if index else ""
    after = line[index + 1] if index + 1 < len(line) else ""
    if isinstance(before, str) and isinstance(after, str):
        if before.endswith("](") and after.startswith(")"):
            return SlotPosition("link")
        if before.endswith("[") and after.startswith("]("):
            return SlotPosition("link text")
    if index + 2 < len(line) or isinstance(after, Slot) or after.strip():
        return SlotPosition("inline")
    if index <= 1 and isinstance(before, str):
        if lead := LEAD.fullmatch(before):
            return SlotPosition("alone", lead[1], lead[2] or "")
        if label := LABEL.fullmatch(before):
            return SlotPosition("labelled", bullet=label[2] or "")
    return SlotPosition("open")
