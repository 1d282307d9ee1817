"""XML of strangers: no entity is expanded, nothing outside is fetched, depth is bounded."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from lxml import etree

from ...errors import FileCorrupt

#: lxml has no types.
Element: TypeAlias = Any

#: Dublin Core: what many formats call titles, authors and the like.
DUBLIN = "{http://purl.org/dc/elements/1.1/}"
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")

#: What nobody counts or measures; to write it down may take more digits than Python writes.
_ABSURD = 10**18
_GUARDED: dict[str, Any] = {
    "resolve_entities": False, "load_dtd": False, "no_network": True, "huge_tree": False,
    "remove_comments": True, "remove_pis": True,
}  # fmt: skip


def parsed(data: bytes) -> Element:
    if b"purl.oclc.org/ooxml" in data[:8192]:
        # "Strict" files are the same under other names.
        data = _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/", data)
    # A parser for each part: it keeps the names of all that it has seen.
    root = etree.fromstring(data, etree.XMLParser(**_GUARDED))
    _refuse_entities(root.getroottree())
    return root


def elements(stream: Any, tags: Iterable[str]) -> Iterator[Element]:
    """Each element of these names when it is complete; what is before it is forgotten."""
    events = etree.iterparse(stream, events=("end",), tag=tuple(tags), **_GUARDED)
    is_first = True
    for _, element in events:
        if is_first and element.getroottree().docinfo.internalDTD is not None:
            raise FileCorrupt("A part of the document has a DTD, as no office program makes one")
        is_first = False
        yield element
        element.clear(keep_tail=False)
        while element.getprevious() is not None:
            del element.getparent()[0]


def integer(text: str | None, default: int = 0) -> int:
    """Numbers in attributes, some of which are written as decimals or not at all."""
    if not text:
        return default
    try:
        number = int(text)
    except ValueError:
        try:
            number = int(float(text))
        except (ValueError, OverflowError):
            return default
    return number if abs(number) < _ABSURD else default


def is_true(text: str | None) -> bool:
    return text in ("1", "true")


def texts_in(holder: Element, names: Mapping[str, str]) -> dict[str, str]:
    """The texts of its children that have a name of ours, by that name."""
    found = {names[each.tag]: (each.text or "").strip() for each in holder if each.tag in names}
    return {name: text for name, text in found.items() if text}


def _refuse_entities(tree: Any) -> None:
    dtd = tree.docinfo.internalDTD
    if dtd is None:
        return
    declared = next(iter(dtd.iterentities()), None)
    used = next(tree.getroot().iter(etree.Entity), None)
    if declared is not None or used is not None:
        raise FileCorrupt("The document has entities of its own, as no honest program makes them")
