"""The service as a client has it: a file goes in by HTTP, a finished job comes out."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
from arena import Failed
from processes import Tree
from servers import SERVE, Server, running

#: No job of the benchmark takes longer.
LIMIT_S = 600
ENDS = ("completed", "error", "cancelled")


@dataclass(frozen=True)
class Done:
    """A finished job. Seconds: as its client saw it, and from its start to its end."""

    client_s: float
    work_s: float
    job: Mapping[str, Any]

    @property
    def from_cache(self) -> bool:
        return bool(self.job["results"].get("is_from_cache"))

    @property
    def markdown(self) -> str:
        return str(self.job["results"].get("markdown_content") or "")


@contextmanager
def serving(root: Path, files: Path, *, processes: int) -> Iterator["Service"]:
    """A service in an empty directory, with as many child processes, that may read the files."""
    settings = {
        "SECRETARY_STORAGE__SOURCE_ROOTS": json.dumps([str(files.resolve())]),
        "SECRETARY_GENERIC_WORKER__PROCESSES": str(processes),
        "SECRETARY_GENERIC_WORKER__MAX_CONCURRENT_WORKERS": "1",
        "SECRETARY_LOGGING__LEVEL": "warning",
    }
    with running(Server("secretary", SERVE, settings=settings), root) as server:
        timeout = httpx.Timeout(30, read=LIMIT_S)
        with httpx.Client(base_url=server.url, timeout=timeout, trust_env=False) as client:
            yield Service(client, server.tree)


class Service:
    def __init__(self, client: httpx.Client, tree: Tree) -> None:
        self._client = client
        self.tree = tree

    def read(self, file: Path, *, job_type: str = "pdf", **parameters: object) -> Done:
        """A file that the service can reach itself."""
        given = {"file_path": str(file.resolve()), **parameters}
        body = {"job_type": job_type, "parameters": given}
        started = time.perf_counter()
        answer = self._client.post("/api/jobs", json=body)
        return self._finish(started, _accepted(answer)["data"]["job_id"])

    def upload(self, file: Path, **fields: str) -> Done:
        started = time.perf_counter()
        with file.open("rb") as content:
            given = {"file": (file.name, content, "application/pdf")}
            answer = self._client.post("/api/pdf/process", data=fields, files=given)
        return self._finish(started, _accepted(answer)["job_id"])

    def _finish(self, started: float, job_id: str) -> Done:
        self._wait(job_id)
        seconds = time.perf_counter() - started
        job = self._client.get(f"/api/jobs/{job_id}").raise_for_status().json()["data"]
        if job["status"] != "completed":
            raise Failed(f"the job ended {job['status']}: {(job['error'] or {}).get('message')}")
        begun, ended = (_time(job[name]) for name in ("processing_started_at", "completed_at"))
        return Done(seconds, (ended - begun).total_seconds(), job)

    def _wait(self, job_id: str) -> None:
        """Until the stream tells of the end: to ask again and again takes the worker's time."""
        with self._client.stream("GET", f"/api/jobs/{job_id}/stream") as events:
            for line in events.raise_for_status().iter_lines():
                if line.startswith("event: ") and line.removeprefix("event: ") in ENDS:
                    return
        raise Failed("the stream ended before the job")


def _accepted(answer: httpx.Response) -> Any:
    if answer.status_code >= 400:
        raise Failed(f"the job was refused: {answer.text[:200]}")
    return answer.json()


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
