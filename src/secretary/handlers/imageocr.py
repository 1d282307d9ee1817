"""Job type `imageocr`: reads the text in an image, by OCR or a vision model."""

from functools import partial

from pydantic import Field

from ..core.callables import LazyCallable
from ..core.files import IMAGE_TYPES
from ..documents.pages import METHOD_ALIASES, WHOLE_PICTURE, DocumentInfo, PendingPage
from ..jobs.handler import JobContext, handles
from .document_pipeline import PageOptions, open_page_cache, read_pages, resolve_document
from .parameters import DocumentResults, LanguageParameters, ocr_language_field
from .pdf import TIMEOUT, MethodName

#: Clients send the methods of PDFs, but an image has no text layer.
IMAGE_METHODS = {
    **METHOD_ALIASES,
    "native": "ocr",
    "auto": "ocr",
    "both": "ocr",
    "preview_and_native": "preview_and_ocr",
    "llm_and_native": "llm_and_ocr",
}

INSPECT: LazyCallable[DocumentInfo] = LazyCallable(
    "documents.ocr.images", "inspect_image", returns=DocumentInfo
)
PROCESS_PAGES: LazyCallable[list[PendingPage]] = LazyCallable(
    "documents.ocr.recognition", "process_image_pages", returns=list[PendingPage]
)


class ImageParameters(LanguageParameters):
    extraction_method: MethodName = Field(
        default="ocr", description="How to read the image; `native`, `both` and `auto` mean `ocr`"
    )
    include_images: bool = Field(default=False, description="Return the image as an upright JPEG")
    ocr_language: str | None = ocr_language_field()

    def page_options(self) -> PageOptions:
        return PageOptions(
            method=IMAGE_METHODS.get(self.extraction_method, self.extraction_method),
            renderings=(WHOLE_PICTURE,) if self.include_images else (),
            text_form="plain",
            languages=self.ocr_language,
        )


@handles("imageocr", ImageParameters, timeout=TIMEOUT)
async def imageocr(ctx: JobContext[ImageParameters]) -> DocumentResults:
    options = ctx.parameters.page_options()
    document = await resolve_document(ctx, IMAGE_TYPES, options)
    entry = await open_page_cache(ctx, document, options, kind="imageocr", library="pillow")
    return await read_pages(
        ctx,
        document,
        options,
        entry,
        path=document.path,
        inspect=partial(INSPECT, document.path, ctx.documents.max_pixels),
        process=PROCESS_PAGES,
    )
