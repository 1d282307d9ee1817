"""A worker that dies while processing a document: the next one continues where it stopped."""

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from secretary.core.job import Job, JobStatus
from secretary.store import Store, open_store

from ..llm_server import KEY, Reads, Reply, hangs, llm_server, says
from ..polling import until
from ..rendered_pages import page
from ..sample_documents import scan_of
from .program import Program
from .service import WorkerProcess, ended, environment

PAGES = 200
PROCESSES = 2


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = open_store(f"sqlite://{tmp_path}/data/secretary.db")
    (tmp_path / "data").mkdir()
    await store.open()
    yield store
    await store.close()


def scan() -> bytes:
    """Every page has a different word, so that none can be mistaken for another."""
    return scan_of(*(page([f"Page number {n} of the scan"]) for n in range(1, PAGES + 1)))


def made(data_dir: Path) -> Counter[int]:
    """How often each page has been processed."""
    lines = (
        line
        for records in data_dir.glob("cache/pdf/*/*/records-*")
        for line in records.read_bytes().splitlines(keepends=True)
    )
    return Counter(int(line.split(b" ")[0]) for line in lines if line.endswith(b"\n"))


async def test_at_most_the_pages_in_work_are_done_again(store: Store, tmp_path: Path) -> None:
    (tmp_path / "scan.pdf").write_bytes(scan())
    env = environment(
        tmp_path / "data",
        SECRETARY_STORAGE__SOURCE_ROOTS=f"['{tmp_path}']",
        SECRETARY_GENERIC_WORKER__PROCESSES=str(PROCESSES),
    )
    parameters = {"file_path": "scan.pdf", "extraction_method": "ocr", "ocr_language": "eng"}
    job = Job(job_type="pdf", parameters=parameters)
    await store.add([job])
    first = WorkerProcess(env, tmp_path / "first.log")

    async def half_done() -> bool:
        return len(made(tmp_path / "data")) >= PAGES // 2

    try:
        await until(half_done, seconds=100, what="half of the pages")
        readable = (tmp_path / "data" / "jobs" / job.job_id / "1" / "page_001.txt").read_text()
    finally:
        first.kill()
    assert readable.strip() == "Page number 1 of the scan"
    before = made(tmp_path / "data")
    second = WorkerProcess(env, tmp_path / "second.log")
    try:
        done = await ended(store, job.job_id, seconds=100)
    finally:
        second.terminate()
    assert done.status is JobStatus.COMPLETED, done.error
    assert done.attempt == 2
    after = made(tmp_path / "data")
    twice = [number for number, times in after.items() if times > 1]
    assert len(before) < PAGES
    assert sorted(after) == list(range(1, PAGES + 1))
    # A child of the first worker may have finished its page after the worker died.
    assert len(twice) <= PROCESSES, f"{len(twice)} pages were processed twice: {twice}"
    directory = tmp_path / "data" / "jobs" / job.job_id / "2"
    texts = [(directory / f"page_{n:03d}.txt").read_text().strip() for n in range(1, PAGES + 1)]
    assert texts == [f"Page number {n} of the scan" for n in range(1, PAGES + 1)]
    assert done.results is not None
    assert done.results["is_from_cache"] is False


async def test_what_a_model_has_translated_is_not_asked_again(store: Store, tmp_path: Path) -> None:
    """The model stops responding halfway through the text, and the worker is killed."""
    text = "".join(f"Paragraph {number} {'is long ' * 40}\n\n" for number in range(100))
    is_silent = asyncio.Event()

    def answer(request: dict[str, Any]) -> Reply:
        if len(server.requests) == 6 and not is_silent.is_set():
            is_silent.set()
            return hangs
        pieces = json.loads(request["messages"][-1]["content"])
        return says(json.dumps({key: f"<{one}>" for key, one in pieces.items()}))

    async with llm_server(Reads(answer)) as server:
        env = environment(
            tmp_path / "data",
            SECRETARY_LLM__BASE_URL=server.web.url("/v1"),
            SECRETARY_LLM__API_KEY=KEY,
            SECRETARY_LLM__MODEL="scripted",
            SECRETARY_LLM__MAX_CONCURRENT="1",
        )
        body = {"text": text, "source_language": "en", "target_language": "fr"}
        job = Job(job_type="transformer", parameters=body)
        await store.add([job])
        first = WorkerProcess(env, tmp_path / "first.log")
        try:
            await asyncio.wait_for(is_silent.wait(), 60)
        finally:
            first.kill()
        before = [request["messages"][-1]["content"] for request in server.requests]
        second = WorkerProcess(env, tmp_path / "second.log")
        try:
            done = await ended(store, job.job_id, seconds=60)
        finally:
            second.terminate()
        after = [request["messages"][-1]["content"] for request in server.requests[len(before) :]]
    assert done.status is JobStatus.COMPLETED, done.error
    # Responses are stored in groups of a few requests; only the group that was interrupted is
    # requested again.
    again = set(before) & set(after)
    assert before[-1] in again and before[0] not in again
    result = tmp_path / "data" / "jobs" / job.job_id / "2" / "result.md"
    assert result.read_text().count("<Paragraph") == 100


async def test_clients_that_waited_get_their_results_after_a_crash(tmp_path: Path) -> None:
    """The service is killed while 20 requests wait. They are sent again with the same keys."""
    clients, is_silent = 20, True

    def answer(request: dict[str, Any]) -> Reply:
        return hangs if is_silent else says(f"About {request['messages'][-1]['content']}")

    async with llm_server(Reads(answer)) as server:
        program = Program(
            tmp_path,
            SECRETARY_LLM__BASE_URL=server.web.url("/v1"),
            SECRETARY_LLM__API_KEY=KEY,
            SECRETARY_LLM__MODEL="scripted",
        )

        async def waiting(url: str, number: int) -> httpx.Response:
            async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:
                body = {"text": f"Text {number}.", "summarize": True}
                headers = {"Idempotency-Key": f"key-{number}"}
                return await client.post("/api/transformer/text", json=body, headers=headers)

        async def all_accepted() -> bool:
            async with httpx.AsyncClient(base_url=first.url, trust_env=False) as client:
                jobs = (await client.get("/api/jobs")).json()["data"]["jobs"]
            return len(jobs) == clients and bool(server.requests)

        with program.serving() as first:
            answers = [asyncio.create_task(waiting(first.url, n)) for n in range(clients)]
            await until(all_accepted, seconds=60, what="20 waiting requests")
            os.killpg(first.process.pid, signal.SIGKILL)
            first.process.wait()
            lost = await asyncio.gather(*answers, return_exceptions=True)
            assert all(isinstance(error, httpx.TransportError) for error in lost)
        is_silent = False
        with program.serving() as second:
            responses = await asyncio.gather(*(waiting(second.url, n) for n in range(clients)))
            async with httpx.AsyncClient(base_url=second.url, trust_env=False) as client:
                jobs = (await client.get("/api/jobs")).json()["data"]["jobs"]
    assert [response.status_code for response in responses] == [200] * clients
    for number, response in enumerate(responses):
        assert f"Text {number}." in response.json()["data"]["text"]
    assert {response.json()["process"]["id"] for response in responses} == {
        job["job_id"] for job in jobs
    }
    assert [job["status"] for job in jobs] == ["completed"] * clients
