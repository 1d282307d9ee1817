"""What the styles of a Word document mean: which are headings, quotes, listings."""

from dataclasses import dataclass

from .blocks import Style
from .style_names import (
    code_like,
    contents_level,
    heading_level,
    list_depth,
    quote_like,
)
from .xml_parts import Element, integer, is_true

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
VALUE = f"{W}val"
#: An outline level that means: none.
_BODY_TEXT = 9
_BASES = 50


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a paragraph's style says."""

    heading: int | None = None
    contents: int | None = None
    is_code: bool = False
    is_quote: bool = False
    #: Which list, and the level in it.
    numbering: tuple[str, int] | None = None
    #: By which the name of a style of lists says that it is deeper.
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
        """The style, then what it is based on."""
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
        heading=None if contents else _heading(chain),
        contents=contents,
        is_code=any(map(code_like, names)),
        is_quote=any(map(quote_like, names)),
        numbering=_numbering(chain),
        depth=max(map(list_depth, names), default=0),
    )


def _heading(chain: list[Element]) -> int | None:
    for element in chain:
        outline = value(element.find(f"{W}pPr"), "outlineLvl")
        if outline is not None:
            return heading_of(outline)
        if found := heading_level(_name(element)):
            return found
    return None


def heading_of(outline: str) -> int | None:
    """The level of a heading whose outline level this is."""
    level = integer(outline, _BODY_TEXT)
    return level + 1 if level < _BODY_TEXT else None


def _numbering(chain: list[Element]) -> tuple[str, int] | None:
    """The list is often that of a style, the level in it that of another based on it."""
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
    """The value of a property, None if it is not set."""
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
