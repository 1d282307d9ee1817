"""Gathers what a running job says and writes it to the store a few times a second."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from .errors import LeaseLost, StoreUnavailable
from .job import MAX_LOG_ENTRIES, Job, LogEntry, Progress
from .observer import Observer
from .store import JobStore

logger = logging.getLogger(__name__)

#: How long progress and logs are gathered before they are written together.
REPORT_EVERY = 0.2


class StoreReporter:
    """A `Reporter` for one attempt; `on_lost` is called when the job is another worker's now."""

    def __init__(
        self, store: JobStore, job: Job, observer: Observer, *, on_lost: Callable[[], None]
    ) -> None:
        self._store = store
        self._job = job
        self._observer = observer
        self._on_lost = on_lost
        self._progress: Progress | None = None
        self._logs: list[LogEntry] = []
        self._writing: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    def progress(self, progress: Progress) -> None:
        self._observer.progressed(self._job, progress)
        self._progress = progress
        self._write_soon()

    def log(self, entry: LogEntry) -> None:
        self._logs.append(entry)
        self._write_soon()

    def _write_soon(self) -> None:
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_later())

    async def _write_later(self) -> None:
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(REPORT_EVERY):
                    await self._hurry.wait()
            await self._write()
        except LeaseLost:
            self._on_lost()
        except StoreUnavailable as error:
            logger.warning("Cannot report progress: %s", error)
        finally:
            self._writing = None

    async def _write(self) -> None:
        progress, logs = self._progress, self._logs
        self._progress, self._logs = None, []
        try:
            await self._store.report(self._job, progress, logs)
        except StoreUnavailable:
            self._progress = self._progress or progress
            # A job keeps no more of them; a store may be away for hours.
            self._logs = (logs + self._logs)[-MAX_LOG_ENTRIES:]
            raise

    async def flush(self) -> None:
        """Write what is left, now."""
        if self._writing is not None:
            self._hurry.set()
            await self._writing
        if self._progress is not None or self._logs:
            await self._write()
