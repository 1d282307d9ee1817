"""Several files become one batch, over real HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import httpx
import pytest
import pytest_asyncio

from secretary.api import create_api
from secretary.api.batches import MAX_FILES
from secretary.handlers import BUILTIN
from secretary.jobs.events import EventHub
from secretary.jobs.handler import Registry
from secretary.jobs.service import JobService
from secretary.storage.artifacts import JobFiles
from secretary.storage.sources import MEBIBYTE, Uploads
from secretary.store import JobQuery, Store, open_store

from ..api_server import served
from ..minimal_files import MP4, PNG, WAV, office, pdf
from ..no_tls import NO_TLS

PATH = "/api/batches/from-files"
HELLO = pdf("Hello")
DOCX = office("word")

pytestmark = pytest.mark.asyncio(loop_scope="module")
module_wide = partial(pytest_asyncio.fixture, scope="module", loop_scope="module")


@module_wide()
async def store(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Store]:
    store = open_store(f"sqlite://{tmp_path_factory.mktemp('store')}/secretary.db")
    await store.open()
    yield store
    await store.close()


@module_wide()
async def files(tmp_path_factory: pytest.TempPathFactory) -> JobFiles:
    directory = tmp_path_factory.mktemp("data")
    return JobFiles(directory, Uploads(directory, max_bytes=MEBIBYTE))


@module_wide()
async def url(store: Store, files: JobFiles) -> AsyncIterator[str]:
    hub = EventHub(store)
    job_service = JobService(store, Registry(BUILTIN), files)
    async with served(create_api(job_service, hub=hub, max_body_bytes=MEBIBYTE // 2)) as (url, _):
        yield url
    await hub.close()


@pytest_asyncio.fixture(loop_scope="module")
async def client(url: str, store: Store, files: JobFiles) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        base_url=url, verify=NO_TLS, timeout=20, trust_env=False
    ) as client:
        yield client
    await store.cancel(JobQuery(limit=1000))
    for job in (await store.find(JobQuery(archived=None, limit=1000))).items:
        await files.remove(job.job_id)
    await store.delete(JobQuery(limit=1000))


def parts(*files: tuple[str, bytes]) -> list[tuple[str, tuple[str, bytes]]]:
    return [("file", file) for file in files]


async def made(client: httpx.AsyncClient, response: httpx.Response) -> list[dict[str, Any]]:
    """The jobs of the batch in a response, in the order in which they were sent."""
    assert response.status_code == 202, response.text
    data = response.json()["data"]
    assert response.headers["location"] == f"/api/batches/{data['batch_id']}"
    assert data["batch"]["total_jobs"] == len(data["job_ids"])
    return [(await client.get(f"/api/jobs/{one}")).json()["data"] for one in data["job_ids"]]


async def refused(
    client: httpx.AsyncClient, store: Store, job_files: JobFiles, status: int, **request: Any
) -> str:
    """The message of a rejection, which leaves nothing behind."""
    response = await client.post(PATH, **request)
    assert response.status_code == status, response.text
    assert (await store.find(JobQuery())).items == []
    assert remaining_uploads(job_files) == []
    message: str = response.json()["error"]["message"]
    return message


def remaining_uploads(files: JobFiles) -> list[str]:
    root = files.uploads.root
    return sorted(path.name for path in root.iterdir()) if root.exists() else []


class TestFiles:
    async def test_each_becomes_a_job_of_the_type_of_its_content(
        self, client: httpx.AsyncClient, files: JobFiles
    ) -> None:
        given = parts(
            ("a.bin", HELLO),
            ("b.pdf", DOCX),  # names can be wrong
            ("c.png", PNG),
            ("d.wav", WAV),
            ("e.mp4", MP4),
            ("f.m4a", MP4),
            ("g.txt", b"Words"),
        )
        response = await client.post(PATH, files=given, data={"batch_name": "Seven"})
        jobs = await made(client, response)
        types = ["pdf", "office", "imageocr", "audio", "video", "audio", "office"]
        assert [job["job_type"] for job in jobs] == types
        assert response.json()["data"]["batch"]["batch_name"] == "Seven"
        for job, (_, (name, content)) in zip(jobs, given, strict=True):
            source = job["parameters"]["file_source"]
            assert (source["name"], source["size"]) == (name, len(content))
            assert files.uploads.path_of(job["job_id"], source).read_bytes() == content

    async def test_a_type_and_parameters_may_be_given_once_for_all(
        self, client: httpx.AsyncClient
    ) -> None:
        fields = {
            "jobType": "transformer",
            "parameters": '{"summarize": true}',
            "priority": "5",
            "source_language": "en",
        }
        given = parts(("a.txt", b"One"), ("b.txt", b"Two"))
        jobs = await made(client, await client.post(PATH, files=given, data=fields))
        assert len(jobs) == 2
        for job in jobs:
            assert (job["job_type"], job["priority"]) == ("transformer", 5)
            assert job["parameters"]["summarize"] is True
            assert job["parameters"]["source_language"] == "en"

    async def test_jobs_of_their_own_may_have_a_file_each_or_none(
        self, client: httpx.AsyncClient, files: JobFiles
    ) -> None:
        jobs = [
            {"job_type": "pdf", "parameters": {"url": "https://example.org/a.pdf"}},
            {"file": 1, "parameters": {"password": "x"}, "job_name": "The second"},
            {"file": 0, "job_type": "audio"},
        ]
        given = parts(("a.mp4", MP4), ("b.pdf", HELLO))
        fields = {"jobs": json.dumps(jobs)}
        created = await made(client, await client.post(PATH, files=given, data=fields))
        assert [job["job_type"] for job in created] == ["pdf", "pdf", "audio"]
        assert created[1]["job_name"] == "The second"
        assert created[1]["parameters"]["file_source"]["name"] == "b.pdf"
        assert created[2]["parameters"]["file_source"]["name"] == "a.mp4"
        assert len(remaining_uploads(files)) == 2

    async def test_the_callback_becomes_the_webhook_of_the_batch(
        self, client: httpx.AsyncClient, store: Store
    ) -> None:
        fields = {"callback_url": "https://example.org/hook", "callback_token": "t"}
        response = await client.post(PATH, files=parts(("a.pdf", HELLO)), data=fields)
        (job,) = await made(client, response)
        assert job["webhook"]["url"] == "https://example.org/hook"
        batch = await store.get_batch(job["batch_id"])
        assert batch.webhook is not None
        assert batch.webhook.token == "t"

    async def test_files_larger_than_a_piece_of_the_body_keep_their_borders(
        self, client: httpx.AsyncClient, files: JobFiles
    ) -> None:
        contents = [HELLO + bytes([n]) * size for n, size in enumerate((0, 300_000, 5, 700_000))]
        given = parts(*((f"{n}.pdf", content) for n, content in enumerate(contents)))
        for job, content in zip(
            await made(client, await client.post(PATH, files=given)), contents, strict=True
        ):
            path = files.uploads.path_of(job["job_id"], job["parameters"]["file_source"])
            assert path.read_bytes() == content


class TestRefusals:
    @pytest.mark.parametrize(
        ("given", "fields", "status", "message"),
        [
            ([("a.pdf", HELLO), ("b.bin", b"\0\1\2")], {}, 415, "b.bin: The file type is unknown"),
            ([("a.pdf", HELLO), ("b.pdf", b"")], {"job_type": "pdf"}, 415, "b.pdf: The file is e"),
            ([("a.pdf", HELLO), ("b.png", PNG)], {"job_type": "pdf"}, 415, "this job type accepts"),
            ([("a.pdf", HELLO)], {"job_type": "session"}, 400, "does not accept files"),
            ([("a.pdf", HELLO)], {"parameters": '{"page_start": "x"}'}, 400, "page_start"),
            ([("a.pdf", HELLO)], {"parameters": '{"url": "https://a.b/"}'}, 400, "not both"),
            ([("a.pdf", HELLO)], {"parameters": "[]"}, 400, "must be an object"),
            ([("a.pdf", HELLO)], {"parameters": "{"}, 400, "must be JSON"),
            ([("a.pdf", HELLO)], {"jobs": "{}"}, 400, "must be a list"),
            ([("a.pdf", HELLO)], {"jobs": '[{"file": 1}]'}, 400, "jobs.0.file"),
            ([("a.pdf", HELLO)], {"jobs": '[{"file": true}]'}, 400, "jobs.0.file"),
            ([("a.pdf", HELLO)], {"jobs": '[{"file": 0}, {"file": 0}]'}, 400, "exactly one job"),
            ([("a.pdf", HELLO)], {"jobs": '[{"job_type": "selftest"}]'}, 400, "exactly one job"),
            ([("a.pdf", HELLO), ("", b"")], {"run_at": "soon"}, 400, "run_at"),
            ([("", b"")], {"batch_name": "None"}, 400, "at least one file"),
            ([("a.pdf", HELLO)], {"file": "text"}, 400, "must be sent as a file"),
        ],
    )
    async def test_one_wrong_thing_refuses_all_and_leaves_no_upload(
        self,
        client: httpx.AsyncClient,
        store: Store,
        files: JobFiles,
        given: list[tuple[str, bytes]],
        fields: dict[str, str],
        status: int,
        message: str,
    ) -> None:
        request = {"files": parts(*given), "data": fields}
        assert message in await refused(client, store, files, status, **request)

    async def test_the_file_that_is_too_large_refuses_all(
        self, client: httpx.AsyncClient, store: Store, files: JobFiles
    ) -> None:
        given = parts(("a.pdf", HELLO), ("b.pdf", HELLO + bytes(MEBIBYTE)))
        assert "1 MB" in await refused(client, store, files, 413, files=given)

    async def test_more_files_than_a_batch_takes_are_refused(
        self, client: httpx.AsyncClient, store: Store, files: JobFiles
    ) -> None:
        given = parts(*((f"{n}.txt", b"Words") for n in range(MAX_FILES + 1)))
        assert f"{MAX_FILES} files" in await refused(client, store, files, 400, files=given)

    async def test_json_is_refused(
        self, client: httpx.AsyncClient, store: Store, files: JobFiles
    ) -> None:
        assert "multipart" in await refused(client, store, files, 400, json={"jobs": []})

    async def test_a_client_that_leaves_while_it_sends_leaves_nothing_behind(
        self, client: httpx.AsyncClient, files: JobFiles
    ) -> None:
        arrived = asyncio.Event()

        async def broken() -> AsyncIterator[bytes]:
            head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n'
            yield head + HELLO + b"\r\n" + head.replace(b"a.pdf", b"b.pdf") + b"begun"
            async with asyncio.timeout(10):
                while len(remaining_uploads(files)) < 2:
                    await asyncio.sleep(0.01)
            arrived.set()
            raise ConnectionResetError

        with pytest.raises(ConnectionResetError):
            kind = {"Content-Type": "multipart/form-data; boundary=x"}
            await client.post(PATH, content=broken(), headers=kind)
        assert arrived.is_set()
        async with asyncio.timeout(10):
            while remaining_uploads(files):
                await asyncio.sleep(0.01)


class TestIdempotency:
    async def test_the_same_files_with_the_same_key_are_the_same_batch(
        self, client: httpx.AsyncClient, store: Store, files: JobFiles
    ) -> None:
        request: dict[str, Any] = {
            "files": parts(("a.pdf", HELLO), ("b.png", PNG)),
            "headers": {"Idempotency-Key": "once"},
        }
        first, second = [(await client.post(PATH, **request)).json()["data"] for _ in range(2)]
        assert first["job_ids"] == second["job_ids"]
        assert first["batch_id"] == second["batch_id"]
        assert remaining_uploads(files) == sorted(first["job_ids"])
        other = {**request, "files": parts(("a.pdf", HELLO), ("b.png", PNG + b"x"))}
        assert (await client.post(PATH, **other)).status_code == 422
        assert remaining_uploads(files) == sorted(first["job_ids"])
