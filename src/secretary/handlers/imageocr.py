"""Job type `imageocr`: reads the text in an image, by OCR or a vision model."""

from typing import Any, Literal

from pydantic import Field

from ..core.callables import LazyCallable
from ..core.file_types import IMAGE_TYPES
from ..core.results import DocumentResults
from ..documents.page_task import ALIASES, Unfinished
from ..jobs.handler import JobContext, handles
from .document_pipeline import (
    PageOptions,
    open_page_cache,
    read_pages,
    require_models,
    resolve_document,
)
from .parameters import LANGUAGES, OCR_LANGUAGE, LanguageParameters
from .pdf import TIMEOUT

#: Clients send `native` and `auto` as for PDFs, but an image has no text layer.
MethodName = Literal["ocr", "tesseract_ocr", "llm", "llm_and_ocr", "preview", "native", "auto"]
METHOD_ALIASES = {**ALIASES, "native": "ocr", "auto": "ocr"}

INSPECT: LazyCallable[dict[str, Any]] = LazyCallable("documents.ocr.recognition", "inspect_picture")
PROCESS_PAGES: LazyCallable[list[Unfinished]] = LazyCallable(
    "documents.ocr.recognition", "make_picture_pages"
)


class ImageParameters(LanguageParameters):
    extraction_method: MethodName = Field(
        default="ocr", description="How to read the image; `native` and `auto` mean `ocr`"
    )
    include_images: bool = Field(default=False, description="Return the image as an upright JPEG")
    ocr_language: str | None = Field(default=None, pattern=LANGUAGES, description=OCR_LANGUAGE)

    def page_options(self) -> PageOptions:
        return PageOptions(
            method=METHOD_ALIASES.get(self.extraction_method, self.extraction_method),
            images=self.include_images,
            languages=self.ocr_language,
        )


@handles("imageocr", ImageParameters, timeout=TIMEOUT)
async def imageocr(ctx: JobContext[ImageParameters]) -> DocumentResults:
    options = ctx.parameters.page_options()
    require_models(ctx, options)
    document = await resolve_document(ctx, IMAGE_TYPES)
    entry, page_store = await open_page_cache(
        ctx, document, options, kind="imageocr", library="pillow"
    )
    facts = entry.facts
    if facts is None:
        limits = ctx.documents
        facts = await ctx.run(
            INSPECT, document.path, limits.max_pixels, wall_time=limits.page_timeout
        )
        entry.note(facts)
    return await read_pages(
        ctx,
        document,
        options,
        path=document.path,
        facts=facts,
        entry=entry,
        page_store=page_store,
        process=PROCESS_PAGES,
    )
