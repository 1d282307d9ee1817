"""Who is next: the lines in which pending jobs wait, and the places they get there."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import apsw

from ...job import Job, utc_now
from ..policy import JobClass
from . import outbox
from .rows import insert_job, moment

#: Jobs whose time has come are moved into the line in bounded steps.
MAX_PROMOTED = 1000


class Line:
    """Gives out places in the lines of one transaction.

    A new job stands behind the last one of the same user, but not further back than the
    head of the line for a user who has none: so users are served in turn (start-time fair
    queueing, with the head of the line as its clock).
    """

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._last: dict[tuple[str, int, str | None], int] = {}

    def next_turn(self, job_type: str, priority: int, user_id: str | None) -> int:
        lane = (job_type, priority, user_id)
        last = self._last.get(lane)
        if last is None:
            last = self._last_of(*lane)
        turn = self.first_turn(job_type, priority) if last is None else last + 1
        self._last[lane] = turn
        return turn

    def _last_of(self, job_type: str, priority: int, user_id: str | None) -> int | None:
        last: int | None = self._db.execute(
            "SELECT max(turn) FROM jobs INDEXED BY jobs_of_user_ready"
            " WHERE job_type = ? AND priority = ? AND user_id IS ? AND turn IS NOT NULL",
            (job_type, priority, user_id),
        ).get
        return last

    def first_turn(self, job_type: str, priority: int) -> int:
        """That of the head of the line; who arrived before it stands before it."""
        head: int | None = self._db.execute(
            "SELECT min(turn) FROM jobs INDEXED BY jobs_ready"
            " WHERE job_type = ? AND priority = ? AND turn IS NOT NULL",
            (job_type, priority),
        ).get
        return 0 if head is None else head


def enqueue(db: apsw.Connection, jobs: Sequence[Job], *, held: bool) -> dict[int, Job]:
    """Store new jobs; they are given back by the number of their row."""
    line = Line(db)
    now = utc_now()
    stored = {}
    for job in jobs:
        waits = held or (job.run_at is not None and job.run_at > now)
        turn = None if waits else line.next_turn(job.job_type, job.priority, job.user_id)
        stored[insert_job(db, job, turn=turn, held=held)] = job
        if job.webhook is not None:
            outbox.register(db, "job", job.job_id, job.webhook)
    return stored


def promote(db: apsw.Connection, now: int) -> None:
    """Put jobs into the line whose time has come."""
    due: list[Any] = db.execute(
        "SELECT seq, job_type, priority, user_id FROM jobs INDEXED BY jobs_waiting"
        " WHERE status = 'pending' AND turn IS NULL AND held = 0"
        " AND run_at <= ? ORDER BY run_at LIMIT ?",
        (now, MAX_PROMOTED),
    ).fetchall()
    line = Line(db)
    for seq, job_type, priority, user_id in due:
        turn = line.next_turn(job_type, priority, user_id)
        db.execute("UPDATE jobs SET turn = ? WHERE seq = ?", (turn, seq))


def lines_with_jobs(db: apsw.Connection) -> Iterator[JobClass]:
    """The types and priorities that have jobs in line, each found by a step or two in the index."""
    ends: Any = db.execute(FIRST_AND_LAST).fetchone()
    if ends is None:
        return
    line, last = ends[:2], ends[2:]
    while line != last:
        yield line
        line = db.execute(NEXT_PRIORITY, line).fetchone() or (
            db.execute(NEXT_TYPE, (line[0],)).fetchone()
        )
    yield last


_LINES = "SELECT job_type, priority FROM jobs INDEXED BY jobs_ready WHERE turn IS NOT NULL"
FIRST_AND_LAST = (
    f"SELECT * FROM ({_LINES} AND job_type > '' ORDER BY job_type, priority LIMIT 1),"
    f" ({_LINES} AND job_type > '' ORDER BY job_type DESC, priority DESC LIMIT 1)"
)
# Not as one comparison of pairs: SQLite would seek by the first part only and walk the rest.
NEXT_TYPE = f"{_LINES} AND job_type > ? ORDER BY job_type, priority LIMIT 1"
NEXT_PRIORITY = f"{_LINES} AND job_type = ? AND priority > ? ORDER BY priority LIMIT 1"


def waiting_since(db: apsw.Connection) -> dict[str, datetime]:
    """Since when the heads of the lines stand there, by type."""
    since: dict[str, datetime] = {}
    for line in lines_with_jobs(db):
        head = db.execute(HEAD_WAITS_SINCE, line).get
        if head is not None:
            since[line[0]] = min(moment(head), since.get(line[0], moment(head)))
    return since


#: A pending job was changed last when it became pending; it may have had to wait for its time.
HEAD_WAITS_SINCE = (
    "SELECT max(updated_at, coalesce(run_at, 0)) FROM jobs INDEXED BY jobs_ready"
    " WHERE job_type = ? AND priority = ? AND turn IS NOT NULL ORDER BY turn, seq LIMIT 1"
)
