"""Two versions on one MongoDB, as during a rolling update: what the newer one writes has fields
that this one does not know."""

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pymongo
import pytest
from pymongo.collection import Collection

from secretary.core.job import (
    Batch,
    Completed,
    Failed,
    Job,
    JobError,
    JobStatus,
    LogEntry,
    Progress,
    Webhook,
    utc_now,
)
from secretary.store import BatchQuery, JobQuery, Store, open_store
from tests.contract.factories import LEASE, claim, worker
from tests.mongod import Mongod

ERROR = JobError(code="UPSTREAM_FAILED", message="503", details={"service": "ocr"})
#: Their keys are chosen by clients, or are names that are counted.
NOT_OURS = {"parameters", "results", "details", "webhook", "types"}
NEWER = {"of_a_newer_version": {"nested": [1, "two"]}}


def newer(value: Any) -> Any:
    """The same with additional fields at every level."""
    if isinstance(value, dict):
        inner = {k: v if k in NOT_OURS or k == "_id" else newer(v) for k, v in value.items()}
        return inner | NEWER
    return [newer(one) for one in value] if isinstance(value, list) else value


class SharedDatabase:
    def __init__(self, url: str, name: str) -> None:
        self.store: Store = open_store(url)
        self._client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(url)
        self._database = self._client[name]

    def collections(self) -> Iterator[Collection[dict[str, Any]]]:
        for name in self._database.list_collection_names():
            if not name.startswith("system."):
                yield self._database[name]

    def renew_documents(self) -> int:
        """Rewrite everything stored as a newer version would have written it."""
        changed = 0
        for collection in self.collections():
            for document in collection.find():
                collection.replace_one({"_id": document["_id"]}, newer(document))
                changed += 1
        return changed

    async def close(self) -> None:
        await self.store.close()
        self._client.close()


@pytest.fixture
async def shared(mongod: Mongod) -> AsyncIterator[SharedDatabase]:
    name = f"test_{uuid4().hex[:12]}"
    shared = SharedDatabase(mongod.url(name), name)
    await shared.store.open()
    yield shared
    await shared.close()


async def some_work(store: Store) -> list[str]:
    """A finished job, one that failed once and waits, a running one, and one in the queue."""
    batch = Batch(webhook=Webhook(url="https://example.org/hook", headers={"x": "y"}))
    jobs = [
        Job(job_type="pdf", parameters={"n": n}, batch_id=batch.batch_id, user_id="ada")
        for n in range(4)
    ]
    await store.add(jobs, batch=batch)
    done, failed, running = await claim(store, slots=3)
    await store.report(done, Progress(percent=50, message="half"), [LogEntry(message="a line")])
    await store.finish(done, Completed({"structured_data": {"text": "x"}}))
    await store.finish(failed, Failed(ERROR, retry_at=utc_now() + timedelta(hours=1)))
    await store.report(running, Progress(percent=10, message="on it"))
    return [job.job_id for job in jobs]


async def test_what_a_newer_version_wrote_is_read(shared: SharedDatabase) -> None:
    store = shared.store
    ids = await some_work(store)
    before = [await store.get(job_id) for job_id in ids]
    listed = (await store.find(JobQuery(limit=10))).items
    batches = (await store.find_batches(BatchQuery(limit=10))).items
    workers = await store.workers()
    assert shared.renew_documents() > len(ids)
    assert [await store.get(job_id) for job_id in ids] == before
    assert (await store.find(JobQuery(limit=10))).items == listed
    assert (await store.find_batches(BatchQuery(limit=10))).items == batches
    assert await store.workers() == workers


async def test_what_a_newer_version_began_is_continued(shared: SharedDatabase) -> None:
    store = shared.store
    ids = await some_work(store)
    running = await store.get(ids[2])
    shared.renew_documents()
    await store.report(running, Progress(percent=90, message="nearly"))
    await store.finish(running, Completed({}))
    (waiting,) = await claim(store, slots=3)
    assert waiting.job_id == ids[3]
    await store.finish(waiting, Failed(ERROR))
    await store.restart(JobQuery(job_id=ids[3]))
    await store.cancel(JobQuery(job_id=ids[1]))
    states = [(await store.get(job_id)).status for job_id in ids]
    assert states == [
        JobStatus.COMPLETED, JobStatus.CANCELLED, JobStatus.COMPLETED, JobStatus.PENDING,
    ]  # fmt: skip


async def test_what_this_version_does_not_know_stays(shared: SharedDatabase) -> None:
    """It must still be there after a rollback and another update."""
    store = shared.store
    await some_work(store)
    shared.renew_documents()
    (waiting,) = await claim(store, slots=3)
    await store.report(waiting, Progress(percent=90, message="nearly"))
    await store.finish(waiting, Completed({}))
    await store.register_worker(worker(), LEASE)
    for name in ("jobs", "batches", "workers"):
        (collection,) = (one for one in shared.collections() if one.name == name)
        assert list(collection.find({next(iter(NEWER)): {"$exists": False}})) == [], name
