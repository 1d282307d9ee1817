"""The collections of the service before this one, which are only ever read."""

from collections.abc import AsyncIterator, Mapping
from importlib import import_module
from typing import Any, Literal, Protocol, cast

OlderCollection = Literal["event_jobs", "event_batches"]

#: What JSON can say, and times.
OlderDocument = Mapping[str, Any]


class OlderJobs(Protocol):
    async def open(self) -> None:
        """`NotFound` when there is neither of the collections."""
        ...

    async def close(self) -> None: ...

    def documents(self, name: OlderCollection) -> AsyncIterator[list[OlderDocument]]:
        """All documents of a collection, oldest first, in groups that fit into memory."""
        ...


def open_older(url: str) -> OlderJobs:
    """The driver is imported only now, so it stays optional."""
    module = import_module("secretary.store.mongo.older")
    return cast(OlderJobs, module.MongoOlderJobs(url))
