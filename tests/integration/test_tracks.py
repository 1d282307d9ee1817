"""Summaries of conference tracks, as an existing client application asks for them."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ..client_front_matter import client_front_matter
from ..llm_server import KEY, LlmServer, Reads, Reply, fails, llm_server, says
from ..service_fixture import ServiceClient, running_service
from ..web_server import Web, WebRequest, serving

BODY = {"template": "track_eco_social", "target_language": "de", "useCache": False}
TALK = """<!DOCTYPE html><html lang="en"><head><title>{title}</title></head><body>
<h1>{title}</h1><p>This talk is about {title}, and about what became of the people who worked on
it in the years before the conference.</p></body></html>"""


@asynccontextmanager
async def conference() -> AsyncIterator[Web]:
    async def answer(request: WebRequest) -> None:
        title = request.target.removeprefix("/")
        body = TALK.format(title=title).encode()
        await request.answer(body, headers={"Content-Type": "text/html"})

    async with serving(answer) as web:
        yield web


@asynccontextmanager
async def service_with_model(
    tmp_path: Path, reply: Reply | Reads
) -> AsyncIterator[tuple[ServiceClient, LlmServer, Web]]:
    async with conference() as web, llm_server(reply) as server:
        llm = {"base_url": server.web.url("/v1"), "api_key": KEY, "model": "scripted"}
        network = {"allow_hosts": ["127.0.0.1"]}
        async with running_service(tmp_path, network=network, llm=llm) as service:
            yield service, server, web


async def given_talk(
    service: ServiceClient,
    web: Web,
    title: str,
    track: str,
    *,
    user: str | None = None,
    **more: Any,
) -> None:
    parameters = {
        "url": web.url(f"/{title}"),
        "event": "Fair 2026",
        "session": title,
        "track": track,
        "filename": f"{title}.md",
        "template_content": "# {{session}}\n\n{{text}}",
        "target_language": "en",
        **more,
    }
    headers = {"X-User-ID": user} if user else {}
    response = await service.client.post("/api/session/process", json=parameters, headers=headers)
    assert response.status_code == 200, response.text


def filled(request: dict[str, Any]) -> Reply:
    names = request["response_format"]["json_schema"]["schema"]["properties"]
    return says(json.dumps({name: f"Über {name}" for name in names}))


def asked(server: LlmServer) -> list[str]:
    return [str(request["messages"][-1]["content"]) for request in server.requests]


class TestOneTrack:
    async def test_its_talks_become_one_document(self, tmp_path: Path) -> None:
        async with service_with_model(tmp_path, Reads(filled)) as (service, server, web):
            for title in ("Apples", "Pears"):
                await given_talk(service, web, title, "Fruit")
            await given_talk(service, web, "Leeks", "Vegetables")
            response = await service.client.post("/api/tracks/Fruit/summary", json=BODY)
            assert response.status_code == 200, response.text
            envelope = response.json()
            (text,) = asked(server)
        assert envelope["status"] == "success"
        assert "about Apples" in text and "about Pears" in text and "Leeks" not in text
        data = envelope["data"]
        assert data["structured_data"]["general_summary"] == "Über general_summary"
        assert data["metadata"]["template"] == "Track_eco_social_de"
        assert data["metadata"]["sessions"] == ["Apples", "Pears"]
        assert client_front_matter(data["markdown_content"])["track"] == "Fruit"
        path = tmp_path / "sessions" / "Fair 2026" / "de" / "Fruit.md"
        assert path.read_text() == data["markdown_content"]
        assert (tmp_path / "sessions" / "Fair 2026" / "en" / "Fruit" / "Apples.md").exists()

    async def test_each_talk_counts_once_and_in_the_language_that_is_asked_for(
        self, tmp_path: Path
    ) -> None:
        async with service_with_model(tmp_path, Reads(filled)) as (service, _, web):
            await given_talk(service, web, "Apples", "Fruit", target_language="de")
            await given_talk(service, web, "Apples", "Fruit", target_language="en")
            await given_talk(service, web, "Pears", "Fruit")
            await given_talk(service, web, "Pears", "Fruit")
            available = (await service.get("/api/tracks/available")).json()["data"]
            response = await service.client.post("/api/tracks/fruit/summary", json=BODY)
            assert response.json()["data"]["metadata"]["session_count"] == 2
        (track,) = available["tracks"]
        assert (track["track_name"], track["event"]) == ("Fruit", "Fair 2026")
        assert track["session_count"] == available["total_session_count"] == 2
        assert {session["title"] for session in track["sessions"]} == {"Apples", "Pears"}
        assert available["track_count"] == 1 and available["generated_at"].endswith("Z")

    @pytest.mark.parametrize(
        "track", ["Main-Track-Janson-7", "Ethics / Law & Order", "Größe: 100 %?", "a/summary", "*"]
    )
    async def test_any_name_is_found_however_it_is_encoded(
        self, tmp_path: Path, track: str
    ) -> None:
        async with service_with_model(tmp_path, Reads(filled)) as (service, _, web):
            await given_talk(service, web, "Apples", track)
            for name in (quote(track, safe=""), quote(quote(track, safe=""), safe="")):
                response = await service.client.post(f"/api/tracks/{name}/summary", json=BODY)
                assert response.status_code == 200, response.text
                assert response.json()["data"]["metadata"]["track"] == track

    @pytest.mark.parametrize("name", ["Nothing", "..%2F..%2Fetc", "%00", "*"])
    async def test_an_unknown_track_is_a_404(self, tmp_path: Path, name: str) -> None:
        async with service_with_model(tmp_path, Reads(filled)) as (service, server, web):
            await given_talk(service, web, "Apples", "Fruit")
            response = await service.client.post(f"/api/tracks/{name}/summary", json=BODY)
            assert not server.requests
        assert response.status_code == 404
        assert response.json()["error"]["code"] == "NOT_FOUND"

    async def test_a_wrong_request_names_the_field(self, tmp_path: Path) -> None:
        async with service_with_model(tmp_path, Reads(filled)) as (service, _, web):
            await given_talk(service, web, "Apples", "Fruit")
            for wrong, field in (
                ({"target_language": 1}, "target_language"),
                ({"useCache": "maybe"}, "useCache"),
                ({"template": "Nowhere"}, "not found"),
            ):
                response = await service.client.post(
                    "/api/tracks/Fruit/summary", json={**BODY, **wrong}
                )
                assert response.status_code == 400, response.text
                assert field in response.json()["error"]["message"]
        assert await service.leftovers(uploads=False) == []

    async def test_without_a_model_it_is_unavailable(self, tmp_path: Path) -> None:
        network = {"allow_hosts": ["127.0.0.1"]}
        async with conference() as web, running_service(tmp_path, network=network) as service:
            await given_talk(service, web, "Apples", "Fruit")
            response = await service.client.post("/api/tracks/Fruit/summary", json=BODY)
        assert (response.status_code, response.json()["error"]["code"]) == (
            503,
            "ENGINE_UNAVAILABLE",
        )

    async def test_a_request_may_ask_not_to_wait(self, tmp_path: Path) -> None:
        async with service_with_model(tmp_path, Reads(filled)) as (service, _, web):
            await given_talk(service, web, "Apples", "Fruit")
            response = await service.client.post(
                "/api/tracks/Fruit/summary", json={**BODY, "async": True}
            )
            assert response.status_code == 202
            job = await service.ended(response.json()["job_id"])
        assert (job["job_type"], job["status"]) == ("track", "completed")
        assert job["results"]["markdown_content"].startswith("---\n")


class TestAllTracks:
    async def test_the_counts_stand_at_the_top_level(self, tmp_path: Path) -> None:
        def answer(request: dict[str, Any]) -> Reply:
            if "about Leeks" in str(request["messages"][-1]["content"]):
                return fails("400 Bad Request", "no leeks")
            return filled(request)

        async with service_with_model(tmp_path, Reads(answer)) as (service, _, web):
            for title, track in (("Apples", "Fruit"), ("Ham", "Meat"), ("Leeks", "Vegetables")):
                await given_talk(service, web, title, track)
            for path in ("/api/tracks/*/summarize_all", "/api/tracks/%2A/summarize_all"):
                response = await service.client.post(path, json={**BODY, "max_attempts": 1})
                assert response.status_code == 200, response.text
                envelope = response.json()
                assert envelope["status"] == "success"
                assert envelope["summary"] == {
                    "total_tracks": 3,
                    "successful_tracks": 2,
                    "failed_tracks": 1,
                }
        errors = {one["track_name"]: one["error"] for one in envelope["data"]["tracks"]}
        assert errors["Fruit"] is errors["Meat"] is None
        assert errors["Vegetables"]["code"] == "UPSTREAM_FAILED"

    async def test_if_all_fail_it_is_an_error(self, tmp_path: Path) -> None:
        async with service_with_model(tmp_path, fails("400 Bad Request", "no")) as (
            service,
            _,
            web,
        ):
            await given_talk(service, web, "Apples", "Fruit")
            response = await service.client.post(
                "/api/tracks/*/summarize_all", json={**BODY, "max_attempts": 1}
            )
        assert response.status_code == 502
        assert response.json()["status"] == "error"

    async def test_without_talks_there_is_nothing_to_summarize(self, tmp_path: Path) -> None:
        async with service_with_model(tmp_path, Reads(filled)) as (service, _, _web):
            response = await service.client.post("/api/tracks/*/summarize_all", json=BODY)
            available = (await service.get("/api/tracks/available")).json()["data"]
        assert response.status_code == 404
        assert (available["tracks"], available["track_count"]) == ([], 0)


async def test_nobody_sees_or_replaces_the_talks_of_others(tmp_path: Path) -> None:
    async with service_with_model(tmp_path, Reads(filled)) as (service, server, web):
        await given_talk(service, web, "Apples", "Fruit", user="ann")
        other = {"template_content": "# Other {{session}}"}
        await given_talk(service, web, "Apples", "Fruit", user="bob", **other)
        for folder, beginning in (("@ann", "# Apples"), ("@bob", "# Other Apples")):
            document = tmp_path / "sessions" / folder / "Fair 2026" / "en" / "Fruit" / "Apples.md"
            assert document.read_text().startswith(beginning)
        found = await service.get("/api/jobs?job_type=session&user_id=ann&include=results")
        (job,) = found.json()["data"]["jobs"]
        assert job["results"]["target_dir"] == "sessions/@ann/Fair 2026/en/Fruit"
        assert job["results"]["asset_dir"] == "sessions/@ann/Fair 2026/assets/Apples"
        await given_talk(service, web, "Pears", "Fruit", user="bob")
        await given_talk(service, web, "Leeks", "Vegetables", user="bob")
        ann = {"X-User-ID": "ann"}
        response = await service.client.get("/api/tracks/available", headers=ann)
        (track,) = response.json()["data"]["tracks"]
        assert [session["title"] for session in track["sessions"]] == ["Apples"]
        response = await service.client.post("/api/tracks/Fruit/summary", json=BODY, headers=ann)
        assert response.status_code == 200
        assert "Pears" not in asked(server)[0]
        path = "/api/tracks/Vegetables/summary"
        response = await service.client.post(path, json=BODY, headers=ann)
        assert response.status_code == 404
        response = await service.client.post("/api/tracks/*/summarize_all", json=BODY, headers=ann)
        assert response.json()["summary"]["total_tracks"] == 1
        assert not any("Pears" in text or "Leeks" in text for text in asked(server))
