"""The lines that tell what a job did and how long it took."""

from datetime import timedelta

import pytest

from secretary.core.job import (
    Attempt,
    Cancelled,
    Completed,
    Failed,
    Job,
    JobError,
    Progress,
    utc_now,
)
from secretary.jobs.job_log import (
    StepTimes,
    attempt_line,
    format_bytes,
    format_seconds,
    outcome_lines,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0124, "12 ms"),
        (1.26, "1.3 s"),
        (99.0, "99.0 s"),
        (100, "1 min 40 s"),
        (7325, "2 h 2 min"),
    ],
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"), [(999, "999 bytes"), (50_400, "50.4 kB"), (1_234_567_890, "1,234.6 MB")]
)
def test_sizes_are_short(size: int, text: str) -> None:
    assert format_bytes(size) == text


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def report(times: StepTimes, clock: Clock, *steps: tuple[str, float]) -> None:
    for step, seconds in steps:
        times.report(Progress(step=step, percent=0))
        clock.now += seconds


def test_the_time_of_each_step_is_the_sum_of_its_parts() -> None:
    clock = Clock()
    times = StepTimes(clock)
    report(times, clock, ("download", 2), ("pages:1/2", 3), ("pages:2/2", 4), ("download", 1))
    report(times, clock, ("end", 0.001))
    assert times.line() == "Time per step: download 3.0 s, pages 7.0 s"


def test_a_job_without_steps_has_no_times() -> None:
    assert StepTimes().line() is None


def test_a_handler_with_a_new_step_for_each_report_does_not_fill_the_log() -> None:
    clock = Clock()
    times = StepTimes(clock)
    report(times, clock, *((f"step {n}", float(n)) for n in range(5000)))
    line = times.line() or ""
    assert line.count(",") == 11
    assert "step 4999" in line


def lines(outcome: Completed | Failed | Cancelled, **fields: object) -> list[str]:
    started = utc_now() - timedelta(seconds=5)
    job = Job(
        created_at=started - timedelta(seconds=60), processing_started_at=started, attempt=1
    ).model_copy(update=fields)
    request = {"model": "m", "purpose": "chat", "input_tokens": 100, "output_tokens": 20}
    used = {"cpu_seconds": 2.5, "peak_memory_bytes": 5e7}
    requests = [request | {"duration_ms": 1500}] * 2
    return list(outcome_lines(job, outcome, steps=StepTimes(), used=used, llm_requests=requests))


def test_a_completed_job_says_what_it_used_and_how_long_it_waited() -> None:
    assert lines(Completed()) == [
        "Model m (chat): 2 requests, 240 tokens, 3.0 s",
        "Sandbox: 2.5 s of CPU time, at most 50.0 MB of memory",
        "Completed in 5.0 s; it started 60.0 s after its submission",
    ]


def test_a_failed_job_says_why_and_when_it_is_tried_again() -> None:
    retry_at = utc_now()
    error = JobError(code="UPSTREAM_FAILED", message="No answer")
    last = lines(Failed(error, retry_at))[-1]
    assert last.startswith("Failed after 5.0 s: No answer (UPSTREAM_FAILED); next attempt at 2")
    assert lines(Cancelled())[-1] == "Cancelled after 5.0 s"


def test_a_further_attempt_says_what_happened_to_the_one_before() -> None:
    job = Job(attempt=1)
    assert attempt_line(job) is None
    error = JobError(code="UPSTREAM_FAILED", message="No answer")
    past = Attempt(attempt=1, worker_id="w", started_at=utc_now(), error=error)
    again = job.model_copy(update={"attempt": 2, "attempts": (past,)})
    assert attempt_line(again) == "Attempt 2; attempt 1 failed: No answer (UPSTREAM_FAILED)"
    past = past.model_copy(update={"error": None})
    again = job.model_copy(update={"attempt": 2, "attempts": (past,)})
    assert attempt_line(again) == "Attempt 2; attempt 1 was interrupted"
