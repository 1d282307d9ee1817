"""The secrets of a job, from the request to its end and after: they are never revealed."""

import asyncio
import hashlib
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from secretary.observability import logging as logs

from ..sample_documents import encrypted_pdf
from ..service_fixture import ServiceClient, running_service
from ..web_server import WebRequest, serving
from ..webhook_receiver import Receiver
from .test_reruns import again

PASSWORD = "Sesame-71c2"
#: All secrets of a job: its password, those of its webhook, and those in its URLs.
SECRETS = {
    "password": PASSWORD,
    "token": "Token-5d20",
    "secret": "whsec_U2VjcmV0LTQ0ZjE=",
    "header": "Header-9a3e",
    "callback": "Callback-b7f6",
    "signature": "Signature-0c8d",
}
#: Shorter parts of a hash could be there by chance.
PREFIX = 12
ROUTE = "/api/pdf/process"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Everything the service logs, at the most verbose level."""
    written = io.StringIO()
    handler = logs.log_handler(written, as_json=True)
    handler.addFilter(
        lambda record: not record.name.startswith(logs.QUIET_LOGGERS)
    )  # as in its setup
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield written
    root.setLevel(level)
    root.removeHandler(handler)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver().running() as receiver:
        yield receiver


async def test_no_response_event_or_log_line_contains_the_password(
    tmp_path: Path, log: io.StringIO, receiver: Receiver
) -> None:
    network = {"allow_hosts": ["127.0.0.1"]}
    async with running_service(tmp_path, network=network) as service:
        fields = {"password": PASSWORD, "callback_url": receiver.url("/hook"), "wait_ms": 60_000}
        files = {"file": ("a.pdf", encrypted_pdf(6, PASSWORD))}
        waited = await service.client.post(ROUTE, files=files, data=fields)
        job_id = waited.json()["process"]["id"]
        assert (await service.ended(job_id))["status"] == "completed"
        await _received(receiver)
        wrong = await service.ended(
            await service.submit_file(ROUTE, encrypted_pdf(6, "other"), "b.pdf", password=PASSWORD)
        )
        assert wrong["parameters"]["password"] == "•••"
        batch = await _batch(service)
        texts = [waited.text, await _stream(service, job_id), *map(str, receiver.received)]
        for path in (
            f"/api/jobs/{job_id}",
            f"/api/jobs/{wrong['job_id']}",
            "/api/jobs?include=results,logs",
            f"/api/batches/{batch}?include=jobs",
            "/api/event-job/jobs",
            f"/api/event-job/jobs/{wrong['job_id']}",
            "/api/overview",
        ):
            texts.append((await service.get(path)).text)
    assert all(text for text in texts)
    assert [text for text in texts if PASSWORD in text] == []
    assert PASSWORD not in log.getvalue()
    assert [path for path in tmp_path.rglob("*.json*") if PASSWORD in path.read_text()] == []


async def test_no_secret_or_plain_hash_of_one_is_in_a_name_response_event_or_log_line(
    tmp_path: Path, log: io.StringIO, receiver: Receiver
) -> None:
    content = encrypted_pdf(6, PASSWORD)

    async def answer(request: WebRequest) -> None:
        await request.answer(content, headers={"Content-Type": "application/pdf"})

    async with (
        serving(answer) as web,
        running_service(tmp_path, network={"allow_hosts": ["127.0.0.1"]}) as service,
    ):
        webhook = {
            "url": receiver.url(f"/hook?access_token={SECRETS['callback']}"),
            "token": SECRETS["token"],
            "secret": SECRETS["secret"],
            "headers": {"X-Api-Key": SECRETS["header"]},
        }
        texts = []
        for name in ("a", "missing"):
            url = web.url(f"/{name}.pdf?X-Amz-Signature={SECRETS['signature']}")
            if name == "missing":
                content = b""
            parameters = {"url": url, "password": PASSWORD, "use_cache": name == "a"}
            body = {"job_type": "pdf", "parameters": parameters, "webhook": webhook}
            answered = await service.client.post("/api/jobs", json=body)
            job_id = answered.json()["data"]["job_id"]
            job = await service.ended(job_id)
            texts += [answered.text, json.dumps(job), await _stream(service, job_id)]
            texts += [
                (await service.get(path)).text
                for path in (f"/api/event-job/jobs/{job_id}", f"/api/jobs/{job_id}?include=logs")
            ]
        await _received(receiver, count=2)
        texts.append((await service.get("/api/jobs?include=results,logs")).text)
        texts.append((await service.get("/api/overview")).text)
    assert job["error"]["code"] == "FILE_CORRUPT"
    texts += [each.body.decode() for each in receiver.received]
    texts += [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")]
    assert any(text.startswith("cache/pdf/") for text in texts)
    texts.append(log.getvalue())
    everything = "\n".join(texts)
    assert {name for name, secret in SECRETS.items() if secret in everything} == set()
    assert [label for label, digest in _hashes() if digest[:PREFIX] in everything] == []


def _hashes() -> Iterator[tuple[str, str]]:
    """Plain hashes of the secrets, alone and as options."""
    for name, secret in SECRETS.items():
        forms: list[Any] = [secret, {name: secret}, [secret]]
        for text in (secret, *map(json.dumps, forms)):
            for algorithm in ("md5", "sha1", "sha256", "sha512", "blake2b"):
                digest = hashlib.new(algorithm, text.encode(), usedforsecurity=False)
                yield f"{algorithm} of {text}", digest.hexdigest()


async def _received(receiver: Receiver, count: int = 1) -> None:
    """Wait until the final events have been delivered."""
    async with asyncio.timeout(20):
        while (
            len([each for each in receiver.received if each.json["status"] != "processing"]) < count
        ):
            await asyncio.sleep(0.02)


async def _batch(service: ServiceClient) -> str:
    job = {"job_type": "pdf", "parameters": {"url": "http://127.0.0.1:1", "password": PASSWORD}}
    answer = await service.client.post("/api/batches", json={"jobs": [job]})
    assert PASSWORD not in answer.text
    batch_id: str = answer.json()["data"]["batch_id"]
    return batch_id


async def _stream(service: ServiceClient, job_id: str) -> str:
    async with service.client.stream("GET", f"/api/jobs/{job_id}/stream") as stream:
        return "".join([text async for text in stream.aiter_text()])


async def test_a_job_that_failed_runs_again_with_the_password_that_nobody_can_read(
    tmp_path: Path,
) -> None:
    async with running_service(tmp_path) as service:
        content = encrypted_pdf(6, PASSWORD)
        job_id = await service.submit_file(ROUTE, content, "a.pdf", password=PASSWORD, page_start=7)
        first = await service.ended(job_id)
        assert (first["status"], first["parameters"]["password"]) == ("failed", "•••")
        # A client that sends back what it has read changes nothing.
        second = await again(service, first["job_id"], page_start=None, password="•••")
        job = await service.ended(second)
        assert job["status"] == "completed", job["error"]
        assert "password" not in job["parameters"]
