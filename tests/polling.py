"""Waiting for a condition, with a deadline."""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

SECONDS = 30.0
LOOK_EVERY = 0.01


async def until(
    condition: Callable[[], Any], *, seconds: float = SECONDS, what: str = "what is waited for"
) -> Any:
    """The value of the condition, or of its coroutine, once it is truthy."""
    deadline = time.monotonic() + seconds
    while True:
        held = condition()
        if inspect.isawaitable(held):
            held = await held
        if held:
            return held
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds:g} s"
        await asyncio.sleep(LOOK_EVERY)


def wait_until(
    condition: Callable[[], Any], *, seconds: float = SECONDS, what: str = "what is waited for"
) -> Any:
    """The same for tests without an event loop."""
    deadline = time.monotonic() + seconds
    while not (held := condition()):
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds:g} s"
        time.sleep(LOOK_EVERY)
    return held
