"""A worker that dies in the midst of a document: the next one goes on where it was."""

import io
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from secretary.job import Job, JobStatus
from secretary.store import JobStore, open_store

from ..printed import page
from .service import WorkerProcess, ended, environment, until

PAGES = 200
PROCESSES = 2


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[JobStore]:
    store = open_store(f"sqlite://{tmp_path}/data/secretary.db")
    (tmp_path / "data").mkdir()
    await store.open()
    yield store
    await store.close()


def scan() -> bytes:
    """Each page another word, so that none can be taken for another."""
    pages = [page([f"Page number {number} of the scan"]) for number in range(1, PAGES + 1)]
    file = io.BytesIO()
    first, *others = (picture.convert("L") for picture in pages)
    first.save(file, "PDF", resolution=150, save_all=True, append_images=others)
    return file.getvalue()


def made(data_dir: Path) -> Counter[int]:
    """How often each page has been made."""
    lines = (
        line
        for records in data_dir.glob("cache/pdf/*/*/records-*")
        for line in records.read_bytes().splitlines(keepends=True)
    )
    return Counter(int(line.split(b" ")[0]) for line in lines if line.endswith(b"\n"))


async def test_at_most_the_pages_in_work_are_done_again(store: JobStore, tmp_path: Path) -> None:
    (tmp_path / "scan.pdf").write_bytes(scan())
    env = environment(
        tmp_path / "data",
        SECRETARY_STORAGE__SOURCE_ROOTS=f"['{tmp_path}']",
        SECRETARY_GENERIC_WORKER__PROCESSES=str(PROCESSES),
    )
    parameters = {"file_path": "scan.pdf", "extraction_method": "ocr", "ocr_language": "eng"}
    job = Job(job_type="pdf", parameters=parameters)
    await store.add([job])
    first = WorkerProcess(env, tmp_path / "first.log")

    async def half_done() -> bool:
        return len(made(tmp_path / "data")) >= PAGES // 2

    try:
        await until(half_done, seconds=100, what="half of the pages")
        readable = (tmp_path / "data" / "jobs" / job.job_id / "1" / "page_001.txt").read_text()
    finally:
        first.kill()
    assert readable.strip() == "Page number 1 of the scan"
    before = made(tmp_path / "data")
    second = WorkerProcess(env, tmp_path / "second.log")
    try:
        done = await ended(store, job.job_id, seconds=100)
    finally:
        second.terminate()
    assert done.status is JobStatus.COMPLETED, done.error
    assert done.attempt == 2
    after = made(tmp_path / "data")
    twice = [number for number, times in after.items() if times > 1]
    assert len(before) < PAGES
    assert sorted(after) == list(range(1, PAGES + 1))
    # A process of the first worker may have finished the page it was at when the worker died.
    assert len(twice) <= PROCESSES, f"{len(twice)} pages were done twice: {twice}"
    directory = tmp_path / "data" / "jobs" / job.job_id / "2"
    texts = [(directory / f"page_{n:03d}.txt").read_text().strip() for n in range(1, PAGES + 1)]
    assert texts == [f"Page number {n} of the scan" for n in range(1, PAGES + 1)]
    assert done.results is not None
    assert done.results["is_from_cache"] is False
