"""Malicious documents, submitted one after the other to the whole service: each fails with the
expected error, in time, and leaves nothing behind. After each of them, a valid one is read."""

import os
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from secretary.core import processes

from ..hostile_files import ALL, ENDLESS, OFFICE, PDF, READ, REFUSED, Hostile
from ..minimal_files import pdf
from ..service_fixture import ServiceClient, running_service

pytestmark = pytest.mark.asyncio(loop_scope="module")
module_wide = partial(pytest_asyncio.fixture, scope="module", loop_scope="module")

PAGE_SECONDS = 3
#: To start a process on a busy machine, to stop one, to retry after a crash.
SLACK_SECONDS = 20


@dataclass
class Aftermath:
    """The state after everything was submitted, and after the service has stopped."""

    jobs: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    #: The results of valid documents, by number.
    good: dict[int, dict[str, Any]] = field(default_factory=dict)
    leftovers: list[str] = field(default_factory=list)
    temporary: list[str] = field(default_factory=list)
    below: list[processes.Process] = field(default_factory=list)
    #: What the cache considers complete, by the digests of the files.
    cached: set[str] = field(default_factory=set)


def job_of(aftermath: Aftermath, case: Hostile) -> dict[str, Any]:
    return aftermath.jobs[case.route, case.name]


@module_wide()
async def aftermath(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Aftermath]:
    directory = tmp_path_factory.mktemp("hostile")
    (directory / "tmp").mkdir()
    result = Aftermath()
    before = {process.pid for process in processes.descendants(os.getpid())}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(directory / "tmp"))
        patch.setattr(tempfile, "tempdir", None)
        async with running_service(
            directory / "data",
            documents={"page_timeout_sec": PAGE_SECONDS, "conversion_timeout_sec": 20},
            generic_worker={
                "max_concurrent_workers": 2,
                "processes": 2,
                "memory_limit_mb": 512,
                "max_crashes": 1,
            },
        ) as service:
            await submit_all(service, result)
        result.leftovers = service.current_leftovers()
        cached = service.data_dir.glob("cache/*/*/*/assembled*")
        result.cached = {path.parent.parent.name for path in cached}
        result.temporary = sorted(os.listdir(directory / "tmp"))
        patch.setattr(tempfile, "tempdir", None)
    result.below = [each for each in processes.descendants(os.getpid()) if each.pid not in before]
    yield result


async def submit_all(service: ServiceClient, result: Aftermath) -> None:
    ids, good = {}, {}
    for number, case in enumerate(ALL):
        files = {"file": (case.file, case.make())}
        fields = {**case.fields, "async": "true"}
        response = await service.client.post(case.route, files=files, data=fields)
        if response.status_code == 202:
            ids[case.route, case.name] = response.json()["job_id"]
        else:  # it was rejected at submission
            result.jobs[case.route, case.name] = {
                **response.json(),
                "status": "failed",
                "attempts": [],
            }
        good[number] = await service.submit_file(PDF, pdf(f"Good {number}"), "good.pdf")
    for key, job_id in ids.items():
        result.jobs[key] = await service.ended(job_id)
    for number, job_id in good.items():
        result.good[number] = await service.ended(job_id)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
async def test_it_fails_by_name_and_in_time(aftermath: Aftermath, case: Hostile) -> None:
    job = job_of(aftermath, case)
    assert job["status"] == "failed", job["results"]
    error = job["error"]
    assert error["code"] in ((case.code,) if isinstance(case.code, str) else case.code)
    is_sentence(error["message"])
    if error["code"] in ENDLESS and case.route != OFFICE:
        assert error["message"].startswith("Page 1: ")
        assert error["details"]["page"] == 1
    for attempt in job["attempts"]:
        started, ended = (
            datetime.fromisoformat(attempt[key]) for key in ("started_at", "ended_at")
        )
        assert (ended - started).total_seconds() < PAGE_SECONDS + SLACK_SECONDS


def is_sentence(text: str) -> None:
    """It reads like a sentence, and reveals nothing about our disk."""
    assert text[0].isupper() or text[0].isdigit()
    assert len(text.split()) >= 4
    assert "/" not in text
    assert "Error" not in text
    assert "Traceback" not in text


@pytest.mark.parametrize("case", READ, ids=lambda case: case.name)
async def test_what_does_no_harm_is_read(aftermath: Aftermath, case: Hostile) -> None:
    job = job_of(aftermath, case)
    assert job["status"] == "completed", job["error"]
    assert case.says in job["results"]["extracted_text"]
    assert "root:" not in job["results"]["extracted_text"]


async def test_after_each_of_them_a_good_one_is_read(aftermath: Aftermath) -> None:
    for number, job in aftermath.good.items():
        assert job["status"] == "completed", job["error"]
        assert f"Good {number}" in job["results"]["extracted_text"]


async def test_nothing_is_left_where_they_were_worked_on(aftermath: Aftermath) -> None:
    failed = {job.get("job_id") for job in aftermath.jobs.values() if job["status"] == "failed"}
    # The upload of a failed job is kept for a day, to restart the job with it.
    remaining = [path for path in aftermath.leftovers if Path(path).name not in failed]
    assert remaining == []


async def test_no_failure_is_kept_as_a_result(aftermath: Aftermath) -> None:
    digests = {case.name: sha256(case.make()).hexdigest() for case in REFUSED}
    assert [name for name, digest in digests.items() if digest in aftermath.cached] == []
    assert aftermath.cached


async def test_nothing_is_left_in_the_systems_temporary_directory(aftermath: Aftermath) -> None:
    assert aftermath.temporary == []


async def test_no_process_is_left(aftermath: Aftermath) -> None:
    assert aftermath.below == []
