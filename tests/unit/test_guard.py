"""The process that watches over a sandbox's others."""

import asyncio
import os
import signal
from pathlib import Path

from secretary import processes
from secretary.sandbox.guard import Guard


def guards(token: str) -> list[int]:
    """The processes that were started with this word."""
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal() and processes.find(int(directory.name)):
            try:
                command = (directory / "cmdline").read_bytes()
            except OSError:  # it has just ended
                continue
            if token.encode() in command.split(b"\0"):
                found.append(int(directory.name))
    return found


async def until_there_is_one(token: str) -> int:
    async with asyncio.timeout(20):
        while not (found := guards(token)):
            await asyncio.sleep(0.01)
    return found[0]


async def test_a_guard_that_died_is_replaced() -> None:
    guard = Guard("test-of-a-guard")
    first = await until_there_is_one("test-of-a-guard")
    os.kill(first, signal.SIGKILL)
    async with asyncio.timeout(20):
        while guards("test-of-a-guard") in ([first], []):
            guard.show_life()
            await asyncio.sleep(0.01)
    guard.show_life()
    await guard.close()
    assert guards("test-of-a-guard") == []
