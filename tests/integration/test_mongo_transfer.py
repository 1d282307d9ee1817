"""What an interrupted copy into MongoDB leaves behind, and copies out of an unfinished store."""

import gc
import warnings
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pymongo
import pytest
from pymongo.database import Database

from secretary.core.errors import StoreUnavailable
from secretary.core.job import Batch, Job, LogEntry
from secretary.migration.legacy import open_legacy_source
from secretary.store import IdempotencyKey, JobQuery
from secretary.store.mongo import MongoStore
from secretary.store.mongo.schema import STAGED
from secretary.store.transfer import JobRecord, KeyRecord

from ..mongod import Mongod

Documents = Database[dict[str, Any]]
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


@pytest.fixture(params=["replica set", "standalone"], scope="module")
def server(
    request: pytest.FixtureRequest, mongod: Mongod, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mongod]:
    if request.param == "replica set":
        yield mongod
        return
    alone = Mongod(tmp_path_factory.mktemp("alone"), replica_set=None)
    alone.start()
    yield alone
    alone.stop()


@pytest.fixture
def url(server: Mongod) -> str:
    return server.url(f"test_{uuid4().hex[:12]}")


@pytest.fixture
async def store(url: str) -> AsyncIterator[MongoStore]:
    store = MongoStore(url)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def database(url: str) -> Iterator[Documents]:
    with pymongo.MongoClient[dict[str, Any]](url) as client:
        yield client.get_default_database()


def record(**fields: Any) -> JobRecord:
    logs = tuple(LogEntry(message=f"line {n}") for n in range(300))
    return JobRecord(job=Job(parameters={"text": "x" * 20_000}, logs=logs, **fields))


async def half_written(store: MongoStore, database: Documents) -> JobRecord:
    job = record()
    await store.import_records([job])
    unfinished = {
        "status": STAGED,
        "batch_id": "_copy",
        "staged": {"token": "_copy", "at": LONG_AGO},
    }
    database.jobs.replace_one({"_id": job.record_id}, unfinished)
    return job


async def test_what_was_half_written_is_written_again_and_not_twice(
    store: MongoStore, database: Documents
) -> None:
    job = await half_written(store, database)
    assert not (await store.find(JobQuery())).items
    assert await store.import_records([job]) == {job.record_id}
    assert database.logs.count_documents({}) == 2
    assert database.contents.count_documents({}) == 1
    assert len((await store.get(job.record_id)).logs) == 300


async def test_what_was_never_finished_is_tidied_away(
    store: MongoStore, database: Documents
) -> None:
    await half_written(store, database)
    database.contents.update_many({}, {"$set": {"at": "2000-01-01T00:00:00.000000Z"}})
    await store.tidy()
    await store.tidy()
    assert [database[name].count_documents({}) for name in ("jobs", "logs", "contents")] == [
        0,
        0,
        0,
    ]


async def test_followers_see_the_imported_records(store: MongoStore) -> None:
    before = (await store.changes(None)).position
    job = record()
    await store.import_records([job])
    changes = await store.changes(before, seconds=5)
    assert job.record_id in {change.job_id for change in changes.items}


async def test_a_batch_that_nobody_sees_yet_is_copied(
    store: MongoStore, database: Documents
) -> None:
    """The process that added it died before publishing its jobs."""
    batch = Batch()
    jobs = [Job(batch_id=batch.batch_id) for _ in range(3)]
    key = IdempotencyKey("k", "print")
    await store.add(jobs, batch=batch, idempotency=key)
    staged = {"token": "t", "at": LONG_AGO}
    for job in database.jobs.find():
        queue_position = {"line": job["line"], "turn": job["turn"]}
        hidden = {"$set": {"status": STAGED, "staged": {**staged, "place": queue_position}}}
        database.jobs.update_one({"_id": job["_id"]}, hidden | {"$unset": {"line": "", "turn": ""}})
    database.batches.update_one({}, {"$set": {"staged": staged}})
    database.idempotency_keys.update_one({}, {"$unset": {"job_ids": "", "batch_id": ""}})
    records = [one async for group in store.records("jobs") for one in group]
    assert [one.record_id for one in records] == [job.job_id for job in jobs]
    assert [one.position for one in records if isinstance(one, JobRecord)] == [0, 1, 2]
    (key_record,) = [one async for group in store.records("keys") for one in group]
    assert isinstance(key_record, KeyRecord)
    assert (key_record.batch_id, list(key_record.job_ids)) == (
        batch.batch_id,
        [job.job_id for job in jobs],
    )


async def test_a_key_under_which_nothing_was_stored_stays_behind(
    store: MongoStore, database: Documents
) -> None:
    await store.add([Job()], idempotency=IdempotencyKey("k", "print"))
    database.idempotency_keys.update_one({}, {"$unset": {"job_ids": ""}})
    assert [len(group) async for group in store.records("keys")] == [1]
    database.jobs.delete_many({})
    assert [len(group) async for group in store.records("keys")] == [0]


async def test_an_older_service_that_does_not_answer_leaves_no_client_open() -> None:
    with warnings.catch_warnings(action="ignore"):
        gc.collect()  # garbage of other tests
    older = open_legacy_source("mongodb://127.0.0.1:9/older?serverSelectionTimeoutMS=50")
    with pytest.raises(StoreUnavailable):
        await older.__aenter__()
    with warnings.catch_warnings(record=True, action="always") as caught:
        del older
        gc.collect()
    # The driver warns about a client that was not closed. On a busy machine, cancelling its monitor
    # while it connects leaks a socket of the driver's own.
    assert not [one for one in caught if "MongoClient" in str(one.message)]
