"""Writes a document in the form of the Mistral OCR API: the Markdown of each page, and where the
images are that it refers to."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, BinaryIO

from ..core.json_codec import encode_json
from .pages import Page, figure_markdown

#: Files of a job: the document in this form, its figures, and the images of its pages.
RAW_FILE = "mistral_ocr.json"
FIGURES_ARCHIVE = "mistral_ocr_images.zip"
PAGES_ARCHIVE = "pages.zip"


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
        return {
            "model": self.model,
            "pages_count": self.pages_count,
            "usage_info": self.usage(),
        }


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
        size = page.size
        images = [
            {
                "id": names[figure.file],
                "top_left_x": figure.left,
                "top_left_y": figure.top,
                "bottom_right_x": figure.right,
                "bottom_right_y": figure.bottom,
                "image_annotation": None,
            }
            for figure in page.figures
        ]
        dimensions = {"dpi": size.dpi, "height": size.height, "width": size.width} if size else None
        document = {
            "index": page.number - 1,
            "markdown": markdown,
            "images": images,
            "dimensions": dimensions,
        }
        self._file.write(self._separator + encode_json(document))
        self._separator = b","

    def close(self) -> None:
        document = self._document
        rest = encode_json({"model": document.model, "usage_info": document.usage()})
        self._file.write(b"]," + rest.removeprefix(b"{"))
