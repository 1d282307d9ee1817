"""Custom handlers that do what handlers must not do."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from typing import Any

from secretary import JobContext, Registry, handles
from secretary.jobs.handler import AnyParameters, Handler

Context = JobContext[AnyParameters]

STUBBORN = (
    "import signal, time, os;"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "os.setsid() if os.getpid() != os.getsid(0) else None;"
    "time.sleep(600)"
)


@handles("segfault")
async def segfault(ctx: Context) -> None:
    ctypes.string_at(0)


@handles("hungry")
async def hungry(ctx: Context) -> None:
    hoard = []
    while True:
        hoard.append(bytearray(8 * 1024 * 1024))
        time.sleep(0.005)


@handles("endless")
async def endless(ctx: Context) -> None:
    while True:
        pass


@handles("stubborn")
async def stubborn(ctx: Context) -> None:
    """Forks children that cannot be stopped, and cannot be stopped itself."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for _ in range(3):
        subprocess.Popen([sys.executable, "-c", STUBBORN])
    await ctx.progress("forked", 50)
    while True:
        try:
            time.sleep(600)
        except BaseException:
            continue


@handles("decent")
async def decent(ctx: Context) -> dict[str, Any]:
    started = time.monotonic()
    while time.monotonic() - started < float(ctx.job.parameters.get("seconds", 0.1)):
        time.sleep(0.02)
        await ctx.progress("working", 10)
    return {"pid": os.getpid(), "parent": os.getppid()}


def register(registry: Registry) -> None:
    handlers: list[Handler[Any]] = [segfault, hungry, endless, stubborn, decent]
    for handler in handlers:
        registry.add(handler)
