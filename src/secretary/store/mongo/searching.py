"""Looks for jobs for a limited time: stretch by stretch down the index that narrows most."""

import asyncio
from collections.abc import Mapping
from typing import Any

from ...job import Job
from .. import JobQuery, Page
from ..stretches import Stretches
from .reading import indexes_for, job_filter, listed_jobs, without_details
from .rows import moment
from .schema import Database, Document

#: Indexes are compared by how far back so many of their entries go.
COMPARED = 1_000

#: What stands in each index beside its order.
IN_INDEX = {
    "by_batch": "batch_id",
    "by_error": "error.code",
    "by_user": "user_id",
    "by_reader": "readers",
    "by_type": "job_type",
    "archived": "archived",
}


async def search_jobs(db: Database, query: JobQuery, seconds: float) -> Page[Job]:
    """Like `reading.find_jobs`, but for so long only."""
    stretches = Stretches(seconds)
    wanted = job_filter(query)
    bounds: Document = wanted.pop("listed_at", {})
    index = await _best(db, query, wanted, bounds)
    found: list[Document] = []
    while True:
        end = await _end_of_stretch(db, index, wanted, bounds, stretches.length)
        limit = query.limit + 1 - len(found)
        found += await _matches(db, query, index, wanted | _listed(bounds, end), limit)
        if len(found) > query.limit:
            page = found[: query.limit]
            return Page(await listed_jobs(db, query, page), page[-1]["listed_at"])
        if end is None:
            return Page(await listed_jobs(db, query, found))
        bounds = bounds | {"$lt": end}
        if not stretches.may_go_on():
            reached = moment(end.rpartition("-")[0]) if len(found) < query.limit else None
            return Page(await listed_jobs(db, query, found), end, searched_to=reached)


async def _best(db: Database, query: JobQuery, wanted: Document, bounds: Document) -> str:
    choices = indexes_for(query)
    if len(choices) == 1:
        return choices[0]
    ends = await asyncio.gather(
        *(_end_of_stretch(db, index, wanted, bounds, COMPARED) for index in choices)
    )
    return min(zip(ends, choices, strict=True), key=lambda pair: pair[0] or "")[1]


async def _end_of_stretch(
    db: Database, index: str, wanted: Document, bounds: Document, length: int
) -> str | None:
    """How far so many entries of the index go; None: to the end of the list."""
    names = {"status", IN_INDEX.get(index)}
    passed = {name: term for name, term in wanted.items() if name in names}
    entry = await db.jobs.find_one(
        passed | _listed(bounds, None),
        {"_id": 0, "listed_at": 1},
        sort=[("listed_at", -1)],
        skip=length - 1,
        hint=index,
    )
    return entry["listed_at"] if entry else None


async def _matches(
    db: Database, query: JobQuery, index: str, terms: Mapping[str, Any], limit: int
) -> list[Document]:
    return await db.jobs.find(
        terms, without_details(query), sort=[("listed_at", -1)], limit=limit, hint=index
    ).to_list()


def _listed(bounds: Document, end: str | None) -> Document:
    """Down to `end`, which is itself still in the stretch."""
    if end is not None:
        bounds = bounds | {"$gte": end}
    return {"listed_at": bounds} if bounds else {}
