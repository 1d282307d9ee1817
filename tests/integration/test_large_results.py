"""Results of tens of megabytes do not stall other requests."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from secretary.api import create_api
from secretary.api.responses import JsonResponse
from secretary.app import Application
from secretary.config import load
from secretary.core.job import Completed, Job, JobStatus
from tests.contract.factories import claimed

T = TypeVar("T")

PAGES = [{"page": number, "text": "Grüße aus Köln. " * 1500} for number in range(1000)]
RESULTS: dict[str, Any] = {"markdown_content": "x" * 1_000_000, "page_texts": PAGES}
#: Work on the event loop lets it iterate a few times at most: once per `await`.
MANY_TURNS = 100


async def turns_during(work: Coroutine[Any, Any, T]) -> tuple[int, T]:
    """How often the event loop iterated while the work was done, and the result."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counter = asyncio.create_task(count())
    try:
        result = await work
    finally:
        counter.cancel()
    return turns, result


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Application]:
    settings = load(environment={}, overrides={"storage": {"data_dir": str(tmp_path)}})
    async with Application(settings) as app:
        yield app


async def finish_job(app: Application) -> tuple[int, Job]:
    """A job with the large results, and how often the loop iterated while they were stored."""
    job = await claimed(app.store)
    turns, _ = await turns_during(app.store.finish(job, Completed(RESULTS)))
    return turns, job


async def test_storing_and_reading_large_results_keeps_the_loop_running(app: Application) -> None:
    turns, job = await finish_job(app)
    assert turns > MANY_TURNS
    turns, stored = await turns_during(app.store.get(job.job_id))
    assert turns > MANY_TURNS
    assert stored.status is JobStatus.COMPLETED
    assert stored.results == RESULTS


async def test_encoding_a_large_response_keeps_the_loop_running() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    response = JsonResponse({"data": {"results": RESULTS}})
    turns, _ = await turns_during(response({"type": "http"}, None, send))  # type: ignore[arg-type]
    assert turns > MANY_TURNS
    start, body = sent
    assert dict(start["headers"])[b"content-length"] == str(len(body["body"])).encode()


async def test_requests_are_answered_while_a_large_job_is_fetched(app: Application) -> None:
    _, job = await finish_job(app)
    transport = httpx.ASGITransport(create_api(app.job_service))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        fetching = asyncio.create_task(client.get(f"/api/jobs/{job.job_id}"))
        answered = 0
        while not fetching.done():
            assert (await client.get("/api/job-types")).status_code == 200
            answered += 1
            await asyncio.sleep(0)  # without a network, a request never waits
        fetched = (await fetching).json()
    assert answered > 5
    assert fetched["data"]["results"]["page_texts"] == PAGES
