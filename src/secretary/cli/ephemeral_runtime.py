"""A desk and a worker of one's own for as long as one command runs; nothing of them stays."""

import asyncio
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from ..app import make_job_service, make_worker
from ..config import Settings
from ..core.errors import InvalidSettings
from ..jobs.service import JobService
from ..serve import run_worker
from ..store import open_store

#: Before the names of the directories of single runs.
RUN = "run-"
LOCK = "lock"
CACHE = "cache"


@asynccontextmanager
async def workshop(settings: Settings, *, slots: int) -> AsyncIterator[JobService]:
    """What is handed in at the desk is worked on at once; at the end what still runs is stopped."""
    async with AsyncExitStack() as stack:
        store = open_store(settings.store_url)
        parts = make_worker(settings, store, slots=slots)
        stack.push_async_callback(parts.sandbox.close)
        await parts.sandbox.open()  # first, because a process takes longest to come up
        await store.open()
        stack.push_async_callback(store.close)
        working = asyncio.create_task(run_worker(parts))
        stop_if_broken = _canceller()
        working.add_done_callback(stop_if_broken)
        try:
            yield make_job_service(settings, store)
        finally:
            working.remove_done_callback(stop_if_broken)
            parts.worker.drain()
            parts.worker.drain()  # asked twice: now
            await working


def _canceller() -> Callable[[asyncio.Task[None]], None]:
    """Ends the task that runs now: it would wait for ever for a worker that is gone."""
    here = asyncio.current_task()
    assert here is not None

    def cancel(_: asyncio.Task[None]) -> None:
        here.cancel()

    return cancel


@contextmanager
def run_directory(parent: Path) -> Iterator[Path]:
    """A directory for one run. What killed runs have left is removed first."""
    try:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_abandoned(parent)
        directory = Path(tempfile.mkdtemp(prefix=RUN, dir=parent.resolve()))
    except OSError as error:
        text = f"{parent} cannot be written: {error.strerror}. Name another place with --data-dir."
        raise InvalidSettings(text) from None
    lock = os.open(directory / "new", os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.rename(directory / "new", directory / LOCK)  # never seen without its lock held
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)


def keep_cache(home: Path, directory: Path) -> None:
    """Let what is found in the cache outlive the run, for the next one."""
    kept = (home / CACHE).resolve()
    kept.mkdir(exist_ok=True)
    (directory / CACHE).symlink_to(kept)


def _remove_abandoned(parent: Path) -> None:
    for directory in parent.glob(f"{RUN}*"):
        try:
            lock = os.open(directory / LOCK, os.O_RDWR)
        except OSError:  # another run is just beginning or ending
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(directory, ignore_errors=True)
        except BlockingIOError:
            pass  # it is alive
        finally:
            os.close(lock)


def user_directory() -> Path:
    """Where programs keep what they can make again, for this user and across runs."""
    if sys.platform == "darwin":
        caches = Path("~/Library/Caches")
    else:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return Path(os.path.expanduser(caches)) / "secretary"
