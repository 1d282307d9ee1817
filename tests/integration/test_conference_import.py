"""A conference schedule becomes a batch, over real HTTP and with a real child process."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from secretary.api import create_api
from secretary.core.errors import FileCorrupt
from secretary.handlers import BUILTIN
from secretary.jobs.conference_import import ConferenceImporter, ScheduleRequest
from secretary.jobs.handler import Registry
from secretary.jobs.service import JobService
from secretary.network.client import Network
from secretary.storage.artifacts import JobFiles
from secretary.storage.sources import Uploads
from secretary.store import BatchQuery, Store, open_store
from secretary.worker.sandbox import Limits

from ..api_server import served
from ..conference_schedules import FOSDEM, FRAB, pretalx
from ..no_tls import NO_TLS
from ..web_server import WebRequest, serving

PATH = "/api/batches/from-schedule"
HOOK = {"url": "https://example.org/hook", "token": "SECRET"}

pytestmark = pytest.mark.asyncio(loop_scope="module")
module_wide = partial(pytest_asyncio.fixture, scope="module", loop_scope="module")


@module_wide()
async def store(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Store]:
    store = open_store(f"sqlite://{tmp_path_factory.mktemp('schedules')}/secretary.db")
    await store.open()
    yield store
    await store.close()


@module_wide()
async def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@module_wide()
async def client(store: Store, data_dir: Path) -> AsyncIterator[httpx.AsyncClient]:
    check = partial(Network().check, https_only=True)
    files = JobFiles(data_dir, Uploads(data_dir))
    job_service = JobService(store, Registry(BUILTIN), files, check_url=check)
    api = create_api(
        job_service, schedules=ConferenceImporter(Network(("127.0.0.1",))), max_body_bytes=200_000
    )
    async with (
        served(api) as (url, _),
        httpx.AsyncClient(base_url=url, verify=NO_TLS, timeout=60) as client,
    ):
        yield client


async def jobs_of(client: httpx.AsyncClient, response: httpx.Response) -> list[dict[str, Any]]:
    """The jobs of the batch in the response, in order."""
    assert response.status_code == 202, response.text
    data = response.json()["data"]
    assert response.headers["location"] == f"/api/batches/{data['batch_id']}"
    assert data["batch"]["total_jobs"] == len(data["job_ids"])
    return [(await client.get(f"/api/jobs/{name}")).json()["data"] for name in data["job_ids"]]


async def count(store: Store) -> int:
    return len((await store.find_batches(BatchQuery(limit=1000))).items)


async def test_an_uploaded_schedule_becomes_one_batch(
    client: httpx.AsyncClient, data_dir: Path
) -> None:
    response = await client.post(
        PATH,
        files={"file": ("schedule.xml", FOSDEM.encode())},
        data={"template": "Session", "targetLanguage": "de", "priority": "5", "track": "main*",
              "webhook": json.dumps(HOOK)},
    )  # fmt: skip
    (job,) = await jobs_of(client, response)
    assert (job["job_type"], job["priority"]) == ("session", 5)
    assert job["job_name"] == "Gardens of code: how forks grow"
    parameters = job["parameters"]
    assert (parameters["event"], parameters["template"]) == ("FOSDEM 2031", "Session")
    assert parameters["starttime"] == "17:00" and parameters["speakers"] == [
        "Ada Müller",
        "Bram van Dijk",
    ]
    assert parameters["targetLanguage"] == "de"
    assert parameters["subtitles_url"].endswith(".vtt")
    assert job["webhook"]["url"] == HOOK["url"] and "SECRET" not in response.text
    assert response.json()["data"]["batch"]["batch_name"] == "FOSDEM 2031"
    assert response.json()["request"]["parameters"] == {"job_count": 1}
    assert not list(data_dir.glob("uploads/job-*"))


async def test_a_schedule_may_stand_in_the_request(client: httpx.AsyncClient) -> None:
    asked = {"schedule": pretalx(), "event": "Mini", "batch_name": "Import", "isActive": False}
    response = await client.post(PATH, json=asked)
    (job,) = await jobs_of(client, response)
    assert job["parameters"]["event"] == "Mini"
    batch = response.json()["data"]["batch"]
    assert (batch["batch_name"], batch["isActive"]) == ("Import", False)


async def test_a_schedule_may_stand_in_the_request_as_text(client: httpx.AsyncClient) -> None:
    asked = {"schedule": FOSDEM, "track": ["Rust", "Go"], "callback_url": "https://example.org/x"}
    jobs = await jobs_of(client, await client.post(PATH, json=asked))
    assert [job["parameters"]["track"] for job in jobs] == ["Rust", "Go"]
    assert {job["webhook"]["url"] for job in jobs} == {"https://example.org/x"}


async def test_a_schedule_is_fetched_from_its_address(client: httpx.AsyncClient) -> None:
    text = FRAB.replace("<base_url>https://tagung.example/2031/Fahrplan/</base_url>", "")

    async def answer(request: WebRequest) -> None:
        await request.answer(text.encode())

    async with serving(answer) as web:
        url = web.url("/2031/schedule.xml")
        (job,) = await jobs_of(client, await client.post(PATH, data={"url": url}))
        assert job["parameters"]["url"] == web.url("/2031/events/77.html")


@pytest.mark.parametrize(
    ("body", "status", "code", "says"),
    [
        ({}, 400, "VALIDATION_ERROR", "exactly one of file, url and schedule"),
        ({"schedule": FRAB, "url": "https://x.example/"}, 400, "VALIDATION_ERROR", "one of"),
        ({"schedule": FRAB, "track": "Perl"}, 400, "VALIDATION_ERROR", "Kunst & Bühne"),
        ({"schedule": FRAB, "priority": "high"}, 400, "VALIDATION_ERROR", "priority"),
        ({"schedule": FRAB, "track": {"a": 1}}, 400, "VALIDATION_ERROR", "track"),
        ({"schedule": FRAB, "use_cache": "maybe"}, 400, "VALIDATION_ERROR", "use_cache"),
        ({"schedule": FRAB, "webhook": {"url": "ftp://x"}}, 400, "VALIDATION_ERROR", "webhook"),
        ({"schedule": "<schedule>"}, 422, "FILE_CORRUPT", "XML"),
        ({"schedule": "hello"}, 415, "UNSUPPORTED_FILE", "neither"),
        ({"schedule": {"a": 1}}, 415, "UNSUPPORTED_FILE", "no days"),
        ({"url": 3}, 400, "VALIDATION_ERROR", "url"),
        ({"url": "file:///etc/passwd"}, 400, "VALIDATION_ERROR", "url"),
        ({"url": "http://10.0.0.1/schedule.xml"}, 400, "VALIDATION_ERROR", "url"),
        ({"url": "http://127.0.0.1:1/schedule.xml"}, 400, "VALIDATION_ERROR", "url"),
        ({"schedule": "x" * 300_000}, 413, "PAYLOAD_TOO_LARGE", "200,000"),
    ],
)
async def test_what_does_not_fit_is_refused_whole(
    client: httpx.AsyncClient,
    store: Store,
    body: dict[str, Any],
    status: int,
    code: str,
    says: str,
) -> None:
    before = await count(store)
    response = await client.post(PATH, json=body)
    assert response.status_code == status, response.text
    assert response.json()["error"]["code"] == code
    assert says in response.json()["error"]["message"]
    assert await count(store) == before


async def test_the_same_key_gives_the_same_batch(client: httpx.AsyncClient) -> None:
    asked = {"json": {"schedule": FRAB}, "headers": {"Idempotency-Key": "once"}}
    one, other = [(await client.post(PATH, **asked)).json()["data"] for _ in range(2)]  # type: ignore[arg-type]
    assert one["batch_id"] == other["batch_id"] and one["job_ids"] == other["job_ids"]


async def test_the_batch_belongs_to_the_caller(client: httpx.AsyncClient) -> None:
    response = await client.post(PATH, json={"schedule": FRAB}, headers={"X-User-ID": "ann"})
    location = response.headers["location"]
    assert (await client.get(location, headers={"X-User-ID": "bob"})).status_code == 404
    assert (await client.get(location, headers={"X-User-ID": "ann"})).status_code == 200


async def test_a_schedule_that_takes_too_long_is_refused_and_holds_up_nobody() -> None:
    schedules = ConferenceImporter(parse_limits=Limits(wall_time=timedelta(seconds=0.01)))
    events = "<event><title>x</title></event>" * 15_000
    data = f"<schedule><day><room>{events}</room></day></schedule>".encode()
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.005)
            beats += 1

    beating = asyncio.create_task(beat())
    with pytest.raises(FileCorrupt):
        await schedules.read(data, ScheduleRequest())
    beating.cancel()
    assert beats > 10
