"""However long a job lives and whatever its workers write, its document in MongoDB stays small."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import bson
import pymongo
import pytest

from secretary.core.job import (
    Batch,
    Completed,
    DeliveryAttempt,
    Failed,
    Job,
    JobError,
    LogEntry,
    Progress,
    Webhook,
    utc_now,
)
from secretary.store import IdempotencyKey, JobQuery, Store, open_store
from secretary.store.mongo.schema import INLINE_BYTES, truncate
from tests.contract.factories import claim
from tests.contract.test_webhooks import take_one
from tests.mongod import Mongod

MOST_BYTES = 16 * 1024
HOOK = Webhook(url="https://portal.example/hooks/jobs", token="t" * 64, secret="s" * 64)
LONG = "There was something wrong with this document, ä and ö. " * 200


@dataclass(frozen=True)
class StoreUnderTest:
    store: Store
    database: "pymongo.database.Database[dict[str, Any]]"

    def bytes_of(self, job_id: str) -> int:
        document = self.database["jobs"].find_one({"_id": job_id})
        assert document is not None
        return len(bson.encode(document))


@pytest.fixture
def database(mongod: Mongod) -> Iterator["pymongo.database.Database[dict[str, Any]]"]:
    url = mongod.url(f"test_{uuid4().hex[:12]}")
    with pymongo.MongoClient[dict[str, Any]](url) as client:
        yield client.get_default_database()


@pytest.fixture
async def place(
    mongod: Mongod, database: "pymongo.database.Database[dict[str, Any]]"
) -> AsyncIterator[StoreUnderTest]:
    store = open_store(mongod.url(database.name))
    await store.open()
    yield StoreUnderTest(store, database)
    await store.close()


async def fail(store: Store, job: Job, *, final: bool) -> None:
    details = {"lines": [LONG] * 5}
    error = JobError(code="UPSTREAM_FAILED", message=LONG, details=details)
    await store.finish(job, Failed(error, retry_at=None if final else utc_now()))


async def test_many_attempts_restarts_deliveries_and_logs_do_not_make_it_grow(
    place: StoreUnderTest,
) -> None:
    store = place.store
    # As long as it may be inside the document.
    value = {"text": "x" * (INLINE_BYTES - 100)}
    job = Job(job_type="pdf", parameters=value, webhook=HOOK, user_id="anna", job_name="n" * 500)
    (job_id,) = (await store.add([job])).job_ids
    for run in range(15):
        for _ in range(3):
            (job,) = await claim(store)
            logs = [LogEntry(message=LONG)] * 100
            await store.report(job, Progress(step=LONG, percent=50, message=LONG), logs)
            await fail(store, job, final=False)
        (job,) = await claim(store)
        if run % 2:
            await store.finish(job, Completed(value), resources={"cpu_seconds": 1.5})
        else:
            await fail(store, job, final=True)
        for _ in range(12):
            tried = DeliveryAttempt(at=utc_now(), error=LONG, duration_ms=30_000)
            await store.record_delivery(await take_one(store), tried, next_try_at=utc_now())
        assert place.bytes_of(job_id) < MOST_BYTES
        await store.restart(JobQuery(job_id=job_id))

    stored = await store.get(job_id)
    assert stored.attempt == 60
    assert [attempt.attempt for attempt in stored.attempts] == list(range(51, 61))
    assert stored.parameters == value
    assert stored.deliveries[-1].n == 15
    assert place.database["contents"].count_documents({}) == 0  # everything is inside


async def test_values_that_are_long_only_in_bson_lie_outside(place: StoreUnderTest) -> None:
    numbers = {"numbers": [1] * 1_000}
    (job_id,) = (await place.store.add([Job(job_type="pdf", parameters=numbers)])).job_ids

    assert place.bytes_of(job_id) < 2_000
    assert (await place.store.get(job_id)).parameters == numbers


async def test_the_key_of_a_large_batch_is_small_and_finds_its_jobs_again(
    place: StoreUnderTest,
) -> None:
    batch = Batch()
    jobs = [Job(job_type="pdf", batch_id=batch.batch_id) for _ in range(500)]
    key = IdempotencyKey("again", "fingerprint")
    added = await place.store.add(jobs, batch=batch, idempotency=key)
    replayed = await place.store.add(jobs, batch=batch, idempotency=key)

    assert (replayed.job_ids, replayed.batch_id) == (added.job_ids, batch.batch_id)
    assert (added.replayed, replayed.replayed) == (False, True)
    (key_document,) = place.database["idempotency_keys"].find()
    assert len(bson.encode(key_document)) < 1_000


async def test_no_log_entry_is_in_the_document(place: StoreUnderTest) -> None:
    store = place.store
    await store.add([Job(job_type="pdf")])
    (job,) = await claim(store)
    await store.report(job, None, [LogEntry(message="first")])
    before = place.bytes_of(job.job_id)
    await store.report(job, None, [LogEntry(message=LONG)] * 2_000)

    assert place.bytes_of(job.job_id) == before


def test_a_long_text_is_cut_between_letters() -> None:
    assert truncate("kurz", 100) == "kurz"
    cut = truncate("ä" * 100, 100)
    assert cut == "ä" * 48 + "…"
    assert len(cut.encode()) <= 100
