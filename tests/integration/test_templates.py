"""Templates over HTTP and on the command line, with a custom directory."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from secretary.api import create_api
from secretary.cli import app
from secretary.jobs.handler import Registry
from secretary.jobs.service import JobService
from secretary.llm.templates import Library
from secretary.storage.artifacts import JobFiles
from secretary.store import open_store
from tests.api_server import serving
from tests.no_tls import NO_TLS

MINE = """---
# My talks
title: {{title|The title}}
tags: {{tags|list: Keywords}}
---
# {{title}}

{{event}}

--- systemprompt
Be brief.
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    directory = tmp_path / "own"
    directory.mkdir()
    (directory / "Talk_de.md").write_text(MINE)
    (directory / "Torn.md").write_text("# a\n\n{{b")
    return directory


@pytest.fixture
async def client(tmp_path: Path, own: Path) -> AsyncIterator[httpx.AsyncClient]:
    store = open_store(f"sqlite://{tmp_path}/jobs.db")
    await store.open()
    job_service = JobService(store, Registry(), JobFiles(tmp_path))
    async with (
        serving(create_api(job_service, library=Library(own), api_keys=["right"])) as url,
        httpx.AsyncClient(
            base_url=url, verify=NO_TLS, headers={"Authorization": "Bearer right"}
        ) as client,
    ):
        yield client
    await store.close()


async def data(client: httpx.AsyncClient, path: str) -> Any:
    response = await client.get(path)
    assert response.status_code == 200, response.text
    return response.json()["data"]


class TestHttp:
    async def test_all_are_listed_with_their_fields(self, client: httpx.AsyncClient) -> None:
        listed = {one["name"]: one for one in (await data(client, "/api/templates"))["templates"]}
        assert listed["Talk_de"] == {
            "name": "Talk_de",
            "title": "My talks",
            "language": "de",
            "source": "own",
            "fields": [
                {"name": "title", "type": "text", "instruction": "The title"},
                {"name": "tags", "type": "list of text", "instruction": "Keywords"},
            ],
            "context_keys": ["event"],
            "faults": [],
        }
        assert listed["Session_en"]["source"] == "shipped"
        assert [fault["line"] for fault in listed["Torn"]["faults"]] == [3]

    async def test_a_template_is_returned_with_its_text_and_schema(
        self, client: httpx.AsyncClient
    ) -> None:
        template = await data(client, "/api/templates/talk")
        assert (template["name"], template["content"], template["system_prompt"]) == (
            "Talk_de", MINE, "Be brief.",
        )  # fmt: skip
        assert template["schema"]["required"] == ["title", "tags"]

    async def test_an_invalid_template_is_returned_with_its_faults(
        self, client: httpx.AsyncClient
    ) -> None:
        template = await data(client, "/api/templates/Torn")
        assert template["content"] is template["schema"] is None
        assert template["faults"][0]["line"] == 3

    @pytest.mark.parametrize(
        "name",
        ["none", "..%2F..%2Fetc%2Fpasswd", "%00", "%2E%2E", "a" * 150, "%2Fetc%2Fpasswd", "%ff"],
    )
    async def test_what_is_not_there_is_a_404(self, client: httpx.AsyncClient, name: str) -> None:
        response = await client.get(f"/api/templates/{name}")
        assert response.status_code == 404
        assert response.json()["error"]["code"] == "NOT_FOUND"
        assert "/own" not in response.text

    async def test_they_are_not_for_everybody(self, client: httpx.AsyncClient) -> None:
        response = await client.get("/api/templates", headers={"Authorization": "Bearer wrong"})
        assert response.status_code == 401


class TestCommandLine:
    def run(self, *arguments: str, own: Path | None = None) -> Any:
        env = {"SECRETARY_TEMPLATES__DIRECTORY": str(own)} if own else {}
        return CliRunner().invoke(app, ["template", *arguments], env=env)

    def test_all_are_listed(self, own: Path) -> None:
        result = self.run("list", own=own)
        assert result.exit_code == 0
        assert "Talk_de" in result.output
        assert "cannot be used: line 3" in result.output

    def test_the_list_is_that_of_the_api(self, own: Path) -> None:
        result = self.run("list", "--json", own=own)
        expected = [one.document() for one in Library(own).listed()]
        assert json.loads(result.output) == {"templates": expected}

    def test_faults_and_warnings_are_reported_by_line(self, own: Path) -> None:
        file = own / "Mine.md"
        file.write_text("---\nnote: Important: yes\na: {{b c}}\n---\n")
        result = self.run("check", str(file))
        assert result.exit_code == 1
        assert f"{file}:3: fault: `{{{{b c}}}}` has no usable name" in result.output
        file.write_text("---\nnote: Important: yes\n---\n")
        result = self.run("check", str(file))
        assert result.exit_code == 0
        assert f"{file}:2: warning: " in result.output
        assert f"{file}: good; it asks for nothing" in result.output

    def test_several_are_checked_at_once(self, own: Path) -> None:
        result = self.run("check", "--json", str(own / "Talk_de.md"), str(own / "Torn.md"))
        assert result.exit_code == 1
        good, bad = json.loads(result.output)["templates"]
        assert [field["name"] for field in good["fields"]] == ["title", "tags"]
        assert bad["faults"][0]["line"] == 3

    @pytest.mark.parametrize("name", ["none.md", ""])
    def test_unreadable_files_are_reported(self, own: Path, name: str) -> None:
        result = self.run("check", str(own / name))
        assert "cannot be read" in str(result.exception)
