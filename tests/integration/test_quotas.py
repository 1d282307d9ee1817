"""Quotas and retention as clients see them, on a real store. No worker runs, except in the last
test: the others finish jobs themselves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from secretary.api import create_api
from secretary.config import QuotaSettings
from secretary.core.job import Completed, Failed, JobError, utc_now
from secretary.handlers import BUILTIN
from secretary.jobs.handler import Registry
from secretary.jobs.quotas import Quotas
from secretary.jobs.service import JobService
from secretary.observability.metrics import Metrics, ServiceStats
from secretary.storage.artifacts import JobFiles
from secretary.store import JobQuery, Store, open_store
from tests.backends import files_in, stored_uploads
from tests.contract.factories import claim
from tests.minimal_files import pdf
from tests.service_fixture import running_service

FAILED = Failed(JobError(code="FILE_CORRUPT", message="It is torn"))
LIMITS = QuotaSettings.model_validate(
    {
        "jobs_per_day": 2,
        "users": {
            "rich": {"jobs_per_day": 0, "pages_per_day": 10, "audio_minutes_per_day": 1},
            "full": {"jobs_per_day": 0, "stored_mb": 1},
        },
    }
)
MB = 1024 * 1024


class Client(httpx.AsyncClient):
    """Sends requests as a user, or as an operator."""

    async def send_as(self, user: str | None, method: str, path: str, **options: Any) -> Any:
        headers = {"X-User-ID": user} if user else {}
        return await self.request(method, path, headers=headers, **options)

    async def submit(self, user: str | None, **fields: Any) -> Any:
        document = {"job_type": "selftest", **fields}
        return await self.send_as(user, "POST", "/api/jobs", json=document)

    async def upload(self, user: str, size: int, **fields: str) -> Any:
        content = b"%PDF-1.4\n" + bytes(size - 9)
        options: dict[str, Any] = {"files": {"file": ("a.pdf", content)}, "data": fields}
        return await self.send_as(user, "POST", "/api/pdf/process", **options)

    async def quota(self, user: str) -> Any:
        return (await self.send_as(user, "GET", "/api/quota")).json()["data"]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = open_store(f"sqlite://{tmp_path}/jobs.db")
    await store.open()
    yield store
    await store.close()


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    """Built once, because that takes a second; each test puts its own service into it."""
    directory = tmp_path_factory.mktemp("api")
    store = open_store(f"sqlite://{directory}/jobs.db")
    return create_api(JobService(store, Registry(BUILTIN), JobFiles(directory)))


@asynccontextmanager
async def client_of(api: FastAPI, job_service: JobService) -> AsyncIterator[Client]:
    api.state.job_service = job_service
    api.state.service_stats = ServiceStats(job_service)
    api.state.metrics = Metrics(job_service.registry.job_types, api.state.service_stats)
    transport = httpx.ASGITransport(api, raise_app_exceptions=False)
    async with Client(transport=transport, base_url="http://localhost") as client:
        yield client


@pytest.fixture
async def client(api: FastAPI, store: Store, tmp_path: Path) -> AsyncIterator[Client]:
    files, registry = files_in(tmp_path, store), Registry(BUILTIN)
    job_service = JobService(store, registry, files, quotas=Quotas(LIMITS), max_retention_days=30)
    async with client_of(api, job_service) as client:
        yield client


class TestJobsPerDay:
    async def test_the_429_says_what_is_used_up_and_until_when(self, client: Client) -> None:
        for _ in range(2):
            assert (await client.submit("ann")).status_code == 202
        before = utc_now()
        refused = await client.submit("ann")
        assert refused.status_code == 429
        error = refused.json()["error"]
        resets_at = datetime.fromisoformat(error["details"]["resets_at"])
        assert error["code"] == "QUOTA_EXCEEDED"
        assert error["message"].startswith(
            "The quota of 2 jobs per day is used up (2 used, 1 requested); it resets at "
        )
        assert error["details"] | {"resets_at": None} == {
            "quota": "jobs_per_day", "limit": 2, "used": 2, "requested": 1, "resets_at": None,
        }  # fmt: skip
        assert (resets_at.hour, resets_at.minute) == (0, 0)
        wait = timedelta(seconds=int(refused.headers["Retry-After"]))
        assert before < resets_at <= utc_now() + wait <= before + timedelta(days=1, minutes=1)

    async def test_a_hundred_parallel_requests_do_not_exceed_it(self, client: Client) -> None:
        responses = await asyncio.gather(*(client.submit("ann") for _ in range(100)))
        statuses = [response.status_code for response in responses]
        assert (statuses.count(202), statuses.count(429)) == (2, 98)

    async def test_it_is_the_owners_and_operators_without_a_user_have_none(
        self, client: Client
    ) -> None:
        for _ in range(3):
            assert (await client.submit(None)).status_code == 202
            assert (await client.submit("rich")).status_code == 202
        for _ in range(2):
            assert (await client.submit(None, user_id="ann")).status_code == 202
        assert (await client.submit("ann")).status_code == 429
        assert (await client.submit("ben")).status_code == 202

    async def test_a_batch_counts_all_its_jobs_or_is_refused(self, client: Client) -> None:
        async def submit(number: int) -> Any:
            batch = {"jobs": [{"job_type": "selftest"}] * number}
            return await client.send_as("ann", "POST", "/api/batches", json=batch)

        assert (await submit(3)).status_code == 429
        assert (await client.quota("ann"))["jobs"] == {"used": 0, "limit": 2}
        assert (await submit(2)).status_code == 202
        assert (await client.quota("ann"))["jobs"] == {"used": 2, "limit": 2}

    async def test_reruns_and_restarts_count(self, client: Client, store: Store) -> None:
        job_id = (await client.submit("ann")).json()["data"]["job_id"]
        (job,) = await claim(store)
        await store.finish(job, FAILED)
        path = f"/api/jobs/{job_id}"
        assert (await client.send_as("ann", "POST", f"{path}/restart")).status_code == 200
        assert (await client.quota("ann"))["jobs"]["used"] == 2
        refused = await client.send_as("ann", "POST", f"{path}/restart")
        assert refused.status_code == 409  # it waits already, so nothing was to be counted
        assert (await client.send_as("ann", "POST", f"{path}/again")).status_code == 429
        (job,) = await claim(store)
        await store.finish(job, FAILED)
        assert (await client.send_as("ann", "POST", f"{path}/restart")).status_code == 429
        bulk = {"action": "restart", "job_ids": [job_id]}
        outcome = (await client.send_as("ann", "POST", "/api/jobs/bulk", json=bulk)).json()["data"]
        assert [one["code"] for one in outcome["refusals"]] == ["QUOTA_EXCEEDED"]

    async def test_the_failed_jobs_of_a_batch_are_restarted_all_or_none(
        self, client: Client, store: Store
    ) -> None:
        batch = {"jobs": [{"job_type": "selftest"}] * 2}
        submitted = await client.send_as("ann", "POST", "/api/batches", json=batch)
        path = f"/api/batches/{submitted.json()['data']['batch_id']}/restart-failed"
        for job in await claim(store, slots=2):
            await store.finish(job, FAILED)
        assert (await client.send_as("ann", "POST", path)).status_code == 429
        assert {job.status for job in (await store.find(JobQuery())).items} == {"failed"}


class TestOtherQuotas:
    async def test_pages_and_minutes_of_today_refuse_new_jobs(
        self, client: Client, store: Store
    ) -> None:
        await client.submit("rich")
        (job,) = await claim(store)
        await store.add_usage(job, pages=9, audio_seconds=59)
        assert (await client.submit("rich")).status_code == 202
        await store.add_usage(job, pages=5, audio_seconds=0)
        error = (await client.submit("rich")).json()["error"]
        assert (error["details"]["quota"], error["details"]["used"]) == ("pages_per_day", 14)
        await store.add_usage(job, pages=-14, audio_seconds=1)
        error = (await client.submit("rich")).json()["error"]
        assert error["details"]["quota"] == "audio_minutes_per_day"

    async def test_files_that_do_not_fit_are_refused_and_removed(
        self, client: Client, store: Store, tmp_path: Path
    ) -> None:
        first = await client.upload("full", 700_000)
        assert first.status_code == 202
        refused = await client.upload("full", 700_000)
        error = refused.json()["error"]
        assert (refused.status_code, error["code"]) == (429, "QUOTA_EXCEEDED")
        assert error["message"] == (
            "The quota of 1 MB of stored files is used up"
            " (0.668 used, 0.668 requested); delete jobs to free space"
        )
        assert refused.headers["Retry-After"] == "3600"
        assert list(await stored_uploads(tmp_path, store)) == [f"{first.json()['job_id']}/a.pdf"]
        assert (await client.upload("full", 300_000)).status_code == 202
        assert (await client.quota("full"))["stored_bytes"] == {"used": 1_000_000, "limit": MB}

    async def test_deleting_a_job_gives_its_bytes_back(self, client: Client) -> None:
        job_id = (await client.upload("full", MB)).json()["job_id"]
        assert (await client.submit("full")).status_code == 429
        await client.send_as("full", "POST", f"/api/jobs/{job_id}/cancel")
        await client.send_as("full", "DELETE", f"/api/jobs/{job_id}")
        assert (await client.quota("full"))["stored_bytes"]["used"] == 0
        assert (await client.upload("full", MB)).status_code == 202


class TestFigures:
    async def test_users_see_only_their_own(self, client: Client) -> None:
        await client.submit("ann")
        own = await client.quota("ann")
        assert own["user_id"] == "ann"
        assert own["jobs"] == {"used": 1, "limit": 2}
        assert own["pages"] == {"used": 0, "limit": None}
        for asked in ("/api/quota?user_id=ann", "/api/quota?user_id=nobody"):
            assert (await client.send_as("ben", "GET", asked)).status_code == 403
        assert (await client.quota("ben"))["jobs"]["used"] == 0

    async def test_operators_ask_for_a_user(self, client: Client) -> None:
        await client.submit("ann")
        asked = await client.send_as(None, "GET", "/api/quota?user_id=ann")
        assert asked.json()["data"]["jobs"] == {"used": 1, "limit": 2}
        assert (await client.send_as(None, "GET", "/api/quota")).status_code == 400

    async def test_the_overview_has_them_for_users_and_totals_for_operators(
        self, client: Client
    ) -> None:
        for user in ("ann", "ann", "ben"):
            await client.submit(user)
        mine = (await client.send_as("ann", "GET", "/api/overview")).json()["data"]
        assert (mine["quota"]["jobs"], mine["usage"]) == ({"used": 2, "limit": 2}, None)
        total = (await client.send_as(None, "GET", "/api/overview")).json()["data"]
        assert total["quota"] is None
        assert total["usage"] == {"users": 2, "jobs": 3, "pages": 0, "audio_minutes": 0}

    async def test_the_metrics_have_totals_and_refusals_without_users(self, client: Client) -> None:
        for user in ("ann", "ann", "ann", "ben"):
            await client.submit(user)
        text = (await client.get("/metrics")).text
        lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
        assert lines['secretary_usage_today{unit="jobs"}'] == "3.0"
        assert lines["secretary_users_today"] == "2.0"
        assert lines['secretary_quota_refusals_total{quota="jobs_per_day"}'] == "1.0"
        assert "ann" not in text

    async def test_without_quotas_nothing_is_counted(
        self, api: FastAPI, store: Store, tmp_path: Path
    ) -> None:
        job_service = JobService(store, Registry(BUILTIN), files_in(tmp_path, store))
        async with client_of(api, job_service) as client:
            job_id = (await client.upload("ann", 100)).json()["job_id"]
            assert (await client.quota("ann")) | {"resets_at": None} == {
                "enabled": False, "user_id": "ann", "resets_at": None,
                **{unit: {"used": 0, "limit": None}
                   for unit in ("jobs", "pages", "audio_minutes", "stored_bytes")},
            }  # fmt: skip
            assert "secretary_usage_today" not in (await client.get("/metrics")).text
        assert (await store.get(job_id)).stored_bytes is None


class TestRetention:
    async def test_a_job_tells_when_it_will_be_deleted(self, client: Client, store: Store) -> None:
        submitted = await client.submit(None, retention_days=1.5)
        document = submitted.json()["data"]["job"]
        assert (document["retention_days"], document["expires_at"]) == (1.5, None)
        (job,) = await claim(store)
        await store.finish(job, Completed({}))
        document = (await client.get(f"/api/jobs/{job.job_id}")).json()["data"]
        kept = datetime.fromisoformat(document["expires_at"]) - datetime.fromisoformat(
            document["completed_at"]
        )
        assert kept == timedelta(days=1.5)
        again = await client.post(f"/api/jobs/{job.job_id}/again")
        assert again.json()["data"]["job"]["retention_days"] == 1.5

    async def test_the_jobs_of_a_batch_inherit_it(self, client: Client) -> None:
        jobs = [{"job_type": "selftest"}, {"job_type": "selftest", "retention_days": 2}]
        body = {"retention_days": 1, "jobs": jobs}
        batch = (await client.post("/api/batches?include=jobs", json=body)).json()["data"]["batch"]
        assert batch["retention_days"] == 1
        listed = (await client.get(f"/api/batches/{batch['batch_id']}?include=jobs")).json()["data"]
        assert sorted(job["retention_days"] for job in listed["jobs"]) == [1, 2]

    async def test_forms_may_name_it(self, client: Client) -> None:
        job_id = (await client.upload("ann", 100, retention_days="0.5")).json()["job_id"]
        document = (await client.get(f"/api/jobs/{job_id}")).json()["data"]
        assert document["retention_days"] == 0.5
        options: dict[str, Any] = {
            "files": {"file": ("a.pdf", pdf("x"))}, "data": {"retention_days": "3"},
        }  # fmt: skip
        files = await client.post("/api/batches/from-files", **options)
        assert files.json()["data"]["batch"]["retention_days"] == 3

    async def test_it_is_limited_by_the_settings(self, client: Client) -> None:
        for days in (31, 0, -1, "soon"):
            error = (await client.submit(None, retention_days=days)).json()["error"]
            assert [one["field"] for one in error["details"]["problems"]] == ["retention_days"]
            jobs = [{"job_type": "selftest"}, {"job_type": "selftest", "retention_days": days}]
            error = (await client.post("/api/batches", json={"jobs": jobs})).json()["error"]
            (problem,) = error["details"]["problems"]
            assert problem["field"] == "jobs.1.retention_days"

    async def test_without_it_the_settings_decide(self, client: Client) -> None:
        for days in (None, ""):
            job = (await client.submit(None, retention_days=days)).json()["data"]["job"]
            assert job["retention_days"] is None


async def test_pages_count_when_they_are_read_and_not_when_they_are_cached(tmp_path: Path) -> None:
    three, two = pdf("One", "Two", "Three"), pdf("Four", "Five")
    limits = {"pages_per_day": 5, "stored_mb": 10}
    async with running_service(tmp_path, quotas=limits) as service:

        async def quota() -> Any:
            response = await service.client.get("/api/quota", headers={"X-User-ID": "ann"})
            return response.json()["data"]

        for _ in range(2):
            await service.read("/api/pdf/process", three, "a.pdf", user="ann")
            assert (await quota())["pages"] == {"used": 3, "limit": 5}
        job_id = await service.submit_file("/api/pdf/process", two, "b.pdf", user="ann")
        job = await service.ended(job_id, user="ann")
        assert job["resources"]["pages"] == 2
        figures = await quota()
        assert (figures["pages"]["used"], figures["jobs"]["used"]) == (5, 3)
        assert figures["stored_bytes"]["used"] > 3 * job["stored_bytes"] / 2 > 0
        refused = await service.client.post(
            "/api/pdf/process", files={"file": ("a.pdf", three)}, headers={"X-User-ID": "ann"}
        )
        assert refused.json()["error"]["details"]["quota"] == "pages_per_day"
