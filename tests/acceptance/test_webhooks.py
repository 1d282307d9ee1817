"""The program delivers its webhooks whatever happens to it."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from secretary.store import open_store

from ..contract.factories import lose_workers
from ..webhook_receiver import HANG, Received, Receiver, Reply
from .program import Program

#: A killed process holds its claims on events for another ten seconds.
PATIENCE = 40.0


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver().running() as receiver:
        yield receiver


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path, SECRETARY_NETWORK__ALLOW_HOSTS="127.0.0.1")


def hook(receiver: Receiver, path: str = "/hook", **fields: Any) -> dict[str, Any]:
    return {"url": receiver.url(path), "events": ["completed", "error"], **fields}


async def test_whoever_reacts_to_an_event_finds_the_final_state(
    program: Program, receiver: Receiver
) -> None:
    with program.serving() as service:
        seen: list[dict[str, Any]] = []
        receiver.on_request = lambda received: seen.append(service.job(received.json["job_id"]))
        for _ in range(5):
            service.submit(parameters={"seconds": 0}, webhook=hook(receiver))
        async with asyncio.timeout(10):
            while len(seen) < 5:
                await asyncio.sleep(0.02)
    assert [job["status"] for job in seen] == ["completed"] * 5


async def test_every_outcome_is_delivered(program: Program, receiver: Receiver) -> None:
    with program.serving() as service:
        slow = {"parameters": {"seconds": 60}, "webhook": hook(receiver)}
        late = service.submit(**slow, timeout_s=0.5)
        unknown = service.submit(job_type="unheard-of", webhook=hook(receiver))
        stopped = service.submit(**slow)
        service.wait_until(stopped, "processing")
        service.post(f"/api/jobs/{stopped}/cancel")
        events = {request.json["job_id"]: request.json for request in await receiver.wait_for(3)}
    codes = {job_id: one["error"]["code"] for job_id, one in events.items()}
    assert codes == {late: "PROCESSING_TIMEOUT", unknown: "UNKNOWN_JOB_TYPE", stopped: "CANCELLED"}
    assert {one["phase"] for one in events.values()} == {"error"}


async def test_a_job_that_takes_its_workers_down_is_reported(
    tmp_path: Path, receiver: Receiver
) -> None:
    program = Program(tmp_path, SECRETARY_NETWORK__ALLOW_HOSTS="127.0.0.1")
    with program.serving("--no-worker") as service:
        job_id = service.submit(parameters={"seconds": 60}, webhook=hook(receiver))
        store = open_store(f"sqlite://{program.data_dir}/secretary.db")
        await store.open()
        await lose_workers(store, 3)
        await store.close()
        with program.started("worker") as worker:
            service.wait_until(job_id, "processing")
            os.kill(worker.process.pid, signal.SIGKILL)
            worker.wait()
        with program.started("worker"):
            (request,) = await receiver.wait_for(seconds=20)
    assert request.json["error"]["code"] == "WORKER_CRASHED"


async def test_after_a_kill_and_a_restart_every_outcome_is_delivered(
    program: Program, receiver: Receiver
) -> None:
    """Some receivers had not responded when the service was killed, one had rejected the event."""
    receiver.answer(HANG, 200, path="/hangs")
    receiver.answer(503, 200, path="/fails")
    paths = ["/hangs", "/fails", "/fine"]
    with program.serving() as service:
        jobs = {
            path: service.submit(parameters={"seconds": 0}, webhook=hook(receiver, path))
            for path in paths
        }
        for path in paths:
            await receiver.wait_for(1, path=path)
        running = service.submit(parameters={"seconds": 2}, webhook=hook(receiver, "/late"))
        service.wait_until(running, "processing")
        os.kill(service.process.pid, signal.SIGKILL)
        service.wait()
    with program.serving() as service:
        for path, count in (("/hangs", 2), ("/fails", 2), ("/fine", 1), ("/late", 1)):
            await receiver.wait_for(count, path=path, seconds=PATIENCE)
        for job_id in (*jobs.values(), running):
            await delivered(service.job, job_id)
    for path, job_id in jobs.items():
        requests = receiver.to(path)
        assert {request.json["job_id"] for request in requests} == {job_id}
        assert len({(request.message_id, request.body) for request in requests}) == 1
    assert receiver.to("/late")[0].json["phase"] == "completed"


async def delivered(job: Any, job_id: str) -> None:
    async with asyncio.timeout(10):
        while job(job_id)["deliveries"][-1]["delivered_at"] is None:
            await asyncio.sleep(0.05)


async def test_a_failed_event_can_be_replayed_and_no_secret_is_shown(
    program: Program, receiver: Receiver
) -> None:
    receiver.answer(410, 200)
    secrets: dict[str, Any] = {
        "token": "S3CRET-t",
        "secret": "S3CRET-s",
        "headers": {"X-Key": "S3CRET-h"},
    }
    with program.serving() as service:
        job_id = service.submit(parameters={"seconds": 0}, webhook=hook(receiver, **secrets))
        await receiver.wait_for(1)
        path = f"/api/jobs/{job_id}/deliveries"
        async with asyncio.timeout(10):
            while not service.get(path).json()["data"]["deliveries"][0]["gave_up"]:
                await asyncio.sleep(0.05)
        assert service.post(f"{path}/1/replay").status_code == 200
        first, second = await receiver.wait_for(2)
        await delivered(service.job, job_id)
        answers = [service.get(path).text, service.get(f"/api/jobs/{job_id}").text]
    assert first.message_id == second.message_id
    for text in (*answers, service.out, service.err):
        assert "S3CRET" not in text


def test_a_private_address_is_refused_at_the_door(tmp_path: Path, receiver: Receiver) -> None:
    with Program(tmp_path).serving("--no-worker") as service:
        response = service.post("/api/jobs", {"webhook": hook(receiver)})
        assert response.status_code == 400
        (problem,) = response.json()["error"]["details"]["problems"]
        assert problem["field"] == "webhook.url"


async def test_a_long_job_sends_events_while_it_runs(program: Program, receiver: Receiver) -> None:
    receiver.answer(Reply(500), 200)
    with program.serving() as service:
        webhook = {"url": receiver.url()}
        job_id = service.submit(parameters={"seconds": 3, "steps": 30}, webhook=webhook)
        service.wait_until(job_id, "completed")
        await delivered(service.job, job_id)
    *open_ones, end = receiver.received
    assert [event(request) for request in open_ones] == ["running"] * len(open_ones)
    assert 1 <= len(open_ones) <= 4
    assert event(end) == "completed"


def event(request: Received) -> str:
    phase: str = request.json["phase"]
    return phase
