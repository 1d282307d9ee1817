"""Exports spans of requests, jobs, attempts and steps to an OpenTelemetry collector.

Imported only if a collector is configured: see `app.make_tracer`.
"""

import hashlib
import os
import socket
from datetime import datetime

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Span, SpanContext, SpanKind, StatusCode, TraceFlags
from opentelemetry.util.types import AttributeValue

from ..core.job import Failed, Job, Outcome, Progress, Released, utc_now
from ..jobs.events import Observer
from ..version import __version__

#: Further steps of an attempt are not exported.
MAX_STEPS = 200


class OtelTracer(Observer):
    """Creates the spans of requests, and as an `Observer` of the worker those of jobs.

    A job's span is exported by the worker that finishes it. Its span id is derived from the job id,
    so that attempts on any machine, even of lost workers, become its children.
    """

    def __init__(self) -> None:
        self._ids = _Ids()
        ours: dict[str, AttributeValue] = {
            "service.name": "secretary",
            "service.version": __version__,
            "service.instance.id": f"{socket.gethostname()}-{os.getpid()}",
        }
        # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override these attributes.
        resource = Resource.create(ours).merge(OTELResourceDetector().detect())
        self._provider = TracerProvider(
            resource=resource, id_generator=self._ids, shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("secretary", __version__)
        self._steps: dict[tuple[str, int], list[tuple[datetime, str]]] = {}

    def close(self) -> None:
        """Export the remaining spans; this takes a while if the collector is unreachable."""
        self._provider.shutdown()

    # API

    def request(self, method: str, traceparent: str | None) -> "RequestSpan":
        parent = _context(*_read(traceparent)) if traceparent else Context()
        return RequestSpan(self._tracer.start_span(method, parent, SpanKind.SERVER), method)

    # Observer of the worker

    def started(self, job: Job) -> None:
        self._steps[job.job_id, job.attempt] = []

    def progressed(self, job: Job, progress: Progress) -> None:
        steps = self._steps.get((job.job_id, job.attempt))
        if steps is None or len(steps) == MAX_STEPS:
            return
        if not steps or steps[-1][1] != progress.step:
            steps.append((utc_now(), progress.step))

    def ended(self, job: Job, outcome: Outcome) -> None:
        end = type(outcome).__name__.lower()
        failure = outcome if isinstance(outcome, Failed) else None
        code = failure.error.code if failure else None
        self._export_attempt(job, end, code)
        if isinstance(outcome, Released) or (failure and failure.retry_at is not None):
            return
        trace_id, parent, flags = _origin(job)
        self._ids.next_span = _number(job, "job", 8)
        self._ids.next_trace = None if parent else trace_id
        span = self._tracer.start_span(
            f"job {job.job_type}",
            _context(trace_id, parent, flags) if parent else Context(),
            SpanKind.CONSUMER,
            {**_attributes(job), "secretary.job.status": end},
            start_time=_nanoseconds(job.created_at),
        )
        _finish(span, utc_now(), code)

    def lost(self, job: Job) -> None:
        self._export_attempt(job, "lost", "LEASE_LOST")

    def _export_attempt(self, job: Job, end: str, code: str | None) -> None:
        steps = self._steps.pop((job.job_id, job.attempt), [])
        now = utc_now()
        trace_id, _, flags = _origin(job)
        attempt = self._tracer.start_span(
            f"attempt {job.job_type}",
            _context(trace_id, _number(job, "job", 8), flags),
            SpanKind.INTERNAL,
            {**_attributes(job), "secretary.attempt.end": end},
            start_time=_nanoseconds(job.processing_started_at or now),
        )
        inside = trace.set_span_in_context(attempt, Context())
        for n, (began, step) in enumerate(steps):
            until = steps[n + 1][0] if n + 1 < len(steps) else now
            span = self._tracer.start_span(step, inside, start_time=_nanoseconds(began))
            span.end(_nanoseconds(until))
        _finish(attempt, now, code)


class RequestSpan:
    """The span of an HTTP request; jobs that the request adds become its children."""

    def __init__(self, span: Span, method: str) -> None:
        self._span = span
        self._method = method
        context = span.get_span_context()
        self.traceparent = (
            f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
        )

    def end(self, route: str, status: int) -> None:
        self._span.update_name(f"{self._method} {route}")
        self._span.set_attributes(
            {
                "http.request.method": self._method,
                "http.route": route,
                "http.response.status_code": status,
            }
        )
        if status >= 500:
            self._span.set_status(StatusCode.ERROR)
        self._span.end()


class _Ids(RandomIdGenerator):
    """Random ids, unless the next one is set."""

    next_span: int | None = None
    next_trace: int | None = None

    def generate_span_id(self) -> int:
        given, self.next_span = self.next_span, None
        return given or super().generate_span_id()

    def generate_trace_id(self) -> int:
        given, self.next_trace = self.next_trace, None
        return given or super().generate_trace_id()


def _origin(job: Job) -> tuple[int, int, int]:
    """Trace id, parent span id (0: none) and flags of a job. Without a trace context the trace id
    is derived from the job id, so that all workers use the same."""
    if job.traceparent is not None:
        return _read(job.traceparent)
    return _number(job, "trace", 16), 0, TraceFlags.SAMPLED


def _read(traceparent: str) -> tuple[int, int, int]:
    _, trace_id, span_id, flags = traceparent.split("-")
    return int(trace_id, 16), int(span_id, 16), int(flags, 16)


def _context(trace_id: int, span_id: int, flags: int) -> Context:
    parent = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
    return trace.set_span_in_context(trace.NonRecordingSpan(parent), Context())


def _number(job: Job, what: str, size: int) -> int:
    """An id that all workers derive from the id of the job."""
    digest = hashlib.blake2b(job.job_id.encode(), digest_size=size, person=what.encode()).digest()
    return int.from_bytes(digest, "big") or 1


def _attributes(job: Job) -> dict[str, AttributeValue]:
    return {
        "secretary.job.id": job.job_id,
        "secretary.job.type": job.job_type,
        "secretary.attempt": job.attempt,
        **({"secretary.batch.id": job.batch_id} if job.batch_id else {}),
    }


def _finish(span: Span, at: datetime, code: str | None) -> None:
    if code is not None:
        span.set_attribute("error.type", code)
        span.set_status(StatusCode.ERROR, code)
    span.end(_nanoseconds(at))


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000) * 1000
