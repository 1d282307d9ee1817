"""A rolling update under load: process by process, old and new versions side by side."""

import asyncio
import shutil
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from secretary.core.job import JobStatus
from secretary.store import open_store
from tests.chaos.checks import lives
from tests.chaos.history import faults_of
from tests.mongod import Mongod

from ..polling import wait_until
from .program import Program, Running
from .service import ROOT, ended

NEW_VERSION = "99.0.0"
#: What the new version supports in addition to the old one.
FUTURE = """
from secretary import Registry, handles
from tests.chaos import handlers as chaos_handlers


@handles("future")
async def future(ctx):
    return {"done": True}


def register(registry: Registry) -> None:
    chaos_handlers.register(registry)
    registry.add(future)
"""


class Deploy:
    """Machines of two versions; the client uses the newest API."""

    def __init__(self, directory: Path, url: str) -> None:
        self._directory, self._url = directory, url
        self._stack = ExitStack()
        tree = directory / "newer"
        shutil.copytree(ROOT / "src" / "secretary", tree / "secretary")
        (tree / "secretary" / "version.py").write_text(f'__version__ = "{NEW_VERSION}"\n')
        (tree / "future_handlers.py").write_text(FUTURE)
        self._new = {
            "PYTHONPATH": f"{tree}:{ROOT}",
            "SECRETARY_HANDLERS": "future_handlers:register",
        }
        self._old = {"SECRETARY_HANDLERS": "tests.chaos.handlers:register"}
        self.api = self.start_api("old-api", new=False)

    def start_api(self, name: str, *, new: bool) -> Running:
        return self._stack.enter_context(self._program(name, new).serving("--no-worker"))

    def start_worker(self, name: str, *, new: bool) -> Running:
        arguments = ("worker", "--slots", "2", "--metrics-port", "0")
        worker = self._stack.enter_context(self._program(name, new).started(*arguments))
        worker.wait_for(r"Metrics are at (\S+)/metrics")
        return worker

    def _program(self, name: str, new: bool) -> Program:
        (self._directory / name).mkdir()
        settings = self._new if new else self._old
        return Program(self._directory / name, MONGODB_URI=self._url, **settings)

    def close(self) -> None:
        self._stack.close()


class Client:
    def __init__(self, deploy: Deploy, journal: Path) -> None:
        self._deploy = deploy
        self._journal = journal
        self.accepted: list[str] = []
        self.types = ["chaos"]
        self.stopping = asyncio.Event()

    async def run(self) -> None:
        parameters = {"journal": str(self._journal), "seconds": 0.5, "blocking": False, "fails": 0}
        async with httpx.AsyncClient(timeout=20, trust_env=False) as client:
            while not self.stopping.is_set():
                for job_type in self.types:
                    body = {"job_type": job_type, "parameters": parameters}
                    self.accepted.append(await self._insisted(client, body))
                await asyncio.sleep(0.1)

    async def _insisted(self, client: httpx.AsyncClient, body: dict[str, Any]) -> str:
        headers = {"Idempotency-Key": uuid4().hex}
        deadline = time.monotonic() + 60
        while True:
            try:
                url = f"{self._deploy.api.url}/api/jobs"
                answer = await client.post(url, headers=headers, json=body)
                if answer.status_code == 202:
                    job_id: str = answer.json()["data"]["job_id"]
                    return job_id
                assert answer.status_code == 503, answer.text
            except httpx.TransportError:
                pass
            assert time.monotonic() < deadline, "the job was not accepted"
            await asyncio.sleep(0.1)


async def test_nothing_is_lost_while_a_new_version_is_rolled_out(
    mongod: Mongod, tmp_path: Path
) -> None:
    url, journal = mongod.url(f"test_{uuid4().hex[:12]}"), tmp_path / "journal"
    journal.touch()
    deploy = await asyncio.to_thread(Deploy, tmp_path, url)
    client = Client(deploy, journal)
    try:
        stream = asyncio.create_task(client.run())
        await asyncio.to_thread(roll_out, deploy, client)
        await asyncio.sleep(3)
        client.stopping.set()
        await stream
        await check(url, client.accepted, journal)
    finally:
        deploy.close()


def roll_out(deploy: Deploy, client: Client) -> None:
    """Workers first, one by one, then the API; one old worker is overlooked and keeps running."""
    old = [deploy.start_worker(f"old-{n}", new=False) for n in range(2)]
    wait_for_jobs(client, 10)
    deploy.start_worker("new-0", new=True)
    old[0].process.send_signal(signal.SIGTERM)
    assert old[0].wait() == 0
    wait_for_jobs(client, 10)
    old_api, deploy.api = deploy.api, deploy.start_api("new-api", new=True)
    old_api.process.send_signal(signal.SIGTERM)
    assert old_api.wait() == 0
    client.types.append("future")
    wait_for_jobs(client, 20)
    versions = {one["version"] for one in deploy.api.get("/api/workers").json()["data"]["workers"]}
    assert NEW_VERSION in versions and len(versions) == 2


def wait_for_jobs(client: Client, count: int) -> None:
    enough = len(client.accepted) + count
    wait_until(lambda: len(client.accepted) >= enough, seconds=60, what="the handing in of jobs")


async def check(url: str, accepted: list[str], journal: Path) -> None:
    store = open_store(url)
    await store.open()
    try:
        jobs = [await ended(store, job_id, seconds=90) for job_id in accepted]
    finally:
        await store.close()
    assert [job.error for job in jobs if job.status is not JobStatus.COMPLETED] == []
    assert {job.job_type for job in jobs} == {"chaos", "future"}
    lives_by_job = lives(journal)
    chaos = [job for job in jobs if job.job_type == "chaos"]
    assert [fault for job in chaos for fault in faults_of(job, lives_by_job[job.job_id])] == []
