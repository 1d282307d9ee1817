"""Submits damaged files to the whole service, as clients do: each job must finish with a result or
with a documented error, within its limits, and leave nothing behind."""

import asyncio
import json
import logging
import os
import random
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

from secretary.core import processes
from secretary.observability.logging import current_job

from ..sample_recordings import GOOD_RECORDINGS, GOOD_SUBTITLES, SOUNDS
from ..service_fixture import ServiceClient, running_service
from .cases import Case
from .findings import Find, Report

ERRORS = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"
CONCURRENCY = 3
MEMORY_MB = 1024
#: A page, an audio chunk, a conversion. A job has several of them, and waits in the queue.
STEP_SECONDS = 20
JOB_SECONDS = 90
#: Leftovers are checked after this many files.
GROUP = 24
#: Caused by the request, the network or the service itself.
NEVER_BY_FILES = frozenset(
    {"VALIDATION_ERROR", "UNKNOWN_JOB_TYPE", "DOWNLOAD_FAILED", "UPSTREAM_FAILED", "CANCELLED",
     "INTERNAL_ERROR"}
)  # fmt: skip
DEATHS = frozenset({"WORKER_CRASHED", "OUT_OF_MEMORY", "PROCESSING_TIMEOUT"})
SETTINGS: dict[str, dict[str, Any]] = {
    "documents": {
        "page_timeout_sec": STEP_SECONDS,
        "conversion_timeout_sec": STEP_SECONDS,
        "max_megapixels": 20,
    },
    "media": {"piece_timeout_sec": STEP_SECONDS, "max_duration_hours": 0.1},
    "generic_worker": {
        "max_concurrent_workers": CONCURRENCY,
        "memory_limit_mb": MEMORY_MB,
        "timeout_sec": JOB_SECONDS,
        "max_crashes": 1,
    },
}


@cache
def codes_of_files() -> frozenset[str]:
    """The documented codes that a file can cause."""
    page = ERRORS.read_text()
    table = page[page.index("## Of jobs") : page.index("## Of the command line")]
    return frozenset(re.findall(r"^\| `([A-Z_]+)`", table, re.MULTILINE)) - NEVER_BY_FILES


class Trouble(logging.Handler):
    """What the service logs about each job."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: dict[str | None, list[str]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.setdefault(current_job.get(), []).append(self.format(record))


async def survey(every: Iterable[Case]) -> Report:
    """Runs all of them, several at a time, and checks for leftovers after each group."""
    report = Report()
    groups = _groups(iter(every))
    first = next(groups, [])
    if any(case.kind == "media" for case in first):
        GOOD_RECORDINGS["a.wav"]()  # creates a temporary file that is kept and must not count
    with tempfile.TemporaryDirectory() as directory, _temporary(Path(directory, "tmp")) as tmp:
        before = {process.pid for process in processes.descendants(os.getpid())}
        roots = Path(directory, "beside")
        roots.mkdir()
        storage = {"source_roots": [str(roots)]}
        async with running_service(Path(directory, "data"), storage=storage, **SETTINGS) as service:
            with _recorded_logs() as trouble:
                for group in chain([first] if first else [], groups):
                    await _try_all(service, roots, group, report, trouble)
                    await _check_leftovers(service, group, report, tmp)
        remaining = [one for one in processes.descendants(os.getpid()) if one.pid not in before]
        if first and remaining:
            report.defects.append(Find(group[-1], f"Processes are left at the end: {remaining}"))
    return report


def _groups(every: Iterator[Case]) -> Iterator[list[Case]]:
    while group := list(islice(every, GROUP)):
        yield group


@contextmanager
def _temporary(directory: Path) -> Iterator[Path]:
    """Where this process and its children put their temporary files."""
    directory.mkdir()
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"], tempfile.tempdir = str(directory), None
    try:
        yield directory
    finally:
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before
        tempfile.tempdir = None


@contextmanager
def _recorded_logs() -> Iterator[Trouble]:
    trouble, logger = Trouble(), logging.getLogger("secretary")
    logger.addHandler(trouble)
    try:
        yield trouble
    finally:
        logger.removeHandler(trouble)


async def _try_all(
    service: ServiceClient, roots: Path, group: list[Case], report: Report, trouble: Trouble
) -> None:
    waiting = iter(group)

    async def runner() -> None:
        for case in waiting:
            await _try(service, roots, case, report, trouble)

    await asyncio.gather(*(runner() for _ in range(CONCURRENCY)))


async def _try(
    service: ServiceClient, roots: Path, case: Case, report: Report, trouble: Trouble
) -> None:
    report.tried += 1
    response = await _submit(service, roots, case)
    if response.status_code != 202:  # it was rejected at submission
        error = response.json().get("error") or {}
        report.ends[f"refused {error.get('code')}"] += 1
        if response.status_code >= 500 or not error.get("message"):
            report.defects.append(Find(case, f"The answer is {response.text}"))
        return
    answer = response.json()
    job_id = answer.get("job_id") or answer["data"]["job_id"]
    try:
        job = await asyncio.wait_for(service.ended(job_id), JOB_SECONDS + STEP_SECONDS)
    except TimeoutError:
        report.defects.append(Find(case, "The job does not end"))
        return
    log_text = "\n".join(trouble.lines.pop(job_id, ()))
    code = (job["error"] or {}).get("code")
    report.ends[code or job["status"]] += 1
    if fault := _fault(job, str(service.data_dir.parent)) or await _dead_link(service, job):
        report.defects.append(Find(case, f"{fault}\n{log_text}"))
    elif code in DEATHS:
        report.deaths.append(Find(case, f"{code}: {job['error']['message']}\n{log_text}"))


async def _submit(service: ServiceClient, roots: Path, case: Case) -> Any:
    if case.name in GOOD_SUBTITLES:
        # Beside a valid recording, where subtitles are looked for.
        label = f"{case.seed}-{case.name}"
        (roots / f"{label}.wav").write_bytes(GOOD_RECORDINGS["a.wav"]())
        (roots / f"{label}{Path(case.name).suffix}").write_bytes(case.content)
        body = {"job_type": "audio", "parameters": {"file_path": f"{label}.wav"}}
        return await service.client.post("/api/jobs", json=body)
    route, fields = _request_for(case)
    files = {"file": (case.name, case.content)}
    return await service.client.post(route, files=files, data={**fields, "async": "true"})


def _request_for(case: Case) -> tuple[str, dict[str, str]]:
    """The options vary with the damage, so that all code paths are covered."""
    chance = random.Random(f"choice {case}")
    images = {"include_images": chance.choice(("true", "false"))}
    match case.kind:
        case "pdf":
            method = chance.choice(("native", "native", "auto", "preview_and_native", "both"))
            return "/api/pdf/process", {**images, "extraction_method": method}
        case "office":
            return "/api/office/process", {"include_images": "true"}
        case "libreoffice":
            return "/api/office/process-via-pdf", {"extraction_method": "native"}
        case "pictures":
            method = chance.choice(("ocr", "preview", "preview"))
            return "/api/imageocr/process", {**images, "extraction_method": method}
        case _ if case.name in SOUNDS:
            return "/api/audio/process", {}
        case _:
            words, texts = chance.choice((("true", "false"), ("false", "true"), ("false", "false")))
            return "/api/video/process", {"include_transcript": words, "include_slide_text": texts}


def _fault(job: dict[str, Any], directory: str) -> str | None:
    error, status = job["error"], job["status"]
    if status not in ("completed", "failed"):
        return f"The job is {status}"
    if status == "failed" and error["code"] not in codes_of_files():
        return f"{error['code']}: {error['message']} {error['details']}"
    if status == "completed" and not isinstance(job["results"], dict):
        return "The job completed without results"
    if directory in json.dumps(job):
        return "A path of this machine is exposed"
    for attempt in job["attempts"]:
        began, ended = (datetime.fromisoformat(attempt[key]) for key in ("started_at", "ended_at"))
        if (ended - began).total_seconds() > JOB_SECONDS + STEP_SECONDS:
            return f"The attempt took {ended - began}"
    peak = job["resources"].get("peak_memory_bytes", 0)
    if peak > 1.5 * MEMORY_MB * 1024 * 1024 and (error or {}).get("code") != "OUT_OF_MEMORY":
        return f"The job took {peak:,.0f} bytes of memory"
    return None


async def _dead_link(service: ServiceClient, job: dict[str, Any]) -> str | None:
    """The results refer to their files by working URLs."""
    for url in islice(_urls(job["results"]), 12):
        response = await service.client.get(url)
        if response.status_code != 200:
            return f"{url} answers {response.status_code}"
    return None


def _urls(value: Any) -> Iterator[str]:
    match value:
        case str() if value.startswith("/api/"):
            yield value
        case dict():
            for item in value.values():
                yield from _urls(item)
        case list():
            for item in value:
                yield from _urls(item)


async def _check_leftovers(
    service: ServiceClient, group: list[Case], report: Report, tmp: Path
) -> None:
    """Leftovers belong to a file of the group; the service must respond as before."""
    remaining = await service.leftovers(uploads=False)
    remaining += sorted(os.listdir(tmp))
    if remaining:
        report.defects.append(
            Find(group[-1], f"Left behind by one of the last {len(group)}: {remaining}")
        )
    health = await service.client.get("/api/health")
    if health.status_code != 200:
        report.defects.append(Find(group[-1], f"The service responds with {health.text}"))
