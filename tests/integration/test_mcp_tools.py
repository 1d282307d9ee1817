"""Language models use the service, with the real protocol."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client as ModelClient
from mcp import StdioServerParameters

from secretary.cli.mcp_server import make_server, pages_of
from secretary.client import AsyncClient, Results

from ..minimal_files import pdf
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
    whole = await called(model, "read_result", job_id=done["job_id"])
    assert (whole["text"], whole["last_page"]) == ("One\n\nTwo\n\nThree", 3)
    some = await called(model, "read_result", job_id=done["job_id"], first_page=2, last_page=2)
    assert (some["text"], some["pages"], some["cut_off"]) == ("Two", 3, False)
    assert "3 pages" in await refused(model, "read_result", job_id=done["job_id"], first_page=4)


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
