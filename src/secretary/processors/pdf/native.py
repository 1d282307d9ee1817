"""The text layer of a page, in the order of reading."""

from dataclasses import dataclass

import pypdfium2

from . import pdfium
from .layout.analysis import Analysis, analyse
from .layout.drawings import Box
from .layout.faults import fault_of
from .layout.headings import Scale, body_size, heading_sizes, mark_headings
from .layout.letters import clean
from .layout.markdown import markdown_of, plain_of
from .text_layer import TextLayer, opened_text


@dataclass(frozen=True, slots=True)
class NativePage:
    text: str
    markdown: str
    #: Why the text layer is of no use, None if it is: no text, garbage, a scan behind it.
    fault: str | None = None


def read_page(page: pypdfium2.PdfPage, scale: Scale | None = None) -> NativePage:
    with opened_text(page) as layer:
        return _analysed(page, layer, scale)


def _analysed(page: pypdfium2.PdfPage, layer: TextLayer, scale: Scale | None) -> NativePage:
    box = Box(*page.get_bbox())
    found = analyse(pdfium.handle(page), layer, box)
    mark_headings(found.blocks, scale or page_scale(found))
    text = clean(plain_of(found.blocks))
    fault = fault_of(text, found.hidden, found.drawings, box)
    return NativePage(text, clean(markdown_of(found.blocks)), fault)


def page_scale(found: Analysis) -> Scale:
    body = body_size(line for block in found.blocks for line in block.lines)
    sizes = {round(size * 2) / 2 for size in heading_sizes(found.blocks, body)}
    return Scale(body, tuple(sorted((s for s in sizes if s >= 1.12 * body), reverse=True)))
