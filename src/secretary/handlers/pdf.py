"""Job type `pdf`: the text of a PDF, page by page."""

from typing import Any, Literal

from pydantic import Field

from ..errors import EngineUnavailable
from ..handler import JobContext, handles
from ..processors.pdf.reading import PdfText, read_text
from .parameters import LanguageParameters

Method = Literal[
    "native", "ocr", "tesseract_ocr", "both", "preview", "preview_and_native", "llm",
    "llm_and_native", "llm_and_ocr", "auto",
]  # fmt: skip


class PdfParameters(LanguageParameters):
    extraction_method: Method = "native"
    include_images: bool = False
    page_start: int | None = Field(default=None, ge=1)
    page_end: int | None = Field(default=None, ge=1)
    password: str | None = Field(default=None, max_length=200)
    ocr_language: str | None = Field(default=None, pattern=r"^[A-Za-z_]+(\+[A-Za-z_]+)*$")


@handles("pdf", PdfParameters)
async def pdf(ctx: JobContext[PdfParameters]) -> dict[str, Any]:
    parameters = ctx.parameters
    if parameters.extraction_method != "native":
        text = f"The method {parameters.extraction_method!r} needs an engine that is not there"
        raise EngineUnavailable(text)
    await ctx.progress("downloading_or_opening", 5)
    source = await ctx.source()
    await ctx.progress("processing_pages", 10)
    pages = (parameters.page_start, parameters.page_end)
    read: PdfText = await ctx.run(read_text, str(source.path), parameters.password, *pages)
    await ctx.progress("postprocessing", 90)
    return {
        "extracted_text": "\n".join(f"--- Seite {n} ---\n{text}" for n, text in read.pages),
        "metadata": {
            "file_name": source.name,
            "file_size": source.path.stat().st_size,
            "page_count": read.page_count,
            "text_contents": [{"page": n, "content": text} for n, text in read.pages],
        },
    }
