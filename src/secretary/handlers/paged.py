"""Reads a document that has pages, from its place in the cache to its results."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..cache import Entry
from ..engines.ocr import open_engine
from ..handler import DEFAULT_DOCUMENTS, JobContext
from ..processors.methods import METHODS, PROCEDURE
from .document_results import archives_of
from .documents import (
    Document,
    check_pages,
    conclude,
    opened_entry,
    said_about,
    version_of,
)
from .freshness import made_after
from .paging import MakePages, Paging, page_numbers

#: What is as usual leaves no mark in the name of a place in the cache.
USUAL_ENGINE, USUAL_PIXELS = DEFAULT_DOCUMENTS.ocr_engine, DEFAULT_DOCUMENTS.max_pixels


@dataclass(frozen=True, slots=True)
class Opened:
    """A file whose pages can be read, and what is known about the document."""

    path: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is wanted of the pages."""

    method: str
    images: bool = False
    languages: str | None = None
    password: str | None = None
    first: int | None = None
    last: int | None = None


async def read_pages(
    ctx: JobContext[Any],
    document: Document,
    wish: Wish,
    *,
    kind: str,
    make: MakePages,
    opened: Callable[[Entry], Awaitable[Opened]],
) -> dict[str, Any]:
    from ..processors.page_task import PageTask  # loaded when the first job comes

    method, limits = METHODS[wish.method], ctx.documents
    languages = wish.languages or limits.ocr_language if method.ocr or method.llm else None
    about = said_about(ctx.parameters) if method.llm else None
    entry, shelf = await opened_entry(
        ctx,
        document,
        kind,
        wish.method,
        options=_options(ctx, wish, languages, about),
        made_with=_made_with(ctx, wish, kind),
    )
    found = await opened(entry)
    numbers = page_numbers(wish.first, wish.last, int(found.facts["page_count"]))
    check_pages(ctx, len(numbers))
    task = PageTask(
        path=found.path,
        password=wish.password,
        method=method,
        method_name=wish.method,
        with_images=wish.images,
        languages=languages,
        ocr_engine=limits.ocr_engine,
        ocr_data_directory=limits.ocr_data_directory,
        max_pixels=limits.max_pixels,
        shelf=shelf,
        scratch=str(ctx.scratch),
    )
    since = made_after(ctx)
    paging = Paging(ctx=ctx, task=task, make=make, entry=entry, made_after=since, about=about)
    made = await paging.run(numbers)
    return await conclude(
        ctx,
        document,
        entry,
        shelf,
        numbers,
        facts={**found.facts, "extraction_method": wish.method},
        made=made,
        archives=archives_of(images=wish.images, previews=method.preview),
    )


def _options(
    ctx: JobContext[Any], wish: Wish, languages: str | None, about: str | None
) -> dict[str, Any]:
    """All that makes a difference to the pages, beside the document and the method."""
    method, limits = METHODS[wish.method], ctx.documents
    is_drawn = method.ocr or method.llm or method.preview or wish.images
    return {
        "images": wish.images,
        "languages": languages,
        "password": wish.password,
        "model": ctx.llm.model("vision") if method.llm else None,
        "about": about,
        "engine": limits.ocr_engine if method.ocr and limits.ocr_engine != USUAL_ENGINE else None,
        "max_pixels": limits.max_pixels if is_drawn and limits.max_pixels != USUAL_PIXELS else None,
    }


def _made_with(ctx: JobContext[Any], wish: Wish, kind: str) -> list[str]:
    versions = [version_of("pypdfium2" if kind == "pdf" else "pillow")]
    if METHODS[wish.method].ocr:
        engine = open_engine(ctx.documents.ocr_engine, ctx.documents.ocr_data_directory)
        versions.append(f"{engine.name} {engine.version} {PROCEDURE}")
    return versions
