"""Counts and ages of jobs, workers and webhook events, for health checks, pages and Prometheus."""

import asyncio
import shutil
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Generic, TypeVar

import prometheus_client as prometheus
from prometheus_client.core import GaugeMetricFamily, Metric

from ..core.errors import NoDiskSpace, StoreUnavailable
from ..core.job import Cancelled, Completed, Failed, Job, JobStatus, Outcome, Released, utc_now
from ..jobs.events import Observer
from ..jobs.service import JobService
from ..store import Rescued, Usage, WorkerInfo
from ..store.claims import is_alive

T = TypeVar("T")

#: A store that takes longer for a simple query is considered unavailable.
STORE_TIMEOUT_SECONDS = 2.0

#: With less disk space the service is not ready: the next upload would fail.
MIN_FREE_BYTES = 16 * 1024 * 1024

#: A result is cached for this many times as long as the query took.
CACHE_FACTOR = 20
MAX_CACHE_SECONDS = 60.0

#: How long a page waits for fresh numbers before it shows the cached ones.
FRESH_WAIT_SECONDS = 0.03
#: Number of users whose counts are cached.
MAX_CACHED_USERS = 1000

StateCounts = Mapping[JobStatus, int]
Counts = Mapping[str, StateCounts]


@dataclass(frozen=True, slots=True)
class Measured(Generic[T]):
    """A value and when it was read."""

    value: T
    at: datetime


class CachedQuery(Generic[T]):
    """An expensive query: concurrent callers share one run, and its result is cached for longer the
    longer it took."""

    def __init__(self, query: Callable[[], Awaitable[T]]) -> None:
        self._query = query
        self._running: asyncio.Task[Measured[T]] | None = None
        self._expires_at = 0.0
        self._cached: Measured[T] | None = None

    async def get(self) -> T:
        # A cancelled caller must not cancel the query for the others.
        return (await asyncio.shield(self._task())).value

    async def get_or_stale(self, seconds: float) -> Measured[T]:
        """The cached value if a fresh one takes longer than this."""
        task = self._task()
        if self._cached is not None and not task.done():
            await asyncio.wait([task], timeout=seconds)
            if not task.done():
                return self._cached
        return await asyncio.shield(task)

    def expire(self) -> None:
        """Make the next caller run the query again."""
        self._expires_at = 0.0

    def _task(self) -> asyncio.Task[Measured[T]]:
        task = self._running
        if task is None or (task.done() and time.monotonic() >= self._expires_at):
            task = self._running = asyncio.create_task(self._run())
            # asyncio would log the exception if all callers are gone.
            task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return task

    async def _run(self) -> Measured[T]:
        started, at = time.monotonic(), utc_now()
        self._expires_at = 0.0
        self._cached = Measured(await self._query(), at)
        duration = time.monotonic() - started
        self._expires_at = started + duration + min(duration * CACHE_FACTOR, MAX_CACHE_SECONDS)
        return self._cached


class ServiceStats:
    """Every query raises `StoreUnavailable` if the store does not respond in time."""

    def __init__(self, job_service: JobService) -> None:
        self._job_service = job_service
        self._store = job_service.store
        self._counts: CachedQuery[Counts] = CachedQuery(lambda: self._store.counts())
        self._of_users: OrderedDict[str, CachedQuery[StateCounts]] = OrderedDict()
        self._started = time.monotonic()

    @property
    def uptime(self) -> timedelta:
        return timedelta(seconds=time.monotonic() - self._started)

    @property
    def store_kind(self) -> str:
        return self._store.kind

    async def jobs(self) -> Counts:
        """Number of jobs by type and status; with millions of jobs some seconds old."""
        return await _in_time(self._counts.get())

    async def jobs_by_state(self, user: str | None) -> Measured[StateCounts]:
        """Number of jobs by status, of all users or of one. May be stale if counting takes long."""
        if user is not None:
            if user not in self._of_users:
                self._of_users[user] = CachedQuery(partial(self._store.counts_of_user, user))
                if len(self._of_users) > MAX_CACHED_USERS:
                    self._of_users.popitem(last=False)
            return await _in_time(self._of_users[user].get_or_stale(FRESH_WAIT_SECONDS))
        counts = await _in_time(self._counts.get_or_stale(FRESH_WAIT_SECONDS))
        total = sum(map(Counter, counts.value.values()), Counter[JobStatus]())
        return Measured(total, counts.at)

    async def warm_up(self) -> None:
        """Count before the first request."""
        with suppress(StoreUnavailable):
            await self._counts.get()
        self._counts.expire()  # slow because of cold caches, not because of many jobs

    async def waiting(self) -> Mapping[str, timedelta]:
        """How long the next job of each type has been in the queue."""
        since = await _in_time(self._store.waiting_since())
        now = utc_now()
        return {job_type: max(now - at, timedelta(0)) for job_type, at in since.items()}

    async def webhook_lag(self) -> timedelta:
        """How long the next webhook event has been due."""
        due = await _in_time(self._store.next_event_due_at())
        return max(utc_now() - due, timedelta(0)) if due is not None else timedelta(0)

    async def workers(self) -> list[WorkerInfo]:
        """Live workers."""
        return [worker for worker in await _in_time(self._store.workers()) if is_alive(worker)]

    async def check_ready(self) -> None:
        """Raise `StoreUnavailable` unless jobs and files can be stored now."""
        await self.workers()  # a cheap query
        await _in_time(self._store.check_writable())
        try:
            _, free = await self.disk()
        except OSError as error:
            raise StoreUnavailable(f"The data directory cannot be used: {error}") from error
        if free < MIN_FREE_BYTES:
            raise NoDiskSpace(f"The disk of the data directory has only {free:,} bytes left")

    async def usage(self) -> Usage | None:
        """What all users have used today; None while there are no quotas."""
        if not self._job_service.quotas.enabled:
            return None
        return await _in_time(self._store.usage(utc_now().date()))

    async def disk(self) -> tuple[int, int]:
        """The size of the disk of the data directory and its free space, in bytes."""
        usage = await asyncio.to_thread(shutil.disk_usage, self._job_service.files.root.parent)
        return usage.total, usage.free


async def _in_time(answer: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(STORE_TIMEOUT_SECONDS):
            return await answer
    except TimeoutError:
        raise StoreUnavailable("The store does not respond") from None


#: The format that every version of Prometheus reads.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: Label for job types without a handler: clients may send any name.
OTHER_JOB_TYPE = "other"

JOB_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400)
ANSWER_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)

#: Description and labels of the counters of this process.
COUNTERS: dict[str, tuple[str, list[str]]] = {
    "secretary_jobs_ended": ("Finished jobs", ["job_type", "status", "code"]),
    "secretary_job_retries": ("Attempts to be retried", ["job_type", "code"]),
    "secretary_jobs_released": ("Jobs requeued at shutdown", ["job_type"]),
    "secretary_leases_lost": ("Jobs lost to another worker", ["job_type"]),
    "secretary_jobs_rescued": ("Jobs recovered from lost workers", ["end"]),
    "secretary_webhook_tries": ("Webhook delivery attempts", ["event", "outcome"]),
    "secretary_quota_refusals": ("Requests refused because a quota is used up", ["quota"]),
    "secretary_http_requests": ("HTTP responses", ["method", "route", "status"]),
}


class Metrics(Observer):
    """Collects metrics as an `Observer` of the worker, from the API and from the webhook sender."""

    def __init__(self, job_types: Collection[str], service_stats: ServiceStats) -> None:
        self._known = frozenset(job_types)
        self.service_stats = service_stats
        self._registry = registry = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=registry)
        histogram = partial(prometheus.Histogram, registry=registry)
        self._wait = histogram(
            "secretary_job_wait_seconds",
            "Time from submission to the first start, for jobs started by this process",
            ["job_type"],
            buckets=JOB_BUCKETS,
        )
        self._run = histogram(
            "secretary_job_run_seconds",
            "Duration of attempts in this process",
            ["job_type"],
            buckets=JOB_BUCKETS,
        )
        self._answers = histogram(
            "secretary_http_answer_seconds",
            "Time from a request to the first byte of its response",
            ["method", "route"],
            buckets=ANSWER_BUCKETS,
        )
        self._counters = {
            name: prometheus.Counter(name, text, labels, registry=registry)
            for name, (text, labels) in COUNTERS.items()
        }

    # Observer of the worker

    def started(self, job: Job) -> None:
        if job.attempt == 1 and job.processing_started_at is not None:
            waited = (job.processing_started_at - job.created_at).total_seconds()
            self._wait.labels(self._type(job.job_type)).observe(max(waited, 0))

    def ended(self, job: Job, outcome: Outcome) -> None:
        job_type = self._type(job.job_type)
        if job.processing_started_at is not None:
            ran = (utc_now() - job.processing_started_at).total_seconds()
            self._run.labels(job_type).observe(max(ran, 0))
        match outcome:
            case Completed():
                self._count("secretary_jobs_ended", job_type, "completed", "")
            case Failed(error=error, retry_at=None):
                self._count("secretary_jobs_ended", job_type, "failed", error.code)
            case Failed(error=error):
                self._count("secretary_job_retries", job_type, error.code)
            case Cancelled():
                self._count("secretary_jobs_ended", job_type, "cancelled", "CANCELLED")
            case Released():
                self._count("secretary_jobs_released", job_type)

    def lost(self, job: Job) -> None:
        self._count("secretary_leases_lost", self._type(job.job_type))

    def rescued(self, jobs: Sequence[Rescued]) -> None:
        for job in jobs:
            end = "cancelled" if job.cancelled else "failed" if job.failed else "queued"
            self._count("secretary_jobs_rescued", end)

    # Webhook sender

    def webhook_attempted(self, event: str, delivered: bool) -> None:
        self._count("secretary_webhook_tries", event, "delivered" if delivered else "failed")

    # API

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        self._count("secretary_http_requests", method, route, str(status))
        self._answers.labels(method, route).observe(seconds)

    def quota_refused(self, quota: str) -> None:
        self._count("secretary_quota_refusals", quota)

    def _count(self, name: str, *labels: str) -> None:
        self._counters[name].labels(*labels).inc()

    def _type(self, job_type: str) -> str:
        return job_type if job_type in self._known else OTHER_JOB_TYPE

    # Output

    async def exposition(self) -> bytes:
        """All metrics as text; those of the store are missing while it is unavailable."""
        queries = (
            self._jobs(),
            self._waiting(),
            self._workers(),
            self._webhooks(),
            self._usage(),
            self._disk(),
        )
        collected = await asyncio.gather(*map(_if_available, queries))
        families = [family for metrics in collected for family in metrics or ()]
        is_up = None not in collected
        up = GaugeMetricFamily("secretary_store_up", "Whether the store responds", value=is_up)
        return prometheus.generate_latest(_Joined(self._registry, [up, *families]))

    async def _jobs(self) -> list[Metric]:
        totals: Counter[tuple[str, JobStatus]] = Counter()
        for job_type, by_status in (await self.service_stats.jobs()).items():
            for status, n in by_status.items():
                totals[self._type(job_type), status] += n
        name, text = "secretary_jobs", "Stored jobs by type and state"
        family = GaugeMetricFamily(name, text, labels=["job_type", "status"])
        for (job_type, status), n in sorted(totals.items()):
            family.add_metric([job_type, status.value], n)
        return [family]

    async def _waiting(self) -> list[Metric]:
        longest: dict[str, float] = {}
        for job_type, waited in (await self.service_stats.waiting()).items():
            label = self._type(job_type)
            longest[label] = max(longest.get(label, 0.0), waited.total_seconds())
        text = "How long the next job of a type has been in the queue"
        family = GaugeMetricFamily("secretary_queue_wait_seconds", text, labels=["job_type"])
        for label, seconds in sorted(longest.items()):
            family.add_metric([label], seconds)
        return [family]

    async def _workers(self) -> list[Metric]:
        alive = await self.service_stats.workers()
        slots = sum(worker.slots for worker in alive)
        io_slots = sum(worker.io_slots for worker in alive)
        text = "Further slots of live workers for jobs that wait for the network"
        return [
            GaugeMetricFamily("secretary_workers", "Live workers", value=len(alive)),
            GaugeMetricFamily("secretary_worker_slots", "Job slots of live workers", value=slots),
            GaugeMetricFamily("secretary_worker_io_slots", text, value=io_slots),
        ]

    async def _webhooks(self) -> list[Metric]:
        lag = (await self.service_stats.webhook_lag()).total_seconds()
        text = "How long the next webhook event has been due"
        return [GaugeMetricFamily("secretary_webhook_lag_seconds", text, value=lag)]

    async def _usage(self) -> list[Metric]:
        """Without a label for the user: there may be very many."""
        usage = await self.service_stats.usage()
        if usage is None:
            return []
        text = "What all users together have used today"
        family = GaugeMetricFamily("secretary_usage_today", text, labels=["unit"])
        family.add_metric(["jobs"], usage.jobs)
        family.add_metric(["pages"], usage.pages)
        family.add_metric(["audio_seconds"], usage.audio_seconds)
        active = "Users who have used something today"
        return [family, GaugeMetricFamily("secretary_users_today", active, value=usage.users)]

    async def _disk(self) -> list[Metric]:
        try:
            size, left = await self.service_stats.disk()
        except OSError:  # the other metrics are still useful without the directory
            return []
        free, total = "secretary_disk_free_bytes", "secretary_disk_total_bytes"
        return [
            GaugeMetricFamily(free, "Free space for the data directory", value=left),
            GaugeMetricFamily(total, "Size of the disk of the data directory", value=size),
        ]


async def _if_available(query: Awaitable[T]) -> T | None:
    try:
        return await query
    except StoreUnavailable:
        return None


class _Joined(prometheus.CollectorRegistry):
    """A registry plus the metrics of the store, without the `_created` samples."""

    def __init__(self, registry: prometheus.CollectorRegistry, families: Iterable[Metric]) -> None:
        super().__init__()
        self._parts = registry
        self._families = families

    def collect(self) -> Iterable[Metric]:
        for family in (*self._families, *self._parts.collect()):
            family.samples = [s for s in family.samples if not s.name.endswith("_created")]
            yield family
