"""The command line of all rows: `python verbs.py MODULE VERB …`.

    about             {"version", "runs_as", "durable", "extra"}; what the table shows of the row
    worker            becomes the worker, which runs until it is killed
    enqueue N         N no-op jobs, one by one; {"jobs", "seconds"}
    enqueue N M       the same from M concurrent callers
    probe K GAP_MS    K no-op jobs each followed by a pause; {"jobs"}
    hold              one job that runs for ten minutes; {"jobs"}
    extra             figures that only this row has

Every verb but `worker` prints one line of JSON last and exits with 0.
"""

import asyncio
import importlib
import json
import os
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from peer import Blocking, Peer, Submit


def main(module: str, verb: str, *arguments: str) -> None:
    peer: Peer = importlib.import_module(module).PEER
    if verb == "worker":
        os.execvpe(peer.worker[0], peer.worker, os.environ | dict(peer.worker_env))
    print(json.dumps(asyncio.run(_answer(peer, verb, *map(int, arguments)))))


async def _answer(peer: Peer, verb: str, *numbers: int) -> Mapping[str, object]:
    if verb == "about":
        return _about(peer)
    if verb == "extra":
        return await peer.extra() if peer.extra else {}
    async with peer.client() as submit:
        match verb, numbers:
            case "enqueue", (count,):
                return await _enqueue(submit, count, callers=1)
            case "enqueue", (count, callers):
                return await _enqueue(submit, count, callers=callers)
            case "probe", (count, gap_ms):
                return await _probe(submit, count, gap_ms=gap_ms)
            case "hold", ():
                await submit("hold", time.monotonic_ns())
                return {"jobs": 1}
    raise SystemExit(__doc__)


def _about(peer: Peer) -> Mapping[str, object]:
    return {
        "version": peer.version,
        "runs_as": peer.runs_as,
        "durable": peer.durable,
        "extra": peer.extra is not None,
    }


async def _enqueue(submit: Submit, count: int, *, callers: int) -> Mapping[str, object]:
    await submit("noop", time.monotonic_ns())  # connects; not timed
    each = (count - 1) // callers
    started = time.monotonic_ns()
    if isinstance(submit, Blocking) and callers > 1:
        _enqueue_from_threads(submit, each, callers)
    else:
        await asyncio.gather(*(_enqueue_in_turn(submit, each) for _ in range(callers)))
    return {"jobs": each * callers, "seconds": (time.monotonic_ns() - started) / 1e9}


async def _enqueue_in_turn(submit: Submit, count: int) -> None:
    for _ in range(count):
        await submit("noop", time.monotonic_ns())


def _enqueue_from_threads(client: Blocking, each: int, callers: int) -> None:
    def work() -> None:
        for _ in range(each):
            client.submit("noop", time.monotonic_ns())

    with ThreadPoolExecutor(callers) as threads:
        for done in [threads.submit(work) for _ in range(callers)]:
            done.result()


async def _probe(submit: Submit, count: int, *, gap_ms: int) -> Mapping[str, object]:
    for _ in range(count):
        await submit("noop", time.monotonic_ns())
        await asyncio.sleep(gap_ms / 1000)
    return {"jobs": count}


if __name__ == "__main__":
    main(*sys.argv[1:])
