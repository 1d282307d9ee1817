"""Job type `pdf`: a PDF page by page, by its text layer, by OCR, by a vision model, as pictures."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from pydantic import Field

from ..cache import Entry
from ..errors import EngineUnavailable
from ..handler import JobContext, handles
from ..processors.methods import ALIASES, METHODS
from ..processors.shelf import Shelf
from .document_results import archives_of
from .documents import Document, check_pages, conclude, find, made_after, opened_entry
from .paging import Paging, page_numbers
from .parameters import LANGUAGES, LanguageParameters

MethodName = Literal[
    "native", "ocr", "tesseract_ocr", "both", "preview", "preview_and_native", "llm",
    "llm_and_native", "llm_and_ocr", "auto",
]  # fmt: skip

#: What LibreOffice can turn into a PDF.
CONVERTIBLE = frozenset({"pptx", "odp", "docx", "odt", "xlsx", "ods", "rtf", "ole"})
KINDS = CONVERTIBLE | {"pdf"}
CONVERTED = "converted.pdf"
#: A page has its own limit; so long may all of them take.
TIMEOUT = timedelta(hours=12)


class PdfParameters(LanguageParameters):
    extraction_method: MethodName = "native"
    include_images: bool = Field(default=False, description="A picture of each page")
    page_start: int | None = Field(default=None, ge=1)
    page_end: int | None = Field(default=None, ge=1)
    password: str | None = Field(default=None, max_length=200)
    ocr_language: str | None = Field(default=None, pattern=LANGUAGES)


@handles("pdf", PdfParameters, timeout=TIMEOUT)
async def pdf(ctx: JobContext[PdfParameters]) -> dict[str, Any]:
    return await read_pdf(ctx, ctx.parameters, KINDS)


@dataclass(frozen=True, slots=True)
class _Opened:
    """The document as a PDF, and what is known about it."""

    path: str
    facts: Mapping[str, Any]


async def read_pdf(
    ctx: JobContext[Any], parameters: PdfParameters, kinds: frozenset[str]
) -> dict[str, Any]:
    # Loaded when the first job comes: the API knows this handler too, and never runs it.
    from ..processors.page_task import PageTask
    from ..processors.pdf.pages import make_pdf_pages

    name = ALIASES.get(parameters.extraction_method, parameters.extraction_method)
    method = METHODS[name]
    if method.llm:
        raise EngineUnavailable(f"The method {name!r} needs a vision model, and none is set")
    document = await find(ctx, kinds)
    languages = parameters.ocr_language or ctx.documents.ocr_language if method.ocr else None
    options = {
        "images": parameters.include_images,
        "languages": languages,
        "password": parameters.password,
        "max_pixels": ctx.documents.max_pixels if method.ocr or method.preview else None,
    }
    packages = ["pypdfium2", *(["tesserocr"] if method.ocr else [])]
    entry, shelf = await opened_entry(
        ctx, document, "pdf", name, options=options, packages=packages
    )
    opened = await _open(ctx, document, parameters, entry, shelf)
    pages = int(opened.facts["page_count"])
    numbers = page_numbers(parameters.page_start, parameters.page_end, pages)
    check_pages(ctx, len(numbers))
    task = PageTask(
        path=opened.path,
        password=parameters.password,
        method=method,
        method_name=name,
        with_images=parameters.include_images,
        languages=languages,
        ocr_engine=ctx.documents.ocr_engine,
        max_pixels=ctx.documents.max_pixels,
        shelf=shelf,
        scratch=str(ctx.scratch),
    )
    paging = Paging(
        ctx=ctx,
        task=task,
        make=make_pdf_pages,
        entry=entry,
        page_timeout=ctx.documents.page_timeout,
        made_after=made_after(ctx),
    )
    made = await paging.run(numbers)
    return await conclude(
        ctx,
        document,
        entry,
        shelf,
        numbers,
        facts={**opened.facts, "extraction_method": name},
        made=made,
        archives=archives_of(images=parameters.include_images, previews=method.preview),
    )


async def _open(
    ctx: JobContext[Any], document: Document, parameters: PdfParameters, entry: Entry, shelf: Shelf
) -> _Opened:
    """Converted, if it is no PDF, and looked at, unless all that is known already."""
    from ..processors.pdf.pages import inspect_pdf

    converted = entry.directory / CONVERTED
    path = document.path if document.kind == "pdf" else str(converted)
    if document.kind != "pdf" and not converted.exists():
        raise EngineUnavailable("This version cannot convert office files to PDF")
    facts = entry.facts
    if facts is None:
        facts = await ctx.run(inspect_pdf, path, parameters.password)
        entry.note(facts)
    return _Opened(path, facts)
