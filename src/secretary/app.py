"""Puts the parts together: the only place that knows all of them."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from .config import Retention, Settings
from .errors import InvalidSettings
from .executor import Executor
from .files import JobFiles
from .handlers import BUILTIN
from .job import JobStatus
from .registry import Registry
from .sandbox import Limits, Sandbox
from .store import STORES, JobStore, open_store
from .upkeep import Upkeep, UpkeepOptions
from .worker import Worker, WorkerOptions

logger = logging.getLogger(__name__)

MEBIBYTE = 1024 * 1024


def make_registry(settings: Settings) -> Registry:
    registry = Registry(BUILTIN)
    for origin in settings.handlers:
        registry.load(origin)
    return registry


def make_files(settings: Settings) -> JobFiles:
    return JobFiles(settings.storage.data_dir.resolve())


@asynccontextmanager
async def opened_store(settings: Settings) -> AsyncIterator[JobStore]:
    scheme = settings.store_url.partition("://")[0]
    if scheme not in STORES:
        raise InvalidSettings(f"storage.mongodb_uri: {scheme}:// is not a MongoDB address")
    store = open_store(settings.store_url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@dataclass(frozen=True, slots=True)
class Parts:
    """A worker and what it needs, ready to run."""

    worker: Worker
    upkeep: Upkeep
    sandbox: Sandbox


def make_worker(
    settings: Settings,
    store: JobStore,
    *,
    job_types: Collection[str] | None = None,
    slots: int | None = None,
) -> Parts:
    options = worker_options(settings)
    options = replace(options, job_types=job_types, slots=slots or options.slots)
    files = make_files(settings)
    sandbox = Sandbox(
        options.slots,
        limits=Limits(memory_bytes=settings.generic_worker.memory_limit_mb * MEBIBYTE),
        preload=("secretary.isolation",),
        max_calls=10_000,
    )
    executor = Executor(
        store=store,
        registry=make_registry(settings),
        sandbox=sandbox,
        files=files,
        default_timeout=timedelta(seconds=settings.generic_worker.timeout_sec),
        max_crashes=settings.generic_worker.max_crashes,
    )
    upkeep_options = UpkeepOptions(
        max_crashes=settings.generic_worker.max_crashes, keep=_keep(settings.retention)
    )
    worker = Worker(store, executor, options)
    return Parts(worker, Upkeep(store, files, upkeep_options), sandbox)


def worker_options(settings: Settings) -> WorkerOptions:
    group = settings.generic_worker
    return WorkerOptions(
        slots=group.max_concurrent_workers,
        max_per_type=group.max_concurrent_per_type,
        max_per_user=group.max_concurrent_per_user,
        poll_interval=timedelta(seconds=group.poll_interval_sec),
        grace=timedelta(seconds=group.shutdown_grace_sec),
    )


def _keep(retention: Retention) -> dict[JobStatus, timedelta]:
    days = {
        JobStatus.COMPLETED: retention.completed_days,
        JobStatus.FAILED: retention.failed_days,
        JobStatus.CANCELLED: retention.cancelled_days,
    }
    return {status: timedelta(days=number) for status, number in days.items() if number}


async def run_worker(parts: Parts) -> None:
    """Work until the worker was told to drain and has."""
    await parts.sandbox.open()
    upkeep = asyncio.create_task(parts.upkeep.run())
    try:
        await parts.worker.run()
    finally:
        upkeep.cancel()
        with suppress(asyncio.CancelledError):
            await upkeep
        await parts.sandbox.close()


def drain_on_signals(parts: Parts) -> None:
    """The first signal drains, the second ends at once."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, parts.worker.drain)


def require_writable(directory: Path) -> None:
    """Better a sentence at the start than a failure at the first upload."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe = directory / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        text = f"storage.data_dir: {directory} cannot be written: {error.strerror}"
        raise InvalidSettings(text) from None


async def work(
    settings: Settings, *, job_types: Collection[str] | None = None, slots: int | None = None
) -> None:
    """`secretary worker`: claim and run jobs until a signal says to stop."""
    require_writable(settings.storage.data_dir)
    async with opened_store(settings) as store:
        parts = make_worker(settings, store, job_types=job_types, slots=slots)
        drain_on_signals(parts)
        logger.info("Worker %s takes jobs", parts.worker.worker_id)
        await run_worker(parts)
