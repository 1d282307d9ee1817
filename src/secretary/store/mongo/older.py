"""Reads the collections of the service before this one."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from bson import Binary, Decimal128, ObjectId
from pymongo import AsyncMongoClient
from pymongo.errors import ConfigurationError, PyMongoError
from pymongo.read_concern import ReadConcern

from ...errors import InvalidParameters, NotFound, StoreUnavailable
from ..older import OlderCollection, OlderDocument
from .errors import address_of, unavailable_error
from .schema import Document

NAMES = ("event_jobs", "event_batches")
#: A document may carry an archive of several megabytes.
GROUP = 20

OPTIONS: dict[str, Any] = {
    "appname": "secretary",
    "tz_aware": True,
    "serverSelectionTimeoutMS": 5_000,
    "connectTimeoutMS": 5_000,
    "socketTimeoutMS": 60_000,
}


class MongoOlderJobs:
    def __init__(self, url: str) -> None:
        self._url = url
        self._address = ""
        self._client: AsyncMongoClient[Document]

    async def open(self) -> None:
        try:
            self._address = address_of(self._url)
            self._client = AsyncMongoClient(self._url, **OPTIONS)
            self._db = self._client.get_default_database().with_options(
                read_concern=ReadConcern("majority")
            )
        except ConfigurationError:
            raise InvalidParameters(
                "Name the database in the address: mongodb://host/database"
            ) from None
        except (PyMongoError, ValueError):
            # The driver quotes the part it cannot read, and that may be the password.
            raise StoreUnavailable("The address of the MongoDB is not a valid one") from None
        with self._translated():
            found = await self._db.list_collection_names(filter={"name": {"$in": list(NAMES)}})
        if not found:
            await self._client.close()
            raise NotFound(f"The database {self._db.name} has no {' and no '.join(NAMES)}")

    async def close(self) -> None:
        await self._client.close()

    async def documents(self, name: OlderCollection) -> AsyncIterator[list[OlderDocument]]:
        """Page by page: what becomes of a page may take longer than a cursor lives."""
        last: Document = {}
        while True:
            with self._translated():
                found = await self._db[name].find(last, sort=[("_id", 1)], limit=GROUP).to_list()
            if not found:
                return
            last = {"_id": {"$gt": found[-1]["_id"]}}
            yield [_plain(document) for document in found]

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except PyMongoError as error:
            raise unavailable_error(error, self._address) from None


def _plain(value: Any) -> Any:
    """What BSON knows and JSON does not becomes text. A time stays one: it is told apart."""
    match value:
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case bool() | None | str() | datetime():
            return value
        case int():
            return int(value)  # Int64 is one too
        case float():
            return value if value == value and abs(value) != float("inf") else str(value)
        case ObjectId() | Decimal128():
            return str(value)
        case Binary() | bytes():
            return bytes(value).hex()
        case _:
            return str(value)
