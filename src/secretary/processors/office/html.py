"""Web pages (HTML), as they are in the file: nothing is fetched, no script is run."""

import base64
import binascii
import re
from collections.abc import Callable
from urllib.parse import unquote_to_bytes

from lxml import etree

from ...errors import FileCorrupt
from .blocks import Block, Picture
from .document import OfficeDocument, page_of
from .encodings import decoded_markup, text_at
from .html_flow import SKIPPED, Flow
from .pictures import Pictures
from .xml_parts import Element

XHTML = "{http://www.w3.org/1999/xhtml}"
_HIDDEN = re.compile(r"display\s*:\s*none", re.IGNORECASE)


def read_html(path: str, pictures: Pictures) -> OfficeDocument:
    root = parsed_html(text_at(path))

    def picture(source: str, alt: str) -> Picture:
        data = data_of(source) if pictures.are_kept else None
        return Picture(alt, pictures.keep(data) if data else None)

    facts = {}
    title = root.findtext(".//title")
    if title and title.strip():
        facts["title"] = " ".join(title.split())
    if root.get("lang"):
        facts["language"] = root.get("lang")
    return OfficeDocument(pages=[page_of(1, blocks_of(root, picture), pictures)], facts=facts)


def parsed_html(data: bytes) -> Element:
    text = decoded_markup(data).replace("\0", "")
    parser = etree.HTMLParser(
        encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True, huge_tree=True
    )
    root = etree.fromstring(text.encode("utf-8", "replace"), parser)
    # It mends what it can, but it ends in silence where elements are nested too deeply.
    if any(entry.type_name == "ERR_RESOURCE_LIMIT" for entry in parser.error_log):
        raise FileCorrupt("The elements of the page are nested too deeply")
    if root is None:
        raise FileCorrupt("The page has no content")
    return root


def blocks_of(root: Element, picture: Callable[[str, str], Picture]) -> list[Block]:
    """`picture` is given the source and the description of each."""
    flow = Flow()
    walk = etree.iterwalk(root, events=("start", "end"))
    hidden: Element | None = None
    for event, element in walk:
        name = element.tag.removeprefix(XHTML) if isinstance(element.tag, str) else ""
        if event == "start":
            if name in SKIPPED or is_hidden(element):
                hidden = element
                walk.skip_subtree()
                continue
            _start(flow, name, element, picture)
            if name == "math":
                hidden = element
                walk.skip_subtree()
            elif element.text:
                flow.text(element.text)
            continue
        if element is not hidden or name == "math":
            flow.end(name)
        hidden = None
        if element.tail and element is not root:
            flow.text(element.tail)
    return flow.blocks()


def _start(flow: Flow, name: str, element: Element, picture: Callable[[str, str], Picture]) -> None:
    flow.start(name, element)
    if name == "img":
        flow.picture(picture(element.get("src") or "", element.get("alt") or ""))
    elif name == "input" and (element.get("type") or "").lower() == "checkbox":
        flow.sign("☒ " if element.get("checked") is not None else "☐ ")
    elif name == "math":
        flow.text(element.get("alttext") or " ".join("".join(element.itertext()).split()))


def is_hidden(element: Element) -> bool:
    return element.get("hidden") is not None or bool(_HIDDEN.search(element.get("style") or ""))


def data_of(source: str) -> bytes | None:
    """What a `data:` URI holds."""
    if source[:5].lower() != "data:":
        return None
    head, _, body = source[5:].partition(",")
    try:
        data = unquote_to_bytes(body)
        return base64.b64decode(data, validate=False) if head.endswith(";base64") else data
    except (binascii.Error, ValueError):
        return None
