"""Whatever clients submit and search for: every store returns the same."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from secretary.core.job import AccessControl, Batch, Job, JobStatus
from secretary.store import BatchQuery, JobQuery, Store

from ..strategies import ANY_TEXT, NEW_BATCH, NEW_JOB

ALL = list(HealthCheck)


@settings(max_examples=25, suppress_health_check=ALL)
@given(jobs=st.lists(NEW_JOB, min_size=1, max_size=4), batch=NEW_BATCH)
async def test_what_is_added_comes_back(store: Store, jobs: list[Job], batch: Batch) -> None:
    batch = batch.model_copy(update={"batch_id": Batch().batch_id})
    jobs = [
        job.model_copy(update={"batch_id": batch.batch_id, "job_id": Job().job_id}) for job in jobs
    ]
    await store.add(jobs, batch=batch)
    for job in jobs:
        stored_job = await store.get(job.job_id)
        assert stored_job == job.model_copy(update={"updated_at": job.created_at})
    stored = await store.get_batch(batch.batch_id)
    assert stored.total_jobs == stored.counts[JobStatus.PENDING] == len(jobs)
    derived = {"counts": {}, "updated_at": batch.updated_at}
    assert stored.model_copy(update=derived) == batch.model_copy(update={"counts": {}})


BEGAN = datetime(2026, 1, 31, tzinfo=UTC)
TYPES = ("pdf", "audio", "a.b$c")
USERS = ("ann", "ben", "eve")
NAMES = ("Report 1", "a%b", "A_B", "50\\50", "x.*y", "é", "$ne", "")
#: Few distinct values, so that many jobs are equal: order is hard to keep where pages end.
LISTED = st.builds(
    Job,
    job_type=st.sampled_from(TYPES),
    job_name=st.none() | st.sampled_from(NAMES),
    user_id=st.none() | st.sampled_from(USERS),
    access_control=st.sampled_from(
        (AccessControl(), AccessControl(visibility="public"), AccessControl(read_access=("eve",)))
    ),
    created_at=st.integers(0, 2).map(lambda n: BEGAN + timedelta(microseconds=n)),
    priority=st.integers(-1, 1),
)
WANTED = st.fixed_dictionaries(
    {},
    optional={
        "job_type": st.sampled_from((*TYPES, "none")),
        "user_id": st.sampled_from(USERS),
        "archived": st.booleans(),
        "visible_to": st.sampled_from(USERS),
        "text": st.sampled_from(("a", "%", "_", "\\", ".*", "é", "$", "REPORT")),
        "status": st.sampled_from((frozenset({JobStatus.PENDING}), frozenset({JobStatus.FAILED}))),
        "created_after": st.just(BEGAN + timedelta(microseconds=1)),
        "created_before": st.just(BEGAN + timedelta(microseconds=2)),
    },
)
SEARCHES = st.lists(st.tuples(WANTED, st.integers(1, 5)), min_size=3, max_size=6)


@settings(max_examples=12, suppress_health_check=ALL)
@given(jobs=st.lists(LISTED, min_size=1, max_size=12), searches=SEARCHES)
async def test_pages_together_are_what_was_looked_for(
    store: Store, jobs: list[Job], searches: list[tuple[dict[str, Any], int]]
) -> None:
    await forget_all(store)
    jobs = [job.model_copy(update={"job_id": Job().job_id}) for job in jobs]
    for job in jobs:
        await store.add([job])
    archived = set(await store.archive(JobQuery(job_type="pdf", limit=3)))
    for wanted, limit in searches:
        job_ids = await walked(store, JobQuery(**wanted, limit=limit))
        assert len(job_ids) == len(set(job_ids)), "no duplicates"
        assert set(job_ids) == {
            job.job_id for job in jobs if fits(job, job.job_id in archived, wanted)
        }
        times = {job.job_id: job.created_at for job in jobs}
        assert all(times[one] >= times[next_] for one, next_ in pairwise(job_ids)), "newest first"


async def walked(store: Store, query: JobQuery) -> list[str]:
    job_ids: list[str] = []
    while True:
        page = await store.find(query)
        assert len(page.items) <= query.limit
        job_ids += [job.job_id for job in page.items]
        if page.next_cursor is None:
            return job_ids
        query = query.model_copy(update={"cursor": page.next_cursor})


def fits(job: Job, archived: bool, wanted: dict[str, Any]) -> bool:
    """What each search term means, in plain code."""
    text = wanted.get("text")
    return (
        wanted.get("job_type") in (None, job.job_type)
        and wanted.get("user_id") in (None, job.user_id)
        and wanted.get("archived") in (None, archived)
        and job.may_read(wanted.get("visible_to"))
        and (text is None or text.lower() in (job.job_name or "").lower())
        and job.status in wanted.get("status", JobStatus)
        and job.created_at > wanted.get("created_after", BEGAN - timedelta(days=1))
        and job.created_at < wanted.get("created_before", BEGAN + timedelta(days=1))
    )


async def forget_all(store: Store) -> None:
    while await store.cancel(JobQuery(limit=1000)):
        pass
    while await store.delete(JobQuery(limit=1000)):
        pass


@settings(max_examples=60, suppress_health_check=ALL)
@given(cursor=ANY_TEXT | st.from_regex(r"-?[0-9]{1,19}\.[0-9]{1,19}", fullmatch=True))
async def test_any_text_is_a_cursor_or_is_refused(store: Store, cursor: str) -> None:
    for find in (
        lambda: store.find(JobQuery(cursor=cursor)),
        lambda: store.find_batches(BatchQuery(cursor=cursor)),
    ):
        with suppress(ValueError):
            assert (await find()).items == []
