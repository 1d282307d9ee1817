"""The HTTP API as clients see it, on a real store. No worker runs: tests finish jobs themselves."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from secretary.api import create_api
from secretary.api.responses import CODES
from secretary.core.errors import StoreUnavailable
from secretary.core.job import (
    EMPTY_RESULTS,
    Completed,
    DeliveryAttempt,
    Failed,
    Job,
    JobError,
    LogEntry,
    Outcome,
    utc_now,
)
from secretary.handlers import BUILTIN
from secretary.jobs.handler import Registry
from secretary.jobs.service import JobService
from secretary.storage.artifacts import JobFiles
from secretary.store import Store, open_store
from tests.backends import files_in
from tests.contract.factories import LEASE, claim, event_capacity

FAILED = Failed(JobError(code="FILE_CORRUPT", message="It is torn"))
HOOK = {"url": "https://example.org/hook", "token": "SECRET", "secret": "SECRET"}
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER_TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = open_store(f"sqlite://{tmp_path}/jobs.db")
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def job_service(store: Store, tmp_path: Path) -> JobService:
    return JobService(store, Registry(BUILTIN), files_in(tmp_path, store))


class Client(httpx.AsyncClient):
    """An API client whose requests must succeed."""

    def __init__(self, api: FastAPI, **headers: str) -> None:
        transport = httpx.ASGITransport(api, raise_app_exceptions=False)
        super().__init__(transport=transport, base_url="http://localhost", headers=headers)

    async def data(self, method: str, path: str, *, status: int = 200, **options: Any) -> Any:
        response = await self.request(method, path, **options)
        assert response.status_code == status, response.text
        body = response.json()
        assert body["status"] == "success"
        assert body["error"] is None
        return body["data"]

    async def refusal(self, method: str, path: str, status: int, **options: Any) -> dict[str, Any]:
        """The error; all have the same form, with more fields for older clients."""
        response = await self.request(method, path, **options)
        assert response.status_code == status, response.text
        body: dict[str, Any] = response.json()
        older = {"message", "error_type"} if path.startswith("/api/event-job/") else set()
        assert set(body) == {"status", "error"} | older
        assert body["status"] == "error"
        assert set(body["error"]) == {"code", "message", "details"}
        assert body["error"]["code"] == CODES[status]
        error: dict[str, Any] = body["error"]
        return error

    async def submit(self, **document: Any) -> str:
        document = {"job_type": "selftest", **document}
        data = await self.data("POST", "/api/jobs", status=202, json=document)
        job_id: str = data["job_id"]
        return job_id

    async def submit_batch(self, count: int = 2, **document: Any) -> str:
        document = {"jobs": [{"job_type": "selftest"}] * count, **document}
        data = await self.data("POST", "/api/batches", status=202, json=document)
        batch_id: str = data["batch_id"]
        return batch_id


@pytest.fixture
async def client(job_service: JobService) -> AsyncIterator[Client]:
    async with Client(create_api(job_service)) as client:
        yield client


async def end_next(store: Store, outcome: Outcome) -> Job:
    (job,) = await claim(store)
    await store.report(job, logs=[LogEntry(message="Hello")])
    await store.finish(job, outcome)
    return job


class TestDeliveries:
    async def ended(self, client: Client, store: Store, outcome: Outcome) -> str:
        job_id = await client.submit(webhook=HOOK)
        await end_next(store, outcome)
        return job_id

    async def test_webhook_deliveries_can_be_read(self, client: Client, store: Store) -> None:
        job_id = await self.ended(client, store, Completed())
        (event,) = await store.claim_events(event_capacity(limit=1, per_endpoint=1, lease=LEASE))
        tried = DeliveryAttempt(at=utc_now(), error="timed out", duration_ms=30_000)
        await store.record_delivery(event, tried, next_try_at=utc_now())
        (delivery,) = (await client.data("GET", f"/api/jobs/{job_id}/deliveries"))["deliveries"]
        assert delivery == (await client.data("GET", f"/api/jobs/{job_id}"))["deliveries"][0]
        assert (delivery["n"], delivery["event"], delivery["gave_up"]) == (1, "completed", False)
        assert delivery["delivery_id"].startswith("msg_")
        assert re.fullmatch(TIME, delivery["next_try_at"])
        (shown,) = delivery["tries"]
        assert re.fullmatch(TIME, shown.pop("at"))
        assert shown == {"status": None, "error": "timed out", "duration_ms": 30_000}

    async def test_the_end_can_be_replayed(self, client: Client, store: Store) -> None:
        job_id = await self.ended(client, store, FAILED)
        path = f"/api/jobs/{job_id}/deliveries"
        body = await client.data("POST", f"{path}/1/replay")
        assert (body["n"], body["event"]) == (1, "error")
        await client.refusal("POST", f"{path}/2/replay", 404)
        await client.refusal("POST", f"{path}/x/replay", 400)
        await client.refusal("POST", f"{path}/{10**30}/replay", 400)
        await client.refusal("POST", "/api/jobs/job-0/deliveries/1/replay", 404)
        await client.data("POST", f"/api/jobs/{job_id}/restart")
        await client.refusal("POST", f"{path}/1/replay", 409)

    async def test_who_may_only_read_may_not_replay(self, client: Client, store: Store) -> None:
        access = {"read_access": ["bob"]}
        job_id = await client.submit(webhook=HOOK, user_id="ann", access_control=access)
        await client.data("POST", f"/api/jobs/{job_id}/cancel")
        path = f"/api/jobs/{job_id}/deliveries"
        bob, eve = ({"X-User-ID": name} for name in ("bob", "eve"))
        assert (await client.data("GET", path, headers=bob))["deliveries"]
        await client.refusal("POST", f"{path}/1/replay", 403, headers=bob)
        await client.refusal("GET", path, 404, headers=eve)
        await client.refusal("POST", f"{path}/1/replay", 404, headers=eve)

    async def test_the_same_holds_for_batches(self, client: Client) -> None:
        batch_id = await client.submit_batch(1, webhook=HOOK)
        await client.data("POST", f"/api/batches/{batch_id}/cancel")
        path = f"/api/batches/{batch_id}/deliveries"
        (delivery,) = (await client.data("GET", path))["deliveries"]
        assert delivery["event"] == "error"
        assert (await client.data("POST", f"{path}/1/replay"))["replayed_at"]
        await client.refusal("POST", f"{path}/2/replay", 404)


class TestSubmitting:
    async def test_a_job_is_acknowledged_as_the_contract_says(self, client: Client) -> None:
        document = {"job_type": "selftest", "parameters": {"seconds": 1}}
        response = await client.post("/api/jobs", json=document)
        assert response.status_code == 202
        body = response.json()
        job_id = body["data"]["job_id"]
        assert re.fullmatch(TIME, body["request"].pop("timestamp"))
        job = body["data"].pop("job")
        assert body == {
            "status": "success",
            "request": {"processor": "job-enqueue", "parameters": {"job_count": 1}},
            "process": {
                "id": job_id,
                "main_processor": "SecretaryJobWorker",
                "llm_info": {"requests": []},
            },
            "data": {"job_id": job_id, "job_ids": [job_id], "batch_id": None},
            "error": None,
        }
        assert response.headers["location"] == f"/api/jobs/{job_id}"
        assert (job["status"], job["parameters"]) == ("pending", {"seconds": 1})

    async def test_a_missing_type_means_session(self, client: Client) -> None:
        data = await client.data("POST", "/api/jobs", status=202, json={})
        assert data["job"]["job_type"] == "session"

    async def test_an_unknown_type_is_accepted(self, client: Client) -> None:
        await client.data("POST", "/api/jobs", status=202, json={"job_type": "unheard-of"})

    async def test_wrong_parameters_of_a_known_type_are_named_and_nothing_is_stored(
        self, client: Client
    ) -> None:
        document = {"job_type": "selftest", "parameters": {"seconds": -1, "steps": "x"}}
        error = await client.refusal("POST", "/api/jobs", 400, json=document)
        fields = {problem["field"] for problem in error["details"]["problems"]}
        assert fields == {"parameters.seconds", "parameters.steps"}
        assert (await client.data("GET", "/api/jobs"))["jobs"] == []

    async def test_unknown_keys_are_kept(self, client: Client) -> None:
        job_id = await client.submit(parameters={"x": 1}, y=2)
        job = await client.data("GET", f"/api/jobs/{job_id}")
        assert job["parameters"] == {"extra": {"x": 1, "y": 2}}

    @pytest.mark.parametrize("inside", [True, False])
    async def test_a_webhook_is_kept_and_its_secrets_never_shown(
        self, client: Client, store: Store, inside: bool
    ) -> None:
        document = {"parameters": {"webhook": HOOK}} if inside else {"webhook": HOOK}
        job_id = await client.submit(**document)
        response = await client.get(f"/api/jobs/{job_id}")
        assert response.json()["data"]["webhook"]["url"] == HOOK["url"]
        assert "SECRET" not in response.text
        webhook = (await store.get(job_id)).webhook
        assert webhook is not None and webhook.token == "SECRET"

    async def test_a_repeated_key_gives_the_first_job_again(self, client: Client) -> None:
        key = {"Idempotency-Key": "k"}
        document = {"job_type": "selftest", "job_name": "once"}
        answers = [
            await client.data("POST", "/api/jobs", status=202, json=document, headers=key)
            for _ in range(2)
        ]
        assert answers[0]["job_id"] == answers[1]["job_id"]
        other = {**document, "job_name": "other"}
        await client.refusal("POST", "/api/jobs", 422, json=other, headers=key)

    async def test_the_trace_of_a_request_goes_on_in_its_jobs(self, client: Client) -> None:
        jobs = {"jobs": [{}, {"traceparent": OTHER_TRACE}]}
        key = {"Idempotency-Key": "k", "traceparent": TRACE}
        data = await client.data("POST", "/api/batches", status=202, json=jobs, headers=key)
        traces = {
            (await client.data("GET", f"/api/jobs/{job_id}"))["traceparent"]
            for job_id in data["job_ids"]
        }
        assert traces == {TRACE, OTHER_TRACE}
        again = {**key, "traceparent": OTHER_TRACE}  # the same request in another span
        accepted = await client.data("POST", "/api/batches", status=202, json=jobs, headers=again)
        assert accepted["batch_id"] == data["batch_id"]
        for path in ("/api/jobs", "/api/event-job/jobs"):
            response = await client.post(path, json={}, headers={"traceparent": TRACE})
            body = response.json()
            assert (body.get("data") or body)["job"]["traceparent"] == TRACE

    async def test_without_a_valid_trace_there_is_none(self, client: Client) -> None:
        headers = {"traceparent": "00-nonsense"}
        data = await client.data("POST", "/api/jobs", status=202, json={}, headers=headers)
        assert data["job"]["traceparent"] is None

    @pytest.mark.parametrize("path", ["/api/jobs/batch", "/api/batches"])
    @pytest.mark.parametrize("wrapped", [True, False])
    async def test_a_batch_is_acknowledged(self, client: Client, path: str, wrapped: bool) -> None:
        document: dict[str, Any] = {"batch_name": "Two", "jobs": [{}, {"job_type": "selftest"}]}
        body = {"batch": document} if wrapped else document
        response = await client.post(path, json=body)
        assert response.status_code == 202
        response_body = response.json()
        assert response_body["request"]["parameters"] == {"job_count": 2}
        assert response_body["process"]["id"] == response_body["data"]["batch_id"]
        assert len(response_body["data"]["job_ids"]) == 2
        batch = response_body["data"]["batch"]
        assert (batch["batch_name"], batch["total_jobs"], batch["status"]) == ("Two", 2, "pending")

    async def test_a_batch_with_one_wrong_job_is_refused_whole(self, client: Client) -> None:
        wrong = {"job_type": "selftest", "parameters": {"steps": 0}}
        document = {"jobs": [{"job_type": "selftest"}, wrong]}
        error = await client.refusal("POST", "/api/batches", 400, json=document)
        assert error["details"]["problems"][0]["field"] == "jobs.1.parameters.steps"
        assert (await client.data("GET", "/api/jobs"))["jobs"] == []


class TestReading:
    async def test_a_job_has_its_results_and_logs(self, client: Client, store: Store) -> None:
        job_id = await client.submit()
        await end_next(store, Completed({"markdown_content": "# Hi"}))
        job = await client.data("GET", f"/api/jobs/{job_id}")
        assert job["status"] == "completed"
        assert job["results"] == {**EMPTY_RESULTS, "markdown_content": "# Hi"}
        assert [entry["message"] for entry in job["logs"]] == ["Hello"]

    async def test_an_answer_says_what_was_asked_and_how_long_it_took(self, client: Client) -> None:
        body = (await client.get("/api/jobs?limit=5")).json()
        assert body["request"]["parameters"] == {"limit": "5"}
        assert re.fullmatch(TIME, body["process"]["started"])
        assert body["process"]["duration_ms"] >= 0
        assert body["process"]["llm_info"] == {"requests": [], "total_tokens": 0}

    async def test_lists_leave_out_what_is_big_unless_asked(
        self, client: Client, store: Store
    ) -> None:
        await client.submit()
        await end_next(store, Completed({"a": 1}))
        (job,) = (await client.data("GET", "/api/jobs"))["jobs"]
        assert "results" not in job and "logs" not in job
        (job,) = (await client.data("GET", "/api/jobs?include=results,logs"))["jobs"]
        assert job["results"] == {**EMPTY_RESULTS, "a": 1} and len(job["logs"]) == 1

    async def test_the_list_is_newest_first_and_goes_on_behind_a_cursor(
        self, client: Client
    ) -> None:
        ids = [await client.submit() for _ in range(3)]
        page = await client.data("GET", "/api/jobs?limit=2")
        assert [job["job_id"] for job in page["jobs"]] == ids[:0:-1]
        rest = await client.data("GET", f"/api/jobs?limit=2&cursor={page['next_cursor']}")
        assert [job["job_id"] for job in rest["jobs"]] == ids[:1]
        assert rest["next_cursor"] is None

    @pytest.mark.parametrize(
        ("query", "total"),
        [
            ("status=pending", 1),
            ("status=completed", 1),
            ("status=pending,completed", 2),
            ("status=pending&status=failed", 1),
            ("job_type=selftest", 2),
            ("job_type=pdf", 0),
            ("user_id=ann", 1),
            ("q=report", 1),
            ("created_after=2020-01-01T00:00:00Z", 2),
            ("created_before=2020-01-01T00:00:00Z", 0),
            ("archived=true", 0),
            ("archived=all", 2),
            ("status=pending&user_id=ann", 0),
        ],
    )
    async def test_the_list_can_be_filtered(
        self, client: Client, store: Store, query: str, total: int
    ) -> None:
        await client.submit(user_id="ann", job_name="The report")
        await end_next(store, Completed())
        await client.submit()
        assert len((await client.data("GET", f"/api/jobs?{query}"))["jobs"]) == total

    @pytest.mark.parametrize(
        "query",
        [
            "status=done",
            "include=secrets",
            "limit=0",
            "limit=1001",
            "limit=x",
            "cursor=x",
            "archived=maybe",
            "created_after=yesterday",
            "created_after=2020-01-01T00:00:00",
        ],
    )
    async def test_a_filter_that_makes_no_sense_is_refused(
        self, client: Client, query: str
    ) -> None:
        error = await client.refusal("GET", f"/api/jobs?{query}", 400)
        assert query.partition("=")[0] in error["message"]

    async def test_a_batch_is_found_on_all_its_paths(self, client: Client) -> None:
        batch_id = await client.submit_batch()
        for path in ("/api/batches/", "/api/batch/", "/api/jobs/batch/"):
            batch = await client.data("GET", path + batch_id)
            assert (batch["batch_id"], batch["pending_jobs"]) == (batch_id, 2)
            assert "jobs" not in batch

    async def test_a_batch_brings_its_jobs_when_asked(self, client: Client) -> None:
        batch_id = await client.submit_batch()
        batch = await client.data("GET", f"/api/batches/{batch_id}?include=jobs")
        assert [job["batch_id"] for job in batch["jobs"]] == [batch_id, batch_id]

    async def test_batches_are_listed(self, client: Client) -> None:
        ids = [await client.submit_batch() for _ in range(2)]
        page = await client.data("GET", "/api/batches?limit=1")
        assert [batch["batch_id"] for batch in page["batches"]] == ids[1:]
        page = await client.data("GET", f"/api/batches?cursor={page['next_cursor']}")
        assert [batch["batch_id"] for batch in page["batches"]] == ids[:1]

    async def test_job_types_have_their_schema_and_limits(self, client: Client) -> None:
        types = (await client.data("GET", "/api/job-types"))["job_types"]
        assert [one["job_type"] for one in types] == sorted(one.job_type for one in BUILTIN)
        (described,) = (one for one in types if one["job_type"] == "selftest")
        assert set(described["parameters"]["properties"]) == {"seconds", "steps"}
        assert described["limits"] == {"timeout_s": None, "max_attempts": 3}


class TestChanging:
    async def test_a_waiting_job_is_cancelled(self, client: Client) -> None:
        job_id = await client.submit()
        job = await client.data("POST", f"/api/jobs/{job_id}/cancel")
        assert (job["status"], job["error"]["code"]) == ("cancelled", "CANCELLED")

    async def test_an_ended_job_is_restarted(self, client: Client, store: Store) -> None:
        job_id = await client.submit()
        await end_next(store, FAILED)
        job = await client.data("POST", f"/api/jobs/{job_id}/restart")
        assert (job["status"], job["error"], job["results"]) == ("pending", None, None)
        await client.refusal("POST", f"/api/jobs/{job_id}/restart", 409)

    async def test_an_archived_job_is_hidden_but_there(self, client: Client) -> None:
        job_id = await client.submit()
        assert (await client.data("POST", f"/api/jobs/{job_id}/archive"))["archived"] is True
        assert (await client.data("GET", "/api/jobs"))["jobs"] == []
        assert (await client.data("GET", f"/api/jobs/{job_id}"))["job_id"] == job_id
        assert (await client.data("POST", f"/api/jobs/{job_id}/unarchive"))["archived"] is False
        assert len((await client.data("GET", "/api/jobs"))["jobs"]) == 1

    async def test_a_job_is_deleted_once_it_has_ended(self, client: Client, store: Store) -> None:
        job_id = await client.submit()
        await claim(store)
        await client.refusal("DELETE", f"/api/jobs/{job_id}", 409)
        job = await store.get(job_id)
        await store.finish(job, Completed())
        data = await client.data("DELETE", f"/api/jobs/{job_id}")
        assert data == {"job_id": job_id, "deleted": True}
        await client.refusal("GET", f"/api/jobs/{job_id}", 404)

    async def test_a_batch_is_toggled_or_set(self, client: Client) -> None:
        path = f"/api/batches/{await client.submit_batch()}/toggle-active"
        assert (await client.data("POST", path))["isActive"] is False
        assert (await client.data("POST", path))["isActive"] is True
        for _ in range(2):
            batch = await client.data("POST", path, json={"isActive": False})
            assert batch["isActive"] is False

    async def test_a_batch_is_cancelled_restarted_archived_and_deleted(
        self, client: Client, store: Store
    ) -> None:
        batch_id = await client.submit_batch(3)
        failed = await end_next(store, FAILED)
        batch = await client.data("POST", f"/api/batches/{batch_id}/restart-failed")
        assert batch["job_ids"] == [failed.job_id]
        await client.refusal("DELETE", f"/api/batches/{batch_id}", 409)
        batch = await client.data("POST", f"/api/batches/{batch_id}/cancel")
        assert (batch["cancelled_jobs"], len(batch["job_ids"])) == (3, 3)
        await client.data("POST", f"/api/batches/{batch_id}/archive")
        assert (await client.data("GET", "/api/batches"))["batches"] == []
        assert (await client.data("GET", "/api/jobs"))["jobs"] == []
        await client.data("POST", f"/api/batches/{batch_id}/unarchive")
        assert len((await client.data("GET", "/api/batches"))["batches"]) == 1
        assert len((await client.data("GET", "/api/jobs"))["jobs"]) == 3
        await client.data("DELETE", f"/api/batches/{batch_id}")
        await client.refusal("GET", f"/api/batches/{batch_id}", 404)


class TestRefusals:
    @pytest.mark.parametrize(
        ("method", "path", "status"),
        [
            ("GET", "/nowhere", 404),
            ("GET", "/api/jobs/job-none", 404),
            ("POST", "/api/jobs/job-none/cancel", 404),
            ("DELETE", "/api/jobs/job-none", 404),
            ("GET", "/api/batches/batch-none", 404),
            ("POST", "/api/batches/batch-none/toggle-active", 404),
            ("PUT", "/api/jobs", 405),
            ("GET", "/api/jobs/job-none/cancel", 405),
            ("GET", "/api/jobs//", 404),
            ("GET", "/api/event-jobs", 404),
        ],
    )
    async def test_every_error_has_the_same_form(
        self, client: Client, method: str, path: str, status: int
    ) -> None:
        await client.refusal(method, path, status)

    @pytest.mark.parametrize(
        ("path", "methods"),
        [
            ("/api/jobs", "GET, POST"),
            ("/api/jobs/job-none", "DELETE, GET"),
            ("/api/files/job-none/a.txt", "GET"),
            ("/api/event-job/batches", "GET, POST"),
            ("/api/doc", "GET"),
        ],
    )
    async def test_a_method_that_is_not_there_is_answered_with_those_that_are(
        self, client: Client, path: str, methods: str
    ) -> None:
        response = await client.request("PUT", path)
        assert (response.status_code, response.headers["allow"]) == (405, methods)

    async def test_no_filter_by_time_is_outside_of_time(self, client: Client) -> None:
        for name in ("created_after", "created_before"):
            for moment in ("9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00"):
                await client.refusal("GET", "/api/jobs", 400, params={name: moment})

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"[]",
            b'"x"',
            b"null",
            b"\xff",
            b"[" * 100_000,
            b'{"parameters": {"x": NaN}}',
            b'{"parameters": {"x": 1e999}}',
            b'{"job_name": "\\ud800"}',
        ],
    )
    async def test_a_body_that_is_not_a_job_is_refused(self, client: Client, body: bytes) -> None:
        kind = {"Content-Type": "application/json"}
        await client.refusal("POST", "/api/jobs", 400, content=body, headers=kind)

    async def test_a_missing_content_type_is_reported(self, client: Client) -> None:
        error = await client.refusal("POST", "/api/jobs", 400, data={"job_type": "x"})
        assert "Content-Type: application/json" in error["message"]

    async def test_a_body_that_is_too_large_is_refused(self, job_service: JobService) -> None:
        async with Client(create_api(job_service, max_body_bytes=1000)) as client:
            document = {"job_name": "x" * 1000}
            await client.refusal("POST", "/api/jobs", 413, json=document)

            async def pieces() -> AsyncIterator[bytes]:
                for _ in range(20):
                    yield b" " * 100

            kind = {"Content-Type": "application/json"}
            await client.refusal("POST", "/api/jobs", 413, content=pieces(), headers=kind)

    async def test_a_store_outage_reveals_no_path_or_server(self, tmp_path: Path) -> None:
        job_service = JobService(BrokenStore(), Registry(BUILTIN), JobFiles(tmp_path))  # type: ignore[arg-type]  # never valid
        async with Client(create_api(job_service)) as client:
            for method, path in (("POST", "/api/jobs"), ("GET", "/api/health/ready")):
                response = await client.request(method, path, json={})
                assert response.headers["retry-after"] == "5"
                error = await client.refusal(method, path, 503, json={})
                assert error["message"] == "The job store is unavailable"
            await client.data("GET", "/api/health/live")

    async def test_an_unexpected_error_reveals_only_its_type(self, tmp_path: Path) -> None:
        job_service = JobService(None, Registry(BUILTIN), JobFiles(tmp_path))  # type: ignore[arg-type]  # never valid
        async with Client(create_api(job_service)) as client:
            error = await client.refusal("POST", "/api/jobs", 500, json={})
        assert error == {
            "code": "INTERNAL_ERROR",
            "message": "Internal error",
            "details": {"type": "AttributeError"},
        }


class BrokenStore:
    async def add(self, *_: Any, **__: Any) -> None:
        raise StoreUnavailable("The database secretary.db in /srv/data cannot be used")

    async def workers(self) -> None:
        raise StoreUnavailable("The MongoDB at db.internal cannot be used")


class TestAccess:
    @pytest.fixture
    def api(self, job_service: JobService) -> FastAPI:
        return create_api(job_service, api_keys=["right", "bound:ann", "ümlaut"])

    OPEN = ("/api/health", "/api/health/live", "/api/health/ready", "/api/doc", "/api/openapi.json",
            "/api/swagger.json")  # fmt: skip

    async def test_what_is_open_needs_no_key(self, api: FastAPI) -> None:
        async with Client(api) as client:
            for path in self.OPEN:
                assert (await client.get(path)).status_code == 200

    async def test_every_other_route_does(self, api: FastAPI) -> None:
        paths = api.openapi()["paths"]
        closed = [
            (method.upper(), path)
            for path, methods in paths.items()
            for method in methods
            if path not in self.OPEN
        ]
        assert len(closed) > 15
        async with Client(api) as client:
            for method, path in closed:
                await client.refusal(method, path, 401)

    @pytest.mark.parametrize(
        "headers",
        [
            {"Authorization": "Bearer right"},
            {"authorization": "bearer right"},
            {"X-Secretary-Api-Key": "right"},
            {"X-Secretary-Api-Key": "ümlaut".encode()},
        ],
    )
    async def test_both_headers_carry_a_key(self, api: FastAPI, headers: dict[str, Any]) -> None:
        async with Client(api) as client:
            await client.data("GET", "/api/jobs", headers=headers)

    async def test_an_empty_key_opens_nothing(self, job_service: JobService) -> None:
        async with Client(create_api(job_service, api_keys=["", ":ann"])) as client:
            await client.refusal("GET", "/api/jobs", 401)

    async def test_a_user_may_have_any_name(self, client: Client) -> None:
        headers = {"X-User-ID": "jürgen".encode()}
        data = await client.data("POST", "/api/jobs", status=202, json={}, headers=headers)
        assert data["job"]["user_id"] == "jürgen"

    @pytest.mark.parametrize("name", ["", " ", "\t"])
    async def test_a_user_without_a_name_is_no_operator(self, api: FastAPI, name: str) -> None:
        """A program that forwards the names of its users has none for a stranger."""
        async with Client(api, **{"Authorization": "Bearer right"}) as client:
            await client.data("GET", "/api/jobs")
            await client.refusal("GET", "/api/jobs", 403, headers={"X-User-ID": name})

    @pytest.mark.parametrize(
        "headers",
        [
            {"Authorization": "Bearer wrong"},
            {"Authorization": "Bearer "},
            {"Authorization": "right"},
            {"Authorization": "Basic right"},
            {"X-Secretary-Api-Key": "bound:ann"},
            {"X-Secretary-Api-Key": ""},
            {"Host": "localhost", "X-Forwarded-For": "127.0.0.1"},
        ],
    )
    async def test_other_keys_do_not_open(self, api: FastAPI, headers: dict[str, str]) -> None:
        async with Client(api, **headers) as client:
            response = await client.get("/api/jobs")
            assert response.headers["www-authenticate"] == "Bearer"
            await client.refusal("GET", "/api/jobs", 401)

    async def test_a_bound_key_acts_for_its_user_only(self, api: FastAPI) -> None:
        async with Client(api, Authorization="Bearer bound") as client:
            job_id = await client.submit()
            assert (await client.data("GET", f"/api/jobs/{job_id}"))["user_id"] == "ann"
            await client.refusal("GET", "/api/jobs", 403, headers={"X-User-ID": "bob"})
            await client.refusal("POST", "/api/jobs", 403, json={"user_id": "bob"})

    async def test_a_strangers_things_do_not_exist(self, client: Client) -> None:
        ann, eve = {"X-User-ID": "ann"}, {"X-User-ID": "eve"}
        data = await client.data("POST", "/api/jobs", status=202, json={}, headers=ann)
        job = f"/api/jobs/{data['job_id']}"
        jobs: dict[str, Any] = {"jobs": [{}]}
        data = await client.data("POST", "/api/batches", status=202, json=jobs, headers=ann)
        batch = f"/api/batches/{data['batch_id']}"
        for method, path in (
            ("GET", job),
            ("DELETE", job),
            *(("POST", f"{job}/{verb}") for verb in ("cancel", "restart", "archive", "unarchive")),
            ("GET", batch),
            ("DELETE", batch),
            *(
                ("POST", f"{batch}/{verb}")
                for verb in ("archive", "unarchive", "toggle-active", "cancel", "restart-failed")
            ),
        ):
            await client.refusal(method, path, 404, headers=eve)
        assert (await client.data("GET", "/api/jobs", headers=eve))["jobs"] == []
        assert (await client.data("GET", "/api/batches", headers=eve))["batches"] == []
        assert len((await client.data("GET", "/api/jobs", headers=ann))["jobs"]) == 2

    async def test_a_reader_may_look_but_not_touch(self, client: Client) -> None:
        job_id = await client.submit(user_id="ann", access_control={"read_access": ["bob"]})
        bob = {"X-User-ID": "bob"}
        await client.data("GET", f"/api/jobs/{job_id}", headers=bob)
        await client.refusal("POST", f"/api/jobs/{job_id}/cancel", 403, headers=bob)

    async def test_without_keys_pages_of_other_sites_get_nothing(self, client: Client) -> None:
        for headers in (
            {"Host": "rebound.example"},
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
        ):
            await client.refusal("GET", "/api/jobs", 403, headers=headers)
        local = {"Host": "127.0.0.1:5000", "Origin": "http://localhost:3000"}
        await client.data("GET", "/api/jobs", headers=local)


class TestTrailingSlash:
    async def test_a_submission_is_answered_at_once_and_not_sent_elsewhere(
        self, client: Client
    ) -> None:
        await client.data("POST", "/api/jobs/", status=202, json={"job_type": "selftest"})
        document: dict[str, Any] = {"jobs": [{}]}
        for path in ("/api/jobs/batch/", "/api/batches/", "/api/event-job/batches/"):
            response = await client.post(path, json=document)
            assert response.status_code in (201, 202), response.text
        assert len((await client.data("GET", "/api/jobs/?limit=9"))["jobs"]) == 4

    async def test_every_route_is_there_with_one_too(self, job_service: JobService) -> None:
        api = create_api(job_service)
        paths = [path for path in api.openapi()["paths"] if path.startswith("/api/")]
        async with Client(api) as client:
            for path in paths:
                # No route has this method; an unknown path would be a 404.
                assert (await client.request("PATCH", f"{path}/")).status_code == 405, path
            assert (await client.request("PATCH", "/api/nowhere/")).status_code == 404
            for path in ("/api/doc/", "/api/openapi.json/"):
                assert (await client.get(path)).status_code == 200


class TestHealth:
    async def test_it_counts_workers_and_jobs(self, client: Client, store: Store) -> None:
        await client.submit()
        await client.submit()
        await claim(store)
        data = await client.data("GET", "/api/health")
        assert data["workers"] == 1
        assert (data["jobs"]["pending"], data["jobs"]["processing"]) == (1, 1)

    async def test_a_service_that_stops_is_alive_but_not_ready(
        self, job_service: JobService
    ) -> None:
        stopping = asyncio.Event()
        async with Client(create_api(job_service, stopping=stopping.is_set)) as client:
            await client.data("GET", "/api/health/ready")
            stopping.set()
            await client.refusal("GET", "/api/health/ready", 503)
            await client.data("GET", "/api/health/live")
            await client.submit()
