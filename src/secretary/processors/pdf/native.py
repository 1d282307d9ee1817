"""The text layer of a page, in the order of reading."""

from dataclasses import dataclass

import pypdfium2

from . import pdfium
from .layout.analysis import analyse
from .layout.blocks import Block
from .layout.drawings import Box
from .layout.faults import fault_of
from .layout.headings import (
    LARGER,
    Scale,
    body_size,
    heading_sizes,
    mark_headings,
    mark_tagged_headings,
)
from .layout.letters import clean, is_clean
from .layout.markdown import markdown_of, plain_of
from .text_layer import TextLayer, opened_text
from .typography import Typography


@dataclass(frozen=True, slots=True)
class NativePage:
    text: str
    markdown: str
    #: Why the text layer is of no use, None if it is: no text, garbage, a scan behind it.
    fault: str | None = None


def read_page(page: pypdfium2.PdfPage, typography: Typography | None = None) -> NativePage:
    """`typography`: of the document, to tell the levels of headings alike on all its pages."""
    with opened_text(page) as layer:
        return _analysed(page, layer, typography)


def _analysed(
    page: pypdfium2.PdfPage, layer: TextLayer, typography: Typography | None
) -> NativePage:
    box = Box(*page.get_bbox())
    tagged: bool = page.pdf.is_tagged
    found = analyse(pdfium.handle(page), layer, box, tagged=tagged)
    if found.tagged_headings or (tagged and typography is not None and typography.tagged):
        mark_tagged_headings(found.blocks, typography.scale if typography else None)
    else:
        _mark_headings(found.blocks, typography)
    text, markdown = plain_of(found.blocks), markdown_of(found.blocks)
    if not is_clean(layer.text):
        text, markdown = clean(text), clean(markdown)
    return NativePage(text, markdown, fault_of(text, found.hidden, found.drawings, box))


def _mark_headings(blocks: list[Block], typography: Typography | None) -> None:
    if typography is not None and (scale := typography.scale) is not None:
        mark_headings(blocks, scale)
        return
    body = body_size(line for block in blocks for line in block.lines)
    sizes = {round(size * 2) / 2 for size in heading_sizes(blocks, body)}
    larger = sorted((size for size in sizes if size >= LARGER * body), reverse=True)
    mark_headings(blocks, Scale(body, tuple(larger)))
