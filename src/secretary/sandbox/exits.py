"""The end of a process of ours: waiting for it, and learning of what it died."""

import asyncio
import os
from dataclasses import dataclass

#: A process that was killed should be gone by then.
DEATH_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Exit:
    #: As subprocess has it: negative for a signal; None if somebody else has taken the news.
    code: int | None
    cpu_seconds: float


async def exit_of(pid: int) -> Exit:
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):  # no Linux, or an old one
        while (exit := reap(pid)) is None:
            await asyncio.sleep(0.02)
        return exit
    await _readable(descriptor)
    return reap(pid) or Exit(None, 0.0)


def reap(pid: int) -> Exit | None:
    try:
        reaped, status, usage = os.wait4(pid, os.WNOHANG)
    except ChildProcessError:
        return Exit(None, 0.0)
    if not reaped:
        return None
    return Exit(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime)


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    readable = loop.create_future()
    loop.add_reader(descriptor, readable.set_result, None)
    try:
        await readable
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
