"""Hands the changes of jobs to those in this process who wait for them."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from ..core.errors import StoreUnavailable
from ..core.job import FINAL_STATUSES, Job, JobStatus
from ..store import Change, Changes, JobQuery, JobStore

logger = logging.getLogger(__name__)

#: How long to wait before another look at what other processes changed: a twentieth of the time
#: in which nothing did, within these bounds.
MIN_POLL_SECONDS, MAX_POLL_SECONDS = 0.05, 0.5
#: At least so long between two looks, so that changes are read many at a time.
BATCHING_SECONDS = 0.005
#: Before another look when the store did not answer.
RETRY_SECONDS = 1.0

PAGE_SIZE = 1000

#: A subscriber that is further behind has to ask the store what it missed.
MAX_PENDING = 10_000


@dataclass(frozen=True, slots=True)
class PendingChanges:
    """What changed since the last time. `position` is behind it."""

    changes: list[Change]
    position: str
    #: There was more than is listed here.
    lost: bool = False


class Subscription:
    """What changed and was not taken yet: each job and batch once, however often it changed.

    Made by `Hub.subscription`; it hears of changes inside of `async with`.
    """

    __slots__ = ("_hub", "_lost", "_pending", "_waiter", "batch_id", "closed", "job_id")

    def __init__(self, hub: "EventHub", job_id: str | None, batch_id: str | None) -> None:
        self.job_id = job_id
        self.batch_id = batch_id
        #: Nothing more will come: there is nobody to hear it, or nobody to tell it.
        self.closed = False
        self._hub = hub
        self._pending: dict[Change, None] = {}  # as a set that keeps its order
        self._lost = False
        self._waiter: asyncio.Future[None] | None = None

    async def __aenter__(self) -> "Subscription":
        await self._hub.join(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._hub.leave(self)

    async def wait(self, seconds: float) -> bool:
        """Wait until there is something to take, or it is closed; False when time is up."""
        if self._pending or self._lost or self.closed:
            return True
        loop = asyncio.get_running_loop()
        self._waiter = waiter = loop.create_future()
        timer = loop.call_later(seconds, _settle, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None
        return bool(self._pending or self._lost or self.closed)

    def take(self) -> PendingChanges:
        taken = PendingChanges(list(self._pending), self._hub.position, self._lost)
        self._pending.clear()
        self._lost = False
        return taken

    def close(self) -> None:
        self.closed = True
        self._wake()

    def note(self, change: Change) -> None:
        if len(self._pending) >= MAX_PENDING:
            self.lose()
        else:
            self._pending[change] = None
            self._wake()

    def lose(self) -> None:
        self._pending.clear()
        self._lost = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None:
            _settle(self._waiter)


def _settle(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


class EventHub:
    """Reads the store's feed of changes once for all who wait, and only while somebody does."""

    def __init__(self, store: JobStore) -> None:
        self._store = store
        self._of_job: defaultdict[str, set[Subscription]] = defaultdict(set)
        self._of_batch: defaultdict[str, set[Subscription]] = defaultdict(set)
        self._of_all: set[Subscription] = set()
        self._count = 0
        #: All changes up to here were handed out.
        self.position = ""
        self._starting = asyncio.Lock()
        self._poller: asyncio.Task[None] | None = None
        self._ended = False

    @property
    def subscribers(self) -> int:
        return self._count

    def subscription(
        self, *, job_id: str | None = None, batch_id: str | None = None
    ) -> Subscription:
        """To the changes of a job, of a batch and its jobs, or, with neither, to all."""
        return Subscription(self, job_id, batch_id)

    async def ended(self, job_id: str, seconds: float) -> Job | None:
        """Wait for the end of a job; None when it did not come in time."""
        deadline = time.monotonic() + seconds
        async with self.subscription(job_id=job_id) as subscription:
            in_time = True
            while not await self._has_ended(job_id):
                if not in_time or subscription.closed:
                    return None
                in_time = await subscription.wait(max(0.0, deadline - time.monotonic()))
                subscription.take()
            return await self._store.get(job_id)

    def stop(self) -> None:
        """Let everybody go who waits, and nobody wait from now on: the service stops."""
        self._ended = True
        for subscription in self._everybody():
            subscription.close()

    async def close(self) -> None:
        self.stop()
        if self._poller is not None:
            self._poller.cancel()
            await asyncio.wait({self._poller})

    async def join(self, subscription: Subscription) -> None:
        """From now on it hears of all changes."""
        self._count += 1
        self._group(subscription).add(subscription)
        try:
            await self._start()
        except BaseException:
            self.leave(subscription)
            raise
        if self._ended:
            subscription.close()

    def leave(self, subscription: Subscription) -> None:
        self._count -= 1
        self._group(subscription).discard(subscription)
        if subscription.job_id is not None and not self._of_job[subscription.job_id]:
            del self._of_job[subscription.job_id]
        if subscription.batch_id is not None and not self._of_batch[subscription.batch_id]:
            del self._of_batch[subscription.batch_id]

    def _group(self, subscription: Subscription) -> set[Subscription]:
        if subscription.job_id is not None:
            return self._of_job[subscription.job_id]
        if subscription.batch_id is not None:
            return self._of_batch[subscription.batch_id]
        return self._of_all

    def _everybody(self) -> list[Subscription]:
        groups = [self._of_all, *self._of_job.values(), *self._of_batch.values()]
        return [subscription for group in groups for subscription in group]

    async def _has_ended(self, job_id: str) -> bool:
        """Without its log and results; of a job that is not there too, as nothing will come."""
        found = await self._store.find(JobQuery(job_id=job_id, limit=1))
        return not found.items or found.items[0].status in FINAL_STATUSES

    async def _start(self) -> None:
        async with self._starting:
            if self._poller is None:
                self.position = (await self._store.changes(None)).position
                if not self._ended:
                    self._poller = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            await self._poll()
        finally:
            self._poller = None

    async def _poll(self) -> None:
        changed_at = time.monotonic()
        while self._count and not self._ended:
            quiet = time.monotonic() - changed_at
            patience = min(MAX_POLL_SECONDS, max(MIN_POLL_SECONDS, quiet / 20))
            try:
                found = await self._store.changes(self.position, limit=PAGE_SIZE, seconds=patience)
            except StoreUnavailable as error:
                logger.error("Changes of jobs could not be read, will try again: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            except Exception:
                logger.exception("Reading the changes of jobs broke, will try again")
                await asyncio.sleep(RETRY_SECONDS)
                continue
            self._hand_out(found)
            if found.items:
                changed_at = time.monotonic()
            if len(found.items) < PAGE_SIZE:
                await asyncio.sleep(BATCHING_SECONDS)

    def _hand_out(self, found: Changes) -> None:
        self.position = found.position
        for change in found.items:
            for subscription in self._concerned(change):
                subscription.note(change)
        if found.gap:
            for subscription in self._everybody():
                subscription.lose()

    def _concerned(self, change: Change) -> list[Subscription]:
        found = [*self._of_all]
        if change.job_id is not None:
            found += self._of_job.get(change.job_id, ())
        if change.batch_id is not None:
            found += self._of_batch.get(change.batch_id, ())
        return found


#: The parts of the results that are told, by job type: those that are always there, null if
#: need be, and those that are there only if the job has made them.
_TEXT = (("extracted_text", "metadata"), ("pages_archive_url", "images_archive_url"))
_SPEECH = (("transcription",), ("subtitles",))
EVENT_FIELDS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "pdf": _TEXT,
    "office": _TEXT,
    "imageocr": _TEXT,
    "audio": _SPEECH,
    "video": _SPEECH,
    "transformer": (("text", "structured_data"), ()),
    "session": (("markdown_content", "markdown_file"), ()),
}


def event_payload(job: Job) -> dict[str, Any] | None:
    """The outcome of a completed job; None for any other."""
    if job.status is not JobStatus.COMPLETED:
        return None
    results = job.results or {}
    if job.job_type not in EVENT_FIELDS:
        return dict(results)
    always, sometimes = EVENT_FIELDS[job.job_type]
    data = {name: results.get(name) for name in always}
    if data.get("text", "") is None:  # the shape that all results share calls it otherwise
        data["text"] = results.get("markdown_content")
    return data | {name: results[name] for name in sometimes if results.get(name) is not None}
