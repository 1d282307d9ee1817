"""Files and URLs become jobs, and their results files, over real HTTP; with a worker where
needed."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio

from secretary.api import create_api, ingress
from secretary.api.responses import CODES
from secretary.app import Application
from secretary.config import load
from secretary.core.job import Completed, Failed, Job, JobError
from secretary.handlers import BUILTIN
from secretary.jobs.events import EventHub
from secretary.jobs.handler import Registry
from secretary.jobs.service import JobService
from secretary.serve import run_worker
from secretary.storage.artifacts import JobFiles
from secretary.storage.sources import MEBIBYTE
from secretary.store import JobQuery, Store, open_store

from ..api_server import served
from ..backends import files_in, storage, store_url
from ..contract.factories import claim, claimed
from ..minimal_files import MP4, PNG, WAV, office, pdf, zipped

HELLO = pdf("Hello", "World")
DOCX = office("word")
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"
URL = "https://example.org/a"

#: Each route with a file that it accepts, or None, and its job type.
ROUTES: dict[str, tuple[bytes | None, str]] = {
    "/api/pdf/process": (HELLO, "pdf"),
    "/api/pdf/process-url": (HELLO, "pdf"),
    "/api/pdf/process-mistral-ocr": (HELLO, "pdf"),
    "/api/office/process": (DOCX, "office"),
    "/api/office/process-via-pdf": (DOCX, "office"),
    "/api/imageocr/process": (PNG, "imageocr"),
    "/api/imageocr/process-url": (PNG, "imageocr"),
    "/api/audio/process": (WAV, "audio"),
    "/api/video/process": (MP4, "video"),
    "/api/video/youtube": (None, "video"),
    "/api/transformer/template": (b"Hello", "transformer"),
    "/api/transformer/text": (b"Hello", "transformer"),
    "/api/transformer/text/file": (b"Hello", "transformer"),
    "/api/transformer/xxl-text": (b"Hello", "transformer"),
    "/api/image-analyzer/process": (PNG, "imageanalyzer"),
    "/api/image-analyzer/process-url": (PNG, "imageanalyzer"),
    "/api/session/process": (None, "session"),
}
#: Routes that take no source, with a request and their job type.
TEXT_ROUTES: dict[str, tuple[dict[str, Any], str]] = {
    "/api/transformer/chat": ({"messages": [{"role": "user", "content": "Hello"}]}, "chat"),
    "/api/rag/embed-text": ({"markdown": "Hello"}, "embedding"),
    "/api/text2image/generate": ({"prompt": "An apple"}, "text2image"),
}
#: Routes that wait for the result, unless the request has a callback or asks not to wait.
WAITING = [path for path, (_, job_type) in ROUTES.items() if job_type not in ("pdf", "office")]
WAITING += TEXT_ROUTES
WITH_FILES = [path for path, (content, _) in ROUTES.items() if content is not None]


pytestmark = pytest.mark.asyncio(loop_scope="module")
module_wide = partial(pytest_asyncio.fixture, scope="module", loop_scope="module")


@module_wide()
async def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ingress")


@module_wide()
async def store(data_dir: Path) -> AsyncIterator[Store]:
    store = open_store(store_url(data_dir))
    await store.open()
    yield store
    await store.close()


@module_wide()
async def files(data_dir: Path, store: Store) -> JobFiles:
    return files_in(data_dir, store, {"max_bytes": MEBIBYTE})


@module_wide()
async def hub(store: Store) -> EventHub:
    return EventHub(store)


@module_wide()
async def url(store: Store, files: JobFiles, hub: EventHub) -> AsyncIterator[str]:
    """One server for all tests: starting and stopping one takes longer than most of them."""
    job_service = JobService(store, Registry(BUILTIN), files)
    async with served(create_api(job_service, hub=hub, max_body_bytes=MEBIBYTE // 2)) as (url, _):
        yield url
    await hub.close()


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def empty(store: Store, files: JobFiles) -> AsyncIterator[None]:
    """Each test starts without jobs and files."""
    yield
    await store.cancel(JobQuery())
    for job in (await store.find(JobQuery(archived=None, limit=1000))).items:
        await files.remove(job.job_id)
        await store.delete(JobQuery(job_id=job.job_id))


class Client(httpx.AsyncClient):
    """Waits for no result unless `headers` are given: most tests here look at the job."""

    async def request(self, method: str, url: Any, **options: Any) -> httpx.Response:
        if url in WAITING and options.get("headers") is None:
            options["headers"] = {"Prefer": "respond-async"}
        return await super().request(method, url, **options)

    async def upload(self, path: str, content: bytes, *, name: str = "a.bin", **more: Any) -> Any:
        """The response to a request with a file."""
        return await self.post(path, files={"file": (name, content)}, **more)

    async def accepted(self, path: str, **options: Any) -> str:
        response = await self.post(path, **options)
        assert response.status_code == 202, response.text
        job_id: str = response.json()["job_id"]
        return job_id

    async def job(self, job_id: str) -> dict[str, Any]:
        document: dict[str, Any] = (await self.get(f"/api/jobs/{job_id}")).json()["data"]
        return document


@pytest_asyncio.fixture(loop_scope="module")
async def client(url: str) -> AsyncIterator[Client]:
    async with Client(base_url=url, timeout=20) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def worker(store: Store, data_dir: Path) -> AsyncIterator[None]:
    async with _working(store, data_dir):
        yield


@asynccontextmanager
async def _working(store: Store, data_dir: Path) -> AsyncIterator[None]:
    settings = load(
        environment={},
        overrides={
            "storage": {"data_dir": str(data_dir), **storage(data_dir)},
            "generic_worker": {"max_concurrent_workers": 1},
        },
    )
    parts = Application(settings, store).worker()
    working = asyncio.create_task(run_worker(parts))
    try:
        yield
    finally:
        parts.worker.drain()
        await working


def refused(response: httpx.Response, status: int) -> str:
    """The message of a rejection, which has the documented form."""
    assert response.status_code == status, response.text
    body = response.json()
    assert set(body) == {"status", "error"}
    assert body["status"] == "error"
    assert set(body["error"]) == {"code", "message", "details"}
    assert body["error"]["code"] == CODES[status]
    message: str = body["error"]["message"]
    return message


async def remaining_uploads(files: JobFiles) -> list[str]:
    root = files.uploads.root
    remaining = {path.name for path in root.iterdir()} if root.exists() else set()
    if files.blob_store is not None:
        remaining |= {
            blob.key.split("/")[1] async for blob in files.blob_store.list_blobs("uploads/")
        }
    return sorted(remaining)


async def carried(files: JobFiles, job: Job) -> None:
    """What the executor does before it records completion."""
    if (artifact_sync := files.artifact_sync(job)) is not None:
        await artifact_sync.upload_changes()


class TestRoutes:
    async def test_every_route_is_tried_here(self) -> None:
        assert {f"/api{route.path}" for route in ingress.ROUTES} == {*ROUTES, *TEXT_ROUTES}

    @pytest.mark.parametrize("path", TEXT_ROUTES)
    async def test_a_text_becomes_a_job(self, client: Client, path: str) -> None:
        body, job_type = TEXT_ROUTES[path]
        job = await client.job(await client.accepted(path, json=body))
        assert job["job_type"] == job_type and body.items() <= job["parameters"].items()
        assert "Field required" in refused(await client.post(path, json={"url": URL}), 400)
        assert "accepts: none" in refused(await client.upload(path, PNG, data={}), 415)

    @pytest.mark.parametrize("path", WITH_FILES)
    async def test_a_file_becomes_a_job(self, client: Client, path: str) -> None:
        content, job_type = ROUTES[path]
        assert content is not None
        extra = {"summarize": "true"} if job_type == "transformer" else {}
        response = await client.upload(path, content, name="../Größe 1.x", data=extra)
        assert response.status_code == 202, response.text
        job = await client.job(response.json()["job_id"])
        source = job["parameters"]["file_source"]
        assert job["job_type"] == job_type
        assert source["name"] == "Größe 1.x"
        assert (source["type"], source["size"]) == ("upload", len(content))

    @pytest.mark.parametrize("path", ROUTES)
    @pytest.mark.parametrize("form", ["json", "data"])
    async def test_a_url_becomes_a_job(self, client: Client, path: str, form: str) -> None:
        extra = {"summarize": "true"} if "transformer" in path else {}
        job_id = await client.accepted(path, **{form: {"url": URL, **extra}})
        job = await client.job(job_id)
        assert job["parameters"]["url"] == URL
        assert job["parameters"].get("via_pdf") == (True if "via-pdf" in path else None)

    async def test_a_slash_behind_a_route_changes_nothing(self, client: Client) -> None:
        assert (await client.upload("/api/pdf/process/", HELLO)).status_code == 202

    async def test_a_text_may_stand_in_the_request_itself(self, client: Client) -> None:
        job_id = await client.accepted(
            "/api/transformer/text", json={"text": "Hello", "summarize": True}
        )
        assert (await client.job(job_id))["parameters"]["text"] == "Hello"


class TestAcknowledgement:
    async def test_it_is_as_the_contract_says(self, client: Client) -> None:
        response = await client.upload("/api/pdf/process", HELLO)
        body = response.json()
        job_id = body["job_id"]
        assert re.fullmatch(TIME, body["process"].pop("started"))
        job_url = f"/api/jobs/{job_id}"
        assert body == {
            "status": "accepted",
            "worker": "secretary",
            "job_id": job_id,
            "process": {"id": job_id, "main_processor": "pdf", "is_from_cache": False},
            "job": {"id": job_id},
            "webhook": None,
            "links": {
                "self": job_url,
                "stream": f"{job_url}/stream",
                "cancel": f"{job_url}/cancel",
            },
            "error": None,
        }
        assert response.headers["location"] == job_url

    async def test_its_links_work(self, client: Client) -> None:
        links = (await client.upload("/api/pdf/process", HELLO)).json()["links"]
        assert (await client.get(links["self"])).status_code == 200
        assert (await client.post(links["cancel"])).status_code == 200
        assert (await client.get(links["stream"])).status_code == 200

    @pytest.mark.parametrize("name", ["jobId", "job_id"])
    async def test_the_clients_own_id_is_echoed(self, client: Client, name: str) -> None:
        body = (await client.upload("/api/pdf/process", HELLO, data={name: "mine"})).json()
        assert body["job"] == {"id": body["job_id"], "client_id": "mine"}
        assert body["process"]["id"] == body["job_id"]

    @pytest.mark.parametrize("camel", [True, False])
    async def test_the_callback_becomes_the_webhook(
        self, client: Client, store: Store, camel: bool
    ) -> None:
        hook = "https://example.org/hook"
        names = ("callbackUrl", "callbackToken") if camel else ("callback_url", "callback_token")
        data = {names[0]: hook, names[1]: "SECRET", "jobId": "mine"}
        response = await client.upload("/api/pdf/process", HELLO, data=data)
        body = response.json()
        assert body["webhook"] == {"delivered_to": hook}
        assert body["job"]["client_id"] == "mine"
        webhook = (await store.get(body["job_id"])).webhook
        assert webhook is not None
        assert (webhook.url, webhook.token, webhook.job_id) == (hook, "SECRET", "mine")
        shown = await client.get(f"/api/jobs/{body['job_id']}")
        assert "SECRET" not in response.text + shown.text

    async def test_a_whole_webhook_is_json_in_a_form(self, client: Client, store: Store) -> None:
        hook = '{"url": "https://example.org/hook", "secret": "SECRET", "events": ["completed"]}'
        access = '{"visibility": "public"}'
        data = {"webhook": hook, "access_control": access}
        body = (await client.upload("/api/pdf/process", HELLO, data=data)).json()
        job = await store.get(body["job_id"])
        assert job.webhook is not None
        assert (job.webhook.secret, job.webhook.events) == ("SECRET", ("completed",))
        assert job.access_control.visibility == "public"

    @pytest.mark.parametrize("text", ["https://example.org/hook", "{", "[" * 100_000, "3"])
    async def test_a_webhook_that_is_none_is_refused(self, client: Client, text: str) -> None:
        response = await client.upload("/api/pdf/process", HELLO, data={"webhook": text})
        assert response.status_code == 400
        assert "webhook" in response.json()["error"]["message"]


class TestFields:
    SPELLINGS: ClassVar[tuple[tuple[str, str, Any], ...]] = (
        ("use_cache", "useCache", False),
        ("force_refresh", "forceRefresh", True),
        ("source_language", "sourceLanguage", "de"),
        ("target_language", "targetLanguage", "en"),
        ("template", "template", "Session"),
        ("template_content", "templateContent", "# {{title}}"),
        ("context", "context", {"a": [1, "ü"]}),
        ("extraction_method", "extractionMethod", "native"),
        ("include_images", "includeImages", True),
        ("page_start", "pageStart", 1),
        ("page_end", "pageEnd", 2),
        ("password", "password", "geheim"),
        ("ocr_language", "ocrLanguage", "deu+eng"),
    )

    @pytest.mark.parametrize("way", ["multipart", "data", "json", "params"])
    @pytest.mark.parametrize("camel", [True, False])
    async def test_each_is_known_in_both_spellings_and_every_form(
        self, client: Client, store: Store, way: str, camel: bool
    ) -> None:
        fields = {other if camel else name: value for name, other, value in self.SPELLINGS}
        if way != "json":
            fields = {name: _as_text(value) for name, value in fields.items()}
        if way == "multipart":
            options: dict[str, Any] = {"data": fields, "files": {"file": ("a.pdf", HELLO)}}
        elif way == "params":
            options = {"params": {**fields, "url": URL}}
        else:
            options = {way: {**fields, "url": URL}}
        job_id = await client.accepted("/api/pdf/process", **options)
        job = await store.get(job_id)
        parsed = Registry(BUILTIN)["pdf"].parse(job.parameters)
        for name, _, value in self.SPELLINGS:
            assert getattr(parsed, name) == value
        assert "extra" not in job.parameters

    async def test_what_nobody_knows_is_kept(self, client: Client) -> None:
        job_id = await client.accepted("/api/pdf/process", json={"url": URL, "colour": "red"})
        assert (await client.job(job_id))["parameters"]["extra"] == {"colour": "red"}

    @pytest.mark.parametrize("camel", [True, False])
    async def test_parameters_about_the_job_itself_are_used(
        self, client: Client, camel: bool
    ) -> None:
        name, user = ("jobName", "userId") if camel else ("job_name", "user_id")
        data = {name: "Mine", user: "ann", "priority": "5"}
        response = await client.upload("/api/pdf/process", HELLO, data=data)
        job = await client.job(response.json()["job_id"])
        assert (job["job_name"], job["user_id"], job["priority"]) == ("Mine", "ann", 5)

    async def test_a_file_path_counts_as_a_source_in_both_spellings(self, client: Client) -> None:
        for name in ("file_path", "filePath"):
            await client.accepted("/api/pdf/process", json={name: "x.pdf"})

    async def test_a_wrong_value_is_named(self, client: Client, files: JobFiles) -> None:
        data = {"page_start": "0", "extraction_method": "magic", "context": "{"}
        response = await client.upload("/api/pdf/process", HELLO, data=data)
        message = refused(response, 400)
        assert all(name in message for name in data)
        assert await remaining_uploads(files) == []


def _as_text(value: Any) -> str:
    if isinstance(value, dict):
        return '{"a": [1, "ü"]}'
    return str(value).lower() if isinstance(value, bool) else str(value)


class TestRefusals:
    @pytest.mark.parametrize(
        ("path", "content"),
        [
            ("/api/pdf/process", zipped({"a.txt": b"x"})),
            ("/api/pdf/process", PNG),
            ("/api/pdf/process", b"\x00\x01\x02"),
            ("/api/pdf/process", b""),
            ("/api/imageocr/process", HELLO),
            ("/api/audio/process", b"no sound"),
            ("/api/video/process", WAV),
            ("/api/office/process", PNG),
            ("/api/session/process", HELLO),
            ("/api/video/youtube", MP4),
        ],
    )
    async def test_a_file_of_another_kind_is_a_415(
        self, client: Client, files: JobFiles, path: str, content: bytes
    ) -> None:
        response = await client.upload(path, content, name="a.pdf")
        assert "file" in refused(response, 415)
        assert await remaining_uploads(files) == []

    @pytest.mark.parametrize("path", WITH_FILES)
    @pytest.mark.parametrize("name", ["url", "file_path", "filePath", "file_source"])
    async def test_a_file_and_something_else_is_a_400(
        self, client: Client, files: JobFiles, path: str, name: str
    ) -> None:
        content = ROUTES[path][0] or b""
        response = await client.upload(path, content, data={name: URL})
        assert "not both" in refused(response, 400)
        assert await remaining_uploads(files) == []

    @pytest.mark.parametrize("path", [path for path in ROUTES if "transformer" not in path])
    async def test_nothing_is_a_400(self, client: Client, path: str) -> None:
        empty: Iterable[dict[str, Any]] = (
            {},
            {"json": {}},
            {"data": {"url": ""}},
            {"files": {"file": ("", b"")}},
        )
        for options in empty:
            assert "is required" in refused(await client.post(path, **options), 400)

    async def test_a_file_that_is_a_text_is_a_400(self, client: Client) -> None:
        response = await client.post("/api/pdf/process", json={"url": URL, "file": "aGVsbG8="})
        assert "multipart" in refused(response, 400)

    async def test_an_announced_body_that_is_too_large_is_a_413_before_it_is_read(
        self, client: Client, files: JobFiles
    ) -> None:
        response = await client.upload("/api/pdf/process", HELLO + bytes(2 * MEBIBYTE))
        assert "exceeds the limit of" in refused(response, 413)
        assert await remaining_uploads(files) == []

    async def test_a_file_over_the_limit_is_a_413(self, client: Client, files: JobFiles) -> None:
        """The form is within the request limit, only its file is too large."""
        response = await client.upload("/api/pdf/process", HELLO + bytes(MEBIBYTE))
        assert "1 MB" in refused(response, 413)
        assert await remaining_uploads(files) == []

    async def test_one_that_was_not_announced_is_a_413(
        self, client: Client, files: JobFiles
    ) -> None:
        async def body() -> AsyncIterator[bytes]:
            yield b'--XX\r\nContent-Disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n'
            for _ in range(30):
                yield bytes(MEBIBYTE // 10)

        headers = {"Content-Type": "multipart/form-data; boundary=XX"}
        response = await client.post("/api/pdf/process", content=body(), headers=headers)
        refused(response, 413)
        assert await remaining_uploads(files) == []

    async def test_fields_may_not_be_as_large_as_files(self, client: Client) -> None:
        text = "x" * (MEBIBYTE * 3 // 4)
        for options in ({"json": {"text": text}}, {"data": {"text": text}}):
            refused(await client.post("/api/transformer/text", **options), 413)  # type: ignore[arg-type]
        response = await client.upload("/api/transformer/text", b"x", data={"context": text})
        refused(response, 413)

    @pytest.mark.parametrize("value", ["-1", "soon", "nan", "1e999", 10**400, [1], {"a": 1}])
    async def test_a_wrong_wait_is_a_400(self, client: Client, value: object) -> None:
        response = await client.post("/api/pdf/process", json={"url": URL, "wait_ms": value})
        assert "wait_ms" in refused(response, 400)

    @pytest.mark.parametrize("text", ["[" * 100_000, '{"a": NaN}', "{", "[]", '"x"'])
    async def test_a_context_that_is_no_object_is_a_400(self, client: Client, text: str) -> None:
        response = await client.post("/api/pdf/process", data={"url": URL, "context": text})
        assert "context" in refused(response, 400)

    async def test_names_that_take_long_to_read_are_not_read(
        self, client: Client, store: Store
    ) -> None:
        """The first of these would keep the server busy for minutes."""
        long = "A" * 300_000
        many = {f"Field{number}": "x" for number in range(20_000)}
        async with asyncio.timeout(5):
            job_id = await client.accepted("/api/pdf/process", json={"url": URL, long: 1})
            refused(await client.post("/api/pdf/process", json={"url": URL, **many}), 400)
        assert (await store.get(job_id)).parameters["extra"] == {long: 1}

    async def test_a_wrong_sync_is_a_400_and_leaves_no_upload(
        self, client: Client, files: JobFiles
    ) -> None:
        response = await client.upload("/api/pdf/process", HELLO, data={"sync": "perhaps"})
        assert "sync" in refused(response, 400)
        assert await remaining_uploads(files) == []


def _key() -> dict[str, str]:
    return {"Idempotency-Key": str(uuid4())}


class TestIdempotency:
    async def test_the_same_file_with_the_same_key_is_the_same_job(
        self, client: Client, files: JobFiles
    ) -> None:
        headers = _key()
        answers = [
            await client.upload("/api/pdf/process", HELLO, headers=headers) for _ in range(3)
        ]
        (job_id,) = {answer.json()["job_id"] for answer in answers}
        assert [answer.status_code for answer in answers] == [202] * 3
        assert await remaining_uploads(files) == [job_id]

    @pytest.mark.parametrize(
        "other", [{"content": pdf("Else")}, {"name": "b.pdf"}, {"data": {"page_start": "1"}}]
    )
    async def test_another_request_with_the_same_key_is_a_422(
        self, client: Client, files: JobFiles, other: dict[str, Any]
    ) -> None:
        asked: dict[str, Any] = {"content": HELLO, "headers": _key()}
        first = await client.upload("/api/pdf/process", **asked)
        refused(await client.upload("/api/pdf/process", **(asked | other)), 422)
        assert await remaining_uploads(files) == [first.json()["job_id"]]

    async def test_twenty_at_once_are_one_job(
        self, client: Client, files: JobFiles, store: Store
    ) -> None:
        headers = _key()
        answers = await asyncio.gather(
            *(client.upload("/api/pdf/process", HELLO, headers=headers) for _ in range(20))
        )
        (job_id,) = {answer.json()["job_id"] for answer in answers}
        assert await remaining_uploads(files) == [job_id]
        assert [job.job_id for job in (await store.find(JobQuery())).items] == [job_id]


class TestWaiting:
    WAYS: tuple[tuple[dict[str, Any], str | None], ...] = (
        ({"data": {"wait_ms": "20000"}}, None),
        ({"data": {"waitMs": "20000"}}, None),
        ({"data": {"sync": "true"}}, None),
        ({"params": {"sync": "1"}}, None),
        ({"params": {"wait_ms": "20000"}}, None),
        ({"headers": {"Prefer": "wait=20"}}, "wait=20"),
        ({"headers": {"Prefer": "respond-async, wait=9999999"}}, "wait=900"),
    )

    @pytest.mark.usefixtures("worker")
    async def test_who_waits_gets_the_result(self, client: Client) -> None:
        for options, applied in self.WAYS:
            response = await client.upload("/api/pdf/process", HELLO, name="a.pdf", **options)
            assert response.status_code == 200, response.text
            assert response.headers.get("preference-applied") == applied
            _assert_finished(response)

    @pytest.mark.usefixtures("worker")
    async def test_the_error_of_the_job_has_a_fitting_status(self, client: Client) -> None:
        cases = [
            ("/api/pdf/process", b"%PDF-1.4 torn", {}, 422, "FILE_CORRUPT"),
            ("/api/pdf/process", HELLO, {"page_start": "9"}, 400, "VALIDATION_ERROR"),
            ("/api/transformer/text", b"Hello", {"summarize": "true"}, 503, "ENGINE_UNAVAILABLE"),
        ]
        for path, content, data, status, code in cases:
            response = await client.upload(path, content, data={**data, "sync": "true"})
            assert (response.status_code, response.json()["error"]["code"]) == (status, code)
            assert set(response.json()) == {"status", "error"}
            assert response.headers["location"].startswith("/api/jobs/job-")
        response = await client.post(
            "/api/pdf/process", json={"url": "http://127.0.0.1:1/a.pdf", "sync": True}
        )
        assert (response.status_code, response.json()["error"]["code"]) == (502, "DOWNLOAD_FAILED")

    async def test_a_job_that_is_cancelled_meanwhile_is_a_409(
        self, client: Client, store: Store
    ) -> None:
        waiting = asyncio.create_task(
            client.post("/api/pdf/process", json={"url": URL, "sync": True})
        )
        async with asyncio.timeout(10):
            while not (jobs := (await store.find(JobQuery())).items):
                await asyncio.sleep(0.01)
        await client.post(f"/api/jobs/{jobs[0].job_id}/cancel")
        response = await waiting
        assert (response.status_code, response.json()["error"]["code"]) == (409, "CANCELLED")

    @pytest.mark.parametrize(
        "options", [{"params": {"wait_ms": "50"}}, {"headers": {"Prefer": "wait=1"}}]
    )
    async def test_when_it_takes_longer_the_answer_is_the_acknowledgement(
        self, client: Client, options: dict[str, Any]
    ) -> None:
        response = await client.upload("/api/pdf/process", HELLO, **options)
        assert (response.status_code, response.json()["status"]) == (202, "accepted")
        applied = "wait=1" if "headers" in options else None
        assert response.headers.get("preference-applied") == applied

    @pytest.mark.parametrize("prefer", ["wait", "wait=", "wait=soon", "wait=-1", "wait=²", "x=1"])
    async def test_a_preference_nobody_understands_is_ignored(
        self, client: Client, prefer: str
    ) -> None:
        headers = {"Prefer": prefer.encode()}
        response = await client.upload("/api/pdf/process", HELLO, headers=headers)
        assert response.status_code == 202
        assert "preference-applied" not in response.headers


class TestWaitingByDefault:
    TEXT: ClassVar[dict[str, Any]] = {"text": "They are *red*.", "target_format": "html"}

    @pytest.mark.usefixtures("worker")
    @pytest.mark.parametrize("extra", [{}, {"wait_ms": 0, "callback_url": None}, {"async": False}])
    async def test_a_request_without_a_callback_returns_the_result(
        self, client: Client, extra: dict[str, Any]
    ) -> None:
        body = {**self.TEXT, **extra}
        response = await client.post("/api/transformer/text", json=body, headers={})
        assert response.status_code == 200, response.text
        assert response.headers["location"] == f"/api/jobs/{response.json()['process']['id']}"
        assert "<em>red</em>" in response.json()["data"]["text"]

    @pytest.mark.parametrize("path", WAITING)
    async def test_every_such_route_waits_until_the_job_has_finished(
        self, client: Client, store: Store, path: str
    ) -> None:
        if path in TEXT_ROUTES:
            request: dict[str, Any] = {"json": TEXT_ROUTES[path][0]}
            job_type = TEXT_ROUTES[path][1]
        else:
            content, job_type = ROUTES[path]
            body = {"url": URL} if content is None else {"template_content": "# {{text}}"}
            request = {"data": body}
            request["files"] = {} if content is None else {"file": ("a.bin", content)}
        waiting = asyncio.create_task(client.post(path, headers={}, **request))
        job = await _first_pending(store)
        assert (job.job_type, waiting.done()) == (job_type, False)
        (job,) = await claim(store)
        await store.finish(job, Failed(JobError(code="ENGINE_UNAVAILABLE", message="No engine")))
        response = await waiting
        assert (response.status_code, response.json()["error"]["message"]) == (503, "No engine")
        assert response.headers["location"] == f"/api/jobs/{job.job_id}"

    @pytest.mark.parametrize(
        ("body", "headers"),
        [
            ({"async": True}, {}),
            ({"sync": False}, {}),
            ({"callback_url": "https://example.org/hook"}, {}),
            ({"webhook": {"url": "https://example.org/hook"}}, {}),
            ({}, {"Prefer": "respond-async"}),
        ],
    )
    async def test_a_callback_or_async_returns_202_at_once(
        self, client: Client, body: dict[str, Any], headers: dict[str, str]
    ) -> None:
        body = {**self.TEXT, **body}
        response = await client.post("/api/transformer/text", json=body, headers=headers)
        assert response.status_code == 202, response.text
        assert response.headers.get("preference-applied") == headers.get("Prefer")
        job = await client.job(response.json()["job_id"])
        assert "async" not in job["parameters"].get("extra", {})

    async def test_after_the_limit_the_response_is_202_and_the_job_goes_on(
        self, store: Store, files: JobFiles
    ) -> None:
        job_service = JobService(store, Registry(BUILTIN), files)
        async with (
            served(create_api(job_service, max_wait_seconds=0.05)) as (url, _),
            httpx.AsyncClient(base_url=url) as client,
        ):
            response = await client.post("/api/transformer/text", json=self.TEXT)
        assert response.status_code == 202
        (job,) = await claim(store)
        assert response.headers["location"] == f"/api/jobs/{job.job_id}"
        await store.finish(job, Completed({}))

    async def test_a_client_that_leaves_does_not_stop_its_job(
        self, client: Client, store: Store, hub: EventHub
    ) -> None:
        waiting = asyncio.create_task(
            client.post("/api/transformer/text", json=self.TEXT, headers={})
        )
        await _first_pending(store)
        async with asyncio.timeout(10):
            while not hub.subscribers:
                await asyncio.sleep(0.01)
            waiting.cancel()
            while hub.subscribers:
                await asyncio.sleep(0.01)
        (job,) = await claim(store)
        await store.finish(job, Completed({}))

    @pytest.mark.usefixtures("worker")
    async def test_the_same_idempotency_key_returns_the_result_of_the_first_request(
        self, client: Client
    ) -> None:
        headers = {"Idempotency-Key": str(uuid4())}
        answers = [
            await client.post("/api/transformer/text", json=self.TEXT, headers=headers)
            for _ in range(2)
        ]
        assert [answer.status_code for answer in answers] == [200, 200]
        assert len({answer.json()["process"]["id"] for answer in answers}) == 1

    async def test_sync_and_async_together_are_a_400(self, client: Client, store: Store) -> None:
        body = {**self.TEXT, "sync": True, "async": True}
        response = await client.post("/api/transformer/text", json=body)
        assert refused(response, 400) == "sync and async: choose one"
        assert (await store.find(JobQuery())).items == []


async def _first_pending(store: Store) -> Job:
    async with asyncio.timeout(10):
        while not (jobs := (await store.find(JobQuery())).items):
            await asyncio.sleep(0.01)
    return jobs[0]


def _assert_finished(response: httpx.Response) -> None:
    body = response.json()
    assert set(body) == {"status", "request", "process", "data", "error"}
    assert (body["status"], body["error"]) == ("success", None)
    assert set(body["request"]) == {"processor", "timestamp", "parameters"}
    process = body["process"]
    assert response.headers["location"] == f"/api/jobs/{process['id']}"
    assert set(process) == {
        "id", "main_processor", "started", "duration_ms", "is_from_cache", "llm_info",
    }  # fmt: skip
    assert body["data"]["extracted_text"] == "--- Seite 1 ---\nHello\n--- Seite 2 ---\nWorld"
    assert body["data"]["metadata"]["file_name"] == "a.pdf"


class TestLifeOfAnUpload:
    @pytest.mark.usefixtures("worker")
    async def test_it_is_gone_when_its_job_has_completed_and_cannot_be_restarted(
        self, client: Client, files: JobFiles
    ) -> None:
        response = await client.upload("/api/pdf/process", HELLO, data={"sync": "true"})
        assert response.status_code == 200
        job_id = response.json()["process"]["id"]
        async with asyncio.timeout(5):
            while await remaining_uploads(files):
                await asyncio.sleep(0.01)
        message = refused(await client.post(f"/api/jobs/{job_id}/restart"), 409)
        assert message == "The uploaded file no longer exists; submit it again"
        assert (await client.job(job_id))["status"] == "completed"

    @pytest.mark.usefixtures("worker")
    async def test_it_stays_when_the_job_failed_and_serves_the_restart(
        self, client: Client, files: JobFiles
    ) -> None:
        data = {"page_start": "9", "sync": "true"}
        response = await client.upload("/api/pdf/process", HELLO, data=data)
        job_id = response.headers["location"].removeprefix("/api/jobs/")
        assert await remaining_uploads(files) == [job_id]
        assert (await client.post(f"/api/jobs/{job_id}/restart")).status_code == 200
        async with asyncio.timeout(10):
            while (await client.job(job_id))["status"] != "failed":
                await asyncio.sleep(0.02)
        assert (await client.job(job_id))["error"]["code"] == "VALIDATION_ERROR"

    async def test_it_goes_with_its_job(
        self, client: Client, files: JobFiles, store: Store
    ) -> None:
        response = await client.upload("/api/pdf/process", HELLO)
        job_id = response.json()["job_id"]
        assert (await client.delete(f"/api/jobs/{job_id}")).status_code == 409
        assert await remaining_uploads(files) == [job_id]
        (job,) = await claim(store)
        await store.finish(job, Failed(JobError(code="FILE_CORRUPT", message="torn")))
        assert (await client.delete(f"/api/jobs/{job_id}")).status_code == 200
        assert await remaining_uploads(files) == []

    async def test_a_client_that_leaves_while_it_sends_leaves_nothing_behind(
        self, client: Client, files: JobFiles, caplog: pytest.LogCaptureFixture
    ) -> None:
        _, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
        writer.write(
            b"POST /api/pdf/process HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n"
            b"Content-Type: multipart/form-data; boundary=XX\r\n\r\n--XX\r\nContent-Disposition: "
            b'form-data; name="file"; filename="a.pdf"\r\n\r\n%PDF-1.4'
        )
        await writer.drain()
        async with asyncio.timeout(5):
            while not await remaining_uploads(files):
                await asyncio.sleep(0.01)
            writer.close()
            while await remaining_uploads(files):
                await asyncio.sleep(0.01)
        assert "Traceback" not in caplog.text
        assert [record for record in caplog.records if record.exc_info] == []


class TestFiles:
    @pytest_asyncio.fixture(loop_scope="module")
    async def job(self, store: Store, files: JobFiles) -> Job:
        job = await claimed(store)
        directory = Path(files.attempt_directory(job))
        (directory / "pages").mkdir(parents=True)
        for name, content in self.CONTENTS.items():
            (directory / name).write_bytes(content)
        await carried(files, job)
        await store.finish(job, Completed({"archive_filename": "all.zip"}))
        return job

    CONTENTS: ClassVar = {
        "pages/1.txt": "Grüße".encode(),
        "data.bin": bytes(range(100)),
        "page.html": b"<script>alert(1)</script>",
        "picture.svg": b"<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>",
        "doc.xhtml": b"<html/>",
        "doc.xml": b"<a/>",
        "notes.md": b"# Notes",
        "picture.png": PNG,
        "empty.bin": b"",
        "all.zip": zipped({"a": b"x"}),
    }

    @pytest.mark.parametrize("route", ["/api/pdf/text-content", "/api/files/text"])
    @pytest.mark.parametrize("prefix", ["", "jobs/"])
    async def test_a_text_is_given_inside_json(
        self, client: Client, job: Job, route: str, prefix: str
    ) -> None:
        path = f"{prefix}{job.job_id}/pages/1.txt"
        response = await client.get(f"{route}/{path}")
        assert response.json() == {"file_path": path, "content": "Grüße"}

    async def test_each_text_route_takes_its_kinds(self, client: Client, job: Job) -> None:
        text, pages = f"/api/files/text/{job.job_id}", f"/api/pdf/text-content/{job.job_id}"
        assert (await client.get(f"{text}/notes.md")).json()["content"] == "# Notes"
        for path in (f"{pages}/notes.md", f"{text}/picture.png", f"{pages}/data.bin"):
            refused(await client.get(path), 404)

    @pytest.mark.parametrize("route", ["/api/files", "/api/event-job/files"])
    async def test_a_file_is_given_with_its_type_and_tag(
        self, client: Client, job: Job, route: str
    ) -> None:
        response = await client.get(f"{route}/{job.job_id}/picture.png")
        assert response.content == PNG
        assert response.headers["content-type"] == "image/png"
        assert response.headers["content-disposition"].startswith("inline")
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in response.headers["content-security-policy"]
        assert re.fullmatch(r'"\w+"', response.headers["etag"])

    @pytest.mark.parametrize("name", ["page.html", "picture.svg", "doc.xhtml", "doc.xml"])
    async def test_what_could_run_scripts_is_never_shown(
        self, client: Client, job: Job, name: str
    ) -> None:
        response = await client.get(f"/api/files/{job.job_id}/{name}")
        assert response.status_code == 200
        assert response.headers["content-disposition"].startswith("attachment")
        assert "sandbox" in response.headers["content-security-policy"]

    @pytest.mark.parametrize(
        ("asked", "expected", "content_range"),
        [
            ("bytes=0-9", bytes(range(10)), "bytes 0-9/100"),
            ("bytes=90-", bytes(range(90, 100)), "bytes 90-99/100"),
            ("bytes=-5", bytes(range(95, 100)), "bytes 95-99/100"),
            ("bytes=-500", bytes(range(100)), "bytes 0-99/100"),
            ("Bytes= 95-1000", bytes(range(95, 100)), "bytes 95-99/100"),
            ("bytes=0-0", b"\x00", "bytes 0-0/100"),
        ],
    )
    async def test_a_range(
        self, client: Client, job: Job, asked: str, expected: bytes, content_range: str
    ) -> None:
        path = f"/api/files/{job.job_id}/data.bin"
        response = await client.get(path, headers={"Range": asked})
        assert (response.status_code, response.content) == (206, expected)
        assert response.headers["content-range"] == content_range

    async def test_several_ranges(self, client: Client, job: Job) -> None:
        path = f"/api/files/{job.job_id}/data.bin"
        response = await client.get(path, headers={"Range": "bytes=0-1, 50-51"})
        assert response.status_code == 206
        assert response.headers["content-type"].startswith("multipart/byteranges")

    @pytest.mark.parametrize(
        ("asked", "status"),
        [
            ("bytes=100-", 416),
            ("bytes=-0", 416),
            ("bytes=5-4", 416),
            ("bytes=0-1,100-", 416),
            ("bytes=0-1,9-8", 416),
            ("bytes=-", 400),
            ("bytes=", 400),
            ("bytes=a-b", 400),
            ("bytes=0-1,-", 400),
            ("bytes=0-1,x", 400),
            ("bytes=1-2-3", 400),
            ("bytes=" + "9" * 5000 + "-", 400),
            ("lines=0-1", 400),
            ("0-1", 400),
        ],
    )
    async def test_a_range_that_is_none(
        self, client: Client, job: Job, asked: str, status: int
    ) -> None:
        path = f"/api/files/{job.job_id}/data.bin"
        response = await client.get(path, headers={"Range": asked})
        refused(response, status)
        if status == 416:
            assert response.headers["content-range"] == "bytes */100"

    @pytest.mark.parametrize("asked", ["bytes=0-", "bytes=-5", "bytes=0-0"])
    async def test_an_empty_file_has_no_ranges(self, client: Client, job: Job, asked: str) -> None:
        path = f"/api/files/{job.job_id}/empty.bin"
        refused(await client.get(path, headers={"Range": asked}), 416)

    async def test_a_range_of_another_version_is_the_whole_file(
        self, client: Client, job: Job
    ) -> None:
        path = f"/api/files/{job.job_id}/data.bin"
        first = await client.get(path)
        for name in ("etag", "last-modified"):
            headers = {"Range": "bytes=0-9", "If-Range": first.headers[name]}
            assert (await client.get(path, headers=headers)).status_code == 206
        for other in ('"other"', "Mon, 01 Jan 2001 00:00:00 GMT", f"W/{first.headers['etag']}"):
            for asked in ("bytes=0-9", "bytes=500-"):
                headers = {"Range": asked, "If-Range": other}
                response = await client.get(path, headers=headers)
                assert (response.status_code, len(response.content)) == (200, 100)

    async def test_a_matching_etag_returns_304(self, client: Client, job: Job) -> None:
        path = f"/api/files/{job.job_id}/data.bin"
        etag = (await client.get(path)).headers["etag"]
        for etags in (etag, f'"x", {etag}', f"W/{etag}", "*"):
            response = await client.get(path, headers={"If-None-Match": etags})
            assert (response.status_code, response.content) == (304, b"")
            assert response.headers["etag"] == etag
        for other in ('"x"', "x", ""):
            response = await client.get(path, headers={"If-None-Match": other})
            assert response.status_code == 200


class TestArchive:
    @pytest.mark.parametrize("route", ["/api/jobs", "/api/event-job/jobs"])
    async def test_it_comes_when_there_is_one(
        self, client: Client, store: Store, files: JobFiles, route: str
    ) -> None:
        job = Job(job_type="pdf")
        await store.add([job])
        path = f"{route}/{job.job_id}/download-archive"
        assert (await client.get(path)).status_code == 202
        (running,) = await claim(store)
        response = await client.get(path)
        assert (response.status_code, response.json()["status"]) == (202, "processing")
        directory = Path(files.attempt_directory(running))
        directory.mkdir(parents=True)
        content = zipped({"a.txt": b"x"})
        (directory / "all.zip").write_bytes(content)
        await carried(files, running)
        await store.finish(running, Completed({"archive_filename": "all.zip"}))
        response = await client.get(path)
        assert (response.status_code, response.content) == (200, content)
        assert response.headers["content-type"] == "application/zip"
        assert response.headers["content-disposition"] == 'attachment; filename="all.zip"'

    @pytest.mark.parametrize("name", [None, 5, "missing.zip", "../../x.zip", "/etc/passwd"])
    async def test_without_one_it_is_a_404(
        self, client: Client, store: Store, name: object
    ) -> None:
        job = await claimed(store)
        await store.finish(job, Completed({"archive_filename": name}))
        refused(await client.get(f"/api/jobs/{job.job_id}/download-archive"), 404)


class TestRepeatedSubmissions:
    """A client that does not get the response in time submits its job again, with the same callback
    URL and a new token."""

    hook: str

    @pytest.fixture(autouse=True)
    def client_job(self) -> None:
        self.hook = f"https://client.example/api/external/jobs/{uuid4()}"

    async def submit(
        self, client: Client, token: str, *, file: bytes = HELLO, **more: Any
    ) -> dict[str, Any]:
        headers = more.pop("headers", {})
        data = {"callback_url": self.hook, "callback_token": token, **more}
        response = await client.upload("/api/pdf/process", file, data=data, headers=headers)
        assert response.status_code == 202, response.text
        body: dict[str, Any] = response.json()
        return body

    async def test_the_first_job_is_returned_while_it_is_unfinished(
        self, client: Client, store: Store, files: JobFiles
    ) -> None:
        first = await self.submit(client, "T1")
        again = await self.submit(client, "T2")
        assert again["job_id"] == first["job_id"] == again["process"]["id"]
        job = await store.get(first["job_id"])
        assert job.webhook is not None and job.webhook.token == "T2"
        assert await remaining_uploads(files) == [first["job_id"]]

    async def test_with_other_parameters_a_new_job_replaces_it(
        self, client: Client, store: Store
    ) -> None:
        first = await self.submit(client, "T1")
        second = await self.submit(client, "T2", extraction_method="ocr")
        assert second["job_id"] != first["job_id"]
        assert (await store.get(first["job_id"])).status == "cancelled"
        assert (await store.get(second["job_id"])).reported_id == first["job_id"]

    async def test_another_route_can_replace_it(self, client: Client, store: Store) -> None:
        first = await self.submit(client, "T1")
        data = {"callback_url": self.hook, "callback_token": "T2"}
        slides = await client.upload("/api/pdf/process-url", HELLO, data=data | {"page_end": "1"})
        assert (await store.get(slides.json()["job_id"])).reported_id == first["job_id"]

    async def test_after_the_end_a_new_job_reports_under_the_first_id(
        self, client: Client, store: Store, files: JobFiles
    ) -> None:
        first = await self.submit(client, "T1")
        (job,) = await claim(store)
        await store.finish(job, Completed({}))
        second = await self.submit(client, "T2")
        assert second["job_id"] != first["job_id"]
        assert (await store.get(second["job_id"])).reported_id == first["job_id"]
        service = JobService(store, Registry(BUILTIN), files)
        for process_id in (first["job_id"], second["job_id"]):
            assert (await service.reporting_job(process_id)).job_id == second["job_id"]

    @pytest.mark.parametrize(
        "other",
        [
            {"file": pdf("Another")},
            {"callback_url": "https://client.example/api/external/jobs/2"},
            {"callback_token": "T1"},
            {"headers": {"Idempotency-Key": "k"}},
            {"headers": {"X-User-ID": "someone"}},
        ],
        ids=lambda other: next(iter(other)),
    )
    async def test_what_differs_is_another_job(
        self, client: Client, store: Store, other: dict[str, Any]
    ) -> None:
        first = await self.submit(client, "T1")
        second = await self.submit(client, "T2", **other)
        job = await store.get(second["job_id"])
        assert job.job_id == job.reported_id != first["job_id"]
        assert (await store.get(first["job_id"])).status == "pending"

    async def test_the_id_of_the_events_cannot_be_chosen(
        self, client: Client, store: Store
    ) -> None:
        body = await self.submit(client, "T1", process_id="job-mine")
        assert (await store.get(body["job_id"])).reported_id == body["job_id"]
