"""Synchronizes the files of a running job with the blob store.

Handlers only see local directories. Their files are uploaded every few seconds, so that other
machines can serve them, or continue the work if this machine dies.
"""

import asyncio
import hashlib
import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from ..core.errors import StoreUnavailable
from .blob_store import BlobInfo, BlobStore
from .cache import ENTRY_FILE, CacheEntry

logger = logging.getLogger(__name__)

UPLOAD_INTERVAL = 2.0
TOUCH_INTERVAL = 3600.0
#: Suffix of files that are appended to. All others are complete when they get their names.
APPENDED = ".jsonl"
#: Names of files that are still being written.
INCOMPLETE = re.compile(r"^\.|\.[0-9a-f]{32}$")


@dataclass(frozen=True, slots=True)
class _FileState:
    """The size and modification time of a file; if they change, it is uploaded again."""

    size: int
    modified_ns: int


@dataclass(slots=True)
class _SyncedDirectory:
    """A local directory, its prefix in the blob store, and the files that are in sync."""

    path: str
    prefix: str
    synced: dict[str, _FileState] = field(default_factory=dict)


class ArtifactSync:
    """The directory of one attempt and the cache entries it uses."""

    def __init__(self, blob_store: BlobStore, attempt_directory: str, prefix: str) -> None:
        self._blob_store = blob_store
        self._directories = {prefix: _SyncedDirectory(attempt_directory, prefix)}
        self._lock = asyncio.Lock()

    async def download_entry(self, entry: CacheEntry) -> CacheEntry:
        """Add what other machines have cached. If the blob store is unavailable, the work is done
        again."""
        prefix = _prefix(entry)
        if prefix not in self._directories:
            directory = _SyncedDirectory(str(entry.directory), prefix)
            try:
                await self._download(directory)
            except StoreUnavailable as error:
                logger.warning("Could not read the shared cache: %s", error)
            self._directories[prefix] = directory
        return await asyncio.to_thread(entry.reload)

    async def _download(self, directory: _SyncedDirectory) -> None:
        local = await asyncio.to_thread(_file_states, directory.path)
        wanted: dict[str, BlobInfo] = {}
        async for blob in self._blob_store.list_blobs(directory.prefix):
            name = blob.key.removeprefix(directory.prefix)
            state = local.get(name)
            if state is None or (name.endswith(APPENDED) and state.size < blob.size):
                wanted[name] = blob
            elif state.size == blob.size and not _is_touch_due(name, blob):
                directory.synced[name] = state
        root = Path(directory.path)
        await self._blob_store.fetch(
            list(wanted.values()), lambda key: root / key.removeprefix(directory.prefix)
        )
        local = await asyncio.to_thread(_file_states, directory.path)
        for name, blob in wanted.items():
            if name in local and not _is_touch_due(name, blob):
                directory.synced[name] = local[name]

    async def run(self) -> None:
        """Upload changes periodically until cancelled."""
        while True:
            await asyncio.sleep(UPLOAD_INTERVAL)
            try:
                await self.upload_changes()
            except (StoreUnavailable, OSError) as error:
                logger.warning("Could not upload files to the blob store; retrying: %s", error)

    async def upload_changes(self) -> None:
        async with self._lock:
            for directory in list(self._directories.values()):
                await self._upload(directory)

    async def _upload(self, directory: _SyncedDirectory) -> None:
        """Logs are snapshot first and uploaded last: the files that their records refer to are
        then already there."""
        states = await asyncio.to_thread(_file_states, directory.path)
        if all(directory.synced.get(name) == state for name, state in states.items()):
            return  # most small jobs have no files; save them the temporary directory
        with TemporaryDirectory(prefix="upload-") as temporary:
            snapshots = await asyncio.to_thread(_snapshot_logs, directory, Path(temporary))
            states = await asyncio.to_thread(_file_states, directory.path)
            root = Path(directory.path)
            changed = {
                name: state
                for name, state in states.items()
                if directory.synced.get(name) != state and not name.endswith(APPENDED)
            }
            await self._blob_store.put([(directory.prefix + name, root / name) for name in changed])
            directory.synced.update(changed)
            await self._blob_store.put(
                [(directory.prefix + name, copy) for name, copy, _ in snapshots]
            )
            directory.synced.update({name: state for name, _, state in snapshots})


def _prefix(entry: CacheEntry) -> str:
    """Includes the version: entries of older versions are not used."""
    version_hash = hashlib.sha256(entry.version.encode()).hexdigest()[:12]
    return f"{entry.name}@{version_hash}/"


def _is_touch_due(name: str, blob: BlobInfo) -> bool:
    """Entry files are uploaded again now and then, which shows that the entry is in use."""
    return name == ENTRY_FILE and blob.stored_at < time.time() - TOUCH_INTERVAL


def _snapshot_logs(directory: _SyncedDirectory, target: Path) -> list[tuple[str, Path, _FileState]]:
    snapshots: list[tuple[str, Path, _FileState]] = []
    for name, state in _file_states(directory.path).items():
        if name.endswith(APPENDED) and directory.synced.get(name) != state:
            copy = target / name
            with open(f"{directory.path}/{name}", "rb") as file:
                copy.write_bytes(file.read(state.size))
            snapshots.append((name, copy, state))
    return snapshots


def _file_states(directory: str) -> dict[str, _FileState]:
    return dict(_walk(directory, ""))


def _walk(directory: str, prefix: str) -> Iterator[tuple[str, _FileState]]:
    with suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            if INCOMPLETE.search(entry.name):
                continue
            with suppress(FileNotFoundError):
                if entry.is_dir(follow_symlinks=False):
                    yield from _walk(entry.path, f"{prefix}{entry.name}/")
                elif entry.is_file(follow_symlinks=False):
                    status = entry.stat()
                    yield f"{prefix}{entry.name}", _FileState(status.st_size, status.st_mtime_ns)
