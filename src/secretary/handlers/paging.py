"""Takes a document through its pages: known ones from the cache, the others made in parallel."""

import asyncio
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cache import Entry
from ..errors import InvalidParameters, JobFailed, ProcessDied, ProcessingTimeout
from ..handler import JobContext
from ..lanes import in_lanes
from ..processors.assembly import is_assembled
from ..processors.methods import METHODS
from ..processors.records import Place
from ..processors.shelf import show_known

if TYPE_CHECKING:
    from ..processors.page_task import PageTask, Unfinished

MakePages = Callable[["PageTask", Sequence[int]], list["Unfinished"]]

#: Pages in one call of a process: many where a page takes a millisecond, one where it is read.
MANY, SOME, ONE = 64, 8, 1
#: Fewer than these are not worth a call of their own, where a page takes a millisecond.
FEW = 16
FIRST_PERCENT, LAST_PERCENT = 10, 90


@dataclass(frozen=True, slots=True, kw_only=True)
class Paging:
    """One document on its way through its pages."""

    ctx: JobContext[Any]
    task: "PageTask"
    make: MakePages
    entry: Entry
    #: Pages made before are not taken: the client wants them made anew.
    made_after: float = 0.0
    #: What a vision model is told about the document.
    about: str | None = None

    async def run(self, numbers: range) -> bool:
        """Have these pages on the shelf; false when all of them were there before."""
        shelf = self.task.shelf
        if not self.made_after and is_assembled(shelf, numbers):
            await _Progress(self.ctx, len(numbers), len(numbers)).tell()
            return False
        known = await asyncio.to_thread(self._places)
        missing = [number for number in numbers if number not in known]
        progress = _Progress(self.ctx, len(numbers), len(numbers) - len(missing))
        await progress.tell()
        if missing:
            there = [known[number] for number in numbers if number in known]
            await asyncio.to_thread(show_known, shelf, there)
            await self._make_all(missing, progress)
        return bool(missing)

    def _places(self) -> dict[int, Place]:
        return self.task.shelf.places(made_after=self.made_after)

    async def _make_all(self, numbers: Sequence[int], progress: "_Progress") -> None:
        task = self.task
        left = await self._in_parallel(task, numbers, progress)
        if task.method.choose and left:
            reasons = {page.number: page.reason or "" for page in left}
            reading = replace(task, method=METHODS["ocr"], method_name="ocr", reasons=reasons)
            await self._in_parallel(reading, sorted(reasons), progress)

    async def _in_parallel(
        self, task: "PageTask", numbers: Sequence[int], progress: "_Progress"
    ) -> list["Unfinished"]:
        """As many calls at once as there are processes, or as the model takes requests."""
        lanes = self.ctx.processes
        if task.method.llm:
            lanes = self.ctx.llm.options.models["vision"].provider.max_concurrent
        pieces = _pieces(numbers, lanes, _most(task))
        unfinished: list[Unfinished] = []

        async def make(piece: Sequence[int]) -> None:
            left = await self._make(task, piece)
            if task.method.llm:
                left = await self._ask_model(task, left)
            unfinished.extend(left)
            await progress.advance(len(piece) - len(left))
            self.entry.touch()

        await in_lanes(pieces, lanes, make)
        return unfinished

    async def _make(self, task: "PageTask", numbers: Sequence[int]) -> list["Unfinished"]:
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
        self, task: "PageTask", pages: Sequence["Unfinished"]
    ) -> list["Unfinished"]:
        from ..processors.page_task import Reading, finish

        for page in pages:
            assert page.picture is not None
            picture = Path(page.picture)
            jpeg = await asyncio.to_thread(picture.read_bytes)
            said = await self.ctx.llm.read_picture(
                jpeg, language=task.languages, context=self.about
            )
            await asyncio.to_thread(picture.unlink)
            readings = {"llm": Reading(text=said, markdown=said), **page.readings}
            await asyncio.to_thread(finish, task, page.number, readings, page.pictures)
        return []


def page_numbers(first: int | None, last: int | None, count: int) -> range:
    first, last = first or 1, min(last or count, count)
    if first > last:
        pages = "1 page" if count == 1 else f"{count} pages"
        raise InvalidParameters(f"page_start: the document has {pages}")
    return range(first, last + 1)


def _most(task: "PageTask") -> int:
    method = task.method
    if method.llm or (method.ocr and not method.choose):
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
