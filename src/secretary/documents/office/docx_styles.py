"""Interprets the styles and list numbering of Word documents."""

import re
from dataclasses import dataclass, field

from .blocks import Style
from .containers import Element, integer, is_true
from .conventions import (
    code_like,
    contents_level,
    counted,
    heading_level,
    list_depth,
    numeral,
    quote_like,
)

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
VALUE = f"{W}val"
#: The outline level of body text.
_BODY_TEXT = 9
_BASES = 50


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a paragraph style means."""

    heading: int | None = None
    contents: int | None = None
    is_code: bool = False
    is_quote: bool = False
    #: The list id, and the level in it.
    numbering: tuple[str, int] | None = None
    #: The nesting depth that the name of a list style implies.
    depth: int = 0


class Styles:
    def __init__(self, root: Element | None) -> None:
        found = root.iterchildren(f"{W}style") if root is not None else ()
        self._styles = {style.get(f"{W}styleId", ""): style for style in found}
        self._defaults = {
            style.get(f"{W}type"): key
            for key, style in self._styles.items()
            if is_true(style.get(f"{W}default"))
        }
        self._meanings: dict[str | None, Meaning] = {}
        self._characters: dict[str, Style] = {}

    def meaning(self, identity: str | None) -> Meaning:
        identity = identity or self._defaults.get("paragraph")
        if identity not in self._meanings:
            self._meanings[identity] = _meaning(self._with_bases(identity))
        return self._meanings[identity]

    def character(self, identity: str) -> Style:
        if identity not in self._characters:
            style = Style()
            for element in reversed(self._with_bases(identity)):
                style = styled(element.find(f"{W}rPr"), style)
                style = style._replace(code=style.code or code_like(_name(element)))
            self._characters[identity] = style
        return self._characters[identity]

    def _with_bases(self, identity: str | None) -> list[Element]:
        """Return the style followed by the styles it is based on."""
        chain: list[Element] = []
        while identity in self._styles and len(chain) < _BASES:
            element = self._styles[identity]
            chain.append(element)
            identity = value(element, "basedOn")
        return chain


def _meaning(chain: list[Element]) -> Meaning:
    names = [_name(element) for element in chain]
    contents = next(filter(None, map(contents_level, names)), None)
    return Meaning(
        heading=None if contents else _style_heading(chain),
        contents=contents,
        is_code=any(map(code_like, names)),
        is_quote=any(map(quote_like, names)),
        numbering=_numbering(chain),
        depth=max(map(list_depth, names), default=0),
    )


def _style_heading(chain: list[Element]) -> int | None:
    for element in chain:
        outline = value(element.find(f"{W}pPr"), "outlineLvl")
        if outline is not None:
            return heading_of(outline)
        if found := heading_level(_name(element)):
            return found
    return None


def heading_of(outline: str) -> int | None:
    """Return the heading level of an outline level, None for body text."""
    level = integer(outline, _BODY_TEXT)
    return level + 1 if level < _BODY_TEXT else None


def _numbering(chain: list[Element]) -> tuple[str, int] | None:
    """Return list and level: often the list comes from a base style, the level from its child."""
    level = None
    for element in chain:
        numbered = element.find(f"{W}pPr/{W}numPr")
        level = level or value(numbered, "ilvl")
        identity = value(numbered, "numId")
        if identity is not None:
            return identity, integer(level)
    return None


def _name(style: Element) -> str:
    return (value(style, "name") or "").strip()


def value(element: Element | None, name: str) -> str | None:
    """Return the value of a property, None if it is not set."""
    found = element.find(f"{W}{name}") if element is not None else None
    return found.get(VALUE) if found is not None else None


def is_on(element: Element | None, name: str, inherited: bool = False) -> bool:
    found = element.find(f"{W}{name}") if element is not None else None
    return inherited if found is None else found.get(VALUE) not in ("0", "false", "off", "none")


def styled(properties: Element | None, style: Style) -> Style:
    if properties is None or not len(properties):
        return style
    return style._replace(
        bold=is_on(properties, "b", style.bold),
        italic=is_on(properties, "i", style.italic),
        strike=is_on(properties, "strike", style.strike) or is_on(properties, "dstrike"),
    )


_LEVELS = 9


@dataclass(frozen=True, slots=True)
class Label:
    """`marker` starts an item in Markdown; `text` is what Word displays, except bullets."""

    marker: str
    text: str


@dataclass(slots=True)
class _List:
    levels: dict[int, Element]
    counts: list[int | None] = field(default_factory=lambda: [None] * _LEVELS)


class Numbering:
    def __init__(self, root: Element | None) -> None:
        self._lists: dict[str, _List] = {}
        #: List number -> its list, and the levels that restart when it is first used.
        self._numbers: dict[str, tuple[_List, dict[int, int]]] = {}
        if root is not None:
            self._read(root)

    def label(self, number: str, level: int) -> Label | None:
        """Return the next label of a list; None if the paragraph is not in a list."""
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
        text = _label_text(found, level)
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


def _label_text(found: _List, level: int) -> str:
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
