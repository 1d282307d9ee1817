"""Store addresses on the command line, and opening what they name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from ..app import make_blob_store
from ..config import Settings, StorageSettings
from ..core.errors import InvalidParameters
from ..storage.blob_store import BlobStore, DirectoryBlobStore
from ..store import Store, open_store

#: Stands for the store and files of the settings.
SETTINGS = "settings"
MONGODB = ("mongodb://", "mongodb+srv://")
DATABASE_SUFFIXES = {".db", ".sqlite", ".sqlite3"}


@dataclass(frozen=True, slots=True)
class StoreAddress:
    store_url: str
    #: `none`, `gridfs`, `s3://…` or a directory.
    files: str

    @property
    def database_file(self) -> Path | None:
        if self.store_url.startswith("sqlite://"):
            return Path(self.store_url.removeprefix("sqlite://"))
        return None


@dataclass(frozen=True, slots=True)
class StorageLocation:
    store: Store
    files: BlobStore | None


def parse_address(text: str, files: str | None, settings: Settings) -> StoreAddress:
    """Parse a data directory, a database file, a MongoDB URI, or `settings`. `files` overrides the
    location of its files."""
    if text == SETTINGS:
        return StoreAddress(settings.store_url, files or _files_of(settings))
    if text.startswith(MONGODB):
        return StoreAddress(text, files or "gridfs")
    if "://" in text and not text.startswith("sqlite://"):
        scheme = text.partition("://")[0]
        raise InvalidParameters(f"{scheme}:// names no store; there are sqlite:// and mongodb://")
    path = Path(text.removeprefix("sqlite://")).resolve()
    if path.suffix not in DATABASE_SUFFIXES and not path.is_file():
        path = _database_in(path)
    return StoreAddress(f"sqlite://{path}", files or str(path.parent))


def _files_of(settings: Settings) -> str:
    storage = settings.storage
    if storage.files == "auto" and storage.mongodb_uri:
        return "gridfs"
    directory = str(storage.data_dir.resolve())
    return directory if storage.files in ("auto", "directory") else storage.files


def _database_in(directory: Path) -> Path:
    file = Settings(storage=StorageSettings(data_dir=directory)).database_file
    assert file is not None
    return file


def check_exists(address: StoreAddress) -> None:
    """A mistyped directory must be an error, not a new store."""
    file = address.database_file
    if file is not None and not file.is_file():
        raise InvalidParameters(f"There are no jobs in {file.parent}: it has no {file.name}")


@asynccontextmanager
async def open_location(address: StoreAddress) -> AsyncIterator[StorageLocation]:
    store = open_store(address.store_url)
    await store.open()
    try:
        yield StorageLocation(store, _files(address, store))
    finally:
        await store.close()


def _files(address: StoreAddress, store: Store) -> BlobStore | None:
    if address.files == "none":
        return None
    if address.files == "gridfs" or address.files.startswith("s3://"):
        uri = None if address.database_file else address.store_url
        return make_blob_store(
            Settings(storage=StorageSettings(files=address.files, mongodb_uri=uri)), store
        )
    return DirectoryBlobStore(Path(address.files).resolve())
