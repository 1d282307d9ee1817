"""Headings, told by their size, weight and numbers beside the body of the text."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .blocks import Block, Kind, ends
from .lines import Line

#: Beside the body: from here on a line is larger.
LARGER = 1.12
LONGEST = 160
MOST_LINES = 4
NUMBERED = re.compile(
    r"(?:(?:chapter|section|appendix|part|kapitel|abschnitt|anhang|teil)\s+)?"
    r"(?:\d{1,2}(?:\.\d{1,2}){0,4}[.:]?|[A-Z](?:\.\d{1,2})*\.?|[IVX]{1,5}[.:]|§\s?\d+)\s+\S",
    re.IGNORECASE,
)
#: Sections that have no number, as a rule.
NAMES = frozenset(
    {"abstract", "introduction", "conclusion", "conclusions", "references", "bibliography"}
    | {"acknowledgment", "acknowledgments", "acknowledgement", "acknowledgements", "contents"}
    | {"appendix", "summary", "discussion", "results", "methods", "table of contents"}
    | {"zusammenfassung", "einleitung", "literatur", "literaturverzeichnis", "danksagung"}
    | {"inhaltsverzeichnis", "inhalt", "anhang", "fazit", "quellen", "list of figures"}
    | {"list of tables", "abbildungsverzeichnis", "tabellenverzeichnis", "glossary", "index"}
)
DEPTH = re.compile(r"(\d{1,2}(?:\.\d{1,2}){0,4})\.?\s")
CAPTION = re.compile(
    r"(?:table|figure|fig\.|tabelle|abbildung|abb\.|listing|source|quelle)\s*\d*", re.I
)
WORDS = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True, slots=True)
class Scale:
    """The sizes of a text: its body, and what is above it."""

    body: float
    #: Sizes of headings, the greatest first.
    sizes: tuple[float, ...] = ()

    def level(self, size: float) -> int:
        for number, other in enumerate(self.sizes, 1):
            if size >= other - 0.25:
                return min(number, 6)
        return min(len(self.sizes) + 1, 6)


def body_size(lines: Iterable[Line]) -> float:
    weights: dict[float, int] = {}
    for line in lines:
        size = round(line.size * 2) / 2
        weights[size] = weights.get(size, 0) + len(line.text)
    return max(weights, key=lambda size: weights[size], default=10.0)


def heading_sizes(blocks: Sequence[Block], body: float) -> list[float]:
    return [block.lines[0].size for block in blocks if is_heading(block, body)]


def is_heading(block: Block, body: float) -> bool:
    if block.kind not in (Kind.PARAGRAPH, Kind.ITEM) or len(block.lines) > MOST_LINES:
        return False
    first, last = block.lines[0], block.lines[-1]
    text = block.text
    if len(text) > LONGEST or not WORDS.search(text) or CAPTION.match(text) or last.entry:
        return False
    numbered = NUMBERED.match(text) is not None
    if block.kind is Kind.ITEM and not numbered:
        return False
    if first.size >= LARGER * body:
        return len(block.lines) <= 3 or first.size >= 1.3 * body
    if first.size < 0.9 * body or len(block.lines) > 2 or len(text) > 100:
        return False
    if text.lower().strip(" .:") in NAMES:
        return True
    if (ends(last) and not (numbered and first.bold)) or text.endswith((",", ";", "-")):
        return False
    return first.bold or (numbered and (first.italic or _is_capitals(text)))


def _is_capitals(text: str) -> bool:
    return text.upper() == text and sum(map(str.isupper, text)) > 3


def mark_headings(blocks: Sequence[Block], scale: Scale) -> None:
    for number, block in enumerate(blocks):
        if not is_heading(block, scale.body):
            continue
        first = block.lines[0]
        larger = first.size >= LARGER * scale.body
        if not larger and not _stands_alone(blocks, number):
            continue
        block.kind = Kind.HEADING
        block.level = scale.level(first.size) if larger else _small_level(block, scale)


def _small_level(block: Block, scale: Scale) -> int:
    match = DEPTH.match(block.text)
    level = len(scale.sizes) + 1
    return min(max(level, match.group(1).count(".") + 1 if match else 2), 6)


def _stands_alone(blocks: Sequence[Block], number: int) -> bool:
    """Bold text of the body's size heads something that is not bold."""
    if number + 1 >= len(blocks):
        return False
    after = blocks[number + 1]
    return after.kind is Kind.TABLE or not after.lines[0].bold
