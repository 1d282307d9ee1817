"""Job type `pdf`: reads a PDF page by page, by its text layer, OCR or a vision model."""

import os
from datetime import timedelta
from functools import partial
from typing import Literal

from pydantic import Field

from ..core.callables import LazyCallable
from ..documents.office.libreoffice import clear_profiles
from ..documents.pages import METHOD_ALIASES, DocumentInfo, PendingPage
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

INSPECT: LazyCallable[DocumentInfo] = LazyCallable("documents.pdf.pages", "inspect_pdf")
PROCESS_PAGES: LazyCallable[list[PendingPage]] = LazyCallable(
    "documents.pdf.pages", "process_pdf_pages"
)
TO_PDF: LazyCallable[str] = LazyCallable("documents.office.libreoffice", "convert_to_pdf")


class PdfParameters(LanguageParameters):
    extraction_method: MethodName = Field(
        default="native", description="How to read the pages; `auto` decides page by page"
    )
    include_images: bool = Field(default=False, description="Render an image of each page")
    page_start: int | None = Field(default=None, ge=1, description="First page to read")
    page_end: int | None = Field(default=None, ge=1, description="Last page to read")
    password: str | None = Field(
        default=None,
        max_length=200,
        description="Password of an encrypted PDF",
        json_schema_extra={"writeOnly": True},
    )
    ocr_language: str | None = ocr_language_field()

    def page_options(self) -> PageOptions:
        return PageOptions(
            method=METHOD_ALIASES.get(self.extraction_method, self.extraction_method),
            images=self.include_images,
            languages=self.ocr_language,
            password=self.password,
            first_page=self.page_start,
            last_page=self.page_end,
        )


@handles("pdf", PdfParameters, timeout=TIMEOUT)
async def pdf(ctx: JobContext[PdfParameters]) -> DocumentResults:
    options = ctx.parameters.page_options()
    document = await resolve_document(ctx, CONVERTIBLE | {"pdf"}, options)
    return await read_pdf(ctx, document, options)


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
    os.replace(converted, target)
