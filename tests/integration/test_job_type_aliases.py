"""Earlier names of job types, wherever a job type is accepted."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from secretary.cli import app

from ..minimal_files import MP4, office
from ..service_fixture import ServiceClient, running_service

URL = "https://example.org/a"
TEXT = {"text": "They are *red*.", "target_format": "html"}


async def job_types(service: ServiceClient, job_ids: list[str]) -> list[str]:
    return [(await service.job(job_id))["job_type"] for job_id in job_ids]


async def test_every_route_that_adds_jobs_accepts_them(tmp_path: Path) -> None:
    async with running_service(tmp_path) as service:
        client = service.client
        transformer = {"job_type": "transformer_template", "parameters": TEXT}
        job = await service.ended(await service.submit("transformer_template", **TEXT))
        assert (job["job_type"], job["status"]) == ("transformer", "completed")
        batch = await client.post("/api/jobs/batch", json={"jobs": [transformer]})
        assert await job_types(service, batch.json()["data"]["job_ids"]) == ["transformer"]
        legacy = await client.post("/api/event-job/jobs", json=transformer)
        assert legacy.json()["job"]["job_type"] == "transformer"


async def test_files_in_a_batch_accept_them(tmp_path: Path) -> None:
    async with running_service(tmp_path) as service:
        jobs = [{"job_type": "youtube", "file": 0}, {"job_type": "office_via_pdf", "file": 1}]
        response = await service.client.post(
            "/api/batches/from-files",
            files=[("file", ("a.mp4", MP4)), ("file", ("a.docx", office("word")))],
            data={"jobs": json.dumps(jobs)},
        )
        assert response.status_code == 202, response.text
        job_ids = response.json()["data"]["job_ids"]
        assert await job_types(service, job_ids) == ["video", "office"]
        assert (await service.job(job_ids[1]))["parameters"]["via_pdf"] is True


def test_the_command_line_accepts_them(tmp_path: Path) -> None:
    command = ["submit", "youtube", "-p", f"url={URL}", "--json", "--data-dir", str(tmp_path)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "no handler" not in result.output
    job: dict[str, Any] = json.loads(result.stdout)
    assert (job["job_type"], job["parameters"]["url"]) == ("video", URL)
