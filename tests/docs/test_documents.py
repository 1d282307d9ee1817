"""The JSON on the pages is what the service accepts and returns."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from secretary.handlers import BUILTIN
from secretary.jobs.handler import Registry
from secretary.jobs.submission import JobRequest, parse_request
from tests.acceptance.program import Program, Running
from tests.minimal_files import pdf
from tests.polling import wait_until
from tests.sample_documents import rich_pdf
from tests.webhook_receiver import Receiver

from .examples import Example, examples

REFERENCE = "docs/reference"
SHOWN = [one for one in examples() if one.language == "json"]


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver().running() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Running]:
    program = Program(
        tmp_path_factory.mktemp("documents"),
        SECRETARY_NETWORK__ALLOW_HOSTS=json.dumps([receiver.host]),
    )
    with program.serving() as service:
        yield service


def an_error(service: Running, receiver: Receiver) -> Any:
    return service.get("/api/jobs/job-1").json()


def an_older_error(service: Running, receiver: Receiver) -> Any:
    return service.get("/api/event-job/jobs/job-1").json()


def an_answer(service: Running, receiver: Receiver) -> Any:
    return service.post("/api/jobs", {"job_type": "selftest"}).json()


def an_acknowledgement(service: Running, receiver: Receiver) -> Any:
    fields = {"jobId": "mine", "callback_url": receiver.url("/ingress"), "extraction_metod": "ocr"}
    return upload(service, fields)


def upload(service: Running, fields: dict[str, str]) -> Any:
    url, file = f"{service.url}/api/pdf/process", {"file": ("a.pdf", pdf("Hello"))}
    return httpx.post(url, files=file, data=fields, trust_env=False, timeout=10).json()


def raw_pages(service: Running, receiver: Receiver) -> Any:
    url, file = f"{service.url}/api/pdf/process-mistral-ocr", {"file": ("a.pdf", rich_pdf())}
    fields = {"sync": "true"}
    results = httpx.post(url, files=file, data=fields, trust_env=False, timeout=60).json()["data"]
    return service.get(results["mistral_ocr_raw_url"]).json()


def a_webhooks_event(service: Running, receiver: Receiver) -> Any:
    upload(service, {"callback_url": receiver.url("/events")})
    wait_until(lambda: "completed" in receiver.phases("/events"))
    return receiver.to("/events")[-1].json


def a_batchs_event(service: Running, receiver: Receiver) -> Any:
    jobs = [{"job_type": "selftest", "parameters": {"seconds": n / 10}} for n in (1, 2, 8)]
    batch_id = service.post("/api/batches", {"jobs": jobs}).json()["data"]["batch_id"]
    stream = service.get(f"/api/batches/{batch_id}/stream").text
    lines = [line.removeprefix("data: ") for line in stream.splitlines()]
    events = [json.loads(line) for line in lines if line.startswith("{")]
    return next(event for event in events if "batch" in event and event["phase"] == "running")


#: How to get each of them; of an object, a page may show only a part.
MADE: dict[str, Callable[[Running, Receiver], Any]] = {
    "docs/how-to/move-from-common-secretary.md": an_error,
    f"{REFERENCE}/api.md": an_answer,
    f"{REFERENCE}/errors.md": an_error,
    f"{REFERENCE}/event-job.md": an_older_error,
    f"{REFERENCE}/ingress.md": an_acknowledgement,
    f"{REFERENCE}/mistral-ocr.md": raw_pages,
    f"{REFERENCE}/streams.md": a_batchs_event,
    f"{REFERENCE}/webhooks.md": a_webhooks_event,
}


#: Requests, not responses.
REQUESTS = (f"{REFERENCE}/sessions.md",)
#: Configuration of other programs.
PROGRAMS = (f"{REFERENCE}/cli.md",)


def of(pages: Iterable[str]) -> list[Any]:
    return [pytest.param(one, id=str(one)) for one in SHOWN if one.page in pages]


def test_every_document_is_looked_at() -> None:
    covered = {*MADE, *REQUESTS, *PROGRAMS}
    assert [str(one) for one in SHOWN if one.page not in covered] == []


@pytest.mark.parametrize("example", of(MADE))
def test_the_service_gives_what_is_shown(
    example: Example, service: Running, receiver: Receiver
) -> None:
    given = MADE[example.page](service, receiver)
    assert missing(json.loads(example.text), given) == []


@pytest.mark.parametrize("page", [f"{REFERENCE}/errors.md", f"{REFERENCE}/event-job.md"])
def test_an_error_is_reported_verbatim(page: str, service: Running, receiver: Receiver) -> None:
    (shown,) = (json.loads(one.text) for one in SHOWN if one.page == page)
    assert MADE[page](service, receiver) == shown


def missing(shown: Any, given: Any, path: str = "") -> list[str]:
    """Where the page shows a key, or a type of value, that the actual document does not have."""
    if isinstance(shown, dict) and isinstance(given, dict):
        return [
            fault
            for key, value in shown.items()
            for fault in (
                missing(value, given[key], f"{path}.{key}") if key in given else [f"{path}.{key}"]
            )
        ]
    if isinstance(shown, list) and isinstance(given, list):
        if shown and not given:
            return [f"{path}[]"]
        pairs = zip(shown, given, strict=False)
        return [fault for one, other in pairs for fault in missing(one, other, f"{path}[]")]
    numbers = isinstance(shown, int | float) and isinstance(given, int | float)
    return [] if numbers or isinstance(given, type(shown)) else [f"{path}: {given!r}"]


@pytest.mark.parametrize("example", of(REQUESTS))
def test_the_service_takes_what_is_shown(example: Example) -> None:
    request = parse_request(JobRequest, json.loads(example.text))
    Registry(BUILTIN)[request.job_type].parse(request.parameters)


@pytest.mark.parametrize("example", of(PROGRAMS))
def test_the_program_can_be_started_as_shown(example: Example, tmp_path: Path) -> None:
    (server,) = json.loads(example.text)["mcpServers"].values()
    assert server["command"] == "secretary"
    arguments = [one.replace("/home/me/Documents", str(tmp_path)) for one in server["args"]]
    result = Program(tmp_path).run(*arguments, stdin="")
    assert result.code == 0, result.err
