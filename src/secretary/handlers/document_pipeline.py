"""The pipeline of document jobs, in the order in which a document is processed: resolve the source,
open its cache entry, plan the pages, process those that are missing, assemble the results."""

import asyncio
import importlib.metadata
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from pathlib import Path, PurePath
from typing import Any, cast

from ..core import errors
from ..core.callables import map_limited
from ..core.files import IMAGE_TYPES, detect_file_type, inside
from ..core.job import JobWarning
from ..documents.assembly import (
    MARKDOWN_FILE,
    PAGES_FILE,
    RESULTS_FILE,
    TEXT_FILE,
    Assembly,
    TextForm,
    assemble,
    is_assembled,
)
from ..documents.mistral_ocr import (
    FIGURES_ARCHIVE,
    PAGES_ARCHIVE,
    RAW_FILE,
    RawDocument,
    save_answer,
)
from ..documents.ocr.engines import open_engine
from ..documents.pages import (
    METHODS,
    OCR_PIPELINE_VERSION,
    PREVIEW,
    DocumentInfo,
    PageReading,
    PageStore,
    PageTask,
    PendingPage,
    Rendering,
    link_pages,
    save_page,
)
from ..jobs.handler import DEFAULT_DOCUMENTS, JobContext
from ..jobs.job_log import counted, format_seconds
from ..storage.append_log import RecordRef
from ..storage.cache import CacheEntry, sha256_of
from ..storage.sources import SourceFile
from ..version import __version__
from .parameters import (
    DocumentResults,
    LanguageParameters,
    is_from_cache,
    reusable_since,
)
from .text_generation import apply_requested_template, requested_template

DocumentContext = JobContext[LanguageParameters]

# Resolve the source -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Document:
    """The source file of a job: its name and path, detected type, and digest."""

    source: SourceFile
    file_type: str | None
    sha256: str

    @property
    def path(self) -> str:
        return str(self.source.path)


async def resolve_document(
    ctx: DocumentContext, accepted: frozenset[str], options: "PageOptions | None" = None
) -> Document:
    """Fetch the source file of the job, which must be of one of the accepted types. Fail before
    any work if the options need a model that is not configured."""
    if options:
        require_model(ctx, options)
    await start(ctx)
    return await check_source(await ctx.source(), accepted)


async def start(ctx: DocumentContext) -> None:
    await ctx.progress("initializing", 0)
    if ctx.parameters.wants_template:
        await requested_template(ctx)  # fail before any work if it, or a model for it, is missing
    await ctx.progress("downloading_or_opening", 5)


async def check_source(source: SourceFile, accepted: frozenset[str]) -> Document:
    if not source.path.stat().st_size:
        raise errors.FileCorrupt("The file is empty")
    file_type = await asyncio.to_thread(detect_file_type, source.path)
    if file_type not in accepted:
        actual = f"a {file_type} file" if file_type else "of an unknown type"
        raise errors.UnsupportedFile(
            f"The file is {actual}; this job type reads: {', '.join(sorted(accepted))}",
            kind=file_type,
        )
    return Document(source, file_type, await asyncio.to_thread(sha256_of, source.path))


# Open the cache entry ---------------------------------------------------------------------------

#: Defaults are left out of cache keys.
DEFAULT_ENGINE, DEFAULT_MAX_PIXELS = DEFAULT_DOCUMENTS.ocr_engine, DEFAULT_DOCUMENTS.max_pixels
#: A vision model gets at most this many characters of the client's context.
MAX_MODEL_CONTEXT = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOptions:
    """How the pages of a document are to be read."""

    method: str
    #: Images of the pages, beside the previews that some methods make.
    renderings: tuple[Rendering, ...] = ()
    #: Whether to extract the pictures on the pages.
    figures: bool = False
    text_form: TextForm = "pages"
    #: Whether to write the results in the form of the Mistral OCR API, too.
    mistral_ocr: bool = False
    languages: str | None = None
    password: str | None = None
    first_page: int | None = None
    last_page: int | None = None

    @property
    def all_renderings(self) -> tuple[Rendering, ...]:
        prefixes = {rendering.prefix for rendering in self.renderings}
        needs_preview = METHODS[self.method].preview and PREVIEW.prefix not in prefixes
        return (*self.renderings, PREVIEW) if needs_preview else self.renderings


def require_model(ctx: DocumentContext, options: PageOptions) -> str | None:
    """The name of the model that reads the pages, if any. Fails if it is not configured."""
    method = METHODS[options.method]
    if method.endpoint:
        return ctx.llm.model("ocr")
    return ctx.llm.model("vision") if method.llm else None


async def open_page_cache(
    ctx: DocumentContext, document: Document, options: PageOptions, *, kind: str, library: str
) -> CacheEntry:
    """The cache of pages that are processed one by one. `library` renders them."""
    method, limits = METHODS[options.method], ctx.documents
    renderings = options.all_renderings
    is_rendered = method.ocr or method.llm or renderings or options.figures
    has_other_engine = method.ocr and limits.ocr_engine != DEFAULT_ENGINE
    has_other_limit = is_rendered and limits.max_pixels != DEFAULT_MAX_PIXELS
    made_with = [package_version(library)]
    engines = [*made_with]
    if method.ocr:
        engine = open_engine(limits.ocr_engine, limits.ocr_data_directory)
        made_with.append(f"{engine.name} {engine.version} {OCR_PIPELINE_VERSION}")
        engines.append(f"{engine.name} {engine.version}")
    if model := require_model(ctx, options):
        engines.append(model)
    languages = _languages(ctx, options)
    expected = f"; expected languages: {languages}" if languages else ""
    await ctx.log(f"Method {options.method} with {', '.join(engines)}{expected}")
    key = {
        "images": [[one.prefix, one.max_side, one.quality] for one in renderings],
        "figures": options.figures,
        "text_form": options.text_form if options.text_form == "markdown_pages" else None,
        "mistral_ocr": options.mistral_ocr,
        "languages": languages,
        "password": options.password,
        "model": model,
        "about": context_for_model(ctx.parameters) if method.llm else None,
        "engine": limits.ocr_engine if has_other_engine else None,
        "max_pixels": limits.max_pixels if has_other_limit else None,
    }
    return await open_cache_entry(ctx, document, kind, options.method, key, made_with)


async def open_cache_entry(
    ctx: DocumentContext,
    document: Document,
    kind: str,
    method: str,
    options: Mapping[str, Any],
    made_with: Sequence[str],
) -> CacheEntry:
    """The cached pages of the document. `options` is all that changes them beside the document,
    the method and the versions in `made_with`; what is not set does not count."""
    key = {name: value for name, value in options.items() if value}
    version = ", ".join([f"secretary {__version__}", *made_with])
    return await ctx.entry(kind, document.sha256, method, options=key, version=version)


def open_page_store(ctx: DocumentContext, entry: CacheEntry) -> PageStore:
    return PageStore(str(entry.directory), str(ctx.directory), reusable_since(ctx))


@cache
def package_version(package: str) -> str:
    return f"{package} {importlib.metadata.version(package)}"


def _languages(ctx: DocumentContext, options: PageOptions) -> str | None:
    method = METHODS[options.method]
    return options.languages or ctx.documents.ocr_language if method.ocr or method.llm else None


def context_for_model(parameters: LanguageParameters) -> str | None:
    """What the client says about the document, for a vision model that reads it."""
    if not parameters.context:
        return None
    return json.dumps(parameters.context, ensure_ascii=False, sort_keys=True)[:MAX_MODEL_CONTEXT]


# Plan the pages ---------------------------------------------------------------------------------

#: Processes pages in a child process; returns those that need OCR or a vision model as well.
ProcessPages = Callable[[PageTask, Sequence[int]], list[PendingPage]]

#: Pages per call: text layers take a millisecond each, images longer, OCR and models longest.
NATIVE_BATCH, RENDERED_BATCH, OCR_BATCH = 64, 8, 1
#: Pages per request to an OCR endpoint: its response contains their images.
ENDPOINT_BATCH = 32
#: Opening the document takes longer than reading the text layer of fewer pages than this.
MIN_NATIVE_BATCH = 16


async def read_pages(
    ctx: DocumentContext,
    document: Document,
    options: PageOptions,
    entry: CacheEntry,
    *,
    path: str,
    inspect: Callable[[], DocumentInfo],
    process: ProcessPages,
) -> DocumentResults:
    """Read the requested pages of the file at `path`, which is the document or made from it.
    `inspect` returns what is known about the document as a whole, which is cached as well."""
    method, limits = METHODS[options.method], ctx.documents
    info = cast(DocumentInfo, entry.metadata)
    if entry.metadata is None:
        info = await ctx.run(inspect, wall_time=limits.page_timeout)
        entry.save_metadata(info)
    page_numbers = select_pages(options.first_page, options.last_page, info["page_count"])
    check_page_count(ctx, len(page_numbers))
    mended = "; the file is damaged and was repaired" if info.get("is_mended") else ""
    await ctx.log(
        f"The {document.file_type} file has {counted(info['page_count'], 'page')};"
        f" reading pages {page_numbers[0]} to {page_numbers[-1]}{mended}"
    )
    task = PageTask(
        path=path,
        password=options.password,
        method=method,
        method_name=options.method,
        renderings=options.all_renderings,
        with_figures=options.figures,
        languages=_languages(ctx, options),
        ocr_engine=limits.ocr_engine,
        ocr_data_directory=limits.ocr_data_directory,
        max_pixels=limits.max_pixels,
        page_store=open_page_store(ctx, entry),
        scratch=str(ctx.scratch),
    )
    return await assemble_results(
        ctx,
        document,
        entry,
        page_numbers,
        metadata={**info, "extraction_method": options.method},
        processed=await PageProcessor(ctx, task, process, entry, page_numbers).run(),
        archives=page_archives(options),
        text_form=options.text_form,
        raw=RawDocument(
            model=require_model(ctx, options) or f"secretary-{__version__}",
            document_bytes=document.source.path.stat().st_size,
            pages_count=len(page_numbers),
        )
        if options.mistral_ocr
        else None,
    )


def page_archives(options: PageOptions) -> dict[str, tuple[str, ...]]:
    """The archives of page images, and the prefixes of their members."""
    prefixes = tuple(rendering.prefix for rendering in options.all_renderings)
    if options.mistral_ocr:
        return {PAGES_ARCHIVE: prefixes}
    archives = {IMAGES: prefixes} if options.renderings else {}
    return (
        {**archives, PREVIEWS: (PREVIEW.prefix,)} if METHODS[options.method].preview else archives
    )


def select_pages(first: int | None, last: int | None, page_count: int) -> range:
    first, last = first or 1, min(last or page_count, page_count)
    if first > last:
        pages = "1 page" if page_count == 1 else f"{page_count} pages"
        raise errors.InvalidParameters(f"page_start: the document has {pages}")
    return range(first, last + 1)


def check_page_count(ctx: DocumentContext, count: int) -> None:
    limit = ctx.documents.max_pages
    if count > limit:
        raise errors.FileTooLarge(
            f"{count:,} pages were requested; a job can read at most {limit:,}",
            pages=count,
            limit=limit,
        )


# Process what is missing ------------------------------------------------------------------------


@dataclass(slots=True)
class PageProcessor:
    """Processes the pages of one document: cached ones are reused, the rest run in parallel."""

    ctx: DocumentContext
    task: PageTask
    process: ProcessPages
    entry: CacheEntry
    page_numbers: range
    done: int = 0

    async def run(self) -> bool:
        """Return whether any page had to be processed."""
        task, page_store, page_numbers = self.task, self.task.page_store, self.page_numbers
        total = len(page_numbers)
        if not page_store.made_after and is_assembled(page_store, page_numbers):
            await self.ctx.log(f"Cache: reusing the assembled document of {counted(total, 'page')}")
            await self._advance(total)
            return False
        cached = await asyncio.to_thread(self._cached)
        missing = [number for number in page_numbers if number not in cached]
        await self.ctx.log(f"Cache: reusing {total - len(missing):,} of {counted(total, 'page')}")
        await self._advance(len(page_numbers) - len(missing))
        if not missing:
            return False
        reused = [cached[number] for number in page_numbers if number in cached]
        await asyncio.to_thread(link_pages, page_store, reused)
        started = time.monotonic()
        unfinished = await self._process_in_parallel(task, missing)
        await self._log_pages(len(missing) - len(unfinished), task, started)
        if task.method.auto and unfinished:
            started = time.monotonic()
            reasons = {page.number: page.reason or "" for page in unfinished}
            ocr = replace(task, method=METHODS["ocr"], method_name="ocr", reasons=reasons)
            await self._process_in_parallel(ocr, sorted(reasons))
            await self._log_pages(len(unfinished), ocr, started)
        return True

    async def _log_pages(self, pages: int, task: PageTask, started: float) -> None:
        if not pages:
            return
        seconds = time.monotonic() - started
        each = f", {format_seconds(seconds / pages)} per page" if pages > 1 else ""
        read = f"Read {counted(pages, 'page')} by method {task.method_name}"
        await self.ctx.log(f"{read} in {format_seconds(seconds)}{each}")

    async def _advance(self, pages: int) -> None:
        self.done += pages
        done, total = self.done, len(self.page_numbers)
        message = f"{done} of {total} pages are done"
        await self.ctx.progress(
            f"processing_pages:{done}/{total}", 10 + int(80 * done / total), message
        )

    def _cached(self) -> dict[int, RecordRef]:
        page_store = self.task.page_store
        return page_store.find_pages(made_after=page_store.made_after)

    async def _process_in_parallel(
        self, task: PageTask, page_numbers: Sequence[int]
    ) -> list[PendingPage]:
        """Run as many calls at a time as there are processes, or as the model takes requests."""
        method, concurrency = task.method, self.ctx.processes
        max_batch = RENDERED_BATCH if task.renderings or task.with_figures else NATIVE_BATCH
        if method.llm or (method.ocr and not method.auto):
            max_batch = OCR_BATCH
        elif method.endpoint:  # each request has the whole document in it
            concurrency, max_batch = 1, ENDPOINT_BATCH
        if method.llm:
            concurrency = self.ctx.llm.options.models["vision"].provider.max_concurrent
        unfinished: list[PendingPage] = []

        async def process(batch: Sequence[int]) -> None:
            remaining = await self._process(task, batch)
            if method.llm:
                await self._read_with_model(task, remaining)
                remaining = []
            elif method.endpoint:
                await self._read_with_endpoint(task, remaining)
                remaining = []
            unfinished.extend(remaining)
            self.ctx.resources.add("pages", len(batch) - len(remaining))
            await self._advance(len(batch) - len(remaining))
            self.entry.touch()

        batches = split_into_batches(page_numbers, concurrency, max_batch)
        await map_limited(batches, concurrency, process)
        return unfinished

    async def _process(self, task: PageTask, page_numbers: Sequence[int]) -> list[PendingPage]:
        """After a crash or a timeout the pages are retried one by one, so that the error names the
        page and the others are kept."""
        limit = self.ctx.documents.page_timeout + timedelta(seconds=len(page_numbers) - 1)
        try:
            return await self.ctx.run(self.process, task, page_numbers, wall_time=limit)
        except (errors.ProcessDied, errors.ProcessingTimeout) as error:
            if len(page_numbers) == 1:
                details = {**error.details, "page": page_numbers[0]}
                raise type(error)(f"Page {page_numbers[0]}: {error.message}", **details) from None
            pages = f"Pages {page_numbers[0]} to {page_numbers[-1]}"
            await self.ctx.log(f"{pages}: {error.message} Retrying one by one.", "warning")
        unfinished = []
        finished = self._cached()
        for number in page_numbers:
            if number not in finished:
                unfinished += await self._process(task, [number])
        return unfinished

    async def _read_with_model(self, task: PageTask, pages: Sequence[PendingPage]) -> None:
        for page in pages:
            assert page.model_image is not None
            image = inside(Path(page.model_image), self.ctx.scratch)
            markdown = await self.ctx.llm.read_picture(
                await asyncio.to_thread(image.read_bytes),
                language=task.languages,
                context=context_for_model(self.ctx.parameters),
            )
            await asyncio.to_thread(image.unlink)
            readings = {"llm": PageReading(text=markdown, markdown=markdown), **page.readings}
            await asyncio.to_thread(save_page, task, page.number, readings, page.images)

    async def _read_with_endpoint(self, task: PageTask, pages: Sequence[PendingPage]) -> None:
        content = await asyncio.to_thread(Path(task.path).read_bytes)
        indexes = [page.number - 1 for page in pages]
        answers = await self.ctx.llm.ocr(content, pages=indexes, with_images=task.with_figures)
        by_index = {answer.index: answer for answer in answers}
        for page in pages:
            if page.number - 1 not in by_index:
                raise errors.UpstreamFailed(f"The OCR endpoint left out page {page.number}")
            await asyncio.to_thread(save_answer, task, page, by_index[page.number - 1])


def split_into_batches(
    page_numbers: Sequence[int], concurrency: int, max_batch: int
) -> Iterator[Sequence[int]]:
    """Large batches first, then smaller ones, so that all processes finish at the same time. Not
    too small either: the document is opened for each."""
    start, min_batch = 0, min(max_batch, MIN_NATIVE_BATCH)
    while start < len(page_numbers):
        remaining = len(page_numbers) - start
        share = math.ceil(remaining / (2 * concurrency)) if concurrency > 1 else max_batch
        size = min(max_batch, max(share, min_batch))
        if remaining - size <= min_batch // 2:
            size = min(remaining, 2 * max_batch)
        yield page_numbers[start : start + size]
        start += size


# Assemble the results ---------------------------------------------------------------------------

IMAGES, PREVIEWS = "images.zip", "previews.zip"
NO_TEXT = "No text was found in the document"


async def assemble_results(
    ctx: DocumentContext,
    document: Document,
    entry: CacheEntry,
    page_numbers: range,
    *,
    metadata: Mapping[str, Any],
    processed: bool,
    archives: Mapping[str, tuple[str, ...]],
    text_form: TextForm,
    raw: RawDocument | None = None,
    is_print: bool = True,
    warnings: Sequence[JobWarning] = (),
) -> DocumentResults:
    """Join the pages, and apply the template if the job names one. A document without any text is
    an error, unless it is a picture or images of its pages were requested."""
    await ctx.progress("postprocessing", 90, "Assembling the pages")
    page_store = open_page_store(ctx, entry)
    assembly = Assembly(
        page_store=page_store,
        numbers=page_numbers,
        archives=archives,
        text_form=text_form,
        raw=raw,
        is_print=is_print,
        made_after=page_store.made_after,
        may_reuse=not processed and not page_store.made_after,
    )
    assembled = await ctx.run(assemble, assembly)
    has_text = assembled.has_text or assembled.has_text_layer
    if metadata.get("extraction_method") == "native" and not has_text:
        raise errors.UnsupportedFile(
            "The PDF has no text layer: it may be a scan. Use the method 'auto' or 'ocr'."
        )
    made = {name: name for name in assembled.files}
    if not assembled.has_text:
        has_images = any(name.endswith(".zip") for name in made)
        if not has_images and document.file_type not in IMAGE_TYPES:
            raise errors.UnsupportedFile(NO_TEXT)
        if metadata.get("extraction_method") != "preview":
            warnings = [*warnings, JobWarning(code="NO_TEXT", message=NO_TEXT)]
    source = document.source
    metadata = {"file_name": source.name, "file_size": source.path.stat().st_size, **metadata}
    texts, pictures = counted(len(assembled.page_texts), "page"), len(assembled.pictures)
    archives_made = [name for name in (IMAGES, PREVIEWS) if name in made]
    await ctx.log(
        f"Output: text of {texts}, {counted(pictures, 'picture')}"
        + "".join(f", {name}" for name in archives_made)
    )
    results = DocumentResults(
        markdown_file=MARKDOWN_FILE if assembled.has_text else None,
        extracted_text_file=TEXT_FILE if assembled.has_text else None,
        page_texts=assembled.page_texts,
        page_markdown_file=made.get(PAGES_FILE),
        assets=list(dict.fromkeys(assembled.pictures)),
        asset_dir=entry.name,
        target_dir=entry.name,
        archive_filename=f"{PurePath(metadata['file_name']).stem or 'document'}_files.zip",
        # The pictures in an office file are not pages.
        pages_archive=made.get(PAGES_ARCHIVE, made.get(IMAGES, made.get(PREVIEWS)))
        if is_print
        else None,
        images_archive=made.get(IMAGES),
        previews_archive=made.get(PREVIEWS),
        mistral_ocr_raw_file=made.get(RAW_FILE),
        mistral_ocr_raw_metadata=raw.metadata() if raw else None,
        mistral_ocr_images_archive=made.get(FIGURES_ARCHIVE),
        context=ctx.parameters.context,
        is_from_cache=is_from_cache(ctx, processed=processed),
        metadata=metadata,
        warnings=list(warnings),
        llm_info=ctx.llm.info(),
        more_in=RESULTS_FILE,
    )
    if not ctx.parameters.wants_template:
        return results
    return await apply_requested_template(ctx, results, MARKDOWN_FILE)
