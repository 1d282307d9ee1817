"""Parses downloaded pages within limits, and converts their elements to text and Markdown."""

import copy
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

from lxml import etree

from ..core.errors import FileCorrupt, FileTooLarge
from ..documents.office.blocks import Block, Picture
from ..documents.office.html import html_blocks, is_hidden, parse_html
from ..documents.office.markdown import to_markdown
from .talk import absolute_url, single_line

#: lxml has no types.
Element: TypeAlias = Any

MAX_BYTES = 8 * 1024 * 1024
MAX_ELEMENTS = 60_000
#: Characters of the extracted text; an abstract has a few thousand.
MAX_TEXT = 200_000
#: Limits for Trafilatura, which visits every element many times; pages of talks have some hundreds.
MAX_EXTRACTED_ELEMENTS = 20_000
MAX_EXTRACTED_CHARACTERS = 1_000_000
#: If Trafilatura finds less, it is likely to have taken everything, menus included.
MIN_EXTRACTED = 200
#: Page furniture and forms.
FRAME = ("nav", "header", "footer", "aside", "form", "button", "dialog")
_UNREAD = ("script", "style", "noscript", "template", "svg", "canvas", "object", "embed", "math")
_HEADING = re.compile(rb"<(/?)h([1-6])(?![\w-])", re.I)
_BOM = b"\xef\xbb\xbf"


def read_page(path: str) -> bytes:
    if Path(path).stat().st_size > MAX_BYTES:
        raise FileTooLarge("The page is larger than allowed", limit_bytes=MAX_BYTES)
    return Path(path).read_bytes()


def parse_page(data: bytes, url: str) -> Element:
    """Parse a page and make its links absolute; links that do not lead to the web are removed."""
    root = parse_html(_close_headings(data))
    if sum(1 for _ in zip(root.iter(), range(MAX_ELEMENTS + 1), strict=False)) > MAX_ELEMENTS:
        raise FileTooLarge("The page has more elements than allowed", max_elements=MAX_ELEMENTS)
    base = root.find(".//base[@href]")
    base_url = (absolute_url(base.get("href"), url) if base is not None else None) or url
    for element in root.iter():
        for name in ("href", "src", "data-src"):
            target = element.get(name) if isinstance(element.tag, str) else None
            if target is None:
                continue
            whole = absolute_url(target, base_url) if not target.startswith("#") else None
            if whole is None:
                del element.attrib[name]
            else:
                element.set(name, whole)
    return root


def _close_headings(data: bytes) -> bytes:
    """Correct `<h1>…</h2>`, found on FOSDEM's pages: browsers close the heading, lxml does not."""
    level = b""

    def correct(tag: re.Match[bytes]) -> bytes:
        nonlocal level
        if not tag[1]:
            level = tag[2]
            return tag[0]
        closed, level = level or tag[2], b""
        return b"</h" + closed

    return _HEADING.sub(correct, data)


def remove_unread(root: Element) -> None:
    """Remove scripts and hidden elements: some of them contain instructions for machines."""
    for element in root.iter():
        is_page = element.tag in ("html", "body", "main", "article")  # hidden until it is loaded
        if isinstance(element.tag, str) and not is_page and is_hidden(element):
            element.tag = _UNREAD[0]
    etree.strip_elements(root, *_UNREAD, with_tail=False)


def text_of(element: Element | None, max_length: int = 500) -> str:
    """Return the text of an element as one line."""
    if element is None:
        return ""
    parts, size = [], 0
    for part in element.itertext():
        parts.append(part)
        size += len(part)
        if size > 8 * max_length:
            break
    return single_line("".join(parts), max_length)


def with_class(root: Element, name: str, tag: str = "*") -> list[Element]:
    test = f"contains(concat(' ', normalize-space(@class), ' '), ' {name} ')"
    elements: list[Element] = root.xpath(f".//{tag}[{test}]")
    return elements


def is_within(element: Element, tags: Iterable[str]) -> bool:
    return any(parent.tag in tags for parent in element.iterancestors())


def to_page_markdown(elements: Iterable[Element]) -> str:
    """Convert elements to Markdown without their images."""
    blocks: list[Block] = []
    for element in elements:
        blocks += html_blocks(element, lambda source, alt: Picture("", None))
    try:
        text = to_markdown(blocks)
    except RecursionError:
        raise FileCorrupt("The elements of the page are nested too deeply") from None
    if len(text) <= MAX_TEXT:
        return text
    cut = text[:MAX_TEXT]  # at the end of a paragraph
    return cut[: cut.rfind("\n\n") + 1 or None].rstrip() + "\n"


def html_to_markdown(html: str) -> str:
    """Convert an HTML fragment or a plain text to Markdown."""
    if not html.strip():
        return ""
    data = f"<html><body><div>{html[:MAX_TEXT]}</div></body></html>".encode("utf-8", "replace")
    root = parse_html(_BOM + data)
    remove_unread(root)
    return to_page_markdown([root])


def main_text(root: Element) -> str:
    """Return the main content of a page as Markdown."""
    extracted = _extract(root)
    if len(extracted) >= MIN_EXTRACTED:
        return extracted
    element = copy.deepcopy(content_element(root))
    if element is None:
        return extracted
    element.tail = None
    etree.strip_elements(element, *FRAME, "h1", with_tail=False)
    return to_page_markdown([element]) or extracted


def content_element(root: Element) -> Element | None:
    """Return the element that is marked as the content of the page."""
    elements = root.xpath(
        "//main | //*[@role='main'] | //article | //*[@id='content' or @id='main']"
    )
    return elements[0] if elements else None


def _extract(root: Element) -> str:
    if (
        sum(1 for _ in root.iter()) > MAX_EXTRACTED_ELEMENTS
        or sum(map(len, root.itertext())) > MAX_EXTRACTED_CHARACTERS
    ):
        return ""
    # Imported here: pages of known conference systems do not need it.
    from lxml import html
    from trafilatura import extract

    # It gets a tree, so there is nothing to fetch.
    tree = html.fromstring(etree.tostring(root, encoding="unicode", method="html"))
    extracted = extract(
        tree,
        output_format="html",
        fast=True,
        include_comments=False,
        include_formatting=True,
        include_links=True,
        with_metadata=False,
    )
    if not extracted:
        return ""
    return to_page_markdown([parse_html(_BOM + extracted.encode("utf-8", "replace"))])
