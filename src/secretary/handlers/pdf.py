"""Job type `pdf`: reads a PDF page by page, by its text layer, OCR or a vision model."""

import os
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, Field

from ..core.callables import LazyCallable
from ..core.files import inside
from ..documents.office.libreoffice import clear_profiles
from ..documents.pages import (
    HIGH_RESOLUTION,
    METHOD_ALIASES,
    PAGE_IMAGE,
    PREVIEW,
    SMALL_PREVIEW,
    DocumentInfo,
    PendingPage,
    Rendering,
)
from ..jobs.handler import JobContext, handles
from .document_pipeline import (
    Document,
    DocumentContext,
    PageOptions,
    open_page_cache,
    read_pages,
    resolve_document,
)
from .parameters import DocumentResults, LanguageParameters, ocr_language_field

MethodName = Literal[
    "native", "ocr", "tesseract_ocr", "both", "preview", "preview_and_native", "llm",
    "llm_and_native", "llm_and_ocr", "auto",
]  # fmt: skip

#: File types that LibreOffice converts to PDF.
CONVERTIBLE = frozenset({"pptx", "odp", "docx", "odt", "xlsx", "ods", "rtf", "ole"})
#: Name of the converted document in the cache entry.
CONVERTED = "converted.pdf"
#: For all pages together; each page has a limit of its own.
TIMEOUT = timedelta(hours=12)
#: How long LibreOffice may take to exit before its process is killed.
LIBREOFFICE_GRACE = timedelta(seconds=10)

INSPECT: LazyCallable[DocumentInfo] = LazyCallable(
    "documents.pdf.pages", "inspect_pdf", returns=DocumentInfo
)
PROCESS_PAGES: LazyCallable[list[PendingPage]] = LazyCallable(
    "documents.pdf.pages", "process_pdf_pages", returns=list[PendingPage]
)
TO_PDF: LazyCallable[str] = LazyCallable(
    "documents.office.libreoffice", "convert_to_pdf", returns=str, uses_sockets=True
)


class PdfParameters(LanguageParameters):
    extraction_method: MethodName = Field(
        default="auto", description="How to read the pages; `auto` decides page by page"
    )
    include_images: bool = Field(
        default=False, description="Render an image and a preview of each page"
    )
    mistral_ocr: bool = Field(
        default=False, description="Return the results in the form of the Mistral OCR API, too"
    )
    include_ocr_images: bool = Field(
        default=True,
        validation_alias=AliasChoices("include_ocr_images", "includeOcrImages", "includeOCRImages"),
        description="With `mistral_ocr`: extract the pictures on the pages",
    )
    include_preview_pages: bool = Field(
        default=True, description="With `mistral_ocr`: render a small preview of each page"
    )
    include_high_res_pages: bool = Field(
        default=False, description="With `mistral_ocr`: render each page at 200 dpi"
    )
    page_start: int | None = Field(default=None, ge=1, description="First page to read")
    page_end: int | None = Field(default=None, ge=1, description="Last page to read")
    password: str | None = Field(
        default=None,
        max_length=200,
        description="Password of an encrypted PDF",
        json_schema_extra={"writeOnly": True},
    )
    ocr_language: str | None = ocr_language_field()

    @property
    def renderings(self) -> tuple[Rendering, ...]:
        if not self.mistral_ocr:
            return (PAGE_IMAGE, PREVIEW) if self.include_images else ()
        high_resolution = (HIGH_RESOLUTION,) if self.include_high_res_pages else ()
        return (*high_resolution, SMALL_PREVIEW) if self.include_preview_pages else high_resolution

    def page_options(self) -> PageOptions:
        return PageOptions(
            method=METHOD_ALIASES.get(self.extraction_method, self.extraction_method),
            renderings=self.renderings,
            languages=self.ocr_language,
            password=self.password,
            first_page=self.page_start,
            last_page=self.page_end,
        )


@handles("pdf", PdfParameters, timeout=TIMEOUT)
async def pdf(ctx: JobContext[PdfParameters]) -> DocumentResults:
    options = page_options(ctx)
    document = await resolve_document(ctx, CONVERTIBLE | {"pdf"}, options)
    return await read_pdf(ctx, document, options)


def page_options(ctx: JobContext[PdfParameters]) -> PageOptions:
    """With `mistral_ocr`, an OCR endpoint reads the pages if one is configured, unless the request
    names a method. It cannot open encrypted files."""
    parameters = ctx.parameters
    options = parameters.page_options()
    if not parameters.mistral_ocr:
        return options
    is_default = "extraction_method" not in parameters.model_fields_set
    has_endpoint = "ocr" in ctx.llm.options.models and not parameters.password
    return replace(
        options,
        method="mistral_ocr" if is_default and has_endpoint else options.method,
        text_form="markdown_pages",
        mistral_ocr=True,
        figures=parameters.include_ocr_images,
    )


async def read_pdf(
    ctx: DocumentContext, document: Document, options: PageOptions
) -> DocumentResults:
    """Read a PDF, or another document by converting it to PDF first."""
    entry = await open_page_cache(ctx, document, options, kind="pdf", library="pypdfium2")
    path = document.path
    if document.file_type != "pdf":
        path = f"{entry.directory}/{CONVERTED}"
        if not os.path.exists(path):  # noqa: ASYNC240  (takes a microsecond)
            await _convert_to_pdf(ctx, document, path)
    return await read_pages(
        ctx,
        document,
        options,
        entry,
        path=path,
        inspect=partial(INSPECT, path, options.password),
        process=PROCESS_PAGES,
    )


async def _convert_to_pdf(ctx: DocumentContext, document: Document, target: str) -> None:
    file_type = document.file_type
    await ctx.progress(f"converting_{file_type}_to_pdf", 7, "LibreOffice converts the file to PDF")
    await ctx.log(f"LibreOffice converts the {file_type} file to PDF")
    limit = ctx.documents.conversion_timeout
    try:
        converted = await ctx.run(
            partial(TO_PDF, timeout_s=limit.total_seconds()),
            document.path,
            file_type,
            str(ctx.scratch),
            wall_time=limit + LIBREOFFICE_GRACE,
        )
    finally:
        clear_profiles(str(ctx.scratch))
    os.replace(inside(Path(converted), ctx.scratch), target)
