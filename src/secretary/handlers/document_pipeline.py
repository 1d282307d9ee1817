"""What all jobs on documents do alike: find the file and its place in the cache, read, conclude."""

import asyncio
import importlib.metadata
import json
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from ..core.callables import map_limited
from ..core.errors import (
    FileCorrupt,
    FileTooLarge,
    InvalidParameters,
    JobFailed,
    ProcessDied,
    ProcessingTimeout,
    UnsupportedFile,
)
from ..core.file_types import detect_file_type
from ..core.job import RESULTS_FILE_KEY, Job
from ..documents.assembly import (
    MARKDOWN_FILE,
    PAGES_FILE,
    RESULTS_FILE,
    TEXT_FILE,
    AssembledDocument,
    Assembly,
    assemble,
    is_assembled,
)
from ..documents.ocr.engines import open_engine
from ..documents.page_store import PageStore, link_pages
from ..documents.page_task import METHODS, OCR_PIPELINE_VERSION
from ..jobs.handler import DEFAULT_DOCUMENTS, JobContext
from ..storage.append_log import RecordRef
from ..storage.cache import CacheEntry, digest_of
from ..storage.sources import SourceFile
from ..version import __version__
from .cache_policy import archive_url, file_url, is_from_cache, made_after
from .parameters import LanguageParameters
from .text_generation import wanted_template, with_template

if TYPE_CHECKING:
    from ..documents.page_task import PageTask, PendingPage

PREVIEWS = "previews.zip"
IMAGES = "images.zip"


def archives_of(*, images: bool, previews: bool) -> dict[str, str]:
    """The zips to make, and how the names of the pictures begin that go into them."""
    zips = {}
    if images:
        zips[IMAGES] = "image_"
    if previews:
        zips[PREVIEWS] = "preview_"
    return zips


def document_results(
    job: Job,
    source: SourceFile,
    done: AssembledDocument,
    *,
    directory: str,
    facts: Mapping[str, Any],
    is_from_cache: bool,
    context: Mapping[str, Any] | None,
) -> dict[str, Any]:
    def made(name: str) -> str | None:
        return file_url(job, name) if name in done.files else None

    text_route = "/api/pdf/text-content" if job.job_type == "pdf" else "/api/files/text"
    return {
        "markdown_file": file_url(job, MARKDOWN_FILE) if done.has_text else None,
        "markdown_content": None,
        "extracted_text": None,
        "extracted_text_file": file_url(job, TEXT_FILE) if done.has_text else None,
        "page_texts": [file_url(job, name, route=text_route) for name in done.page_texts],
        "page_markdown_file": made(PAGES_FILE),
        "assets": [file_url(job, name) for name in done.pictures],
        "asset_dir": directory,
        "target_dir": directory,
        "archive_url": archive_url(job),
        "archive_filename": f"{PurePath(source.name).stem or 'document'}_files.zip",
        "pages_archive_url": made(IMAGES) or made(PREVIEWS),
        "images_archive_url": made(IMAGES),
        "previews_archive_url": made(PREVIEWS),
        "context": context,
        "is_from_cache": is_from_cache,
        "metadata": {
            "file_name": source.name,
            "file_size": source.path.stat().st_size,
            **facts,
        },
        RESULTS_FILE_KEY: RESULTS_FILE,
    }


#: Characters of it that a vision model is told.
MOST_CONTEXT = 4000


@dataclass(frozen=True, slots=True)
class Document:
    """A file at hand: what its owner calls it, what it is, and the digest of what it holds."""

    source: SourceFile
    kind: str | None
    sha256: str

    @property
    def path(self) -> str:
        return str(self.source.path)


async def find(ctx: JobContext[Any], kinds: frozenset[str]) -> Document:
    """The file of the job, if it is of one of these kinds."""
    await begin(ctx)
    return await checked(await ctx.source(), kinds)


async def begin(ctx: JobContext[Any]) -> None:
    await ctx.progress("initializing", 0)
    await wanted_template(ctx)  # before any work: is there one, and a model for it?
    await ctx.progress("downloading_or_opening", 5)


async def checked(source: SourceFile, kinds: frozenset[str]) -> Document:
    """The file, if it is of one of these kinds."""
    if not source.path.stat().st_size:
        raise FileCorrupt("The file is empty")
    kind = await asyncio.to_thread(detect_file_type, source.path)
    if kind not in kinds:
        told = f"a {kind} file" if kind else "of no kind that is known"
        wanted = ", ".join(sorted(kinds))
        raise UnsupportedFile(f"The file is {told}; this job type reads: {wanted}", kind=kind)
    return Document(source, kind, await asyncio.to_thread(digest_of, source.path))


def said_about(parameters: LanguageParameters) -> str | None:
    """What the client knows about the document, for a model that reads it."""
    if not parameters.context:
        return None
    return json.dumps(parameters.context, ensure_ascii=False, sort_keys=True)[:MOST_CONTEXT]


async def opened_entry(
    ctx: JobContext[Any],
    document: Document,
    kind: str,
    method: str,
    *,
    options: Mapping[str, Any],
    made_with: Sequence[str],
) -> tuple[CacheEntry, PageStore]:
    """Where the pages of the document are, or will be. Options that are not set do not count."""
    told = {name: value for name, value in options.items() if value}
    version = ", ".join([f"secretary {__version__}", *made_with])
    entry = await ctx.entry(kind, document.sha256, method, options=told, version=version)
    return entry, PageStore(str(entry.directory), str(ctx.directory), made_after(ctx))


@cache
def version_of(package: str) -> str:
    return f"{package} {importlib.metadata.version(package)}"


def check_pages(ctx: JobContext[Any], count: int) -> None:
    limit = ctx.documents.max_pages
    if count > limit:
        text = f"{count:,} pages are asked for; {limit:,} at the most can be read in one job"
        raise FileTooLarge(text, pages=count, limit=limit)


async def conclude(
    ctx: JobContext[Any],
    document: Document,
    entry: CacheEntry,
    page_store: PageStore,
    numbers: range,
    *,
    facts: Mapping[str, Any],
    made: bool,
    archives: Mapping[str, str],
    is_print: bool = True,
) -> dict[str, Any]:
    """The pages put together, as results."""
    await ctx.progress("postprocessing", 90, "Putting the pages together")
    since = made_after(ctx)
    assembly = Assembly(
        page_store=page_store,
        numbers=numbers,
        archives=archives,
        is_print=is_print,
        made_after=since,
        may_reuse=not made and not since,
    )
    done = await ctx.run(assemble, assembly)
    if facts.get("extraction_method") == "native" and not (done.has_text or done.has_text_layer):
        text = "The PDF has no text layer: it may be a scan. Use the method 'auto' or 'ocr'."
        raise UnsupportedFile(text)
    results = document_results(
        ctx.job,
        document.source,
        done,
        directory=entry.name,
        facts=facts,
        is_from_cache=is_from_cache(ctx, made=made),
        context=ctx.parameters.context,
    )
    results["llm_info"] = ctx.llm.info()
    return await with_template(ctx, results, MARKDOWN_FILE)


MakePages = Callable[["PageTask", Sequence[int]], list["PendingPage"]]

#: Pages in one call of a process: many where a page takes a millisecond, one where it is read.
MANY, SOME, ONE = 64, 8, 1
#: Fewer than these are not worth a call of their own, where a page takes a millisecond.
FEW = 16
FIRST_PERCENT, LAST_PERCENT = 10, 90


@dataclass(frozen=True, slots=True, kw_only=True)
class PageProcessor:
    """One document on its way through its pages."""

    ctx: JobContext[Any]
    task: "PageTask"
    make: MakePages
    entry: CacheEntry
    #: Pages made before are not taken: the client wants them made anew.
    made_after: float = 0.0
    #: What a vision model is told about the document.
    about: str | None = None

    async def run(self, numbers: range) -> bool:
        """Have these pages on the shelf; false when all of them were there before."""
        page_store = self.task.page_store
        if not self.made_after and is_assembled(page_store, numbers):
            await _Progress(self.ctx, len(numbers), len(numbers)).tell()
            return False
        known = await asyncio.to_thread(self._places)
        missing = [number for number in numbers if number not in known]
        progress = _Progress(self.ctx, len(numbers), len(numbers) - len(missing))
        await progress.tell()
        if missing:
            there = [known[number] for number in numbers if number in known]
            await asyncio.to_thread(link_pages, page_store, there)
            await self._make_all(missing, progress)
        return bool(missing)

    def _places(self) -> dict[int, RecordRef]:
        return self.task.page_store.find_pages(made_after=self.made_after)

    async def _make_all(self, numbers: Sequence[int], progress: "_Progress") -> None:
        task = self.task
        left = await self._in_parallel(task, numbers, progress)
        if task.method.auto and left:
            reasons = {page.number: page.reason or "" for page in left}
            reading = replace(task, method=METHODS["ocr"], method_name="ocr", reasons=reasons)
            await self._in_parallel(reading, sorted(reasons), progress)

    async def _in_parallel(
        self, task: "PageTask", numbers: Sequence[int], progress: "_Progress"
    ) -> list["PendingPage"]:
        """As many calls at once as there are processes, or as the model takes requests."""
        lanes = self.ctx.processes
        if task.method.llm:
            lanes = self.ctx.llm.options.models["vision"].provider.max_concurrent
        pieces = _pieces(numbers, lanes, _most(task))
        unfinished: list[PendingPage] = []

        async def make(piece: Sequence[int]) -> None:
            left = await self._make(task, piece)
            if task.method.llm:
                left = await self._ask_model(task, left)
            unfinished.extend(left)
            await progress.advance(len(piece) - len(left))
            self.entry.touch()

        await map_limited(pieces, lanes, make)
        return unfinished

    async def _make(self, task: "PageTask", numbers: Sequence[int]) -> list["PendingPage"]:
        """When a call dies or takes too long, its pages are tried one by one: so the error names
        the page, and the others are kept."""
        limit = self.ctx.documents.page_timeout + timedelta(seconds=len(numbers) - 1)
        try:
            return await self.ctx.run(self.make, task, numbers, wall_time=limit)
        except (ProcessDied, ProcessingTimeout) as error:
            if len(numbers) == 1:
                raise _named(error, numbers[0]) from None
        left = []
        done = self._places()
        for number in numbers:
            if number not in done:
                left += await self._make(task, [number])
        return left

    async def _ask_model(
        self, task: "PageTask", pages: Sequence["PendingPage"]
    ) -> list["PendingPage"]:
        from ..documents.page_task import PageReading, save_page

        for page in pages:
            assert page.model_image is not None
            picture = Path(page.model_image)
            jpeg = await asyncio.to_thread(picture.read_bytes)
            said = await self.ctx.llm.read_picture(
                jpeg, language=task.languages, context=self.about
            )
            await asyncio.to_thread(picture.unlink)
            readings = {"llm": PageReading(text=said, markdown=said), **page.readings}
            await asyncio.to_thread(save_page, task, page.number, readings, page.pictures)
        return []


def page_numbers(first: int | None, last: int | None, count: int) -> range:
    first, last = first or 1, min(last or count, count)
    if first > last:
        pages = "1 page" if count == 1 else f"{count} pages"
        raise InvalidParameters(f"page_start: the document has {pages}")
    return range(first, last + 1)


def _most(task: "PageTask") -> int:
    method = task.method
    if method.llm or (method.ocr and not method.auto):
        return ONE
    return SOME if method.preview or task.with_images else MANY


def _pieces(numbers: Sequence[int], lanes: int, most: int) -> Iterator[Sequence[int]]:
    """Large ones first, then smaller: all lanes are to end at the same time. But not too small,
    as for each the document is opened anew."""
    start, least = 0, min(most, FEW)
    while start < len(numbers):
        share = math.ceil((len(numbers) - start) / (2 * lanes)) if lanes > 1 else most
        size = min(most, max(share, least))
        if len(numbers) - start - size <= least // 2:
            size = min(len(numbers) - start, 2 * most)
        yield numbers[start : start + size]
        start += size


def _named(error: JobFailed, number: int) -> JobFailed:
    return type(error)(f"Page {number}: {error.message}", **{**error.details, "page": number})


class _Progress:
    def __init__(self, ctx: JobContext[Any], total: int, done: int) -> None:
        self._ctx = ctx
        self._total = total
        self._done = done

    async def advance(self, pages: int) -> None:
        self._done += pages
        await self.tell()

    async def tell(self) -> None:
        share = (LAST_PERCENT - FIRST_PERCENT) * self._done / self._total
        await self._ctx.progress(
            f"processing_pages:{self._done}/{self._total}",
            FIRST_PERCENT + int(share),
            f"{self._done} of {self._total} pages are done",
        )


#: What is as usual leaves no mark in the name of a place in the cache.
USUAL_ENGINE, USUAL_PIXELS = DEFAULT_DOCUMENTS.ocr_engine, DEFAULT_DOCUMENTS.max_pixels


@dataclass(frozen=True, slots=True)
class Opened:
    """A file whose pages can be read, and what is known about the document."""

    path: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOptions:
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
    wish: PageOptions,
    *,
    kind: str,
    make: MakePages,
    opened: Callable[[CacheEntry], Awaitable[Opened]],
) -> dict[str, Any]:
    from ..documents.page_task import PageTask  # loaded when the first job comes

    method, limits = METHODS[wish.method], ctx.documents
    languages = wish.languages or limits.ocr_language if method.ocr or method.llm else None
    about = said_about(ctx.parameters) if method.llm else None
    entry, page_store = await opened_entry(
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
        page_store=page_store,
        scratch=str(ctx.scratch),
    )
    since = made_after(ctx)
    paging = PageProcessor(
        ctx=ctx, task=task, make=make, entry=entry, made_after=since, about=about
    )
    made = await paging.run(numbers)
    return await conclude(
        ctx,
        document,
        entry,
        page_store,
        numbers,
        facts={**found.facts, "extraction_method": wish.method},
        made=made,
        archives=archives_of(images=wish.images, previews=method.preview),
    )


def _options(
    ctx: JobContext[Any], wish: PageOptions, languages: str | None, about: str | None
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


def _made_with(ctx: JobContext[Any], wish: PageOptions, kind: str) -> list[str]:
    versions = [version_of("pypdfium2" if kind == "pdf" else "pillow")]
    if METHODS[wish.method].ocr:
        engine = open_engine(ctx.documents.ocr_engine, ctx.documents.ocr_data_directory)
        versions.append(f"{engine.name} {engine.version} {OCR_PIPELINE_VERSION}")
    return versions
