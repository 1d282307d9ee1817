"""The parts of one job at the same time."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


async def in_lanes(things: Iterable[T], lanes: int, work: Callable[[T], Awaitable[R]]) -> list[R]:
    """What `work` makes of each, in their order; so many at the same time, the first ones first.
    The first error ends all of them."""
    results: dict[int, R] = {}
    waiting = iter(enumerate(things))

    async def lane() -> None:
        for number, thing in waiting:
            results[number] = await work(thing)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(lanes):
                group.create_task(lane())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [results[number] for number in range(len(results))]
