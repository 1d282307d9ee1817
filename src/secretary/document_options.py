"""What an operator decides about documents."""

from dataclasses import dataclass
from datetime import timedelta

MEGAPIXEL = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentOptions:
    ocr_engine: str = "tesseract"
    #: Where more languages are, beside those that are installed.
    ocr_data_directory: str | None = None
    #: None: told from the text.
    ocr_language: str | None = None
    max_pages: int = 10_000
    #: Of a picture, and of a page when it is drawn.
    max_pixels: int = 100 * MEGAPIXEL
    #: One page may take so long.
    page_timeout: timedelta = timedelta(minutes=2)
    #: An office file may take so long on its way to a PDF.
    conversion_timeout: timedelta = timedelta(minutes=5)
