"""Language models use the service, with the real protocol."""

import base64
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client as ModelClient
from mcp import MCPError, StdioServerParameters
from mcp_types import BlobResourceContents, TextResourceContents

from secretary.cli.mcp_server import make_server, pages_of
from secretary.client import AsyncClient, Results

from ..minimal_files import pdf
from ..rendered_pages import page
from ..sample_documents import scan_of
from ..service_fixture import running_service

ROOT = Path(__file__).parents[2]


async def called(model: ModelClient, tool: str, **arguments: Any) -> Any:
    result = await model.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def refused(model: ModelClient, tool: str, **arguments: Any) -> str:
    result = await model.call_tool(tool, arguments)
    assert result.is_error
    return str(result.content[0].text)  # type: ignore[union-attr]  # errors are texts


async def test_a_model_converts_and_reads_a_file(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "report.pdf").write_bytes(pdf("One", "Two", "Three"))
    (files / "broken.pdf").write_bytes(b"%PDF-1.4\nnothing")
    (tmp_path / "secret.pdf").write_bytes(pdf("Secret"))
    (files / "link.pdf").symlink_to(tmp_path / "secret.pdf")
    async with running_service(tmp_path / "data") as service:
        url = str(service.client.base_url)
        async with (
            AsyncClient(url) as client,
            ModelClient(make_server(client, [files])) as model,
        ):
            await reads_pages(model, str(files / "report.pdf"))
            for path in (tmp_path / "secret.pdf", files / "link.pdf"):
                assert "only read below" in await refused(model, "convert", source=str(path))
            missing = await refused(model, "convert", source=str(files / "none.pdf"))
            assert "No such file or directory" in missing
            unknown = await refused(model, "convert", source=str(files / "none.xyz"))
            assert "job_type" in unknown
            assert "There is no job" in await refused(model, "job_status", job_id="job-1")
            broken = await called(model, "convert", source=str(files / "broken.pdf"))
            assert (broken["status"], broken["error"][:12]) == ("failed", "FILE_CORRUPT")
            error = await refused(model, "read_result", job_id=broken["job_id"])
            assert "FILE_CORRUPT: " in error
        async with ModelClient(as_documented(url, files)) as model:
            await reads_pages(model, str(files / "report.pdf"))


def as_documented(url: str, files: Path) -> StdioServerParameters:
    """The program as started in the command-line reference."""
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    (example,) = re.findall(r'(?s)```json\n(\{"mcpServers".*?)```', page)
    server = json.loads(example)["mcpServers"]["secretary"]
    assert server["command"] == "secretary"
    arguments = [arg.replace("/home/me/Documents", str(files)) for arg in server["args"]]
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "secretary", *arguments, "--url", url],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )


async def reads_pages(model: ModelClient, path: str) -> None:
    tools = {tool.name for tool in (await model.list_tools()).tools}
    assert tools == {"convert", "job_status", "read_result"}
    done = await called(model, "convert", source=path)
    assert (done["status"], done["pages"], done["error"]) == ("completed", 3, None)
    assert await called(model, "job_status", job_id=done["job_id"]) == done
    assert (done["characters"], done["image_uris"]) == (11, [])
    whole = await called(model, "read_result", job_id=done["job_id"])
    assert (whole["text"], whole["last_page"]) == ("One\n\nTwo\n\nThree", 3)
    assert (whole["next_page"], whole["next_step"]) == (None, "This is the end")
    some = await called(model, "read_result", job_id=done["job_id"], first_page=2, last_page=2)
    assert (some["text"], some["pages"], some["next_page"]) == ("Two", 3, None)
    resource = await model.read_resource(done["text_uri"])
    (content,) = resource.contents
    assert isinstance(content, TextResourceContents)
    assert (content.mime_type, content.text) == ("text/markdown", "One\n\nTwo\n\nThree")
    assert "3 pages" in await refused(model, "read_result", job_id=done["job_id"], first_page=4)


async def test_a_long_text_is_read_to_its_end(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    words = " ".join(f"word{number}" for number in range(20_000))
    (files / "long.txt").write_text(words)
    (files / "three.pdf").write_bytes(pdf("A" * 30, "B" * 30, "C" * 30))
    async with (
        running_service(tmp_path / "data") as service,
        AsyncClient(str(service.client.base_url)) as client,
        ModelClient(make_server(client, [files])) as model,
    ):
        done = await called(model, "convert", source=str(files / "long.txt"))
        parts, arguments = [], {"job_id": done["job_id"]}
        while True:
            part = await called(model, "read_result", **arguments)
            parts.append(part["text"])
            if part["next_page"] is None:
                break
            call = f"first_page={part['next_page']}, offset={part['next_offset']})"
            assert call in part["next_step"]
            arguments |= {"first_page": part["next_page"], "offset": part["next_offset"]}
        assert len(parts) == 4
        assert "".join(parts).strip() == words
        too_far = await refused(model, "read_result", job_id=done["job_id"], offset=10**7)
        assert "Page 1 has" in too_far

        done = await called(model, "convert", source=str(files / "three.pdf"))
        parts, arguments = [], {"job_id": done["job_id"], "limit": 25, "last_page": 2}
        while True:
            part = await called(model, "read_result", **arguments)
            parts.append((part["first_page"], part["text"]))
            if part["next_page"] is None:
                break
            assert "last_page=2" in part["next_step"]
            arguments |= {"first_page": part["next_page"], "offset": part["next_offset"]}
        assert parts == [(1, "A" * 25), (1, "A" * 5), (2, "B" * 25), (2, "B" * 5)]
        first = await called(model, "read_result", job_id=done["job_id"], limit=62)
        assert (first["text"], first["next_page"]) == (f"{'A' * 30}\n\n{'B' * 30}", 3)


async def test_a_scan_is_read_by_default_and_the_method_can_be_chosen(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "scan.pdf").write_bytes(
        scan_of(page(["The quick brown fox jumps over the lazy dog."] * 5))
    )
    (files / "three.pdf").write_bytes(pdf("One", "Two", "Three"))
    async with (
        running_service(tmp_path / "data") as service,
        AsyncClient(str(service.client.base_url)) as client,
        ModelClient(make_server(client, [files])) as model,
    ):
        scan = str(files / "scan.pdf")
        done = await called(model, "convert", source=scan, language="en")
        assert done["status"] == "completed", done
        text = (await called(model, "read_result", job_id=done["job_id"]))["text"]
        assert "quick brown fox" in text
        native = await called(model, "convert", source=scan, extraction_method="native")
        assert (native["status"], native["error"][:16]) == ("failed", "UNSUPPORTED_FILE")
        wrong = await refused(model, "convert", source=scan, extraction_method="magic")
        assert "extraction_method" in wrong
        three = str(files / "three.pdf")
        some = await called(model, "convert", source=three, first_page=2, last_page=2)
        text = (await called(model, "read_result", job_id=some["job_id"]))["text"]
        assert (some["pages"], text) == (1, "Two")
        (files / "a.txt").write_text("Hello")
        useless = await refused(model, "convert", source=str(files / "a.txt"), first_page=2)
        assert useless.endswith("first_page: does not apply to office")


async def test_each_result_is_a_resource_with_its_pictures(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "report.pdf").write_bytes(pdf("One", "Two"))
    async with (
        running_service(tmp_path / "data") as service,
        ModelClient(as_documented(str(service.client.base_url), files)) as model,
    ):
        templates = (await model.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == [
            "secretary://jobs/{job_id}/text",
            "secretary://jobs/{job_id}/images/{+name}",
        ]
        assert (await model.list_resources()).resources == []
        report = str(files / "report.pdf")
        done = await called(model, "convert", source=report, images=True)
        assert len(done["image_uris"]) == 2
        listed = (await model.list_resources(cache_mode="refresh")).resources
        assert [str(one.uri) for one in listed] == [done["text_uri"], *done["image_uris"]]
        assert [one.mime_type for one in listed] == [
            "text/markdown",
            "image/jpeg",
            "image/jpeg",
        ]
        assert listed[0].name == "report.pdf"
        (picture,) = (await model.read_resource(done["image_uris"][0])).contents
        assert isinstance(picture, BlobResourceContents)
        assert picture.mime_type == "image/jpeg"
        assert base64.b64decode(picture.blob).startswith(b"\xff\xd8")
        job = f"secretary://jobs/{done['job_id']}"
        for uri in (
            f"{job}/images/none.jpg",
            f"{job}/images//api/jobs",
            f"{job}/images/%2Fapi%2Fjobs",
            f"{job}/images/../../{done['job_id']}",
            f"{job}/other",
            "secretary://jobs/job-1/text",
            "file:///etc/passwd",
        ):
            with pytest.raises(MCPError):
                await model.read_resource(uri)


@pytest.mark.parametrize(
    ("results", "pages"),
    [
        ({"metadata": {"text_contents": [{"page": 1, "content": "a"}]}}, ["a"]),
        ({"transcription": {"text": "said"}}, ["said"]),
        ({"markdown_content": "# A", "extracted_text": "A"}, ["# A"]),
        ({}, [""]),
    ],
)
def test_every_kind_of_result_has_pages(results: dict[str, Any], pages: list[str]) -> None:
    assert pages_of(Results.model_validate(results)) == pages
