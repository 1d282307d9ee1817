"""Lines for the log of a job: what it read, how long its steps took, what it used, how it ended."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..core.job import Attempt, Cancelled, Completed, Failed, Job, Outcome, Progress, iso, utc_now

#: Steps that the log lists; the shortest ones are left out.
MAX_STEPS = 12
#: Shorter steps are left out.
MIN_STEP_SECONDS = 0.05
MAX_MODELS = 5


def format_seconds(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def format_bytes(size: float) -> str:
    if size < 1000:
        return f"{size:.0f} bytes"
    return f"{size / 1000:.1f} kB" if size < 1_000_000 else f"{size / 1_000_000:,.1f} MB"


def counted(number: int, singular: str, plural: str = "") -> str:
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def source_line(name: str, size: int, origin: str) -> str:
    """`origin` says where the file is from, such as `uploaded`."""
    return f"Source: {name}, {format_bytes(size)}, {origin}"


class StepTimes:
    """How long each step of a job took, by its progress reports. `pages:3/10` is of step `pages`;
    steps of the same name count together."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._step: str | None = None
        self._since = clock()
        self._seconds: dict[str, float] = {}

    def report(self, progress: Progress) -> None:
        step = progress.step.partition(":")[0]
        if step != self._step:
            self._end_step()
            self._step = step

    def line(self) -> str | None:
        self._end_step()
        longest = sorted(self._seconds.items(), key=lambda item: -item[1])[:MAX_STEPS]
        shown = {name for name, seconds in longest if seconds >= MIN_STEP_SECONDS}
        listed = [
            f"{name} {format_seconds(seconds)}"
            for name, seconds in self._seconds.items()
            if name in shown
        ]
        return f"Time per step: {', '.join(listed)}" if listed else None

    def _end_step(self) -> None:
        now = self._clock()
        if self._step is not None:
            self._seconds[self._step] = self._seconds.get(self._step, 0.0) + now - self._since
            if len(self._seconds) > 10 * MAX_STEPS:  # a handler with a new name for each report
                self._seconds = dict(
                    sorted(self._seconds.items(), key=lambda item: -item[1])[:MAX_STEPS]
                )
        self._since = now


def attempt_line(job: Job) -> str | None:
    """Why there is another attempt; None for the first."""
    past: Sequence[Attempt] = job.past_attempts
    if not past:
        return None
    error = past[-1].error
    reason = f"failed: {error.message} ({error.code})" if error else "was interrupted"
    alone = "; runs alone" if job.group_size == 1 else ""
    return f"Attempt {job.attempt}{alone}; attempt {past[-1].attempt} {reason}"


def outcome_lines(
    job: Job,
    outcome: Outcome,
    *,
    steps: StepTimes,
    used: Mapping[str, float],
    llm_requests: Sequence[Mapping[str, Any]],
) -> Iterator[str]:
    """How an attempt ended, and what it needed."""
    now, started = utc_now(), job.processing_started_at or utc_now()
    if line := steps.line():
        yield line
    yield from _model_lines(llm_requests)
    if "cpu_seconds" in used:
        memory = format_bytes(used.get("peak_memory_bytes", 0))
        seconds = format_seconds(used["cpu_seconds"])
        yield f"Sandbox: {seconds} of CPU time, at most {memory} of memory"
    seconds = format_seconds(max(0.0, (now - started).total_seconds()))
    match outcome:
        case Completed():
            waited = max(0.0, (started - job.created_at).total_seconds())
            since = f"; it started {format_seconds(waited)} after its submission"
            yield f"Completed in {seconds}{since if job.attempt == 1 else ''}"
        case Failed(error, retry_at):
            retry = f"; next attempt at {iso(retry_at)}" if retry_at else ""
            yield f"Failed after {seconds}: {error.message} ({error.code}){retry}"
        case Cancelled():
            yield f"Cancelled after {seconds}"
        case _:
            yield f"Interrupted after {seconds}, because the worker stops"


def _model_lines(requests: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    models = dict.fromkeys((request["purpose"], request["model"]) for request in requests)
    for purpose, model in list(models)[:MAX_MODELS]:
        of_model = [one for one in requests if (one["purpose"], one["model"]) == (purpose, model)]
        tokens = sum(one.get("input_tokens", 0) + one.get("output_tokens", 0) for one in of_model)
        seconds = sum(one.get("duration_ms", 0) for one in of_model) / 1000
        yield (
            f"Model {model} ({purpose}): {counted(len(of_model), 'request')}, {tokens:,} tokens,"
            f" {format_seconds(seconds)}"
        )
