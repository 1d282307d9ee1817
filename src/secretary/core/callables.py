"""Helpers to call a function by name, and to map one with limited concurrency or in batches."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LazyCallable(Generic[T]):
    """A function by name, so that only the process that calls it has to import its module.

    `LazyCallable("documents.pdf.pages", "inspect_pdf", returns=DocumentInfo)` is called and pickled
    like the function.
    """

    module: str
    name: str
    #: The return annotation of the function: a sandbox process can return nothing else.
    returns: Any = field(default=Any, compare=False, kw_only=True)
    #: It starts a program that needs a socket in /tmp: LibreOffice.
    uses_sockets: bool = field(default=False, compare=False, kw_only=True)

    def __call__(self, *args: Any, **options: Any) -> T:
        return self.load()(*args, **options)

    def load(self) -> Callable[..., T]:
        function: Callable[..., T] = getattr(import_module(f"secretary.{self.module}"), self.name)
        return function

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.module, self.name)


R = TypeVar("R")


async def map_limited(
    items: Iterable[T], limit: int, function: Callable[[T], Awaitable[R]]
) -> list[R]:
    """The results of the function in the order of the items, with at most `limit` calls at a time.
    The first error cancels the others."""
    results: dict[int, R] = {}
    remaining = iter(enumerate(items))

    async def consume() -> None:
        for number, item in remaining:
            results[number] = await function(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(limit):
                group.create_task(consume())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [results[number] for number in range(len(results))]


def in_batches(
    items: Iterable[T], size_of: Callable[[T], int], max_size: int, *, max_items: int | None = None
) -> Iterator[list[T]]:
    """Consecutive items whose sizes together are within the limit; an item alone may exceed it."""
    batch: list[T] = []
    total = 0
    for item in items:
        size = size_of(item)
        if batch and (total + size > max_size or len(batch) == max_items):
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += size
    if batch:
        yield batch
