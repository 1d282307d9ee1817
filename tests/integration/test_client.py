"""Both clients against the real service, also over a connection that breaks."""

import asyncio
import inspect
import io
import zipfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from secretary.api import create_api
from secretary.client import (
    ApiError,
    AsyncClient,
    AsyncJob,
    Client,
    Event,
    Job,
    JobCancelled,
    JobFailed,
    NotFound,
    Progress,
    Retries,
    Task,
    Unreachable,
    WaitTimeout,
    verify_webhook,
)
from secretary.core.job import Completed, Failed, JobError
from secretary.core.job import Progress as Reported
from secretary.handlers import BUILTIN
from secretary.jobs.events import EventHub
from secretary.jobs.handler import Registry
from secretary.jobs.service import JobService
from secretary.store import JobQuery, Store, open_store
from tests.backends import files_in, stored_uploads
from tests.contract.factories import claim

from ..api_server import served
from ..faulty_proxy import Fault, breaking, reply
from ..minimal_files import pdf
from ..polling import until
from ..service_fixture import running_service
from ..webhook_receiver import Receiver

QUICK = Retries(first_wait=0.01, longest_wait=0.05)
BUSY = (
    b'{"status":"error","error":{"code":"UNAVAILABLE","message":"The store rests","details":null}}'
)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """Tests change its jobs themselves; no worker runs."""
    store = open_store(f"sqlite://{tmp_path}/jobs.db")
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def url(store: Store, tmp_path: Path) -> AsyncIterator[str]:
    hub = EventHub(store)
    async with served(api_of(store, tmp_path, hub)) as (url, _):
        yield url
    await hub.close()


def api_of(store: Store, directory: Path, hub: EventHub, **options: Any) -> FastAPI:
    job_service = JobService(store, Registry(BUILTIN), files_in(directory, store))
    return create_api(job_service, hub=hub, heartbeat_seconds=0.1, **options)


Kind = Callable[..., Client | AsyncClient]


@pytest.fixture(params=[Client, AsyncClient])
def kind(request: pytest.FixtureRequest) -> Kind:
    """What holds for one client holds for the other."""

    def make(url: str, **options: Any) -> Client | AsyncClient:
        client: Client | AsyncClient = request.param(url, **{"retries": QUICK, **options})
        return client

    return make


async def call(method: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call a method of either client; the blocking one in a thread."""
    if inspect.iscoroutinefunction(method):
        return await method(*args, **options)
    return await asyncio.to_thread(method, *args, **options)


async def collected(items: Any) -> list[Any]:
    if hasattr(items, "__aiter__"):
        return [item async for item in items]
    return await asyncio.to_thread(list, items)


async def taken(items: Any, enough: Callable[[list[Any]], bool]) -> list[Any]:
    """Collect items until there are enough."""

    def take() -> list[Any]:
        first_items: list[Any] = []
        for item in items:
            first_items.append(item)
            if enough(first_items):
                break
        items.close()
        return first_items

    if not hasattr(items, "__aiter__"):
        return await asyncio.wait_for(asyncio.to_thread(take), 20)
    first_items: list[Any] = []
    async for item in items:
        first_items.append(item)
        if enough(first_items):
            break
    await items.aclose()
    return first_items


async def count(store: Store) -> int:
    return len((await store.find(JobQuery(limit=100))).items)


async def finish(store: Store, results: dict[str, Any] | None = None) -> str:
    (job,) = await claim(store)
    await store.finish(job, Completed(results or {}))
    return job.job_id


class TestJobs:
    async def test_a_job_is_submitted_awaited_and_read(
        self, kind: Kind, url: str, store: Store
    ) -> None:
        client = kind(url)
        job = await call(client.submit, "selftest", seconds=2, priority=7, job_name="Mine")
        assert (job.status, job.document.priority, job.label) == ("pending", 7, "Mine")
        assert job.document.parameters == {"seconds": 2}
        seen: list[Progress] = []
        waiting = asyncio.create_task(call(job.wait, progress=seen.append, timeout=20))
        (claimed,) = await claim(store)
        await store.report(claimed, Reported(step="half", percent=50, message="Half of it"))
        while not any(update.percent == 50 for update in seen):
            await asyncio.sleep(0.01)
        await store.finish(claimed, Completed({"structured_data": {"a": 1}}))
        await waiting
        assert (job.status, seen[-1].percent) == ("completed", 100)
        results = await call(job.result)
        assert results.structured_data == {"a": 1}
        assert results.raw["markdown_content"] is None
        await call(client.close)

    async def test_a_job_that_failed_raises_its_error(
        self, kind: Kind, url: str, store: Store
    ) -> None:
        client = kind(url)
        job = await call(client.submit, "selftest")
        (claimed,) = await claim(store)
        error = JobError(code="FILE_CORRUPT", message="It is torn", details={"page": 3})
        await store.finish(claimed, Failed(error))
        with pytest.raises(JobFailed, match="It is torn") as caught:
            await call(job.result, timeout=20)
        assert (caught.value.code, caught.value.details) == ("FILE_CORRUPT", {"page": 3})
        assert caught.value.job_id == job.id
        await call(client.close)

    async def test_a_job_is_cancelled_restarted_and_deleted(self, kind: Kind, url: str) -> None:
        client = kind(url)
        job = await call(client.submit, "selftest")
        await call(job.cancel)
        with pytest.raises(JobCancelled):
            await call(job.result, timeout=20)
        await call(job.restart)
        assert job.status == "pending"
        with pytest.raises(ApiError) as caught:
            await call(job.delete)
        assert (caught.value.status, caught.value.code) == (409, "CONFLICT")
        await call(job.cancel)
        await call(job.delete)
        with pytest.raises(NotFound, match=job.id):
            await call(client.job, job.id)
        await call(client.close)

    async def test_wait_times_out(self, kind: Kind, url: str) -> None:
        client = kind(url)
        job = await call(client.submit, "selftest")
        with pytest.raises(WaitTimeout, match="has not ended within"):
            await call(job.wait, timeout=0.2)
        await call(client.close)

    async def test_a_callback_may_use_the_client(self, url: str) -> None:
        """It runs in the waiting thread, so it can cancel the job that is waited for."""

        def use() -> str:
            with Client(url, retries=QUICK) as client:
                job = client.submit("selftest")
                job.wait(progress=lambda update: job.cancel(), timeout=20)
                return job.status

        assert await asyncio.to_thread(use) == "cancelled"

    async def test_lists_span_pages(self, kind: Kind, url: str) -> None:
        client = kind(url)
        made = [(await call(client.submit, "selftest")).id for _ in range(5)]
        jobs = await collected(client.jobs(job_type="selftest", status="pending", page_size=2))
        assert [job.id for job in jobs] == made[::-1]
        assert await collected(client.jobs(status="failed")) == []
        await call(client.close)

    async def test_api_errors_are_passed_on(self, kind: Kind, url: str) -> None:
        client = kind(url)
        with pytest.raises(ApiError, match="extraction_method") as caught:
            await call(client.submit, "pdf", url="https://example.org", extraction_method="x")
        assert caught.value.status == 400
        assert caught.value.details["problems"][0]["field"] == "parameters.extraction_method"
        with pytest.raises(ValueError, match="takes no file"):
            await call(client.submit, "selftest", file=b"x")
        await call(client.close)

    @pytest.mark.parametrize("job_id", ["../job-types", "x?y", "batch/x", ".."])
    async def test_ids_are_escaped_in_paths(self, kind: Kind, url: str, job_id: str) -> None:
        client = kind(url)
        with pytest.raises(NotFound):
            await call(client.job, job_id)
        await call(client.close)

    async def test_health_and_job_types_are_available(self, kind: Kind, url: str) -> None:
        client = kind(url)
        assert (await call(client.health)).store == {"kind": "sqlite", "answers": True}
        types = {each.job_type: each for each in await call(client.job_types)}
        assert "seconds" in types["selftest"].parameters["properties"]
        await call(client.close)


class TestBatches:
    async def test_a_batch_is_paused_resumed_and_awaited(
        self, kind: Kind, url: str, store: Store
    ) -> None:
        client = kind(url)
        jobs = [Task("selftest", {"seconds": 0}), {"job_type": "selftest"}]
        batch = await call(client.batch, jobs, name="Two", active=False)
        assert (batch.name, batch.is_active, len(batch.job_ids)) == ("Two", False, 2)
        assert await claim(store) == []
        await call(batch.resume)
        waiting = asyncio.create_task(call(batch.wait, timeout=20))
        await finish(store)
        (second,) = await claim(store)
        await store.finish(second, Failed(JobError(code="FILE_CORRUPT", message="It is torn")))
        await waiting
        assert (batch.status, batch.progress.message) == ("completed", "2 of 2 jobs have ended")
        (failed,) = await collected(batch.jobs(status="failed"))
        assert failed.error.code == "FILE_CORRUPT"
        await call(batch.restart_failed)
        assert batch.document.pending_jobs == 1
        await call(batch.pause)
        assert not (await call(client.find_batch, batch.id)).is_active
        await call(batch.cancel)
        assert batch.document.cancelled_jobs == 1
        assert [each.id for each in await collected(client.batches())] == [batch.id]
        await call(client.close)

    async def test_a_batch_may_mix_files_and_urls(
        self, kind: Kind, url: str, tmp_path: Path
    ) -> None:
        (tmp_path / "one.pdf").write_bytes(pdf("One"))
        client = kind(url)
        jobs = [
            {"file": tmp_path / "one.pdf", "parameters": {"extraction_method": "native"}},
            Task("pdf", {"url": "https://example.org/two.pdf"}),
            Task("pdf", file=pdf("Three"), file_name="three.pdf", job_name="The third"),
        ]
        batch = await call(client.batch, jobs, name="Three", active=False)
        assert (batch.name, batch.is_active, len(batch.job_ids)) == ("Three", False, 3)
        documents = [(await call(client.job, one)).document for one in batch.job_ids]
        assert [job.job_type for job in documents] == ["pdf"] * 3
        names = [(job.parameters.get("file_source") or {}).get("name") for job in documents]
        assert names == ["one.pdf", None, "three.pdf"]
        assert documents[2].job_name == "The third"
        await call(client.close)


class TestAccess:
    async def test_requests_carry_the_key_and_user(
        self, kind: Kind, store: Store, tmp_path: Path
    ) -> None:
        hub = EventHub(store)
        api = api_of(store, tmp_path, hub, api_keys=["key-1", "key-2:bert"])
        async with served(api) as (url, _):
            nobody, anna, bert = (
                kind(url),
                kind(url, api_key="key-1", user="Änna"),
                kind(url, api_key="key-2"),
            )
            with pytest.raises(ApiError) as caught:
                await call(nobody.submit, "selftest")
            assert (caught.value.status, caught.value.code) == (401, "UNAUTHORIZED")
            job = await call(anna.submit, "selftest")
            assert (await call(anna.job, job.id)).document.user_id == "Änna"
            with pytest.raises(NotFound):
                await call(bert.job, job.id)
            for client in (nobody, anna, bert):
                await call(client.close)
        await hub.close()


#: Where a request can break: before the service has it, in the middle, and after it.
SUBMITS = [
    {"request_bytes": 0},
    {"request_bytes": 300},
    {"answer_bytes": 0},
    {"answer_bytes": 20},
    {"answer_bytes": 700},
    {"reply": reply("503 Service Unavailable", "Retry-After: 0", body=BUSY)},
    {"reply": reply("429 Too Many Requests", "Retry-After: 0")},
    {"reply": reply("502 Bad Gateway", body=b"<html>no</html>")},
]


class TestBrokenConnections:
    @pytest.mark.parametrize("fault", SUBMITS, ids=lambda fault: "-".join(fault))
    async def test_a_job_is_submitted_once(
        self, kind: Kind, url: str, store: Store, fault: dict[str, Any]
    ) -> None:
        async with breaking(url, Fault(b"POST /api/jobs", **fault, times=2)) as way:
            client = kind(way.url)
            job = await call(client.submit, "selftest")
            assert len(way.requests) == 3
            assert (await call(client.job, job.id)).status == "pending"
            await call(client.close)
        assert await count(store) == 1

    @pytest.mark.parametrize("fault", SUBMITS, ids=lambda fault: "-".join(fault))
    async def test_a_file_is_uploaded_once_and_completely(
        self, kind: Kind, url: str, store: Store, tmp_path: Path, fault: dict[str, Any]
    ) -> None:
        async with breaking(url, Fault(b"POST /api/pdf/process", **fault, times=2)) as way:
            client = kind(way.url)
            file = io.BytesIO(b"before" + pdf("Hello"))
            file.seek(6)
            job = await call(client.submit, "pdf", file=file, file_name="x.pdf")
            await call(client.close)
        (stored,) = (await store.find(JobQuery(limit=100))).items
        assert stored.job_id == job.id
        assert list((await stored_uploads(tmp_path, store)).values()) == [pdf("Hello")]

    async def test_a_batch_is_submitted_once(self, kind: Kind, url: str, store: Store) -> None:
        async with breaking(url, Fault(b"POST /api/batches", answer_bytes=0, times=2)) as way:
            client = kind(way.url)
            await call(client.batch, [Task("selftest"), Task("selftest")])
            await call(client.close)
        assert await count(store) == 2

    async def test_a_batch_of_files_is_uploaded_once_and_completely(
        self, kind: Kind, url: str, store: Store, tmp_path: Path
    ) -> None:
        fault = Fault(b"POST /api/batches/from-files", answer_bytes=0, times=2)
        async with breaking(url, fault) as way:
            client = kind(way.url)
            batch = await call(client.batch, [{"file": pdf("One")}, {"file": pdf("Two")}])
            await call(client.close)
        assert await count(store) == len(batch.job_ids) == 2
        uploads = await stored_uploads(tmp_path, store)
        assert sorted(name.partition("/")[0] for name in uploads) == sorted(batch.job_ids)

    async def test_unsafe_requests_are_not_repeated(self, kind: Kind, url: str) -> None:
        async with breaking(url, Fault(b"/restart", answer_bytes=0)) as way:
            client = kind(way.url)
            job = await call(client.submit, "selftest")
            await call(job.cancel)
            with pytest.raises(Unreachable):
                await call(job.restart)
            assert sum(b"/restart" in line for line in way.requests) == 1
            await call(client.close)

    async def test_a_delete_whose_response_was_lost_succeeds(self, kind: Kind, url: str) -> None:
        async with breaking(url, Fault(b"DELETE ", answer_bytes=0)) as way:
            client = kind(way.url)
            job = await call(client.submit, "selftest")
            await call(job.cancel)
            await call(job.delete)
            with pytest.raises(NotFound):
                await call(job.delete)
            await call(client.close)

    async def test_it_gives_up_after_the_last_attempt(self, kind: Kind, url: str) -> None:
        async with breaking(url, Fault(b"POST", answer_bytes=0, times=99)) as way:
            client = kind(way.url, retries=Retries(attempts=3, first_wait=0.01))
            with pytest.raises(Unreachable, match=r"127\.0\.0\.1"):
                await call(client.submit, "selftest")
            assert len(way.requests) == 3
            await call(client.close)

    async def test_the_error_of_a_busy_service_is_raised(self, kind: Kind, url: str) -> None:
        busy = reply("503 Service Unavailable", "Retry-After: 0", body=BUSY)
        async with breaking(url, Fault(b"POST", reply=busy, times=99)) as way:
            client = kind(way.url, retries=Retries(attempts=2, first_wait=0.01))
            with pytest.raises(ApiError, match="The store rests") as caught:
                await call(client.submit, "selftest")
            assert (caught.value.status, caught.value.code) == (503, "UNAVAILABLE")
            await call(client.close)


class TestBrokenStreams:
    @pytest.mark.parametrize("size", [0, 100, 900, 1100])
    async def test_the_end_of_a_job_is_not_missed(
        self, kind: Kind, url: str, store: Store, size: int
    ) -> None:
        async with breaking(url, Fault(b"/stream", answer_bytes=size, times=2)) as way:
            client = kind(way.url)
            job = await call(client.submit, "selftest")
            waiting = asyncio.create_task(call(job.wait, timeout=20))
            await until(lambda: sum(b"/stream" in line for line in way.requests) >= 2)
            await finish(store)
            await waiting
            assert job.status == "completed"
            await call(client.close)

    @pytest.mark.parametrize(
        "answer",
        [
            reply("404 Not Found"),
            reply("200 OK", "Content-Type: text/html", body=b"<p>Hello"),
            reply("503 Service Unavailable"),
        ],
    )
    async def test_it_polls_without_streams(
        self, kind: Kind, url: str, store: Store, answer: bytes
    ) -> None:
        async with breaking(url, Fault(b"/stream", reply=answer, times=99)) as way:
            client = kind(way.url)
            job = await call(client.submit, "selftest")
            waiting = asyncio.create_task(call(job.wait, timeout=20))
            await until(
                lambda: any(
                    b"GET /api/jobs/" in line and b"/stream" not in line for line in way.requests
                )
            )
            await finish(store)
            await waiting
            assert job.status == "completed"
            await call(client.close)

    async def test_no_event_is_lost(self, kind: Kind, url: str, store: Store) -> None:
        """Jobs are created and finish while the stream is disconnected."""
        faults = [Fault(b"/api/events", answer_bytes=size) for size in (0, 500, 900, 1500, 2500)]
        async with breaking(url, *faults) as way:
            client, direct = kind(way.url), AsyncClient(url)
            ended: set[str] = set()

            def enough(events: list[Event]) -> bool:
                ended.update(e.job_id for e in events if e.job_id and e.name == "completed")
                return len(ended) >= 12

            reading = asyncio.create_task(taken(client.events(), enough))
            await until(lambda: sum(b"/api/events" in line for line in way.requests) >= 2)
            made = set()
            for _ in range(12):
                made.add((await direct.submit("selftest")).id)
                await finish(store)
            events = await asyncio.wait_for(reading, 20)
            assert ended == made
            assert sum(b"/api/events" in line for line in way.requests) >= 4
            assert all(event.id for event in events)
            await direct.close()
            await call(client.close)


async def test_events_before_the_first_connection_are_not_lost(url: str, store: Store) -> None:
    """The stream has reported its start; then it breaks, and a job is created and finishes."""
    async with AsyncClient(url, retries=QUICK) as direct:
        await direct.submit("selftest")
        await finish(store)
        patient = Retries(attempts=1000, first_wait=0.01, longest_wait=0.05)
        async with breaking(url) as way, AsyncClient(way.url, retries=patient) as client:
            events = client.events()
            reading = asyncio.create_task(anext(events))
            while b"\nid: " not in way.answers:
                await asyncio.sleep(0.01)
            away = Fault(b"/api/events", reply=reply("503 Service Unavailable"), times=10_000)
            way.faults.append(away)
            await way.cut()
            second = await direct.submit("selftest")
            await finish(store)
            away.times = 0
            event = await asyncio.wait_for(reading, 20)
            assert (event.job_id, event.name) == (second.id, "completed")
            await events.aclose()


class TestRealWork:
    """With a worker and its engines."""

    async def test_a_document_is_read_and_its_files_are_fetched(self, tmp_path: Path) -> None:
        receiver = Receiver()
        with receiver.running():
            async with running_service(
                tmp_path / "data", network={"allow_hosts": [receiver.host]}
            ) as service:
                url = str(service.client.base_url)
                fault = Fault(b"/download-archive", answer_bytes=5000, times=3)
                async with breaking(url, fault) as way:
                    for kind in (Client, AsyncClient):
                        await self._read(kind(way.url, retries=QUICK), tmp_path, receiver)
                        assert fault.times == 0
                        fault.times = 3

    async def _read(
        self, client: Client | AsyncClient, directory: Path, receiver: Receiver
    ) -> None:
        secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
        path = directory / "Größe.pdf"
        path.write_bytes(pdf("Hello", "World"))
        receiver.received.clear()
        hook = {"url": receiver.url(), "secret": secret, "events": ["completed"]}
        job: Job | AsyncJob = await call(
            client.submit,
            "pdf",
            file=str(path),
            extraction_method="native",
            include_images=True,
            webhook=hook,
            priority=3,
            access_control={"visibility": "public"},
        )
        results = await call(job.result, timeout=60)
        assert results.extracted_text == "--- Seite 1 ---\nHello\n--- Seite 2 ---\nWorld"
        assert results.metadata["file_name"] == "Größe.pdf"
        assert job.document.priority == 3
        assert await call(job.read, "page_001.txt") == b"Hello"
        page = await call(job.download, results.page_texts[1], to=directory)
        assert page.read_text() == "World"
        archive = await call(job.download_archive, directory / "all.zip")
        assert zipfile.ZipFile(archive).testzip() is None
        assert not list(directory.glob(".*"))
        with pytest.raises(NotFound):
            await call(job.download, "nothing.jpg", to=directory)
        (event,) = await receiver.wait_for()
        verified = verify_webhook(event.body, event.headers, secret)
        assert (verified.job_id, verified.phase) == (job.id, "completed")
        assert verified.results is not None
        assert verified.results.extracted_text == results.extracted_text
        await call(client.close)
