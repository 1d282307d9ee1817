"""A page that crashes the library while it is rendered; here a signal causes the crash."""

import asyncio
import os
import signal
import time
from pathlib import Path

from secretary.core import processes

from ..hostile_pdfs import second_of_three_for_ever
from ..minimal_files import pdf
from ..service_fixture import ServiceClient, running_service

PDF = "/api/pdf/process"
SECONDS = 60
#: Seconds of work, more than startup and rendering the other pages take.
LONG = 1.5


def drawing() -> list[int]:
    """The child processes that are rendering the second page."""
    return [each.pid for each in processes.descendants(os.getpid()) if _is_drawing(each.pid)]


def _is_drawing(pid: int) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        has_library = "libpdfium" in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return fields[0] == "R" and has_library and seconds > LONG


async def crash_while_it_draws(service: ServiceClient, job_id: str) -> int:
    """Kill them until the job has finished; return how often."""
    crashes = 0
    deadline = time.monotonic() + SECONDS
    while (await service.job(job_id))["completed_at"] is None:
        assert time.monotonic() < deadline
        for pid in drawing():
            os.kill(pid, signal.SIGSEGV)
            crashes += 1
        await asyncio.sleep(0.1)
    return crashes


async def test_a_page_that_crashes_the_library_is_named_and_the_others_are_kept(
    tmp_path: Path,
) -> None:
    settings = {"max_concurrent_workers": 1, "processes": 1, "max_crashes": 1}
    async with running_service(tmp_path, generic_worker=settings) as service:
        job_id = await service.submit_file(
            PDF, second_of_three_for_ever(), "a.pdf", extraction_method="preview"
        )
        crashes = await crash_while_it_draws(service, job_id)
        job = await service.job(job_id)
        good = await service.read(PDF, pdf("Good"), "good.pdf")
        (entry,) = tmp_path.glob("cache/pdf/*/preview*/preview_001.jpg")
    assert job["status"] == "failed"
    assert job["error"]["code"] == "WORKER_CRASHED"
    assert job["error"]["message"] == "Page 2: The worker process was killed by SIGSEGV."
    assert job["error"]["details"]["page"] == 2
    assert crashes >= 2
    assert not list(entry.parent.glob("assembled*"))
    assert "Good" in good["extracted_text"]
    assert await service.leftovers(uploads=False) == []
