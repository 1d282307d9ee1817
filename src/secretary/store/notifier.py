"""Tells tasks of this process that wait for news that there is some."""

import asyncio
import time
from collections.abc import Sequence

from ..core.job import MAX_LOG_ENTRIES, JobError, LogEntry


class Notifier:
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


class TimeBudget:
    """The first is short, as most pages are full soon; each further one as long as the pace so
    far allows in the time that is left."""

    FIRST, GROWTH = 200, 6

    def __init__(self, seconds: float) -> None:
        self._started = time.monotonic()
        self._seconds = seconds
        self._passed = 0
        self.length = self.FIRST

    def may_go_on(self) -> bool:
        """After each stretch: whether there is time for another, whose length is then set."""
        self._passed += self.length
        spent = time.monotonic() - self._started
        # Half of what is left: on a busy machine the pace changes at any time.
        possible = int(self._passed / max(spent, 1e-6) * (self._seconds - spent) / 2)
        self.length = min(self.length * self.GROWTH, possible)
        return possible >= self.FIRST


#: The entries of a log that are kept, with their numbers in all that there ever were.
NumberedLog = Sequence[tuple[int, LogEntry]]


def crash_error(worker_id: str, deaths: int) -> JobError:
    """Of a job whose worker vanished."""
    return JobError(
        code="WORKER_CRASHED",
        message="The worker died or lost touch while it ran the job",
        details={"worker_id": worker_id, "deaths": deaths},
    )


def obituary(worker_id: str, attempt: int) -> LogEntry:
    text = f"The worker vanished while it ran this job (attempt {attempt}, {worker_id})"
    return LogEntry(level="error", message=text)


def with_note(numbered: NumberedLog) -> list[LogEntry]:
    """The log as clients read it: led by a note when older entries were dropped."""
    entries = [entry for _, entry in numbered]
    if numbered and (dropped := numbered[0][0] - 1):
        text = f"{dropped} older entries were dropped; a job keeps the last {MAX_LOG_ENTRIES}"
        at = entries[0].timestamp
        entries.insert(0, LogEntry(timestamp=at, level="warning", message=text))
    return entries
