"""A full disk, and a process that keeps the database locked: requests fail with the reason, reads
continue, readiness says so, and everything works again afterwards."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import pytest

from secretary.api import create_api
from secretary.core.job import Batch, Job
from secretary.handlers import BUILTIN
from secretary.jobs.handler import Registry
from secretary.jobs.service import JobService
from secretary.store import Store, open_store
from secretary.store.sqlite import connection
from tests.backends import files_in
from tests.chaos.disk import Disk, small_disk
from tests.minimal_files import pdf

HOLD_LOCK = """
import apsw, sys
db = apsw.Connection(sys.argv[1])
db.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


@asynccontextmanager
async def service(directory: Path) -> AsyncIterator[tuple[httpx.AsyncClient, Store]]:
    store = open_store(f"sqlite://{directory}/jobs.db")
    await store.open()
    try:
        api = create_api(JobService(store, Registry(BUILTIN), files_in(directory, store)))
        transport = httpx.ASGITransport(api, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client, store
    finally:
        await store.close()


@contextmanager
def frozen_writer(database: Path) -> Iterator[None]:
    """A stopped process in the middle of a transaction."""
    command = [sys.executable, "-c", HOLD_LOCK, str(database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        os.kill(process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            process.kill()


def assert_unavailable(answer: httpx.Response, reason: str, text: str) -> None:
    assert answer.status_code == 503, answer.text
    error = answer.json()["error"]
    assert (error["code"], error["details"]) == ("UNAVAILABLE", {"reason": reason})
    assert text in error["message"]
    assert int(answer.headers["retry-after"]) > 0


async def test_a_frozen_process_with_the_lock_makes_writes_fail_soon_and_readiness_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LOCK_SECONDS", 0.5)
    monkeypatch.setattr(connection, "CHECK_SECONDS", 0.1)
    async with service(tmp_path) as (client, store):
        job = Job(job_type="selftest")
        await store.add([job])
        with frozen_writer(tmp_path / "jobs.db"):
            text = "Another process keeps the job store locked"
            assert_unavailable(await client.get("/api/health/ready"), "store_locked", text)
            submitted = await client.post("/api/jobs", json={})
            assert_unavailable(submitted, "store_locked", text)
            changed = {"action": "cancel", "job_ids": [job.job_id]}
            answer = await client.post("/api/jobs/bulk", json=changed)
            assert_unavailable(answer, "store_locked", text)
            assert (await client.get("/api/jobs")).json()["data"]["jobs"][0]["status"] == "pending"
            assert (await client.get("/api/health/live")).status_code == 200
        assert (await client.post("/api/jobs", json={})).status_code == 202
        assert (await client.get("/api/health/ready")).status_code == 200


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path, "64m") as disk:
        if not disk.is_own:
            pytest.skip("Only root can mount a small disk")
        yield disk


async def test_a_full_disk_is_named_by_every_refusal_and_by_readiness(disk: Disk) -> None:
    text = "The disk of the service is full"
    async with service(disk.root) as (client, store):
        batch = Batch()
        jobs = [Job(job_type="selftest", batch_id=batch.batch_id) for _ in range(100)]
        await store.add(jobs, batch=batch)
        assert (await client.get("/api/health/ready")).status_code == 200
        with disk.filled():
            assert_unavailable(await client.get("/api/health/ready"), "disk_full", text)
            upload = {"file": ("a.pdf", pdf("Hello"))}
            answer = await client.post("/api/pdf/process", files=upload)
            assert_unavailable(answer, "disk_full", text)
            # The log of the database may have room for a little more.
            for _ in range(1000):
                answer = await client.post("/api/jobs", json={})
                if answer.status_code != 202:
                    break
            assert_unavailable(answer, "disk_full", text)
            ids = [job.job_id for job in jobs]
            answer = await client.post("/api/jobs/bulk", json={"action": "cancel", "job_ids": ids})
            assert_unavailable(answer, "disk_full", text)
            assert {(await store.get(job_id)).status for job_id in ids} == {"pending"}
        assert (await client.post("/api/jobs", json={})).status_code == 202
        assert (await client.post("/api/pdf/process", files=upload)).status_code == 202
        assert (await client.get("/api/health/ready")).status_code == 200
