"""Parses the XML of office files without entities, DTDs or network access."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, TypeAlias

from lxml import etree

from ...core.errors import FileCorrupt

#: lxml has no types.
Element: TypeAlias = Any

#: Dublin Core, the namespace of titles, authors and the like in many formats.
DUBLIN = "{http://purl.org/dc/elements/1.1/}"
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")

#: Larger numbers are not plausible counts or lengths, and may have too many digits to print.
_MAX_INT = 10**18
_PARSER_OPTIONS: dict[str, Any] = {
    "resolve_entities": False, "load_dtd": False, "no_network": True, "huge_tree": False,
    "remove_comments": True, "remove_pis": True,
}  # fmt: skip


def parse_xml(data: bytes) -> Element:
    if b"purl.oclc.org/ooxml" in data[:8192]:
        # "Strict" files differ in their namespaces only.
        data = _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/", data)
    # A new parser for each part: a parser keeps all names it has seen.
    root = etree.fromstring(data, etree.XMLParser(**_PARSER_OPTIONS))
    dtd = root.getroottree().docinfo.internalDTD
    if dtd is not None and any(True for _ in chain(dtd.iterentities(), root.iter(etree.Entity))):
        raise FileCorrupt("The document declares XML entities, which office programs never do")
    return root


def iter_elements(stream: Any, tags: Iterable[str]) -> Iterator[Element]:
    """Yield each element with one of these tags once it is complete, and free what precedes it."""
    events = etree.iterparse(stream, events=("end",), tag=tuple(tags), **_PARSER_OPTIONS)
    for number, (_, element) in enumerate(events):
        if not number and element.getroottree().docinfo.internalDTD is not None:
            raise FileCorrupt("A part of the document has a DTD, which office programs never write")
        yield element
        element.clear(keep_tail=False)
        while element.getprevious() is not None:
            del element.getparent()[0]


def parse_int(text: str | None, default: int = 0) -> int:
    """Parse a number in an attribute, which may be a decimal, invalid or missing."""
    try:
        number = int(float(text or default))
    except (ValueError, OverflowError):
        return default
    return number if abs(number) < _MAX_INT else default


def parse_bool(text: str | None) -> bool:
    return text in ("1", "true")


def child_texts(holder: Element, names: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of the children, by the names given for their tags."""
    texts = {names[each.tag]: (each.text or "").strip() for each in holder if each.tag in names}
    return {name: text for name, text in texts.items() if text}
