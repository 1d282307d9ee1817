"""The fields of a log line in addition to its message."""

import io
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from secretary import JobContext, Registry, handles
from secretary.core.job import Job
from secretary.jobs.handler import AnyParameters
from secretary.observability import logging as logs
from secretary.storage.artifacts import JobFiles
from secretary.storage.sources import Sources
from secretary.store import Store
from secretary.worker.executor import Execution, Executor
from secretary.worker.sandbox import Sandbox

from ..contract.factories import claim

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

logger = logging.getLogger("tests.handler")


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    written = io.StringIO()
    handler = logs.log_handler(written, as_json=True)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield written
    logger.removeHandler(handler)


@handles("talks")
async def talks(ctx: JobContext[AnyParameters]) -> None:
    logger.info("Hello")


async def test_while_a_job_runs_each_record_has_its_id_and_its_trace(
    store: Store, tmp_path: Path, lines: io.StringIO
) -> None:
    executor = Executor(
        store=store,
        registry=Registry([talks]),
        sandbox=Sandbox(1),
        files=JobFiles(tmp_path),
        sources=Sources(tmp_path),
    )
    job = Job(job_type="talks", traceparent=TRACE)
    await store.add([job])
    await Execution(executor, (await claim(store))[0]).task
    logger.info("Afterwards")
    during, after = (json.loads(line) for line in lines.getvalue().splitlines())
    assert (during["job_id"], during["trace_id"]) == (job.job_id, TRACE.split("-")[1])
    assert (after["job_id"], after["trace_id"]) == (None, None)


def test_nobody_can_write_a_record_of_their_own() -> None:
    written = io.StringIO()
    handler = logs.log_handler(written, as_json=False)
    text = "a\n2026-11-16 INFO [job-1] secretary: All is well\r\x1b[2J\x00\u2028b"
    try:
        raise ValueError(text)
    except ValueError:
        handler.handle(logging.LogRecord("x", 20, "", 0, "Said: %s", (text,), sys.exc_info()))
    first, *more = written.getvalue().rstrip("\n").split("\n")
    assert first.endswith("x: Said: a")
    assert more[:2] == [
        "    2026-11-16 INFO [job-1] secretary: All is well",
        "    \\x1b[2J\\x00\\u2028b",
    ]
    assert [line for line in more if not line.startswith("    ")] == []
    assert not set(written.getvalue()) & set("\r\x1b\x00\u2028")
