"""One wish for many jobs: for those that are named, or for all that fit a query, part by part."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ..core.errors import SecretaryError, StoreUnavailable
from ..core.job import FINAL_STATUSES, Job, JobStatus
from ..store import JobQuery
from .service import JobService

#: Changed in one call: so few that a call takes a second or so, whatever is done.
CHUNK_SIZE = 200
#: Looked at in one call that only counts.
MAX_COUNTED, COUNT_PAGE_SIZE = 10_000, 1000
#: Changes on their way at once; a store writes those together.
MAX_CONCURRENT = 20


class BulkAction(StrEnum):
    CANCEL = "cancel"
    RESTART = "restart"
    ARCHIVE = "archive"
    DELETE = "delete"


#: In which states a job must be; what is left out is possible in all.
ALLOWED_STATUSES = {
    BulkAction.CANCEL: frozenset(JobStatus) - FINAL_STATUSES,
    BulkAction.RESTART: FINAL_STATUSES,
    BulkAction.DELETE: FINAL_STATUSES,
}


@dataclass(frozen=True, slots=True)
class BulkError:
    job_id: str
    error: SecretaryError


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What one call did, or would do; `next_cursor` is for the call that goes on."""

    count: int
    refusals: list[BulkError]
    next_cursor: str | None = None


async def count_matching(
    job_service: JobService, wish: BulkAction, query: JobQuery, *, user: str | None = None
) -> BulkResult:
    """How many jobs a change would concern; no more than `COUNTED` are looked at in one call."""
    narrowed = _narrowed(wish, query)
    count = looked_at = 0
    while narrowed is not None and looked_at < MAX_COUNTED:
        page = await job_service.jobs(
            narrowed.model_copy(update={"limit": COUNT_PAGE_SIZE}), user=user
        )
        looked_at += len(page.items)
        count += sum(_is_possible(wish, job, user) for job in page.items)
        cursor = page.next_cursor
        narrowed = narrowed.model_copy(update={"cursor": cursor}) if cursor else None
    return BulkResult(count, [], narrowed.cursor if narrowed else None)


async def apply_to_matching(
    job_service: JobService, wish: BulkAction, query: JobQuery, *, user: str | None = None
) -> BulkResult:
    """Change the first jobs that fit; each job is met once on the way from cursor to cursor."""
    narrowed = _narrowed(wish, query)
    if narrowed is None:
        return BulkResult(0, [])
    page = await job_service.jobs(narrowed.model_copy(update={"limit": CHUNK_SIZE}), user=user)
    concerned = [job.job_id for job in page.items if _is_possible(wish, job, user)]
    done = await apply_to_ids(job_service, wish, concerned, user=user)
    return BulkResult(done.count, done.refusals, page.next_cursor)


async def count_by_ids(
    job_service: JobService, wish: BulkAction, job_ids: Iterable[str], *, user: str | None = None
) -> BulkResult:
    count = 0
    for job_id in dict.fromkeys(job_ids):
        found = await job_service.jobs(JobQuery(job_id=job_id, limit=1), user=user)
        count += sum(_is_possible(wish, job, user) for job in found.items)
    return BulkResult(count, [])


async def apply_to_ids(
    job_service: JobService, wish: BulkAction, job_ids: Iterable[str], *, user: str | None = None
) -> BulkResult:
    change = _changes(job_service)[wish]
    turn = asyncio.Semaphore(MAX_CONCURRENT)

    async def one(job_id: str) -> BulkError | None:
        async with turn:
            try:
                await change(job_id, user=user)
            except StoreUnavailable:
                raise
            except SecretaryError as error:
                return BulkError(job_id, error)
        return None

    told = await asyncio.gather(*(one(job_id) for job_id in dict.fromkeys(job_ids)))
    refusals = [refusal for refusal in told if refusal is not None]
    return BulkResult(len(told) - len(refusals), refusals)


def _changes(job_service: JobService) -> dict[BulkAction, Callable[..., Awaitable[Any]]]:
    return {
        BulkAction.CANCEL: job_service.cancel,
        BulkAction.RESTART: job_service.restart,
        BulkAction.ARCHIVE: job_service.archive,
        BulkAction.DELETE: job_service.delete,
    }


def _narrowed(wish: BulkAction, query: JobQuery) -> JobQuery | None:
    """The query without jobs that are in no state for it; None: then nothing is left."""
    if wish is BulkAction.ARCHIVE:
        return None if query.archived else query.model_copy(update={"archived": False})
    status = ALLOWED_STATUSES[wish] & (query.status or ALLOWED_STATUSES[wish])
    return query.model_copy(update={"status": status}) if status else None


def _is_possible(wish: BulkAction, job: Job, user: str | None) -> bool:
    if not job.may_write(user):
        return False
    return not job.archived if wish is BulkAction.ARCHIVE else job.status in ALLOWED_STATUSES[wish]
