"""What every store guarantees for secrets."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from pymongo import MongoClient

from secretary.core.files import SECRET_BYTES
from secretary.core.job import (
    AccessControl,
    Batch,
    Cancelled,
    Completed,
    Failed,
    Job,
    JobError,
    Outcome,
)
from secretary.store import BatchQuery, JobQuery, Store, open_store

from ..mongod import Mongod
from .factories import claim, claimed

ERROR = JobError(code="FILE_ENCRYPTED", message="No")
GIVEN = {"password": "sesame", "url": "https://example.org", "extra": {"token": "t", "note": "n"}}
KEPT = {"url": "https://example.org", "extra": {"note": "n"}}


class TestParameters:
    async def test_a_job_that_has_completed_keeps_no_secret(self, store: Store) -> None:
        job = await claimed(store, parameters=GIVEN)
        assert job.parameters == GIVEN
        await store.finish(job, Completed({}))
        assert (await store.get(job.job_id)).parameters == KEPT

    async def test_nor_do_long_parameters(self, store: Store) -> None:
        text = "x" * 100_000
        job = await claimed(store, parameters={**GIVEN, "text": text})
        await store.finish(job, Completed({"text": text}))
        stored = await store.get(job.job_id)
        assert stored.parameters == {**KEPT, "text": text}
        assert stored.results == {"text": text}

    async def test_nor_is_one_left_where_mongodb_keeps_long_values(self, mongod: Mongod) -> None:
        url = mongod.url(f"test_{uuid4().hex[:12]}")
        store = open_store(url)
        await store.open()
        job = await claimed(store, parameters={**GIVEN, "text": "x" * 100_000})
        await store.finish(job, Completed({}))
        await store.close()
        with MongoClient[dict[str, Any]](url) as client:
            database = client.get_default_database()
            names = database.list_collection_names()
            everything = [list(database[name].find()) for name in names]
        assert "contents" in names
        assert "sesame" not in str(everything)

    @pytest.mark.parametrize("outcome", [Failed(ERROR), Cancelled()])
    async def test_one_that_can_be_restarted_keeps_what_it_needs(
        self, store: Store, outcome: Outcome
    ) -> None:
        job = await claimed(store, parameters=GIVEN)
        await store.finish(job, outcome)
        await store.restart(JobQuery(job_id=job.job_id))
        (again,) = await claim(store)
        assert again.parameters == GIVEN


class TestInstallation:
    async def test_all_processes_with_a_store_share_one_secret(
        self, store: Store, store_url: str
    ) -> None:
        others = [open_store(store_url) for _ in range(4)]
        await asyncio.gather(*(other.open() for other in others))
        known = {store.secret(), *(other.secret() for other in others)}
        await asyncio.gather(*(other.close() for other in others))
        assert len(known) == 1
        assert len(store.secret()) == SECRET_BYTES

    async def test_processes_that_start_together_create_one_secret(self, store_url: str) -> None:
        stores = [open_store(store_url) for _ in range(4)]
        await asyncio.gather(*(one.open() for one in stores))
        known = await asyncio.gather(*(asyncio.to_thread(one.secret) for one in stores))
        await asyncio.gather(*(one.close() for one in stores))
        assert len(set(known)) == 1


class TestNames:
    async def test_a_name_that_looks_like_everybody_is_nobodys_but_its_owners(
        self, store: Store
    ) -> None:
        listed = AccessControl(read_access=("*", "%", "bob*"))
        batch = Batch(user_id="*")
        jobs = [Job(user_id="*"), Job(user_id="ann", access_control=listed)]
        await store.add(
            [job.model_copy(update={"batch_id": batch.batch_id}) for job in jobs], batch=batch
        )
        assert (await store.find(JobQuery(visible_to="bob"))).items == []
        assert (await store.find_batches(BatchQuery(visible_to="bob"))).items == []
        assert len((await store.find(JobQuery(visible_to="ann"))).items) == 1
