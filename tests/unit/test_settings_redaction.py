"""The settings can be viewed, but no secrets."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from secretary.api import create_api
from secretary.app import Application
from secretary.config import Settings, load
from secretary.core.job import MASK
from secretary.handlers import BUILTIN
from secretary.jobs.handler import Registry
from secretary.jobs.service import JobService
from secretary.observability.doctor import PLAIN, SECRET, visible_settings
from secretary.storage.artifacts import JobFiles
from secretary.store import Store

#: Every kind of secret that the settings can contain.
SECRETS = {
    "SECRETARY_API_KEYS": "apikey-one-5TzQ,apikey-two-8Rw:ann",
    "SECRETARY_ACCESS__API_KEYS": "[{key: apikey-three-7Tx, user: bob, scopes: [read, submit],"
    " expires_at: 2027-01-31}, {key: apikey-four-2Pq}]",
    "MONGODB_URI": "mongodb://dbuser-Xa:dbpass-Yb@db.example:27017,b.example/secretary"
    "?authSource=admin&tlsCertificateKeyFilePassword=tlspass-Zc",
    "SECRETARY_LLM__API_KEY": "llmkey-main-Qd",
    "SECRETARY_LLM__BASE_URL": "https://llm.example/v1/llmkey-main-Qd",
    "SECRETARY_LLM__MODEL": "some-model",
    "SECRETARY_LLM__PROVIDERS__EYES__API_KEY": "llmkey-eyes-We",
    "SECRETARY_LLM__PROVIDERS__EYES__BASE_URL": "http://eyes.example/v1",
    "SECRETARY_LLM__CHAT_PARAMETERS": "{temperature: 0, extra_headers: {X-Api-Key: headerkey-Vf}}",
}
WORDS = (
    "apikey-one-5TzQ", "apikey-two-8Rw", "apikey-three-7Tx", "apikey-four-2Pq", "dbuser-Xa",
    "dbpass-Yb", "tlspass-Zc", "llmkey-main-Qd", "llmkey-eyes-We", "headerkey-Vf",
)  # fmt: skip


@pytest.fixture
def settings() -> Settings:
    return load(environment=SECRETS)


def test_no_secret_is_shown(settings: Settings) -> None:
    held = json.dumps(settings.model_dump(mode="json"))
    visible = json.dumps(visible_settings(settings), ensure_ascii=False)
    for word in WORDS:
        assert word in held
        assert word not in visible


def test_everything_else_is(settings: Settings) -> None:
    visible = visible_settings(settings)
    assert visible["storage"]["mongodb_uri"] == "mongodb://db.example:27017,b.example/secretary"
    assert visible["access"]["api_keys"] == [
        f"{MASK} (bob; read, submit; until 2027-01-31T00:00:00Z)",
        MASK,
        MASK,
        f"{MASK} (ann)",
    ]
    assert visible["llm"]["api_key"] == MASK
    assert visible["llm"]["base_url"] == f"https://llm.example/v1/{MASK}"
    assert visible["llm"]["providers"]["eyes"]["base_url"] == "http://eyes.example/v1"
    assert visible["llm"]["chat_parameters"] == {"temperature": 0, "extra_headers": MASK}
    assert visible["limits"]["max_upload_mb"] == 1024
    assert visible["generic_worker"]["max_concurrent_workers"] == 3
    assert visible["server"]["host"] == "127.0.0.1"
    assert set(visible) == set(Settings.model_fields)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://keyid-1:secretpart-2@s3.example/bucket?x=optionpart", "s3://s3.example/bucket"),
        ("s3://keyid-1:secret/part-2@s3.example/bucket", MASK),
        ("s3://keyid-1:secret?part-2@s3.example/bucket", MASK),
        ("s3://keyid-1:secret@part-2@s3.example/bucket", MASK),
        ("https://plain.example/path", "https://plain.example/path"),
        ("plain words", "plain words"),
    ],
)
def test_an_address_shows_where_it_leads_whatever_setting_it_is_of(text: str, shown: str) -> None:
    settings = load(environment={"SECRETARY_SERVER__HOST": text})
    assert visible_settings(settings)["server"]["host"] == shown


def test_what_is_not_set_is_not_said_to_be() -> None:
    visible = visible_settings(Settings())
    assert visible["storage"]["mongodb_uri"] is None
    assert visible["access"]["api_keys"] == []
    assert visible["llm"]["api_key"] is None


def names(model: type[BaseModel] = Settings) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from names(field.annotation)
        else:
            yield name


def test_it_is_decided_of_every_setting_whether_it_is_a_secret() -> None:
    secret_names = {name for name in names() if SECRET.search(name)}
    assert secret_names - PLAIN == {"api_key", "api_keys", "mongodb_uri"}


class TestRoute:
    async def system(
        self, store: Store, directory: Path, settings: Settings, **headers: str
    ) -> dict[str, Any]:
        job_service = JobService(store, Registry(BUILTIN), JobFiles(directory))
        api = create_api(
            job_service,
            api_keys=settings.access.api_keys,
            settings=visible_settings(settings),
            engines=Application(settings).engines,
        )
        transport = httpx.ASGITransport(api, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            await client.post(
                "/api/jobs",
                json={"webhook": {"url": "https://a.example/", "secret": "hooksecret-Ug"}},
                headers=headers,
            )
            response = await client.get("/api/system", headers=headers)
            assert response.status_code == 200, response.text
            for word in (*WORDS, "hooksecret-Ug"):
                assert word not in response.text
            data: dict[str, Any] = response.json()["data"]
            return data

    async def test_an_operator_sees_settings_and_engines(
        self, store: Store, tmp_path: Path, settings: Settings
    ) -> None:
        key = {"Authorization": "Bearer apikey-one-5TzQ"}
        (tmp_path / "cache" / "pdf" / "ab" / "native").mkdir(parents=True)
        (tmp_path / "cache" / "pdf" / "ab" / "native" / "1.txt").write_bytes(b"12345")
        data = await self.system(store, tmp_path, settings, **key)
        assert data["settings"]["limits"]["max_upload_mb"] == 1024
        engines = {one["subject"]: one for one in data["engines"]}
        assert {"ocr", "ffmpeg", "soffice", "chat"} <= set(engines)
        assert "some-model" in engines["chat"]["fact"]
        assert data["cache"] == {"bytes": 5, "max_bytes": JobFiles(tmp_path).cache.max_bytes}

    @pytest.mark.parametrize(
        "headers",
        [
            {"Authorization": "Bearer apikey-two-8Rw"},
            {"Authorization": "Bearer apikey-one-5TzQ", "X-User-ID": "bob"},
        ],
    )
    async def test_who_acts_for_a_user_sees_neither(
        self, store: Store, tmp_path: Path, settings: Settings, headers: dict[str, str]
    ) -> None:
        data = await self.system(store, tmp_path, settings, **headers)
        assert (data["settings"], data["engines"]) == (None, None)
        assert data["version"]
