"""Reads the front matter of a template: YAML whose values may be slots."""

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from .slots import Mark
from .template import Entry, Fault, Mixed, Slot
from .yaml_nodes import compose, data_of
from .yaml_text import LONGEST_KEY

#: An entry begins where a line begins; quotes round its key are YAML's affair.
BEGINNING = re.compile(r"""("[^"\n]*"|'[^'\n]*'|[^\s#'"&!*?|>%@`{}\[\]-][^\n]*?):(?=\s|$)""")
GOES_ON = re.compile(r"[ \t#\]}]|-(?:\s|$)|$")
COMMENT = re.compile(r"\s*(?:#|$)")
#: Behind an entry; an indented `#` may be a part of its text.
NEEDLESS = re.compile(r"#|\s*$")
#: Who begins so means YAML, not a text.
STRUCTURE = frozenset("[{|>&*!%@`")

Complain = Callable[[Fault], None]


@dataclass(frozen=True, slots=True)
class _Lines:
    """The lines of one entry, and the numbers they have in the template."""

    key: str
    lines: list[str]
    numbers: list[int]


class _Tokens:
    """Slots, for the time in which the front matter is read as YAML. The words that stand for
    them come from the text itself, so nothing in it can look like one."""

    def __init__(self, pieces: Iterable[str | Mark]) -> None:
        self._pieces = list(pieces)
        whole = "\0".join(piece if isinstance(piece, str) else "" for piece in self._pieces)
        digest = hashlib.sha256(whole.encode()).hexdigest()[:24]
        self._marks = [piece for piece in self._pieces if isinstance(piece, Mark)]
        self._pattern = re.compile(f"slot{digest}n([0-9]+)z")
        self._word = f"slot{digest}n%dz"

    def lines(self, number: int) -> tuple[list[str], list[int]]:
        """The text with words for slots; a slot has one line, however many it had."""
        parts: list[str] = []
        extra: dict[int, int] = {}
        count = row = 0
        for piece in self._pieces:
            if isinstance(piece, str):
                parts.append(piece)
                row += piece.count("\n")
            else:
                parts.append(self._word % count)
                extra[row] = extra.get(row, 0) + piece.breaks
                count += 1
        lines = "".join(parts).split("\n")
        numbers = []
        for row in range(len(lines)):
            numbers.append(number)
            number += 1 + extra.get(row, 0)
        return lines, numbers

    def are_in(self, text: str) -> bool:
        return bool(self._pattern.search(text))

    def resolved(self, text: str) -> Any:
        """A text, a slot, or both. Blanks round a slot come from how YAML is written."""
        if found := self._pattern.fullmatch(text.strip()):
            return self._slot(int(found[1]))
        parts = self._pattern.split(text)
        if len(parts) == 1:
            return text
        pieces = [
            self._slot(int(part)) if odd % 2 else part for odd, part in enumerate(parts) if part
        ]
        return Mixed(tuple(pieces))

    def _slot(self, index: int) -> Slot:
        return Slot(self._marks[index].name)


def read_entries(
    pieces: Sequence[str | Mark], number: int, *, complain: Complain, warn: Complain
) -> list[Entry]:
    """`number` is that of the first line."""
    tokens = _Tokens(pieces)
    entries: dict[str, Entry] = {}
    for block in _blocks(*tokens.lines(number), complain):
        entry = _entry(block, tokens, complain, warn)
        if entry is None:
            continue
        if entry.key in entries:
            first = entries[entry.key].line
            complain(Fault(entry.line, f"`{entry.key}` was there before, in line {first}"))
        entries.setdefault(entry.key, entry)
    return list(entries.values())


def _blocks(lines: list[str], numbers: list[int], complain: Complain) -> list[_Lines]:
    blocks: list[_Lines] = []
    for line, number in zip(lines, numbers, strict=True):
        if GOES_ON.match(line):
            if blocks:
                blocks[-1].lines.append(line)
                blocks[-1].numbers.append(number)
            elif not COMMENT.match(line):
                complain(Fault(number, "The front matter must begin with `key: value`"))
        elif found := BEGINNING.match(line):
            blocks.append(_Lines(found[1].rstrip(), [line], [number]))
        else:
            complain(Fault(number, "This line of the front matter is not `key: value`"))
    for block in blocks:
        while NEEDLESS.match(block.lines[-1]):  # belongs to the next entry, or to nobody
            block.lines.pop()
    return blocks


def _entry(block: _Lines, tokens: _Tokens, complain: Complain, warn: Complain) -> Entry | None:
    text, line = "\n".join(block.lines), block.numbers[0]
    if tokens.are_in(block.key):
        complain(Fault(line, "A key of the front matter cannot be a slot"))
        return None
    try:
        key, value = _pair(text, tokens)
    except RecursionError:
        complain(Fault(line, f"`{block.key}` is nested too deep"))
        return None
    except yaml.YAMLError as error:
        return _not_yaml(error, block, tokens, complain, warn)
    if len(key) > LONGEST_KEY // 2:
        complain(Fault(line, "The key is too long"))
        return None
    is_constant = not tokens.are_in(text) and _can_be_copied(text)
    return Entry(key, value, line, text if is_constant else None)


def _can_be_copied(text: str) -> bool:
    """Older readers stumble over a day like 2026-02-30, or a key like `<<`."""
    try:
        yaml.safe_load(text)
    except (yaml.YAMLError, ArithmeticError, TypeError, ValueError, RecursionError):
        return False
    return True


def _pair(text: str, tokens: _Tokens) -> tuple[str, Any]:
    node = compose(text + "\n")
    if not isinstance(node, yaml.MappingNode) or len(node.value) != 1 or node.flow_style:
        raise yaml.YAMLError("it is not one key with one value")
    ((key, value),) = data_of(node, tokens.resolved).items()
    return key, value


def _not_yaml(
    error: yaml.YAMLError, block: _Lines, tokens: _Tokens, complain: Complain, warn: Complain
) -> Entry | None:
    """A single line that is no YAML was meant as the text it is: `note: Important: read it`."""
    line = block.numbers[0]
    if len(block.lines) == 1 and block.key[0] not in "\"'":
        text = block.lines[0][BEGINNING.match(block.lines[0]).end() :].strip()  # type: ignore[union-attr]
        if text and text[0] not in STRUCTURE:
            warn(Fault(line, f"The value of `{block.key}` is taken as text; put it in quotes"))
            return Entry(block.key, tokens.resolved(text), line)
    problem, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
    if mark is not None:
        line = block.numbers[min(mark.line, len(block.numbers) - 1)]
    complain(Fault(line, f"`{block.key}` cannot be read as YAML: {problem or error}"))
    return None
