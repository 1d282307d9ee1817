"""Copies records and files from one store to another, and compares them; and store addresses on the
command line."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from ..app import make_blob_store
from ..config import Settings, StorageSettings
from ..core.callables import map_limited
from ..core.errors import Conflict, InvalidParameters
from ..storage.blob_store import BlobInfo, BlobStore, DirectoryBlobStore, is_safe_key
from ..store import BatchQuery, Store, open_store
from ..store.claims import is_alive
from ..store.transfer import KINDS, Kind, differs

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
        storage = settings.storage
        is_gridfs = storage.files == "auto" and storage.mongodb_uri
        own_files = "gridfs" if is_gridfs else storage.files
        if own_files in ("auto", "directory"):
            own_files = str(storage.data_dir.resolve())
        return StoreAddress(settings.store_url, files or own_files)
    if text.startswith(MONGODB):
        return StoreAddress(text, files or "gridfs")
    if "://" in text and not text.startswith("sqlite://"):
        scheme = text.partition("://")[0]
        raise InvalidParameters(f"{scheme}:// names no store; there are sqlite:// and mongodb://")
    path = Path(text.removeprefix("sqlite://")).resolve()
    if path.suffix not in DATABASE_SUFFIXES and not path.is_file():
        path = Settings(storage=StorageSettings(data_dir=path)).database_file or path
    return StoreAddress(f"sqlite://{path}", files or str(path.parent))


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
        yield StorageLocation(store, _open_files(address, store))
    finally:
        await store.close()


def _open_files(address: StoreAddress, store: Store) -> BlobStore | None:
    if address.files == "none":
        return None
    if address.files == "gridfs" or address.files.startswith("s3://"):
        uri = None if address.database_file else address.store_url
        storage = StorageSettings(files=address.files, mongodb_uri=uri)
        return make_blob_store(Settings(storage=storage), store)
    return DirectoryBlobStore(Path(address.files).resolve())


@dataclass(slots=True)
class RecordCounts:
    """Counts of one kind of record."""

    found: int = 0
    copied: int = 0
    #: Counted by the source but deleted meanwhile, or incomplete.
    unreadable: int = 0

    @property
    def skipped(self) -> int:
        return self.found - self.copied


@dataclass(slots=True)
class Comparison:
    """Records that are missing from the copy, and those that differ."""

    compared: int = 0
    missing: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)


OnRecords = Callable[[Kind, int], None]


async def check_copyable(
    source: Store, target: Store | None, *, anyway: bool, into_existing: bool
) -> None:
    """Raise `Conflict` if copying is unsafe. The target is None if it does not exist yet."""
    for name, store in (("source", source), ("target", target)):
        workers = [] if anyway or store is None else await store.workers()
        if alive := [worker for worker in workers if is_alive(worker)]:
            names = ", ".join(f"{worker.worker_id} on {worker.host}" for worker in alive)
            raise Conflict(
                f"The {name} has live workers ({names}). Stop them and the service first: changes"
                " during the copy may be lost. --anyway copies nevertheless."
            )
    if target is None or into_existing:
        return
    if (await target.find_batches(BatchQuery(limit=1))).items or await target.counts():
        raise Conflict(
            "The target is not empty. --into-existing adds missing records and leaves the"
            " others unchanged."
        )


async def count_records(source: Store) -> dict[Kind, RecordCounts]:
    counts = {kind: RecordCounts() for kind in KINDS}
    counts["jobs"].found = await _count_jobs(source)
    for kind in KINDS[1:]:
        async for group in source.records(kind):
            counts[kind].found += len(group)
    return counts


async def _count_jobs(store: Store) -> int:
    return sum(n for by_status in (await store.counts()).values() for n in by_status.values())


async def copy_records(
    source: Store, target: Store, tell: OnRecords = lambda kind, found: None
) -> dict[Kind, RecordCounts]:
    """Copy what the target does not have, so that an interrupted copy can be resumed."""
    counts = {kind: RecordCounts() for kind in KINDS}
    expected = await _count_jobs(source)
    for kind, count in counts.items():
        async for group in source.records(kind):
            count.copied += len(await target.import_records(group))
            count.found += len(group)
            tell(kind, count.found)
    counts["jobs"].unreadable = max(0, expected - counts["jobs"].found)
    return counts


async def compare_records(
    source: Store, target: Store, tell: OnRecords = lambda kind, found: None
) -> Comparison:
    """Compare each record of the source with that of the target."""
    comparison = Comparison()
    for kind in KINDS:
        seen = 0
        async for group in source.records(kind):
            ids = [record.record_id for record in group]
            copies = [one async for part in target.records(kind, ids) for one in part]
            copy_of = {one.record_id: one for one in copies}
            for record in group:
                copy = copy_of.get(record.record_id)
                if copy is None:
                    comparison.missing.append(str(record.record_id))
                elif differs(record, copy):
                    comparison.different.append(str(record.record_id))
            comparison.compared += len(group)
            seen += len(group)
            tell(kind, seen)
    return comparison


#: Uploads and artifacts; the cache is not copied, as it is rebuilt on demand.
PREFIXES = ("uploads/", "jobs/")
#: Uploads, and the artifacts of an attempt; anything else is scratch.
COPIED_KEYS = re.compile(r"(uploads/[^/]+|jobs/[^/]+/\d+)/[^/].*", re.DOTALL)

GROUP_SIZE = 200
GROUP_BYTES = 64 * 1024 * 1024
MAX_CONCURRENT = 8


@dataclass(slots=True)
class FileCounts:
    found: int = 0
    bytes: int = 0
    copied: int = 0

    @property
    def skipped(self) -> int:
        return self.found - self.copied

    def add(self, group: Sequence[BlobInfo], *, copied: int = 0) -> None:
        self.found += len(group)
        self.bytes += sum(blob.size for blob in group)
        self.copied += copied


OnFiles = Callable[[FileCounts], object]


async def copy_files(
    source: BlobStore, target: BlobStore, tell: OnFiles = lambda count: None
) -> FileCounts:
    """Copy files that the target lacks or has with another size, so that a copy can be resumed."""
    count = FileCounts()
    for prefix in PREFIXES:
        is_new = await anext(target.list_blobs(prefix), None) is None
        async for group in _groups(source, [prefix]):
            missing = group if is_new else await missing_files(target, group)
            await _copy_group(source, target, missing)
            count.add(group, copied=len(missing))
            tell(count)
    if count.copied and isinstance(target, DirectoryBlobStore):
        await asyncio.to_thread(os.sync)  # a power failure after the copy must not lose a file
    return count


async def count_files(source: BlobStore) -> FileCounts:
    count = FileCounts()
    async for group in _groups(source):
        count.add(group)
    return count


async def compare_files(source: BlobStore, target: BlobStore) -> list[str]:
    """The keys of files that the target lacks, or has with another size."""
    return [
        blob.key async for group in _groups(source) for blob in await missing_files(target, group)
    ]


async def missing_files(target: BlobStore, group: Sequence[BlobInfo]) -> list[BlobInfo]:
    there = await map_limited([blob.key for blob in group], MAX_CONCURRENT, target.find)
    pairs = zip(group, there, strict=True)
    return [blob for blob, other in pairs if other is None or other.size != blob.size]


async def _groups(
    blob_store: BlobStore, prefixes: Sequence[str] = PREFIXES
) -> AsyncIterator[list[BlobInfo]]:
    group: list[BlobInfo] = []
    for prefix in prefixes:
        async for blob in blob_store.list_blobs(prefix):
            if COPIED_KEYS.fullmatch(blob.key) and is_safe_key(blob.key):
                group.append(blob)
                if len(group) == GROUP_SIZE or sum(one.size for one in group) > GROUP_BYTES:
                    yield group
                    group = []
    if group:
        yield group


async def _copy_group(source: BlobStore, target: BlobStore, wanted: Sequence[BlobInfo]) -> None:
    if isinstance(target, DirectoryBlobStore):
        await source.fetch(wanted, target.path_of)
        return
    with TemporaryDirectory(prefix="carry-") as directory:
        local = source
        if not isinstance(local, DirectoryBlobStore):
            local = DirectoryBlobStore(Path(directory))
            await source.fetch(wanted, local.path_of)
        paths = [(blob.key, local.path_of(blob.key)) for blob in wanted]
        # Others were removed meanwhile.
        if there := [(key, path) for key, path in paths if path.is_file()]:
            await target.put(there)
