"""XML of strangers: no entity is expanded, nothing outside is fetched, depth is bounded."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from lxml import etree

from ...errors import FileCorrupt

#: lxml has no types.
Element: TypeAlias = Any

_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")


def parsed(data: bytes) -> Element:
    if b"purl.oclc.org/ooxml" in data[:8192]:
        # "Strict" files are the same under other names.
        data = _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/", data)
    root = etree.fromstring(data, _parser())
    _refuse_entities(root.getroottree())
    return root


def elements(stream: Any, tags: Iterable[str]) -> Iterator[Element]:
    """Each element of these names when it is complete; what is before it is forgotten."""
    events = etree.iterparse(
        stream, events=("end",), tag=tuple(tags), resolve_entities=False, load_dtd=False,
        no_network=True, huge_tree=False, remove_comments=True, remove_pis=True,
    )  # fmt: skip
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
    try:
        return int(text) if text else default
    except ValueError:
        try:
            return int(float(text or 0))
        except (ValueError, OverflowError):
            return default


def _parser() -> Any:
    # One for each part: a parser keeps the names of all that it has seen.
    return etree.XMLParser(
        resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False,
        remove_comments=True, remove_pis=True,
    )  # fmt: skip


def _refuse_entities(tree: Any) -> None:
    dtd = tree.docinfo.internalDTD
    if dtd is None:
        return
    declared = next(iter(dtd.iterentities()), None)
    used = next(tree.getroot().iter(etree.Entity), None)
    if declared is not None or used is not None:
        raise FileCorrupt("The document has entities of its own, as no office program makes them")
