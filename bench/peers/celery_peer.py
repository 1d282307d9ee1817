"""Celery with its default pool on Redis; with BENCH_DURABLE so that it loses no job."""

import os
from importlib.metadata import version

from celery import Celery  # type: ignore[import-not-found]  # only in the peers' environment
from peer import Peer, blocking, hold, record, tool

DURABLE = bool(os.environ.get("BENCH_DURABLE"))
app = Celery("bench", broker=os.environ.get("BENCH_URL"))
app.conf.task_acks_late = app.conf.task_reject_on_worker_lost = DURABLE
TASKS = {"noop": app.task(name="noop")(record), "hold": app.task(name="hold")(hold)}

PEER = Peer(
    version=version("celery"),
    runs_as="prefork pool, --concurrency 2"
    + (", acks_late, reject_on_worker_lost" if DURABLE else ""),
    durable=DURABLE,
    worker=(tool("celery"), "-A", "celery_peer", "worker", "--concurrency", "2"),
    client=lambda: blocking(lambda job, sent: TASKS[job].delay(sent)),
)
