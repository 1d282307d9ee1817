"""Prometheus metrics of this process and of the store."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    Metric,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily

from ..core.errors import StoreUnavailable
from ..core.job import (
    Cancelled,
    Completed,
    Failed,
    Job,
    JobStatus,
    Outcome,
    Progress,
    Released,
    utc_now,
)
from ..jobs.events import Observer
from ..store import Rescued
from .service_stats import ServiceStats

#: The format that every version of Prometheus reads.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: Label for job types without a handler: clients may send any name.
OTHER_JOB_TYPE = "other"

WAIT_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400)
RUN_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400)
ANSWER_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class Metrics(Observer):
    """Collects metrics as an `Observer` of the worker, from the API and from the webhook sender."""

    def __init__(self, job_types: Collection[str], service_stats: ServiceStats) -> None:
        self._known = frozenset(job_types)
        self.service_stats = service_stats
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._wait = Histogram(
            "secretary_job_wait_seconds",
            "Time from submission to the first start, for jobs started by this process",
            ["job_type"],
            buckets=WAIT_BUCKETS,
            registry=registry,
        )
        self._run = Histogram(
            "secretary_job_run_seconds",
            "Duration of attempts in this process",
            ["job_type"],
            buckets=RUN_BUCKETS,
            registry=registry,
        )
        self._ended = _counter(
            "secretary_jobs_ended",
            "Finished jobs",
            registry,
            "job_type",
            "status",
            "code",
        )
        self._retries = _counter(
            "secretary_job_retries",
            "Attempts to be retried",
            registry,
            "job_type",
            "code",
        )
        self._released = _counter(
            "secretary_jobs_released",
            "Jobs requeued at shutdown",
            registry,
            "job_type",
        )
        self._lost = _counter(
            "secretary_leases_lost",
            "Jobs lost to another worker",
            registry,
            "job_type",
        )
        self._rescued = _counter(
            "secretary_jobs_rescued", "Jobs recovered from lost workers", registry, "end"
        )
        self._webhook_attempts = _counter(
            "secretary_webhook_tries", "Webhook delivery attempts", registry, "event", "outcome"
        )
        self._requests = _counter(
            "secretary_http_requests", "HTTP responses", registry, "method", "route", "status"
        )
        self._answers = Histogram(
            "secretary_http_answer_seconds",
            "Time from a request to the first byte of its response",
            ["method", "route"],
            buckets=ANSWER_BUCKETS,
            registry=registry,
        )

    # Observer of the worker

    def started(self, job: Job) -> None:
        if job.attempt == 1 and job.processing_started_at is not None:
            waited = (job.processing_started_at - job.created_at).total_seconds()
            self._wait.labels(self._type(job.job_type)).observe(max(waited, 0))

    def progressed(self, job: Job, progress: Progress) -> None:
        pass

    def ended(self, job: Job, outcome: Outcome) -> None:
        job_type = self._type(job.job_type)
        if job.processing_started_at is not None:
            ran = (utc_now() - job.processing_started_at).total_seconds()
            self._run.labels(job_type).observe(max(ran, 0))
        match outcome:
            case Completed():
                self._ended.labels(job_type, "completed", "").inc()
            case Failed(error=error, retry_at=None):
                self._ended.labels(job_type, "failed", error.code).inc()
            case Failed(error=error):
                self._retries.labels(job_type, error.code).inc()
            case Cancelled():
                self._ended.labels(job_type, "cancelled", "CANCELLED").inc()
            case Released():
                self._released.labels(job_type).inc()

    def lost(self, job: Job) -> None:
        self._lost.labels(self._type(job.job_type)).inc()

    def rescued(self, jobs: Sequence[Rescued]) -> None:
        for job in jobs:
            end = "cancelled" if job.cancelled else "failed" if job.failed else "queued"
            self._rescued.labels(end).inc()

    # Webhook sender

    def webhook_attempted(self, event: str, delivered: bool) -> None:
        self._webhook_attempts.labels(event, "delivered" if delivered else "failed").inc()

    # API

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._answers.labels(method, route).observe(seconds)

    # Output

    async def exposition(self) -> bytes:
        """All metrics as text; those of the store are missing while it is unavailable."""
        collected = await asyncio.gather(
            *(collect(self.service_stats, self._type) for collect in COLLECTORS),
            return_exceptions=True,
        )
        families: list[Metric] = []
        is_up = True
        for metrics in collected:
            if isinstance(metrics, StoreUnavailable):
                is_up = False
            elif isinstance(metrics, BaseException):
                raise metrics
            else:
                families += metrics
        up = GaugeMetricFamily("secretary_store_up", "Whether the store responds", value=is_up)
        return generate_latest(_Joined(self._registry, [up, *families]))

    def _type(self, job_type: str) -> str:
        return job_type if job_type in self._known else OTHER_JOB_TYPE


def _counter(name: str, text: str, registry: CollectorRegistry, *labels: str) -> Counter:
    return Counter(name, text, labels, registry=registry)


class _Joined(CollectorRegistry):
    """A registry plus the metrics of the store, without the `_created` samples."""

    def __init__(self, registry: CollectorRegistry, families: Iterable[Metric]) -> None:
        super().__init__()
        self._parts = registry
        self._families = families

    def collect(self) -> Iterable[Metric]:
        for family in (*self._families, *self._parts.collect()):
            family.samples = [s for s in family.samples if not s.name.endswith("_created")]
            yield family


Label = Callable[[str], str]
#: Reads metrics from the store.
Collector = Callable[[ServiceStats, Label], Awaitable[list[Metric]]]


async def _jobs(service_stats: ServiceStats, label: Label) -> list[Metric]:
    family = GaugeMetricFamily(
        "secretary_jobs", "Stored jobs by type and state", labels=["job_type", "status"]
    )
    totals: dict[tuple[str, JobStatus], int] = {}
    for job_type, by_status in (await service_stats.jobs()).items():
        for status, n in by_status.items():
            key = (label(job_type), status)
            totals[key] = totals.get(key, 0) + n
    for (job_type, status), n in sorted(totals.items()):
        family.add_metric([job_type, status.value], n)
    return [family]


async def _waiting(service_stats: ServiceStats, label: Label) -> list[Metric]:
    family = GaugeMetricFamily(
        "secretary_queue_wait_seconds",
        "How long the next job of a type has been in the queue",
        labels=["job_type"],
    )
    longest: dict[str, float] = {}
    for job_type, waited in (await service_stats.waiting()).items():
        name = label(job_type)
        longest[name] = max(longest.get(name, 0.0), waited.total_seconds())
    for name, seconds in sorted(longest.items()):
        family.add_metric([name], seconds)
    return [family]


async def _workers(service_stats: ServiceStats, label: Label) -> list[Metric]:
    stats = await service_stats.worker_stats()
    return [
        GaugeMetricFamily("secretary_workers", "Live workers", value=stats.workers),
        GaugeMetricFamily("secretary_worker_slots", "Job slots of live workers", value=stats.slots),
    ]


async def _webhooks(service_stats: ServiceStats, label: Label) -> list[Metric]:
    lag = (await service_stats.webhook_lag()).total_seconds()
    text = "How long the next webhook event has been due"
    return [GaugeMetricFamily("secretary_webhook_lag_seconds", text, value=lag)]


async def _disk(service_stats: ServiceStats, label: Label) -> list[Metric]:
    try:
        disk = await service_stats.disk()
    except OSError:  # the other metrics are still useful without the directory
        return []
    free, total = "secretary_disk_free_bytes", "secretary_disk_total_bytes"
    return [
        GaugeMetricFamily(free, "Free space for the data directory", value=disk.free),
        GaugeMetricFamily(total, "Size of the disk of the data directory", value=disk.total),
    ]


COLLECTORS: tuple[Collector, ...] = (_jobs, _waiting, _workers, _webhooks, _disk)
