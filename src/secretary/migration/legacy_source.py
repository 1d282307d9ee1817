"""Reads the MongoDB collections of the older service."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

from bson import Binary, Decimal128, ObjectId
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import ConfigurationError
from pymongo.read_concern import ReadConcern

from ..core.errors import InvalidParameters, NotFound
from ..store.mongo.client import connect, translated
from ..store.mongo.schema import Document
from .legacy import LegacyCollection, LegacyDocument

NAMES = ["event_jobs", "event_batches"]
#: Documents per page; each may contain an archive of several megabytes.
GROUP = 20


class MongoLegacySource:
    def __init__(self, url: str) -> None:
        self._url = url
        self._address = ""
        self._client: AsyncMongoClient[Document]
        self._db: AsyncDatabase[Document]

    async def open(self) -> None:
        self._client, self._address = connect(self._url, socketTimeoutMS=60_000)
        try:
            self._db = _named_database(self._client)
            with translated(self._address):
                names = await self._db.list_collection_names(filter={"name": {"$in": NAMES}})
            if not names:
                raise NotFound(f"The database {self._db.name} has no {' and no '.join(NAMES)}")
        except BaseException:
            await self._client.close()
            raise

    async def close(self) -> None:
        await self._client.close()

    async def documents(self, name: LegacyCollection) -> AsyncIterator[list[LegacyDocument]]:
        """Read page by page: importing a page may take longer than a cursor lives."""
        last: Document = {}
        while True:
            with translated(self._address):
                page = await self._db[name].find(last, sort=[("_id", 1)], limit=GROUP).to_list()
            if not page:
                return
            last = {"_id": {"$gt": page[-1]["_id"]}}
            yield [_plain(document) for document in page]


def _named_database(client: AsyncMongoClient[Document]) -> AsyncDatabase[Document]:
    try:
        database = client.get_default_database()
    except ConfigurationError:
        raise InvalidParameters(
            "Name the database in the address: mongodb://host/database"
        ) from None
    return database.with_options(read_concern=ReadConcern("majority"))


def _plain(value: Any) -> Any:
    """Convert BSON types that JSON lacks to text, except times."""
    match value:
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case bool() | None | str() | datetime():
            return value
        case int():
            return int(value)  # also converts Int64
        case float():
            return value if value == value and abs(value) != float("inf") else str(value)
        case ObjectId() | Decimal128():
            return str(value)
        case Binary() | bytes():
            return bytes(value).hex()
        case _:
            return str(value)
