"""SAQ with two worker processes on Redis."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from peer import HOLD_S, Job, Peer, Submit, record, tool
from saq import Queue  # type: ignore[import-not-found]  # only in the peers' environment


async def noop(_: object, *, sent: int) -> None:
    record(sent)


async def hold(_: object, *, sent: int) -> None:
    record(sent)
    await asyncio.sleep(HOLD_S)


def settings() -> dict[str, object]:
    return {"queue": Queue.from_url(os.environ["BENCH_URL"]), "functions": [noop, hold]}


@asynccontextmanager
async def client() -> AsyncIterator[Submit]:
    queue = Queue.from_url(os.environ["BENCH_URL"])

    async def submit(job: Job, sent: int) -> None:
        await queue.enqueue(job, sent=sent)

    try:
        yield submit
    finally:
        await queue.disconnect()


PEER = Peer(
    version=version("saq"),
    runs_as="2 processes with 10 coroutines each",
    durable=False,
    worker=(tool("saq"), "saq_peer.settings", "--workers", "2"),
    client=client,
)
