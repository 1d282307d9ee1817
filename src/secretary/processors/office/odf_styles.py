"""The styles of an OpenDocument file: of characters, paragraphs and lists."""

import re
from typing import NamedTuple

from .blocks import PLAIN, Style
from .numerals import LETTERED
from .odf_package import OFFICE
from .style_names import code_like, heading_level, quote_like
from .xml_parts import Element, integer

_URN = "urn:oasis:names:tc:opendocument:xmlns"
TEXT = f"{{{_URN}:text:1.0}}"
STYLE = f"{{{_URN}:style:1.0}}"
FORMAT = f"{{{_URN}:xsl-fo-compatible:1.0}}"
_NAME = f"{STYLE}name"
_FORMS = {**LETTERED, "1": "decimal"}
_PARENTS = 20


class ListLevel(NamedTuple):
    is_numbered: bool
    #: In the words of OOXML; empty where nothing is shown.
    form: str = ""
    prefix: str = ""
    suffix: str = ""
    start: int = 1


BULLET = ListLevel(False)


class OdfStyles:
    def __init__(self, *roots: Element | None) -> None:
        self._styles: dict[tuple[str, str], Element] = {}
        self._lists: dict[str, dict[int, ListLevel]] = {}
        for root in roots:
            if root is None:
                continue
            for holder in root.iterchildren(f"{OFFICE}styles", f"{OFFICE}automatic-styles"):
                self._collect(holder)
        self._characters: dict[tuple[str, str], tuple[Style, str]] = {}

    def character(self, name: str | None, family: str = "text") -> tuple[Style, str]:
        """The style, and whether it is raised (`super`) or lowered (`sub`)."""
        key = (family, name or "")
        if key not in self._characters:
            style, position = PLAIN, ""
            for element in reversed(self._with_parents(family, name)):
                style, position = _styled(element, style, position)
            self._characters[key] = (style, position)
        return self._characters[key]

    def names(self, family: str, name: str | None) -> list[str]:
        """As people see them, with those of its parents."""
        chain = self._with_parents(family, name)
        found = [each.get(f"{STYLE}display-name") or each.get(_NAME, "") for each in chain]
        # The last may be one that every program knows, and none need write.
        last = chain[-1].get(f"{STYLE}parent-style-name") if chain else name
        return [_spelled(each) for each in (*found, last or "")]

    def property(self, family: str, name: str | None, attribute: str) -> str | None:
        for element in self._with_parents(family, name):
            for properties in element:
                value = properties.get(attribute)
                if value is not None:
                    return str(value)
        return None

    def is_code(self, name: str | None) -> bool:
        return any(map(code_like, self.names("paragraph", name)))

    def is_quote(self, name: str | None) -> bool:
        return any(map(quote_like, self.names("paragraph", name)))

    def heading(self, name: str | None) -> int | None:
        """Of a paragraph that is a heading by its style only."""
        found = (heading_level(each) for each in self.names("paragraph", name))
        return next((level for level in found if level), None)

    def list_level(self, name: str | None, level: int) -> ListLevel:
        return self._lists.get(name or "", {}).get(level, BULLET)

    def _collect(self, holder: Element) -> None:
        for element in holder:
            if element.tag == f"{STYLE}style":
                key = (element.get(f"{STYLE}family", ""), element.get(_NAME, ""))
                self._styles.setdefault(key, element)
            elif element.tag == f"{TEXT}list-style":
                levels = {
                    integer(each.get(f"{TEXT}level"), 1) - 1: _level(each) for each in element
                }
                self._lists.setdefault(element.get(_NAME, ""), levels)

    def _with_parents(self, family: str, name: str | None) -> list[Element]:
        chain: list[Element] = []
        while name and (family, name) in self._styles and len(chain) < _PARENTS:
            chain.append(self._styles[family, name])
            name = chain[-1].get(f"{STYLE}parent-style-name")
        return chain


def _styled(element: Element, style: Style, position: str) -> tuple[Style, str]:
    if code_like(_spelled(element.get(f"{STYLE}display-name") or element.get(_NAME, ""))):
        style = style._replace(code=True)
    properties = element.find(f"{STYLE}text-properties")
    if properties is None:
        return style, position
    weight = properties.get(f"{FORMAT}font-weight")
    slant = properties.get(f"{FORMAT}font-style")
    line = properties.get(f"{STYLE}text-line-through-style")
    place = properties.get(f"{STYLE}text-position")
    return style._replace(
        bold=style.bold if weight is None else weight in ("bold", "600", "700", "800", "900"),
        italic=style.italic if slant is None else slant in ("italic", "oblique"),
        strike=style.strike if line is None else line != "none",
    ), position if place is None else _position(place)


def _position(text: str) -> str:
    """`super 58%`, or how far it is raised: `-33% 58%`."""
    first = text.partition(" ")[0]
    if first in ("super", "sub"):
        return first
    raised_by = integer(first.removesuffix("%"))
    return "super" if raised_by > 0 else "sub" if raised_by < 0 else ""


def _level(element: Element) -> ListLevel:
    if not element.tag.endswith("-number"):
        return BULLET
    return ListLevel(
        True,
        _FORMS.get(element.get(f"{STYLE}num-format", ""), ""),
        element.get(f"{STYLE}num-prefix", ""),
        element.get(f"{STYLE}num-suffix", ""),
        integer(element.get(f"{TEXT}start-value"), 1),
    )


def _spelled(name: str) -> str:
    """`Preformatted_20_Text` is how a space is written in a name."""
    return re.sub(r"_([0-9a-f]{2})_", lambda found: chr(int(found[1], 16)), name)
