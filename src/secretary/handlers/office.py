"""Job type `office`: documents, sheets and slides as Markdown."""

from typing import Any

from pydantic import Field

from ..core.callables import LazyCallable
from ..core.file_types import OFFICE_TYPES
from ..documents.page_task import DocumentInfo
from ..jobs.handler import JobContext, handles
from .cache_policy import made_after
from .document_pipeline import (
    Document,
    archives_of,
    check_pages,
    conclude,
    find,
    opened_entry,
    version_of,
)
from .pdf import CONVERTIBLE, TIMEOUT, PdfParameters, read_pdf

MAKE_PAGES: LazyCallable[DocumentInfo] = LazyCallable(
    "documents.office.pages", "process_office_document"
)


class OfficeParameters(PdfParameters):
    """With `via_pdf` the same can be asked for as of a PDF."""

    include_images: bool = Field(default=False, description="The pictures in the document")
    via_pdf: bool = Field(default=False, description="By LibreOffice, page by page as printed")


@handles("office", OfficeParameters, timeout=TIMEOUT)
async def office(ctx: JobContext[OfficeParameters]) -> dict[str, Any]:
    if ctx.parameters.via_pdf:
        return await read_pdf(ctx, ctx.parameters.wish(), CONVERTIBLE | {"html", "text"})
    document = await find(ctx, OFFICE_TYPES)
    return await read_office(ctx, document, images=ctx.parameters.include_images)


async def read_office(
    ctx: JobContext[Any], document: Document, *, images: bool = False
) -> dict[str, Any]:
    # Of a text only its name tells whether it is a table.
    ending = document.source.path.suffix.lower() if document.kind == "text" else None
    entry, page_store = await opened_entry(
        ctx,
        document,
        "office",
        "native",
        options={"images": images, "ending": ending},
        made_with=[version_of("lxml")],
    )
    await ctx.progress("processing_pages", 10)
    facts = entry.facts
    made = facts is None or bool(made_after(ctx))
    if facts is None or made:
        info = await ctx.run(
            MAKE_PAGES,
            document.path,
            document.kind,
            document.source.name,
            page_store,
            str(ctx.scratch),
            images,
            wall_time=ctx.documents.conversion_timeout,
        )
        facts = dict[str, Any](info)
        entry.note(facts)
    count = int(facts["page_count"])
    check_pages(ctx, count)
    return await conclude(
        ctx,
        document,
        entry,
        page_store,
        range(1, count + 1),
        facts=facts,
        made=made,
        archives=archives_of(images=images, previews=False),
        is_print=False,
    )
