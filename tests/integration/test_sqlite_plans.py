"""Every hot query of the SQLite store uses an index, however many jobs are stored."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import pytest

from secretary.core.job import Batch, Failed, Job, JobError, JobStatus, Webhook, utc_now
from secretary.store import CallbackKey, Capacity, JobQuery, open_store
from secretary.store.claims import FairScheduler
from secretary.store.outbox import EventCapacity
from secretary.store.sqlite import claims as claim
from secretary.store.sqlite import claims as ending
from secretary.store.sqlite import claims as report
from secretary.store.sqlite import jobs as line
from secretary.store.sqlite import outbox as events
from secretary.store.sqlite import queries as changes
from secretary.store.sqlite import queries as reading
from secretary.store.sqlite import queries as searching
from secretary.store.sqlite.schema import NEXT_REVISION

from ..contract.factories import LEASE, event_capacity, worker

JOBS = 3000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plans") / "jobs.db"


@pytest.fixture(scope="module", autouse=True)
def filled(path: Path) -> Iterator[None]:
    """A store with a backlog, and with statistics that could mislead the planner."""

    async def fill() -> None:
        store = open_store(f"sqlite://{path}")
        await store.open()
        await store.register_worker(worker(), LEASE)
        batch = Batch()
        jobs = [
            Job(job_type=f"t{n % 3}", priority=n % 2, user_id=f"u{n % 7}", batch_id=batch.batch_id)
            for n in range(JOBS)
        ]
        await store.add(jobs, batch=batch)
        await store.claim("worker-1", Capacity(slots=5))
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
    plans = [
        plan(db, sql, bindings)
        for sql, bindings in statements_of(db, work)
        if sql.split()[0] in {"SELECT", "UPDATE", "DELETE", "WITH"}
    ]
    assert plans, "no statement was run"
    return plans


def rows_walked(db: apsw.Connection, work: Any) -> int:
    """How many steps SQLite's virtual machine executes, in thousands: the actual cost of a plan."""
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
        Capacity(slots=3),
        Capacity(slots=3, max_per_type={"t0": 1}),
        Capacity(slots=3, max_per_user=1),
        Capacity(slots=3, job_types={"t1"}),
    ],
    ids=["plain", "limit per type", "limit per user", "by type"],
)
def test_a_claim_never_scans(db: apsw.Connection, wanted: Capacity) -> None:
    def work() -> None:
        assert claim.claim(db, FairScheduler(), "worker-1", wanted)

    plans = plans_of(db, work)
    assert len(plans) >= 6
    for text in plans:
        assert "TEMP B-TREE" not in text, text
        for step in text.split(" | "):
            assert not step.startswith("SCAN jobs") or "jobs_running" in step, step
    assert rows_walked(db, work) < 20


def test_the_oldest_wait_is_read_from_the_heads_of_the_queues(db: apsw.Connection) -> None:
    def work() -> None:
        assert set(line.waiting_since(db)) == {"t0", "t1", "t2"}

    for text in plans_of(db, work):
        assert "TEMP B-TREE" not in text, text
    assert rows_walked(db, work) < 2


def test_completing_and_reporting_go_by_key(db: apsw.Connection) -> None:
    (job,) = [reading.find_jobs(db, JobQuery(status=frozenset({JobStatus.PROCESSING}))).items[0]]

    def work() -> None:
        report.report(db, job, job.progress, [])
        answers = ending.complete(db, [ending.Completion(job, '{"a":1}', None)])
        assert answers == [None]

    for text in plans_of(db, work):
        assert "SCAN jobs" not in text and "SCAN contents" not in text, text


@pytest.mark.parametrize(
    "terms",
    [
        {"archived": False},
        {"user_id": "u1", "archived": False},
        {"job_type": "t1", "user_id": "u1"},
    ],
    ids=str,
)
def test_a_search_goes_in_steps(db: apsw.Connection, terms: dict[str, Any]) -> None:
    """With 3,000 jobs in steps of 200, a page that is filled by the first step reads no further."""
    query = JobQuery(limit=20, search_seconds=5.0, **terms)

    def work() -> None:
        page = searching.find_jobs(db, query)
        assert len(page.items) == 20 and page.next_cursor is not None

    for text in plans_of(db, work):
        assert "SCAN jobs" not in text or "INDEX" in text, text
    assert rows_walked(db, work) < 15


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
    # Only the few rows that each index scan returns are sorted, never those it reads.
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
            new_changes = changes.changes(db, position, limit=100)
            position = new_changes.position
            assert new_changes.items

    assert rows_walked(db, work) < 200


def test_the_next_revision_is_found_without_a_walk(db: apsw.Connection) -> None:
    text = plan(db, f"SELECT {NEXT_REVISION}", ())
    # A search without a condition reads the last entry.
    assert text.count("SEARCH jobs USING COVERING INDEX jobs_changed") == 1
    assert text.count("SEARCH traces") == 1
    assert rows_walked(db, lambda: db.execute(f"SELECT {NEXT_REVISION}").get) == 0


def test_one_job_is_found_by_its_id(db: apsw.Connection) -> None:
    text = plan(db, *reading.find_sql(JobQuery(job_id="job-1"), limit=2))
    assert "(job_id=?)" in text


DUE = 10_000
BIG = "https://big.example"


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    path = tmp_path_factory.mktemp("outbox") / "jobs.db"

    async def fill() -> None:
        store = open_store(f"sqlite://{path}")
        await store.open()
        for size, host in ((DUE, "big"), (5, "small"), (5, "tiny")):
            batch = Batch()
            hook = Webhook(url=f"https://{host}.example/hook")
            jobs = [Job(batch_id=batch.batch_id, webhook=hook) for _ in range(size)]
            await store.add(jobs, batch=batch)
        await store.close()

    asyncio.run(fill())
    db = apsw.Connection(str(path))
    db.execute("UPDATE outbox SET due_at = 1")
    db.execute("ANALYZE")
    yield db
    db.close()


class TestWebhooks:
    """With 10,000 events due for one endpoint, and a few for others."""

    def wanted(self, **busy: int) -> EventCapacity:
        used = {f"https://{host}.example/hook#": number for host, number in busy.items()}
        return event_capacity(limit=64, per_endpoint=8, in_flight=used, lease=LEASE)

    @pytest.mark.parametrize("busy", [{}, {"big": 8}, {"big": 7, "small": 8}], ids=str)
    def test_looking_for_events_touches_no_more_than_it_gives(
        self, crowded: apsw.Connection, busy: dict[str, int]
    ) -> None:
        def work() -> None:
            chosen = events.choose(crowded, self.wanted(**busy))
            assert chosen
            events.claim(crowded, chosen, self.wanted(**busy))

        for text in plans_of(crowded, work):
            assert "SCAN" not in text.replace("SCAN CONSTANT ROW", ""), text
            assert "TEMP B-TREE" not in text, text
        assert rows_walked(crowded, work) < 5

    def test_when_nothing_can_be_taken_it_takes_a_few_steps(self, crowded: apsw.Connection) -> None:
        wanted = self.wanted(big=8, small=8, tiny=8)
        assert rows_walked(crowded, lambda: events.choose(crowded, wanted)) == 0

    def test_an_endpoint_is_postponed_by_its_index(self, crowded: apsw.Connection) -> None:
        work = lambda: events.postpone(crowded, BIG, utc_now(), final=True)  # noqa: E731
        for text in plans_of(crowded, work):
            assert "outbox_of_endpoint" in text and "SCAN" not in text, text


def test_a_repeated_submission_is_found_by_its_key(db: apsw.Connection) -> None:
    key = CallbackKey("one", "a request")

    def work() -> None:
        for token in "ab":
            job = Job(webhook=Webhook(url=BIG, token=token))
            line.add(db, [job], callback=key)
            line.add(db, [Job(webhook=job.webhook)], callback=CallbackKey("one", token))
        assert events.reporting_job(db, "job-0") is None

    for text in plans_of(db, work):
        assert "SCAN callbacks" not in text and "SCAN contents" not in text, text
        assert "SCAN jobs" not in text, text


def test_a_job_without_a_webhook_costs_no_statement_for_webhooks(db: apsw.Connection) -> None:
    def work() -> None:
        line.enqueue(db, [Job(job_type="t0")], paused=False)
        done, failed = claim.claim(db, FairScheduler(), "worker-1", Capacity(slots=2))
        report.report(db, done, done.progress, [])
        ending.complete(db, [ending.Completion(done, None, None)])
        ending.finish(db, failed, Failed(JobError(code="X", message="x")), None)

    statements = [sql for sql, _ in statements_of(db, work)]
    assert len(statements) > 10
    for sql in statements:
        assert "outbox" not in sql and "deliveries" not in sql, sql
