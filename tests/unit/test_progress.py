"""Progress never goes backwards."""

from secretary.core.job import LogEntry, Progress
from secretary.handlers.progress import ScaledReporter


class ProgressRecorder:
    def __init__(self) -> None:
        self.percents: list[int] = []
        self.messages: list[str] = []

    def progress(self, progress: Progress) -> None:
        self.percents.append(progress.percent)

    def log(self, entry: LogEntry) -> None:
        self.messages.append(entry.message)


def test_a_work_that_is_a_part_of_another_has_its_share() -> None:
    recorder = ProgressRecorder()
    share = ScaledReporter(recorder, 5, 20)
    for percent in (0, 10, 50, 100):
        share.progress(Progress(step="reading", percent=percent))
    share.log(LogEntry(level="info", message="x"))
    assert recorder.percents == [5, 6, 12, 20]
    assert recorder.messages == ["x"]
