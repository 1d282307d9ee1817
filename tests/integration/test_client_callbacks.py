"""A client that processes a final event before it responds, and calls the API back for it."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from ..minimal_files import pdf
from ..service_fixture import running_service
from ..webhook_receiver import Received, Receiver

ALLOWED = {"allow_hosts": ["127.0.0.1"]}
TEXT = {"text": "# Apples", "target_format": "html", "wait_ms": 0, "callback_url": None}


@dataclass
class ClientJob:
    """What the client stores about its job, and how it judges events."""

    token: str
    process_id: str | None = None
    state: str = "queued"
    finals: int = 0
    refused: list[str] = field(default_factory=list)

    def judge(self, event: Received) -> bool:
        """Whether this is a final event that was accepted."""
        payload = event.json
        if self.process_id not in (None, payload["process"]["id"]):
            self.refused.append("mismatched_process")
            return False
        self.process_id = payload["process"]["id"]
        if event.headers["x-callback-token"] != self.token:
            self.refused.append("token")
            return False
        self.state = "running"
        if payload["error"] or payload["phase"] == "error":
            self.state = "failed"
        elif payload["status"] == "completed" or payload["data"].get("extracted_text"):
            self.finals += 1
            return True
        return False


class ClientApp:
    """Receives the events of its jobs at `/api/external/jobs/<id>`."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.api = ""
        self.jobs: dict[str, ClientJob] = {}
        self.texts: list[str] = []
        receiver.on_request = self._receive

    def submission(self, job_id: str | None = None) -> tuple[str, dict[str, Any]]:
        """The fields of a new job, or of one that is submitted again."""
        job_id, token = job_id or str(uuid4()), uuid4().hex
        self.jobs.setdefault(job_id, ClientJob(token)).token = token
        url = self.receiver.url(f"/api/external/jobs/{job_id}")
        return job_id, {"callback_url": url, "callback_token": token, "useCache": "true"}

    def _receive(self, event: Received) -> None:
        job = self.jobs[event.path.rpartition("/")[2]]
        if not job.judge(event):
            return
        with httpx.Client(base_url=self.api, timeout=30) as client:
            stored = client.get(f"/api/jobs/{event.json['process']['id']}").json()["data"]
            answer = client.post("/api/transformer/text", json=TEXT)
            assert answer.status_code == 200, answer.text
            self.texts.append(answer.json()["data"]["text"])
            job.state = stored["status"]

    async def wait(self, state: str) -> None:
        async with asyncio.timeout(30):
            while {job.state for job in self.jobs.values()} != {state}:
                await asyncio.sleep(0.02)


@pytest.fixture
def client_app() -> Iterator[ClientApp]:
    with Receiver().running() as receiver:
        yield ClientApp(receiver)


async def test_calls_back_are_served_while_all_final_events_are_open(
    tmp_path: Path, client_app: ClientApp
) -> None:
    """With one worker slot, which each of these jobs and calls needs."""
    one_slot = {"max_concurrent_workers": 1}
    async with running_service(tmp_path, network=ALLOWED, generic_worker=one_slot) as service:
        client_app.api = str(service.client.base_url)
        for n in range(6):
            _, data = client_app.submission()
            await service.submit_file("/api/pdf/process", pdf(f"Page {n}"), "a.pdf", **data)
        await client_app.wait("completed")
        await asyncio.sleep(1.5)
    assert len(client_app.texts) == 6
    assert {job.state for job in client_app.jobs.values()} == {"completed"}, "no event came later"
    assert [job.finals for job in client_app.jobs.values()] == [1] * 6
    assert not any(job.refused for job in client_app.jobs.values())


async def test_a_job_submitted_again_at_any_time_ends_with_one_accepted_event(
    tmp_path: Path, client_app: ClientApp
) -> None:
    async with running_service(tmp_path, network=ALLOWED) as service:
        client_app.api = str(service.client.base_url)
        job_id, data = client_app.submission()
        first = await service.submit_file("/api/pdf/process", pdf("One"), "a.pdf", **data)
        _, data = client_app.submission(job_id)
        again = await service.submit_file("/api/pdf/process", pdf("One"), "a.pdf", **data)
        await client_app.wait("completed")
        await asyncio.sleep(1.5)
        job = client_app.jobs[job_id]
        assert (job.process_id, job.state) == (first, "completed")
        if again == first:  # it was still unfinished
            assert job.finals == 1
        # Restarted by the user, with another method.
        job.state, before = "queued", job.finals
        _, data = client_app.submission(job_id)
        method = {"extraction_method": "preview_and_native"}
        last = await service.submit_file("/api/pdf/process", pdf("One"), "a.pdf", **data, **method)
        await client_app.wait("completed")
        assert (last != first, job.process_id, job.finals) == (True, first, before + 1)
        assert "mismatched_process" not in job.refused
