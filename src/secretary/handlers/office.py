"""Job type `office`: converts documents, spreadsheets and presentations to Markdown."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from pydantic import Field

from ..core.callables import LazyCallable
from ..core.files import OFFICE_TYPES
from ..core.job import JobWarning
from ..documents.pages import PREVIEW, DocumentInfo, Rendering
from ..jobs.handler import JobContext, handles
from ..jobs.job_log import counted
from .document_pipeline import (
    IMAGES,
    Document,
    DocumentContext,
    assemble_results,
    check_page_count,
    open_cache_entry,
    open_page_store,
    package_version,
    resolve_document,
)
from .parameters import DocumentResults, reusable_since
from .pdf import CONVERTIBLE, TIMEOUT, PdfParameters, page_options, read_pdf

PROCESS_PAGES: LazyCallable[DocumentInfo] = LazyCallable(
    "documents.office.pages", "process_office_document", returns=DocumentInfo
)


class OfficeParameters(PdfParameters):
    """With `via_pdf`, all options of a PDF apply."""

    include_images: bool = Field(default=False, description="Extract the images in the document")
    include_previews: bool = Field(
        default=False, description="With `via_pdf`: render a preview of each page"
    )
    via_pdf: bool = Field(
        default=False, description="Convert to PDF with LibreOffice and read the printed pages"
    )

    @property
    def renderings(self) -> tuple[Rendering, ...]:
        renderings = super().renderings
        has_previews = any(one.prefix == PREVIEW.prefix for one in renderings)
        wants_previews = self.include_previews and not has_previews
        return (*renderings, PREVIEW) if wants_previews else renderings


NO_PREVIEWS = JobWarning(
    code="PREVIEWS_NOT_RENDERED",
    message="Previews of office files are rendered only with via_pdf",
)
#: Prefix of the names of pictures in office files; see `documents.office.blocks`.
PICTURES = "img-"


@handles("office", OfficeParameters, timeout=TIMEOUT)
async def office(ctx: JobContext[OfficeParameters]) -> DocumentResults:
    if ctx.parameters.via_pdf:
        options = replace(page_options(ctx), text_form="markdown_pages")
        document = await resolve_document(ctx, CONVERTIBLE | {"html", "text"}, options)
        return await read_pdf(ctx, document, options)
    document = await resolve_document(ctx, OFFICE_TYPES)
    warnings = [NO_PREVIEWS] if ctx.parameters.include_previews else []
    return await read_office(ctx, document, images=ctx.parameters.include_images, warnings=warnings)


async def read_office(
    ctx: DocumentContext,
    document: Document,
    *,
    images: bool = False,
    warnings: Sequence[JobWarning] = (),
) -> DocumentResults:
    # Only its name says whether a text file is a table.
    suffix = document.source.path.suffix.lower() if document.file_type == "text" else None
    key = {"images": images, "ending": suffix}
    made_with = [package_version("lxml")]
    entry = await open_cache_entry(ctx, document, "office", "native", key, made_with)
    await ctx.progress("processing_pages", 10)
    info = cast(DocumentInfo, entry.metadata)
    processed = entry.metadata is None or bool(reusable_since(ctx))
    reused = "no earlier work is reused" if processed else "reusing earlier work"
    await ctx.log(f"The file type is {document.file_type}; read with {made_with[0]}; {reused}")
    if processed:
        info = await ctx.run(
            PROCESS_PAGES,
            document.path,
            document.file_type,
            document.source.name,
            open_page_store(ctx, entry),
            str(ctx.scratch),
            images,
            wall_time=ctx.documents.conversion_timeout,
        )
        entry.save_metadata(info)
        ctx.resources.add("pages", info["page_count"])
    check_page_count(ctx, info["page_count"])
    await ctx.log(f"The document has {counted(info['page_count'], 'page')}")
    return await assemble_results(
        ctx,
        document,
        entry,
        range(1, info["page_count"] + 1),
        metadata=info,
        processed=processed,
        archives={IMAGES: (PICTURES,)} if images else {},
        text_form="markdown",
        is_print=False,
        warnings=warnings,
    )
