"""The overview of the service: its numbers must add up."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from secretary.api import create_api
from secretary.api.system import Span, series
from secretary.core.job import Completed, Failed, JobError, new_id
from secretary.handlers import BUILTIN
from secretary.jobs.handler import Registry
from secretary.jobs.service import JobService
from secretary.storage.artifacts import JobFiles
from secretary.store import Store
from secretary.store.stats import Throughput, bucket_of
from tests.api_server import serving
from tests.no_tls import NO_TLS

from ..contract.factories import add_batch, claimed, worker

NOON = datetime(2026, 1, 1, 12, 0, 59, tzinfo=UTC)
CORRUPT = JobError(code="FILE_CORRUPT", message="It is damaged")


@pytest.fixture
async def client(store: Store, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    job_service = JobService(store, Registry(BUILTIN), JobFiles(tmp_path))
    async with (
        serving(create_api(job_service, api_keys=["all", "anns:ann"])) as url,
        httpx.AsyncClient(base_url=url, verify=NO_TLS, trust_env=False) as client,
    ):
        yield client


async def ask(client: httpx.AsyncClient, path: str, key: str = "all") -> dict[str, Any]:
    answer = await client.get(path, headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code == 200, answer.text
    data: dict[str, Any] = answer.json()["data"]
    return data


class TestSpans:
    @pytest.mark.parametrize(
        ("minutes", "parts", "step"),
        [(5, 3, 2), (60, 30, 2), (61, 16, 4), (360, 30, 12), (1440, 24, 60), (10_080, 28, 360)],
    )
    def test_a_span_has_a_few_parts_that_begin_where_clocks_do(
        self, minutes: int, parts: int, step: int
    ) -> None:
        span = Span.up_to(NOON, timedelta(minutes=minutes))
        assert (span.parts, span.step) == (parts, timedelta(minutes=step))
        last = span.since + (parts - 1) * span.step
        assert last <= NOON < last + span.step
        assert (span.since.second, span.since.minute % min(step, 60)) == (0, 0)

    def test_every_interval_is_reported_in_total_and_by_type(self) -> None:
        second, minute = (bucket_of(timedelta(seconds=n)) for n in (1, 60))
        ended = [
            Throughput(interval=0, job_type="pdf", completed=3, waits={second: 3}),
            Throughput(interval=0, job_type="audio", failed={"X": 2, "Y": 1}, waits={minute: 3}),
            Throughput(interval=29, job_type="pdf", cancelled=1, failed={"X": 1}),
        ]
        buckets = series(ended, Span.up_to(NOON, timedelta(minutes=60)))
        assert len(buckets) == 30
        first, last = buckets[0], buckets[-1]
        assert first["from"] == "2026-01-01T11:02:00Z"
        assert (first["completed"], first["failed"], first["failures"]) == (3, 3, {"X": 2, "Y": 1})
        assert first["wait_p95_s"] == pytest.approx(60, rel=0.1)
        assert first["wait_p50_s"] == pytest.approx(1, rel=0.1)
        assert list(first["types"]) == ["audio", "pdf"]
        assert first["types"]["pdf"]["wait_p95_s"] == pytest.approx(1, rel=0.1)
        assert (first["types"]["audio"]["failed"], first["types"]["audio"]["completed"]) == (3, 0)
        assert (last["failed"], last["cancelled"], last["wait_p95_s"]) == (1, 1, None)
        assert buckets[1]["types"] == {}


class TestOverview:
    async def test_it_adds_up_however_many_jobs_ended(
        self, client: httpx.AsyncClient, store: Store
    ) -> None:
        for _ in range(3):
            await store.finish(await claimed(store), Completed())
        await store.finish(await claimed(store, job_type="audio"), Failed(CORRUPT))
        await claimed(store)
        overview = await ask(client, "/api/overview?minutes=60")
        assert overview["jobs"] == {
            "pending": 0, "processing": 1, "completed": 3, "failed": 1, "cancelled": 0,
        }  # fmt: skip
        assert sum(part["completed"] for part in overview["series"]) == 3
        assert sum(part["failures"].get("FILE_CORRUPT", 0) for part in overview["series"]) == 1
        assert {name for part in overview["series"] for name in part["types"]} == {"pdf", "audio"}
        assert (overview["part_s"], overview["of_user"]) == (120, None)

    async def test_a_user_sees_only_their_own_jobs(
        self, client: httpx.AsyncClient, store: Store
    ) -> None:
        await store.finish(await claimed(store, user_id="ann"), Completed())
        await store.finish(await claimed(store, user_id="bob"), Completed())
        mine = await ask(client, "/api/overview", key="anns")
        assert (mine["jobs"]["completed"], mine["of_user"]) == (1, "ann")
        assert sum(part["completed"] for part in mine["series"]) == 1
        everything = await ask(client, "/api/overview")
        assert everything["jobs"]["completed"] == 2

    async def test_each_worker_is_listed_with_the_slots_it_uses(
        self, client: httpx.AsyncClient, store: Store
    ) -> None:
        await claimed(store)
        await claimed(store, job_type="chat")
        chatting = replace(worker(), io_slots=16, io_types=("chat",))
        await store.register_worker(chatting, timedelta(seconds=60))
        await store.register_worker(worker("worker-2"), timedelta(seconds=60))
        overview = await ask(client, "/api/overview")
        names = ("busy", "slots", "io_busy", "io_slots")
        crew = {one["worker_id"]: [one[name] for name in names] for one in overview["crew"]}
        assert crew == {"worker-1": [1, 3, 1, 16], "worker-2": [0, 3, 0, 0]}
        assert [overview[name] for name in names] == [1, 6, 1, 16]


class TestSearching:
    async def test_a_whole_id_finds_its_job_or_the_jobs_of_its_batch(
        self, client: httpx.AsyncClient, store: Store
    ) -> None:
        batch, jobs = await add_batch(store, 3)
        await add_batch(store, 2)
        one = await ask(client, f"/api/jobs?q={jobs[1].job_id}")
        assert [job["job_id"] for job in one["jobs"]] == [jobs[1].job_id]
        page = await ask(client, f"/api/jobs?q={batch.batch_id}")
        assert {job["job_id"] for job in page["jobs"]} == {job.job_id for job in jobs}
        none = await ask(client, f"/api/jobs?q={new_id('job')}")
        assert (none["jobs"], none["next_cursor"], none["searched_to"]) == ([], None, None)
