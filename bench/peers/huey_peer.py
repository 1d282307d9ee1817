"""Huey: on Redis where it is given a server, else on SQLite with every commit synced."""

import os
from importlib.metadata import version

from huey import (  # type: ignore[import-not-found]  # only in the peers' environment
    RedisHuey,
    SqliteHuey,
)
from peer import Peer, blocking, hold, record, tool

URL = os.environ.get("BENCH_URL")

huey = RedisHuey(url=URL) if URL else SqliteHuey(filename="huey.db", fsync=True)
TASKS = {"noop": huey.task()(record), "hold": huey.task()(hold)}

PEER = Peer(
    version=version("huey"),
    runs_as="2 worker processes" + ("" if URL else ", fsync=True"),
    durable=not URL,
    worker=(tool("huey_consumer"), "huey_peer.huey", "--workers", "2", "--worker-type", "process"),
    client=lambda: blocking(lambda job, sent: TASKS[job](sent)),
)
