"""Celery with its default pool on Redis."""

import os
from importlib.metadata import version

from celery import Celery  # type: ignore[import-not-found]  # only in the peers' environment
from peer import Peer, blocking, hold, record, tool

app = Celery("bench", broker=os.environ.get("BENCH_URL"))
TASKS = {"noop": app.task(name="noop")(record), "hold": app.task(name="hold")(hold)}

PEER = Peer(
    version=version("celery"),
    runs_as="prefork pool, --concurrency 2",
    durable=False,
    worker=(tool("celery"), "-A", "celery_peer", "worker", "--concurrency", "2"),
    client=lambda: blocking(lambda job, sent: TASKS[job].delay(sent)),
)
