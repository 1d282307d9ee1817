"""A store and a worker that exist only while one command runs."""

import asyncio
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from ..app import Application
from ..config import Settings
from ..core.errors import InvalidSettings
from ..serve import run_worker

RUN_PREFIX = "run-"
LOCK = "lock"
CACHE = "cache"


@asynccontextmanager
async def ephemeral_runtime(settings: Settings, *, slots: int) -> AsyncIterator[Application]:
    """Run a worker for the jobs submitted to the yielded application; stop them at exit."""
    async with AsyncExitStack() as stack:
        app = Application(settings)
        components = app.worker(slots=slots)
        stack.push_async_callback(components.sandbox.close)
        await components.sandbox.open()  # first, because starting processes takes longest
        await stack.enter_async_context(app)
        caller = asyncio.current_task()
        assert caller is not None

        def cancel_caller(_: asyncio.Task[None]) -> None:
            caller.cancel()  # without a worker it would wait forever

        worker_task = asyncio.create_task(run_worker(components))
        worker_task.add_done_callback(cancel_caller)
        try:
            yield app
        finally:
            worker_task.remove_done_callback(cancel_caller)
            components.worker.drain()
            components.worker.drain()  # the second call stops running jobs at once
            await worker_task


@contextmanager
def run_directory(parent: Path) -> Iterator[Path]:
    """Create a directory for one run, and remove those of runs that were killed."""
    try:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_abandoned(parent)
        directory = Path(tempfile.mkdtemp(prefix=RUN_PREFIX, dir=parent.resolve()))
    except OSError as error:
        text = f"{parent} cannot be written: {error.strerror}. Name another place with --data-dir."
        raise InvalidSettings(text) from None
    lock = os.open(directory / "new", os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.rename(directory / "new", directory / LOCK)  # so the lock file is never seen unlocked
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)


def keep_cache(parent: Path, directory: Path) -> None:
    """Share the cache between runs."""
    shared = (parent / CACHE).resolve()
    shared.mkdir(exist_ok=True)
    (directory / CACHE).symlink_to(shared)


def _remove_abandoned(parent: Path) -> None:
    for directory in parent.glob(f"{RUN_PREFIX}*"):
        try:
            lock = os.open(directory / LOCK, os.O_RDWR)
        except OSError:  # another run is just starting or ending
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(directory, ignore_errors=True)
        except BlockingIOError:
            pass  # in use
        finally:
            os.close(lock)


def user_cache() -> Path:
    """The user's cache directory for this program."""
    if sys.platform == "darwin":
        caches = Path("~/Library/Caches")
    else:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return Path(os.path.expanduser(caches)) / "secretary"
