"""What a store itself writes into the error and the log of a job."""

from collections.abc import Sequence

from ..job import MAX_LOG_ENTRIES, JobError, LogEntry

#: The entries of a log that are kept, with their numbers in all that there ever were.
NumberedLog = Sequence[tuple[int, LogEntry]]


def crash_error(worker_id: str, deaths: int) -> JobError:
    """Of a job whose worker vanished."""
    return JobError(
        code="WORKER_CRASHED",
        message="The worker died or lost touch while it ran the job",
        details={"worker_id": worker_id, "deaths": deaths},
    )


def obituary(worker_id: str, attempt: int) -> LogEntry:
    text = f"The worker vanished while it ran this job (attempt {attempt}, {worker_id})"
    return LogEntry(level="error", message=text)


def with_note(numbered: NumberedLog) -> list[LogEntry]:
    """The log as clients read it: led by a note when older entries were dropped."""
    entries = [entry for _, entry in numbered]
    if numbered and (dropped := numbered[0][0] - 1):
        text = f"{dropped} older entries were dropped; a job keeps the last {MAX_LOG_ENTRIES}"
        at = entries[0].timestamp
        entries.insert(0, LogEntry(timestamp=at, level="warning", message=text))
    return entries
