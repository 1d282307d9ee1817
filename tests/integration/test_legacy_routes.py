"""Clients of the previous service: its routes, and the rules that all its clients rely on."""

import io
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from secretary.api import create_api
from secretary.api.legacy_routes import LEGACY_ROUTES, LegacyRoute
from secretary.handlers import BUILTIN
from secretary.jobs.handler import Registry
from secretary.jobs.service import JobService
from secretary.storage.artifacts import JobFiles
from secretary.store import Store

from ..api_server import served
from ..llm_server import llm_server, says
from ..minimal_files import WAV, pdf
from ..service_fixture import running_service

KEY = "right"
BOTH = {"Authorization": f"Bearer {KEY}", "X-Secretary-Api-Key": KEY}


@asynccontextmanager
async def service(store: Store, directory: Path) -> AsyncIterator[httpx.AsyncClient]:
    job_service = JobService(store, Registry(BUILTIN), JobFiles(directory))
    api = create_api(job_service, api_keys=[KEY], max_body_bytes=10_000)
    async with (
        served(api) as (url, _),
        httpx.AsyncClient(base_url=url, trust_env=False, timeout=10) as client,
    ):
        yield client


def request_path(route: LegacyRoute) -> str:
    return re.sub(r"\{\w+\}", "x", route.path)


def error_of(response: httpx.Response) -> dict[str, Any]:
    assert response.headers["content-type"] == "application/json", response.text
    body: dict[str, Any] = response.json()
    assert body["status"] == "error"
    assert isinstance(body["error"]["message"], str)
    error: dict[str, Any] = body["error"]
    return error


async def test_routes_that_are_gone_name_what_replaces_them(store: Store, tmp_path: Path) -> None:
    async with service(store, tmp_path) as client:
        gone = [route for route in LEGACY_ROUTES if route.outcome == "gone"]
        assert len(gone) > 15
        for route in gone:
            path = request_path(route)
            if not path.startswith("/api/health"):
                response = await client.request(route.method, path)
                assert (response.status_code, error_of(response)["code"]) == (401, "UNAUTHORIZED")
            for suffix in ("", "/"):
                response = await client.request(route.method, path + suffix, headers=BOTH)
                error = error_of(response)
                assert (response.status_code, error["code"]) == (410, "GONE"), path
                assert error["details"] == {"hint": route.note}
                assert "no longer exists" in error["message"]
                assert "not found" not in error["message"]


async def test_hints_name_routes_that_exist(store: Store, tmp_path: Path) -> None:
    existing = {route.path for route in LEGACY_ROUTES if route.outcome == "served"}
    job_service = JobService(store, Registry(BUILTIN), JobFiles(tmp_path))
    existing |= set(create_api(job_service).openapi()["paths"])
    for route in LEGACY_ROUTES:
        for path in re.findall(r"(?:GET|POST) (/[^`?]*)", route.note):
            assert path in existing or path == "/api/doc", route


async def test_served_routes_exist(store: Store, tmp_path: Path) -> None:
    job_service = JobService(store, Registry(BUILTIN), JobFiles(tmp_path))
    routes = create_api(job_service).routes
    existing = {
        (method, re.sub(r":path\}", "}", route.path))  # type: ignore[attr-defined]
        for route in routes
        for method in getattr(route, "methods", ()) or ()
    }
    for route in LEGACY_ROUTES:
        if route.outcome == "served":
            assert (route.method, route.path) in existing


async def test_all_other_routes_are_a_404(store: Store, tmp_path: Path) -> None:
    async with service(store, tmp_path) as client:
        for route in LEGACY_ROUTES:
            if route.outcome == "unknown":
                response = await client.get(request_path(route), headers=BOTH)
                assert (response.status_code, error_of(response)["code"]) == (404, "NOT_FOUND")


async def test_the_greeting_and_the_api_description_are_where_they_were(
    store: Store, tmp_path: Path
) -> None:
    async with service(store, tmp_path) as client:
        for path in ("/api/", "/api"):
            greeting = (await client.get(path, headers=BOTH)).json()["data"]
            assert (greeting["name"], greeting["documentation"]) == ("Secretary", "/api/doc")
        described = await client.get("/api/swagger.json")
        assert described.json() == (await client.get("/api/openapi.json")).json()
        for path in ("/api/health/", "/api/health/live/", "/api/doc/"):
            assert (await client.get(path)).status_code == 200
        assert (await client.get("/api/jobs/", headers=BOTH)).status_code == 200


class TestEveryCall:
    async def test_both_key_headers_may_be_sent_together(
        self, store: Store, tmp_path: Path
    ) -> None:
        async with service(store, tmp_path) as client:
            headers = {**BOTH, "x-worker": "true"}
            response = await client.post(
                "/api/pdf/process", headers=headers, files={"file": ("a.pdf", pdf("One"))}
            )
            assert response.status_code == 202, response.text
            job_id = response.json()["job"]["id"]
            bearer = {"Authorization": f"Bearer {KEY}"}
            assert (await client.get(f"/api/jobs/{job_id}", headers=bearer)).status_code == 200

    @pytest.mark.parametrize(
        ("method", "path", "options", "status"),
        [
            ("GET", "/api/nowhere", {}, 404),
            ("GET", "/nowhere", {}, 404),
            ("GET", "/api/pdf/process", {}, 405),
            ("DELETE", "/api/jobs", {}, 405),
            ("PATCH", "/api/transformer/template", {}, 405),
            ("POST", "/api/transformer/template", {"content": b"{"}, 400),
            ("POST", "/api/transformer/template", {"content": b"[]"}, 400),
            ("POST", "/api/transformer/template", {"content": b"\xff"}, 400),
            ("POST", "/api/jobs", {"content": b"{"}, 400),
            ("POST", "/api/jobs", {"content": b"[" * 5000}, 400),
            ("POST", "/api/jobs", {"content": b"x" * 20_000}, 413),
            ("POST", "/api/transformer/template", {"content": b'"' + b"x" * 20_000}, 413),
            ("GET", "/api/jobs/job-1", {}, 404),
            ("GET", "/api/jobs/job-1/stream", {}, 404),
            ("GET", "/api/office/jobs/job-1/markdown", {}, 404),
            ("GET", "/api/jobs?limit=x", {}, 400),
        ],
    )
    async def test_every_error_is_json(
        self,
        store: Store,
        tmp_path: Path,
        method: str,
        path: str,
        options: dict[str, Any],
        status: int,
    ) -> None:
        async with service(store, tmp_path) as client:
            headers = {**BOTH, "Content-Type": "application/json"}
            response = await client.request(method, path, headers=headers, **options)
            assert response.status_code == status, response.text
            error_of(response)

    async def test_what_is_too_large_says_how_large_it_may_be(
        self, store: Store, tmp_path: Path
    ) -> None:
        async with service(store, tmp_path) as client:

            async def chunks() -> AsyncIterator[bytes]:
                for _ in range(30):
                    yield b"x" * 1000

            headers = {**BOTH, "Content-Type": "application/json"}
            for content in (b"x" * 20_000, chunks()):
                response = await client.post("/api/jobs", headers=headers, content=content)
                assert response.status_code == 413
                assert response.headers["x-max-content-length"] == "10000"

    async def test_an_unexpected_failure_is_json_too(
        self, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def broken(*_: Any, **__: Any) -> None:
            raise RuntimeError("secret detail")

        monkeypatch.setattr(JobService, "submit", broken)
        async with service(store, tmp_path) as client:
            response = await client.post(
                "/api/pdf/process", headers=BOTH, files={"file": ("a.pdf", pdf("One"))}
            )
            assert response.status_code == 500
            assert error_of(response)["code"] == "INTERNAL_ERROR"
            assert "secret" not in response.text

    @pytest.mark.parametrize(
        "content_type", ["audio/*", "video/*", "application/octet-stream", "text/html", ""]
    )
    async def test_the_announced_type_of_a_file_does_not_matter(
        self, store: Store, tmp_path: Path, content_type: str
    ) -> None:
        async with service(store, tmp_path) as client:
            files = {"file": ("dictation.wav", WAV, content_type)}
            data = {"async": "true", "useCache": "false"}
            response = await client.post("/api/audio/process", headers=BOTH, files=files, data=data)
            assert response.status_code == 202, response.text

    @pytest.mark.parametrize("name", ["useCache", "use_cache"])
    @pytest.mark.parametrize("value", ["false", "False", "0", False])
    async def test_both_spellings_of_fields_and_all_of_booleans_are_understood(
        self, store: Store, tmp_path: Path, name: str, value: Any
    ) -> None:
        async with service(store, tmp_path) as client:
            body: dict[str, Any] = {"url": "https://example.com/a.pdf", name: value}
            sent: dict[str, Any] = {"json": body} if value is False else {"data": body}
            response = await client.post("/api/pdf/process", headers=BOTH, **sent)
            job = await client.get(response.headers["location"], headers=BOTH)
            parameters = job.json()["data"]["parameters"]
            assert str(parameters[name]).lower() in ("false", "0")
            assert "extra" not in parameters


async def test_line_ends_of_forms_do_not_reach_the_result(tmp_path: Path) -> None:
    """Browsers turn the line ends of a form's fields into CRLF."""
    template = "---\r\ntitle: {{title|The title}}\r\n---\r\n# {{title}}\r\n\r\n{{text}}\r\n"
    answers = json.dumps({"title": "Apples"})
    async with llm_server(says(answers)) as server:
        llm = {"base_url": server.web.url("/v1"), "model": "m"}
        async with running_service(tmp_path / "data", llm=llm) as service:
            fields = {"text": "They are\r\n\r\nred.", "template_content": template}
            multipart = {name: (None, value) for name, value in fields.items()}
            response = await service.client.post("/api/transformer/template", files=multipart)
            assert response.status_code == 200, response.text
            data = response.json()["data"]
            assert "\r" not in data["text"]
            assert data["text"].startswith("---\n")
            assert data["structured_data"]["title"] == "Apples"


async def test_a_text_file_is_summarized_and_an_office_file_is_downloaded_as_markdown(
    tmp_path: Path,
) -> None:
    async with llm_server(says("Apples are red.")) as server:
        llm = {"base_url": server.web.url("/v1"), "model": "m"}
        async with running_service(tmp_path / "data", llm=llm) as service:
            files = {"file": ("a.txt", io.BytesIO(b"Apples are red. " * 50))}
            for path in ("/api/transformer/xxl-text", "/api/transformer/text/file"):
                data = {"summarize": "true", "useCache": "false"} if "file" in path else {}
                files["file"][1].seek(0)
                response = await service.client.post(path, files=files, data=data)
                assert response.status_code == 200, response.text
                assert response.json()["data"]["text"].strip() == "Apples are red."
            job_id = await service.submit_file(
                "/api/office/process", b"<h1>Red</h1><p>Hi</p>", "a.html"
            )
            job = await service.ended(job_id)
            response = await service.get(f"/api/office/jobs/{job_id}/markdown")
            assert response.headers["content-type"].startswith("text/markdown")
            assert "attachment" in response.headers["content-disposition"]
            assert response.text.startswith("# Red")
            assert response.text == (await service.get(job["results"]["markdown_file"])).text
