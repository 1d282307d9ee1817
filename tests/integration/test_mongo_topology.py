"""The MongoDB store with servers that fail or are misconfigured, and processes that die midway."""

import asyncio
import contextlib
import gc
import inspect
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pymongo
import pytest
from pymongo.database import Database

from secretary.core.errors import LeaseLost, NotFound, StoreUnavailable
from secretary.core.job import (
    Batch,
    Completed,
    Job,
    JobStatus,
    LogEntry,
    Released,
    Webhook,
    utc_now,
)
from secretary.store import Capacity, IdempotencyKey, JobQuery
from secretary.store.mongo import MongoStore, client_actions, schema, transitions
from secretary.store.mongo.outbox import final_event
from secretary.store.mongo.schema import DELETED, STAGED, stamp

from ..contract.factories import LEASE, add_batch, claim, claimed, event_capacity, worker
from ..mongod import Mongod
from ..polling import until
from ..ports import free_ports

Documents = Database[dict[str, Any]]

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)

# The driver leaves the sockets of abandoned connection attempts to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    yield
    gc.collect()


@pytest.fixture(scope="module")
def standalone(mongod: Mongod, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mongod]:
    """Depends on the shared server only to be skipped with it."""
    server = Mongod(tmp_path_factory.mktemp("standalone"), replica_set=None)
    server.start()
    yield server
    server.stop()


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncIterator[MongoStore]:
    store = MongoStore(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def new_url(server: Mongod) -> str:
    return server.url(f"test_{uuid4().hex[:12]}")


@pytest.fixture
def url(mongod: Mongod) -> str:
    return new_url(mongod)


@pytest.fixture
async def store(url: str) -> AsyncIterator[MongoStore]:
    async with opened(url) as store:
        yield store


@pytest.fixture
def db(url: str) -> Iterator[Documents]:
    """Direct access to the documents, bypassing the store."""
    with pymongo.MongoClient[dict[str, Any]](url) as client:
        yield client.get_default_database()


async def quiet(store: MongoStore, since: int) -> int:
    """The number of the last change, once there has been none for a while."""
    while (now := await store.wait(since, seconds=0.3)) != since:
        since = now
    return since


class TestStandaloneServer:
    async def test_a_job_goes_its_whole_way(self, standalone: Mongod) -> None:
        async with opened(new_url(standalone)) as store:
            job = await claimed(store, webhook=Webhook(url="https://example.org/hook"))
            await store.finish(job, Completed({"text": "x"}))
            done = await store.get(job.job_id)
            assert (done.status, done.results) == (JobStatus.COMPLETED, {"text": "x"})
            assert [delivery.event for delivery in done.deliveries] == ["completed"]

    async def test_a_batch_is_added_and_ends(self, standalone: Mongod) -> None:
        async with opened(new_url(standalone)) as store:
            batch, _ = await add_batch(store, 3)
            for job in await claim(store, slots=3):
                await store.finish(job, Completed())
            ended = await store.get_batch(batch.batch_id)
            assert (ended.status, ended.total_jobs) == (JobStatus.COMPLETED, 3)

    async def test_a_key_makes_one_job(self, standalone: Mongod) -> None:
        async with opened(new_url(standalone)) as store:
            key = IdempotencyKey("k", "body")
            added = await asyncio.gather(*(store.add([Job()], idempotency=key) for _ in range(9)))
            assert len({answer.job_ids[0] for answer in added}) == 1

    async def test_a_lost_worker_is_noticed(self, standalone: Mongod) -> None:
        async with opened(new_url(standalone)) as store:
            job = await claimed(store, lease=timedelta(seconds=-1))
            (rescued,) = await store.rescue()
            assert rescued.job_id == job.job_id
            with pytest.raises(LeaseLost):
                await store.finish(job, Completed())

    async def test_who_waits_is_sent_to_look_for_himself(self, standalone: Mongod) -> None:
        async with opened(new_url(standalone)) as store:
            since = await store.wait(-1, seconds=0)
            assert await asyncio.wait_for(store.wait(since, seconds=60), 10) == since

    async def test_the_description_says_so(self, standalone: Mongod) -> None:
        async with opened(new_url(standalone)) as store:
            description = await store.describe()
            assert (description["topology"], description["replica_set"]) == ("standalone", None)


class TestSeveralProcesses:
    async def test_a_change_in_one_process_wakes_waiters_in_another(self, url: str) -> None:
        async with opened(url) as first_store, opened(url) as second_store:
            seen = -1
            for change in (
                lambda: first_store.add([Job()]),
                lambda: add_batch(first_store, 3),
                lambda: first_store.cancel(JobQuery()),
            ):
                seen = await quiet(second_store, seen)
                waiting = asyncio.create_task(second_store.wait(seen, seconds=60))
                await asyncio.sleep(0)
                await change()
                assert await asyncio.wait_for(waiting, 10) > seen

    async def test_a_job_is_never_claimed_twice(self, url: str) -> None:
        async with opened(url) as one, opened(url) as two, opened(url) as three:
            _, jobs = await add_batch(one, 200)
            taken = await asyncio.gather(
                *(self._claim_all(store, f"w{n}") for n, store in enumerate((one, two, three)))
            )
            claimed_ids = [job_id for ids in taken for job_id in ids]
            assert sorted(claimed_ids) == sorted(job.job_id for job in jobs)

    async def _claim_all(self, store: MongoStore, name: str) -> list[str]:
        await store.register_worker(worker(name), LEASE)
        taken: list[str] = []
        while (await store.counts())["pdf"].get(JobStatus.PENDING):
            taken += [job.job_id for job in await store.claim(name, Capacity(slots=7))]
        return taken

    async def test_limits_hold_though_all_claim_at_once(self, url: str) -> None:
        async with opened(url) as one, opened(url) as two, opened(url) as three:
            batch = Batch()
            users = ["ann", "bob"] * 20
            jobs = [Job(job_type="pdf", user_id=u, batch_id=batch.batch_id) for u in users]
            await one.add(jobs, batch=batch)
            wanted = Capacity(slots=5, max_per_type={"pdf": 3}, max_per_user=2)
            stores = {"w0": one, "w1": two, "w2": three}
            for name, store in stores.items():
                await store.register_worker(worker(name), LEASE)
            done = 0
            while done < len(jobs):
                claims = await asyncio.gather(*(s.claim(n, wanted) for n, s in stores.items()))
                running = [job for jobs in claims for job in jobs]
                by_user = [job.user_id for job in running]
                assert len(running) <= 3
                assert max(by_user.count("ann"), by_user.count("bob")) <= 2
                await asyncio.gather(*(one.finish(job, Completed()) for job in running))
                done += len(running)


class TestRestart:
    @pytest.mark.parametrize("replica_set", ["rs0", None])
    async def test_calls_recover_and_nothing_acknowledged_is_lost(
        self, mongod: Mongod, tmp_path: Path, replica_set: str | None
    ) -> None:
        server = Mongod(tmp_path, replica_set=replica_set)
        server.start()
        try:
            async with opened(server.url("jobs")) as store:
                finished = await claimed(store)
                await store.finish(finished, Completed({"text": "kept"}))
                acknowledged: list[str] = []
                adding = asyncio.create_task(self._add_until(store, acknowledged))
                await until(lambda: len(acknowledged) > 20)
                await asyncio.to_thread(server.restart)
                before = len(acknowledged)
                await until(lambda: len(acknowledged) > before + 20, seconds=10)
                adding.cancel()
                await asyncio.wait({adding})
                assert (await store.get(finished.job_id)).results == {"text": "kept"}
                for job_id in acknowledged:
                    assert (await store.get(job_id)).status is JobStatus.PENDING
                assert len(await claim(store, "worker-2", slots=5)) == 5
        finally:
            server.stop()

    @pytest.mark.parametrize("replica_set", ["rs0", None])
    async def test_no_change_is_missed(
        self, mongod: Mongod, tmp_path: Path, replica_set: str | None
    ) -> None:
        server = Mongod(tmp_path, replica_set=replica_set)
        server.start()
        try:
            async with opened(server.url("jobs")) as store:
                position = (await store.changes(None)).position
                acknowledged: list[str] = []
                batch_ids: set[str | None] = set()
                adding = asyncio.create_task(self._add_until(store, acknowledged))
                following = asyncio.create_task(self._follow(store, position, batch_ids))
                await until(lambda: len(acknowledged) > 20)
                await asyncio.to_thread(server.restart)
                before = len(acknowledged)
                await until(lambda: len(acknowledged) > before + 20)
                adding.cancel()
                await asyncio.wait({adding})
                await until(lambda: set(acknowledged) <= batch_ids)
                following.cancel()
                await asyncio.wait({following})
        finally:
            server.stop()

    async def _follow(self, store: MongoStore, position: str, batch_ids: set[str | None]) -> None:
        while True:
            try:
                changes = await store.changes(position, seconds=0.1)
            except StoreUnavailable:
                await asyncio.sleep(0.05)
                continue
            assert not changes.gap
            position = changes.position
            batch_ids |= {change.job_id for change in changes.items}

    async def _add_until(self, store: MongoStore, acknowledged: list[str]) -> None:
        while True:
            try:
                acknowledged += (await store.add([Job(job_type="pdf")])).job_ids
            except StoreUnavailable:
                await asyncio.sleep(0.05)


class TestUnreachableServer:
    async def test_opening_fails_soon_and_names_the_host_but_never_the_password(self) -> None:
        (port,) = free_ports(1)
        store = MongoStore(
            f"mongodb://bob:geheim@127.0.0.1:{port}/jobs?serverSelectionTimeoutMS=300"
        )
        with pytest.raises(StoreUnavailable) as caught:
            await asyncio.wait_for(store.open(), 10)
        assert f"127.0.0.1:{port}" in str(caught.value)
        assert "does not answer" in str(caught.value)
        assert "geheim" not in f"{caught.value} {caught.value.__cause__}"

    async def test_a_server_that_is_silent_is_not_waited_for_without_end(self) -> None:
        async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.closing(writer):
                await reader.read()

        silent = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
        port = silent.sockets[0].getsockname()[1]
        options = "serverSelectionTimeoutMS=600&connectTimeoutMS=300"
        store = MongoStore(f"mongodb://127.0.0.1:{port}/jobs?{options}")
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(store.open(), 10)
        silent.close()

    async def test_a_call_fails_when_the_server_has_gone(
        self, mongod: Mongod, tmp_path: Path
    ) -> None:
        server = Mongod(tmp_path)
        server.start()
        async with opened(f"{server.url('jobs')}&serverSelectionTimeoutMS=500") as store:
            job = await claimed(store)
            await asyncio.to_thread(server.stop)
            for call in (
                store.add([Job()]),
                store.get(job.job_id),
                store.claim("worker-1", Capacity(slots=1)),
                store.renew("worker-1", LEASE),
                store.finish(job, Completed()),
                store.rescue(),
            ):
                with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{server.port}"):
                    await asyncio.wait_for(call, 10)
            since = await store.wait(-1, seconds=0)
            await asyncio.wait_for(store.wait(since, seconds=0.01), 5)

    @pytest.mark.parametrize(
        "address",
        [
            "mongodb://bob:geheim/@127.0.0.1:1/jobs",
            "mongodb://bob:gehe@im@127.0.0.1:1/jobs",
            "mongodb://127.0.0.1:geheim/jobs",
        ],
    )
    async def test_an_address_that_cannot_be_read_is_not_quoted(self, address: str) -> None:
        with pytest.raises(StoreUnavailable) as caught:
            await asyncio.wait_for(MongoStore(address).open(), 10)
        assert "geheim" not in str(caught.value)
        assert caught.value.__cause__ is None

    async def test_a_database_of_a_newer_version_is_refused(self, url: str, db: Documents) -> None:
        db["meta"].insert_one({"_id": "schema", "version": 99})
        with pytest.raises(StoreUnavailable, match="newer version of Secretary"):
            await MongoStore(url).open()

    async def test_a_database_of_another_program_is_refused(self, url: str, db: Documents) -> None:
        db["jobs"].insert_one({"title": "gardener"})
        with pytest.raises(StoreUnavailable, match="another program"):
            await MongoStore(url).open()
        assert db["jobs"].count_documents({}) == 1


class TestCallersThatGiveUp:
    async def test_a_batch_is_added_whole_though_its_caller_was_cancelled(
        self, store: MongoStore, db: Documents
    ) -> None:
        batch = Batch()
        jobs = [Job(batch_id=batch.batch_id) for _ in range(3000)]
        adding = asyncio.create_task(store.add(jobs, batch=batch))
        while not db.jobs.count_documents({"status": STAGED}):
            await asyncio.sleep(0.001)
        adding.cancel()
        await asyncio.wait({adding})
        assert adding.cancelled()
        await until(lambda: db.jobs.count_documents({"status": "pending"}) == 3000)
        await until(lambda: db.batches.count_documents({"staged": {"$exists": False}}) == 1)

    async def test_a_job_ends_though_who_ended_it_was_cancelled(
        self, store: MongoStore, db: Documents
    ) -> None:
        job = await claimed(store)
        finishing = asyncio.create_task(store.finish(job, Released()))
        await asyncio.sleep(0)
        finishing.cancel()
        await asyncio.wait({finishing})
        await until(lambda: db.jobs.count_documents({"status": "pending"}) == 1)

    async def test_a_call_that_was_cancelled_says_so_at_every_moment(
        self, store: MongoStore
    ) -> None:
        """Before Python 3.12, the driver may swallow a cancellation."""
        for step in range(200):
            reading = asyncio.create_task(store.counts())
            await asyncio.wait({reading}, timeout=step / 100_000)
            if not reading.done():
                reading.cancel()
                await asyncio.wait({reading})
                assert reading.cancelled()


class TestProcessesThatDiedMidway:
    async def test_a_batch_that_was_not_added_yet_is_removed(
        self, store: MongoStore, db: Documents
    ) -> None:
        batch, jobs = await add_batch(store, 3)
        half_added(db, batch, jobs, at=LONG_AGO)
        db.batches.delete_one({"_id": batch.batch_id})
        assert await claim(store, slots=5) == []
        assert (await store.find(JobQuery())).items == []
        with pytest.raises(NotFound):
            await store.get(jobs[0].job_id)
        await store.tidy()
        assert db.jobs.count_documents({}) == 0

    async def test_a_batch_that_was_added_is_published(
        self, store: MongoStore, db: Documents
    ) -> None:
        batch, jobs = await add_batch(store, 3)
        half_added(db, batch, jobs, at=LONG_AGO)
        assert (await store.get_batch(batch.batch_id)).counts == {JobStatus.PENDING: 3}
        assert await claim(store, slots=5) == []
        await store.tidy()
        assert [job.job_id for job in await claim(store, slots=5)] == [j.job_id for j in jobs]
        assert (await store.get_batch(batch.batch_id)).counts == {JobStatus.PROCESSING: 3}

    async def test_what_someone_is_just_adding_is_left_alone(
        self, store: MongoStore, db: Documents
    ) -> None:
        batch, jobs = await add_batch(store, 3)
        half_added(db, batch, jobs, at=utc_now())
        db.batches.delete_one({"_id": batch.batch_id})
        await store.tidy()
        assert db.jobs.count_documents({"status": STAGED}) == 3

    async def test_jobs_of_another_try_do_not_get_into_a_batch(
        self, store: MongoStore, db: Documents
    ) -> None:
        batch, _ = await add_batch(store, 1)
        foreign, others = await add_batch(store, 2)
        half_added(db, foreign, others, at=LONG_AGO, token="another try")
        db.jobs.update_many({"batch_id": foreign.batch_id}, {"$set": {"batch_id": batch.batch_id}})
        await store.tidy()
        assert (await store.get_batch(batch.batch_id)).counts == {JobStatus.PENDING: 1}
        assert db.jobs.count_documents({"batch_id": batch.batch_id}) == 1

    async def test_a_batch_whose_last_job_finished_is_settled_and_notifies_its_webhook(
        self, store: MongoStore, db: Documents
    ) -> None:
        batch, _ = await add_batch(store, 1, webhook=Webhook(url="https://example.org/hook"))
        (job,) = await claim(store)
        await store.finish(job, Completed())
        forgotten = {"completed_at": "", "deliveries": ""}
        db.batches.update_one({}, {"$set": {"open": True}, "$unset": forgotten})
        await store.tidy()
        settled = await store.get_batch(batch.batch_id)
        assert settled.completed_at is not None
        assert [delivery.event for delivery in settled.deliveries] == ["completed"]

    async def test_a_job_that_waits_for_an_active_batch_is_let_go(
        self, store: MongoStore, db: Documents
    ) -> None:
        _, jobs = await add_batch(store, 1)
        db.jobs.update_one({}, {"$set": {"held": True}, "$unset": {"line": "", "turn": ""}})
        assert await claim(store) == []
        await store.tidy()
        assert [job.job_id for job in await claim(store)] == [jobs[0].job_id]

    async def test_a_queued_job_of_a_paused_batch_does_not_start(
        self, store: MongoStore, db: Documents
    ) -> None:
        batch, jobs = await add_batch(store, 1)
        db.batches.update_one({}, {"$set": {"isActive": False}})
        assert await claim(store) == []
        job = await store.get(jobs[0].job_id)
        assert (job.status, job.attempts, job.worker_id) == (JobStatus.PENDING, (), None)
        await store.change_batch(batch.batch_id, is_active=True)
        assert len(await claim(store)) == 1

    async def test_a_job_that_was_half_deleted_is_gone_for_good(
        self, store: MongoStore, db: Documents
    ) -> None:
        job = await claimed(store)
        await store.finish(job, Completed({"text": "x" * 100_000}))
        db.jobs.update_one({}, {"$set": {"status": DELETED}})
        with pytest.raises(NotFound):
            await store.get(job.job_id)
        assert await store.counts() == {}
        await store.tidy()
        assert db.jobs.count_documents({}) == db["contents"].count_documents({}) == 0

    async def test_what_belongs_to_no_job_is_removed(
        self, store: MongoStore, db: Documents
    ) -> None:
        running = await claimed(store)
        await store.report(running, logs=[LogEntry(message="kept")])
        await store.finish(running, Completed({"text": "x" * 100_000}))
        old, new = "2000-01-01T00:00:00.000000Z", stamp(utc_now())
        db["contents"].insert_one({"_id": "a/0", "job_id": "job-none", "at": old, "data": b""})
        db["contents"].insert_one({"_id": "b/0", "job_id": "job-soon", "at": new, "data": b""})
        db["logs"].insert_one({"job_id": "job-none", "first": 1, "last": 1, "entries": []})
        await store.tidy()
        owners = [part["job_id"] for part in db["contents"].find().sort("job_id")]
        assert owners == [running.job_id, "job-soon"]
        assert [part["job_id"] for part in db["logs"].find()] == [running.job_id]

    async def test_a_claim_cancelled_at_any_moment_loses_no_job(self, store: MongoStore) -> None:
        await store.register_worker(worker(), LEASE)
        for step in range(25):
            await store.add([Job(job_type="pdf")])
            claiming = asyncio.create_task(store.claim("worker-1", Capacity(slots=1)))
            await asyncio.wait({claiming}, timeout=step / 5000)
            claiming.cancel()
            await asyncio.wait({claiming})
            taken = [] if claiming.cancelled() else claiming.result()
            (job,) = taken or await store.claim("worker-1", Capacity(slots=1))
            assert (job.crashes, len(job.attempts)) == (0, 1)
            await store.finish(job, Completed())

    async def test_a_worker_that_leaves_during_a_claim_costs_the_job_nothing(
        self, store: MongoStore
    ) -> None:
        await store.register_worker(worker(), LEASE)
        await store.add([Job(job_type="pdf")])
        claiming = asyncio.create_task(store.claim("worker-1", Capacity(slots=1)))
        await asyncio.sleep(0)
        claiming.cancel()
        await store.unregister_worker("worker-1")
        assert await store.rescue() == []
        (job,) = await claim(store, "worker-2")
        assert job.crashes == 0

    async def test_a_key_reserved_by_a_dead_caller_is_used_by_the_next(
        self, store: MongoStore, db: Documents
    ) -> None:
        key = IdempotencyKey("k", "body")
        first = await store.add([Job()], idempotency=key)
        db.jobs.delete_many({})
        db["idempotency_keys"].update_one({}, {"$unset": {"job_ids": ""}})
        again = await store.add([Job()], idempotency=key)
        assert (again.job_ids, again.replayed) == (first.job_ids, True)
        assert (await store.get(first.job_ids[0])).status is JobStatus.PENDING

    async def test_a_batch_with_a_key_of_a_dead_caller_is_added_once(
        self, store: MongoStore, db: Documents
    ) -> None:
        key = IdempotencyKey("k", "body")
        dead = Batch()
        jobs = [Job(batch_id=dead.batch_id) for _ in range(2)]
        await store.add(jobs, batch=dead, idempotency=key)
        half_added(db, dead, jobs, at=utc_now())
        db.batches.delete_one({})
        db["idempotency_keys"].update_one({}, {"$unset": {"job_ids": "", "batch_id": ""}})
        batch = Batch()
        mine = [Job(batch_id=batch.batch_id) for _ in range(2)]
        added = await store.add(mine, batch=batch, idempotency=key)
        assert (added.batch_id, added.replayed) == (dead.batch_id, True)
        assert added.job_ids == [job.job_id for job in mine]
        matching_jobs = (await store.find(JobQuery(batch_id=dead.batch_id))).items
        assert {job.job_id for job in matching_jobs} == set(added.job_ids)

    async def test_jobs_left_by_a_dead_caller_do_not_keep_the_batch_open(
        self, store: MongoStore, db: Documents
    ) -> None:
        key = IdempotencyKey("k", "body")
        batch = Batch()
        left = [Job(batch_id=batch.batch_id)]
        await store.add(left, batch=batch, idempotency=key)
        half_added(db, batch, left, at=utc_now())
        db.batches.delete_one({})
        db["idempotency_keys"].update_one({}, {"$unset": {"job_ids": "", "batch_id": ""}})
        await store.add([Job(batch_id=batch.batch_id)], batch=Batch(), idempotency=key)
        await store.cancel(JobQuery(batch_id=batch.batch_id))
        assert db.jobs.count_documents({"status": STAGED}) == 1
        assert (await store.get_batch(batch.batch_id)).completed_at is not None


class TestEndsOfBatches:
    async def test_a_batch_that_is_restarted_while_it_is_settled_stays_open(
        self, store: MongoStore, db: Documents, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The other process has read that all jobs have finished, but not yet written it."""
        batch = Batch()
        await store.add([Job(batch_id=batch.batch_id)], batch=batch)
        query = JobQuery(batch_id=batch.batch_id)

        def restart_first(*args: Any) -> Any:
            monkeypatch.setattr(transitions, "final_event", final_event)
            written = reopened(db, batch.batch_id)
            assert written == 1
            return final_event(*args)

        await store.cancel(query)
        await store.restart(query)
        db.jobs.update_one({}, {"$set": {"status": "cancelled"}})
        monkeypatch.setattr(transitions, "final_event", restart_first)
        await store.tidy()
        assert (await store.get_batch(batch.batch_id)).completed_at is None
        await store.tidy()
        assert (await store.get_batch(batch.batch_id)).completed_at is not None

    async def test_counters_and_end_are_right_however_restarts_and_ends_meet(
        self, store: MongoStore, db: Documents
    ) -> None:
        batch = Batch()
        await store.add([Job(batch_id=batch.batch_id) for _ in range(3)], batch=batch)
        query = JobQuery(batch_id=batch.batch_id)
        for _ in range(50):
            await asyncio.gather(store.cancel(query), store.restart(query), store.cancel(query))
            current = await store.get_batch(batch.batch_id)
            open_jobs = db.jobs.count_documents({"status": {"$in": ["pending", "processing"]}})
            assert (current.completed_at is None) == (open_jobs > 0)

    @pytest.mark.parametrize("meanwhile", ["tidy", "cancel"])
    async def test_a_restart_that_meets_an_end_at_any_step_reports_each_end_once(
        self, store: MongoStore, db: Documents, meanwhile: str
    ) -> None:
        async def act() -> None:
            if meanwhile == "cancel":
                await store.cancel(query)
            await store.tidy()

        query, step = await ended_batch(store), 0
        interleaved = Interleaved(store, act)
        while await interleaved.reaches(step, client_actions.restart, query):
            await assert_consistent(store, db, query)
            await store.cancel(query)
            await assert_consistent(store, db, query)
            step += 1
        assert step > 5

    async def test_a_restart_that_dies_at_any_step_leaves_a_batch_that_ends(
        self, store: MongoStore, db: Documents
    ) -> None:
        async def die() -> None:
            raise Died

        query, step = await ended_batch(store), 0
        interleaved = Interleaved(store, die)
        while True:
            try:
                reached = await interleaved.reaches(step, client_actions.restart, query)
            except Died:
                reached = True
            if not reached:
                break
            await store.cancel(query)
            db.batches.update_many({"restarts.0.at": {"$exists": True}}, STALE_RESTART)
            await store.tidy()
            await assert_consistent(store, db, query)
            step += 1
        assert step > 5

    async def test_a_batch_that_is_restarted_at_any_step_of_its_end_stays_open(
        self, store: MongoStore, db: Documents
    ) -> None:
        query = await ended_batch(store)
        assert query.batch_id is not None

        async def act() -> None:
            await store.restart(query)

        interleaved, step = Interleaved(store, act), 0
        while True:
            await store.restart(query)
            db.jobs.update_many({}, {"$set": {"status": "cancelled"}})
            settled = interleaved.reaches(step, transitions.settle_batch, query.batch_id)
            if not await settled:
                break
            await assert_consistent(store, db, query)
            step += 1
        assert step > 2


class Died(Exception):
    pass


STALE_RESTART = {"$set": {"restarts.$[].at": LONG_AGO}}


class Interleaved:
    """Runs calls of the store with an action before one of their steps."""

    def __init__(self, store: MongoStore, act: Callable[[], Awaitable[None]]) -> None:
        self._act = act
        self._countdown = 0
        self._db = schema.Database(store.database)
        for collections in (self._db, self._db.durable):
            for name in ("jobs", "batches"):
                setattr(collections, name, _Steps(getattr(collections, name), self._step))

    async def reaches(self, step: int, work: Callable[..., Awaitable[Any]], *args: Any) -> bool:
        """Run the call; false if it has fewer steps."""
        self._countdown = step + 1
        await work(self._db, *args)
        return self._countdown <= 0

    async def _step(self) -> None:
        self._countdown -= 1
        if self._countdown == 0:
            await self._act()


class _Steps:
    """A collection that announces each of its calls."""

    def __init__(self, collection: Any, step: Callable[[], Awaitable[None]]) -> None:
        self._collection = collection
        self._announce = step

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._collection, name)
        if not inspect.iscoroutinefunction(attribute):
            return attribute

        async def call(*args: Any, **kwargs: Any) -> Any:
            await self._announce()
            return await attribute(*args, **kwargs)

        return call


async def ended_batch(store: MongoStore) -> JobQuery:
    webhook = Webhook(url="https://example.org/hook", events=("completed", "error"))
    batch = Batch(webhook=webhook)
    await store.add([Job(batch_id=batch.batch_id) for _ in range(2)], batch=batch)
    query = JobQuery(batch_id=batch.batch_id)
    await store.cancel(query)
    return query


async def assert_consistent(store: MongoStore, db: Documents, query: JobQuery) -> None:
    """The batch has ended if and only if its jobs have, and then one event reports it."""
    assert query.batch_id is not None
    batch = await store.get_batch(query.batch_id)
    counts = Counter(JobStatus(job["status"]) for job in db.jobs.find())
    assert batch.counts == counts
    unfinished = counts[JobStatus.PENDING] + counts[JobStatus.PROCESSING]
    assert (batch.completed_at is None) == (unfinished > 0)
    waiting = [one for one in batch.deliveries if one.next_try_at is not None]
    events = await store.claim_events(event_capacity(lease=-LEASE))
    assert len(events) == len(waiting) == (0 if unfinished else 1)


@pytest.fixture(scope="module")
def server(mongod: Mongod, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mongod]:
    server = Mongod(tmp_path_factory.mktemp("fail-points"), fail_points=True)
    server.start()
    yield server
    server.stop()


class TestLostMajority:
    """A server whose writes no majority confirms, or that does not answer, at a test's command."""

    @contextlib.contextmanager
    def failing(self, server: Mongod, name: str, **data: Any) -> Iterator[None]:
        with pymongo.MongoClient[dict[str, Any]](server.url("admin")) as client:
            client.admin.command({"configureFailPoint": name, "mode": "alwaysOn", "data": data})
            try:
                yield
            finally:
                client.admin.command({"configureFailPoint": name, "mode": "off"})
                client["any"]["write"].insert_one({})  # makes the majority catch up

    async def test_the_end_of_a_batch_is_neither_shown_nor_sent_before_it_is_durable(
        self, server: Mongod
    ) -> None:
        url = new_url(server)
        async with opened(url) as store:
            webhook = Webhook(url="https://example.org/hook", events=("completed", "error"))
            batch, _ = await add_batch(store, 1, webhook=webhook)
            (job,) = await claim(store)
            with (
                pymongo.MongoClient[dict[str, Any]](url) as client,
                self.failing(server, "disableSnapshotting"),
            ):
                db = client.get_default_database()
                finishing = asyncio.create_task(store.finish(job, Completed()))
                await until(lambda: db.jobs.count_documents({"status": "completed"}) == 1)
                settling = asyncio.create_task(store.tidy())
                await until(lambda: db.batches.count_documents({"open": True}) == 0)
                current = await store.get_batch(batch.batch_id)
                assert (current.completed_at, current.deliveries) == (None, ())
            await asyncio.gather(finishing, settling)
            assert (await store.get_batch(batch.batch_id)).completed_at is not None

    async def test_a_renewal_that_hangs_fails_long_before_the_lease(self, server: Mongod) -> None:
        async with opened(new_url(server)) as store:
            await store.register_worker(worker(), timedelta(hours=1))
            hangs = {"failCommands": ["update"], "blockConnection": True, "blockTimeMS": 1000}
            with self.failing(server, "failCommand", **hangs), pytest.raises(StoreUnavailable):
                await store.renew("worker-1", timedelta(seconds=1))


class TestOutages:
    async def test_after_an_outage_live_workers_keep_their_jobs_also_if_a_process_starts_then(
        self, store: MongoStore, db: Documents
    ) -> None:
        job = await claimed(store, lease=timedelta(seconds=-1))
        db["meta"].insert_one({"_id": "rescue", "at": LONG_AGO})
        assert await store.rescue() == []
        await store.renew("worker-1", LEASE)
        assert await store.rescue() == []
        assert (await store.get(job.job_id)).status is JobStatus.PROCESSING

    async def test_a_worker_that_does_not_come_back_loses_its_jobs(
        self, store: MongoStore, db: Documents
    ) -> None:
        job = await claimed(store, lease=timedelta(seconds=-1))
        db["meta"].insert_one({"_id": "rescue", "at": LONG_AGO})
        assert await store.rescue() == []
        db["meta"].update_one({"_id": "rescue"}, {"$set": {"grace_until": LONG_AGO}})
        assert [one.job_id for one in await store.rescue()] == [job.job_id]

    async def test_a_worker_that_is_known_to_be_dead_is_not_waited_for(
        self, store: MongoStore, db: Documents
    ) -> None:
        job = await claimed(store, lease=LEASE)
        db["meta"].insert_one({"_id": "rescue", "at": LONG_AGO})
        assert [one.job_id for one in await store.rescue(dead=["worker-1"])] == [job.job_id]


def reopened(db: Documents, batch_id: str) -> int:
    update = {"$set": {"open": True}, "$inc": {"reopened": 1}}
    return db.batches.update_one({"_id": batch_id}, update).modified_count


def half_added(
    db: Documents, batch: Batch, jobs: list[Job], *, at: datetime, token: str = "half"
) -> None:
    """Reset an added batch to its state between the deciding write and its publication."""
    for n, job in enumerate(jobs):
        queue_position = {"line": f"{job.job_type}/0", "turn": n}
        staged = {"token": token, "at": at, "place": queue_position}
        update = {
            "$set": {"status": STAGED, "staged": staged},
            "$unset": {"line": "", "turn": ""},
        }
        db.jobs.update_one({"_id": job.job_id}, update)
    db.batches.update_one({"_id": batch.batch_id}, {"$set": {"staged": {"token": token, "at": at}}})
