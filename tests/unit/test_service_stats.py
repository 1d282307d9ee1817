"""Expensive queries are made once and shared by all callers."""

import asyncio

import pytest

from secretary.core.errors import StoreUnavailable
from secretary.observability.metrics import CachedQuery


class Count:
    """A count that finishes on request."""

    def __init__(self) -> None:
        self.begun = 0
        self.go_on = asyncio.Event()

    async def __call__(self) -> int:
        self.begun += 1
        await self.go_on.wait()
        return self.begun


async def test_who_asks_at_the_same_time_shares_the_answer() -> None:
    count = Count()
    shared = CachedQuery(count)
    queries = [asyncio.create_task(shared.get()) for _ in range(3)]
    await asyncio.sleep(0)
    count.go_on.set()
    assert await asyncio.gather(*queries) == [1, 1, 1]


async def test_who_gives_up_does_not_spoil_it_for_the_others() -> None:
    count = Count()
    shared = CachedQuery(count)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(shared.get(), 0.01)
    count.go_on.set()
    assert (await shared.get(), count.begun) == (1, 1)


async def test_what_took_long_is_used_for_longer() -> None:
    count = Count()
    shared = CachedQuery(count)
    query = asyncio.create_task(shared.get())
    asyncio.get_running_loop().call_later(0.5, count.go_on.set)
    assert await query == 1
    assert await shared.get() == 1  # cached for ten seconds


async def test_what_grew_old_is_found_out_anew_however_long_it_took() -> None:
    count = Count()
    shared = CachedQuery(count)
    query = asyncio.create_task(shared.get())
    asyncio.get_running_loop().call_later(0.2, count.go_on.set)
    assert await query == 1
    shared.expire()
    assert await shared.get() == 2


async def test_a_failure_is_reported_and_not_cached() -> None:
    answers = [StoreUnavailable("away"), None]

    async def count() -> int:
        if (error := answers.pop(0)) is not None:
            raise error
        return 7

    shared = CachedQuery(count)
    with pytest.raises(StoreUnavailable):
        await shared.get()
    assert await shared.get() == 7


async def test_who_is_in_a_hurry_gets_what_is_known() -> None:
    count = Count()
    shared = CachedQuery(count)
    count.go_on.set()
    first = await shared.get_or_stale(0.01)
    count.go_on.clear()
    async with asyncio.timeout(10):
        while count.begun < 2:  # it is used for a moment before it is counted again
            assert await shared.get_or_stale(0.001) == first
    assert first.value == 1
    count.go_on.set()
    assert await shared.get() == 2


async def test_the_first_answer_is_waited_for() -> None:
    count = Count()
    shared = CachedQuery(count)
    asyncio.get_running_loop().call_later(0.05, count.go_on.set)
    assert (await shared.get_or_stale(0.001)).value == 1
