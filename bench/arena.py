"""A fresh directory, server and worker for one measurement of one row."""

import json
import os
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from adapter import PEERS, Adapter
from processes import Tree

CLIENT_LIMIT_S = 90
SERVICE_LIMIT_S = 30


class Failed(Exception):
    """A measurement that gave no figure; the message says why."""


@contextmanager
def noting_failure(failures: list[str], what: str = "") -> Iterator[None]:
    """What fails must not cost all others their figures."""
    try:
        yield
    except Failed as failure:
        failures.append(f"{what}: {failure}" if what else str(failure))


class Record(NamedTuple):
    sent_ns: int
    started_ns: int


@contextmanager
def open_arena(adapter: Adapter, root: Path) -> Iterator["Arena"]:
    directory = Path(tempfile.mkdtemp(prefix=f"{adapter.name}-", dir=root))
    arena = Arena(adapter, directory)
    try:
        arena.start_service()
        yield arena
    finally:
        arena.close()
        shutil.rmtree(directory, ignore_errors=True)


class Arena:
    def __init__(self, adapter: Adapter, directory: Path) -> None:
        self._adapter = adapter
        self._directory = directory
        self._env = {**environment(directory), **adapter.settings}
        self.service: Tree | None = None
        self.worker: Tree | None = None

    def start_service(self) -> None:
        if not (command := self._adapter.service_command()):
            return
        log = self._directory / "service.log"
        service = self.service = self._start(command, log)
        self.wait(
            lambda: '"url"' in _last_line(log.read_text()) or not service.running(),
            "its server to answer",
            SERVICE_LIMIT_S,
        )
        self._env["BENCH_URL"] = _last_json(log.read_text())["url"]

    def start_worker(self) -> None:
        command = self._adapter.command("worker")
        self.worker = self._start(command, self._directory / "worker.log")

    def kill_worker(self) -> None:
        if self.worker:
            self.worker.kill()
        self.worker = None

    def client(
        self, verb: str, *arguments: int, limit_s: float = CLIENT_LIMIT_S
    ) -> Mapping[str, Any]:
        try:
            done = subprocess.run(
                self._adapter.command(verb, *arguments),
                cwd=self._directory,
                env=self._env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=limit_s,
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"{verb} took more than {limit_s:.0f} s") from None
        if done.returncode:
            raise Failed(f"{verb} ended with {done.returncode}: {_last_line(done.stderr)}")
        return _last_json(done.stdout)

    def records(self) -> list[Record]:
        data = self._records.read_bytes() if self._records.exists() else b""
        return [Record(*fields) for fields in struct.iter_unpack("<qq", data)]

    def started(self) -> int:
        """How many jobs have started; costs one stat."""
        return self._records.stat().st_size // 16 if self._records.exists() else 0

    def wait(self, holds: Callable[[], bool], what: str, limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while not holds():
            if self.worker and not self.worker.running():
                log = (self._directory / "worker.log").read_text(errors="replace")
                raise Failed(f"the worker ended: {_last_line(log)}")
            if time.monotonic() > deadline:
                raise Failed(f"waited {limit_s:.0f} s for {what}")
            time.sleep(0.02)

    def close(self) -> None:
        self.kill_worker()
        if self.service:
            self.service.kill()

    @property
    def directory(self) -> Path:
        return self._directory

    @property
    def url(self) -> str:
        """Of its server."""
        return self._env["BENCH_URL"]

    @property
    def _records(self) -> Path:
        return self._directory / "records"

    def _start(self, command: list[str], output: Path) -> Tree:
        return Tree(command, directory=self._directory, env=self._env, output=output)


def environment(directory: Path) -> dict[str, str]:
    """Ours, but for the settings and the database of a service that our caller may have."""
    foreign = ("SECRETARY_", "MONGODB_URI", "BENCH_")
    env = {name: text for name, text in os.environ.items() if not name.startswith(foreign)}
    return env | {"BENCH_DIR": str(directory), "PYTHONPATH": _python_path()}


def _python_path() -> str:
    """That of our caller comes behind the peers: it may be how our own package is found."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join([str(PEERS), *(str(Path(entry).resolve()) for entry in given if entry)])


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no output"])[-1]


def _last_json(text: str) -> Mapping[str, Any]:
    try:
        answer: Mapping[str, Any] = json.loads(_last_line(text))
    except ValueError:
        raise Failed(f"not JSON: {_last_line(text)}") from None
    return answer
