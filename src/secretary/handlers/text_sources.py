"""The text that a job is to work on: in the request, in a file, or on a page of the web."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..core.callables import LazyCallable
from ..core.errors import FileTooLarge, UnsupportedFile
from ..core.file_types import OFFICE_TYPES, safe_name
from ..core.job import RESULTS_FILE_KEY
from ..documents.assembly import MARKDOWN_FILE, RESULTS_FILE
from ..documents.text_output import OUTPUT_FILES, RESULT_FILE, TargetFormat, TextOutput
from ..jobs.handler import JobContext
from ..llm.templates import Rendered
from ..storage.sources import url_of
from .cache_policy import archive_url, file_url
from .document_pipeline import Document, PageOptions, checked
from .office import read_office
from .parameters import MAX_TEXT
from .pdf import read_pdf_document
from .subjobs import ShareOfProgress

if TYPE_CHECKING:
    from ..web.page import Article

READ_ARTICLE: LazyCallable["Article"] = LazyCallable("web.page", "read_article")

READABLE = OFFICE_TYPES | {"pdf"}
#: Texts that are tables, by their names.
TABLES = frozenset({".csv", ".tsv"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceText:
    """Markdown, or as plain as it came."""

    text: str
    #: What it is called, without the ending of a file.
    name: str = "text"
    title: str | None = None
    language: str | None = None
    url: str | None = None
    file_name: str | None = None


async def source_text(ctx: JobContext[Any]) -> SourceText:
    given: str | None = ctx.parameters.text
    source = SourceText(text=given) if given is not None else await _read(ctx)
    if not source.text.strip():
        raise UnsupportedFile("There is no text in it")
    return source


async def _read(ctx: JobContext[Any]) -> SourceText:
    await ctx.progress("downloading_or_opening", 5)
    document = await checked(await ctx.source(), READABLE)
    url = url_of(ctx.parameters)
    name = document.source.name
    source = SourceText(text="", name=PurePath(name).stem or "text", file_name=name, url=url)
    if document.kind == "html" and url is not None:
        return await _article(ctx, document, source, url)
    if document.kind == "text" and PurePath(name).suffix.lower() not in TABLES:
        return replace(source, text=await asyncio.to_thread(_plain, document.path))
    return await _document(ctx, document, source)


async def _article(
    ctx: JobContext[Any], document: Document, source: SourceText, url: str
) -> SourceText:
    article = await ctx.run(
        READ_ARTICLE, document.path, url, wall_time=ctx.documents.conversion_timeout
    )
    name = PurePath(urlsplit(url).path).stem or source.name
    return replace(
        source, text=article.text, title=article.title, language=article.language, name=name
    )


def _plain(path: str) -> str:
    from ..documents.office.text import decoded, text_at

    return _bounded(decoded(text_at(path)))


async def _document(ctx: JobContext[Any], document: Document, source: SourceText) -> SourceText:
    """By the reader of its own job type, whose files nobody needs to see here."""
    plain = ctx.parameters.model_copy(update={"template": None, "template_content": None})
    aside = replace(
        ctx,
        attempt_directory=str(ctx.scratch / "source"),
        parameters=plain,
        reporter=ShareOfProgress(ctx.reporter, 5, 20),
    )
    if document.kind == "pdf":
        results = await read_pdf_document(aside, document, PageOptions(method="auto"))
    else:
        results = await read_office(aside, document)
    text = await asyncio.to_thread(_markdown, aside.directory / MARKDOWN_FILE)
    facts = results["metadata"]
    return replace(source, text=text, title=facts.get("title"), language=facts.get("language"))


def _markdown(path: Path) -> str:
    try:
        return _bounded(path.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:  # no page has any text
        return ""


def _bounded(text: str) -> str:
    if len(text) > MAX_TEXT:
        told = f"The text has {len(text):,} characters; {MAX_TEXT:,} at the most can be worked on"
        raise FileTooLarge(told, characters=len(text), limit=MAX_TEXT)
    return text


WRITE: LazyCallable[None] = LazyCallable("documents.text_output", "write_text_output")


async def text_results(
    ctx: JobContext[Any],
    source: SourceText,
    *,
    markdown: str,
    rendered: Rendered | None,
    facts: Mapping[str, Any],
    is_from_cache: bool,
) -> dict[str, Any]:
    wanted: TargetFormat = ctx.parameters.target_format or "markdown"
    made = TextOutput(
        directory=str(ctx.directory),
        markdown=markdown,
        structured_data=rendered.structured_data if rendered else None,
        target_format=wanted,
        front_matter=rendered.front_matter if rendered else None,
        title=_title(rendered) or source.title,
        language=facts.get("target_language") or facts.get("source_language"),
    )
    if wanted in ("html", "text"):  # to read Markdown takes time
        await ctx.run(WRITE, made, wall_time=ctx.documents.conversion_timeout)
    else:
        await asyncio.to_thread(WRITE, made)

    told = {"file_name": source.file_name, "title": source.title, "url": source.url}
    known = {name: value for name, value in {**told, **facts}.items() if value is not None}
    return {
        "text": None,
        "text_file": file_url(ctx.job, OUTPUT_FILES[wanted]),
        "markdown_content": None,
        "markdown_file": file_url(ctx.job, RESULT_FILE),
        "structured_data": None,
        "archive_url": archive_url(ctx.job),
        "archive_filename": safe_name(f"{source.name}_files.zip"),
        "context": ctx.parameters.context,
        "is_from_cache": is_from_cache,
        "metadata": {**known, "target_format": wanted, "characters": len(source.text)},
        "llm_info": ctx.llm.info(),
        RESULTS_FILE_KEY: RESULTS_FILE,
    }


def _title(rendered: Rendered | None) -> str | None:
    title = rendered.front_matter.get("title") if rendered else None
    return title if isinstance(title, str) and title else None
