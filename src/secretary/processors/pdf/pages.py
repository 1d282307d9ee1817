"""The pages of a PDF, one after the other, each kept when it is done."""

from collections.abc import Sequence
from typing import Any

import pypdfium2
from PIL import Image

from ...errors import FileCorrupt
from ..page_task import (
    PageTask,
    Reading,
    Unfinished,
    finish,
    picture_for_model,
    save_pictures,
)
from .document import MendedPdf, opened_page, opened_pdf
from .drawing import POINTS_PER_INCH, draw_page, has_lost_picture
from .native import NativePage, read_page
from .typography import Typography

#: The best text for the time; docs/explanation/ocr.md has the figures.
OCR_DPI = 200
#: Enough to read on a screen, and for a model.
IMAGE_DPI = 150
#: A poster is drawn more coarsely: its print is larger too.
MAX_PIXELS = 40_000_000
#: What a PDF says about itself, and our names for it.
TOLD = {"Title": "title", "Author": "author", "Subject": "subject", "Keywords": "keywords"}


def inspect_pdf(path: str, password: str | None) -> dict[str, Any]:
    with opened_pdf(path, password) as document:
        told = document.get_metadata_dict(skip_empty=True)
        facts: dict[str, Any] = {name: told[key] for key, name in TOLD.items() if key in told}
        if not len(document):
            raise FileCorrupt("The PDF has no pages")
        if isinstance(document, MendedPdf):
            facts["is_mended"] = True
        return {"page_count": len(document), **facts}


def make_pdf_pages(task: PageTask, numbers: Sequence[int]) -> list[Unfinished]:
    """Make these pages; those come back that need more than this."""
    unfinished = []
    with opened_pdf(task.path, task.password) as document:
        typography = Typography(document)
        for number in numbers:
            with opened_page(document, number) as page:
                left = _make_page(task, number, page, typography)
            if left is not None:
                unfinished.append(left)
    return unfinished


def _make_page(
    task: PageTask, number: int, page: pypdfium2.PdfPage, typography: Typography
) -> Unfinished | None:
    method = task.method
    readings = {}
    if method.native:
        native = read_page(page, typography)
        if method.choose and native.fault:
            return Unfinished(number=number, reason=native.fault)
        readings["native"] = _as_reading(native)
    if not _is_drawn(task):
        finish(task, number, readings, ())
        return None
    dpi = OCR_DPI if _reads(task) else IMAGE_DPI
    is_seen = method.llm or method.preview or task.with_images
    pixels = min(task.max_pixels, MAX_PIXELS)
    drawn = draw_page(page, dpi=dpi, max_pixels=pixels, grey=not is_seen)
    if _reads(task):
        from ..ocr_reading import read_by_ocr  # it is heavy, and most pages need none

        readings["ocr"] = read_by_ocr(task, drawn, dpi=_dpi_of(drawn, page))
        if not readings["ocr"].text.strip() and has_lost_picture(page):
            raise FileCorrupt(f"Page {number} of the PDF has a damaged picture", page=number)
    pictures = save_pictures(task, number, _for_people(drawn, dpi))
    if method.llm:
        picture = picture_for_model(task, number, drawn)
        return Unfinished(number=number, readings=readings, pictures=pictures, picture=picture)
    finish(task, number, readings, pictures)
    return None


def _as_reading(native: NativePage) -> Reading:
    facts = {"text_layer": native.fault} if native.fault else {}
    return Reading(text=native.text, markdown=native.markdown, fault=native.fault, facts=facts)


def _reads(task: PageTask) -> bool:
    return task.method.ocr and not task.method.choose


def _is_drawn(task: PageTask) -> bool:
    return _reads(task) or task.method.llm or task.method.preview or task.with_images


def _dpi_of(drawn: Image.Image, page: pypdfium2.PdfPage) -> int:
    """A huge page was drawn more coarsely than it was asked for."""
    return int(drawn.width / max(page.get_width(), 1) * POINTS_PER_INCH)


def _for_people(drawn: Image.Image, dpi: int) -> Image.Image:
    if dpi <= IMAGE_DPI:
        return drawn
    return drawn.reduce(max(1, round(dpi / IMAGE_DPI)))
