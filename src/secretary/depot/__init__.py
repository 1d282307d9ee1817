"""Where files are kept that several machines share. One machine needs none: a directory does."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Kept:
    """A file in the depot. `tag` is another one when its content is."""

    key: str
    size: int
    #: When it was made, as far as the depot tells without opening it, and when it was put there.
    made_at: float
    kept_at: float
    tag: str


def is_plain(key: str) -> bool:
    """Whether a file can be put where its key says. Others may write to the same bucket, and a
    key with `..` in it would lead out of every directory."""
    return not {"", ".", ".."} & set(key.split("/")) and "\0" not in key


class Depot(Protocol):
    """Files by their keys, which look like paths (`jobs/job-1/1/pages/1.txt`).

    A file is there as a whole or not at all, and what `put` returns from survives the loss of a
    machine. Any call raises `StoreUnavailable` when the depot does not answer. What an
    implementation owes is written as tests: tests/contract/test_depot.py.
    """

    #: What it is called in answers and logs.
    kind: str

    async def put(self, files: Sequence[tuple[str, Path]]) -> None:
        """Keep these files under these keys, in place of what was there. Never more of a file
        than a piece is in memory."""
        ...

    async def find(self, key: str) -> Kept | None: ...

    def below(self, prefix: str) -> AsyncIterator[Kept]:
        """All files below a prefix that ends with a slash, in no order; but none whose key is no
        plain path."""
        ...

    def read(self, kept: Kept, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """Its bytes from `start` to before `end`, in pieces. `NotFound` when it is gone."""
        ...

    async def fetch(self, wanted: Sequence[Kept], place: Callable[[str], Path]) -> None:
        """Bring files to the places of their keys, with the times at which they were made. One
        that is gone meanwhile is left out."""
        ...

    async def remove(self, prefix: str) -> None:
        """Forget all files below a prefix that ends with a slash."""
        ...

    async def tidy(self) -> None:
        """Remove what writers that died have left."""
        ...
