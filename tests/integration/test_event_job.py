"""The API of older clients over real HTTP, on every store. No worker runs: tests finish jobs."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import Message

from secretary.api import create_api
from secretary.api.responses import CODES, error_response
from secretary.core.errors import StoreUnavailable
from secretary.core.job import EMPTY_RESULTS, Completed, Failed, Job, JobError, Outcome
from secretary.handlers import BUILTIN
from secretary.jobs.handler import Registry
from secretary.jobs.service import JobService
from secretary.storage.artifacts import JobFiles
from secretary.store import Store
from tests.api_server import serving
from tests.backends import files_in
from tests.contract.factories import claim
from tests.requirements import needed

JOBS, BATCHES = "/api/event-job/jobs", "/api/event-job/batches"
FAILED = Failed(JobError(code="FILE_CORRUPT", message="It is torn"))
ANN, BOB, EVE = ({"X-User-ID": name} for name in ("ann", "bob", "eve"))

#: The names of the errors that older clients know.
NAMES = {
    400: "validation_error",
    401: "unauthorized",
    403: "permission_denied",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    410: "gone",
    413: "payload_too_large",
    415: "unsupported_file",
    416: "validation_error",
    422: "validation_error",
    429: "rate_limited",
    500: "internal_error",
    503: "unavailable",
}

#: As in the older documentation.
BATCH = """{
    "batch_name": "FOSDEM ecosocial",
    "jobs": [
      {"parameters": {"event":"FOSDEM","session":"T1","url":"https://...","filename":"t1.md","track":"ecosocial"}},
      {"parameters": {"event":"FOSDEM","session":"T2","url":"https://...","filename":"t2.md","track":"ecosocial"}}
    ],
    "webhook": {"url": "https://example.org/hook"}
  }"""  # the bytes matter


class Client(httpx.AsyncClient):
    """An older client, which does not follow redirects."""

    def __init__(self, url: str, **headers: str) -> None:
        super().__init__(base_url=url, headers=headers, trust_env=False)

    async def request_json(self, method: str, path: str, status: int = 200, **options: Any) -> Any:
        response = await self.request(method, path, **options)
        assert response.status_code == status, response.text
        body = response.json()
        assert body["status"] == "success"
        assert isinstance(body["message"], str)
        return body

    async def refusal(self, method: str, path: str, status: int, **options: Any) -> dict[str, Any]:
        """The error, in the form of older clients and in ours."""
        response = await self.request(method, path, **options)
        assert response.status_code == status, response.text
        body: dict[str, Any] = response.json()
        error = body["error"]
        assert body == {
            "status": "error",
            "message": error["message"],
            "error_type": NAMES[status],
            "error": {
                "code": CODES[status],
                "message": error["message"],
                "details": error["details"],
            },
        }
        return body

    async def submit(self, headers: Mapping[str, str] | None = None, **document: Any) -> str:
        body = await self.request_json("POST", JOBS, 201, json=document, headers=headers)
        job_id: str = body["job"]["job_id"]
        return job_id

    async def submit_batch(self, size: int = 2, **document: Any) -> str:
        body = await self.request_json("POST", BATCHES, 201, json={"jobs": [{}] * size, **document})
        batch_id: str = body["batch"]["batch_id"]
        return batch_id

    async def listed(self, query: str = "", headers: Mapping[str, str] | None = None) -> list[str]:
        body = await self.request_json("GET", f"{JOBS}?{query}", headers=headers)
        return [job["job_id"] for job in body["jobs"]]

    async def listed_batches(self, query: str = "", **options: Any) -> list[str]:
        body = await self.request_json("GET", f"{BATCHES}?{query}", **options)
        return [batch["batch_id"] for batch in body["batches"]]


@pytest.fixture
def job_service(store: Store, tmp_path: Path) -> JobService:
    return JobService(store, Registry(BUILTIN), files_in(tmp_path, store))


@pytest.fixture
async def client(job_service: JobService) -> AsyncIterator[Client]:
    async with serving(create_api(job_service)) as url, Client(url) as client:
        yield client


async def end_next(store: Store, outcome: Outcome) -> Job:
    (job,) = await claim(store)
    await store.finish(job, outcome)
    return job


class TestJobs:
    @pytest.mark.parametrize("path", [JOBS, f"{JOBS}/", "/api/event-job/submit"])
    async def test_a_created_job_is_shown_as_older_clients_read_it(
        self, client: Client, path: str
    ) -> None:
        document = {"parameters": {"event": "FOSDEM"}, "job_name": "One", "user_id": "ann"}
        response = await client.post(path, json=document)
        assert response.status_code == 201
        body = response.json()
        job = body["job"]
        job_id = job["job_id"]
        assert re.fullmatch(r"job-[0-9a-f-]{36}", job_id)
        assert body == {"status": "success", "job": job, "message": f"Job {job_id} was created"}
        assert response.headers["location"] == f"{JOBS}/{job_id}"
        asked = {name: job[name] for name in ("job_type", "status", "parameters", "user_id")}
        assert asked == {
            "job_type": "session",
            "status": "pending",
            "parameters": {"event": "FOSDEM"},
            "user_id": "ann",
        }

    @pytest.mark.parametrize("path", [JOBS, "/api/event-job/status"])
    async def test_one_job_has_its_results_and_logs(
        self, client: Client, store: Store, path: str
    ) -> None:
        job_id = await client.submit()
        await end_next(store, Completed({"markdown_content": "# Hi"}))
        body = await client.request_json("GET", f"{path}/{job_id}")
        job = body.pop("job")
        assert body == {"status": "success", "message": f"Job {job_id} is completed"}
        assert (job["status"], job["results"]) == (
            "completed",
            {**EMPTY_RESULTS, "markdown_content": "# Hi"},
        )
        assert {"progress", "error", "batch_id", "user_id", "logs"} <= set(job)
        assert job == (await client.get(f"/api/jobs/{job_id}")).json()["data"]

    async def test_half_a_character_in_the_results_is_no_fault_of_the_service(
        self, client: Client, store: Store
    ) -> None:
        job_id = await client.submit()
        await end_next(store, Completed({"markdown_content": "half: \ud800"}))
        body = await client.request_json("GET", f"{JOBS}/{job_id}")
        assert body["job"]["results"]["markdown_content"] == "half: \ud800"

    async def test_a_job_is_the_same_for_newer_clients(self, client: Client) -> None:
        response = await client.post("/api/jobs", json={"job_type": "selftest"})
        job_id = response.json()["data"]["job_id"]
        assert await client.listed() == [job_id]

    async def test_what_stands_beside_the_parameters_is_kept_among_them(
        self, client: Client
    ) -> None:
        document = {"parameters": {"event": "FOSDEM"}, "use_cache": False, "note": {"a": [1]}}
        body = await client.request_json("POST", JOBS, 201, json=document)
        extra = {"use_cache": False, "note": {"a": [1]}}
        assert body["job"]["parameters"] == {"event": "FOSDEM", "extra": extra}

    async def test_parameters_may_stand_at_the_top(self, client: Client) -> None:
        body = await client.request_json(
            "POST", JOBS, 201, json={"event": "FOSDEM", "url": "https://x"}
        )
        extra = {"event": "FOSDEM", "url": "https://x"}
        assert body["job"]["parameters"] == {"extra": extra}

    async def test_another_type_can_be_asked_for(self, client: Client) -> None:
        body = await client.request_json("POST", JOBS, 201, json={"job_type": "selftest"})
        assert body["job"]["job_type"] == "selftest"

    async def test_a_repeated_key_gives_the_first_job_again(self, client: Client) -> None:
        key = {"Idempotency-Key": "k"}
        assert await client.submit(key) == await client.submit(key)
        await client.refusal("POST", JOBS, 422, json={"job_name": "other"}, headers=key)

    async def test_a_webhooks_secrets_are_never_shown(self, client: Client) -> None:
        hook = {"url": "https://example.org/hook", "token": "SECRET"}
        response = await client.post(JOBS, json={"parameters": {"webhook": hook}})
        assert response.json()["job"]["webhook"]["url"] == hook["url"]
        assert "SECRET" not in response.text

    @pytest.mark.parametrize("body", [b"", b'{"batch_id": "batch-1"}', b"{"])
    async def test_an_ended_job_is_restarted_whatever_the_body(
        self, client: Client, store: Store, body: bytes
    ) -> None:
        job_id = await client.submit()
        await end_next(store, FAILED)
        path = f"/api/event-job/{job_id}/restart"
        kind = {"Content-Type": "application/json"}
        response = await client.request_json("POST", path, content=body, headers=kind)
        job = response.pop("job")
        assert response == {"status": "success", "message": f"Job {job_id} was restarted"}
        assert (job["status"], job["error"], job["results"]) == ("pending", None, None)
        await client.refusal("POST", path, 409)

    async def test_an_ended_job_is_deleted(self, client: Client, store: Store) -> None:
        job_id = await client.submit()
        await client.refusal("DELETE", f"{JOBS}/{job_id}", 409)
        await end_next(store, Completed())
        body = await client.request_json("DELETE", f"{JOBS}/{job_id}")
        assert body.pop("job")["job_id"] == job_id
        assert body == {"status": "success", "message": f"Job {job_id} was deleted"}
        await client.refusal("GET", f"{JOBS}/{job_id}", 404)


class TestBatches:
    @pytest.mark.parametrize("wrapped", [True, False])
    async def test_a_batch_is_created_in_either_envelope(
        self, client: Client, wrapped: bool
    ) -> None:
        text = f'{{"batch": {BATCH}}}' if wrapped else BATCH
        kind = {"Content-Type": "application/json"}
        response = await client.post(BATCHES, content=text, headers=kind)
        assert response.status_code == 201
        body = response.json()
        batch, job_ids = body["batch"], body["job_ids"]
        batch_id = batch["batch_id"]
        assert body == {
            "status": "success",
            "batch": batch,
            "job_ids": job_ids,
            "message": f"Batch {batch_id} was created with 2 jobs",
        }
        assert (batch["batch_name"], batch["total_jobs"]) == ("FOSDEM ecosocial", 2)
        assert batch["webhook"]["url"] == "https://example.org/hook"
        assert response.headers["location"] == f"{BATCHES}/{batch_id}"
        jobs = [(await client.request_json("GET", f"{JOBS}/{one}"))["job"] for one in job_ids]
        assert [job["job_type"] for job in jobs] == ["session", "session"]
        sent = [job["parameters"] for job in json.loads(BATCH)["jobs"]]
        assert [job["parameters"] for job in jobs] == sent

    async def test_a_batch_with_one_wrong_job_is_refused_whole(self, client: Client) -> None:
        wrong = {"job_type": "selftest", "parameters": {"steps": 0}}
        body = await client.refusal("POST", BATCHES, 400, json={"jobs": [{}, wrong]})
        assert "jobs.1.parameters.steps" in body["message"]
        assert await client.listed() == []

    async def test_one_batch_is_shown(self, client: Client, store: Store) -> None:
        batch_id = await client.submit_batch()
        await end_next(store, FAILED)
        body = await client.request_json("GET", f"{BATCHES}/{batch_id}")
        batch = body.pop("batch")
        assert body == {"status": "success", "message": f"Batch {batch_id} is processing"}
        assert (batch["completed_jobs"], batch["failed_jobs"]) == (0, 1)
        assert (batch["isActive"], batch["archived"]) == (True, False)

    async def test_a_batch_is_toggled_or_set(self, client: Client) -> None:
        batch_id = await client.submit_batch()
        path = f"{BATCHES}/{batch_id}/toggle-active"
        body = await client.request_json("POST", path)
        assert body.pop("batch")["isActive"] is False
        assert body == {"status": "success", "message": f"Batch {batch_id} is paused"}
        assert (await client.request_json("POST", path))["batch"]["isActive"] is True
        for _ in range(2):
            body = await client.request_json("POST", path, json={"isActive": False})
            assert body["batch"]["isActive"] is False

    async def test_an_archived_batch_is_hidden_with_its_jobs_and_keeps_its_results(
        self, client: Client, store: Store
    ) -> None:
        batch_id = await client.submit_batch(1)
        job = await end_next(store, Completed({"markdown_content": "# Hi"}))
        body = await client.request_json("POST", f"{BATCHES}/{batch_id}/archive")
        assert body.pop("batch")["archived"] is True
        assert body == {"status": "success", "message": f"Batch {batch_id} was archived"}
        assert await client.listed() == await client.listed_batches() == []
        assert await client.listed("archived=true") == [job.job_id]
        assert await client.listed_batches("archived=true") == [batch_id]
        shown = (await client.request_json("GET", f"{JOBS}/{job.job_id}"))["job"]
        assert shown["results"] == {**EMPTY_RESULTS, "markdown_content": "# Hi"}

    async def test_an_ended_batch_is_deleted_with_its_jobs(
        self, client: Client, store: Store
    ) -> None:
        batch_id = await client.submit_batch(1)
        await client.refusal("DELETE", f"{BATCHES}/{batch_id}", 409)
        job = await end_next(store, Completed())
        body = await client.request_json("DELETE", f"{BATCHES}/{batch_id}")
        assert body.pop("batch")["batch_id"] == batch_id
        assert body == {"status": "success", "message": f"Batch {batch_id} was deleted"}
        await client.refusal("GET", f"{BATCHES}/{batch_id}", 404)
        await client.refusal("GET", f"{JOBS}/{job.job_id}", 404)


class TestLists:
    async def test_a_list_says_how_much_of_what_it_is(self, client: Client) -> None:
        ids = [await client.submit() for _ in range(3)]
        body = await client.request_json("GET", f"{JOBS}?limit=1&skip=1")
        (job,) = body.pop("jobs")
        assert job["job_id"] == ids[1]
        assert "results" not in job and "logs" not in job
        assert body == {
            "status": "success",
            "total": 3,
            "total_is_exact": True,
            "count": 1,
            "limit": 1,
            "skip": 1,
            "message": "1 of 3 jobs",
        }
        batch_id = await client.submit_batch()
        body = await client.request_json("GET", BATCHES)
        (batch,) = body.pop("batches")
        assert batch["batch_id"] == batch_id
        assert body == {
            "status": "success",
            "total": 1,
            "total_is_exact": True,
            "count": 1,
            "limit": 100,
            "skip": 0,
            "message": "1 of 1 batches",
        }

    async def test_limit_and_skip_walk_through_all_newest_first(self, client: Client) -> None:
        ids = [await client.submit() for _ in range(5)]
        parts = [await client.listed(f"limit=2&skip={skip}") for skip in (0, 2, 4, 5, 6)]
        assert parts == [ids[:2:-1], ids[2:0:-1], ids[:1], [], []]
        batch_ids = [await client.submit_batch() for _ in range(3)]
        parts = [await client.listed_batches(f"limit=2&skip={skip}") for skip in (0, 2, 3)]
        assert parts == [batch_ids[:0:-1], batch_ids[:1], []]

    async def test_filters_hold_together(self, client: Client, store: Store) -> None:
        ended = await client.submit_batch(1, user_id="ann")
        await end_next(store, Completed())
        waiting = await client.submit_batch(2, user_id="ann")
        await client.submit(user_id="bob")
        for query, expected in (
            ("", 4),
            ("status=&batch_id=&user_id=", 4),
            ("user_id=ann", 3),
            ("user_id=ann&status=pending", 2),
            ("user_id=ann&status=completed", 1),
            ("user_id=ann&status=pending,completed", 3),
            (f"user_id=ann&status=pending&batch_id={ended}", 0),
            (f"user_id=ann&status=pending&batch_id={waiting}", 2),
            (f"user_id=ann&status=pending&batch_id={waiting}&skip=1", 1),
            (f"user_id=bob&batch_id={waiting}", 0),
            ("user_id=bob&status=failed", 0),
        ):
            assert len(await client.listed(query)) == expected, query
        total = (await client.request_json("GET", f"{JOBS}?user_id=ann&limit=1"))["total"]
        assert total == 3

    async def test_filters_of_batches_hold_together(self, client: Client, store: Store) -> None:
        ended = await client.submit_batch(1, user_id="ann")
        await end_next(store, Completed())
        waiting = await client.submit_batch(1, user_id="ann")
        paused = await client.submit_batch(1, user_id="bob", isActive=False)
        for query, expected in (
            ("", [paused, waiting, ended]),
            ("user_id=ann", [waiting, ended]),
            ("status=pending", [paused, waiting]),
            ("status=pending&skip=1", [waiting]),
            ("status=pending&user_id=ann", [waiting]),
            ("status=completed&user_id=bob", []),
            ("isActive=false", [paused]),
            ("isActive=true&status=completed,failed", [ended]),
        ):
            assert await client.listed_batches(query) == expected, query

    @pytest.mark.parametrize("path", [JOBS, BATCHES])
    @pytest.mark.parametrize(
        "query",
        ["status=done", "limit=0", "limit=1001", "skip=-1", "skip=x", "skip=100001", "archived=x"],
    )
    async def test_a_filter_that_makes_no_sense_is_refused(
        self, client: Client, path: str, query: str
    ) -> None:
        body = await client.refusal("GET", f"{path}?{query}", 400)
        assert query.partition("=")[0] in body["message"]


class TestUsers:
    async def test_the_header_names_the_owner(self, client: Client) -> None:
        body = await client.request_json("POST", JOBS, 201, json={}, headers=ANN)
        assert body["job"]["user_id"] == "ann"
        body = await client.request_json("POST", BATCHES, 201, json={"jobs": [{}]}, headers=ANN)
        assert body["batch"]["user_id"] == "ann"
        await client.refusal("POST", JOBS, 403, json={"user_id": "bob"}, headers=ANN)

    async def test_a_strangers_things_do_not_exist(self, client: Client) -> None:
        batch_id = await client.submit_batch(user_id="ann")
        job_id = await client.submit(user_id="ann")
        job, batch = f"{JOBS}/{job_id}", f"{BATCHES}/{batch_id}"
        for method, path in (
            ("GET", job),
            ("DELETE", job),
            ("GET", f"/api/event-job/status/{job_id}"),
            ("POST", f"/api/event-job/{job_id}/restart"),
            ("GET", batch),
            ("DELETE", batch),
            ("POST", f"{batch}/archive"),
            ("POST", f"{batch}/toggle-active"),
        ):
            await client.refusal(method, path, 404, headers=EVE)
        assert (await client.request_json("GET", JOBS, headers=EVE))["total"] == 0
        assert (await client.request_json("GET", BATCHES, headers=EVE))["total"] == 0
        assert await client.listed("user_id=ann", headers=EVE) == []
        assert len(await client.listed(headers=ANN)) == 3

    async def test_a_reader_may_look_but_not_touch(self, client: Client) -> None:
        access = {"read_access": ["bob"]}
        job_id = await client.submit(user_id="ann", access_control=access)
        batch_id = await client.submit_batch(1, user_id="ann", access_control=access)
        assert len(await client.listed(headers=BOB)) == 2
        for method, path in (
            ("DELETE", f"{JOBS}/{job_id}"),
            ("POST", f"/api/event-job/{job_id}/restart"),
            ("DELETE", f"{BATCHES}/{batch_id}"),
            ("POST", f"{BATCHES}/{batch_id}/archive"),
            ("POST", f"{BATCHES}/{batch_id}/toggle-active"),
        ):
            await client.refusal(method, path, 403, headers=BOB)

    async def test_what_is_public_is_seen_by_all(self, client: Client) -> None:
        public = {"visibility": "public"}
        job_id = await client.submit(user_id="ann", access_control=public)
        assert await client.listed(headers=EVE) == [job_id]
        await client.request_json("GET", f"{JOBS}/{job_id}", headers=EVE)


class TestErrors:
    @pytest.fixture
    def store_url(self, tmp_path: Path) -> str:
        """One kind of store is enough for requests that are rejected before it is used."""
        return f"sqlite://{tmp_path}/jobs.db"

    @pytest.mark.parametrize(
        ("method", "path", "status"),
        [
            ("GET", "/api/event-job", 404),
            ("GET", "/api/event-job/", 404),
            ("GET", "/api/event-job/nothing", 404),
            ("GET", "/api/event-job/nothing/at/all", 404),
            ("GET", f"{JOBS}/job-none", 404),
            ("GET", "/api/event-job/status/job-none", 404),
            ("POST", "/api/event-job/job-none/restart", 404),
            ("GET", f"{BATCHES}/batch-none", 404),
            ("POST", f"{BATCHES}/batch-none/toggle-active", 404),
            ("PUT", JOBS, 405),
            ("GET", "/api/event-job/submit", 405),
            ("GET", "/api/event-job/job-none/restart", 405),
        ],
    )
    async def test_a_missing_job_is_reported_in_the_older_format(
        self, client: Client, method: str, path: str, status: int
    ) -> None:
        await client.refusal(method, path, status)

    @pytest.mark.parametrize("path", [JOBS, "/api/event-job/submit", BATCHES, f"{BATCHES}/"])
    @pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff", b'{"jobs": 1}x'])
    async def test_a_body_that_cannot_be_read_is_too(
        self, client: Client, path: str, body: bytes
    ) -> None:
        kind = {"Content-Type": "application/json"}
        await client.refusal("POST", path, 400, content=body, headers=kind)

    async def test_an_empty_batch_is_refused(self, client: Client) -> None:
        body = await client.refusal("POST", BATCHES, 400, json={"jobs": []})
        assert body["error"]["details"]["problems"][0]["field"] == "jobs"

    async def test_a_body_that_is_too_large_is_refused(self, job_service: JobService) -> None:
        api = create_api(job_service, max_body_bytes=1000)
        async with serving(api) as url, Client(url) as client:
            await client.refusal("POST", JOBS, 413, json={"job_name": "x" * 1000})

    async def test_a_missing_key_is_reported_in_the_legacy_format(
        self, job_service: JobService
    ) -> None:
        api = create_api(job_service, api_keys=["right", "bound:ann"])
        async with serving(api) as url, Client(url) as client:
            for method, path in (("GET", JOBS), ("POST", BATCHES), ("GET", f"{BATCHES}/x")):
                await client.refusal(method, path, 401, json={"jobs": [{}]})
            bound = {"Authorization": "Bearer bound"}
            assert await client.listed(headers=bound) == []
            await client.refusal("GET", JOBS, 403, headers={**bound, **BOB})

    async def test_other_sites_are_refused_in_the_older_form(self, client: Client) -> None:
        await client.refusal("GET", JOBS, 403, headers={"Origin": "https://evil.example"})

    async def test_a_store_outage_is_reported_without_its_address(self, tmp_path: Path) -> None:
        job_service = JobService(AbsentStore(), Registry(), JobFiles(tmp_path))  # type: ignore[arg-type]  # never valid
        async with serving(create_api(job_service)) as url, Client(url) as client:
            body = await client.refusal("POST", JOBS, 503, json={})
            assert "db.internal" not in body["message"]

    async def test_an_unexpected_error_reveals_only_its_type(self, tmp_path: Path) -> None:
        job_service = JobService(None, Registry(), JobFiles(tmp_path))  # type: ignore[arg-type]  # never valid
        async with serving(create_api(job_service)) as url, Client(url) as client:
            body = await client.refusal("GET", f"{JOBS}/x", 500)
        assert body["message"] == "Internal error"

    @pytest.mark.parametrize("status", CODES)
    async def test_every_status_has_its_older_name(self, status: int) -> None:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            raise AssertionError("must not be read")

        scope = {"type": "http", "path": f"{JOBS}/job-1", "headers": []}
        await error_response(status, "No")(scope, receive, send)
        body = json.loads(sent[1]["body"])
        assert (body["error_type"], body["message"]) == (NAMES[status], "No")
        assert dict(sent[0]["headers"])[b"content-length"] == str(len(sent[1]["body"])).encode()


class AbsentStore:
    async def add(self, *_: Any, **__: Any) -> None:
        raise StoreUnavailable("The MongoDB at db.internal cannot be used")


class TestCurl:
    async def test_the_older_documentations_example_works(self, client: Client) -> None:
        needed("curl")
        command = ["curl", "-X", "POST", str(client.base_url.join(BATCHES))]
        command += ["-H", "Content-Type: application/json", "-d", BATCH, "--noproxy", "*"]
        process = await asyncio.create_subprocess_exec(
            *command, "--silent", stdout=asyncio.subprocess.PIPE
        )
        out, _ = await asyncio.wait_for(process.communicate(), 20)
        body = json.loads(out)
        assert body["batch"]["batch_name"] == "FOSDEM ecosocial"
        assert sorted(await client.listed()) == sorted(body["job_ids"])
