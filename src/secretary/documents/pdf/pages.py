"""Reads the pages of a PDF: text layer, rendering, OCR and page images."""

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
from .layout.analysis import analyse_page
from .layout.blocks import Block, to_markdown, to_text
from .layout.drawings import Box
from .layout.headings import (
    LARGER_SIZE,
    FontSizes,
    body_size,
    heading_sizes,
    mark_headings,
    mark_tagged_headings,
)
from .layout.runs import clean_text, is_clean
from .text_layer_quality import text_layer_fault

POINTS_PER_INCH = 72
#: The best trade-off between quality and time; docs/explanation/ocr.md has the figures.
OCR_DPI = 200
#: Enough to read on a screen, and for a vision model.
IMAGE_DPI = 150
#: Larger pages, such as posters, are rendered at a lower resolution: their print is larger too.
MAX_PIXELS = 40_000_000
#: Share of the page that an image must cover to be its main content.
MAIN_IMAGE_COVERAGE = 0.3
MAX_CHECKED_IMAGES = 50
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
    """Process these pages and return those that still need OCR or a vision model."""
    pending = []
    with open_pdf(task.path, task.password) as document:
        font_stats = FontStats(document)
        for number in numbers:
            with open_page(document, number) as page:
                pending_page = _process_page(task, number, page, font_stats)
            if pending_page is not None:
                pending.append(pending_page)
    return pending


def _process_page(
    task: PageTask, number: int, page: pypdfium2.PdfPage, font_stats: FontStats
) -> PendingPage | None:
    method = task.method
    needs_ocr = method.ocr and not method.auto
    readings = {}
    if method.native:
        native = read_page(page, font_stats)
        if method.auto and native.fault:
            return PendingPage(number=number, reason=native.fault)
        readings["native"] = _as_reading(native)
    needs_images = method.llm or method.preview or task.with_images
    if not (needs_ocr or needs_images):
        save_page(task, number, readings, ())
        return None
    dpi = OCR_DPI if needs_ocr else IMAGE_DPI
    max_pixels = min(task.max_pixels, MAX_PIXELS)
    image = render_page(page, dpi=dpi, max_pixels=max_pixels, grey=not needs_images)
    if needs_ocr:
        from ..ocr.recognition import ocr_page  # heavy, and most pages do not need it

        readings["ocr"] = ocr_page(task, image, dpi=_actual_dpi(image, page))
        if not readings["ocr"].text.strip() and has_broken_image(page):
            raise FileCorrupt(f"Page {number} of the PDF has a damaged picture", page=number)
    pictures = save_page_images(task, number, _for_display(image, dpi))
    if method.llm:
        path = save_model_image(task, number, image)
        return PendingPage(number=number, readings=readings, pictures=pictures, model_image=path)
    save_page(task, number, readings, pictures)
    return None


@dataclass(frozen=True, slots=True)
class NativePage:
    """The text layer of a page."""

    text: str
    markdown: str
    #: Why the text layer is unusable, or None: no text, garbage, recognised text behind a scan.
    fault: str | None = None


def read_page(page: pypdfium2.PdfPage, font_stats: FontStats | None = None) -> NativePage:
    """Read the text layer. `font_stats` of the document make heading levels consistent."""
    with pdfium.open_text_layer(page) as layer:
        box = Box(*page.get_bbox())
        tagged: bool = page.pdf.is_tagged
        layout = analyse_page(pdfium.handle(page), layer, box, tagged=tagged)
        if layout.tagged_headings or (tagged and font_stats and font_stats.has_tagged_headings):
            mark_tagged_headings(layout.blocks, font_stats.font_sizes if font_stats else None)
        else:
            _mark_headings(layout.blocks, font_stats)
        text, markdown = to_text(layout.blocks), to_markdown(layout.blocks)
        if not is_clean(layer.text):
            text, markdown = clean_text(text), clean_text(markdown)
    fault = text_layer_fault(text, layout.hidden_share, layout.drawings, box)
    return NativePage(text, markdown, fault)


def _mark_headings(blocks: list[Block], font_stats: FontStats | None) -> None:
    if font_stats is not None and (font_sizes := font_stats.font_sizes) is not None:
        mark_headings(blocks, font_sizes)
        return
    body = body_size(line for block in blocks for line in block.lines)
    sizes = {round(size * 2) / 2 for size in heading_sizes(blocks, body)}
    larger = sorted((size for size in sizes if size >= LARGER_SIZE * body), reverse=True)
    mark_headings(blocks, FontSizes(body, tuple(larger)))


def _as_reading(native: NativePage) -> PageReading:
    facts = {"text_layer": native.fault} if native.fault else {}
    return PageReading(text=native.text, markdown=native.markdown, fault=native.fault, facts=facts)


def render_page(
    page: pypdfium2.PdfPage, *, dpi: float, max_pixels: int, grey: bool = False
) -> Image.Image:
    """Render a page, at a lower resolution if it would exceed `max_pixels`."""
    width, height = page.get_size()
    scale = dpi / POINTS_PER_INCH
    pixels = max(width * scale, 1) * max(height * scale, 1)
    if pixels > max_pixels:
        scale *= (max_pixels / pixels) ** 0.5
    bitmap = page.render(scale=scale, grayscale=grey)
    try:
        image: Image.Image = bitmap.to_pil().convert("L" if grey else "RGB")
        return image
    finally:
        bitmap.close()


def _actual_dpi(image: Image.Image, page: pypdfium2.PdfPage) -> int:
    return int(image.width / max(page.get_width(), 1) * POINTS_PER_INCH)


def has_broken_image(page: pypdfium2.PdfPage) -> bool:
    """Return whether the main image of a page cannot be decoded, so that it is rendered blank."""
    width, height = page.get_size()
    images = page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=3)
    for image in islice(images, MAX_CHECKED_IMAGES):
        left, bottom, right, top = image.get_bounds()
        if (right - left) * (top - bottom) < MAIN_IMAGE_COVERAGE * width * height:
            continue
        bitmap = raw.FPDFImageObj_GetBitmap(image)
        if not bitmap:
            return True
        raw.FPDFBitmap_Destroy(bitmap)
    return False


def _for_display(image: Image.Image, dpi: int) -> Image.Image:
    if dpi <= IMAGE_DPI:
        return image
    return image.reduce(max(1, round(dpi / IMAGE_DPI)))
