"""Streams as clients read them: a real server on loopback, and a store whose jobs tests move."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from fastapi import FastAPI

from secretary.api import create_api
from secretary.desk import Desk
from secretary.events import Hub
from secretary.files import JobFiles
from secretary.handlers import BUILTIN
from secretary.job import AccessControl, Cancelled, Completed, Failed, Job, JobError, Progress
from secretary.registry import Registry
from secretary.store import JobQuery, JobStore, open_store
from tests.contract.given import add_batch, claim, claimed

from .streaming import Sent, StreamClient, served

ERROR = JobError(code="FILE_CORRUPT", message="It is torn", details={"page": 3})


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[JobStore]:
    store = open_store(f"sqlite://{tmp_path}/jobs.db")
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def hub(store: JobStore) -> AsyncIterator[Hub]:
    hub = Hub(store)
    yield hub
    await hub.close()


@pytest.fixture
def desk(store: JobStore, tmp_path: Path) -> Desk:
    return Desk(store, Registry(BUILTIN), JobFiles(tmp_path))


@pytest.fixture
def api(desk: Desk, hub: Hub) -> FastAPI:
    return create_api(desk, hub=hub, heartbeat_seconds=0.1)


@pytest.fixture
async def client(api: FastAPI) -> AsyncIterator[StreamClient]:
    async with served(api) as (url, _), StreamClient(url) as client:
        yield client


async def until(condition: Callable[[], bool], seconds: float = 5) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def names(events: list[Sent]) -> list[str]:
    return [event.name for event in events]


def path(job: Job) -> str:
    return f"/api/jobs/{job.job_id}/stream"


class TestOneJob:
    async def test_it_tells_the_state_and_each_change_to_the_end(
        self, client: StreamClient, store: JobStore
    ) -> None:
        job = Job(job_type="pdf")
        await store.add([job])
        ids = {"job": {"id": job.job_id}}
        ids |= {"process": {"id": job.job_id, "main_processor": "pdf"}}
        async with client.opened(path(job)) as stream:
            event = await stream.next()
            assert event is not None
            told = {"phase": "pending", "message": "queued", "data": {"progress": 0}}
            assert (event.name, event.document) == ("pending", ids | told)
            (running,) = await claim(store)
            await stream.until("progress")
            await store.report(running, Progress(step="ocr", percent=40, message="Page 4"))
            event = await stream.next()
            assert event is not None
            told = {"phase": "running", "message": "Page 4", "data": {"progress": 40}}
            assert (event.name, event.document) == ("progress", ids | told)
            results = {"extracted_text": "Grüße\n\ud800", "metadata": {"page_count": 1}, "x": 1}
            await store.finish(running, Completed(results))
            (event,) = await stream.rest()
            data = {key: results[key] for key in ("extracted_text", "metadata")}
            told = {"phase": "completed", "message": "completed", "data": data}
            assert (event.name, event.document) == ("completed", ids | told)

    async def test_a_failure_is_told_as_the_contract_says(
        self, client: StreamClient, store: JobStore
    ) -> None:
        job = await claimed(store)
        async with client.opened(path(job)) as stream:
            await stream.next()
            await store.finish(job, Failed(ERROR))
            (event,) = await stream.rest()
            assert event.name == "error"
            assert event.document["phase"] == "error"
            assert event.document["message"] == "It is torn"
            assert event.document["data"] is None
            assert event.document["error"] == ERROR.model_dump()

    async def test_a_cancellation_has_an_event_of_its_own(
        self, client: StreamClient, store: JobStore
    ) -> None:
        job = await claimed(store)
        async with client.opened(path(job)) as stream:
            await stream.next()
            await store.finish(job, Cancelled())
            (event,) = await stream.rest()
            assert (event.name, event.document["phase"]) == ("cancelled", "error")
            assert event.document["error"]["code"] == "CANCELLED"

    async def test_an_ended_job_is_told_at_once(
        self, client: StreamClient, store: JobStore
    ) -> None:
        job = await claimed(store)
        await store.finish(job, Completed())
        for slash in ("", "/"):
            async with client.opened(path(job) + slash) as stream:
                assert names(await stream.rest()) == ["completed"]

    async def test_a_retry_is_pending_again_and_starts_anew(
        self, client: StreamClient, store: JobStore
    ) -> None:
        job = await claimed(store)
        await store.report(job, Progress(step="x", percent=80))
        async with client.opened(path(job)) as stream:
            event = await stream.next()
            assert event is not None and event.document["data"] == {"progress": 80}
            await store.finish(job, Failed(ERROR, retry_at=job.created_at))
            assert (await stream.until("pending"))[-1].document["phase"] == "pending"
            await claim(store)
            assert (await stream.until("progress"))[-1].document["data"] == {"progress": 0}

    async def test_percent_never_goes_backwards_within_an_attempt(
        self, client: StreamClient, store: JobStore
    ) -> None:
        job = await claimed(store)
        async with client.opened(path(job)) as stream:
            for percent in (10, 50, 20, 60, 5):
                await store.report(job, Progress(step="x", percent=percent))
                await asyncio.sleep(0.01)
            await store.finish(job, Completed())
            told = [
                e.document["data"]["progress"] for e in await stream.rest() if e.name != "completed"
            ]
            assert told == sorted(told)

    async def test_it_beats_while_nothing_happens(
        self, client: StreamClient, store: JobStore
    ) -> None:
        job = await claimed(store)
        async with client.opened(path(job)) as stream:
            await stream.until_comment("heartbeat")
            await stream.until_comment("heartbeat")

    async def test_an_unknown_job_is_not_found(self, client: StreamClient, hub: Hub) -> None:
        response = await client.get("/api/jobs/job-none/stream")
        assert response.status_code == 404
        assert response.json()["error"]["code"] == "NOT_FOUND"
        assert hub.subscribers == 0


class TestComingBack:
    async def test_who_has_seen_the_current_state_gets_nothing_twice(
        self, client: StreamClient, store: JobStore
    ) -> None:
        job = await claimed(store)
        async with client.opened(path(job)) as stream:
            seen = await stream.next()
        assert seen is not None
        async with client.opened(path(job), seen=seen.event_id) as stream:
            await stream.until_comment("heartbeat")
            await store.finish(job, Completed())
            assert names(await stream.rest()) == ["completed"]

    async def test_who_missed_changes_gets_the_current_state(
        self, client: StreamClient, store: JobStore
    ) -> None:
        job = await claimed(store)
        async with client.opened(path(job)) as stream:
            seen = await stream.next()
        assert seen is not None
        await store.report(job, Progress(step="x", percent=7))
        async with client.opened(path(job), seen=seen.event_id) as stream:
            event = await stream.next()
            assert event is not None and event.document["data"] == {"progress": 7}

    async def test_who_has_seen_the_end_is_told_to_stay_away(
        self, client: StreamClient, store: JobStore
    ) -> None:
        job = await claimed(store)
        await store.finish(job, Completed())
        async with client.opened(path(job)) as stream:
            (event,) = await stream.rest()
        response = await client.get(path(job), headers={"Last-Event-ID": event.event_id})
        assert response.status_code == 204
        await store.restart(JobQuery(job_id=job.job_id))
        async with client.opened(path(job), seen=event.event_id) as stream:
            again = await stream.next()
            assert again is not None and again.name == "pending"

    async def test_each_of_many_returns_goes_on_where_the_last_one_ended(
        self, client: StreamClient, store: JobStore
    ) -> None:
        job = await claimed(store)
        seen: str | None = None
        told: list[int] = []
        for percent in range(1, 51):
            await store.report(job, Progress(step="x", percent=percent))
            async with client.opened(path(job), seen=seen) as stream:
                event = await stream.next()
                assert event is not None
                seen = event.event_id
                told.append(event.document["data"]["progress"])
        assert told == list(range(1, 51))


class TestWhoMay:
    async def test_a_strangers_job_is_not_found(
        self, client: StreamClient, store: JobStore
    ) -> None:
        access = AccessControl(read_access=("bob",))
        job = await claimed(store, user_id="ann", access_control=access)
        for user, status in (("eve", 404), ("ann", 200), ("bob", 200)):
            async with client.stream("GET", path(job), headers={"X-User-ID": user}) as response:
                assert response.status_code == status

    async def test_a_stream_ends_when_its_job_is_deleted(
        self, client: StreamClient, store: JobStore, hub: Hub
    ) -> None:
        job = Job()
        await store.add([job])
        async with client.opened(path(job)) as stream:
            await stream.next()
            await store.cancel(JobQuery(job_id=job.job_id))
            await store.delete(JobQuery(job_id=job.job_id))
            await stream.rest()
        await until(lambda: hub.subscribers == 0)


class TestLeaving:
    async def test_a_client_that_leaves_leaves_nothing_behind(
        self, client: StreamClient, store: JobStore, hub: Hub
    ) -> None:
        job = await claimed(store)
        batch, _ = await add_batch(store, 1)
        before = len(asyncio.all_tasks())
        for address in (path(job), f"/api/batches/{batch.batch_id}/stream", "/api/events"):
            async with client.opened(address) as stream:
                await stream.next()
                assert hub.subscribers == 1
            await until(lambda: hub.subscribers == 0, seconds=2)
        await until(lambda: len(asyncio.all_tasks()) <= before)

    async def test_streams_end_when_the_service_stops(
        self, api: FastAPI, store: JobStore, hub: Hub
    ) -> None:
        job = await claimed(store)
        async with (
            served(api) as (url, server),
            StreamClient(url) as client,
            client.opened(path(job)) as one,
            client.opened("/api/events") as everything,
        ):
            await one.next()
            await everything.next()
            hub.end()
            server.stop()
            assert await one.rest(seconds=2) == []
            assert await everything.rest(seconds=2) == []

    async def test_a_service_that_stops_still_tells_the_state(
        self, client: StreamClient, store: JobStore, hub: Hub
    ) -> None:
        hub.end()
        job = await claimed(store)
        batch, _ = await add_batch(store, 1)
        for address in (path(job), f"/api/batches/{batch.batch_id}/stream", "/api/events"):
            async with client.opened(address) as stream:
                assert await stream.rest()
        assert hub.subscribers == 0
