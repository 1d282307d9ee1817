"""Progress by seconds of audio, with the estimated time left."""

from dataclasses import dataclass, field
from typing import Any, cast

from secretary.handlers.progress import MediaProgress
from secretary.jobs.handler import JobContext


@dataclass
class ProgressRecorder:
    """Records progress in place of a job's context."""

    steps: list[tuple[str, int, str]] = field(default_factory=list)

    async def progress(self, step: str, percent: int, message: str = "") -> None:
        self.steps.append((step, percent, message))


def progress_of(recorder: ProgressRecorder, **options: Any) -> MediaProgress:
    ctx = cast(JobContext[Any], recorder)
    return MediaProgress(ctx, "transcribing", 600.0, first_percent=10, last_percent=90, **options)


async def test_progress_is_reported_in_seconds_of_the_recording() -> None:
    recorder = ProgressRecorder()
    progress = progress_of(recorder)
    await progress.report()
    await progress.advance(150.0)
    await progress.advance(9999.0)
    assert [(step, percent) for step, percent, _ in recorder.steps] == [
        ("transcribing:0/600", 10),
        ("transcribing:150/600", 30),
        ("transcribing:600/600", 90),
    ]


async def test_the_time_that_is_left_goes_by_the_pace_of_this_attempt() -> None:
    """Half was cached and took no time; 100 s of audio took 10 s, 200 are left."""
    recorder = ProgressRecorder()
    progress = progress_of(recorder, done=300.0)
    progress._started -= 10
    await progress.advance(100.0)
    assert recorder.steps[-1][2] == "06:40 of 10:00 is done, about 00:20 left"


async def test_no_estimate_is_given_too_early() -> None:
    recorder = ProgressRecorder()
    await progress_of(recorder).advance(10.0)
    assert "left" not in recorder.steps[-1][2]
