"""Job type `imageocr`: the text in a picture."""

from functools import partial
from typing import Any, Literal

from pydantic import Field

from ..core.callables import LazyCallable
from ..core.file_types import IMAGE_TYPES
from ..documents.page_task import METHOD_ALIASES, METHODS, DocumentInfo, PendingPage
from ..jobs.handler import JobContext, handles
from ..storage.cache import CacheEntry
from .document_pipeline import Document, Opened, PageOptions, find, read_pages
from .parameters import LANGUAGES, OCR_LANGUAGE, LanguageParameters
from .pdf import TIMEOUT

#: `native` and `auto` are what clients of PDFs send; a picture can only be read.
MethodName = Literal["ocr", "tesseract_ocr", "llm", "llm_and_ocr", "preview", "native", "auto"]

INSPECT: LazyCallable[DocumentInfo] = LazyCallable("documents.ocr.recognition", "inspect_image")
MAKE_PAGES: LazyCallable[list[PendingPage]] = LazyCallable(
    "documents.ocr.recognition", "process_image_pages"
)


class ImageParameters(LanguageParameters):
    extraction_method: MethodName = Field(
        default="ocr", description="`native` and `auto` mean `ocr` here"
    )
    include_images: bool = Field(default=False, description="The picture, upright, as a JPEG")
    ocr_language: str | None = Field(default=None, pattern=LANGUAGES, description=OCR_LANGUAGE)

    def wish(self) -> PageOptions:
        method = {**METHOD_ALIASES, "native": "ocr", "auto": "ocr"}.get(
            self.extraction_method, self.extraction_method
        )
        return PageOptions(method=method, images=self.include_images, languages=self.ocr_language)


@handles("imageocr", ImageParameters, timeout=TIMEOUT)
async def imageocr(ctx: JobContext[ImageParameters]) -> dict[str, Any]:
    wish = ctx.parameters.wish()
    if METHODS[wish.method].llm:
        ctx.llm.model("vision")  # before any work: is there one?
    document = await find(ctx, IMAGE_TYPES)
    opened = partial(_opened, ctx, document)
    return await read_pages(ctx, document, wish, kind="imageocr", make=MAKE_PAGES, opened=opened)


async def _opened(ctx: JobContext[Any], document: Document, entry: CacheEntry) -> Opened:
    facts = entry.facts
    if facts is None:
        limits = ctx.documents
        info = await ctx.run(
            INSPECT, document.path, limits.max_pixels, wall_time=limits.page_timeout
        )
        facts = dict(info)
        entry.note(facts)
    return Opened(document.path, facts)
