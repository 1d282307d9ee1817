"""Several machines and a MongoDB replica set of three: one member dies, or a link is cut."""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from secretary.core.job import Job, JobStatus
from secretary.store import Store, open_store
from tests.chaos.checks import lives
from tests.chaos.history import faults_of
from tests.minimal_files import pdf
from tests.mongod import Mongod, ReplicaSet
from tests.network_partition import NetworkLink
from tests.polling import until

from .program import Program, Running
from .service import ended

WORKERS = 4
#: How long jobs are submitted; then the primary dies, then it returns.
SECONDS, KILL_AT, BACK_AT = 22.0, 5.0, 13.0
HANDLERS = "tests.chaos.handlers:register"


@pytest.fixture
def replica_set(tmp_path: Path) -> Iterator[ReplicaSet]:
    servers = ReplicaSet(tmp_path / "mongod")
    servers.start()
    yield servers
    servers.stop()


class Client:
    """Submits jobs and files as a careful client does: each with an idempotency key, retried until
    it is accepted."""

    def __init__(self, apis: list[Running], journal: Path) -> None:
        self._apis = apis
        self._journal = journal
        self.accepted: list[str] = []
        self.files: list[str] = []
        self.waits: list[float] = []

    async def run(self, until_time: float, number: int) -> None:
        async with httpx.AsyncClient(timeout=20, trust_env=False) as client:
            while time.monotonic() < until_time:
                began = time.monotonic()
                if number % 2:
                    self.accepted.append(await self._job(client, number))
                else:
                    self.files.append(await self._file(client, number))
                self.waits.append(time.monotonic() - began)
                number += 2
                await asyncio.sleep(0.1)

    async def _job(self, client: httpx.AsyncClient, number: int) -> str:
        parameters = {
            "journal": str(self._journal),
            "seconds": 0.3,
            "blocking": False,
            "fails": 0,
        }
        body = {"job_type": "chaos", "parameters": parameters}
        response = await self._insisted(client, number, "/api/jobs", json=body)
        job_id: str = response["data"]["job_id"]
        return job_id

    async def _file(self, client: httpx.AsyncClient, number: int) -> str:
        content = pdf(f"Document {number}", "and its second page")
        files = {"file": (f"{number}.pdf", content)}
        response = await self._insisted(client, number, "/api/pdf/process", files=files)
        job_id: str = response["job_id"]
        return job_id

    async def _insisted(
        self, client: httpx.AsyncClient, number: int, path: str, **body: Any
    ) -> dict[str, Any]:
        headers = {"Idempotency-Key": uuid4().hex}
        deadline = time.monotonic() + 60
        while True:
            api = self._apis[number % len(self._apis)]
            try:
                response = await client.post(api.url + path, headers=headers, **body)
                if response.status_code == 202:
                    document: dict[str, Any] = response.json()
                    return document
                assert response.status_code in (429, 503), response.text
            except httpx.TransportError:
                pass
            assert time.monotonic() < deadline, "the job was not accepted"
            await asyncio.sleep(0.2)


async def test_a_primary_that_dies_costs_a_pause_and_no_job(
    replica_set: ReplicaSet, tmp_path: Path, record_property: Any
) -> None:
    url, journal = replica_set.url("failover"), tmp_path / "journal"
    journal.touch()
    with ExitStack() as stack:
        apis, _ = start_machines(stack, tmp_path, url)
        client = Client(apis, journal)
        began = time.monotonic()
        streams = [asyncio.create_task(client.run(began + SECONDS, number)) for number in (0, 1)]
        await asyncio.sleep(KILL_AT)
        dead = await asyncio.to_thread(replica_set.primary)
        dead.stop()  # kill -9
        await asyncio.sleep(BACK_AT - KILL_AT)
        dead.begin()
        await asyncio.gather(*streams)
        assert len(client.accepted) > 20 and len(client.files) > 20
        await check(url, client, journal, apis)
    waits = sorted(client.waits)
    p99 = waits[int(len(waits) * 0.99)]
    record_property("p99 pause of a request in s", round(p99, 2))
    print(
        f"{len(waits)} requests: median {statistics.median(waits) * 1000:.0f} ms,"
        f" p99 {p99:.2f} s, longest {waits[-1]:.2f} s"
    )


def start_machines(
    stack: ExitStack, directory: Path, url: str
) -> tuple[list[Running], list[Running]]:
    def program(name: str) -> Program:
        (directory / name).mkdir()
        return Program(directory / name, MONGODB_URI=url, SECRETARY_HANDLERS=HANDLERS)

    apis = [stack.enter_context(program(f"api-{n}").serving("--no-worker")) for n in range(2)]
    workers = [
        stack.enter_context(program(f"worker-{n}").started("worker", "--slots", "2"))
        for n in range(WORKERS)
    ]
    return apis, workers


async def check(url: str, client: Client, journal: Path, apis: list[Running]) -> None:
    """Every accepted job finished once, and no two workers ran it at the same time."""
    async with opened(url) as store:
        jobs = [await ended(store, one, seconds=90) for one in client.accepted + client.files]
        assert [job.error for job in jobs if job.status is not JobStatus.COMPLETED] == []
        chaos = [job for job in jobs if job.job_type == "chaos"]
        lives_by_job = lives(journal)
        assert [fault for job in chaos for fault in faults_of(job, lives_by_job[job.job_id])] == []
        assert len(set(client.accepted + client.files)) == len(jobs)
        everything = sum(sum(by.values()) for by in (await store.counts()).values())
        assert everything == len(jobs), (
            "an idempotency key creates one job, however often it is sent"
        )
        for number, job_id in enumerate(client.files):
            assert_text_is_served(apis[number % 2], job_id)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    store = open_store(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def assert_text_is_served(api: Running, job_id: str) -> None:
    results = api.get(f"/api/jobs/{job_id}").json()["data"]["results"]
    page = api.get(results["page_texts"][1])
    assert page.status_code == 200, page.text
    assert page.json()["content"].strip() == "and its second page"


async def test_a_worker_that_is_cut_off_stops_and_writes_nothing_more(
    mongod: Mongod, tmp_path: Path
) -> None:
    name = f"cut_{uuid4().hex[:12]}"
    url, journal = mongod.url(name), tmp_path / "journal"
    journal.touch()
    async with opened(url) as store, NetworkLink(mongod.port) as link:
        through = f"mongodb://127.0.0.1:{link.port}/{name}?directConnection=true"
        with ExitStack() as stack:
            stack.enter_context(worker(tmp_path / "far", through))
            parameters = {
                "journal": str(journal), "seconds": 12, "blocking": True, "fails": 0,
            }  # fmt: skip
            job = Job(job_type="chaos", parameters=parameters)
            await store.add([job])
            await until(lambda: begun(journal, job.job_id), what="the first attempt")
            link.cut()
            stack.enter_context(worker(tmp_path / "near", url))
            done = await ended(store, job.job_id, seconds=90)
            before = await as_stored(store, job.job_id)
            link.restore()
            await until(lambda: is_back(store), what="the return of the worker")
            assert await as_stored(store, job.job_id) == before, (
                "the returning worker must not change the job"
            )
    assert (done.status, done.attempt) == (JobStatus.COMPLETED, 2)
    attempts = lives(journal)[job.job_id]
    assert faults_of(done, attempts) == [], "the first attempt stopped before the second began"


def worker(directory: Path, url: str) -> Any:
    directory.mkdir()
    return Program(directory, MONGODB_URI=url, SECRETARY_HANDLERS=HANDLERS).started("worker")


async def begun(journal: Path, job_id: str) -> bool:
    return job_id in await asyncio.to_thread(journal.read_text)


async def is_back(store: Store) -> bool:
    """Both workers have sent a heartbeat in the last few seconds."""
    now = time.time()
    seen = [one.seen_at.timestamp() for one in await store.workers()]
    return len([at for at in seen if at > now - 5]) == 2


async def as_stored(store: Store, job_id: str) -> str:
    job: Job = await store.get(job_id)
    return job.model_dump_json(exclude={"updated_at"})
