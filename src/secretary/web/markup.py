"""A downloaded page as a tree: bounded, without scripts, its links absolute."""

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
from .links import absolute_url, single_line

#: lxml has no types.
Element: TypeAlias = Any

MAX_BYTES = 8 * 1024 * 1024
MAX_ELEMENTS = 60_000
#: Bytes of one tag without the values of its attributes. The parser compares each with each.
MAX_TAG = 16 * 1024
#: Of the text that is kept; an abstract has a few thousand.
MAX_TEXT = 200_000
_UNREAD = ("script", "style", "noscript", "template", "svg", "canvas", "object", "embed", "math")
_HEADING = re.compile(rb"<(/?)h([1-6])(?![\w-])", re.I)
_VALUE = re.compile(rb"\"[^\"]*\"|'[^']*'")
_LONG_TAG = re.compile(rb"<[A-Za-z](?:[^\"'>]|\"[^\"]*\"|'[^']*'){2000,}+")
#: What stands on every page of a site, and forms.
FRAME = ("nav", "header", "footer", "aside", "form", "button", "dialog")


def page_at(path: str) -> bytes:
    if Path(path).stat().st_size > MAX_BYTES:
        raise FileTooLarge("The page is larger than allowed", limit_bytes=MAX_BYTES)
    return Path(path).read_bytes()


def parsed_page(data: bytes, url: str) -> Element:
    _require_short_tags(data)
    root = parse_html(_with_ended_headings(data))
    if sum(1 for _ in zip(root.iter(), range(MAX_ELEMENTS + 1), strict=False)) > MAX_ELEMENTS:
        raise FileTooLarge("The page has more elements than allowed", max_elements=MAX_ELEMENTS)
    base = root.find(".//base[@href]")
    place = (absolute_url(base.get("href"), url) if base is not None else None) or url
    for element in root.iter():
        for name in ("href", "src", "data-src"):
            target = element.get(name) if isinstance(element.tag, str) else None
            if target is None:
                continue
            whole = absolute_url(target, place) if not target.startswith("#") else None
            if whole is None:
                del element.attrib[name]
            else:
                element.set(name, whole)
    return root


def _require_short_tags(data: bytes) -> None:
    for tag in _LONG_TAG.finditer(_outside_scripts(data)):
        if len(_VALUE.sub(b"", tag[0])) > MAX_TAG:
            raise FileCorrupt("An element of the page has more attributes than allowed")


def _outside_scripts(data: bytes) -> bytes:
    """In a script a sign for `less` begins no tag."""
    first, *others = re.split(rb"<script", data, flags=re.I)
    kept = [first]
    for part in others:
        start, end = part.find(b">") + 1, re.search(rb"</script", part, re.I)
        kept += [b"<script", part[:start], part[end.start() :] if end else b""]
    return b"".join(kept)


def _with_ended_headings(data: bytes) -> bytes:
    """`<h1>…</h2>` ends the heading, to browsers and on FOSDEM's pages; not so to our parser."""
    rank = b""

    def ended(tag: re.Match[bytes]) -> bytes:
        nonlocal rank
        if not tag[1]:
            rank = tag[2]
            return tag[0]
        told, rank = rank or tag[2], b""
        return b"</h" + told

    return _HEADING.sub(ended, data)


def without_scripts(root: Element) -> None:
    """Without what nobody sees, too: some of it is written for machines to obey."""
    for element in root.iter():
        is_page = element.tag in ("html", "body", "main", "article")  # shown when it is complete
        if isinstance(element.tag, str) and not is_page and is_hidden(element):
            element.tag = _UNREAD[0]
    etree.strip_elements(root, *_UNREAD, with_tail=False)


def text_of(element: Element | None, longest: int = 500) -> str:
    """In one line."""
    if element is None:
        return ""
    parts, size = [], 0
    for part in element.itertext():
        parts.append(part)
        size += len(part)
        if size > 8 * longest:
            break
    return single_line("".join(parts), longest)


def with_class(root: Element, name: str, tag: str = "*") -> list[Element]:
    test = f"contains(concat(' ', normalize-space(@class), ' '), ' {name} ')"
    found: list[Element] = root.xpath(f".//{tag}[{test}]")
    return found


def is_within(element: Element, names: Iterable[str]) -> bool:
    return any(parent.tag in names for parent in element.iterancestors())


def markdown_of(elements: Iterable[Element]) -> str:
    """What they say, one after the other; pictures are left out."""
    blocks: list[Block] = []
    for element in elements:
        blocks += html_blocks(element, lambda source, alt: Picture("", None))
    try:
        return bounded(to_markdown(blocks))
    except RecursionError:
        raise FileCorrupt("The elements of the page are nested too deeply") from None


def markdown_of_html(html: str) -> str:
    """Of a piece of HTML in a text, or of a plain text."""
    if not html.strip():
        return ""
    data = f"<html><body><div>{html[:MAX_TEXT]}</div></body></html>".encode("utf-8", "replace")
    root = parse_html(b"\xef\xbb\xbf" + data)
    without_scripts(root)
    return markdown_of([root])


def bounded(text: str) -> str:
    """At the end of a paragraph, where it is too long."""
    if len(text) <= MAX_TEXT:
        return text
    cut = text[:MAX_TEXT]
    return cut[: cut.rfind("\n\n") + 1 or None].rstrip() + "\n"


#: Trafilatura looks at each element many times; pages of talks have some hundreds.
MAIN_TEXT_MAX_ELEMENTS = 20_000
MAX_LETTERS = 1_000_000
#: Where it finds less it takes all there is, menus too.
ENOUGH = 200


def main_text(root: Element) -> str:
    found = _by_trafilatura(root)
    if len(found) >= ENOUGH:
        return found
    region = region_of(root)
    own = markdown_of([_without_frame(region)]) if region is not None else ""
    return own or found


def region_of(root: Element) -> Element | None:
    """The part of a page that says of itself to be its content."""
    found = root.xpath("//main | //*[@role='main'] | //article | //*[@id='content' or @id='main']")
    return found[0] if found else None


def _by_trafilatura(root: Element) -> str:
    if (
        sum(1 for _ in root.iter()) > MAIN_TEXT_MAX_ELEMENTS
        or sum(map(len, root.itertext())) > MAX_LETTERS
    ):
        return ""
    # Loaded here: pages of known programs go without.
    from lxml import html
    from trafilatura import extract

    # Given a tree it has nothing to fetch; the names of links are kept, and pictures are not.
    tree = html.fromstring(etree.tostring(root, encoding="unicode", method="html"))
    found = extract(
        tree,
        output_format="html",
        fast=True,
        include_comments=False,
        include_formatting=True,
        include_links=True,
        with_metadata=False,
    )
    if not found:
        return ""
    return bounded(markdown_of([parse_html(b"\xef\xbb\xbf" + found.encode("utf-8", "replace"))]))


def _without_frame(region: Element) -> Element:
    part = copy.deepcopy(region)
    part.tail = None
    etree.strip_elements(part, *FRAME, "h1", with_tail=False)
    return part
