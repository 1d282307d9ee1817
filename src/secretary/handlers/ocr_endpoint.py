"""Pages of a document as an endpoint with the Mistral OCR API reads them."""

import asyncio
import base64
import binascii
import re
from collections.abc import Sequence
from pathlib import Path

from ..core.errors import UpstreamFailed
from ..documents.pages import (
    Figure,
    PageImages,
    PageReading,
    PageSize,
    PageTask,
    PendingPage,
    figure_file,
    figure_markdown,
    save_page,
    write_new,
)
from ..llm import Llm, OcrImage, OcrPage

#: Formats that every client displays, by how their files begin.
SUFFIXES = {b"\xff\xd8\xff": ".jpeg", b"\x89PNG\r\n\x1a\n": ".png"}


async def read_with_endpoint(llm: Llm, task: PageTask, pages: Sequence[PendingPage]) -> None:
    """Have these pages read, and save them."""
    content = await asyncio.to_thread(Path(task.path).read_bytes)
    indexes = [page.number - 1 for page in pages]
    answers = await llm.ocr(content, pages=indexes, with_images=task.with_figures)
    by_index = {answer.index: answer for answer in answers}
    for page in pages:
        answer = by_index.get(page.number - 1)
        if answer is None:
            raise UpstreamFailed(f"The OCR endpoint has not returned page {page.number}")
        await asyncio.to_thread(_save, task, page, answer)


def _save(task: PageTask, page: PendingPage, answer: OcrPage) -> None:
    markdown, text, figures = answer.markdown, answer.markdown, []
    for index, image in enumerate(answer.images):
        reference = re.compile(rf"!\[[^\]]*\]\({re.escape(image.id)}\)")
        figure = _save_figure(task, page.number, index, image) if task.with_figures else None
        replacement = figure_markdown(figure.file) if figure else ""
        markdown = reference.sub(replacement, markdown)
        text = reference.sub("", text)
        figures += [figure] if figure else []
    size = page.images.size
    if (given := answer.dimensions) is not None and task.with_figures:
        size = PageSize(given.width, given.height, given.dpi)
    images = PageImages(pictures=page.images.pictures, figures=tuple(figures), size=size)
    reading = PageReading(text=text.strip(), markdown=markdown.strip())
    save_page(task, page.number, {"mistral_ocr": reading}, images)


def _save_figure(task: PageTask, number: int, index: int, image: OcrImage) -> Figure | None:
    """None if the endpoint sent no image that clients can display."""
    encoded = (image.image_base64 or "").rpartition(",")[2]  # a data URL, or the data alone
    try:
        content = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
    suffix = next((name for start, name in SUFFIXES.items() if content.startswith(start)), None)
    if suffix is None:
        return None
    name = figure_file(number, index, suffix)
    write_new(f"{task.page_store.directory}/{name}", content)
    box = (image.top_left_x, image.top_left_y, image.bottom_right_x, image.bottom_right_y)
    return Figure(name, *(side or 0 for side in box))
