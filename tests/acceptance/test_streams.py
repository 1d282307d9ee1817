"""Event streams of the program as a process: jobs of other processes, many clients, shutdown."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from pathlib import Path
from uuid import uuid4

import pytest

from tests.mongod import Mongod
from tests.stream_client import OpenStream, StreamClient

from .program import Program, Running

LATER = "2099-01-01T00:00:00Z"
STREAMS = 500


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


@pytest.fixture(params=["sqlite", "mongodb"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Program:
    """The program with a store of each kind."""
    if request.param == "sqlite":
        return Program(tmp_path)
    server: Mongod = request.getfixturevalue("mongod")
    return Program(tmp_path, MONGODB_URI=server.url(f"test_{uuid4().hex[:12]}"))


@asynccontextmanager
async def many(service: Running, paths: list[str]) -> AsyncIterator[list[OpenStream]]:
    """This many open streams, each of which has received its first event."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(StreamClient(service.url))
        streams: list[OpenStream] = []
        for path in paths:
            stream = await stack.enter_async_context(client.opened(path))
            await stream.next()
            streams.append(stream)
        yield streams


def threads(service: Running) -> int:
    return len(list(Path(f"/proc/{service.process.pid}/task").iterdir()))


def stream_of(job_id: str) -> str:
    return f"/api/jobs/{job_id}/stream"


async def test_any_process_streams_any_job(shared: Program) -> None:
    with shared.serving("--no-worker") as one, shared.serving("--no-worker") as other:
        job_id = one.submit(parameters={"seconds": 0.5, "steps": 5})
        async with (
            many(one, [stream_of(job_id)]) as (same_process,),
            many(other, [stream_of(job_id), "/api/events"]) as (other_process, everything),
        ):
            with shared.started("worker", "--slots", "1"):
                for stream in (same_process, other_process):
                    events = await stream.rest(seconds=30)
                    assert [event.name for event in events][-1] == "completed"
                    percents = [event.document["data"]["progress"] for event in events[:-1]]
                    assert percents == sorted(percents)
                    assert len(percents) >= 2
                await everything.until("completed")


async def test_the_outcome_of_a_job_is_delivered_soon(program: Program) -> None:
    with program.serving() as service:
        for _ in range(3):
            job_id = service.submit(parameters={"seconds": 0.3, "steps": 1})
            async with many(service, [stream_of(job_id)]) as (stream,):
                await stream.until("completed")
                notified_at = time.time()
            ended = service.job(job_id)["completed_at"]
            assert notified_at - datetime.fromisoformat(ended).timestamp() < 0.5


async def test_idle_streams_need_no_threads_and_end_with_the_service(program: Program) -> None:
    with program.serving() as service:
        job_ids = [service.submit(run_at=LATER) for _ in range(20)]
        async with many(service, [stream_of(job_ids[0])]):
            before = threads(service)
        paths = [stream_of(job_ids[n % len(job_ids)]) for n in range(STREAMS)]
        async with many(service, paths) as streams:
            assert threads(service) <= before + 4  # the pools may not have been full
            assert service.get("/api/health").status_code == 200
            started = time.monotonic()
            service.process.terminate()
            await asyncio.gather(*(stream.rest() for stream in streams))
            assert time.monotonic() - started < 2
        assert service.wait(seconds=5) == 0
        assert "Traceback" not in service.err


async def test_a_stream_goes_on_with_the_process_that_follows(program: Program) -> None:
    with program.serving("--no-worker") as first:
        job_id = first.submit(parameters={"seconds": 0})
        async with StreamClient(first.url) as client, client.opened(stream_of(job_id)) as stream:
            seen = await stream.next()
            assert seen is not None
            first.process.terminate()
            assert await stream.rest() == []
        first.wait()
    with program.serving() as second:
        async with (
            StreamClient(second.url) as client,
            client.opened(stream_of(job_id), seen=seen.event_id) as stream,
        ):
            events = await stream.rest(seconds=30)
    assert "pending" not in [event.name for event in events]
    assert events[-1].name == "completed"
