"""Every request from the documents this service is based on, sent byte for byte to the program."""
# ruff: noqa: E501  # the bytes of the examples are not ours to wrap

import json
import os
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from ..requirements import needed
from .program import Program, Running

#: The requests of the first documentation: a request line, then the body.
PDF_JOB = r"""POST /api/jobs
{
  "job_type": "pdf",
  "parameters": {
    "url": "https://example.com/document.pdf",
    "extraction_method": "native",
    "use_cache": true,
    "extra": { "include_images": true }
  }
}
"""

SESSION_JOB = r"""POST /api/jobs
{
  "job_type": "session",
  "parameters": {
    "event": "FOSDEM 2025",
    "session": "Forked Communities: Project Re-licensing and Community Impact",
    "url": "https://fosdem.org/2025/schedule/event/...",
    "filename": "Forked-Communities-Project-Relicensing-and-Community-Impact.md",
    "track": "Main-Track-Janson-7",
    "day": "Saturday",
    "starttime": "17:00",
    "endtime": "17:50",
    "speakers": ["Dawn M Foster", "Brian Proffitt", "Stephen  Walli", "Ben Ford"],
    "attachments_url": "https://fosdem.org/.../slides/.../FOSDEM_Fo_HyZR9km.pdf",
    "source_language": "en",
    "target_language": "de",
    "use_cache": true,
    "extra": { "create_archive": true, "template": "Session" }
  }
}
"""

BATCH = r"""POST /api/jobs/batch
{
  "batch_name": "import_batch",
  "jobs": [
    { "job_type": "pdf", "parameters": { "url": "https://example.com/a.pdf", "extraction_method": "native" } },
    { "job_type": "session", "parameters": { "event": "FOSDEM 2025", "session": "...", "url": "https://fosdem.org/...", "target_language": "de" } }
  ]
}
"""

#: Bodies from the later documentation, including trailing spaces.
JOB_DOCUMENT = r"""{
  "job_type": "pdf",
  "parameters": {
    "file_path": "C:/data/docs/report.pdf",  
    "url": null,                                 
    "extraction_method": "llm_and_native",     
    "include_images": true,                      
    "template": "Session",                     
    "context": {"document_type": "report", "language": "de"},
    "use_cache": true,
    "force_overwrite": false
  },
  "webhook": {
    "url": "https://example.local/webhook/jobs",
    "headers": {"Authorization": "Bearer <token>"},
    "include_markdown": true,
    "include_metadata": true
  },
  "user_id": "u-123"
}
"""

WRAPPED_BATCH = r"""{
  "batch": {
    "batch_name": "pdf_import_2025_03",
    "jobs": [
      { "job_type": "pdf", "parameters": { "url": "https://example/doc1.pdf", "extraction_method": "native" } },
      { "job_type": "pdf", "parameters": { "file_path": "C:/docs/scan.pdf", "extraction_method": "llm_and_ocr", "include_images": true } }
    ]
  }
}
"""

#: A command from the documentation of the older clients.
CURL = r"""curl -X POST http://localhost:5000/api/event-job/batches \
  -H 'Content-Type: application/json' \
  -d '{
    "batch_name": "FOSDEM ecosocial",
    "jobs": [
      {"parameters": {"event":"FOSDEM","session":"T1","url":"https://...","filename":"t1.md","track":"ecosocial"}},
      {"parameters": {"event":"FOSDEM","session":"T2","url":"https://...","filename":"t2.md","track":"ecosocial"}}
    ],
    "webhook": {"url": "https://example.org/hook"}
  }'
"""

JOB_FIELDS = {
    "job_id", "job_type", "job_name", "status", "parameters", "progress", "results", "error",
    "created_at", "updated_at", "processing_started_at", "completed_at", "batch_id", "user_id",
    "access_control", "logs", "archived", "priority", "run_at", "attempt", "max_attempts",
    "attempts", "webhook", "deliveries",
}  # fmt: skip
BATCH_FIELDS = {
    "batch_id", "batch_name", "status", "total_jobs", "completed_jobs", "failed_jobs",
    "pending_jobs", "processing_jobs", "cancelled_jobs", "isActive", "archived", "created_at",
    "updated_at", "completed_at", "user_id", "access_control", "webhook",
}  # fmt: skip
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Without a worker: a job stays as submitted, and nothing is downloaded."""
    program = Program(tmp_path_factory.mktemp("seeds"))
    with program.serving("--no-worker") as service:
        yield service


def send(service: Running, example: str) -> httpx.Response:
    """`POST /path` on the first line, the body on the others."""
    line, _, body = example.partition("\n")
    method, _, path = line.partition(" ")
    assert method == "POST"
    return post(service, path, body)


def post(service: Running, path: str, body: str = "", **headers: str) -> httpx.Response:
    return service.post(path, content=body.encode(), headers={**JSON, **headers})


def body_of(example: str) -> Any:
    return json.loads(example.partition("\n")[2])


def enqueued(response: httpx.Response, count: int) -> dict[str, Any]:
    """The data of an acknowledgement, which must have the documented form."""
    assert response.status_code == 202, response.text
    body = response.json()
    assert re.fullmatch(TIME, body["request"].pop("timestamp"))
    data: dict[str, Any] = body.pop("data")
    assert body == {
        "status": "success",
        "request": {"processor": "job-enqueue", "parameters": {"job_count": count}},
        "process": {
            "id": data["batch_id"] or data["job_id"],
            "main_processor": "SecretaryJobWorker",
            "llm_info": {"requests": []},
        },
        "error": None,
    }
    assert len(data["job_ids"]) == count
    assert all(re.fullmatch(r"job-[0-9a-f-]{36}", job_id) for job_id in data["job_ids"])
    return data


def flat(parameters: dict[str, Any]) -> dict[str, Any]:
    """All parameters at one level: none may be missing, wherever a type puts unknown ones."""
    top = {key: value for key, value in parameters.items() if key != "extra"}
    return {**parameters.get("extra", {}), **top}


def polled(service: Running, job_id: str) -> dict[str, Any]:
    response = service.get(f"/api/jobs/{job_id}")
    assert response.status_code == 200
    body = response.json()
    assert (body["status"], body["error"]) == ("success", None)
    job: dict[str, Any] = body["data"]
    assert set(job) >= JOB_FIELDS
    assert set(job["progress"]) == {"step", "percent", "message"}
    assert re.fullmatch(TIME, job["created_at"]) and re.fullmatch(TIME, job["updated_at"])
    return job


def expect_batch(batch: dict[str, Any], name: str, *, pending: int) -> None:
    assert set(batch) >= BATCH_FIELDS
    fields = {
        key: batch[key]
        for key in ("batch_name", "status", "total_jobs", "pending_jobs", "isActive", "archived")
    }
    assert fields == {
        "batch_name": name,
        "status": "pending",
        "total_jobs": pending,
        "pending_jobs": pending,
        "isActive": True,
        "archived": False,
    }


class TestFirstDocument:
    @pytest.mark.parametrize(("example", "job_type"), [(PDF_JOB, "pdf"), (SESSION_JOB, "session")])
    def test_a_single_job(self, service: Running, example: str, job_type: str) -> None:
        data = enqueued(send(service, example), 1)
        assert set(data) == {"job_id", "job_ids", "batch_id", "job"}
        assert (data["job_ids"], data["batch_id"]) == ([data["job_id"]], None)
        job = polled(service, data["job_id"])
        assert (job["job_type"], job["status"], job["results"]) == (job_type, "pending", None)
        assert flat(job["parameters"]) == flat(body_of(example)["parameters"])

    def test_a_batch(self, service: Running) -> None:
        data = enqueued(send(service, BATCH), 2)
        assert set(data) == {"batch_id", "job_ids", "batch"}
        for path in ("/api/batch/", "/api/batches/", "/api/jobs/batch/"):
            batch = service.get(path + data["batch_id"]).json()["data"]
            expect_batch(batch, "import_batch", pending=2)
        jobs = [polled(service, job_id) for job_id in data["job_ids"]]
        sent = body_of(BATCH)["jobs"]
        assert [job["job_type"] for job in jobs] == ["pdf", "session"]
        assert [job["batch_id"] for job in jobs] == [data["batch_id"]] * 2
        for job, one in zip(jobs, sent, strict=True):
            assert flat(job["parameters"]) == flat(one["parameters"])


class TestSecondDocument:
    def test_a_job_with_a_webhook_and_a_user(self, service: Running) -> None:
        data = enqueued(post(service, "/api/jobs", JOB_DOCUMENT), 1)
        job = polled(service, data["job_id"])
        sent = json.loads(JOB_DOCUMENT)
        assert flat(job["parameters"]) == sent["parameters"]
        assert (job["user_id"], job["webhook"]["url"]) == ("u-123", sent["webhook"]["url"])
        assert job["webhook"]["include_markdown"] is job["webhook"]["include_metadata"] is True

    def test_the_secret_in_the_webhooks_header_is_not_given_back(self, service: Running) -> None:
        response = post(service, "/api/jobs", JOB_DOCUMENT)
        path = f"/api/jobs/{response.json()['data']['job_id']}"
        for answer in (response, service.get(path), service.get("/api/jobs")):
            assert "Bearer" not in answer.text

    def test_the_job_is_its_users(self, service: Running) -> None:
        job_id = enqueued(post(service, "/api/jobs", JOB_DOCUMENT), 1)["job_id"]
        for path in (f"/api/jobs/{job_id}", f"/api/event-job/jobs/{job_id}"):
            assert service.get(path, headers={"X-User-ID": "u-123"}).status_code == 200
            assert service.get(path, headers={"X-User-ID": "u-9"}).status_code == 404
        jobs = service.get("/api/jobs", headers={"X-User-ID": "u-9"}).json()["data"]["jobs"]
        assert job_id not in {job["job_id"] for job in jobs}

    @pytest.mark.parametrize("path", ["/api/batches", "/api/jobs/batch"])
    def test_a_batch_in_its_envelope(self, service: Running, path: str) -> None:
        data = enqueued(post(service, path, WRAPPED_BATCH), 2)
        batch = service.get(f"/api/batches/{data['batch_id']}").json()["data"]
        expect_batch(batch, "pdf_import_2025_03", pending=2)
        sent = json.loads(WRAPPED_BATCH)["batch"]["jobs"]
        for job_id, one in zip(data["job_ids"], sent, strict=True):
            assert flat(polled(service, job_id)["parameters"]) == one["parameters"]

    def test_the_older_routes_show_the_same(self, service: Running) -> None:
        user = {"X-User-ID": "u-123"}
        data = enqueued(post(service, "/api/batches", WRAPPED_BATCH, **user), 2)
        batch_id = data["batch_id"]
        filters = f"status=pending&batch_id={batch_id}&user_id=u-123"
        body = service.get(f"/api/event-job/jobs?{filters}", headers=user).json()
        assert (body["status"], body["total"]) == ("success", 2)
        assert {job["job_id"] for job in body["jobs"]} == set(data["job_ids"])
        job_id = data["job_ids"][0]
        body = service.get(f"/api/event-job/jobs/{job_id}").json()
        assert body["job"] == polled(service, job_id)
        body = service.get("/api/event-job/batches", headers=user).json()
        assert batch_id in {batch["batch_id"] for batch in body["batches"]}
        body = service.get(f"/api/event-job/batches/{batch_id}").json()
        expect_batch(body["batch"], "pdf_import_2025_03", pending=2)


class TestOlderClients:
    def create_batch(self, service: Running) -> dict[str, Any]:
        """With the real program, unchanged except for the port."""
        needed("curl")
        port = service.url.rpartition(":")[2]
        done = subprocess.run(
            ["bash", "-c", CURL.replace("localhost:5000", f"localhost:{port}")],
            env={**os.environ, "NO_PROXY": "*"},
            capture_output=True,
            timeout=20,
        )
        assert done.returncode == 0, done.stderr
        body: dict[str, Any] = json.loads(done.stdout)
        return body

    def test_a_batch_is_created_by_the_documented_command(self, service: Running) -> None:
        body = self.create_batch(service)
        assert set(body) == {"status", "batch", "job_ids", "message"}
        assert body["status"] == "success"
        expect_batch(body["batch"], "FOSDEM ecosocial", pending=2)
        assert body["batch"]["webhook"]["url"] == "https://example.org/hook"
        jobs = [polled(service, job_id) for job_id in body["job_ids"]]
        assert [job["job_type"] for job in jobs] == ["session", "session"]
        assert [flat(job["parameters"])["filename"] for job in jobs] == ["t1.md", "t2.md"]
        assert flat(jobs[0]["parameters"]) == {
            "event": "FOSDEM",
            "session": "T1",
            "url": "https://...",
            "filename": "t1.md",
            "track": "ecosocial",
        }

    def test_every_step_of_the_flow(self, service: Running) -> None:
        body = post(service, "/api/event-job/submit", '{"parameters": {"event": "FOSDEM"}}')
        assert body.status_code == 201
        job_id = body.json()["job"]["job_id"]
        shown = service.get(f"/api/event-job/status/{job_id}").json()
        assert (shown["status"], shown["job"]["status"]) == ("success", "pending")
        assert service.post(f"/api/jobs/{job_id}/cancel").status_code == 200
        restarted = service.post(f"/api/event-job/{job_id}/restart").json()
        assert restarted["job"]["status"] == "pending"
        assert service.post(f"/api/jobs/{job_id}/cancel").status_code == 200
        deleted = httpx.delete(f"{service.url}/api/event-job/jobs/{job_id}", trust_env=False)
        assert deleted.status_code == 200
        gone = service.get(f"/api/event-job/jobs/{job_id}")
        assert (gone.status_code, gone.json()["error_type"]) == (404, "not_found")

    def test_a_batch_is_paused_and_archived(self, service: Running) -> None:
        batch_id = self.create_batch(service)["batch"]["batch_id"]
        path = f"/api/event-job/batches/{batch_id}"
        assert service.post(f"{path}/toggle-active").json()["batch"]["isActive"] is False
        assert service.post(f"{path}/toggle-active").json()["batch"]["isActive"] is True
        assert service.post(f"{path}/archive").json()["batch"]["archived"] is True
        listed = service.get("/api/event-job/batches").json()["batches"]
        assert batch_id not in {batch["batch_id"] for batch in listed}
        assert service.get(path).json()["batch"]["total_jobs"] == 2

    def test_errors_are_reported_in_both_formats(self, service: Running) -> None:
        response = post(service, "/api/event-job/batches", "{")
        body = response.json()
        assert response.status_code == 400
        assert (body["status"], body["error_type"]) == ("error", "validation_error")
        assert body["message"] == body["error"]["message"]
        assert body["error"]["code"] == "VALIDATION_ERROR"
