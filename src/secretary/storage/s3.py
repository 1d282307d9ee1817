"""Files in a bucket of any store that speaks the protocol of S3."""

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
from .blob_store import Arrival, BlobInfo, is_plain

#: What a file is read in, so that no request lasts long however large the file is.
PIECE = 8 * 1024 * 1024
#: So many requests of one call are on their way at a time.
LANES = 8
#: Files above this size are sent in parts; of each file so many parts are in memory.
PART, PARTS = 5 * 1024 * 1024, 3
MADE_AT = "made-at"
ABSENT = (NotFoundError, FileNotFoundError)
#: How often a file is asked for that is written anew all the time.
TRIES = 5
#: Objects are forgotten in groups: a request may name so many.
GROUP = 1000

CLIENT: dict[str, Any] = {"connect_timeout": "5s", "timeout": "60s", "pool_idle_timeout": "30s"}
RETRIES: Any = {"max_retries": 4}


class S3BlobStore:
    """`url` is `s3://bucket/prefix?endpoint=…&region=…`. Keys and all else that is not told there
    come from where programs look for them: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, …"""

    kind = "s3"

    def __init__(self, url: str) -> None:
        bucket, options = _read(url)
        try:
            self._store = S3Store(bucket, retry_config=RETRIES, **options)
        except (BaseError, ValueError, TypeError) as error:
            raise InvalidSettings(f"storage.files: {_first_line(error)}") from None
        self._where = f"The bucket {bucket}"

    async def put(self, files: Sequence[tuple[str, Path]]) -> None:
        async def one(file: tuple[str, Path]) -> None:
            key, path = file
            made_at = path.stat().st_mtime
            await obstore.put_async(
                self._store,
                key,
                path,
                attributes={MADE_AT: repr(made_at)},
                chunk_size=PART,
                max_concurrency=PARTS,
            )

        with self._translated():
            await map_limited(files, LANES, one)

    async def find(self, key: str) -> BlobInfo | None:
        with self._translated():
            try:
                return _kept(await obstore.head_async(self._store, key))
            except ABSENT:
                return None

    async def below(self, prefix: str) -> AsyncIterator[BlobInfo]:
        with self._translated():
            async for page in obstore.list(self._store, prefix, chunk_size=GROUP):
                for found in page:
                    if is_plain(found["path"]):
                        yield _kept(found)

    async def read(
        self, kept: BlobInfo, start: int = 0, end: int | None = None
    ) -> AsyncIterator[bytes]:
        end = kept.size if end is None else min(end, kept.size)
        while start < end:
            piece = await self._piece(kept, start, min(start + PIECE, end))
            start += len(piece)
            yield piece

    async def _piece(self, kept: BlobInfo, start: int, end: int) -> bytes:
        _, piece = await self._got(kept, range=(start, end))
        return piece

    async def _got(self, kept: BlobInfo, **options: Any) -> tuple[Any, bytes]:
        """What is known about a file, and a part of it."""
        with self._translated():
            try:
                asked: Any = {"if_match": kept.tag, **options}
                found = await obstore.get_async(self._store, kept.key, options=asked)
                return found.attributes, bytes(await found.bytes_async())
            except (*ABSENT, PreconditionError):
                raise NotFound("There is no such file any more") from None

    async def fetch(self, wanted: Sequence[BlobInfo], place: Callable[[str], Path]) -> None:
        async def one(kept: BlobInfo) -> None:
            for _ in range(TRIES):
                try:
                    return await self._brought(kept, place(kept.key))
                except NotFound:  # written anew in this moment, or gone
                    found = await self.find(kept.key)
                    if found is None:
                        return
                    kept = found

        await map_limited(wanted, LANES, one)

    async def _brought(self, kept: BlobInfo, target: Path) -> None:
        options = {"range": (0, PIECE)} if kept.size else {}
        about, first = await self._got(kept, **options)
        made_at = float(about.get(MADE_AT, kept.made_at))
        arrival = await asyncio.to_thread(Arrival, target, made_at)
        try:
            await asyncio.to_thread(arrival.write, first)
            async for piece in self.read(kept, len(first)):
                await asyncio.to_thread(arrival.write, piece)
            await asyncio.to_thread(arrival.finish)
        finally:
            arrival.give_up()

    async def remove(self, prefix: str) -> None:
        keys = [kept.key async for kept in self.below(prefix)]
        with self._translated():
            for first in range(0, len(keys), GROUP):
                await obstore.delete_async(self._store, keys[first : first + GROUP])

    async def tidy(self) -> None:
        """Uploads in parts that were never finished are the bucket's to remove: it has a rule
        for that (AbortIncompleteMultipartUpload)."""

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, PermissionError) as error:
            raise StoreUnavailable(f"{self._where} does not answer: {_first_line(error)}") from None


def _read(url: str) -> tuple[str, dict[str, Any]]:
    parts = urlsplit(url)
    given = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    if not parts.netloc or parts.username or not set(given) <= {"endpoint", "region"}:
        raise InvalidSettings(
            "storage.files: an S3 address looks like s3://bucket/prefix?endpoint=https://host&region=…"
            " and has no keys in it: they come from the environment"
        )
    options: dict[str, Any] = {"prefix": parts.path.strip("/") or None, **given}
    options.setdefault("region", "us-east-1")
    is_plain = given.get("endpoint", "").startswith("http://")
    return parts.netloc, {**options, "client_options": {**CLIENT, "allow_http": is_plain}}


def _kept(found: Any) -> BlobInfo:
    made_at = found["last_modified"].timestamp()
    return BlobInfo(found["path"], found["size"], made_at, made_at, found["e_tag"] or str(made_at))


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:300]
