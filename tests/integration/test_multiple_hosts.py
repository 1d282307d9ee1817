"""One job on several machines: each process has its own data directory, and none is shared."""

import asyncio
import io
import zipfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from secretary.api import create_api
from secretary.app import Application, WorkerComponents
from secretary.config import Settings, load
from secretary.core.job import Job
from secretary.jobs.events import EventHub
from secretary.serve import run_worker
from secretary.storage.artifacts import JobFiles
from secretary.store import Store
from secretary.worker.maintenance import Maintenance, MaintenanceOptions
from tests.api_server import served
from tests.minimal_files import pdf
from tests.mongod import Mongod
from tests.s3_server import S3Server
from tests.service_fixture import ServiceClient

ROUTE = "/api/pdf/process"
FRUIT = pdf("One apple", "Two pears", "Three plums")


@dataclass
class Machines:
    """`await machines.api("a")`, `await machines.worker("b")`: each in its own directory."""

    directory: Path
    storage: dict[str, Any]
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    def settings(self, name: str, **groups: dict[str, Any]) -> Settings:
        storage = {"data_dir": str(self.data(name)), **self.storage}
        return load(environment={}, overrides={"storage": storage, **groups})

    def data(self, name: str) -> Path:
        return self.directory / name

    def files(self, name: str) -> list[str]:
        """The files on a machine, apart from its cache."""
        files = (path for path in self.data(name).rglob("*") if path.is_file())
        names = (str(path.relative_to(self.data(name))) for path in files)
        return sorted(name for name in names if not name.startswith("cache/"))

    async def api(self, name: str, **groups: dict[str, Any]) -> ServiceClient:
        app = Application(self.settings(name, **groups))
        await self.stack.enter_async_context(app)
        hub = EventHub(app.store)
        self.stack.push_async_callback(hub.close)
        api = create_api(app.job_service, hub=hub)
        url, _ = await self.stack.enter_async_context(served(api))
        client = httpx.AsyncClient(base_url=url, timeout=60)
        await self.stack.enter_async_context(client)
        return ServiceClient(client, self.data(name))

    @asynccontextmanager
    async def worker(self, name: str, **groups: dict[str, Any]) -> AsyncIterator[WorkerComponents]:
        async with Application(self.settings(name, **groups)) as app:
            parts = app.worker()
            working = asyncio.create_task(run_worker(parts))
            try:
                yield parts
            finally:
                parts.worker.drain()
                await working

    @asynccontextmanager
    async def store(self, name: str) -> AsyncIterator[tuple[Store, JobFiles]]:
        async with Application(self.settings(name)) as app:
            yield app.store, app.files


#: test_blob_stores covers S3 itself; `make test-extended` also runs all of these tests on it.
S3 = pytest.param("s3", marks=pytest.mark.extended)


@pytest.fixture(params=["gridfs", S3])
async def machines(
    request: pytest.FixtureRequest, mongod: Mongod, tmp_path: Path
) -> AsyncIterator[Machines]:
    files = "auto"
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3_server")
        files = server.new_bucket()
    uri = mongod.url(f"test_{uuid4().hex[:12]}")
    machines = Machines(tmp_path, {"mongodb_uri": uri, "files": files})
    async with machines.stack:
        yield machines


async def test_an_upload_to_one_is_worked_on_by_another_and_served_by_a_third(
    machines: Machines,
) -> None:
    first, third = await machines.api("first"), await machines.api("third")
    job_id = await first.submit_file(
        ROUTE, FRUIT, "Obst & Gemüse.pdf", extraction_method="preview_and_native"
    )
    assert machines.files("first") == [], "uploads must be in the blob store"
    async with machines.worker("second"):
        job = await third.ended(job_id)
        assert job["status"] == "completed", job["error"]
        results = job["results"]
        pages = [(await third.get(url)).json()["content"] for url in results["page_texts"]]
        assert [text.strip() for text in pages] == ["One apple", "Two pears", "Three plums"]
        picture = await third.get(results["assets"][0])
        assert picture.headers["content-type"].startswith("image/")
        archive = (await third.get(f"/api/jobs/{job_id}/download-archive")).content
        names = zipfile.ZipFile(io.BytesIO(archive)).namelist()
        assert "page_001.txt" in names
        again = (await first.get(f"/api/jobs/{job_id}/download-archive")).content
        assert again == archive, "the archive is created once"
    assert [machines.files(name) for name in ("first", "second", "third")] == [[], [], []]
    assert (await third.client.delete(f"/api/jobs/{job_id}")).status_code == 200
    async with machines.store("fourth") as (_, files):
        assert files.blob_store is not None
        remaining = [blob.key async for blob in files.blob_store.list_blobs("jobs/")]
        remaining += [blob.key async for blob in files.blob_store.list_blobs("uploads/")]
        assert remaining == []


async def test_ranges_and_known_files_are_served_as_from_a_disk(machines: Machines) -> None:
    service = await machines.api("a")
    async with machines.worker("b"):
        results = await service.read(ROUTE, FRUIT, "fruit.pdf", extraction_method="preview")
    url = results["assets"][0]
    whole = await service.get(url)
    size, etag = len(whole.content), whole.headers["etag"]
    assert int(whole.headers["content-length"]) == size

    async def fetch(**headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await service.client.get(url, headers=named)

    part = await fetch(range="bytes=10-19")
    assert (part.status_code, part.content) == (206, whole.content[10:20])
    assert part.headers["content-range"] == f"bytes 10-19/{size}"
    assert (await fetch(range="bytes=-5")).content == whole.content[-5:]
    several = await fetch(range="bytes=0-3,10-13")
    assert several.headers["content-type"].startswith("multipart/byteranges")
    assert int(several.headers["content-length"]) == len(several.content)
    assert whole.content[:4] in several.content and whole.content[10:14] in several.content
    again_and_again = await fetch(range="bytes=" + ",".join(["0-"] * 50))
    assert (again_and_again.status_code, again_and_again.content) == (200, whole.content)
    assert (await fetch(range=f"bytes={size}-")).status_code == 416
    assert (await fetch(if_none_match=etag)).status_code == 304
    assert (await fetch(range="bytes=0-3", if_range='"other"')).content == whole.content


async def test_what_one_machine_has_read_no_other_reads_again(machines: Machines) -> None:
    service = await machines.api("a")
    async with machines.worker("b"):
        first = await service.read(ROUTE, FRUIT, "fruit.pdf")
    assert first["is_from_cache"] is False
    async with machines.worker("c"):
        second = await service.read(ROUTE, FRUIT, "the same.pdf")
        assert second["is_from_cache"] is True
        assert second["extracted_text"] == first["extracted_text"]
        fresh = await service.read(ROUTE, FRUIT, "fruit.pdf", force_refresh="true")
        assert fresh["is_from_cache"] is False


async def test_pages_can_be_read_elsewhere_while_the_job_runs(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secretary.storage.artifacts.UPLOAD_INTERVAL", 0.05)
    service = await machines.api("a")
    async with machines.worker("b", generic_worker={"processes": 1}):
        content = pdf(*(f"Page {n} of many" for n in range(1, 151)))
        job_id = await service.submit_file(
            ROUTE, content, "long.pdf", extraction_method="preview_and_native"
        )
        async with asyncio.timeout(60):
            while (page := await service.client.get(f"/api/files/{job_id}/page_001.txt")).is_error:
                await asyncio.sleep(0.02)
        assert (await service.job(job_id))["completed_at"] is None
        assert page.text.strip() == "Page 1 of many"
        assert (await service.ended(job_id))["status"] == "completed"


async def test_a_failed_job_can_be_restarted_on_another_machine(machines: Machines) -> None:
    service = await machines.api("a")
    async with machines.worker("b", documents={"max_pages": 1}):
        job_id = await service.submit_file(ROUTE, FRUIT, "fruit.pdf")
        job = await service.ended(job_id)
        assert job["error"]["code"] == "FILE_TOO_LARGE"
    assert machines.files("b") == []
    restarted = await service.client.post(f"/api/jobs/{job_id}/restart")
    assert restarted.status_code == 200, restarted.text
    async with machines.worker("c"):
        assert (await service.ended(job_id))["status"] == "completed"


class TestMaintenance:
    async def test_a_cache_that_is_too_large_loses_what_was_not_used_for_longest(
        self, machines: Machines, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        service = await machines.api("a")
        async with machines.worker("b"):
            await service.read(ROUTE, FRUIT, "fruit.pdf")
        monkeypatch.setattr("secretary.worker.maintenance.IN_USE", timedelta(0))
        async with machines.store("c") as (store, files):
            assert files.blob_store is not None
            before = [blob.key async for blob in files.blob_store.list_blobs("cache/")]
            assert before
            small = JobFiles(machines.data("c"), files.uploads, files.cache, files.blob_store)
            small.cache = type(files.cache)(machines.data("c"), max_bytes=1)
            await Maintenance(store, small, MaintenanceOptions()).sweep_blob_store(files.blob_store)
            assert [blob.key async for blob in files.blob_store.list_blobs("cache/")] == []
        async with machines.worker("d"):
            again = await service.read(ROUTE, FRUIT, "fruit.pdf")
            assert again["is_from_cache"] is False

    async def test_files_of_no_job_are_removed_and_those_of_jobs_stay(
        self, machines: Machines, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        service = await machines.api("a")
        async with machines.worker("b"):
            job_id = await service.submit_file(ROUTE, FRUIT, "fruit.pdf")
            await service.ended(job_id)
        monkeypatch.setattr("secretary.worker.maintenance.ORPHAN_AGE", timedelta(0))
        async with machines.store("c") as (store, files):
            assert files.blob_store is not None
            path = machines.directory / "late.txt"
            path.write_text("from a worker that had lost its job")
            await files.blob_store.put([("jobs/job-gone/1/late.txt", path)])
            await Maintenance(store, files, MaintenanceOptions()).sweep_blob_store(files.blob_store)
            remaining = {
                blob.key.split("/")[1] async for blob in files.blob_store.list_blobs("jobs/")
            }
            assert remaining == {job_id}

    async def test_what_a_dead_process_left_on_a_machine_is_cleared(
        self, machines: Machines, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("secretary.worker.maintenance.MAX_UPLOAD_TIME", timedelta(seconds=-1))
        async with machines.store("a") as (store, files):
            job = Job(job_id="job-dead", job_type="pdf", attempt=1)
            directory = Path(files.attempt_directory(job))
            directory.mkdir(parents=True)
            (directory / "page_001.txt").write_text("half")
            assert await Maintenance(store, files, MaintenanceOptions()).clear_local_files() == 1
            assert machines.files("a") == []
