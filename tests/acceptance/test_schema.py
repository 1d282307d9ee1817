"""Schemathesis generates requests from the OpenAPI document: no response is a 5xx or differs from
the document. See tests/fuzzing for what is checked, what is not, and why.

`make fuzz` does the same for longer. Choose another seed with SCHEMA_SEED=7 make test."""

import os
import re
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
import schemathesis.checks
from schemathesis.core.transport import Response
from schemathesis.schemas import BaseSchema

from secretary.api.ingress import ROUTES, IngressRoute

from ..fuzzing.api import AUTHORIZED, fuzz, started
from ..polling import wait_until
from ..sample_documents import rich_pdf
from .program import Program, Running

SEED = os.environ.get("SCHEMA_SEED", "1")
EXAMPLES = os.environ.get("SCHEMA_EXAMPLES", "10")
#: Routes that share all their code, and thereby the limits of their fields, with others.
TWINS = (
    "^/api/(office|imageocr|image-analyzer|audio|video|session|pdf/process-(url|mistral-ocr)"
    "|transformer/(template|text/file|xxl-text)"
    "|jobs/batch$|batches/from-(schedule|files)$|event-job/(batches|submit)$)"
)
#: Authentication has its own tests, and a missing engine is a valid response.
ELSEWHERE = [schemathesis.checks.ignored_auth, schemathesis.checks.not_a_server_error]
#: A fuzzer has nothing to replay and knows no file names, and only by luck does it cancel an open
#: job, delete a finished one or find a URL. The tests below do not depend on luck.
OUT_OF_REACH = re.compile(
    r"/replay|/cancel|/from-files|/files/|/text-content/|/download-archive|/markdown|/api/events"
    r"|^DELETE /api/(event-job/)?(jobs|batches)/|/process|/youtube|/transformer/|/rag/|/text2image/"
    r"|/pdf/jobs/|/tracks/"
)


@pytest.fixture(scope="module")
def started_program(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Program, Running]]:
    with started(tmp_path_factory.mktemp("schema")) as both:
        yield both
    assert "Traceback" not in both[1].err


@pytest.fixture(scope="module")
def service(started_program: tuple[Program, Running]) -> Running:
    return started_program[1]


@pytest.fixture(scope="module")
def document(service: Running) -> dict[str, Any]:
    described: dict[str, Any] = service.get("/api/openapi.json").json()
    return described


@pytest.fixture
def schema(service: Running, monkeypatch: pytest.MonkeyPatch) -> BaseSchema:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return schemathesis.openapi.from_url(f"{service.url}/api/openapi.json")


class TestFuzzing:
    @pytest.mark.timeout(400)
    def test_no_made_up_request_finds_a_fault(
        self, started_program: tuple[Program, Running], document: dict[str, Any]
    ) -> None:
        phases = ("--phases", "examples,fuzzing,stateful", "--max-examples", EXAMPLES)
        assert fuzz(*started_program, *phases, "--seed", SEED) == 0
        operations = {f"{method.upper()} {path}" for method, path in every_operation(document)}
        unreached = operations - successful_operations(started_program[1])
        assert {name for name in unreached if not OUT_OF_REACH.search(name)} == set()

    @pytest.mark.timeout(400)
    def test_no_value_at_the_border_of_what_is_allowed_finds_one(
        self, started_program: tuple[Program, Running]
    ) -> None:
        phases = ("--phases", "coverage", "--exclude-path-regex", TWINS)
        assert fuzz(*started_program, *phases, "--seed", SEED) == 0


class TestKeys:
    def test_every_operation_that_says_so_needs_a_key(
        self, service: Running, document: dict[str, Any]
    ) -> None:
        with httpx.Client(base_url=service.url, trust_env=False) as client:
            for method, path in every_operation(document):
                status = client.request(method, filled(path)).status_code
                secured = bool(document["paths"][path][method]["security"])
                assert (status == 401) is secured, f"{method} {path}: {status}"

    @pytest.mark.skipif(
        sys.platform != "linux", reason="other systems have a single loopback address"
    )
    def test_none_takes_a_wrong_one(self, service: Running, document: dict[str, Any]) -> None:
        """From another address every ten requests, because of the rate limit for wrong keys."""
        secured = [
            (method, path)
            for method, path in every_operation(document)
            if document["paths"][path][method]["security"]
        ]
        for number in range(0, len(secured), 10):
            transport = httpx.HTTPTransport(local_address=f"127.0.1.{1 + number // 10}")
            with httpx.Client(base_url=service.url, transport=transport) as client:
                for method, path in secured[number : number + 10]:
                    for wrong in ({"Authorization": "Bearer no"}, {"X-Secretary-Api-Key": "no"}):
                        status = client.request(method, filled(path), headers=wrong).status_code
                        assert status == 401, f"{method} {path}: {status}"


class TestAnswers:
    """Cases that a fuzzer does not find."""

    @pytest.fixture
    def job_id(self, service: Running) -> str:
        """A job with files."""
        return ended(service, {"job_type": "paper"})

    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ({}, 200),
            ({"Range": "bytes=0-3"}, 206),
            ({"Range": "bytes=0-1,4-5"}, 206),
            ({"Range": "bytes=999-"}, 416),
            ({"Range": "nonsense"}, 400),
            ({"If-None-Match": "<etag>"}, 304),
        ],
    )
    @pytest.mark.parametrize("path", ["/api/files/{path}", "/api/event-job/files/{path}"])
    def test_a_file_comes_as_described(
        self, schema: BaseSchema, job_id: str, path: str, headers: dict[str, str], status: int
    ) -> None:
        name = {"path": f"{job_id}/paper.txt"}
        etag = call(schema, "GET", path, name).headers["etag"][0]
        headers = {key: value.replace("<etag>", etag) for key, value in headers.items()}
        assert call(schema, "GET", path, name, headers=headers).status_code == status

    @pytest.mark.parametrize("path", ["/api/files/text/{path}", "/api/pdf/text-content/{path}"])
    def test_a_text_comes_as_described(self, schema: BaseSchema, job_id: str, path: str) -> None:
        answer = call(schema, "GET", path, {"path": f"{job_id}/paper.txt"})
        assert answer.json()["content"] == "Made for the schema's sake\n"

    @pytest.mark.parametrize("prefix", ["/api", "/api/event-job"])
    def test_an_archive_comes_as_described(
        self, service: Running, schema: BaseSchema, job_id: str, prefix: str
    ) -> None:
        path = prefix + "/jobs/{job_id}/download-archive"
        assert call(schema, "GET", path, {"job_id": job_id}).status_code == 200
        waiting = submitted(service, {"run_at": "2090-01-01T00:00:00+02:00"})
        assert call(schema, "GET", path, {"job_id": waiting}).status_code == 202

    @pytest.mark.parametrize(
        "name", ["mistral-ocr-raw", "mistral-ocr-images", "download-pages-archive"]
    )
    def test_the_files_of_a_pdf_come_as_described(
        self, service: Running, schema: BaseSchema, job_id: str, name: str
    ) -> None:
        url, file = f"{service.url}/api/pdf/process-mistral-ocr", {"file": ("a.pdf", rich_pdf())}
        fields = {"sync": "true"}
        answer = httpx.post(
            url, files=file, data=fields, headers=AUTHORIZED, trust_env=False, timeout=60
        )
        path = "/api/pdf/jobs/{job_id}/" + name
        read = answer.json()["process"]["id"]
        waiting = submitted(service, {"run_at": "2090-01-01T00:00:00+02:00"})
        for job, status in ((read, 200), (waiting, 202), (job_id, 400)):
            assert call(schema, "GET", path, {"job_id": job}).status_code == status

    @pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.path)
    def test_a_url_is_taken_as_described(self, schema: BaseSchema, route: IngressRoute) -> None:
        """Or a text, on routes that read nothing else."""
        extra = {"summarize": True} if route.job_type == "transformer" else route.example or {}
        answer = call(
            schema,
            "POST",
            f"/api{route.path}",
            body={"url": "https://nowhere.test/a.pdf", "async": True, **extra},
            media_type="application/json",
        )
        assert answer.status_code == 202

    @pytest.mark.parametrize(("content", "status"), [(b"Words", 202), (b"\0\1\2", 415), (b"", 415)])
    def test_files_are_taken_as_described(
        self, schema: BaseSchema, content: bytes, status: int
    ) -> None:
        files = {"file": [b"Words", content]}
        answer = call(
            schema, "POST", "/api/batches/from-files", body=files, media_type="multipart/form-data"
        )
        assert answer.status_code == status, answer.text

    @pytest.mark.parametrize("prefix", ["/api", "/api/event-job"])
    def test_what_is_deleted_is_gone_as_described(
        self, service: Running, schema: BaseSchema, prefix: str
    ) -> None:
        job_id = ended(service, {"job_type": "none"})
        gone = call(schema, "DELETE", prefix + "/jobs/{job_id}", {"job_id": job_id})
        assert gone.status_code == 200
        jobs = [{"job_type": "none", "run_at": "2090-01-01T00:00:00+02:00"}]
        response = service.post("/api/batches", {"jobs": jobs}, headers=AUTHORIZED)
        batch = {"batch_id": response.json()["data"]["batch_id"]}
        call(schema, "POST", "/api/batches/{batch_id}/cancel", batch)
        gone = call(schema, "DELETE", prefix + "/batches/{batch_id}", batch)
        assert gone.status_code == 200

    def test_a_cancelled_job_comes_as_described(self, service: Running, schema: BaseSchema) -> None:
        waiting = submitted(service, {"run_at": "2090-01-01T00:00:00+02:00"})
        answer = call(schema, "POST", "/api/jobs/{job_id}/cancel", {"job_id": waiting})
        assert (answer.status_code, answer.json()["data"]["status"]) == (200, "cancelled")

    def test_many_jobs_are_changed_as_described(self, service: Running, schema: BaseSchema) -> None:
        waiting = submitted(service, {"run_at": "2090-01-01T00:00:00+02:00"})
        asked = {"action": "cancel", "job_ids": [waiting, "job-none"]}
        answer = call(schema, "POST", "/api/jobs/bulk", body=asked, media_type="application/json")
        assert (answer.json()["data"]["count"], answer.json()["data"]["refused"]) == (1, 1)

    def test_a_cancelled_batch_comes_as_described(
        self, service: Running, schema: BaseSchema
    ) -> None:
        jobs = [{"job_type": "none", "run_at": "2090-01-01T00:00:00+02:00"}]
        response = service.post("/api/batches", {"jobs": jobs}, headers=AUTHORIZED)
        batch = {"batch_id": response.json()["data"]["batch_id"]}
        answer = call(schema, "POST", "/api/batches/{batch_id}/cancel", batch)
        assert (answer.status_code, answer.json()["data"]["status"]) == (200, "failed")

    def test_a_replayed_delivery_comes_as_described(
        self, service: Running, schema: BaseSchema
    ) -> None:
        job_id = ended(service, {"job_type": "none", "webhook": {"url": "https://nowhere.test/"}})
        path = "/api/jobs/{job_id}/deliveries/{n}/replay"
        n = read(service, job_id)["deliveries"][-1]["n"]
        answer = call(schema, "POST", path, {"job_id": job_id, "n": n})
        assert answer.status_code == 200

    def test_who_waits_is_answered_as_described(self, schema: BaseSchema) -> None:
        answer = call(
            schema,
            "POST",
            "/api/transformer/text",
            body={"text": "Hello", "summarize": True, "wait_ms": 20_000},
            media_type="application/json",
        )
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "ENGINE_UNAVAILABLE")


def call(
    schema: BaseSchema,
    method: str,
    path: str,
    path_parameters: dict[str, Any] | None = None,
    **options: Any,
) -> Response:
    """A request whose response is checked as the fuzzer does."""
    case = schema[path][method].Case(path_parameters=path_parameters or {}, **options)
    return case.call_and_validate(headers=AUTHORIZED, excluded_checks=ELSEWHERE)


def submitted(service: Running, document: dict[str, Any]) -> str:
    response = service.post("/api/jobs", document, headers=AUTHORIZED)
    assert response.status_code == 202, response.text
    job_id: str = response.json()["data"]["job_id"]
    return job_id


def ended(service: Running, document: dict[str, Any]) -> str:
    job_id = submitted(service, document)
    wait_until(lambda: read(service, job_id)["completed_at"], seconds=60)
    return job_id


def read(service: Running, job_id: str) -> dict[str, Any]:
    job: dict[str, Any] = service.get(f"/api/jobs/{job_id}", headers=AUTHORIZED).json()["data"]
    return job


def every_operation(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    return ((method, path) for path, methods in document["paths"].items() for method in methods)


def filled(path: str) -> str:
    return re.sub(r"\{\w+\}", "1", path)


def successful_operations(service: Running) -> set[str]:
    """The operations with a successful response, as counted by the service."""
    text = service.get("/metrics", headers=AUTHORIZED).text
    counted = re.findall(r"(?m)^secretary_http_requests_total\{(.*)\}", text)
    labels = [dict(re.findall(r'(\w+)="([^"]*)"', one)) for one in counted]
    return {
        f"{one['method']} {one['route'].replace(':path', '')}"
        for one in labels
        if one["status"] < "400"
    }
