"""A search with little time: pages are short, but nothing is missing in the end."""

from datetime import timedelta
from typing import Any

import pytest

from secretary.core.job import (
    AccessControl,
    Batch,
    Completed,
    Failed,
    Job,
    JobError,
    JobStatus,
    utc_now,
)
from secretary.store import JobQuery, Store

from .factories import claim

JOBS = 700
FAILED = frozenset({JobStatus.FAILED})
BEGAN = utc_now() - timedelta(hours=1)


async def fill(store: Store) -> str:
    """Jobs of several types, users and names, some of them finished, most archived."""
    batch = Batch()
    shared = AccessControl(visibility="private", read_access=("guest",))
    jobs = [
        Job(
            job_type=f"t{n % 3}",
            user_id=f"u{n % 5}" if n % 7 else None,
            job_name=f"Report {n}",
            batch_id=batch.batch_id,
            access_control=shared if n % 11 == 0 else AccessControl(),
            created_at=BEGAN + timedelta(seconds=n // 2),
        )
        for n in range(JOBS)
    ]
    await store.add(jobs, batch=batch)
    for n, job in enumerate(await claim(store, slots=90)):
        error = JobError(code="X" if n % 2 else "Y", message="x")
        await store.finish(job, Completed() if n % 3 else Failed(error))
    await store.archive(JobQuery(job_type="t1", limit=150))
    return batch.batch_id


async def walked(store: Store, query: JobQuery) -> tuple[list[str], int]:
    """All jobs of a query, page by page, and how many pages were cut short."""
    matches: list[str] = []
    short = 0
    while True:
        page = await store.find(query)
        matches += [job.job_id for job in page.items]
        if page.searched_to is not None:
            short += 1
            assert len(page.items) < query.limit and page.next_cursor is not None
            assert all(job.created_at >= page.searched_to for job in page.items)
        if page.next_cursor is None:
            return matches, short
        query = query.model_copy(update={"cursor": page.next_cursor})


TERMS: list[dict[str, Any]] = [
    {},
    {"archived": False},
    {"archived": True},
    {"status": FAILED},
    {"status": FAILED | {JobStatus.PENDING}, "job_type": "t2"},
    {"error_code": "X", "user_id": "u1"},
    {"error_code": "X", "job_type": "t1", "archived": False},
    {"user_id": "u3", "job_type": "t0"},
    {"text": "report 6"},
    {"text": "nothing of the kind"},
    {"text": "Report 1", "visible_to": "u2", "archived": False},
    {"visible_to": "guest"},
    {"visible_to": "u1", "user_id": "u1", "status": FAILED},
    {"visible_to": "u1", "job_type": "t2"},
    {"created_after": BEGAN + timedelta(minutes=1), "created_before": BEGAN + timedelta(minutes=5)},
]


async def test_nothing_is_missing_and_nothing_comes_twice(store: Store) -> None:
    batch_id = await fill(store)
    for terms in [*TERMS, {"batch_id": batch_id, "status": FAILED}]:
        query = JobQuery(limit=20, **terms)
        expected, _ = await walked(store, query)
        matches, _ = await walked(store, query.model_copy(update={"search_seconds": 0.0}))
        assert matches == expected, terms


async def test_a_search_without_time_says_how_far_it_came(store: Store) -> None:
    await fill(store)
    query = JobQuery(text="nothing of the kind", search_seconds=0.0)
    page = await store.find(query)
    assert page.items == []
    assert page.searched_to is not None
    matches, short = await walked(store, query)
    assert (matches, short) == ([], JOBS // 200)


async def test_with_enough_time_a_search_is_like_any_other(store: Store) -> None:
    await fill(store)
    page = await store.find(JobQuery(text="Report 69", search_seconds=60.0, limit=5))
    assert (len(page.items), page.searched_to) == (5, None)
    assert page.next_cursor is not None
    none = await store.find(JobQuery(text="nothing of the kind", search_seconds=60.0))
    assert (none.items, none.next_cursor, none.searched_to) == ([], None, None)


@pytest.mark.parametrize("cursor", ["nonsense", "1.2.3", ""])
async def test_a_cursor_that_no_list_gave_out_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(ValueError):
        await store.find(JobQuery(cursor=cursor, search_seconds=1.0))
