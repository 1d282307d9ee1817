"""The command line that all rows share: `python verbs.py MODULE VERB …`.

    about             {"version", "runs_as", "durable", "extra"}; what the table says of the row
    worker            becomes the worker; ends only by being killed
    enqueue N         N no-op jobs, one by one, as fast as the API allows; {"jobs", "seconds"}
    probe K GAP_MS    K no-op jobs with a pause after each; {"jobs"}
    hold              one job that runs for ten minutes; {"jobs"}
    extra             {title: value}; figures that only this row has

Every verb but `worker` prints one line of JSON last and ends with status 0.
"""

import asyncio
import importlib
import json
import os
import sys
import time
from collections.abc import Mapping
from importlib.metadata import version

from peer import Peer, Submit


def main(module: str, verb: str, *arguments: str) -> None:
    peer: Peer = importlib.import_module(module).PEER
    if verb == "worker":
        os.execvp(peer.worker[0], peer.worker)
    print(json.dumps(asyncio.run(_answer(peer, verb, *map(int, arguments)))))


async def _answer(peer: Peer, verb: str, *numbers: int) -> Mapping[str, object]:
    if verb == "about":
        return _about(peer)
    if verb == "extra":
        return await peer.extra() if peer.extra else {}
    async with peer.client() as submit:
        match verb, numbers:
            case "enqueue", (count,):
                return await _enqueue(submit, count)
            case "probe", (count, gap_ms):
                return await _probe(submit, count, gap_ms=gap_ms)
            case "hold", ():
                await submit("hold", time.monotonic_ns())
                return {"jobs": 1}
    raise SystemExit(__doc__)


def _about(peer: Peer) -> Mapping[str, object]:
    return {
        "version": version(peer.package),
        "runs_as": peer.runs_as,
        "durable": peer.durable,
        "extra": peer.extra is not None,
    }


async def _enqueue(submit: Submit, count: int) -> Mapping[str, object]:
    await submit("noop", time.monotonic_ns())  # connects; not timed
    started = time.monotonic_ns()
    for _ in range(count - 1):
        await submit("noop", time.monotonic_ns())
    return {"jobs": count - 1, "seconds": (time.monotonic_ns() - started) / 1e9}


async def _probe(submit: Submit, count: int, *, gap_ms: int) -> Mapping[str, object]:
    for _ in range(count):
        await submit("noop", time.monotonic_ns())
        await asyncio.sleep(gap_ms / 1000)
    return {"jobs": count}


if __name__ == "__main__":
    main(*sys.argv[1:])
