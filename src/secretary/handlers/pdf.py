"""Job type `pdf`: a PDF page by page, by its text layer, by OCR, by a vision model, as pictures."""

import os
from datetime import timedelta
from functools import partial
from typing import Any, Literal

from pydantic import Field

from ..core.callables import LazyCallable
from ..documents.office.libreoffice import clear_profiles
from ..documents.page_task import METHOD_ALIASES, METHODS, DocumentInfo, PendingPage
from ..jobs.handler import JobContext, handles
from ..storage.cache import CacheEntry
from .document_pipeline import Document, Opened, PageOptions, find, read_pages
from .parameters import LANGUAGES, OCR_LANGUAGE, LanguageParameters

MethodName = Literal[
    "native", "ocr", "tesseract_ocr", "both", "preview", "preview_and_native", "llm",
    "llm_and_native", "llm_and_ocr", "auto",
]  # fmt: skip

#: What LibreOffice can turn into a PDF.
CONVERTIBLE = frozenset({"pptx", "odp", "docx", "odt", "xlsx", "ods", "rtf", "ole"})
CONVERTED = "converted.pdf"
#: Of all pages together; each has a limit of its own.
TIMEOUT = timedelta(hours=12)
#: How long LibreOffice gets to end by itself before its process is killed.
GRACE = timedelta(seconds=10)

INSPECT: LazyCallable[DocumentInfo] = LazyCallable("documents.pdf.pages", "inspect_pdf")
MAKE_PAGES: LazyCallable[list[PendingPage]] = LazyCallable(
    "documents.pdf.pages", "process_pdf_pages"
)
TO_PDF: LazyCallable[str] = LazyCallable("documents.office.libreoffice", "convert_to_pdf")


class PdfParameters(LanguageParameters):
    extraction_method: MethodName = Field(
        default="native", description="How pages are read; `auto` decides for each"
    )
    include_images: bool = Field(default=False, description="A picture of each page")
    page_start: int | None = Field(default=None, ge=1, description="The first page to read")
    page_end: int | None = Field(default=None, ge=1, description="The last page to read")
    password: str | None = Field(
        default=None,
        max_length=200,
        description="Of an encrypted PDF",
        json_schema_extra={"writeOnly": True},  # no answer shows it
    )
    ocr_language: str | None = Field(default=None, pattern=LANGUAGES, description=OCR_LANGUAGE)

    def wish(self) -> PageOptions:
        return PageOptions(
            method=METHOD_ALIASES.get(self.extraction_method, self.extraction_method),
            images=self.include_images,
            languages=self.ocr_language,
            password=self.password,
            first=self.page_start,
            last=self.page_end,
        )


@handles("pdf", PdfParameters, timeout=TIMEOUT)
async def pdf(ctx: JobContext[PdfParameters]) -> dict[str, Any]:
    return await read_pdf(ctx, ctx.parameters.wish(), CONVERTIBLE | {"pdf"})


async def read_pdf(
    ctx: JobContext[Any], wish: PageOptions, kinds: frozenset[str]
) -> dict[str, Any]:
    if METHODS[wish.method].llm:
        ctx.llm.model("vision")  # before any work: is there one?
    return await read_pdf_document(ctx, await find(ctx, kinds), wish)


async def read_pdf_document(
    ctx: JobContext[Any], document: Document, wish: PageOptions
) -> dict[str, Any]:
    opened = partial(_opened, ctx, document, wish.password)
    return await read_pages(ctx, document, wish, kind="pdf", make=MAKE_PAGES, opened=opened)


async def _opened(
    ctx: JobContext[Any], document: Document, password: str | None, entry: CacheEntry
) -> Opened:
    """Converted, if it is no PDF, and looked at, unless all that is known already."""
    path = document.path
    if document.kind != "pdf":
        path = f"{entry.directory}/{CONVERTED}"
        if not os.path.exists(path):  # noqa: ASYNC240  (a microsecond)
            await _convert(ctx, document, path)
    facts = entry.facts
    if facts is None:
        facts = dict(await ctx.run(INSPECT, path, password, wall_time=ctx.documents.page_timeout))
        entry.note(facts)
    return Opened(path, facts)


async def _convert(ctx: JobContext[Any], document: Document, path: str) -> None:
    await ctx.progress(f"converting_{document.kind}_to_pdf", 7, "LibreOffice makes a PDF of it")
    limit = ctx.documents.conversion_timeout
    try:
        made = await ctx.run(
            partial(TO_PDF, timeout_s=limit.total_seconds()),
            document.path,
            document.kind,
            str(ctx.scratch),
            wall_time=limit + GRACE,
        )
    finally:
        clear_profiles(str(ctx.scratch))
    os.replace(made, path)
