"""What all jobs on documents do alike: find the file and its place in the cache, read, conclude."""

import asyncio
import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..cache import Entry, digest_of
from ..errors import FileCorrupt, FileTooLarge, UnsupportedFile
from ..file_kinds import kind_of
from ..handler import JobContext
from ..processors.assembly import MARKDOWN_FILE, Assembly, assemble
from ..processors.shelf import Shelf
from ..sources import SourceFile
from ..version import __version__
from .document_results import document_results
from .freshness import is_from_cache, made_after
from .parameters import LanguageParameters
from .templating import wanted_template, with_template

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
    kind = await asyncio.to_thread(kind_of, source.path)
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
) -> tuple[Entry, Shelf]:
    """Where the pages of the document are, or will be. Options that are not set do not count."""
    told = {name: value for name, value in options.items() if value}
    version = ", ".join([f"secretary {__version__}", *made_with])
    entry = await ctx.entry(kind, document.sha256, method, options=told, version=version)
    return entry, Shelf(str(entry.directory), str(ctx.directory), made_after(ctx))


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
    entry: Entry,
    shelf: Shelf,
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
        shelf=shelf,
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
