"""The pages of a PDF, one after the other, each kept when it is done."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import pypdfium2
import pypdfium2.raw as raw
from PIL import Image

from ...core.errors import FileCorrupt
from ..page_task import (
    DocumentInfo,
    PageReading,
    PageTask,
    PendingPage,
    save_model_image,
    save_page,
    save_page_images,
)
from . import pdfium
from .document import RepairedPdf, open_page, open_pdf, require_complete
from .font_stats import FontStats
from .layout.analysis import analyse
from .layout.blocks import Block, markdown_of, plain_of
from .layout.drawings import Box
from .layout.headings import (
    LARGER,
    FontSizes,
    body_size,
    heading_sizes,
    mark_headings,
    mark_tagged_headings,
)
from .layout.runs import clean, is_clean
from .layout.text_layer_quality import fault_of
from .text_layer import TextLayer, opened_text

POINTS_PER_INCH = 72
#: Of the page: a picture that covers so much of it is what there is to read.
MUCH = 0.3
MOST_PICTURES = 50


def render_page(
    page: pypdfium2.PdfPage, *, dpi: float, max_pixels: int, grey: bool = False
) -> Image.Image:
    """A huge page is drawn more coarsely: memory is bounded, whatever its size."""
    width, height = page.get_size()
    scale = dpi / POINTS_PER_INCH
    pixels = max(width * scale, 1) * max(height * scale, 1)
    if pixels > max_pixels:
        scale *= (max_pixels / pixels) ** 0.5
    bitmap = page.render(scale=scale, grayscale=grey)
    try:
        picture: Image.Image = bitmap.to_pil().convert("L" if grey else "RGB")
        return picture
    finally:
        bitmap.close()


def has_broken_image(page: pypdfium2.PdfPage) -> bool:
    """Whether a picture that covers much of the page cannot be decoded: it is drawn as nothing."""
    width, height = page.get_size()
    pictures = page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=3)
    for picture in islice(pictures, MOST_PICTURES):
        left, bottom, right, top = picture.get_bounds()
        if (right - left) * (top - bottom) < MUCH * width * height:
            continue
        bitmap = raw.FPDFImageObj_GetBitmap(picture)
        if not bitmap:
            return True
        raw.FPDFBitmap_Destroy(bitmap)
    return False


@dataclass(frozen=True, slots=True)
class NativePage:
    text: str
    markdown: str
    #: Why the text layer is of no use, None if it is: no text, garbage, a scan behind it.
    fault: str | None = None


def read_page(page: pypdfium2.PdfPage, typography: FontStats | None = None) -> NativePage:
    """`typography`: of the document, to tell the levels of headings alike on all its pages."""
    with opened_text(page) as layer:
        return _analysed(page, layer, typography)


def _analysed(
    page: pypdfium2.PdfPage, layer: TextLayer, typography: FontStats | None
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


def _mark_headings(blocks: list[Block], typography: FontStats | None) -> None:
    if typography is not None and (scale := typography.scale) is not None:
        mark_headings(blocks, scale)
        return
    body = body_size(line for block in blocks for line in block.lines)
    sizes = {round(size * 2) / 2 for size in heading_sizes(blocks, body)}
    larger = sorted((size for size in sizes if size >= LARGER * body), reverse=True)
    mark_headings(blocks, FontSizes(body, tuple(larger)))


#: The best text for the time; docs/explanation/ocr.md has the figures.
OCR_DPI = 200
#: Enough to read on a screen, and for a model.
IMAGE_DPI = 150
#: A poster is drawn more coarsely: its print is larger too.
MAX_PIXELS = 40_000_000
#: Keys of the PDF's document information dictionary, and our names for them.
METADATA: Mapping[str, Literal["title", "author", "subject", "keywords"]] = {
    "Title": "title",
    "Author": "author",
    "Subject": "subject",
    "Keywords": "keywords",
}


def inspect_pdf(path: str, password: str | None) -> DocumentInfo:
    """Check that a PDF can be read and return its page count and metadata."""
    require_complete(path)
    with open_pdf(path, password) as document:
        if not len(document):
            raise FileCorrupt("The PDF has no pages")
        info = DocumentInfo(page_count=len(document))
        metadata = document.get_metadata_dict(skip_empty=True)
        for key, name in METADATA.items():
            if key in metadata:
                info[name] = metadata[key]
        if isinstance(document, RepairedPdf):
            info["is_mended"] = True
        return info


def process_pdf_pages(task: PageTask, numbers: Sequence[int]) -> list[PendingPage]:
    """Make these pages; those come back that need more than this."""
    unfinished = []
    with open_pdf(task.path, task.password) as document:
        typography = FontStats(document)
        for number in numbers:
            with open_page(document, number) as page:
                left = _make_page(task, number, page, typography)
            if left is not None:
                unfinished.append(left)
    return unfinished


def _make_page(
    task: PageTask, number: int, page: pypdfium2.PdfPage, typography: FontStats
) -> PendingPage | None:
    method = task.method
    readings = {}
    if method.native:
        native = read_page(page, typography)
        if method.auto and native.fault:
            return PendingPage(number=number, reason=native.fault)
        readings["native"] = _as_reading(native)
    if not _is_drawn(task):
        save_page(task, number, readings, ())
        return None
    dpi = OCR_DPI if _reads(task) else IMAGE_DPI
    is_seen = method.llm or method.preview or task.with_images
    pixels = min(task.max_pixels, MAX_PIXELS)
    drawn = render_page(page, dpi=dpi, max_pixels=pixels, grey=not is_seen)
    if _reads(task):
        from ..ocr.recognition import ocr_page  # heavy, and most pages do not need it

        readings["ocr"] = ocr_page(task, drawn, dpi=_dpi_of(drawn, page))
        if not readings["ocr"].text.strip() and has_broken_image(page):
            raise FileCorrupt(f"Page {number} of the PDF has a damaged picture", page=number)
    pictures = save_page_images(task, number, _for_people(drawn, dpi))
    if method.llm:
        picture = save_model_image(task, number, drawn)
        return PendingPage(number=number, readings=readings, pictures=pictures, model_image=picture)
    save_page(task, number, readings, pictures)
    return None


def _as_reading(native: NativePage) -> PageReading:
    facts = {"text_layer": native.fault} if native.fault else {}
    return PageReading(text=native.text, markdown=native.markdown, fault=native.fault, facts=facts)


def _reads(task: PageTask) -> bool:
    return task.method.ocr and not task.method.auto


def _is_drawn(task: PageTask) -> bool:
    return _reads(task) or task.method.llm or task.method.preview or task.with_images


def _dpi_of(drawn: Image.Image, page: pypdfium2.PdfPage) -> int:
    """A huge page was drawn more coarsely than it was asked for."""
    return int(drawn.width / max(page.get_width(), 1) * POINTS_PER_INCH)


def _for_people(drawn: Image.Image, dpi: int) -> Image.Image:
    if dpi <= IMAGE_DPI:
        return drawn
    return drawn.reduce(max(1, round(dpi / IMAGE_DPI)))
