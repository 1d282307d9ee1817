"""Traces of the real program, as received by an OpenTelemetry collector."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.otlp_collector import Collector, ReceivedSpan, collecting

from .program import Program, Running

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = {"traceparent": f"00-{TRACE}-{CALLER}-01"}


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture
def program(tmp_path: Path, collector: Collector) -> Program:
    return Program(
        tmp_path,
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
        OTEL_BSP_SCHEDULE_DELAY="100",
        OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test",
    )


def submit_file(service: Running, headers: dict[str, str], **parameters: object) -> str:
    body = {"job_type": "selftest", "parameters": parameters}
    job_id: str = service.post("/api/jobs", body, headers=headers).json()["data"]["job_id"]
    return job_id


def named(spans: list[ReceivedSpan], start: str) -> list[ReceivedSpan]:
    return [span for span in spans if span.name.startswith(start)]


def test_request_job_attempt_and_steps_are_one_story(
    program: Program, collector: Collector
) -> None:
    with program.serving("--no-worker") as service, program.started("worker"):
        job_id = submit_file(service, TRACEPARENT, seconds=0.2)
        ended = service.wait_until(job_id, "completed")
        spans = collector.wait_for(lambda spans: named(spans, "job selftest"))
    (request,) = named(spans, "POST /api/jobs")
    (job,) = named(spans, "job selftest")
    (attempt,) = named(spans, "attempt selftest")
    steps = [span for span in spans if span.parent_id == attempt.span_id]
    assert request.parent_id == CALLER
    assert job.parent_id == request.span_id
    assert attempt.parent_id == job.span_id
    assert steps
    assert {span.trace_id for span in (request, job, attempt, *steps)} == {TRACE}
    assert job.start < attempt.start <= steps[0].start < steps[-1].end <= attempt.end <= job.end
    assert attempt.attributes["secretary.job.id"] == job_id
    assert job.attributes["secretary.job.status"] == "completed"
    assert request.attributes["http.response.status_code"] == 202
    assert request.resource["service.name"] == "secretary"
    assert request.resource["deployment.environment.name"] == "test"
    # The job's webhook and log continue the trace of the request.
    assert ended["traceparent"] == f"00-{TRACE}-{request.span_id}-01"


def test_a_failure_is_reported_with_its_code(program: Program, collector: Collector) -> None:
    with program.serving() as service:
        job_id = service.submit(job_type="nobody-knows-it")
        service.wait_until(job_id, "failed")
        spans = collector.wait_for(lambda spans: named(spans, "job nobody"))
    (job,) = named(spans, "job nobody")
    assert job.failed
    assert job.attributes["error.type"] == "UNKNOWN_JOB_TYPE"


def test_a_job_without_a_trace_begins_one(program: Program, collector: Collector) -> None:
    with program.serving():
        result = program.run("submit", "selftest", "-p", "seconds=0", "--wait")
        assert result.code == 0, result.err
        spans = collector.wait_for(lambda spans: named(spans, "job selftest"))
    (job,) = named(spans, "job selftest")
    (attempt,) = named(spans, "attempt selftest")
    assert (job.parent_id, attempt.parent_id) == ("", job.span_id)
    assert job.trace_id == attempt.trace_id


def test_remaining_spans_are_exported_at_shutdown(tmp_path: Path, collector: Collector) -> None:
    program = Program(
        tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_BSP_SCHEDULE_DELAY="3600000"
    )
    with program.serving("--no-worker") as service:
        assert service.get("/api/health/live").status_code == 200
        assert service.get("/api/jobs").status_code == 200
        assert not collector.spans
    assert [span.name for span in collector.spans] == ["GET /api/jobs"]


def test_an_unsampled_trace_is_not_exported_but_propagated(
    program: Program, collector: Collector
) -> None:
    unsampled = {"traceparent": f"00-{TRACE}-{CALLER}-00"}
    with program.serving() as service:
        quiet = service.wait_until(submit_file(service, unsampled, seconds=0), "completed")
        submit_file(service, TRACEPARENT, seconds=0)
        spans = collector.wait_for(lambda spans: named(spans, "job selftest"))
    assert quiet["traceparent"].startswith(f"00-{TRACE}-") and quiet["traceparent"].endswith("-00")
    assert {span.attributes.get("secretary.job.id") for span in spans}.isdisjoint({quiet["job_id"]})


def test_a_collector_that_is_away_holds_nobody_up(tmp_path: Path) -> None:
    program = Program(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    with program.serving() as service:
        job_id = submit_file(service, TRACEPARENT, seconds=0)
        assert service.wait_until(job_id, "completed")["error"] is None
