"""Bulk actions on jobs by ID or by a filter, over the API, on every store."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from secretary.api import create_api
from secretary.core.errors import NoDiskSpace
from secretary.core.job import Batch, Completed, Failed, Job, JobError, JobStatus
from secretary.handlers import BUILTIN
from secretary.jobs import bulk
from secretary.jobs.handler import Registry
from secretary.jobs.service import JobService
from secretary.storage.artifacts import JobFiles
from secretary.store import JobQuery, Store

from ..contract.factories import claim

FAILED = Failed(JobError(code="FILE_CORRUPT", message="It is torn"))


@pytest.fixture
async def client(store: Store, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    api = create_api(JobService(store, Registry(BUILTIN), JobFiles(tmp_path)))
    transport = httpx.ASGITransport(api, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def add(store: Store, count: int, **fields: Any) -> list[str]:
    batch = Batch()
    jobs = [Job(job_type="selftest", batch_id=batch.batch_id, **fields) for _ in range(count)]
    return (await store.add(jobs, batch=batch)).job_ids


async def end(store: Store, count: int, outcome: Completed | Failed) -> None:
    for _ in range(count):
        (job,) = await claim(store)
        await store.finish(job, outcome)


async def bulk_result(client: httpx.AsyncClient, **asked: Any) -> dict[str, Any]:
    headers = asked.pop("headers", None)
    response = await client.post("/api/jobs/bulk", json=asked, headers=headers)
    assert response.status_code == 200, response.text
    data: dict[str, Any] = response.json()["data"]
    return data


async def states(store: Store) -> list[JobStatus]:
    return sorted(job.status for job in (await store.find(JobQuery(limit=1000))).items)


class TestFilters:
    async def test_a_preview_counts_the_jobs_and_changes_nothing(
        self, client: httpx.AsyncClient, store: Store
    ) -> None:
        await add(store, 5)
        await end(store, 2, FAILED)
        before = await states(store)
        for action, count in (("cancel", 3), ("restart", 2), ("archive", 5), ("delete", 2)):
            answer = await bulk_result(client, action=action, filter={}, dry_run=True)
            assert (answer["count"], answer["next_cursor"]) == (count, None), action
        assert await states(store) == before

    async def test_only_what_fits_is_changed(self, client: httpx.AsyncClient, store: Store) -> None:
        await add(store, 4)
        await end(store, 2, FAILED)
        await end(store, 1, Completed({}))
        fitting = {"status": "failed", "error_code": "FILE_CORRUPT"}
        answer = await bulk_result(client, action="restart", filter=fitting)
        assert (answer["count"], answer["refused"]) == (2, 0)
        assert await states(store) == ["completed", "pending", "pending", "pending"]

    async def test_more_than_a_part_is_done_in_parts(
        self, client: httpx.AsyncClient, store: Store
    ) -> None:
        count = bulk.CHUNK_SIZE + 10
        await add(store, count)
        first = await bulk_result(client, action="cancel", filter={"job_type": "selftest"})
        assert first["count"] == bulk.CHUNK_SIZE
        cursor = first["next_cursor"]
        second = await bulk_result(
            client, action="cancel", filter={"job_type": "selftest"}, cursor=cursor
        )
        assert (second["count"], second["next_cursor"]) == (10, None)
        assert set(await states(store)) == {JobStatus.CANCELLED}

    async def test_jobs_that_came_later_can_be_left_alone(
        self, client: httpx.AsyncClient, store: Store
    ) -> None:
        await add(store, 2)
        preview = await bulk_result(client, action="cancel", filter={}, dry_run=True)
        (late,) = await add(store, 1)
        pinned = {"created_before": preview["as_of"]}
        assert (await bulk_result(client, action="cancel", filter=pinned))["count"] == preview[
            "count"
        ]
        assert (await store.get(late)).status is JobStatus.PENDING

    async def test_a_filter_that_leaves_nothing_does_nothing(
        self, client: httpx.AsyncClient, store: Store
    ) -> None:
        await add(store, 1)
        for asked in (
            {"action": "restart", "filter": {"status": "pending"}},
            {"action": "archive", "filter": {"archived": "true"}},
        ):
            assert (await bulk_result(client, **asked))["count"] == 0
        assert await states(store) == ["pending"]

    @pytest.mark.parametrize(
        "asked",
        [
            {"action": "delete", "filter": {"statuss": "failed"}},  # it would delete everything
            {"action": "delete", "filters": {"status": "failed"}},
            {"action": "delete", "filter": {"status": "broken"}},
            {"action": "explode", "filter": {}},
            {"action": "delete"},
            {"action": "delete", "filter": {}, "job_ids": []},
            {"action": "delete", "job_ids": ["job-1"] * (bulk.CHUNK_SIZE + 1)},
            {"action": "delete", "job_ids": ["job-1"], "cursor": "x"},
            {"action": "delete", "filter": {}, "cursor": "made up"},
        ],
    )
    async def test_what_is_not_understood_is_refused(
        self, client: httpx.AsyncClient, store: Store, asked: dict[str, Any]
    ) -> None:
        await add(store, 1)
        await end(store, 1, FAILED)
        response = await client.post("/api/jobs/bulk", json=asked)
        assert response.status_code == 400, response.text
        assert await states(store) == ["failed"]


class TestIds:
    @pytest.mark.parametrize(
        "which",
        [
            '"job_ids": ["\\ud800"]',
            '"filter": {"q": "\\ud800"}',
            '"filter": {"user_id": "\\ud800"}',
            '"filter": {"status": ["\\ud800"]}',
            '"filter": {}, "cursor": "\\ud800"',
        ],
    )
    async def test_half_a_character_is_refused(self, client: httpx.AsyncClient, which: str) -> None:
        response = await client.post(
            "/api/jobs/bulk",
            content=f'{{"action": "cancel", {which}}}',
            headers={"Content-Type": "application/json"},
        )
        assert response.status_code == 400, response.text

    async def test_each_job_that_cannot_be_changed_is_listed_with_its_reason(
        self, client: httpx.AsyncClient, store: Store
    ) -> None:
        ids = await add(store, 2)
        await end(store, 1, Completed({}))
        asked = {"action": "delete", "job_ids": [*ids, "job-none", ids[0]]}
        assert (await bulk_result(client, **asked, dry_run=True))["count"] == 1
        answer = await bulk_result(client, **asked)
        assert (answer["count"], answer["refused"]) == (1, 2)
        codes = {one["code"] for one in answer["refusals"]}
        assert codes == {"CONFLICT", "NOT_FOUND"}

    async def test_files_go_with_their_jobs(
        self, client: httpx.AsyncClient, store: Store, tmp_path: Path
    ) -> None:
        (job_id,) = await add(store, 1)
        await end(store, 1, FAILED)
        upload = tmp_path / "uploads" / job_id / "a.pdf"
        upload.parent.mkdir(parents=True)
        upload.write_bytes(b"content")
        assert (await bulk_result(client, action="delete", job_ids=[job_id]))["count"] == 1
        assert not upload.parent.exists()


class TestAccess:
    async def test_what_a_user_may_read_but_not_change_stays(
        self, client: httpx.AsyncClient, store: Store
    ) -> None:
        open_to_all = {"visibility": "public"}
        (own,) = await add(store, 1, user_id="ann")
        (others,) = await add(store, 1, user_id="bob", access_control=open_to_all)
        (secret,) = await add(store, 1, user_id="bob")
        as_ann = {"headers": {"X-User-ID": "ann"}}
        body = {"action": "cancel", "filter": {}}
        assert (await bulk_result(client, **body, dry_run=True, **as_ann))["count"] == 1
        assert (await bulk_result(client, **body, **as_ann))["count"] == 1
        by_id = await bulk_result(client, action="cancel", job_ids=[own, others, secret], **as_ann)
        assert {one["job_id"]: one["code"] for one in by_id["refusals"]} == {
            others: "FORBIDDEN",
            secret: "NOT_FOUND",
        }
        assert (await store.get(own)).status is JobStatus.CANCELLED
        assert await states(store) == ["cancelled", "pending", "pending"]


class TestStoreFailures:
    async def test_a_failure_halfway_names_every_job_that_was_not_changed(
        self, client: httpx.AsyncClient, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ids = await add(store, 60)
        cancel, allowed = store.cancel, iter(ids[:25])

        async def fail_halfway(query: JobQuery) -> list[str]:
            if next(allowed, None) is None:
                raise NoDiskSpace("The database in /srv/data cannot be used")
            return await cancel(query)

        monkeypatch.setattr(store, "cancel", fail_halfway)
        answer = await bulk_result(client, action="cancel", job_ids=ids)
        assert (answer["count"], answer["refused"]) == (25, 35)
        refused = {one["job_id"] for one in answer["refusals"]}
        jobs = (await store.find(JobQuery(limit=100))).items
        assert refused == {job.job_id for job in jobs if job.status is JobStatus.PENDING}
        assert {(one["code"], one["message"]) for one in answer["refusals"]} == {
            ("UNAVAILABLE", "The disk of the service is full")
        }
        response = await client.post("/api/jobs/bulk", json={"action": "cancel", "filter": {}})
        assert response.status_code == 503
        assert response.json()["error"]["details"] == {"reason": "disk_full"}
