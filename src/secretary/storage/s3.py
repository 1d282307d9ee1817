"""Blob store in a bucket of any S3-compatible service."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import obstore
from obstore.exceptions import BaseError, NotFoundError, PreconditionError
from obstore.store import S3Store

from ..core.callables import map_limited
from ..core.errors import InvalidSettings, NotFound, StoreUnavailable
from .blob_store import AtomicFileWriter, BlobInfo, is_safe_key

#: Files are read in ranges of this size, so that no request takes long.
RANGE_BYTES = 8 * 1024 * 1024
#: Concurrent requests per call.
MAX_CONCURRENT = 8
#: Files above this size are uploaded in parts; this many parts of a file are in memory.
PART_BYTES, PARTS_IN_MEMORY = 5 * 1024 * 1024, 3
#: Object attribute with the modification time of the file.
MODIFIED_AT = "made-at"
MISSING = (NotFoundError, FileNotFoundError)
#: How often to retry a download of an object that keeps being replaced.
MAX_FETCH_ATTEMPTS = 5
#: The maximum number of objects per list or delete request.
PAGE_SIZE = 1000

CLIENT: dict[str, Any] = {"connect_timeout": "5s", "timeout": "60s", "pool_idle_timeout": "30s"}
RETRIES: Any = {"max_retries": 4}


class S3BlobStore:
    """`url` is `s3://bucket/prefix?endpoint=…&region=…`. Credentials and other options come from
    the usual environment variables: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, …"""

    kind = "s3"

    def __init__(self, url: str) -> None:
        bucket, options = _parse_url(url)
        try:
            self._store = S3Store(bucket, retry_config=RETRIES, **options)
        except (BaseError, ValueError, TypeError) as error:
            raise InvalidSettings(f"storage.files: {_first_line(error)}") from None
        self._name = f"The bucket {bucket}"

    async def put(self, files: Sequence[tuple[str, Path]]) -> None:
        async def upload(file: tuple[str, Path]) -> None:
            key, path = file
            await obstore.put_async(
                self._store,
                key,
                path,
                attributes={MODIFIED_AT: repr(path.stat().st_mtime)},
                chunk_size=PART_BYTES,
                max_concurrency=PARTS_IN_MEMORY,
            )

        with self._translated():
            await map_limited(files, MAX_CONCURRENT, upload)

    async def find(self, key: str) -> BlobInfo | None:
        with self._translated():
            try:
                return _blob_info(await obstore.head_async(self._store, key))
            except MISSING:
                return None

    async def list_blobs(self, prefix: str) -> AsyncIterator[BlobInfo]:
        with self._translated():
            async for page in obstore.list(self._store, prefix, chunk_size=PAGE_SIZE):
                for entry in page:
                    if is_safe_key(entry["path"]):
                        yield _blob_info(entry)

    async def read(
        self, blob: BlobInfo, start: int = 0, end: int | None = None
    ) -> AsyncIterator[bytes]:
        end = blob.size if end is None else min(end, blob.size)
        while start < end:
            _, chunk = await self._get(blob, range=(start, min(start + RANGE_BYTES, end)))
            start += len(chunk)
            yield chunk

    async def _get(self, blob: BlobInfo, **options: Any) -> tuple[Any, bytes]:
        """The attributes of an object and (a range of) its content."""
        with self._translated():
            try:
                conditions: Any = {"if_match": blob.etag, **options}
                response = await obstore.get_async(self._store, blob.key, options=conditions)
                return response.attributes, bytes(await response.bytes_async())
            except (*MISSING, PreconditionError):
                raise NotFound("The file no longer exists") from None

    async def fetch(self, blobs: Sequence[BlobInfo], path_for: Callable[[str], Path]) -> None:
        async def download(blob: BlobInfo) -> None:
            for _ in range(MAX_FETCH_ATTEMPTS):
                try:
                    return await self._download(blob, path_for(blob.key))
                except NotFound:  # replaced meanwhile, or gone
                    current = await self.find(blob.key)
                    if current is None:
                        return
                    blob = current

        await map_limited(blobs, MAX_CONCURRENT, download)

    async def _download(self, blob: BlobInfo, target: Path) -> None:
        options = {"range": (0, RANGE_BYTES)} if blob.size else {}
        attributes, first = await self._get(blob, **options)
        modified_at = float(attributes.get(MODIFIED_AT, blob.modified_at))
        with await asyncio.to_thread(AtomicFileWriter, target, modified_at) as writer:
            await asyncio.to_thread(writer.write, first)
            async for chunk in self.read(blob, len(first)):
                await asyncio.to_thread(writer.write, chunk)
            await asyncio.to_thread(writer.commit)

    async def remove(self, prefix: str) -> None:
        keys = [blob.key async for blob in self.list_blobs(prefix)]
        with self._translated():
            for first in range(0, len(keys), PAGE_SIZE):
                await obstore.delete_async(self._store, keys[first : first + PAGE_SIZE])

    async def remove_incomplete(self) -> None:
        """Nothing to do: a lifecycle rule of the bucket (AbortIncompleteMultipartUpload) removes
        incomplete multipart uploads."""

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, PermissionError) as error:
            raise StoreUnavailable(f"{self._name} is unavailable: {_first_line(error)}") from None


def _parse_url(url: str) -> tuple[str, dict[str, Any]]:
    parts = urlsplit(url)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    if not parts.netloc or parts.username or not set(query) <= {"endpoint", "region"}:
        raise InvalidSettings(
            "storage.files: an S3 URL looks like s3://bucket/prefix?endpoint=https://host&region=…"
            " and contains no credentials: these come from the environment"
        )
    allow_http = query.get("endpoint", "").startswith("http://")
    return parts.netloc, {
        "prefix": parts.path.strip("/") or None,
        "region": "us-east-1",
        **query,
        "client_options": {**CLIENT, "allow_http": allow_http},
    }


def _blob_info(entry: Any) -> BlobInfo:
    time = entry["last_modified"].timestamp()
    return BlobInfo(entry["path"], entry["size"], time, time, entry["e_tag"] or str(time))


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:300]
