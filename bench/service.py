"""Secretary as its clients use it: a file goes in over HTTP, a finished job comes out."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
from harness import Failed
from processes import SERVE, Server, Tree, running

#: No job of the benchmarks takes longer.
LIMIT_S = 600
FINAL_EVENTS = ("completed", "error", "cancelled")


@dataclass(frozen=True)
class Done:
    """A completed job, the seconds its client waited and the seconds of its execution."""

    client_s: float
    execution_s: float
    job: Mapping[str, Any]

    @property
    def from_cache(self) -> bool:
        return bool(self.job["results"].get("is_from_cache"))


@contextmanager
def serving(root: Path, files: Path, *, processes: int) -> Iterator["Service"]:
    """A service in an empty directory, with this many child processes, that may read the files."""
    settings = {
        "SECRETARY_STORAGE__SOURCE_ROOTS": json.dumps([str(files.resolve())]),
        "SECRETARY_GENERIC_WORKER__PROCESSES": str(processes),
        "SECRETARY_GENERIC_WORKER__MAX_CONCURRENT_WORKERS": "1",
        "SECRETARY_LOGGING__LEVEL": "warning",
    }
    timeout = httpx.Timeout(30, read=LIMIT_S)
    with (
        running(Server("secretary", SERVE, settings), root) as server,
        httpx.Client(base_url=server.url, timeout=timeout, trust_env=False) as client,
    ):
        yield Service(client, server.tree, processes)


class Service:
    def __init__(self, client: httpx.Client, tree: Tree, processes: int) -> None:
        self._client = client
        self.tree, self.processes = tree, processes

    def read(self, file: Path, *, job_type: str = "pdf", **parameters: object) -> Done:
        """A file that the service reads from disk."""
        given = {"file_path": str(file.resolve()), **parameters}
        started = time.perf_counter()
        body = {"job_type": job_type, "parameters": given}
        response = self._client.post("/api/jobs", json=body)
        return self._finish(started, _accepted(response)["data"]["job_id"])

    def upload(self, file: Path) -> Done:
        started = time.perf_counter()
        with file.open("rb") as content:
            given = {"file": (file.name, content, "application/pdf")}
            response = self._client.post("/api/pdf/process", files=given)
        return self._finish(started, _accepted(response)["job_id"])

    def _finish(self, started: float, job_id: str) -> Done:
        self._wait(job_id)
        seconds = time.perf_counter() - started
        job = self._client.get(f"/api/jobs/{job_id}").raise_for_status().json()["data"]
        if job["status"] != "completed":
            raise Failed(f"the job is {job['status']}: {(job['error'] or {}).get('message')}")
        return Done(seconds, execution_seconds(job), job)

    def _wait(self, job_id: str) -> None:
        """For the final event of the stream: polling would take CPU from the worker."""
        with self._client.stream("GET", f"/api/jobs/{job_id}/stream") as events:
            for line in events.raise_for_status().iter_lines():
                if line.startswith("event: ") and line.removeprefix("event: ") in FINAL_EVENTS:
                    return
        raise Failed("the stream ended before the job")


def execution_seconds(job: Mapping[str, Any]) -> float:
    begin, end = job["processing_started_at"], job["completed_at"]
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()


def _accepted(response: httpx.Response) -> Any:
    if response.status_code >= 400:
        raise Failed(f"the job was rejected: {response.text[:200]}")
    return response.json()
