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
        about = {name: getattr(peer, name) for name in ("version", "runs_as", "durable")}
        return about | {"extra": peer.extra is not None}
    if verb == "extra":
        return await peer.extra() if peer.extra else {}
    async with peer.client() as submit:
        match verb, numbers:
            case "enqueue", (count, *callers):
                return await _enqueue(submit, count, *callers)
            case "probe", (count, gap_ms):
                for _ in range(count):
                    await submit("noop", time.monotonic_ns())
                    await asyncio.sleep(gap_ms / 1000)
                return {"jobs": count}
            case "hold", ():
                await submit("hold", time.monotonic_ns())
                return {"jobs": 1}
    raise SystemExit(__doc__)


async def _enqueue(submit: Submit, count: int, callers: int = 1) -> Mapping[str, object]:
    await submit("noop", time.monotonic_ns())  # connects; not timed
    each = (count - 1) // callers

    async def enqueue() -> None:
        for _ in range(each):
            await submit("noop", time.monotonic_ns())

    started = time.monotonic_ns()
    if isinstance(submit, Blocking) and callers > 1:
        with ThreadPoolExecutor(callers) as threads:
            for done in [threads.submit(asyncio.run, enqueue()) for _ in range(callers)]:
                done.result()
    else:
        await asyncio.gather(*(enqueue() for _ in range(callers)))
    return {"jobs": each * callers, "seconds": (time.monotonic_ns() - started) / 1e9}


if __name__ == "__main__":
    main(*sys.argv[1:])
