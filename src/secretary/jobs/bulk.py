"""Applies one action to many jobs: to a list of ids, or to all that match a query in chunks."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ..core.callables import map_limited
from ..core.errors import SecretaryError, StoreUnavailable
from ..core.job import FINAL_STATUSES, Job, JobStatus
from ..store import JobQuery
from .service import JobService

#: Jobs changed per call, so that a call takes about a second.
CHUNK_SIZE = 200
#: Jobs examined per call that only counts, and per query.
MAX_COUNTED, COUNT_PAGE_SIZE = 10_000, 1000
#: Concurrent changes; a store writes them together.
MAX_CONCURRENT = 20


class BulkAction(StrEnum):
    CANCEL = "cancel"
    RESTART = "restart"
    ARCHIVE = "archive"
    DELETE = "delete"


#: The states in which a job allows an action; `archive` is possible in all.
ALLOWED_STATUSES = {
    BulkAction.CANCEL: frozenset(JobStatus) - FINAL_STATUSES,
    BulkAction.RESTART: FINAL_STATUSES,
    BulkAction.DELETE: FINAL_STATUSES,
}


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What one call did, or would do; `next_cursor` continues with the next chunk."""

    count: int
    #: By the id of the job.
    errors: dict[str, SecretaryError]
    next_cursor: str | None = None


async def count_matching(
    job_service: JobService, action: BulkAction, query: JobQuery, *, user: str | None = None
) -> BulkResult:
    """Count the jobs an action would change, examining at most `MAX_COUNTED` per call."""
    narrowed = _narrowed(action, query, COUNT_PAGE_SIZE)
    count = examined = 0
    while narrowed is not None and examined < MAX_COUNTED:
        page = await job_service.jobs(narrowed, user=user)
        examined += len(page.items)
        count += sum(_is_possible(action, job, user) for job in page.items)
        cursor = page.next_cursor
        narrowed = narrowed.model_copy(update={"cursor": cursor}) if cursor else None
    return BulkResult(count, {}, narrowed.cursor if narrowed else None)


async def apply_to_matching(
    job_service: JobService, action: BulkAction, query: JobQuery, *, user: str | None = None
) -> BulkResult:
    """Apply the action to the next chunk; following the cursors visits each job once."""
    narrowed = _narrowed(action, query, CHUNK_SIZE)
    if narrowed is None:
        return BulkResult(0, {})
    page = await job_service.jobs(narrowed, user=user)
    job_ids = [job.job_id for job in page.items if _is_possible(action, job, user)]
    result = await apply_to_ids(job_service, action, job_ids, user=user)
    return BulkResult(result.count, result.errors, page.next_cursor)


async def count_by_ids(
    job_service: JobService, action: BulkAction, job_ids: Iterable[str], *, user: str | None = None
) -> BulkResult:
    count = 0
    for job_id in dict.fromkeys(job_ids):
        page = await job_service.jobs(JobQuery(job_id=job_id, limit=1), user=user)
        count += sum(_is_possible(action, job, user) for job in page.items)
    return BulkResult(count, {})


async def apply_to_ids(
    job_service: JobService, action: BulkAction, job_ids: Iterable[str], *, user: str | None = None
) -> BulkResult:
    """Once the store fails, the remaining jobs are not tried; their error is that of the store. If
    no job was changed at all, the error of the store is raised."""
    # Actions are named after the methods of the service.
    apply: Callable[..., Awaitable[Any]] = getattr(job_service, action)
    store_error: StoreUnavailable | None = None

    async def change(job_id: str) -> SecretaryError | None:
        nonlocal store_error
        if store_error is not None:
            return store_error
        try:
            await apply(job_id, user=user)
        except SecretaryError as error:
            store_error = error if isinstance(error, StoreUnavailable) else store_error
            return error
        return None

    unique = list(dict.fromkeys(job_ids))
    outcomes = zip(unique, await map_limited(unique, MAX_CONCURRENT, change), strict=True)
    errors = {job_id: error for job_id, error in outcomes if error is not None}
    if store_error is not None and len(errors) == len(unique):
        raise store_error
    return BulkResult(len(unique) - len(errors), errors)


def _narrowed(action: BulkAction, query: JobQuery, limit: int) -> JobQuery | None:
    """The query restricted to jobs whose state allows the action; None if there are none."""
    if action is BulkAction.ARCHIVE:
        update: dict[str, Any] = {"archived": False, "limit": limit}
        return None if query.archived else query.model_copy(update=update)
    status = ALLOWED_STATUSES[action] & (query.status or ALLOWED_STATUSES[action])
    return query.model_copy(update={"status": status, "limit": limit}) if status else None


def _is_possible(action: BulkAction, job: Job, user: str | None) -> bool:
    if action is BulkAction.ARCHIVE:
        return job.may_write(user) and not job.archived
    return job.may_write(user) and job.status in ALLOWED_STATUSES[action]
