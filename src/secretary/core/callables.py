"""A function by its name, so that only the process that calls it has to load it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LazyCallable(Generic[T]):
    """`Remote("documents.pdf.pages", "inspect_pdf")` is called and sent like the function."""

    module: str
    name: str

    def __call__(self, *args: Any, **options: Any) -> T:
        result: T = self.resolved()(*args, **options)
        return result

    def resolved(self) -> Any:
        return getattr(import_module(f"secretary.{self.module}"), self.name)


R = TypeVar("R")


async def map_limited(
    things: Iterable[T], lanes: int, work: Callable[[T], Awaitable[R]]
) -> list[R]:
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
