"""Wakes tasks of this process that wait for a change in the store."""

import asyncio


class Notifier:
    """A counter that grows with each notification, so that waiters miss none."""

    def __init__(self) -> None:
        self.generation = 0
        self._waiters: set[asyncio.Future[None]] = set()

    async def wait(self, since: int, *, seconds: float) -> int:
        """Wait up to `seconds` until the counter differs from `since`; returns the counter."""
        if self.generation == since:
            # Not asyncio.wait_for: its extra task would double the latency of a claim.
            loop = asyncio.get_running_loop()
            waiter = loop.create_future()
            timer = loop.call_later(seconds, _resolve, waiter)
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                timer.cancel()
                self._waiters.discard(waiter)
        return self.generation

    def notify(self) -> None:
        self.generation += 1
        for waiter in self._waiters:
            _resolve(waiter)


def _resolve(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
