"""The process that watches over the processes of a sandbox."""

import asyncio
import os
import signal
import subprocess
from pathlib import Path

from secretary.core import processes
from secretary.worker.sandbox.pool import Watchdog


def watchdogs_with(token: str) -> list[int]:
    """The processes that were started with this token."""
    watchdogs = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal() and processes.find(int(directory.name)):
            try:
                command = (directory / "cmdline").read_bytes()
            except OSError:  # it has just exited
                continue
            if token.encode() in command.split(b"\0"):
                watchdogs.append(int(directory.name))
    return watchdogs


async def until_there_is_one(token: str) -> int:
    async with asyncio.timeout(20):
        while not (watchdogs := watchdogs_with(token)):
            await asyncio.sleep(0.01)
    return watchdogs[0]


async def test_a_dead_watchdog_is_replaced() -> None:
    guard = Watchdog("test-of-a-guard")
    first = await until_there_is_one("test-of-a-guard")
    os.kill(first, signal.SIGKILL)
    async with asyncio.timeout(20):
        while watchdogs_with("test-of-a-guard") in ([first], []):
            guard.heartbeat()
            await asyncio.sleep(0.01)
    guard.heartbeat()
    await guard.close()
    assert watchdogs_with("test-of-a-guard") == []


async def test_it_is_replaced_at_once_and_acts_even_without_further_heartbeats() -> None:
    token = "test-of-a-new-guard"
    guard = Watchdog(token, timeout=0.5)
    first = await until_there_is_one(token)
    guard.heartbeat()
    os.kill(first, signal.SIGKILL)
    work = subprocess.Popen(["sleep", "60"], env={**os.environ, processes.SANDBOX_VARIABLE: token})
    try:
        code = await asyncio.to_thread(work.wait, 20)
    finally:
        work.kill()
        work.wait()
    await guard.close()
    assert code == -signal.SIGKILL
    assert watchdogs_with(token) == []
