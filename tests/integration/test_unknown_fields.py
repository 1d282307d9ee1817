"""Unknown fields are kept with the job and named in a warning, on every route."""

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from typer.testing import CliRunner

from secretary.cli import app as cli
from secretary.client import AsyncClient

from ..conference_schedules import FOSDEM
from ..minimal_files import PNG, WAV, office, pdf
from ..service_fixture import ServiceClient, running_service

MISSPELT = {
    "code": "UNKNOWN_FIELD",
    "message": 'Unknown field "extraction_metod"; did you mean "extraction_method"?',
}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@partial(pytest_asyncio.fixture, scope="module", loop_scope="module")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServiceClient]:
    async with running_service(tmp_path_factory.mktemp("unknown-fields")) as service:
        yield service


async def post(service: ServiceClient, path: str, **body: Any) -> dict[str, Any]:
    response = await service.client.post(path, **body)
    assert response.status_code < 300, response.text
    document: dict[str, Any] = response.json()
    return document


async def test_a_misspelt_field_is_named_in_the_acknowledgement_and_in_the_job(
    service: ServiceClient,
) -> None:
    files = {"file": ("a.pdf", pdf("Hello"))}
    accepted = await post(
        service, "/api/pdf/process", files=files, data={"extraction_metod": "ocr", "jobId": "x"}
    )
    assert accepted["warnings"] == [MISSPELT]
    job = await service.ended(accepted["job_id"])
    assert job["status"] == "completed"
    assert job["results"]["warnings"] == [MISSPELT]
    assert job["parameters"]["extra"] == {"extraction_metod": "ocr", "jobId": "x"}
    logged = [entry for entry in job["logs"] if entry["level"] == "warning"]
    assert [entry["message"] for entry in logged] == [MISSPELT["message"]]


@pytest.mark.parametrize("kind", ["json", "data"])
async def test_a_request_that_waits_has_the_warnings_in_its_result(
    service: ServiceClient, kind: str
) -> None:
    fields = {"text": "Hello", "target_format": "html", "targetFromat": "x", "colour": "red"}
    answer = await post(service, "/api/transformer/text", **{kind: fields})
    assert [warning["message"] for warning in answer["data"]["warnings"]] == [
        'Unknown field "targetFromat"; did you mean "targetFormat"?',
        'Unknown field "colour"',
    ]


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/api/jobs", lambda job: job),
        ("/api/batches", lambda job: {"jobs": [job, job]}),
        ("/api/jobs/batch", lambda job: {"batch": {"jobs": [job]}}),
    ],
)
async def test_jobs_and_batches_name_them_too(
    service: ServiceClient, path: str, shape: Any
) -> None:
    job = {"job_type": "selftest", "parameters": {"seconds": 0, "stepps": 3, "extra": {"a": 1}}}
    body = shape({**job, "job_nam": "Test"})
    data = (await post(service, path, json=body))["data"]
    assert {warning["message"] for warning in data["warnings"]} == {
        'Unknown field "stepps"; did you mean "steps"?',
        'Unknown field "job_nam"; did you mean "job_name"?',
        'Unknown field "a"',
    }
    results = (await service.ended(data["job_ids"][0]))["results"]
    assert len(results["warnings"]) == 3
    assert results["structured_data"]["steps"] == 10


async def test_the_older_routes_name_them_too(service: ServiceClient) -> None:
    job = {"job_type": "selftest", "parameters": {"seconds": 0}, "prioritty": 1}
    warnings = [
        {
            "code": "UNKNOWN_FIELD",
            "message": 'Unknown field "prioritty"; did you mean "priority"?',
        }
    ]
    assert (await post(service, "/api/event-job/jobs", json=job))["warnings"] == warnings
    batch = {"jobs": [job]}
    assert (await post(service, "/api/event-job/batches", json=batch))["warnings"] == warnings


async def test_a_rerun_names_what_is_unknown_among_its_changes(service: ServiceClient) -> None:
    job_id = await service.submit("selftest", seconds=0)
    changes = {"parameters": {"stps": 2}}
    data = (await post(service, f"/api/jobs/{job_id}/again", json=changes))["data"]
    assert data["warnings"][0]["message"] == 'Unknown field "stps"; did you mean "steps"?'


async def test_files_and_schedules_submitted_as_a_batch_name_them(service: ServiceClient) -> None:
    files = [("file", ("a.pdf", pdf("A"))), ("file", ("b.pdf", pdf("B")))]
    fields = {"extraction_metod": "ocr"}
    data = (await post(service, "/api/batches/from-files", files=files, data=fields))["data"]
    assert data["warnings"] == [MISSPELT]
    body = {"schedule": FOSDEM, "isActive": False, "tempalte": "Session"}
    data = (await post(service, "/api/batches/from-schedule", json=body))["data"]
    messages = [warning["message"] for warning in data["warnings"]]
    assert messages == ['Unknown field "tempalte"; did you mean "template"?']


CONTEXT = json.dumps({"fileName": "a.pdf", "availableMedia": []})
#: What the client application sends, by route.
CLIENT_CALLS: dict[str, dict[str, Any]] = {
    "/api/pdf/process": {
        "files": {"file": ("a.pdf", pdf("A"))},
        "data": {"target_language": "de", "extraction_method": "native", "useCache": "true",
                 "includeImages": "false", "callback_url": "https://example.org/x",
                 "callback_token": "secret"},
    },
    "/api/office/process": {
        "files": {"file": ("a.docx", office("word"))},
        "data": {"useCache": "true", "includeImages": "true", "includePreviews": "true",
                 "jobId": "1", "force_refresh": "false"},
    },
    "/api/audio/process": {
        "files": {"file": ("a.wav", WAV)},
        "data": {"target_language": "de", "source_language": "auto", "useCache": "true",
                 "template": "Besprechung", "async": "true"},
    },
    "/api/imageocr/process": {
        "files": {"file": ("a.png", PNG)},
        "data": {"extraction_method": "ocr", "useCache": "true", "context": CONTEXT,
                 "async": "true"},
    },
    "/api/transformer/template": {
        "json": {"text": "A", "template_content": "{{text}}", "source_language": "de",
                 "target_language": "de", "context": {}, "additional_field_descriptions": {},
                 "use_cache": False, "callback_url": None, "callback_token": None, "wait_ms": 0,
                 "model": "some/model", "jobId": "1", "container_selector": "li", "async": True},
    },
    "/api/session/process": {
        "json": {"event": "E", "session": "S", "url": "https://example.org/s", "filename": "s.md",
                 "track": "T", "day": "1", "starttime": "1", "endtime": "2", "speakers": ["A"],
                 "speakers_url": ["u"], "speakers_image_url": ["i"], "video_url": "https://v.org/",
                 "video_transcript": "Text", "attachments_url": "https://example.org/a.pdf",
                 "source_language": "en", "target_language": "de", "target": "x",
                 "template": "Session", "use_cache": False, "create_archive": True,
                 "async": True},
    },
}  # fmt: skip


@pytest.mark.parametrize("path", CLIENT_CALLS)
async def test_no_field_that_the_client_application_sends_is_unknown(
    service: ServiceClient, path: str
) -> None:
    accepted = await post(service, path, headers={"x-worker": "true"}, **CLIENT_CALLS[path])
    assert "warnings" not in accepted


async def test_hostile_names_are_cut_cleaned_and_counted(service: ServiceClient) -> None:
    names = ["a\nERROR b", "\u202eevil", "<script>", 'quote"', "x" * 5000]
    parameters = {name: 1 for name in [*names, *(f"field{n}" for n in range(500))]}
    body = {"job_type": "selftest", "parameters": {"seconds": 0, **parameters}}
    data = (await post(service, "/api/jobs", json=body))["data"]
    messages = [warning["message"] for warning in data["warnings"]]
    assert len(messages) == 21
    assert messages[-1] == "485 more unknown fields"
    assert messages[0] == 'Unknown field "a\ufffdERROR b"'
    assert messages[1] == 'Unknown field "\ufffdevil"'
    assert max(map(len, messages)) < 200
    job = await service.ended(data["job_id"])
    assert [warning["message"] for warning in job["results"]["warnings"]] == messages


async def test_the_client_and_the_command_line_show_them(
    service: ServiceClient, tmp_path: Path
) -> None:
    url = str(service.client.base_url).rstrip("/")
    async with AsyncClient(url) as client:
        job = await client.submit("selftest", seconds=0, stepps=1)
        expected = ['Unknown field "stepps"; did you mean "steps"?']
        assert job.warnings == expected
        results = await job.result()
        assert [warning.message for warning in results.warnings] == expected
        assert job.warnings == expected
        batch = await client.batch([{"job_type": "selftest", "prioritty": 1}])
        assert batch.warnings == ['Unknown field "prioritty"; did you mean "priority"?']
        (tmp_path / "a.pdf").write_bytes(pdf("Hello"))
        job = await client.submit("pdf", file=tmp_path / "a.pdf", extraction_metod="ocr")
        assert job.warnings == [MISSPELT["message"]]
    arguments = ["submit", "selftest", "-p", "seconds=0", "-p", "stepps=1"]
    for place in (["--url", url], ["--data-dir", str(tmp_path / "data")]):
        result = await asyncio.to_thread(CliRunner().invoke, cli, [*arguments, *place])
        assert result.exit_code == 0, result.output
        assert f"Warning: {expected[0]}" in result.stderr
