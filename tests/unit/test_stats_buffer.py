"""Finished jobs are counted with a delay, and not lost during a store outage."""

import asyncio
from collections import Counter

import pytest

from secretary.core.errors import StoreUnavailable
from secretary.core.job import utc_now
from secretary.store.stats import ALL_USERS, FinishedJob, StatsBuffer, StatsKey


class Written:
    """What was written, by a store that can be unavailable."""

    def __init__(self) -> None:
        self.counted: Counter[StatsKey] = Counter()
        self.away = False
        self.some = asyncio.Event()

    async def __call__(self, counted: Counter[StatsKey]) -> None:
        if self.away:
            raise StoreUnavailable("away")
        self.counted += counted
        self.some.set()

    def of_all(self) -> int:
        return sum(n for key, n in self.counted.items() if key.scope == ALL_USERS)


def finished(user_id: str | None = None) -> FinishedJob:
    return FinishedJob("pdf", user_id, "completed", utc_now())


async def test_it_is_written_by_itself_and_all_at_once() -> None:
    written = Written()
    buffer = StatsBuffer(written)
    for _ in range(5):
        buffer.add([finished("ann")])
    assert not written.counted
    async with asyncio.timeout(10):
        await written.some.wait()
    assert written.of_all() == 5
    assert sum(written.counted.values()) == 10
    await buffer.close()


async def test_what_could_not_be_written_is_written_later() -> None:
    written = Written()
    buffer = StatsBuffer(written)
    written.away = True
    buffer.add([finished()])
    with pytest.raises(StoreUnavailable):
        await buffer.flush()
    written.away = False
    buffer.add([finished()])
    await buffer.flush()
    assert written.of_all() == 2
    await buffer.close()
    assert written.of_all() == 2


async def test_the_last_of_it_is_written_at_the_end() -> None:
    written = Written()
    buffer = StatsBuffer(written)
    buffer.add([finished()])
    await buffer.close()
    assert written.of_all() == 1


async def test_a_store_that_is_away_does_not_keep_anybody_from_ending(
    caplog: pytest.LogCaptureFixture,
) -> None:
    written = Written()
    buffer = StatsBuffer(written)
    written.away = True
    buffer.add([finished()])
    await buffer.close()
    assert "were not written" in caplog.text
