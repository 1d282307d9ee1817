"""A service with something to show in every view of the dashboard."""

from collections.abc import Iterator
from dataclasses import dataclass

from .acceptance.program import Running
from .audio_files import speech
from .sample_documents import encrypted_pdf


@dataclass(frozen=True)
class View:
    """The URL of a view, and what it shows when it is ready."""

    name: str
    address: str
    ready: str


def fill(service: Running, report: bytes) -> dict[str, str]:
    """Jobs of every kind and state; their IDs by name."""
    ids = {
        "pdf": service.submit_file(
            "pdf", "Annual report.pdf", report, extraction_method="preview_and_native"
        ),
        "failed": service.submit_file("pdf", "Contract.pdf", encrypted_pdf(6)),
        "audio": service.submit_file("audio", "Standup.wav", speech().read_bytes()),
    }
    for number in range(12):
        service.submit(job_name=f"Import {number + 1}", parameters={"seconds": 0.02})
    jobs = [
        {"job_type": "selftest", "job_name": f"Talk {n}", "parameters": {"seconds": 0.01}}
        for n in range(1, 9)
    ] + [{"job_type": "nobody", "job_name": "Talk 9"}]
    answer = service.post("/api/batches", {"batch_name": "A conference", "jobs": jobs})
    ids["batch"] = answer.json()["data"]["batch_id"]
    waiting = service.post("/api/batches", {"batch_name": "Later", "jobs": jobs, "isActive": False})
    ids["paused"] = waiting.json()["data"]["batch_id"]
    for name in ("pdf", "failed", "audio"):
        service.wait_until(ids[name], "completed", "failed", seconds=120)
    ids["running"] = service.submit(
        job_name="A long one", parameters={"seconds": 600, "steps": 600}
    )
    return ids


def views(ids: dict[str, str]) -> Iterator[View]:
    yield View("overview", "/", ".chart svg")
    yield View("jobs", "/jobs", "tbody tr")
    yield View("batches", "/batches", "tbody tr, .card")
    yield View("batch", f"/batch/{ids['batch']}", "tbody tr, .card")
    yield View("new", "/new", "#send")
    yield View("templates", "/templates", "tbody tr, .card")
    yield View("template", "/template/Blog_en", "h1")
    yield View("system", "/system", ".group")
    yield View("job", f"/job/{ids['pdf']}", ".page img")
    yield View("audio", f"/job/{ids['audio']}", ".transcript li")
    yield View("failed", f"/job/{ids['failed']}", ".failure")
    yield View("running", f"/job/{ids['running']}", "#progress progress")
