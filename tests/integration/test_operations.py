"""What operators rely on, over real HTTP: headers, limits, health, metrics, and a clean log."""

import asyncio
import gc
import io
import json
import logging
import re
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from secretary.api import create_api, create_probe
from secretary.api.auth import WRONG_KEYS_PER_MINUTE, Authenticator
from secretary.api.middleware import RequestMiddleware
from secretary.core.errors import StoreUnavailable
from secretary.core.job import Completed
from secretary.handlers import BUILTIN
from secretary.jobs.handler import Registry
from secretary.jobs.service import JobService
from secretary.observability import logging as logs
from secretary.observability.metrics import Metrics, ServiceStats
from secretary.serve import Connection, listen
from secretary.storage.artifacts import JobFiles
from secretary.store import Store, open_store
from tests.api_server import serving
from tests.backends import files_in
from tests.contract.factories import LEASE, claim, worker
from tests.no_tls import NO_TLS

KEY = {"Authorization": "Bearer right"}
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
DEADLINE = 10.0


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = open_store(f"sqlite://{tmp_path}/jobs.db")
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def job_service(store: Store, tmp_path: Path) -> JobService:
    return JobService(store, Registry(BUILTIN), files_in(tmp_path, store))


@asynccontextmanager
async def client_of(app: Any, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        serving(app) as url,
        httpx.AsyncClient(base_url=url, verify=NO_TLS, headers=headers, trust_env=False) as client,
    ):
        yield client


def broken_service(tmp_path: Path) -> JobService:
    """Every use of its store raises an unexpected error."""
    return JobService(None, Registry(BUILTIN), JobFiles(tmp_path))  # type: ignore[arg-type]  # never valid


class TestHeaders:
    async def test_every_answer_has_them(self, job_service: JobService, tmp_path: Path) -> None:
        api = create_api(job_service, api_keys=["right"], max_body_bytes=1000)
        async with client_of(api) as client:
            answers = {
                200: await client.get("/api/jobs", headers=KEY),
                202: await client.post("/api/jobs", headers=KEY, json={}),
                400: await client.post("/api/jobs", headers=KEY, content=b"{"),
                401: await client.get("/api/jobs"),
                404: await client.get("/nowhere", headers=KEY),
                405: await client.put("/api/jobs", headers=KEY),
                413: await client.post("/api/jobs", headers=KEY, content=b"x" * 2000),
            }
        async with client_of(create_api(broken_service(tmp_path))) as client:
            answers[500] = await client.get("/api/jobs")
        for status, answer in answers.items():
            assert answer.status_code == status, answer.text
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert answer.headers["x-frame-options"] == "DENY"
            assert answer.headers["cross-origin-resource-policy"] == "same-origin"
            assert answer.headers["cache-control"] == "no-store"
            policy = answer.headers["content-security-policy"]
            assert policy == "default-src 'none'; frame-ancestors 'none'"

    async def test_what_a_route_says_itself_stands(self, job_service: JobService) -> None:
        async with client_of(create_api(job_service)) as client:
            answer = await client.get("/api/doc/swagger-ui.css")
        assert answer.headers.get_list("cache-control") == ["public, max-age=3600"]

    async def test_a_stream_is_passed_on_piece_by_piece(self) -> None:
        read_first = asyncio.Event()

        async def stream(scope: Scope, receive: Receive, send: Send) -> None:
            headers = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"one", "more_body": True})
            await read_first.wait()
            await send({"type": "http.response.body", "body": b"two"})

        middleware = RequestMiddleware(
            stream,
            authenticator=Authenticator([]),
            record_response=lambda *_: None,
            max_body_bytes=0,
            path_limits={},
            body_timeout=0.1,  # does not limit the response
        )
        async with client_of(middleware) as client, client.stream("GET", "/") as answer:
            pieces = answer.aiter_raw()
            assert await asyncio.wait_for(anext(pieces), DEADLINE) == b"one"
            read_first.set()
            assert await asyncio.wait_for(anext(pieces), DEADLINE) == b"two"


class TestDocumentation:
    async def test_the_page_needs_nothing_from_elsewhere(self, job_service: JobService) -> None:
        async with client_of(create_api(job_service, api_keys=["right"])) as client:
            page = await client.get("/api/doc")
            assert page.headers["content-type"].startswith("text/html")
            assert "http" not in page.text
            policy = page.headers["content-security-policy"]
            assert "script-src 'self'" in policy and "unsafe" not in policy
            assert not re.search(r"<script>|<style|\son\w+=", page.text)
            linked = re.findall(r'(?:src|href)="([^"]+)"', page.text)
            assert len(linked) == 4
            for path in linked:
                answer = await client.get(path)
                assert (answer.status_code, len(answer.content) > 100) == (200, True), path
            script = (await client.get("/api/doc/start.js")).text
            (described,) = re.findall(r'url: "([^"]+)"', script)
            assert (await client.get(described)).json()["openapi"].startswith("3.")
            assert (await client.get("/api/doc/main.py")).status_code == 404


class TestRequestRate:
    async def test_a_rate_limited_client_receives_retry_after(
        self, job_service: JobService
    ) -> None:
        api = create_api(job_service, api_keys=["right", "other"], requests_per_minute=2)
        async with client_of(api) as client:
            for remaining in (1, 0):
                answer = await client.get("/api/jobs", headers=KEY)
                assert answer.headers["ratelimit-policy"] == '"default";q=2;w=60'
                assert answer.headers["ratelimit"] == f'"default";r={remaining};t=0'
            refused = await client.get("/api/jobs", headers=KEY)
            assert refused.status_code == 429
            assert refused.json()["error"]["code"] == "RATE_LIMITED"
            assert refused.headers["retry-after"] == "30"
            assert refused.headers["ratelimit"] == '"default";r=0;t=30'
            for path in ("/api/health", "/api/health/ready", "/api/doc", "/api/openapi.json"):
                assert (await client.get(path, headers=KEY)).status_code == 200
            other = await client.get("/api/jobs", headers={"Authorization": "Bearer other"})
            assert other.status_code == 200

    async def test_without_keys_each_address_is_counted(self, job_service: JobService) -> None:
        async with client_of(create_api(job_service, requests_per_minute=1)) as client:
            far = {"X-Forwarded-For": "192.0.2.7"}  # as sent by a proxy on this machine
            assert (await client.get("/api/jobs")).status_code == 200
            assert (await client.get("/api/jobs", headers=far)).status_code == 200
            assert (await client.get("/api/jobs")).status_code == 429

    async def test_without_the_setting_nobody_is_limited(self, job_service: JobService) -> None:
        async with client_of(create_api(job_service)) as client:
            answers = [await client.get("/api/job-types") for _ in range(50)]
        assert {answer.status_code for answer in answers} == {200}
        assert "ratelimit" not in answers[0].headers


class TestWrongKeys:
    async def test_after_many_a_guesser_must_wait_and_its_neighbours_need_not(
        self, job_service: JobService
    ) -> None:
        """Behind a proxy that is not in `trusted_proxies`, all clients have one address."""
        async with client_of(create_api(job_service, api_keys=["right"])) as client:
            for n in range(WRONG_KEYS_PER_MINUTE):
                guess = {"Authorization": f"Bearer guess-{n}"}
                assert (await client.get("/api/jobs", headers=guess)).status_code == 401
            wrong = {"Authorization": "Bearer guess"}
            refused = await client.get("/api/jobs", headers=wrong)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "3")
            assert (await client.get("/api/jobs", headers=KEY)).status_code == 200
            assert (await client.get("/api/jobs", headers=wrong)).status_code == 429
            far = {**wrong, "X-Forwarded-For": "192.0.2.7"}
            assert (await client.get("/api/jobs", headers=far)).status_code == 401

    async def test_a_network_of_ipv6_addresses_counts_as_one(self, job_service: JobService) -> None:
        async with client_of(create_api(job_service, api_keys=["right"])) as client:
            for n in range(WRONG_KEYS_PER_MINUTE):
                guess = {"Authorization": "Bearer wrong", "X-Forwarded-For": f"2001:db8::{n:x}"}
                assert (await client.get("/api/jobs", headers=guess)).status_code == 401
            wrong = {"Authorization": "Bearer wrong"}
            mine = {**wrong, "X-Forwarded-For": "2001:db8::ffff"}
            assert (await client.get("/api/jobs", headers=mine)).status_code == 429
            other = {**wrong, "X-Forwarded-For": "2001:db8:0:1::1"}
            assert (await client.get("/api/jobs", headers=other)).status_code == 401

    async def test_ipv4_addresses_in_the_form_of_ipv6_are_counted_separately(
        self, job_service: JobService
    ) -> None:
        async with client_of(create_api(job_service, api_keys=["right"])) as client:
            for _ in range(WRONG_KEYS_PER_MINUTE):
                guess = {"Authorization": "Bearer wrong", "X-Forwarded-For": "::ffff:192.0.2.7"}
                assert (await client.get("/api/jobs", headers=guess)).status_code == 401
            wrong = {"Authorization": "Bearer wrong"}
            other = {**wrong, "X-Forwarded-For": "::ffff:192.0.2.8"}
            assert (await client.get("/api/jobs", headers=other)).status_code == 401
            same = {**wrong, "X-Forwarded-For": "192.0.2.7"}
            assert (await client.get("/api/jobs", headers=same)).status_code == 429

    async def test_a_missing_key_is_no_guess(self, job_service: JobService) -> None:
        async with client_of(create_api(job_service, api_keys=["right"])) as client:
            for _ in range(WRONG_KEYS_PER_MINUTE + 1):
                assert (await client.get("/api/jobs")).status_code == 401
            assert (await client.get("/api/jobs", headers=KEY)).status_code == 200

    async def test_without_a_key_no_body_is_read(self, job_service: JobService) -> None:
        api = create_api(job_service, api_keys=["right"])
        async with serving(api) as url:
            head = b"POST /api/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
            answer = await response_to(url, head, until=b"}}")
        assert answer.startswith(b"HTTP/1.1 401 ")


async def response_to(
    url: str, *pieces: bytes, until: bytes | None = None, pause: float = 0
) -> bytes:
    """The response to these bytes until the server closes the connection or has sent `until`."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    answer = asyncio.create_task(reader.read() if until is None else reader.readuntil(until))
    try:
        for piece in pieces:
            if not answer.done():
                writer.write(piece)
                await asyncio.sleep(pause)
        return await asyncio.wait_for(answer, DEADLINE)
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


POST = (
    b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
)


class TestSlowClients:
    async def test_a_body_that_stops_coming_is_not_waited_for(
        self, job_service: JobService
    ) -> None:
        async with serving(create_api(job_service, body_timeout=0.2)) as url:
            answer = await response_to(url, POST + b'{"job_name":')
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"arrived too slowly" in answer
        assert b"connection: close" in answer.lower()

    async def test_nor_one_that_comes_in_drops(self, job_service: JobService) -> None:
        async with serving(create_api(job_service, body_timeout=0.3)) as url:
            answer = b""
            for _ in range(5):
                began = time.monotonic()
                # Writing to the closed connection may reset it before the response is read.
                with suppress(ConnectionResetError):
                    answer = await response_to(url, POST, *[b" "] * 10, pause=0.1)
                assert time.monotonic() - began < 5
                if answer:
                    break
        assert answer.startswith(b"HTTP/1.1 400 ")

    async def test_a_head_that_does_not_end_is_not_waited_for(
        self, job_service: JobService
    ) -> None:
        class Hasty(Connection):
            head_seconds = 0.2

        async with serving(create_api(job_service), connection=Hasty) as url:
            assert await response_to(url) == b""
            assert await response_to(url, b"GET /api/health/live HTTP/1.1\r\nHost: x\r\n") == b""
            async with httpx.AsyncClient(base_url=url, verify=NO_TLS, trust_env=False) as client:
                assert (await client.get("/api/health/live")).status_code == 200

    async def test_a_head_without_end_is_cut(self, job_service: JobService) -> None:
        flood = b"".join(b"X-Header-%d: %s\r\n" % (n, b"x" * 1000) for n in range(200))
        async with serving(create_api(job_service)) as url:
            try:
                answer = await response_to(url, b"GET / HTTP/1.1\r\nHost: x\r\n", flood, pause=0.05)
            except ConnectionError:
                answer = b""
        assert b" 200 " not in answer


class TestServer:
    def test_no_answer_waits_for_the_client_to_confirm_its_head(self) -> None:
        with (
            listen("127.0.0.1", 0, loopback_only=True) as listener,
            socket.create_connection(listener.getsockname()),
            listener.accept()[0] as accepted,
        ):
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


class TestHealth:
    async def test_it_reports_the_state_of_the_service(
        self, job_service: JobService, store: Store
    ) -> None:
        await store.register_worker(worker(), LEASE)
        async with client_of(create_api(job_service, api_keys=["right"])) as client:
            data = (await client.get("/api/health")).json()["data"]
        assert data.pop("uptime_s") >= 0
        assert data.pop("version")
        assert data == {
            "stopping": False,
            "store": {"kind": "sqlite", "answers": True},
            "workers": 1,
            "slots": 3,
            "io_slots": 0,
            "jobs": dict.fromkeys(("pending", "processing", "completed", "failed", "cancelled"), 0),
        }

    async def test_an_unreachable_store_is_reported_without_its_address(
        self, tmp_path: Path
    ) -> None:
        class Away:
            kind = "mongodb"

            async def workers(self) -> None:
                raise StoreUnavailable("The MongoDB at db.internal does not answer")

        job_service = JobService(Away(), Registry(), JobFiles(tmp_path))  # type: ignore[arg-type]  # never valid
        async with client_of(create_api(job_service)) as client:
            answer = await client.get("/api/health")
            assert answer.status_code == 503
            assert "db.internal" not in answer.text
            details = answer.json()["error"]["details"]
            assert details["store"] == {"kind": "mongodb", "answers": False}
            assert (await client.get("/api/health/ready")).status_code == 503
            assert (await client.get("/api/health/live")).status_code == 200


class TestTraces:
    async def test_a_job_made_of_a_form_is_part_of_the_requests_trace(
        self, job_service: JobService
    ) -> None:
        async with client_of(create_api(job_service)) as client:
            form = {"url": "https://example.org/a.pdf"}
            answer = await client.post(
                "/api/pdf/process-url", data=form, headers={"traceparent": TRACE}
            )
            assert answer.status_code == 202, answer.text
            job = (await client.get(f"/api/jobs/{answer.json()['job_id']}")).json()["data"]
        assert job["traceparent"] == TRACE


class TestMetrics:
    async def test_they_need_a_key_and_count_requests_by_route(
        self, job_service: JobService
    ) -> None:
        async with client_of(create_api(job_service, api_keys=["right"])) as client:
            assert (await client.get("/metrics")).status_code == 401
            made_up = {"job_type": "made-up"}
            job = (await client.post("/api/jobs", headers=KEY, json=made_up)).json()["data"]
            for _ in range(2):
                await client.get(f"/api/jobs/{job['job_id']}/", headers=KEY)
            await client.request("TRACE", "/api/jobs", headers=KEY)
            answer = await client.get("/metrics", headers=KEY)
        assert answer.headers["content-type"].startswith("text/plain; version=")
        requests = "secretary_http_requests_total"
        for line in (
            f'{requests}{{method="GET",route="/api/jobs/{{job_id}}",status="200"}} 2.0',
            f'{requests}{{method="POST",route="/api/jobs",status="202"}} 1.0',
            f'{requests}{{method="GET",route="unknown",status="401"}} 1.0',
            'secretary_jobs{job_type="other",status="pending"} 1.0',
        ):
            assert line in answer.text.splitlines(), answer.text
        assert job["job_id"] not in answer.text
        assert 'method="OTHER",route="/api/jobs",status="405"' in answer.text

    async def test_a_separate_worker_exports_them_too(self, job_service: JobService) -> None:
        probe = create_probe(
            job_service,
            api_keys=["right"],
            metrics=Metrics(job_service.registry.job_types, ServiceStats(job_service)),
        )
        async with client_of(probe) as client:
            assert (await client.get("/api/health/ready")).status_code == 200
            assert (await client.get("/metrics")).status_code == 401
            assert "secretary_workers" in (await client.get("/metrics", headers=KEY)).text
            assert (await client.get("/api/jobs", headers=KEY)).status_code == 404


class Log:
    """What the service logs, in both formats."""

    def __init__(self) -> None:
        self.text, self.json = io.StringIO(), io.StringIO()

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.json.getvalue().splitlines()]


@pytest.fixture
def log() -> Iterator[Log]:
    log = Log()
    handlers = [
        logs.log_handler(log.text, as_json=False),
        logs.log_handler(log.json, as_json=True),
    ]
    root = logging.getLogger()
    level = root.level
    for handler in handlers:
        handler.addFilter(lambda record: not record.name.startswith("http"))  # the test's client
        root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield log
    root.setLevel(level)
    for handler in handlers:
        root.removeHandler(handler)


class TestLog:
    async def test_a_request_has_its_line(self, job_service: JobService, log: Log) -> None:
        async with client_of(create_api(job_service)) as client:
            headers = {"traceparent": TRACE, "X-User-ID": "ann"}
            await client.get("/api/jobs/job-1?token=SECRET", headers=headers)
        (record,) = [r for r in log.records if r["logger"] == "secretary.requests"]
        assert record["ms"] >= 0
        fields = {name: record[name] for name in ("method", "route", "status", "user", "trace_id")}
        assert fields == {
            "method": "GET",
            "route": "/api/jobs/{job_id}",
            "status": 404,
            "user": "ann",
            "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
        }
        assert "SECRET" not in log.text.getvalue() + log.json.getvalue()


SECRETS = (
    "SECRETKEY",
    "SECRETTOKEN",
    "SECRETSIGN",
    "SECRETHEADER",
    "SECRETPASSWORD",
    "SECRETQUERY",
)
HOOK = {
    "url": "https://example.org/hook",
    "token": "SECRETTOKEN",
    "secret": "SECRETSIGN",
    "headers": {"X-Auth": "SECRETHEADER"},
}


class TestSecrets:
    async def test_none_is_in_an_answer_a_document_or_the_log(
        self, job_service: JobService, store: Store, log: Log
    ) -> None:
        answers: list[httpx.Response] = []
        key = {"Authorization": "Bearer SECRETKEY"}
        async with client_of(create_api(job_service, api_keys=["SECRETKEY"]), **key) as client:

            async def ask(method: str, path: str, **options: Any) -> httpx.Response:
                answers.append(await client.request(method, path, **options))
                return answers[-1]

            job = {"job_type": "selftest", "webhook": HOOK}
            inside = {"job_type": "selftest", "parameters": {"webhook": HOOK}}
            ids = [
                (await ask("POST", "/api/jobs", json=document)).json()["data"]["job_id"]
                for document in (job, inside)
            ]
            batch = (await ask("POST", "/api/batches", json={"jobs": [{}], "webhook": HOOK})).json()
            await ask("POST", "/api/event-job/jobs", json=job)
            await ask("POST", "/api/jobs", json={**job, "priority": "high"})
            await ask("POST", "/api/jobs", json={"webhook": {**HOOK, "url": 7}})
            await ask("POST", "/api/jobs", json={"parameters": {"webhook": {**HOOK, "url": 7}}})
            await ask("GET", "/api/jobs", headers={"Authorization": "Bearer SECRETKEYwrong"})
            while running := await claim(store):
                await store.finish(running[0], Completed({}))
            for path in (
                *(f"/api/jobs/{job_id}" for job_id in ids),
                *(f"/api/event-job/jobs/{job_id}" for job_id in ids),
                "/api/jobs?include=results,logs&token=SECRETQUERY",
                f"/api/batches/{batch['data']['batch_id']}?include=jobs",
                "/api/event-job/batches",
                "/api/health",
                "/metrics",
            ):
                await ask("GET", path)
        assert len(answers) == 17
        for answer in answers:
            text = f"{answer.headers} {answer.text}"
            if "SECRETQUERY" in str(answer.request.url):
                text = text.replace("SECRETQUERY", "")  # the response echoes the request
            assert not [secret for secret in SECRETS if secret in text], answer.request.url
        written = log.text.getvalue() + log.json.getvalue()
        assert not [secret for secret in SECRETS if secret in written]

    # The driver leaves the sockets of abandoned connection attempts to the garbage collector.
    @pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
    async def test_the_password_of_a_database_is_in_no_answer_and_no_log(
        self, tmp_path: Path, log: Log
    ) -> None:
        options = "serverSelectionTimeoutMS=100&connectTimeoutMS=100"
        store = open_store(f"mongodb://ann:SECRETPASSWORD@127.0.0.1:1/db?{options}")
        with pytest.raises(StoreUnavailable) as raised:
            await store.open()
        error = StoreUnavailable(str(raised.value))
        del raised, store
        gc.collect()
        assert "SECRETPASSWORD" not in str(error)
        job_service = JobService(Refusing(error), Registry(BUILTIN), JobFiles(tmp_path))  # type: ignore[arg-type]  # never valid
        async with client_of(create_api(job_service)) as client:
            for path in ("/api/jobs", "/api/health", "/api/health/ready", "/metrics"):
                answer = await client.get(path)
                assert "SECRETPASSWORD" not in answer.text
                assert "127.0.0.1" not in answer.text
        assert "SECRETPASSWORD" not in log.text.getvalue() + log.json.getvalue()


class Refusing:
    """A store that was available when the service started."""

    kind = "mongodb"

    def __init__(self, error: StoreUnavailable) -> None:
        self._error = error

    async def find(self, *_: Any) -> None:
        raise self._error

    workers = counts = waiting_since = next_event_due_at = find
