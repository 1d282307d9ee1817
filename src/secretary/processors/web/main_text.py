"""What a page is about, without its menus, advertisements and footers."""

import copy

from lxml import etree

from ..office.html import parsed_html
from .markup import FRAME, Element, bounded, markdown_of

#: Trafilatura looks at each element many times; pages of talks have some hundreds.
MAX_ELEMENTS = 20_000
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
    if sum(1 for _ in root.iter()) > MAX_ELEMENTS or sum(map(len, root.itertext())) > MAX_LETTERS:
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
    return bounded(markdown_of([parsed_html(b"\xef\xbb\xbf" + found.encode("utf-8", "replace"))]))


def _without_frame(region: Element) -> Element:
    part = copy.deepcopy(region)
    part.tail = None
    etree.strip_elements(part, *FRAME, "h1", with_tail=False)
    return part
