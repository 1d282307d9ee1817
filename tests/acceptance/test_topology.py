"""Several machines: MongoDB, an API without a worker, and workers with their own directories."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.minimal_files import pdf
from tests.mongod import Mongod
from tests.polling import wait_until

from .program import Program, Running


class Machines:
    """Each program has its own data directory; they share only MongoDB."""

    def __init__(self, directory: Path, uri: str) -> None:
        self._directory = directory
        self._uri = uri
        self._stack = ExitStack()
        self.api = self._stack.enter_context(self.program("api").serving("--no-worker"))

    def program(self, name: str) -> Program:
        directory = self._directory / name
        directory.mkdir()
        return Program(directory, MONGODB_URI=self._uri)

    def hire(self, name: str, *options: str) -> Running:
        arguments = ("worker", "--metrics-port", "0", *options)
        before = len(self.workers())
        worker = self._stack.enter_context(self.program(name).started(*arguments))
        worker.url = worker.wait_for(r"Metrics are at (\S+)/metrics")
        wait_until(lambda: len(self.workers()) > before, what="that the worker announces itself")
        return worker

    def workers(self) -> list[dict[str, Any]]:
        workers: list[dict[str, Any]] = self.api.get("/api/workers").json()["data"]["workers"]
        return workers

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def machines(tmp_path: Path, mongod: Mongod) -> Iterator[Machines]:
    machines = Machines(tmp_path, mongod.url(f"test_{uuid4().hex[:12]}"))
    yield machines
    machines.close()


def test_each_worker_runs_its_job_types_and_any_api_reports_them(machines: Machines) -> None:
    machines.hire("documents", "--types", "pdf,office", "--slots", "2")
    other = machines.hire("others", "--types", "selftest", "--slots", "5")
    workers = {(*one["job_types"], one["slots"]): one for one in machines.workers()}
    assert workers.keys() == {("office", "pdf", 2), ("selftest", 5)}
    assert all(one["alive"] and not one["draining"] for one in workers.values())

    # One machine accepts a job, another runs it, a third serves the result.
    document = httpx.post(
        f"{machines.api.url}/api/pdf/process?sync=true",
        files={"file": ("letter.pdf", pdf("Across machines"))},
        trust_env=False,
        timeout=60,
    ).json()
    assert "Across machines" in document["data"]["extracted_text"]
    test = machines.api.wait_until(machines.api.submit(), "completed")
    by_worker = {one["worker_id"]: one["job_types"] for one in workers.values()}
    assert by_worker[test["attempts"][-1]["worker_id"]] == ["selftest"]

    assert other.get("/api/health/ready").status_code == 200
    counted = 'secretary_jobs_ended_total{code="",job_type="selftest",status="completed"} 1.0'
    other.wait_for_answer("/metrics", text=counted)  # counted after the job has finished


def test_the_command_line_lists_the_workers_of_all_machines(machines: Machines) -> None:
    machines.hire("first", "--types", "pdf", "--slots", "4")
    second = machines.hire("second")
    operator = machines.program("operator")
    listed = operator.json("workers", "list")["workers"]
    assert [(one["slots"], one["job_types"]) for one in listed] == [(4, ["pdf"]), (3, [])]
    # Printed as the API returns them; a heartbeat may have come in between.
    assert [_lasting(one) for one in listed] == [_lasting(one) for one in machines.workers()]
    shown = operator.run("workers", "list").out
    assert "pdf" in shown and "everything" in shown and shown.count("alive") == 2
    second.process.terminate()
    assert second.wait() == 0
    assert operator.run("workers", "list").out.count("alive") == 1


def _lasting(worker: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in worker.items() if name != "seen_at"}
