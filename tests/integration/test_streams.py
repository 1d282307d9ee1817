"""Event streams as clients read them: a real server on loopback; tests change the jobs."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fastapi import FastAPI

from secretary.api import create_api
from secretary.core.errors import StoreUnavailable
from secretary.core.job import AccessControl, Cancelled, Completed, Failed, Job, JobError, Progress
from secretary.handlers import BUILTIN
from secretary.jobs.events import EventHub
from secretary.jobs.handler import Registry
from secretary.jobs.service import JobService
from secretary.storage.artifacts import JobFiles
from secretary.store import JobQuery, Page, Store
from secretary.store.sqlite import SqliteStore
from tests.backends import files_in
from tests.contract.factories import add_batch, claim, claimed

from ..api_server import served
from ..polling import until
from ..stream_client import Sent, StreamClient

ERROR = JobError(code="FILE_CORRUPT", message="It is torn", details={"page": 3})


@pytest.fixture
async def hub(store: Store) -> AsyncIterator[EventHub]:
    hub = EventHub(store)
    yield hub
    await hub.close()


@pytest.fixture
def job_service(store: Store, tmp_path: Path) -> JobService:
    return JobService(store, Registry(BUILTIN), files_in(tmp_path, store))


@pytest.fixture
def api(job_service: JobService, hub: EventHub) -> FastAPI:
    return create_api(job_service, hub=hub, heartbeat_seconds=0.1)


@pytest.fixture
async def client(api: FastAPI) -> AsyncIterator[StreamClient]:
    async with served(api) as (url, _), StreamClient(url) as client:
        yield client


def names(events: list[Sent]) -> list[str]:
    return [event.name for event in events]


def path(job: Job) -> str:
    return f"/api/jobs/{job.job_id}/stream"


class TestOneJob:
    async def test_it_streams_the_state_and_each_change_to_the_end(
        self, client: StreamClient, store: Store
    ) -> None:
        job = Job(job_type="pdf")
        await store.add([job])
        ids = {"job": {"id": job.job_id}}
        ids |= {"process": {"id": job.job_id, "main_processor": "pdf"}}
        async with client.opened(path(job)) as stream:
            event = await stream.next()
            assert event is not None
            expected = {"phase": "pending", "message": "queued", "data": {"progress": 0}}
            assert (event.name, event.document) == ("pending", ids | expected)
            (running,) = await claim(store)
            await stream.until("progress")
            await store.report(running, Progress(step="ocr", percent=40, message="Page 4"))
            event = await stream.next()
            assert event is not None
            expected = {"phase": "running", "message": "Page 4", "data": {"progress": 40}}
            assert (event.name, event.document) == ("progress", ids | expected)
            results = {"extracted_text": "Grüße\n\ud800", "metadata": {"page_count": 1}, "x": 1}
            await store.finish(running, Completed(results))
            (event,) = await stream.rest()
            data = {key: results[key] for key in ("extracted_text", "metadata")}
            data["processId"] = job.job_id
            expected = {"phase": "completed", "message": "completed", "data": data}
            assert (event.name, event.document) == ("completed", ids | expected)

    async def test_a_failure_is_reported_as_the_contract_says(
        self, client: StreamClient, store: Store
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

    async def test_a_cancellation_ends_the_stream_with_an_error(
        self, client: StreamClient, store: Store
    ) -> None:
        job = await claimed(store)
        async with client.opened(path(job)) as stream:
            await stream.next()
            await store.finish(job, Cancelled())
            (event,) = await stream.rest()
            assert (event.name, event.document["phase"]) == ("error", "error")
            assert event.document["error"]["code"] == "CANCELLED"

    async def test_a_finished_job_is_reported_at_once(
        self, client: StreamClient, store: Store
    ) -> None:
        job = await claimed(store)
        await store.finish(job, Completed())
        for slash in ("", "/"):
            async with client.opened(path(job) + slash) as stream:
                assert names(await stream.rest()) == ["completed"]

    async def test_a_retry_is_pending_again_and_starts_anew(
        self, client: StreamClient, store: Store
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
        self, client: StreamClient, store: Store
    ) -> None:
        job = await claimed(store)
        percents = [0]
        async with client.opened(path(job)) as stream:
            for percent in (10, 50, 20, 60, 5):
                await store.report(job, Progress(step="x", percent=percent))
                while percents[-1] < percent:
                    event = await stream.next()
                    assert event is not None
                    percents.append(event.document["data"]["progress"])
            await store.finish(job, Completed())
            percents += [
                e.document["data"]["progress"] for e in await stream.rest() if e.name != "completed"
            ]
        assert percents == sorted(percents) and {10, 50, 60} <= set(percents)

    async def test_it_beats_while_nothing_happens(self, client: StreamClient, store: Store) -> None:
        job = await claimed(store)
        async with client.opened(path(job)) as stream:
            await stream.until_comment("heartbeat")
            await stream.until_comment("heartbeat")

    async def test_an_unknown_job_is_not_found(self, client: StreamClient, hub: EventHub) -> None:
        response = await client.get("/api/jobs/job-none/stream")
        assert response.status_code == 404
        assert response.json()["error"]["code"] == "NOT_FOUND"
        assert hub.subscribers == 0


class TestComingBack:
    async def test_who_has_seen_the_current_state_gets_nothing_twice(
        self, client: StreamClient, store: Store
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
        self, client: StreamClient, store: Store
    ) -> None:
        job = await claimed(store)
        async with client.opened(path(job)) as stream:
            seen = await stream.next()
        assert seen is not None
        await store.report(job, Progress(step="x", percent=7))
        async with client.opened(path(job), seen=seen.event_id) as stream:
            event = await stream.next()
            assert event is not None and event.document["data"] == {"progress": 7}

    async def test_a_client_that_saw_the_end_is_asked_not_to_reconnect(
        self, client: StreamClient, store: Store
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
        self, client: StreamClient, store: Store
    ) -> None:
        job = await claimed(store)
        seen: str | None = None
        received: list[int] = []
        for percent in range(1, 51):
            await store.report(job, Progress(step="x", percent=percent))
            async with client.opened(path(job), seen=seen) as stream:
                event = await stream.next()
                assert event is not None
                seen = event.event_id
                received.append(event.document["data"]["progress"])
        assert received == list(range(1, 51))


class TestWhoMay:
    async def test_a_strangers_job_is_not_found(self, client: StreamClient, store: Store) -> None:
        access = AccessControl(read_access=("bob",))
        job = await claimed(store, user_id="ann", access_control=access)
        for user, status in (("eve", 404), ("ann", 200), ("bob", 200)):
            async with client.stream("GET", path(job), headers={"X-User-ID": user}) as response:
                assert response.status_code == status

    async def test_a_stream_ends_when_its_job_is_deleted(
        self, client: StreamClient, store: Store, hub: EventHub
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
        self, client: StreamClient, store: Store, hub: EventHub
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
        self, api: FastAPI, store: Store, hub: EventHub
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
            hub.stop()
            server.stop()
            assert await one.rest(seconds=2) == []
            assert await everything.rest(seconds=2) == []

    async def test_a_stopping_service_still_sends_the_state(
        self, client: StreamClient, store: Store, hub: EventHub
    ) -> None:
        hub.stop()
        job = await claimed(store)
        batch, _ = await add_batch(store, 1)
        for address in (path(job), f"/api/batches/{batch.batch_id}/stream", "/api/events"):
            async with client.opened(address) as stream:
                assert await stream.rest()
        assert hub.subscribers == 0


class TestOneBatch:
    async def test_it_streams_the_batch_then_its_jobs_each_followed_by_the_batch(
        self, client: StreamClient, store: Store
    ) -> None:
        batch, _ = await add_batch(store, 2)
        async with client.opened(f"/api/batches/{batch.batch_id}/stream") as stream:
            event = await stream.next()
            assert event is not None
            assert event.name == "pending"
            assert event.document["batch"] == {"id": batch.batch_id}
            assert event.document["process"] == {"id": batch.batch_id, "main_processor": "batch"}
            assert event.document["data"]["pending_jobs"] == 2
            (first,) = await claim(store)
            of_job, of_batch = await stream.next(), await stream.next()
            assert of_job is not None and of_batch is not None
            assert (of_job.name, of_job.document["job"]) == ("progress", {"id": first.job_id})
            assert of_batch.document["data"]["processing_jobs"] == 1
            await store.finish(first, Failed(ERROR))
            assert names(await stream.until("error"))[-1] == "error"
            (second,) = await claim(store)
            await store.finish(second, Completed({"x": 1}))
            *others, of_batch = await stream.rest()
            of_job = [event for event in others if "job" in event.document][-1]
            assert of_job.document["job"] == {"id": second.job_id}
            assert of_job.document["data"] is not None
            assert (of_batch.name, of_batch.document["phase"]) == ("completed", "completed")
            assert of_batch.document["data"]["completed_at"] is not None
            assert of_batch.document["data"]["progress"] == 100

    async def test_who_comes_back_gets_what_it_missed_and_no_more(
        self, client: StreamClient, store: Store
    ) -> None:
        batch, (job,) = await add_batch(store, 1)
        address = f"/api/batches/{batch.batch_id}/stream/"
        async with client.opened(address) as stream:
            seen = await stream.next()
        assert seen is not None
        async with client.opened(address, seen=seen.event_id) as stream:
            await stream.until_comment("heartbeat")
        await store.cancel(JobQuery(job_id=job.job_id))
        await store.add([Job()])
        async with client.opened(address, seen=seen.event_id) as stream:
            events = await stream.rest()
        assert events[0].name == "error"
        assert {event.name for event in events[1:]} == {"error"}
        assert events[0].event_id == seen.event_id  # resuming from here would repeat all of them
        response = await client.get(address, headers={"Last-Event-ID": events[-1].event_id})
        assert response.status_code == 204

    async def test_an_unknown_position_begins_anew(
        self, client: StreamClient, store: Store
    ) -> None:
        batch, _ = await add_batch(store, 1)
        for seen in ("start", "x", "99999999999"):
            address = f"/api/batches/{batch.batch_id}/stream"
            async with client.opened(address, seen=seen) as stream:
                event = await stream.next()
                assert event is not None and event.name == "pending"

    async def test_unknown_and_strangers_batches_are_not_found(
        self, client: StreamClient, store: Store, hub: EventHub
    ) -> None:
        batch, _ = await add_batch(store, 1, user_id="ann")
        for batch_id in ("batch-none", batch.batch_id):
            response = await client.get(
                f"/api/batches/{batch_id}/stream", headers={"X-User-ID": "eve"}
            )
            assert response.status_code == 404
        assert hub.subscribers == 0

    async def test_it_ends_when_its_batch_is_deleted(
        self, client: StreamClient, store: Store, job_service: JobService
    ) -> None:
        batch, _ = await add_batch(store, 2)
        async with client.opened(f"/api/batches/{batch.batch_id}/stream") as stream:
            await stream.next()
            await job_service.cancel_batch(batch.batch_id)
            await job_service.delete_batch(batch.batch_id)
            await stream.rest()


class TestEverything:
    async def test_it_begins_with_what_is_under_way_and_goes_on(
        self, client: StreamClient, store: Store
    ) -> None:
        ended = await claimed(store)
        await store.finish(ended, Completed())
        running, waiting = await claimed(store), Job()
        await store.add([waiting])
        async with client.opened("/api/events") as stream:
            first, second = await stream.next(), await stream.next()
            assert first is not None and second is not None
            assert (first.name, first.document["job"]["id"]) == ("progress", running.job_id)
            assert (second.name, second.document["job"]["id"]) == ("pending", waiting.job_id)
            await store.finish(running, Completed({"x": 1}))
            (event,) = await stream.until("completed")
            assert event.document["job"]["id"] == running.job_id

    async def test_a_stream_with_nothing_to_tell_says_where_it_begins(
        self, client: StreamClient, store: Store
    ) -> None:
        await store.finish(await claimed(store), Completed({}))
        async with client.stream("GET", "/api/events") as response:
            first = await anext(response.aiter_lines())
        assert first.startswith("id: ")
        missed = await claimed(store)
        await store.finish(missed, Completed({}))
        async with client.opened("/api/events", seen=first.removeprefix("id: ")) as stream:
            (event,) = await stream.until("completed")
            assert event.document["job"]["id"] == missed.job_id

    async def test_who_comes_back_gets_all_it_missed(
        self, client: StreamClient, store: Store
    ) -> None:
        await store.add([Job()])
        async with client.opened("/api/events") as stream:
            seen = await stream.next()
        assert seen is not None
        jobs = [Job() for _ in range(5)]
        for job in jobs:
            await store.add([job])
        received: list[str] = []
        last = seen.event_id
        async with client.opened("/api/events/", seen=last) as stream:
            for _ in jobs:
                event = await stream.next()
                assert event is not None
                received.append(event.document["job"]["id"])
                last = event.event_id
        assert received == [job.job_id for job in jobs]
        async with client.opened("/api/events", seen=last) as stream:
            await stream.until_comment("heartbeat")
            assert stream.comments == []

    async def test_a_user_gets_only_events_of_visible_jobs(
        self, client: StreamClient, store: Store
    ) -> None:
        await store.add([Job(user_id="ann")])
        async with client.opened("/api/events", **{"X-User-ID": "bob"}) as stream:
            await store.add([Job(user_id="ann")])
            mine = Job(user_id="bob")
            await store.add([mine])
            event = await stream.next()
            assert event is not None and event.document["job"]["id"] == mine.job_id

    async def test_a_slow_reader_gets_the_latest_state_of_each_job(
        self, client: StreamClient, store: Store
    ) -> None:
        job = await claimed(store)
        async with client.opened("/api/events") as stream:
            for percent in range(100):
                await store.report(job, Progress(step="x", percent=percent))
            await store.finish(job, Completed())
            events = await stream.until("completed")
            assert len(events) < 50

    async def test_batch_changes_are_streamed_too(self, client: StreamClient, store: Store) -> None:
        async with client.opened("/api/events") as stream:
            batch, (job,) = await add_batch(store, 1)
            received: set[str] = set()
            while received != {job.job_id, batch.batch_id}:
                event = await stream.next()
                assert event is not None
                received.add(event.document["process"]["id"])
            await store.cancel(JobQuery(job_id=job.job_id))
            cancelled = (await stream.until("error"))[-1]
            assert cancelled.document["error"]["code"] == "CANCELLED"


class TestTrouble:
    async def test_a_stream_outlives_a_store_that_is_away(self, tmp_path: Path) -> None:
        """From the stream's view: a failed read is repeated."""
        flaky = FlakyStore(f"sqlite://{tmp_path}/flaky.db")
        await flaky.open()
        hub = EventHub(flaky)
        api = create_api(JobService(flaky, Registry(BUILTIN), JobFiles(tmp_path)), hub=hub)
        job = await claimed(flaky)
        async with served(api) as (url, _), StreamClient(url) as own:
            flaky.failures = 1
            response = await own.get(path(job))
            assert response.status_code == 503
            async with own.opened(path(job)) as stream:
                await stream.next()
                flaky.failures = 1
                await flaky.finish(job, Completed())
                assert names(await stream.rest()) == ["completed"]
        assert flaky.failures == 0
        await hub.close()
        await flaky.close()


class FlakyStore(SqliteStore):
    failures = 0

    async def find(self, query: JobQuery) -> Page[Job]:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("gone")
        return await super().find(query)


async def test_without_a_key_there_is_no_stream(job_service: JobService) -> None:
    async with (
        served(create_api(job_service, api_keys=["right"])) as (url, _),
        StreamClient(url) as client,
    ):
        for address in ("/api/jobs/x/stream", "/api/batches/x/stream", "/api/events"):
            assert (await client.get(address)).status_code == 401
            assert (await client.get(address + "/")).status_code == 401
