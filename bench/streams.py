"""Many open event streams at once: what they cost, and how soon all hear that their jobs ended."""

import asyncio
import json
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from arena import Failed
from servers import JOB, WITHOUT_WORKER, Running, running

#: Beside the streams a process has files of its own.
MORE_FILES = 200
OPEN_LIMIT_S = 60
END_LIMIT_S = 60
SETTLE_S = 1.0


@dataclass(frozen=True)
class Streams:
    count: int
    opened_s: float
    kilobytes_each: float
    threads: int
    idle_cpu_percent: float
    """Of one core, with the heartbeats that are sent meanwhile."""
    all_told_s: float
    """From the call that cancels all jobs until each stream has brought the final event."""


def measure(count: int, *, idle_s: float, root: Path) -> Streams:
    _allow_files(count + MORE_FILES)
    with running(WITHOUT_WORKER, root) as server:
        batch = server.post("/api/batches", {"jobs": [json.loads(JOB)] * count})["data"]
        return asyncio.run(_measure(server, batch, idle_s))


async def _measure(server: Running, batch: dict[str, Any], idle_s: float) -> Streams:
    tree, job_ids = server.tree, batch["job_ids"]
    before = tree.memory_bytes()
    watch = _Watch(len(job_ids))
    started = time.monotonic()
    await _open_all(server.url, job_ids, watch)
    opened_s = time.monotonic() - started
    await asyncio.sleep(SETTLE_S)
    grown, threads = tree.memory_bytes() - before, tree.threads()
    cpu, since = tree.cpu_seconds(), time.monotonic()
    await asyncio.sleep(idle_s)
    idle = (tree.cpu_seconds() - cpu) / (time.monotonic() - since)
    started = time.monotonic()
    await asyncio.to_thread(server.post, f"/api/batches/{batch['batch_id']}/cancel", {})
    await _within(END_LIMIT_S, watch.all_ended, lambda: f"{watch.ended} streams have ended")
    return Streams(
        count=len(job_ids),
        opened_s=opened_s,
        kilobytes_each=grown / len(job_ids) / 1024,
        threads=threads,
        idle_cpu_percent=idle * 100,
        all_told_s=watch.last_at - started,
    )


async def _open_all(url: str, job_ids: list[str], watch: "_Watch") -> None:
    host, _, port = urlsplit(url).netloc.partition(":")
    for job_id in job_ids:
        request = f"GET /api/jobs/{job_id}/stream HTTP/1.1\r\nHost: {host}\r\n\r\n"
        stream = partial(_Stream, request.encode(), watch)
        await asyncio.get_running_loop().create_connection(stream, host, int(port))
    await _within(OPEN_LIMIT_S, watch.all_open, lambda: f"{watch.opened} streams have begun")


class _Watch:
    """Counts the streams that have begun, and those that have brought the end of their job."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.opened = 0
        self.ended = 0
        self.last_at = 0.0
        self.all_open = asyncio.Event()
        self.all_ended = asyncio.Event()

    def note_open(self) -> None:
        self.opened += 1
        if self.opened == self._count:
            self.all_open.set()

    def note_end(self) -> None:
        self.ended += 1
        self.last_at = time.monotonic()
        if self.ended == self._count:
            self.all_ended.set()


class _Stream(asyncio.Protocol):
    def __init__(self, request: bytes, watch: _Watch) -> None:
        self._request = request
        self._watch = watch
        self._seen = b""
        self._awaited = [b"event: pending", b"event: cancelled"]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._seen += data
        while self._awaited and self._awaited[0] in self._seen:
            self._seen = self._seen.partition(self._awaited.pop(0))[2]
            if self._awaited:
                self._watch.note_open()
            else:
                self._watch.note_end()


async def _within(seconds: float, event: asyncio.Event, state: Callable[[], str]) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        raise Failed(f"after {seconds:.0f} s only {state()}") from None


def _allow_files(count: int) -> None:
    """For us and for the servers that we start."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        if hard != resource.RLIM_INFINITY and hard < count:
            raise Failed(f"a process may have {hard} files open here, {count} are needed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
