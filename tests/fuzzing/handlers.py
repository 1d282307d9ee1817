"""The handlers of the service under test: one that creates files, and an audit hook that blocks the
network. A fuzzer makes up URLs anywhere; this process cannot resolve or reach any of them."""

import sys
import zipfile
from typing import Any

from secretary import JobContext, Registry, handles
from secretary.jobs.handler import AnyParameters

LOOPBACK = ("127.", "::1", "localhost")


@handles("paper")
async def paper(ctx: JobContext[AnyParameters]) -> dict[str, Any]:
    (ctx.directory / "paper.txt").write_text("Made for the schema's sake\n")
    with zipfile.ZipFile(ctx.directory / "all.zip", "w") as archive:
        archive.write(ctx.directory / "paper.txt", "paper.txt")
    return {"archive_filename": "all.zip"}


def register(registry: Registry) -> None:
    registry.add(paper)
    sys.addaudithook(_stay_here)


def _stay_here(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.getaddrinfo":
        host = arguments[0]
    elif event in ("socket.connect", "socket.sendto"):
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else None  # else a Unix socket
    else:
        return
    if host is not None and not str(host).startswith(LOOPBACK):
        raise OSError("The tests do not leave this machine")
