"""The form in which the Mistral OCR API returns documents: the Markdown of each page, and where the
images are that it refers to. Endpoints answer in this form, and we write our own results in it."""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, BinaryIO

from pydantic import BaseModel

from ..core.json_codec import encode_json
from .pages import (
    Figure,
    Page,
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

#: Files of a job: the document in this form, its figures, and the images of its pages.
RAW_FILE = "mistral_ocr.json"
FIGURES_ARCHIVE = "mistral_ocr_images.zip"
PAGES_ARCHIVE = "pages.zip"


class OcrImage(BaseModel):
    """An image on a page; its box is in pixels from the top left."""

    id: str
    top_left_x: int | None = None
    top_left_y: int | None = None
    bottom_right_x: int | None = None
    bottom_right_y: int | None = None
    image_annotation: str | None = None
    #: A data URL, or the data alone.
    image_base64: str | None = None


class OcrDimensions(BaseModel):
    """The size of a page in pixels."""

    dpi: int
    height: int
    width: int


class OcrPage(BaseModel):
    #: From 0.
    index: int
    markdown: str
    images: list[OcrImage] = []
    dimensions: OcrDimensions | None = None


class OcrResponse(BaseModel):
    pages: list[OcrPage]


# Read the answer of an endpoint -----------------------------------------------------------------

#: Formats that every client displays, by how their files begin.
SUFFIXES = {b"\xff\xd8\xff": ".jpeg", b"\x89PNG\r\n\x1a\n": ".png"}


def save_answer(task: PageTask, page: PendingPage, answer: OcrPage) -> None:
    """Save a page as an endpoint has read it."""
    markdown, text, figures = answer.markdown, answer.markdown, []
    for index, image in enumerate(answer.images):
        reference = re.compile(rf"!\[[^\]]*\]\({re.escape(image.id)}\)")
        figure = _save_figure(task, page.number, index, image) if task.with_figures else None
        markdown = reference.sub(figure_markdown(figure.file) if figure else "", markdown)
        text = reference.sub("", text)
        figures += [figure] if figure else []
    size = page.images.size
    if (given := answer.dimensions) is not None:
        size = PageSize(given.width, given.height, given.dpi)
    images = PageImages(pictures=page.images.pictures, figures=tuple(figures), size=size)
    reading = PageReading(text=text.strip(), markdown=markdown.strip())
    save_page(task, page.number, {"mistral_ocr": reading}, images)


def _save_figure(task: PageTask, number: int, index: int, image: OcrImage) -> Figure | None:
    """None if the endpoint sent no image that clients can display."""
    try:
        content = base64.b64decode((image.image_base64 or "").rpartition(",")[2], validate=True)
    except (binascii.Error, ValueError):
        return None
    suffix = next((name for start, name in SUFFIXES.items() if content.startswith(start)), None)
    if suffix is None:
        return None
    name = figure_file(number, index, suffix)
    write_new(f"{task.page_store.directory}/{name}", content)
    box = (image.top_left_x, image.top_left_y, image.bottom_right_x, image.bottom_right_y)
    return Figure(name, *(side or 0 for side in box))


# Write our results ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RawDocument:
    """What is known about the document as a whole."""

    #: What has read the pages.
    model: str
    document_bytes: int
    pages_count: int

    def usage(self) -> dict[str, int]:
        return {"pages_processed": self.pages_count, "doc_size_bytes": self.document_bytes}

    def metadata(self) -> dict[str, Any]:
        """`mistral_ocr_raw_metadata` of the results."""
        return {"model": self.model, "pages_count": self.pages_count, "usage_info": self.usage()}


class FigureNames:
    """Numbers the figures of a document: `img-0.jpeg`, `img-1.jpeg` and so on."""

    def __init__(self) -> None:
        #: The file in the page store, by the name that clients see.
        self.files: dict[str, str] = {}

    def rename(self, page: Page, markdown: str) -> tuple[str, Mapping[str, str]]:
        """Name the figures of a page. Returns its Markdown, and the new name of each file."""
        names: dict[str, str] = {}
        for figure in page.figures:
            name = f"img-{len(self.files)}{PurePath(figure.file).suffix}"
            self.files[name] = figure.file
            names[figure.file] = name
            markdown = markdown.replace(figure_markdown(figure.file), figure_markdown(name))
        return markdown, names


class RawWriter:
    """Writes the JSON page by page: a document may be larger than memory."""

    def __init__(self, file: BinaryIO, document: RawDocument) -> None:
        self._file = file
        self._document = document
        self._separator = b'{"pages":['

    def add(self, page: Page, markdown: str, names: Mapping[str, str]) -> None:
        images = [
            OcrImage(
                id=names[figure.file],
                top_left_x=figure.left,
                top_left_y=figure.top,
                bottom_right_x=figure.right,
                bottom_right_y=figure.bottom,
            )
            for figure in page.figures
        ]
        size = page.size
        dimensions = (
            OcrDimensions(dpi=size.dpi, height=size.height, width=size.width) if size else None
        )
        ocr_page = OcrPage(
            index=page.number - 1, markdown=markdown, images=images, dimensions=dimensions
        )
        # The images are in an archive.
        document = ocr_page.model_dump(exclude={"images": {"__all__": {"image_base64"}}})
        self._file.write(self._separator + encode_json(document))
        self._separator = b","

    def close(self) -> None:
        document = self._document
        rest = encode_json({"model": document.model, "usage_info": document.usage()})
        self._file.write(b"]," + rest.removeprefix(b"{"))
