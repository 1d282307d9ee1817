"""Where the tests store jobs and files: on this machine, or with TEST_STORE=gridfs or s3 in
MongoDB, with the files in GridFS or a bucket (`make test-shared`)."""

import os
from pathlib import Path
from typing import Any
from uuid import uuid4

from secretary.storage.artifacts import JobFiles
from secretary.storage.blob_store import BlobStore, DirectoryBlobStore
from secretary.storage.gridfs import GridFsBlobStore
from secretary.storage.s3 import S3BlobStore
from secretary.storage.sources import Uploads
from secretary.store import Store
from secretary.store.mongo import MongoStore

from .mongod import Mongod
from .s3_server import S3Server

KIND = os.environ.get("TEST_STORE", "")
_mongod: list[Mongod] = []
_s3: list[S3Server] = []
_known: dict[Path, dict[str, Any]] = {}


def use(mongod: Mongod, s3: S3Server | None) -> None:
    """Put all stores and files on these servers from now on."""
    _mongod[:] = [mongod]
    _s3[:] = [s3] if s3 else []


def storage(data_dir: Path) -> dict[str, Any]:
    """The settings for a data directory, each with its own database and file storage."""
    if not _mongod:
        return {}
    if data_dir not in _known:
        uri = _mongod[0].url(f"test_{uuid4().hex[:12]}")
        _known[data_dir] = {"mongodb_uri": uri, "files": _s3[0].new_bucket() if _s3 else "gridfs"}
    return _known[data_dir]


def store_url(data_dir: Path) -> str:
    uri: str = storage(data_dir).get("mongodb_uri", "")
    return uri or f"sqlite://{data_dir}/secretary.db"


def files_in(data_dir: Path, store: Store, uploads: dict[str, Any] | None = None) -> JobFiles:
    blob_store: BlobStore | None = None
    if isinstance(store, MongoStore):
        blob_store = GridFsBlobStore(store)
    if _s3:
        blob_store = S3BlobStore(storage(data_dir)["files"])
    return JobFiles(
        data_dir, Uploads(data_dir, blob_store=blob_store, **(uploads or {})), blob_store=blob_store
    )


async def stored_uploads(data_dir: Path, store: Store) -> dict[str, bytes]:
    """The uploads that are stored, by job and name."""
    blob_store = files_in(data_dir, store).blob_store or DirectoryBlobStore(data_dir)
    return {
        blob.key.partition("/")[2]: b"".join([piece async for piece in blob_store.read(blob)])
        async for blob in blob_store.list_blobs("uploads/")
    }
