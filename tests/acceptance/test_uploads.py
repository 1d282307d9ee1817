"""Uploads to the real program: a hundred at once, and a large one."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import httpx
import pytest

from ..minimal_files import pdf
from ..webhook_receiver import Receiver
from .program import Program, Running

MEBIBYTE = 1024 * 1024
UPLOADS = 100
#: Each takes less than a second; the rest is for busy machines. Waiting for the jobs would take
#: longer.
SECONDS = 5.0


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver().running() as receiver:
        yield receiver


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Running]:
    settings = {
        "SECRETARY_GENERIC_WORKER__MAX_CONCURRENT_WORKERS": "3",
        "SECRETARY_NETWORK__ALLOW_HOSTS": "127.0.0.1",
    }
    with Program(tmp_path, **settings).serving() as serving:
        yield serving


def peak_memory(serving: Running) -> int:
    """The server's peak memory, in bytes."""
    for line in Path(f"/proc/{serving.process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("The system does not report it")


async def test_a_hundred_uploads_at_once_are_taken_and_done_three_at_a_time(
    serving: Running, receiver: Receiver, tmp_path: Path
) -> None:
    content = pdf(*(f"Page {number}" for number in range(20))) + b"%" * MEBIBYTE
    limits = httpx.Limits(max_connections=UPLOADS)
    async with httpx.AsyncClient(
        base_url=serving.url, limits=limits, timeout=60, trust_env=False
    ) as client:
        await client.get("/api/health/live")
        before = peak_memory(serving)
        fields = [
            {"callback_url": receiver.url("/hook"), "jobId": f"mine-{number}"}
            for number in range(UPLOADS)
        ]
        answers = await asyncio.gather(*(_upload(client, content, each) for each in fields))
        jobs = await _all_ended(client)
        events = await _all_notified(receiver)
    assert [status for status, _ in answers] == [202] * UPLOADS
    assert max(seconds for _, seconds in answers) < SECONDS
    assert {job["status"] for job in jobs} == {"completed"}
    assert len(jobs) == UPLOADS
    assert _most_at_once(jobs) <= 3
    # Only a chunk of each file is in memory at a time.
    assert peak_memory(serving) - before < 80 * MEBIBYTE
    assert list((tmp_path / "data" / "uploads").iterdir()) == []
    assert sorted(events) == sorted(each["jobId"] for each in fields)


async def _upload(
    client: httpx.AsyncClient, content: bytes, fields: dict[str, str]
) -> tuple[int, float]:
    began = time.monotonic()
    files = {"file": ("a.pdf", content)}
    response = await client.post("/api/pdf/process", files=files, data=fields)
    return response.status_code, time.monotonic() - began


async def _all_ended(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    async with asyncio.timeout(60):
        while True:
            waiting = await client.get("/api/jobs?status=pending,processing&limit=1")
            if not waiting.json()["data"]["jobs"]:
                break
            await asyncio.sleep(0.1)
    jobs: list[dict[str, Any]] = (await client.get("/api/jobs?limit=1000")).json()["data"]["jobs"]
    return jobs


async def _all_notified(receiver: Receiver) -> list[str]:
    """The client-assigned IDs of the jobs whose final event was delivered."""
    async with asyncio.timeout(30):
        while True:
            events = [received.json for received in list(receiver.received)]
            job_ids = [event["jobId"] for event in events if event["phase"] == "completed"]
            if len(job_ids) >= UPLOADS:
                return job_ids
            await asyncio.sleep(0.1)


def _most_at_once(jobs: list[dict[str, Any]]) -> int:
    # At the same time, an end counts before a start.
    starts = ((job["processing_started_at"], 1) for job in jobs)
    ends = ((job["completed_at"], -1) for job in jobs)
    running, most = 0, 0
    for _, change in sorted(chain(starts, ends)):
        running += change
        most = max(most, running)
    return most


async def test_a_large_upload_takes_no_more_memory_than_a_small_one(tmp_path: Path) -> None:
    size = 200 * MEBIBYTE
    head = b'--XX\r\nContent-Disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n'
    first, piece, end = pdf("Hello"), b"%" * MEBIBYTE, b"\r\n--XX--\r\n"

    async def body() -> AsyncIterator[bytes]:
        yield head + first
        for _ in range(size // MEBIBYTE):
            yield piece
        yield end

    with Program(tmp_path).serving("--no-worker") as serving:
        async with httpx.AsyncClient(base_url=serving.url, timeout=60, trust_env=False) as client:
            small = await client.post("/api/pdf/process", files={"file": ("a.pdf", first)})
            assert small.status_code == 202
            before = peak_memory(serving)
            headers = {"Content-Type": "multipart/form-data; boundary=XX"}
            response = await client.post("/api/pdf/process", content=body(), headers=headers)
            assert response.status_code == 202, response.text
            assert peak_memory(serving) - before < 20 * MEBIBYTE
            job = (await client.get(response.headers["location"])).json()["data"]
    digest = hashlib.sha256(first)
    for _ in range(size // MEBIBYTE):
        digest.update(piece)
    source = job["parameters"]["file_source"]
    assert (source["size"], source["sha256"]) == (len(first) + size, digest.hexdigest())
