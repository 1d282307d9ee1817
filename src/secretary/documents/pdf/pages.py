"""Reads the pages of a PDF: text layer and its quality, font statistics, rendering and OCR."""

import ctypes
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import islice, repeat
from math import ceil
from typing import cast

import pypdfium2
import pypdfium2.raw as raw
from PIL import Image

from ...core.errors import FileCorrupt
from ..pages import (
    DocumentInfo,
    PageImages,
    PageReading,
    PageSize,
    PageTask,
    PendingPage,
    finish_page,
    save_page,
)
from . import pdfium
from .figures import PageFigure, find_figures, place_figures, save_figures
from .layout import headings
from .layout.analysis import analyse_page
from .layout.blocks import to_markdown, to_text
from .layout.drawings import Box, Drawings
from .layout.runs import clean_text, font_traits, is_clean
from .pdfium import PdfFile, open_page, open_pdf, read_structure, require_complete

POINTS_PER_INCH = 72
#: The best trade-off between quality and time; docs/explanation/ocr.md has the figures.
OCR_DPI = 200
#: Enough for a vision model.
MODEL_DPI = 150
#: The resolution of figures, and of the pixels in which their positions are given.
FIGURE_DPI = 200
#: Larger pages, such as posters, are rendered at a lower resolution: their print is larger too.
MAX_PIXELS = 40_000_000
#: Share of the page that an image must cover to be its main content.
MAIN_IMAGE_COVERAGE = 0.3
MAX_CHECKED_IMAGES = 50
#: Keys of the PDF's document information dictionary; in lower case, they are our names.
METADATA = ("Title", "Author", "Subject", "Keywords")


def inspect_pdf(path: str, password: str | None) -> DocumentInfo:
    """Check that a PDF can be read and return its page count and metadata."""
    require_complete(path)
    with open_pdf(path, password) as document:
        if not len(document):
            raise FileCorrupt("The PDF has no pages")
        metadata = document.get_metadata_dict(skip_empty=True)
        facts = {key.lower(): metadata[key] for key in METADATA if key in metadata}
        if document.is_repaired:
            facts["is_mended"] = True
        return cast(DocumentInfo, {"page_count": len(document), **facts})


def process_pdf_pages(task: PageTask, numbers: Sequence[int]) -> list[PendingPage]:
    """Process these pages and return those that still need OCR or a vision model."""
    pending = []
    with open_pdf(task.path, task.password) as document:
        font_stats = FontStats(document)
        for number in numbers:
            with open_page(document, number) as page:
                pending.append(_process_page(task, number, page, font_stats))
    return list(filter(None, pending))


def _process_page(
    task: PageTask, number: int, page: pypdfium2.PdfPage, font_stats: "FontStats"
) -> PendingPage | None:
    method = task.method
    needs_ocr = method.ocr and not method.auto
    finds_figures = task.with_figures and not method.endpoint
    figures = find_figures(page, number) if finds_figures else []
    readings = {}
    if method.native:
        native = read_page(page, font_stats, [each for each in figures if not each.fills_page])
        if method.auto and native.fault:
            return PendingPage(number=number, reason=native.fault)
        readings["native"] = native
    max_pixels = min(task.max_pixels, MAX_PIXELS)
    images = PageImages(size=_size(page, max_pixels))
    if not (needs_ocr or method.llm or task.renderings or figures):
        if method.endpoint:
            return PendingPage(number=number, images=images)
        save_page(task, number, readings, images)
        return None
    needs_colour = method.llm or task.renderings or figures
    image = render_page(page, dpi=_dpi(task, figures), max_pixels=max_pixels, grey=not needs_colour)
    if needs_ocr:
        readings["ocr"] = _ocr_page(task, number, page, image)
    has_text = any(reading.text.strip() for reading in readings.values())
    if has_text or not readings:  # otherwise an image of the whole page is all there is
        figures = [each for each in figures if not each.fills_page]
    images = replace(images, figures=save_figures(page, image, figures, task.page_store))
    return finish_page(task, number, readings, image, images)


def _dpi(task: PageTask, figures: Sequence[PageFigure]) -> int:
    """The highest resolution that is needed of a page."""
    dpi = [rendering.dpi for rendering in task.renderings]
    dpi += [OCR_DPI] if task.method.ocr and not task.method.auto else []
    dpi += [MODEL_DPI] if task.method.llm else []
    return max([*dpi, FIGURE_DPI] if figures else dpi)


def _size(page: pypdfium2.PdfPage, max_pixels: int) -> PageSize:
    """The size of a page as `render_page` renders it for figures."""
    scale = _scale(page, dpi=FIGURE_DPI, max_pixels=max_pixels)
    width, height = (ceil(side * scale) for side in page.get_size())
    return PageSize(width, height, round(scale * POINTS_PER_INCH))


def _ocr_page(
    task: PageTask, number: int, page: pypdfium2.PdfPage, image: Image.Image
) -> PageReading:
    from ..ocr.recognition import ocr_page  # heavy, and most pages do not need it

    dpi = int(image.width / max(page.get_width(), 1) * POINTS_PER_INCH)
    reading = ocr_page(task, image, dpi=dpi)
    if not reading.text.strip() and has_broken_image(page):
        raise FileCorrupt(f"Page {number} of the PDF has a damaged picture", page=number)
    return reading


def read_page(
    page: pypdfium2.PdfPage,
    font_stats: "FontStats | None" = None,
    figures: Sequence[PageFigure] = (),
) -> PageReading:
    """Read the text layer. `font_stats` of the document make heading levels consistent."""
    with pdfium.open_text_layer(page) as layer:
        box = Box(*page.get_bbox())
        tagged: bool = page.pdf.is_tagged
        layout = analyse_page(pdfium.handle(page), layer, box, tagged=tagged)
        blocks = layout.blocks
        font_sizes = font_stats.font_sizes if font_stats else None
        if layout.tagged_headings or (tagged and font_stats and font_stats.has_tagged_headings):
            headings.mark_tagged_headings(blocks, font_sizes)
        else:
            headings.mark_headings(blocks, font_sizes or headings.page_font_sizes(blocks))
        text = to_text(blocks)
        markdown = to_markdown(place_figures(blocks, figures, layout.rotation))
        if not is_clean(layer.text):
            text, markdown = clean_text(text), clean_text(markdown)
    fault = text_layer_fault(text, layout.hidden_share, layout.drawings, box)
    facts = {"text_layer": fault} if fault else {}
    return PageReading(text=text, markdown=markdown, fault=fault, facts=facts)


def render_page(
    page: pypdfium2.PdfPage, *, dpi: float, max_pixels: int, grey: bool = False
) -> Image.Image:
    """Render a page, at a lower resolution if it would exceed `max_pixels`."""
    bitmap = page.render(scale=_scale(page, dpi=dpi, max_pixels=max_pixels), grayscale=grey)
    try:
        image: Image.Image = bitmap.to_pil().convert("L" if grey else "RGB")
        return image
    finally:
        bitmap.close()


def _scale(page: pypdfium2.PdfPage, *, dpi: float, max_pixels: int) -> float:
    width, height = page.get_size()
    scale = dpi / POINTS_PER_INCH
    pixels = max(width * scale, 1) * max(height * scale, 1)
    if pixels > max_pixels:
        scale *= (max_pixels / pixels) ** 0.5
    return scale


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


SAMPLE_PAGES = 6
MAX_OBJECTS = 1_500
#: More sizes than this are not heading levels.
MAX_HEADING_SIZES = 5
#: A size with more than this share of the body's characters is other body text, such as a second
#: column.
SECOND_BODY_SHARE = 0.2
#: Sizes within this ratio are the same.
SAME_SIZE_RATIO = 1.06


#: Results for recent files: a process reads a document in several calls.
_cache: dict[tuple[object, ...], headings.FontSizes | None] = {}
MAX_CACHED = 16


class FontStats:
    """Font statistics of a document, computed when the first page is read."""

    def __init__(self, document: PdfFile) -> None:
        self._document = document

    @cached_property
    def font_sizes(self) -> headings.FontSizes | None:
        identity = self._document.identity
        if identity not in _cache:
            if len(_cache) >= MAX_CACHED:
                _cache.clear()
            pages = [_characters_by_size(page) for page in self._pages()]
            # Source code says nothing about the text around it, unless there is nothing else.
            weights = _merge_pages([text for text, _ in pages])
            weights = weights or _merge_pages([code for _, code in pages])
            _cache[identity] = _estimate_sizes(weights)
        return _cache[identity]

    @cached_property
    def has_tagged_headings(self) -> bool:
        """Whether the structure tree marks headings on any of the sampled pages."""
        return any(read_structure(page).has_headings for page in self._pages())

    def _pages(self) -> Iterator[int]:
        count, steps = len(self._document), SAMPLE_PAGES - 2
        # The first pages and some of the others.
        numbers = [1, 2, 3, *(count * step // steps for step in range(1, steps))]
        for number in numbers if count > SAMPLE_PAGES else range(1, count + 1):
            # Other pages than the requested one may be damaged.
            with suppress(FileCorrupt), open_page(self._document, number) as page:
                yield pdfium.handle(page)


def _characters_by_size(page: int) -> tuple[Counter[float], Counter[float]]:
    """Return the number of characters per font size, estimated by width: of text and of code."""
    count = min(pdfium.count_objects(page), MAX_OBJECTS)
    buffer = pdfium.floats(11)
    base = ctypes.addressof(buffer)
    weights: Counter[float] = Counter()
    code: Counter[float] = Counter()
    fonts: dict[int, bool] = {}
    for address in map(pdfium.get_object, repeat(page), range(count)):
        if not pdfium.text_size(address, base):
            continue
        font = pdfium.text_font(address)
        if font not in fonts:
            fonts[font] = font_traits(font)[2]
        pdfium.object_matrix(address, base + 4)
        pdfium.object_bounds(address, base + 28, base + 32, base + 36, base + 40)
        size, _, _, c, d, _, _, left, bottom, right, top = buffer
        height = round(2 * size * (c * c + d * d) ** 0.5) / 2
        if 1 < height < 500:
            kind = code if fonts[font] else weights
            kind[height] += max(right - left, top - bottom) / height
    return weights, code


def _merge_pages(pages: Sequence[Counter[float]]) -> Counter[float]:
    """Merge the pages; of the first one, which is a title page, only its largest size counts
    unless other pages use it too."""
    weights: Counter[float] = sum(pages[1:], Counter())
    if not weights:
        return pages[0] if pages else weights
    largest = max(pages[0], default=0.0)
    for size, weight in pages[0].items():
        if size == largest or size in weights:
            weights[size] += weight
    return weights


def _estimate_sizes(weights: Counter[float]) -> headings.FontSizes | None:
    if not weights:
        return None
    body, body_weight = weights.most_common(1)[0]
    sizes: list[float] = []
    for size in sorted(weights, reverse=True):
        if size < headings.LARGER_SIZE * body or weights[size] > SECOND_BODY_SHARE * body_weight:
            continue
        if not sizes or size * SAME_SIZE_RATIO < sizes[-1]:
            sizes.append(size)
        else:
            sizes[-1] = size
    return headings.FontSizes(body, tuple(sizes[:MAX_HEADING_SIZES]))


#: Characters from broken fonts.
GARBAGE_CHARACTERS = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd\U000f0000-\U0010fffd]"
)
#: Share of odd characters above which the text is garbage.
MAX_GARBAGE_SHARE = 0.12
#: How many characters the statistics need.
MIN_CHARACTERS = 150
#: How many characters are inspected.
MAX_CHARACTERS = 2_000
LATIN = bytes(range(65, 91)) + bytes(range(97, 123))
VOWELS = b"aeiouyAEIOUY"
PUNCTUATION = b"!\"#$%&'*+/;<=>?@[\\]^`{|}~"
MAX_PUNCTUATION_SHARE, MIN_VOWEL_SHARE = 0.4, 0.19
#: Share of the page above which an image may be a scan.
SCAN_COVERAGE = 0.65
#: Share of the page that images must cover to be worth reading.
IMAGE_COVERAGE = 0.02
MIN_STROKES = 20
#: Pages with a scan and fewer words have only stamps or page numbers as text.
MIN_WORDS = 12

NO_TEXT = "The page has no text"
PICTURE_ONLY = "The page is a picture without text"
GARBAGE = "The text of the page is garbage: its fonts do not say which letters they hold"
SCANNED = "The page is a scan, with recognised text behind it"
SCAN_AND_LITTLE = "The page is a scan with hardly any text"


def text_layer_fault(text: str, hidden_share: float, drawings: Drawings, page: Box) -> str | None:
    """Return why the text is unusable, or None. `hidden`: the share of invisible text."""
    if not text or text.isspace():
        if _image_coverage(drawings.images, page) >= IMAGE_COVERAGE:
            return PICTURE_ONLY
        # Text may be drawn as shapes, but not with a few strokes; a blank page has none.
        return NO_TEXT if drawings.object_count >= MIN_STROKES else None
    if _is_garbage(text):
        return GARBAGE
    if not drawings.images or _image_coverage(drawings.images, page) < SCAN_COVERAGE:
        return None
    if hidden_share > 0.5:
        return SCANNED
    return SCAN_AND_LITTLE if len(text.split()) < MIN_WORDS else None


def _is_garbage(text: str) -> bool:
    """Return whether the text is what fonts without a character map give."""
    text = text[:MAX_CHARACTERS]
    if not text.isascii():
        letters = "".join(text.split())
        if len(GARBAGE_CHARACTERS.findall(letters)) > MAX_GARBAGE_SHARE * len(letters):
            return True
    plain = text.encode("ascii", "ignore")
    if len(plain) < MIN_CHARACTERS or len(plain) < 0.95 * len(text):
        # With many accents, which are on vowels, the statistics do not hold.
        return False
    if len(plain) - len(plain.translate(None, PUNCTUATION)) > MAX_PUNCTUATION_SHARE * len(plain):
        return True
    latin = len(plain) - len(plain.translate(None, LATIN))
    vowels = len(plain) - len(plain.translate(None, VOWELS))
    # Letters shifted by a constant have few vowels.
    return latin > MIN_CHARACTERS and vowels < MIN_VOWEL_SHARE * latin


def _image_coverage(images: list[Box], page: Box) -> float:
    """Return the share of the page that images cover; a scan may be cut into strips."""
    area = (page.right - page.left) * (page.top - page.bottom)
    if area <= 0:
        return 0.0
    total = 0.0
    for box in images[:2_000]:
        width = min(box.right, page.right) - max(box.left, page.left)
        height = min(box.top, page.top) - max(box.bottom, page.bottom)
        total += max(width, 0.0) * max(height, 0.0)
    return total / area
