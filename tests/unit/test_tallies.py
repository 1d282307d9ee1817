"""What ended is counted a moment later, and not lost when the store is away for a while."""

import asyncio
from collections import Counter

import pytest

from secretary.core.errors import StoreUnavailable
from secretary.core.job import utc_now
from secretary.store.throughput import EVERYBODY, Ending, Place, StatsBuffer


class Written:
    """What was written, by a store that can be away."""

    def __init__(self) -> None:
        self.counted: Counter[Place] = Counter()
        self.away = False
        self.some = asyncio.Event()

    async def __call__(self, counted: Counter[Place]) -> None:
        if self.away:
            raise StoreUnavailable("away")
        self.counted += counted
        self.some.set()

    def of_all(self) -> int:
        return sum(n for place, n in self.counted.items() if place.scope == EVERYBODY)


def ending(user_id: str | None = None) -> Ending:
    return Ending("pdf", user_id, "completed", utc_now())


async def test_it_is_written_by_itself_and_all_at_once() -> None:
    written = Written()
    tallies = StatsBuffer(written, unavailable=StoreUnavailable)
    for _ in range(5):
        tallies.note([ending("ann")])
    assert not written.counted
    async with asyncio.timeout(10):
        await written.some.wait()
    assert written.of_all() == 5
    assert sum(written.counted.values()) == 10
    await tallies.close()


async def test_what_could_not_be_written_is_written_later() -> None:
    written = Written()
    tallies = StatsBuffer(written, unavailable=StoreUnavailable)
    written.away = True
    tallies.note([ending()])
    with pytest.raises(StoreUnavailable):
        await tallies.write()
    written.away = False
    tallies.note([ending()])
    await tallies.write()
    assert written.of_all() == 2
    await tallies.close()
    assert written.of_all() == 2


async def test_the_last_of_it_is_written_at_the_end() -> None:
    written = Written()
    tallies = StatsBuffer(written, unavailable=StoreUnavailable)
    tallies.note([ending()])
    await tallies.close()
    assert written.of_all() == 1


async def test_a_store_that_is_away_does_not_keep_anybody_from_ending(
    caplog: pytest.LogCaptureFixture,
) -> None:
    written = Written()
    tallies = StatsBuffer(written, unavailable=StoreUnavailable)
    written.away = True
    tallies.note([ending()])
    await tallies.close()
    assert "was not counted" in caplog.text
