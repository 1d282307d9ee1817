"""Runs the command line as users do: as real processes, in their own directory."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from ..no_tls import NO_TLS
from ..polling import wait_until
from .service import ROOT, environment
from .warm_python import warm_python

COMMAND = [sys.executable, "-m", "secretary"]


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Program:
    """`secretary …` with one data directory."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.directory = directory
        self.data_dir = directory / "data"
        self.env = environment(self.data_dir, **settings)

    def run(self, *arguments: str, seconds: float = 30, stdin: str | None = None) -> Result:
        warm = warm_python(ROOT)
        if warm.fits(self.env):
            options: dict[str, Any] = {"env": self.env, "cwd": self.directory}
            return Result(*warm.run([*arguments], **options, stdin=stdin, seconds=seconds))
        done = subprocess.run(
            [*COMMAND, *arguments],
            env=self.env,
            cwd=self.directory,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=seconds,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def json(self, *arguments: str) -> Any:
        """The parsed output of a command with --json, which must succeed."""
        result = self.run(*arguments, "--json")
        assert result.code == 0, result.err
        return result.json

    @contextmanager
    def started(self, *arguments: str) -> Iterator["Running"]:
        """Run the program in the background; stop it if it has not exited by itself."""
        running = Running([*COMMAND, *arguments], self.env, self.directory)
        try:
            yield running
        finally:
            running.end()

    @contextmanager
    def serving(self, *arguments: str) -> Iterator["Running"]:
        with self.started("serve", "--port", "0", *arguments) as running:
            running.url = running.wait_for(r"listens on (\S+)")
            yield running


class Running:
    """A background process. It leads a process group, like a foreground job in a terminal."""

    url = ""

    def __init__(self, command: list[str], env: dict[str, str], directory: Path) -> None:
        number = len(list(directory.glob("*.out")))
        self._out, self._err = directory / f"{number}.out", directory / f"{number}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                command,
                env={**env, "PYTHONUNBUFFERED": "1"},
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def wait_for(self, pattern: str, *, seconds: float = 30) -> str:
        """Wait until the output matches the pattern; return its first group."""
        deadline = time.monotonic() + seconds
        while (match := re.search(pattern, self.out + self.err)) is None:
            assert self.process.poll() is None, f"The process exited: {self.err}"
            assert time.monotonic() < deadline, f"No {pattern!r} in: {self.out}{self.err}"
            time.sleep(0.02)
        return match[1] if match.groups() else match[0]

    def interrupt(self) -> None:
        """Press Ctrl-C: a terminal sends the signal to the whole process group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def wait(self, *, seconds: float = 30) -> int:
        return self.process.wait(seconds)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()

    # The API of a service

    def get(self, path: str, **options: Any) -> httpx.Response:
        return httpx.get(self.url + path, verify=NO_TLS, trust_env=False, timeout=10, **options)

    def post(self, path: str, document: Any = None, **options: Any) -> httpx.Response:
        plain: dict[str, Any] = {"verify": NO_TLS, "trust_env": False, "timeout": 10}
        return httpx.post(self.url + path, json=document, **plain, **options)

    def submit(self, **document: Any) -> str:
        response = self.post("/api/jobs", {"job_type": "selftest", **document})
        assert response.status_code == 202, response.text
        job_id: str = response.json()["data"]["job_id"]
        return job_id

    def submit_file(self, route: str, name: str, content: bytes, **fields: str) -> str:
        """Upload a file to `/api/<route>/process`."""
        data = {**fields, "async": "true"}
        response = self.post(f"/api/{route}/process", files={"file": (name, content)}, data=data)
        assert response.status_code == 202, response.text
        job_id: str = response.json()["job_id"]
        return job_id

    def job(self, job_id: str) -> dict[str, Any]:
        document: dict[str, Any] = self.get(f"/api/jobs/{job_id}").json()["data"]
        return document

    def wait_until(self, job_id: str, *statuses: str, seconds: float = 20) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while (job := self.job(job_id))["status"] not in statuses:
            assert time.monotonic() < deadline, f"{job_id} is {job['status']}"
            time.sleep(0.02)
        return job

    def wait_for_answer(
        self, path: str, *, status: int = 200, text: str = "", seconds: float = 5
    ) -> httpx.Response:
        """Wait until the response has this status and contains this text."""

        def answered() -> httpx.Response | None:
            answer = self.get(path)
            return answer if answer.status_code == status and text in answer.text else None

        response: httpx.Response = wait_until(answered, seconds=seconds, what=f"{path}: {text}")
        return response
