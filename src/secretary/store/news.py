"""Tells tasks of this process that wait for news that there is some."""

import asyncio


class News:
    """A number that grows with all news."""

    def __init__(self) -> None:
        self.generation = 0
        self._waiters: set[asyncio.Future[None]] = set()

    async def wait(self, since: int, *, seconds: float) -> int:
        """Until the number is another than `since`, `seconds` at the most; gives the number."""
        if self.generation == since:
            # Not wait_for: its task and its turns of the loop are half of the way to a claim.
            loop = asyncio.get_running_loop()
            news = loop.create_future()
            timer = loop.call_later(seconds, _settle, news)
            self._waiters.add(news)
            try:
                await news
            finally:
                timer.cancel()
                self._waiters.discard(news)
        return self.generation

    def tell(self) -> None:
        self.generation += 1
        for news in self._waiters:
            _settle(news)


def _settle(news: "asyncio.Future[None]") -> None:
    if not news.done():
        news.set_result(None)
