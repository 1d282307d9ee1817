"""RQ with its default worker, a fork per job, on Redis; with BENCH_DURABLE it retries lost jobs."""

import os
from functools import cache
from importlib.metadata import version
from typing import Any

from peer import Job, Peer, blocking, tool
from redis import Redis  # type: ignore[import-not-found]  # only in the peers' environment
from rq import Queue, Retry  # type: ignore[import-not-found]  # only in the peers' environment

DURABLE = bool(os.environ.get("BENCH_DURABLE"))
FUNCTIONS: dict[Job, str] = {"noop": "peer.record", "hold": "peer.hold"}
OPTIONS: dict[str, Any] = {"retry": Retry(max=3)} if DURABLE else {}
URL = os.environ.get("BENCH_URL", "")


@cache
def queue() -> Queue:
    return Queue(connection=Redis.from_url(URL))


PEER = Peer(
    version=version("rq"),
    runs_as="worker-pool of 2, a fork per job" + (", Retry(max=3)" if DURABLE else ""),
    durable=DURABLE,
    worker=(tool("rq"), "worker-pool", "default", "--num-workers", "2", "--url", URL),
    client=lambda: blocking(lambda job, sent: queue().enqueue(FUNCTIONS[job], sent, **OPTIONS)),
)
