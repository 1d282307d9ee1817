"""The labels of list items and numbered headings, counted as Word counts them."""

import re
from dataclasses import dataclass, field

from .docx_styles import W, value
from .numerals import counted, numeral
from .xml_parts import Element, integer

_LEVELS = 9


@dataclass(frozen=True, slots=True)
class Label:
    """`marker` begins an item in Markdown; `text` is what Word shows, without a bullet's sign."""

    marker: str
    text: str


@dataclass(slots=True)
class _List:
    levels: dict[int, Element]
    counts: list[int | None] = field(default_factory=lambda: [None] * _LEVELS)


class Numbering:
    def __init__(self, root: Element | None) -> None:
        self._lists: dict[str, _List] = {}
        #: Number -> its list, and where levels start anew when it is used first.
        self._numbers: dict[str, tuple[_List, dict[int, int]]] = {}
        if root is not None:
            self._read(root)

    def label(self, number: str, level: int) -> Label | None:
        """Counts on; None for what is no list."""
        if number not in self._numbers:
            return None
        found, restarts = self._numbers[number]
        level = min(max(level, 0), _LEVELS - 1)
        if level in restarts:
            found.counts[level] = restarts.pop(level) - 1
        element = found.levels.get(level)
        form = value(element, "numFmt") or "decimal"
        if form == "bullet":
            return Label("-", "")
        self._count(found, level)
        text = _text(found, level)
        if form == "none" and not text:
            return None
        return Label(counted(text) or "-", text)

    def _count(self, found: _List, level: int) -> None:
        counts = found.counts
        before = counts[level]
        counts[level] = _start(found, level) if before is None else before + 1
        for deeper in range(level + 1, _LEVELS):
            counts[deeper] = None

    def _read(self, root: Element) -> None:
        by_style: dict[str, str] = {}
        linked: dict[str, str] = {}
        for element in root.iterchildren(f"{W}abstractNum"):
            key = element.get(f"{W}abstractNumId", "")
            self._lists[key] = _List(_levels(element))
            if style := value(element, "styleLink"):
                by_style[style] = key
            if style := value(element, "numStyleLink"):
                linked[key] = style
        for element in root.iterchildren(f"{W}num"):
            key = value(element, "abstractNumId") or ""
            key = by_style.get(linked.get(key, ""), key)
            if key in self._lists:
                number = element.get(f"{W}numId", "")
                self._numbers[number] = (self._lists[key], _restarts(element))


def _levels(element: Element) -> dict[int, Element]:
    return {integer(each.get(f"{W}ilvl")): each for each in element.iterchildren(f"{W}lvl")}


def _restarts(element: Element) -> dict[int, int]:
    found = {}
    for override in element.iterchildren(f"{W}lvlOverride"):
        start = value(override, "startOverride")
        if start is not None:
            found[integer(override.get(f"{W}ilvl"))] = integer(start)
    return found


def _start(found: _List, level: int) -> int:
    return integer(value(found.levels.get(level), "start"), 1)


def _text(found: _List, level: int) -> str:
    element = found.levels.get(level)
    pattern = value(element, "lvlText")
    if pattern is None:
        pattern = f"%{level + 1}."
    is_legal = element is not None and element.find(f"{W}isLgl") is not None

    def shown(match: re.Match[str]) -> str:
        at = int(match[1]) - 1
        count = found.counts[at]
        number = _start(found, at) if count is None else count
        theirs = value(found.levels.get(at), "numFmt") or "decimal"
        return numeral(number, "decimal" if is_legal else theirs)

    return re.sub(r"%([1-9])", shown, pattern).strip()
