"""Dramatiq with its default processes and threads on Redis."""

import os
from importlib.metadata import version

import dramatiq  # type: ignore[import-not-found]  # only in the peers' environment
from dramatiq.brokers.redis import (  # type: ignore[import-not-found]  # as above
    RedisBroker,
)
from peer import Peer, blocking, hold, record, tool

broker = RedisBroker(url=os.environ.get("BENCH_URL"))
dramatiq.set_broker(broker)
ACTORS = {"noop": dramatiq.actor(record), "hold": dramatiq.actor(hold)}

PEER = Peer(
    version=version("dramatiq"),
    runs_as="2 processes with 8 threads each",
    durable=False,
    worker=(tool("dramatiq"), "dramatiq_peer", "--processes", "2", "--threads", "8"),
    client=lambda: blocking(lambda job, sent: ACTORS[job].send(sent)),
)
