"""Jobs as they change, where there is no terminal: a line or a document for each change."""

from collections.abc import Callable, Sequence
from datetime import datetime

from .meter import gist
from .output import print_json_line, say
from .place import FINAL, Advance, Document

Show = Callable[[Sequence[Document]], None]


def as_lines() -> Show:
    told: dict[str, object] = {}

    def show(jobs: Sequence[Document]) -> None:
        for job in jobs:
            advance = Advance.of(job)
            now = (job["status"], gist(advance))
            if told.get(job["job_id"]) != now:
                told[job["job_id"]] = now
                say(_line(job, advance))

    return show


def as_documents() -> Show:
    told: dict[str, object] = {}

    def show(jobs: Sequence[Document]) -> None:
        for job in jobs:
            now = (job["status"], job["progress"])
            if told.get(job["job_id"]) != now:
                told[job["job_id"]] = now
                print_json_line(job)

    return show


def what_of(job: Document, advance: Advance) -> str:
    """What a job is at, or how it ended."""
    if job["error"] and job["status"] in FINAL:
        return f"{job['error']['code']}: {job['error']['message']}"
    return "" if job["status"] in FINAL else advance.text


def _line(job: Document, advance: Advance) -> str:
    told = (
        f"{datetime.now():%H:%M:%S}",
        job["job_id"],
        job["job_type"],
        job["status"],
        f"{advance.percent} %",
        what_of(job, advance),
    )
    return " ".join(told).rstrip()
