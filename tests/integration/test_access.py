"""Who may do what, and how often: scopes and expiry of keys, pages of other origins, routes that
need no key."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from secretary.api import auth, create_api
from secretary.api.ingress import ROUTES
from secretary.api.openapi import DocumentedRoute, OpenApiDocument
from secretary.config import ApiKeySettings
from secretary.core.errors import Unauthorized
from secretary.handlers import BUILTIN
from secretary.jobs.handler import Registry
from secretary.jobs.service import JobService
from secretary.store import Store, open_store
from tests.backends import files_in

NOW = datetime(2026, 11, 1, tzinfo=UTC)


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
async def client_of(
    api: FastAPI, key: str = "", **headers: str
) -> AsyncIterator[httpx.AsyncClient]:
    if key:
        headers["Authorization"] = f"Bearer {key}"
    transport = httpx.ASGITransport(api, raise_app_exceptions=False)
    base_url = "http://localhost:5000"
    async with httpx.AsyncClient(transport=transport, base_url=base_url, headers=headers) as client:
        yield client


def key_with(*scopes: Any, **more: Any) -> ApiKeySettings:
    return ApiKeySettings(key="the-key", scopes=scopes, **more)


class TestScopes:
    #: Everything else that is not a GET needs `operate`.
    SUBMIT = (
        "/api/jobs", "/api/jobs/{job_id}/again", "/api/jobs/batch", "/api/batches",
        "/api/batches/from-files", "/api/batches/from-schedule", "/api/event-job/jobs",
        "/api/event-job/submit", "/api/event-job/batches", "/api/tracks/*/summarize_all",
        "/api/tracks/{name:path}/summary",
    )  # fmt: skip

    def test_every_route_that_needs_a_key_needs_a_scope(self, job_service: JobService) -> None:
        scopes: dict[str, set[str]] = {scope: set() for scope in auth.SCOPES}
        for route in create_api(job_service).routes:
            path: str = route.path  # type: ignore[attr-defined]  # all have one
            if auth.is_open(path) or not getattr(route, "include_in_schema", False):
                continue
            assert isinstance(route, DocumentedRoute) and route.required_scope is not None
            (method,) = list(route.methods or [])
            scopes[route.required_scope].add(path if method == "POST" else f"{method} {path}")
        assert scopes["metrics"] == {"GET /metrics"}
        assert {line.partition(" ")[0] for line in scopes["read"]} == {"GET"}
        ingress = {path for path in scopes["submit"] if path not in self.SUBMIT}
        assert scopes["submit"] - ingress == set(self.SUBMIT)
        assert ingress == {f"/api{route.path}" for route in ROUTES}
        assert {"/api/jobs/bulk", "/api/jobs/{job_id}/cancel", "DELETE /api/jobs/{job_id}",
                "/api/batches/{batch_id}/archive", "/api/event-job/{job_id}/restart",
                "/api/jobs/{job_id}/deliveries/{n}/replay"} <= scopes["operate"]  # fmt: skip

    async def test_a_key_with_one_scope_can_do_nothing_else(self, job_service: JobService) -> None:
        requests = {
            "read": ("GET", "/api/jobs"),
            "submit": ("POST", "/api/jobs"),
            "operate": ("POST", "/api/jobs/bulk"),
            "metrics": ("GET", "/metrics"),
        }
        keys = [ApiKeySettings.model_validate({"key": one, "scopes": [one]}) for one in requests]
        body = {"action": "cancel", "job_ids": []}
        async with client_of(create_api(job_service, api_keys=keys)) as client:
            for scope in requests:
                headers = {"Authorization": f"Bearer {scope}"}
                for needed, (method, path) in requests.items():
                    json = body if method == "POST" else None
                    answer = await client.request(method, path, json=json, headers=headers)
                    if needed == scope:
                        assert answer.status_code in (200, 202), answer.text
                    else:
                        assert answer.status_code == 403
                        error = answer.json()["error"]
                        assert error["code"] == "FORBIDDEN" and f"'{needed}'" in error["message"]

    async def test_a_key_in_detail_acts_for_its_user_only(self, job_service: JobService) -> None:
        api = create_api(job_service, api_keys=[key_with("submit", user="ann")])
        async with client_of(api, "the-key") as client:
            job = (await client.post("/api/jobs", json={})).json()["data"]["job"]
            assert job["user_id"] == "ann"
            other = await client.post("/api/jobs", json={}, headers={"X-User-ID": "bob"})
            assert other.status_code == 403


class TestExpiry:
    @pytest.mark.parametrize(("hours", "status"), [(1, None), (0, 401), (-1, 401)])
    def test_a_key_is_refused_from_then_on(self, hours: int, status: int | None) -> None:
        key = key_with("read", expires_at=NOW + timedelta(hours=hours))
        authenticator = auth.Authenticator([key, "other"], now=lambda: NOW)
        headers = [(b"authorization", b"Bearer the-key")]
        scope = {"path": "/api/jobs", "method": "GET", "headers": headers, "state": {}}
        if status is None:
            authenticator.authenticate(scope)
        else:
            for _ in range(auth.WRONG_KEYS_PER_MINUTE + 1):  # it is no guess
                with pytest.raises(Unauthorized, match="expired"):
                    authenticator.authenticate(scope)


class TestOtherOrigins:
    """A service without keys trusts this machine, but not what its browser shows."""

    FOREIGN = (
        {"Origin": "http://localhost:3000"},
        {"Origin": "http://127.0.0.1:5000"},
        {"Origin": "http://localhost"},
        {"Origin": "null"},
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:5000"},
        {"Sec-Fetch-Site": "same-origin", "Host": "evil.example:5000"},
    )
    CHANGES = (
        ("POST", "/api/jobs"),
        ("POST", "/api/jobs/bulk"),
        ("POST", "/api/pdf/process"),
        ("DELETE", "/api/jobs/job-1"),
    )

    async def test_a_page_of_another_origin_cannot_change_anything(
        self, job_service: JobService
    ) -> None:
        async with client_of(create_api(job_service)) as client:
            for headers in self.FOREIGN:
                for method, path in self.CHANGES:
                    answer = await client.request(method, path, content=b"{}", headers=headers)
                    assert answer.status_code == 403, (headers, method, path)
                    assert answer.json()["error"]["code"] == "FORBIDDEN"

    async def test_its_own_pages_and_programs_can(self, job_service: JobService) -> None:
        async with client_of(create_api(job_service)) as client:
            for headers in (
                {},  # curl and the client
                {"Origin": "http://localhost:5000"},  # an older browser
                {"Origin": "http://LOCALHOST:5000", "Sec-Fetch-Site": "same-origin"},
                {"Sec-Fetch-Site": "none"},
                # A proxy on this machine with TLS, whose own host the browser sees.
                {"Origin": "https://localhost:8443", "Sec-Fetch-Site": "same-origin"},
            ):
                answer = await client.post("/api/jobs", json={}, headers=headers)
                assert answer.status_code == 202, headers

    async def test_with_keys_a_page_needs_one(self, job_service: JobService) -> None:
        headers = {"Origin": "https://app.example", "Sec-Fetch-Site": "cross-site"}
        api = create_api(job_service, api_keys=["right"])
        async with client_of(api, "right", **headers) as client:
            assert (await client.post("/api/jobs", json={})).status_code == 202


class TestOpenRoutes:
    PAGES = ("/", "/dashboard/app.js", "/api/doc", "/api/openapi.json", "/api/swagger.json/")
    PROBES = ("/api/health", "/api/health/live", "/api/health/ready/")

    async def test_every_one_has_a_limit(
        self, job_service: JobService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(auth, "PAGES_PER_MINUTE", len(self.PAGES))
        monkeypatch.setattr(auth, "PROBES_PER_MINUTE", len(self.PROBES))
        async with client_of(create_api(job_service, api_keys=["right"])) as client:
            for paths in (self.PAGES, self.PROBES):  # each kind has its own limit
                for path in paths:
                    assert (await client.get(path)).status_code == 200
                for path in paths:
                    refused = await client.get(path)
                    assert refused.status_code == 429
                    assert refused.json()["error"]["code"] == "RATE_LIMITED"
                    assert int(refused.headers["retry-after"]) > 0
            right = {"Authorization": "Bearer right"}
            assert (await client.get("/api/jobs", headers=right)).status_code == 200

    async def test_the_openapi_document_is_built_once(self, job_service: JobService) -> None:
        built: list[int] = []

        def build() -> dict[str, Any]:
            built.append(1)
            return {"openapi": "3.1.0"}

        api = create_api(job_service)
        api.state.openapi_document = OpenApiDocument(build)
        async with client_of(api) as client:
            paths = ("/api/openapi.json", "/api/swagger.json") * 5
            answers = await asyncio.gather(*map(client.get, paths))
            assert {answer.content for answer in answers} == {b'{"openapi":"3.1.0"}'}
            assert {answer.headers["cache-control"] for answer in answers} == {"no-cache"}
            (etag,) = {answer.headers["etag"] for answer in answers}
            for path in paths[:2]:
                known = await client.get(path, headers={"If-None-Match": etag})
                assert (known.status_code, known.content) == (304, b"")
        assert built == [1]
