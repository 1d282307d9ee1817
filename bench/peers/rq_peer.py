"""RQ with its default worker, a fork for each job, on Redis."""

import os
from functools import cache
from importlib.metadata import version

from peer import Job, Peer, blocking, tool
from redis import Redis  # type: ignore[import-not-found]  # only in the peers' environment
from rq import Queue  # type: ignore[import-not-found]  # only in the peers' environment

FUNCTIONS: dict[Job, str] = {"noop": "peer.record", "hold": "peer.hold"}
URL = os.environ.get("BENCH_URL", "")


@cache
def queue() -> Queue:
    return Queue(connection=Redis.from_url(URL))


PEER = Peer(
    version=version("rq"),
    runs_as="worker-pool of 2, a fork for each job",
    durable=False,
    worker=(tool("rq"), "worker-pool", "default", "--num-workers", "2", "--url", URL),
    client=lambda: blocking(lambda job, sent: queue().enqueue(FUNCTIONS[job], sent)),
)
