"""Distributes changes of jobs: to subscribers in this process, and to metrics and traces."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..core.errors import StoreUnavailable
from ..core.job import FINAL_STATUSES, Job, JobStatus, Outcome, Progress
from ..store import Change, Changes, JobQuery, JobStore, Rescued

logger = logging.getLogger(__name__)

#: Poll interval for changes by other processes: a twentieth of the time since the last change,
#: within these bounds.
MIN_POLL_SECONDS, MAX_POLL_SECONDS = 0.05, 0.5
#: Minimum pause between two polls, so that changes are read in batches.
BATCHING_SECONDS = 0.005
#: Pause after the store was unavailable.
RETRY_SECONDS = 1.0

PAGE_SIZE = 1000

#: A subscriber that is further behind loses its backlog and has to query the store.
MAX_PENDING = 10_000


#: What a subscriber follows: ("job", id), ("batch", id), or everything.
Topic = tuple[str, str | None]
EVERYTHING: Topic = ("everything", None)


@dataclass(slots=True, eq=False)
class Subscription:
    """Pending changes of one subscriber: each job and batch once, however often it changed.

    Created by `EventHub.subscription`; active inside `async with`.
    """

    _hub: "EventHub"
    topic: Topic
    #: No more changes will come.
    closed: bool = False
    _pending: dict[Change, None] = field(default_factory=dict)  # an ordered set
    _lost: bool = False
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aenter__(self) -> "Subscription":
        await self._hub.subscribe(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._hub.unsubscribe(self)

    async def wait(self, seconds: float) -> bool:
        """Wait for a change or the end of the subscription; False after the timeout."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        return self._changed.is_set()

    def take(self) -> Changes:
        """The changes since the last call; with a `gap` if some were dropped."""
        taken = Changes(list(self._pending), self._hub.position, self._lost)
        self._pending.clear()
        self._lost = False
        if not self.closed:
            self._changed.clear()
        return taken

    def close(self) -> None:
        self.closed = True
        self._changed.set()

    def push(self, change: Change) -> None:
        if len(self._pending) >= MAX_PENDING:
            self.drop()
        else:
            self._pending[change] = None
            self._changed.set()

    def drop(self) -> None:
        """Discard the backlog."""
        self._pending.clear()
        self._lost = True
        self._changed.set()


class EventHub:
    """Reads the store's change feed once for all subscribers, and only while there are any."""

    def __init__(self, store: JobStore) -> None:
        self._store = store
        self._subscriptions: dict[Topic, set[Subscription]] = {}
        #: The number of active subscriptions.
        self.subscribers = 0
        #: All changes up to here have been distributed.
        self.position = ""
        self._starting = asyncio.Lock()
        self._poller: asyncio.Task[None] | None = None
        self._stopped = False

    def subscription(
        self, *, job_id: str | None = None, batch_id: str | None = None
    ) -> Subscription:
        """Subscribe to a job, to a batch and its jobs, or, with neither, to everything."""
        if job_id is None and batch_id is None:
            return Subscription(self, EVERYTHING)
        return Subscription(self, ("job", job_id) if job_id is not None else ("batch", batch_id))

    async def wait_until_final(self, job_id: str, seconds: float) -> Job | None:
        """Wait until a job has finished; None after the timeout."""
        deadline = time.monotonic() + seconds
        async with self.subscription(job_id=job_id) as subscription:
            in_time = True
            while True:
                if await self._is_final(job_id):
                    return await self._store.get(job_id)
                if not in_time or subscription.closed:
                    return None
                in_time = await subscription.wait(max(0.0, deadline - time.monotonic()))
                subscription.take()

    async def _is_final(self, job_id: str) -> bool:
        """Whether a job has finished or is gone. Reads neither log nor results, and keeps no
        parameters, which may be megabytes of text."""
        page = await self._store.find(JobQuery(job_id=job_id, limit=1))
        return not page.items or page.items[0].status in FINAL_STATUSES

    def stop(self) -> None:
        """Close all subscriptions, current and future: the service is shutting down."""
        self._stopped = True
        for subscription in self._all():
            subscription.close()

    async def close(self) -> None:
        self.stop()
        if self._poller is not None:
            self._poller.cancel()
            await asyncio.wait({self._poller})

    async def subscribe(self, subscription: Subscription) -> None:
        self.subscribers += 1
        self._subscriptions.setdefault(subscription.topic, set()).add(subscription)
        try:
            async with self._starting:
                if self._poller is None:
                    self.position = (await self._store.changes(None)).position
                    if not self._stopped:
                        self._poller = asyncio.create_task(self._poll())
        except BaseException:
            self.unsubscribe(subscription)
            raise
        if self._stopped:
            subscription.close()

    def unsubscribe(self, subscription: Subscription) -> None:
        self.subscribers -= 1
        group = self._subscriptions[subscription.topic]
        group.discard(subscription)
        if not group:
            del self._subscriptions[subscription.topic]

    def _all(self) -> list[Subscription]:
        return [one for group in self._subscriptions.values() for one in group]

    async def _poll(self) -> None:
        changed_at = time.monotonic()
        try:
            while self.subscribers and not self._stopped:
                idle_seconds = time.monotonic() - changed_at
                interval = min(MAX_POLL_SECONDS, max(MIN_POLL_SECONDS, idle_seconds / 20))
                try:
                    position = self.position
                    changes = await self._store.changes(position, limit=PAGE_SIZE, seconds=interval)
                except Exception as error:
                    if isinstance(error, StoreUnavailable):
                        logger.error("Could not read the change feed; retrying: %s", error)
                    else:
                        logger.exception("Reading the change feed failed; retrying")
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                self._distribute(changes)
                if changes.items:
                    changed_at = time.monotonic()
                if len(changes.items) < PAGE_SIZE:
                    await asyncio.sleep(BATCHING_SECONDS)
        finally:
            self._poller = None

    def _distribute(self, changes: Changes) -> None:
        self.position = changes.position
        for change in changes.items:
            for topic in (EVERYTHING, ("job", change.job_id), ("batch", change.batch_id)):
                for subscription in self._subscriptions.get(topic, ()):
                    subscription.push(change)
        if changes.gap:
            for subscription in self._all():
                subscription.drop()


#: The results that events contain, by job type: those always present (null if missing), and
#: those present only if the job produced them.
_TEXT_FIELDS = (
    ("extracted_text", "metadata"),
    (
        "pages_archive_url",
        "images_archive_url",
        "mistral_ocr_raw_url",
        "mistral_ocr_raw_metadata",
        "mistral_ocr_images_url",
    ),
)
_SPEECH_FIELDS = (("transcription",), ("subtitles",))
EVENT_FIELDS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "pdf": _TEXT_FIELDS,
    "office": _TEXT_FIELDS,
    "imageocr": _TEXT_FIELDS,
    "audio": _SPEECH_FIELDS,
    "video": _SPEECH_FIELDS,
    "transformer": (("text", "structured_data"), ()),
    "chat": (("text", "structured_data"), ()),
    "imageanalyzer": (("text", "structured_data"), ()),
    "session": (("markdown_content", "markdown_file"), ()),
    "track": (("markdown_content", "markdown_file", "structured_data"), ()),
}


def event_payload(job: Job) -> dict[str, Any] | None:
    """The `data` of a completed job's event; None for other jobs."""
    if job.status is not JobStatus.COMPLETED:
        return None
    if job.job_type not in EVENT_FIELDS:
        return dict(job.results or {})
    results = job.public_results
    always, sometimes = EVENT_FIELDS[job.job_type]
    data = {name: results.get(name) for name in always}
    return data | {name: results[name] for name in sometimes if results.get(name) is not None}


class Observer:
    """Called while jobs run, so every method must be fast and must not raise. Does nothing by
    default."""

    def started(self, job: Job) -> None:
        """An attempt starts."""

    def progressed(self, job: Job, progress: Progress) -> None:
        """The handler reported progress."""

    def ended(self, job: Job, outcome: Outcome) -> None:
        """The outcome of the attempt has been recorded."""

    def lost(self, job: Job) -> None:
        """The lease expired; another worker may own the job now."""

    def rescued(self, jobs: Sequence[Rescued]) -> None:
        """Jobs were taken away from workers that died or lost their leases."""


class Observers(Observer):
    """Calls several observers in turn; None is skipped."""

    def __init__(self, *observers: Observer | None) -> None:
        for name in ("started", "progressed", "ended", "lost", "rescued"):
            methods = [getattr(one, name) for one in observers if one is not None]
            setattr(self, name, partial(self._call, methods))

    @staticmethod
    def _call(methods: Sequence[Callable[..., None]], *args: Any) -> None:
        for method in methods:
            method(*args)
