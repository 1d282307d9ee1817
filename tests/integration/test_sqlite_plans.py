"""Every hot query of the SQLite store is a walk down an index, however many jobs are stored."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import pytest

from secretary.job import Batch, Job, JobStatus, utc_now
from secretary.store import JobQuery, Wanted, open_store
from secretary.store.policy import Turns
from secretary.store.sqlite import changes, queue, reading

from ..contract.given import LEASE, worker

JOBS = 3000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plans") / "jobs.db"


@pytest.fixture(scope="module", autouse=True)
def filled(path: Path) -> Iterator[None]:
    """A store with a backlog, and with statistics that could tempt the planner."""

    async def fill() -> None:
        store = open_store(f"sqlite://{path}")
        await store.open()
        await store.enlist(worker(), LEASE)
        batch = Batch()
        jobs = [
            Job(job_type=f"t{n % 3}", priority=n % 2, user_id=f"u{n % 7}", batch_id=batch.batch_id)
            for n in range(JOBS)
        ]
        await store.add(jobs, batch=batch)
        await store.claim("worker-1", Wanted(slots=5))
        await store.close()

    asyncio.run(fill())
    db = apsw.Connection(str(path))
    db.execute("ANALYZE")
    db.close()
    yield


@pytest.fixture
def db(path: Path) -> Iterator[apsw.Connection]:
    db = apsw.Connection(str(path))
    yield db
    db.close()


def plan(db: apsw.Connection, sql: str, bindings: tuple[Any, ...]) -> str:
    return " | ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", bindings))


def statements_of(db: apsw.Connection, work: Any) -> list[tuple[str, Any]]:
    """Every statement that `work` runs, with its bindings."""
    seen: list[tuple[str, Any]] = []

    def note(_: apsw.Cursor, sql: str, bindings: Any) -> bool:
        seen.append((sql, bindings or ()))
        return True

    db.exec_trace = note
    db.execute("BEGIN")
    try:
        work()
    finally:
        db.exec_trace = None
        db.execute("ROLLBACK")
    return seen


def plans_of(db: apsw.Connection, work: Any) -> list[str]:
    return [
        plan(db, sql, bindings)
        for sql, bindings in statements_of(db, work)
        if sql.split()[0] in {"SELECT", "UPDATE", "DELETE", "WITH"}
    ]


def rows_walked(db: apsw.Connection, work: Any) -> int:
    """How many steps SQLite's machine makes, in thousands: what a plan costs in the end."""
    ticks = 0

    def tick() -> bool:
        nonlocal ticks
        ticks += 1
        return False

    db.set_progress_handler(tick, 1000)
    db.execute("BEGIN")
    try:
        work()
    finally:
        db.set_progress_handler(None)
        db.execute("ROLLBACK")
    return ticks


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted(slots=3),
        Wanted(slots=3, max_per_type={"t0": 1}),
        Wanted(slots=3, max_per_user=1),
        Wanted(slots=3, job_types={"t1"}),
    ],
    ids=["plain", "limit per type", "limit per user", "by type"],
)
def test_a_claim_never_scans(db: apsw.Connection, wanted: Wanted) -> None:
    def work() -> None:
        assert queue.claim(db, Turns(), "worker-1", wanted)

    plans = plans_of(db, work)
    assert len(plans) >= 6
    for text in plans:
        assert "TEMP B-TREE" not in text, text
        for step in text.split(" | "):
            assert not step.startswith("SCAN jobs") or "jobs_running" in step, step
    assert rows_walked(db, work) < 20


def test_since_when_jobs_wait_is_told_by_the_heads_of_the_lines(db: apsw.Connection) -> None:
    def work() -> None:
        assert set(queue.waiting_since(db)) == {"t0", "t1", "t2"}

    for text in plans_of(db, work):
        assert "TEMP B-TREE" not in text, text
    assert rows_walked(db, work) < 2


def test_completing_and_reporting_go_by_key(db: apsw.Connection) -> None:
    (job,) = [reading.find_jobs(db, JobQuery(status=frozenset({JobStatus.PROCESSING}))).items[0]]

    def work() -> None:
        queue.report(db, job, job.progress, [])
        answers = queue.complete(db, [queue.Completion(job, '{"a":1}', None)])
        assert answers == [None]

    for text in plans_of(db, work):
        assert "SCAN jobs" not in text and "SCAN contents" not in text, text


CURSOR = "1700000000000000.5"


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (JobQuery(), "jobs_newest"),
        (JobQuery(cursor=CURSOR), "jobs_newest"),
        (JobQuery(status=frozenset({JobStatus.FAILED})), "jobs_by_status"),
        (JobQuery(status=frozenset({JobStatus.FAILED}), cursor=CURSOR), "jobs_by_status"),
        (JobQuery(job_type="t1", cursor=CURSOR), "jobs_by_type"),
        (JobQuery(user_id="u1", cursor=CURSOR), "jobs_by_user"),
        (JobQuery(batch_id="b", cursor=CURSOR), "jobs_by_batch"),
        (JobQuery(error_code="X", cursor=CURSOR), "jobs_by_error"),
        (JobQuery(created_after=utc_now() - timedelta(days=1)), "jobs_newest"),
    ],
)
def test_a_list_page_walks_one_index_in_its_order(
    db: apsw.Connection, query: JobQuery, index: str
) -> None:
    text = plan(db, *reading.find_sql(query, limit=100))
    assert index in text
    assert "TEMP B-TREE" not in text


@pytest.mark.parametrize(
    "query",
    [
        JobQuery(visible_to="u1", cursor=CURSOR),
        JobQuery(status=frozenset({JobStatus.FAILED, JobStatus.PENDING}), cursor=CURSOR),
    ],
)
def test_a_merged_list_sorts_no_more_than_its_pages(db: apsw.Connection, query: JobQuery) -> None:
    text = plan(db, *reading.find_sql(query, limit=100))
    # What is sorted are the few rows that each walk hands over, never what it walks.
    for step, following in pairwise(text.split(" | ")):
        assert not (following.startswith("USE TEMP") and "subquery" not in step), text
    assert rows_walked(db, lambda: reading.find_seqs(db, query)) < 20


def test_changes_are_read_by_walks_down_the_index(db: apsw.Connection) -> None:
    text = plan(db, changes.CHANGES, (5, 7, 100))
    assert text.count("jobs_changed") == 2
    assert "jobs_changed (revision=? AND rowid>?)" in text
    assert "SCAN jobs" not in text and "SCAN traces" not in text

    def work() -> None:
        position: str | None = "0"
        for _ in range(JOBS // 100):
            found = changes.changes(db, position, limit=100)
            position = found.position
            assert found.items

    assert rows_walked(db, work) < 200


def test_the_next_revision_is_found_without_a_walk(db: apsw.Connection) -> None:
    text = plan(db, f"SELECT {changes.NEXT_REVISION}", ())
    # To search without a condition is to look at the last entry.
    assert text.count("SEARCH jobs USING COVERING INDEX jobs_changed") == 1
    assert text.count("SEARCH traces") == 1
    assert rows_walked(db, lambda: db.execute(f"SELECT {changes.NEXT_REVISION}").get) == 0


def test_one_job_is_found_by_its_id(db: apsw.Connection) -> None:
    text = plan(db, *reading.find_sql(JobQuery(job_id="job-1"), limit=2))
    assert "(job_id=?)" in text
