"""Every hot query of the MongoDB store uses an index, however many jobs are stored.

The checks cover the statements that the store really sends: the server's profiler reports for each
which plan it ran, how many keys and documents it examined, and whether it had to sort."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pymongo
import pytest
from pymongo.database import Database

from secretary.core.job import (
    AccessControl,
    Batch,
    Completed,
    Failed,
    Job,
    JobError,
    JobStatus,
    Progress,
    Webhook,
    utc_now,
)
from secretary.store import BatchQuery, Capacity, JobQuery
from secretary.store.jobs import Notifier, TimeBudget
from secretary.store.mongo import MongoStore
from secretary.store.mongo.change_feed import PollingFeed
from secretary.store.outbox import EventCapacity
from secretary.store.transfer import GROUP

from ..contract.factories import LEASE, event_capacity, worker
from ..mongod import Mongod

Documents = Database[dict[str, Any]]

#: Jobs that have finished, are queued, are scheduled for later, are running.
ENDED, IN_LINE, WAITING, RUNNING = 6000, 2000, 300, 60
PAGE = 20
LIMITS: dict[str, Any] = {"max_per_type": {"t0": 1000}, "max_per_user": 1000}


@pytest.fixture(scope="module")
def database(mongod: Mongod) -> Iterator[Documents]:
    """A store with thousands of jobs, of which few matter to any one query."""
    url = mongod.url(f"plans_{uuid4().hex[:12]}")
    with pymongo.MongoClient[dict[str, Any]](url) as client:
        db = client.get_default_database()
        asyncio.run(fill(url, db))
        yield db
        client.drop_database(db.name)


async def fill(url: str, db: Documents) -> None:
    store = MongoStore(url)
    await store.open()
    ended = await add_crowd(store, ENDED)
    completed = {"status": "completed", "completed_at": "$created_at"}
    db.jobs.update_many({"batch_id": ended}, [{"$set": completed}, {"$unset": ["line", "turn"]}])
    failed = {"status": "failed", "error": {"code": "FILE_CORRUPT", "message": "no"}}
    db.jobs.update_many({"batch_id": ended, "user_id": "u1"}, {"$set": failed})
    await add_crowd(store, IN_LINE)
    await add_crowd(store, WAITING, run_at=utc_now() + timedelta(days=1))
    for name in ("worker-1", "worker-2"):
        await store.register_worker(worker(name), LEASE)
        await store.claim(name, Capacity(slots=RUNNING // 2))
    shared = AccessControl(read_access=("guest",))
    await store.add([Job(job_type="rare", user_id="rare", access_control=shared)])
    await store.close()


async def add_crowd(store: MongoStore, size: int, **fields: Any) -> str:
    """Jobs created an hour ago, which all servers certainly have."""
    batch = Batch(user_id="u0")
    jobs = [
        Job(
            created_at=utc_now() - timedelta(hours=1),
            job_type=f"t{n % 3}",
            priority=n % 2,
            batch_id=batch.batch_id,
            **{"user_id": f"u{n % 20}", **fields},
        )
        for n in range(size)
    ]
    await store.add(jobs, batch=batch)
    return batch.batch_id


@pytest.fixture
async def store(database: Documents, mongod: Mongod) -> AsyncIterator[MongoStore]:
    store = MongoStore(mongod.url(database.name))
    await store.open()
    yield store
    await store.close()


@dataclass(frozen=True)
class Statement:
    text: str
    plan: str
    keys: int
    documents: int
    sorts: bool


async def statements(database: Documents, call: Awaitable[Any]) -> list[Statement]:
    """The statements that a call sends, and what the server does for them."""
    database.command("profile", 0)
    database["system.profile"].drop()
    database.command("profile", 2)
    try:
        await call
    finally:
        database.command("profile", 0)
    executed = database["system.profile"].find({"command.explain": {"$exists": False}})
    return [_statement(entry) for entry in executed if _is_query(entry)]


def _is_query(entry: dict[str, Any]) -> bool:
    """Without `getMore` of an earlier statement and the change stream."""
    return entry["op"] not in ("getmore", "insert") and "$changeStream" not in str(entry)


def _statement(entry: dict[str, Any]) -> Statement:
    return Statement(
        text=f"{entry['op']} {entry['ns']} {entry['command']}"[:400],
        plan=entry.get("planSummary", ""),
        keys=entry.get("keysExamined", 0),
        documents=entry.get("docsExamined", 0),
        sorts=entry.get("hasSortStage", False),
    )


def assert_walks(executed: list[Statement], *, keys: int, documents: int | None = None) -> None:
    """Each statement used an index, sorted nothing and examined no more than this."""
    most = keys if documents is None else documents
    assert executed
    for statement in executed:
        assert "COLLSCAN" not in statement.plan or ".workers" in statement.text, statement
        assert not statement.sorts, statement
        assert statement.keys <= keys and statement.documents <= most, statement


class TestTheInstrument:
    async def test_it_sees_a_walk_through_everything(self, database: Documents) -> None:
        async def careless() -> None:
            database.jobs.find_one({"progress.step": "nowhere"})

        (executed,) = await statements(database, careless())
        assert (executed.plan, executed.documents > ENDED) == ("COLLSCAN", True)

    async def test_it_sees_a_sort(self, database: Documents) -> None:
        async def careless() -> None:
            list(database.jobs.find({"status": "completed"}).sort("arrival").limit(3))

        (executed,) = await statements(database, careless())
        assert executed.sorts


class TestTheFeed:
    async def test_what_changed_is_looked_up_by_id(
        self, store: MongoStore, database: Documents
    ) -> None:
        position = (await store.changes(None)).position
        await store.cancel(JobQuery(job_type="rare"))
        executed = await statements(database, store.changes(position, seconds=2))
        assert_walks(executed, keys=1)

    async def test_without_a_change_stream_it_walks_the_times_of_change(
        self, store: MongoStore, database: Documents
    ) -> None:
        feed = PollingFeed(store._db, Notifier())
        position = (await feed.changes(None, limit=10, seconds=0)).position
        touch = {"$currentDate": {"changed_at": {"$type": "timestamp"}}}
        database.jobs.update_many({"job_type": "rare"}, touch)
        executed = await statements(database, feed.changes(position, limit=10, seconds=0))
        assert_walks(executed, keys=2)
        position = "t:1.1.unknown"
        assert_walks(
            await statements(database, feed.changes(position, limit=10, seconds=0)), keys=2
        )
        database.jobs.update_many({"job_type": "rare"}, {"$unset": {"changed_at": ""}})


class TestTheQueue:
    async def test_a_claim_reads_only_the_heads_of_the_queues(
        self, store: MongoStore, database: Documents
    ) -> None:
        executed = await statements(database, store.claim("worker-1", Capacity(slots=3)))
        assert_walks(executed, keys=12)

    async def test_each_queue_is_found_in_one_step(
        self, store: MongoStore, database: Documents
    ) -> None:
        executed = await statements(database, store.claim("worker-1", Capacity(slots=1)))
        (lines,) = [statement for statement in executed if "distinct" in statement.text]
        assert (lines.plan, lines.documents) == (
            "DISTINCT_SCAN { line: 1, turn: 1, arrival: 1 }", 0,
        )  # fmt: skip
        assert lines.keys <= 8

    async def test_the_oldest_wait_is_read_from_the_heads_of_the_queues(
        self, store: MongoStore, database: Documents
    ) -> None:
        assert_walks(await statements(database, store.waiting_since()), keys=8, documents=1)

    async def test_a_claim_for_a_type_without_jobs_touches_none(
        self, store: MongoStore, database: Documents
    ) -> None:
        wanted = Capacity(slots=3, job_types={"none"})
        assert_walks(await statements(database, store.claim("worker-1", wanted)), keys=8)

    async def test_a_claim_with_limits_touches_running_jobs_and_the_first_of_each_user(
        self, store: MongoStore, database: Documents
    ) -> None:
        running = database.jobs.count_documents({"status": "processing"})
        executed = await statements(database, store.claim("worker-1", Capacity(slots=3, **LIMITS)))
        assert_walks(executed, keys=running + 10, documents=15)

    async def test_the_position_of_a_new_job_is_found_by_the_ends_of_its_queue(
        self, store: MongoStore, database: Documents
    ) -> None:
        for user_id in ("u3", None, "new"):
            job = Job(job_type="t1", user_id=user_id)
            assert_walks(await statements(database, store.add([job])), keys=3)

    async def test_waiting_jobs_are_not_looked_at_before_their_time(
        self, store: MongoStore, database: Documents
    ) -> None:
        executed = await statements(
            database, store.claim("worker-1", Capacity(slots=1, job_types={"none"}))
        )
        (due,) = [statement for statement in executed if "due_at" in statement.text]
        assert (due.plan, due.documents) == ("IXSCAN { due_at: 1, arrival: 1 }", 0)

    async def test_jobs_whose_time_has_come_are_found_alone(
        self, store: MongoStore, database: Documents
    ) -> None:
        await store.add([Job(job_type="due", run_at=utc_now() + timedelta(hours=1))])
        database.jobs.update_one({"job_type": "due"}, {"$set": {"due_at": "2000"}})
        executed = await statements(
            database, store.claim("worker-1", Capacity(slots=1, job_types={"due"}))
        )
        assert_walks(executed, keys=10)

    async def test_a_worker_renews_by_its_own_jobs(
        self, store: MongoStore, database: Documents
    ) -> None:
        executed = await statements(database, store.renew("worker-2", LEASE))
        assert_walks(executed, keys=RUNNING // 2 + 1)

    async def test_a_rescue_looks_at_one_job_of_each_worker(
        self, store: MongoStore, database: Documents
    ) -> None:
        executed = await statements(database, store.rescue())
        assert_walks(executed, keys=4)

    async def test_a_report_and_an_end_touch_their_job_and_one_more_of_its_batch(
        self, store: MongoStore, database: Documents
    ) -> None:
        first, second = await store.claim("worker-1", Capacity(slots=2))
        report = store.report(first, Progress(step="half", percent=50))
        assert_walks(await statements(database, report), keys=1)
        assert_walks(await statements(database, store.finish(first, Completed())), keys=3)
        retry = Failed(JobError(code="X", message="x"), retry_at=utc_now())
        assert_walks(await statements(database, store.finish(second, retry)), keys=3)


class TestLists:
    @pytest.mark.parametrize(
        "terms",
        [
            {},
            {"status": frozenset({JobStatus.FAILED})},
            {"status": frozenset({JobStatus.FAILED, JobStatus.PENDING, JobStatus.CANCELLED})},
            {"job_type": "t2"},
            {"job_type": "rare"},
            {"job_type": "t2", "status": frozenset({JobStatus.PENDING})},
            {"user_id": "u1"},
            {"user_id": "u1", "status": frozenset({JobStatus.FAILED})},
            {"error_code": "FILE_CORRUPT"},
            {"visible_to": "u1"},
            {"visible_to": "guest"},
            {"visible_to": "stranger"},
            {"created_before": utc_now() - timedelta(days=1)},
        ],
        ids=lambda terms: " ".join(sorted(terms)) or "all",
    )
    async def test_a_page_touches_no_more_than_it_shows(
        self, store: MongoStore, database: Documents, terms: dict[str, Any]
    ) -> None:
        executed = await statements(database, store.find(JobQuery(limit=PAGE, **terms)))
        assert_walks(executed, keys=PAGE + 15, documents=PAGE + 1)

    async def test_a_page_of_a_batch_touches_no_more_than_it_shows(
        self, store: MongoStore, database: Documents
    ) -> None:
        some = database.jobs.find_one({"status": "completed"})
        assert some is not None
        for status in (None, frozenset({JobStatus.COMPLETED, JobStatus.FAILED})):
            query = JobQuery(batch_id=some["batch_id"], limit=PAGE, status=status)
            executed = await statements(database, store.find(query))
            assert_walks(executed, keys=PAGE + 15, documents=PAGE + 1)

    @pytest.mark.parametrize(
        "terms",
        [{"archived": False}, {"user_id": "u1", "archived": False}, {"archived": True}],
        ids=str,
    )
    async def test_a_search_goes_in_steps(
        self, store: MongoStore, database: Documents, terms: dict[str, Any]
    ) -> None:
        query = JobQuery(limit=PAGE, search_seconds=5.0, **terms)
        executed = await statements(database, store.find(query))
        assert_walks(executed, keys=TimeBudget.FIRST + 15)

    async def test_a_later_page_costs_what_the_first_does(
        self, store: MongoStore, database: Documents
    ) -> None:
        first = await store.find(JobQuery(limit=1000))
        far = await store.find(JobQuery(limit=1000, cursor=first.next_cursor))
        query = JobQuery(limit=PAGE, cursor=far.next_cursor)
        assert_walks(await statements(database, store.find(query)), keys=PAGE + 15)

    async def test_jobs_that_just_came_are_looked_up_once_more(
        self, store: MongoStore, database: Documents
    ) -> None:
        some = database.jobs.find_one({"job_type": "rare"})
        assert some is not None
        first, again = await statements(database, store.find(JobQuery(user_id="rare", limit=PAGE)))
        assert "by_user" in first.text and "majority" in again.text
        assert_walks([again], keys=2, documents=1)

    async def test_a_job_is_found_by_its_id_alone(
        self, store: MongoStore, database: Documents
    ) -> None:
        some = database.jobs.find_one({"status": "completed"}, sort=[("completed_at", 1)])
        assert some is not None
        assert_walks(await statements(database, store.get(some["_id"])), keys=1)
        (executed,) = await statements(database, store.find(JobQuery(job_id=some["_id"])))
        assert (executed.keys, executed.documents) == (1, 1)

    async def test_a_copy_walks_along_the_list(
        self, store: MongoStore, database: Documents
    ) -> None:
        async def first_groups() -> None:
            n = 0
            async for _ in store.records("jobs"):
                n += 1
                if n == 3:
                    return

        executed = await statements(database, first_groups())
        pages = [one for one in executed if "listed_at" in one.text]
        assert len(pages) == 3
        assert_walks(pages, keys=GROUP + 15, documents=GROUP + 5)

    async def test_batches_are_found_newest_first(
        self, store: MongoStore, database: Documents
    ) -> None:
        for query in (
            BatchQuery(limit=2),
            BatchQuery(limit=2, visible_to="u0"),
            BatchQuery(limit=2, user_id="u0"),
        ):
            executed = await statements(database, store.find_batches(query))
            batches = [one for one in executed if ".batches" in one.text]
            assert_walks(batches, keys=5, documents=3)


class TestCountingAndMaintenance:
    async def test_the_counters_of_a_batch_come_from_an_index(
        self, store: MongoStore, database: Documents
    ) -> None:
        some = database.jobs.find_one({"status": "completed"})
        assert some is not None
        executed = await statements(database, store.get_batch(some["batch_id"]))
        assert_walks(executed, keys=ENDED, documents=1)

    async def test_jobs_are_counted_in_an_index(
        self, store: MongoStore, database: Documents
    ) -> None:
        executed = await statements(database, store.counts())
        assert_walks(executed, keys=ENDED, documents=0)

    async def test_ended_jobs_are_found_oldest_first(
        self, store: MongoStore, database: Documents
    ) -> None:
        older_than = {JobStatus.COMPLETED: utc_now(), JobStatus.FAILED: utc_now()}
        executed = await statements(database, store.expired(older_than, limit=PAGE))
        assert_walks(executed, keys=PAGE)

    async def test_changes_by_filter_touch_what_they_change(
        self, store: MongoStore, database: Documents
    ) -> None:
        failed = JobQuery(user_id="u1", status=frozenset({JobStatus.FAILED}), limit=3)
        assert_walks(await statements(database, store.restart(failed)), keys=5)
        pending = JobQuery(user_id="u1", status=frozenset({JobStatus.PENDING}), limit=3)
        assert_walks(await statements(database, store.cancel(pending)), keys=5)
        cancelled = JobQuery(user_id="u1", status=frozenset({JobStatus.CANCELLED}), limit=3)
        assert_walks(await statements(database, store.archive(cancelled)), keys=8)
        assert_walks(await statements(database, store.delete(cancelled)), keys=8)

    async def test_tidying_touches_what_is_left_over(
        self, store: MongoStore, database: Documents
    ) -> None:
        assert_walks(await statements(database, store.tidy()), keys=5)


DUE = 5000


@pytest.fixture(scope="module")
def crowded(mongod: Mongod) -> Iterator[Documents]:
    url = mongod.url(f"outbox_{uuid4().hex[:12]}")

    async def fill() -> None:
        store = MongoStore(url)
        await store.open()
        for size, host in ((DUE, "big"), (5, "small"), (5, "tiny")):
            hook = Webhook(url=f"https://{host}.example/hook")
            await add_crowd(store, size, webhook=hook, user_id=None)  # one queue each
        await store.close()

    with pymongo.MongoClient[dict[str, Any]](url) as client:
        db = client.get_default_database()
        asyncio.run(fill())
        db.jobs.update_many({}, {"$set": {"outbox.due_at": "2000"}})
        yield db
        client.drop_database(db.name)


class TestWebhooks:
    """With thousands of events due for one endpoint, and a few for others."""

    @pytest.fixture
    async def outbox(self, crowded: Documents, mongod: Mongod) -> AsyncIterator[MongoStore]:
        store = MongoStore(mongod.url(crowded.name))
        await store.open()
        yield store
        await store.close()

    def wanted(self, **busy: int) -> EventCapacity:
        used = {f"https://{host}.example/hook#": number for host, number in busy.items()}
        return event_capacity(limit=64, per_endpoint=8, in_flight=used, lease=-LEASE)

    @pytest.mark.parametrize("busy", [{}, {"big": 8}, {"big": 7, "small": 8}], ids=str)
    async def test_looking_for_events_touches_no_more_than_it_gives(
        self, outbox: MongoStore, crowded: Documents, busy: dict[str, int]
    ) -> None:
        executed = await statements(crowded, outbox.claim_events(self.wanted(**busy)))
        assert_walks(executed, keys=10)

    async def test_when_nothing_can_be_taken_it_takes_a_few_steps(
        self, outbox: MongoStore, crowded: Documents
    ) -> None:
        wanted = self.wanted(big=8, small=8, tiny=8)
        executed = await statements(crowded, outbox.claim_events(wanted))
        assert len(executed) == 3
        assert_walks(executed, keys=8)

    async def test_an_endpoint_is_postponed_by_its_index(
        self, outbox: MongoStore, crowded: Documents
    ) -> None:
        postponed = outbox.postpone_events("https://tiny.example", utc_now(), final=True)
        assert_walks(await statements(crowded, postponed), keys=10)
