"""Gives waiting jobs to workers that ask."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any

import apsw

from ...errors import LeaseLost
from ...job import Attempt, Job, JobStatus, Progress, utc_now
from .. import Added, Taker, Wanted
from ..policy import Candidate, JobClass, Running, Turns
from .changes import NEXT_REVISION
from .line import lines_with_jobs, promote
from .rows import JOB_COLUMNS, JOBS, job_from, microseconds

#: With a limit per user a claim looks at this many users of a line at the most.
MAX_USERS_SEEN = 500


Order = tuple[str, Wanted]


class Claims:
    """The claims of one process: they share the memory of whose turn it is."""

    def __init__(self) -> None:
        self._turns = Turns()
        #: The worker of this process, if it takes jobs as they are added.
        self.taker: Taker | None = None
        #: What the last transaction gave to the worker of this process: of that no one is told.
        self.taken: frozenset[str] = frozenset()

    def claim(self, db: apsw.Connection, orders: list[Order]) -> list[list[Job] | LeaseLost]:
        answers: list[list[Job] | LeaseLost] = []
        for worker_id, wanted in orders:
            try:
                answers.append(claim(db, self._turns, worker_id, wanted))
            except LeaseLost as error:
                answers.append(error)
        return answers

    def offer(
        self, db: apsw.Connection, additions: list[tuple[Added, dict[int, Job]]]
    ) -> Callable[[], None]:
        """Let the worker of this process claim in the transaction that adds jobs."""
        self.taken = frozenset()
        order = self.taker.ready_for() if self.taker is not None else None
        if self.taker is None or order is None:
            return _nothing
        added = {seq: job for _, jobs in additions for seq, job in jobs.items()}
        try:
            jobs = claim(db, self._turns, *order, added=added)
        except LeaseLost:  # it will notice when it asks
            return _nothing
        self.taken = frozenset(job.job_id for job in jobs)
        return partial(self.taker.take, jobs)


def _nothing() -> None:
    pass


def claim(
    db: apsw.Connection,
    turns: Turns,
    worker_id: str,
    wanted: Wanted,
    *,
    added: Mapping[int, Job] | None = None,
) -> list[Job]:
    """Give a worker the jobs that should start next. Those `added` in this very transaction are
    known already and need not be read."""
    now = utc_now()
    before: Any = db.execute(BEFORE_A_CLAIM, (worker_id, microseconds(now))).fetchone()
    enlisted, due = before
    if not enlisted:
        raise LeaseLost(f"The worker {worker_id} is not enlisted")
    if due:
        promote(db, microseconds(now))
    running = _running(db, wanted)
    lines = {
        line: _waiting(db, line, wanted, running)
        for line in lines_with_jobs(db)
        if wanted.serves(line[0])
    }
    chosen = [candidate.key for candidate in turns.choose(lines, wanted, running)] if lines else []
    if not chosen:
        return []
    _start(db, chosen, worker_id, microseconds(now))
    known = added or {}
    read = _read(db, [seq for seq in chosen if seq not in known])
    return [read[seq] if seq in read else _started(known[seq], worker_id, now) for seq in chosen]


#: Is the worker enlisted, and has the time of a job come that waits for it?
BEFORE_A_CLAIM = (
    "SELECT EXISTS (SELECT 1 FROM workers WHERE worker_id = ?),"
    " EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_waiting"
    " WHERE status = 'pending' AND turn IS NULL AND held = 0 AND run_at <= ?)"
)


def _running(db: apsw.Connection, wanted: Wanted) -> Running:
    running = Running()
    if wanted.max_per_type or wanted.max_per_user is not None:
        for job_type, user_id in db.execute(
            "SELECT job_type, user_id FROM jobs INDEXED BY jobs_running WHERE status = 'processing'"
        ):
            running.per_type[job_type] += 1
            running.per_user[user_id] += 1
    return running


def _waiting(
    db: apsw.Connection, line: JobClass, wanted: Wanted, running: Running
) -> Iterator[Candidate]:
    if wanted.max_per_user is not None:
        return iter(_waiting_below_limit(db, line, wanted, running.per_user))
    rows: list[Any] = db.execute(
        "SELECT seq, user_id FROM jobs INDEXED BY jobs_ready"
        " WHERE job_type = ? AND priority = ? AND turn IS NOT NULL ORDER BY turn, seq LIMIT ?",
        (*line, wanted.slots),
    ).fetchall()
    return (Candidate(seq, user_id, seq) for seq, user_id in rows)


def _waiting_below_limit(
    db: apsw.Connection, line: JobClass, wanted: Wanted, per_user: Counter[str | None]
) -> list[Candidate]:
    """Only jobs of users below their limit: stepping over a busy user's 10,000 takes one step."""
    assert wanted.max_per_user is not None
    found: list[tuple[int, Candidate]] = []
    for user_id in _users(db, line):
        room = wanted.slots
        if user_id is not None:
            room = min(room, wanted.max_per_user - per_user[user_id])
        rows = db.execute(
            "SELECT turn, seq FROM jobs INDEXED BY jobs_of_user_ready WHERE job_type = ?"
            " AND priority = ? AND user_id IS ? AND turn IS NOT NULL ORDER BY turn LIMIT ?",
            (*line, user_id, max(room, 0)),
        )
        found += [(turn, Candidate(seq, user_id, seq)) for turn, seq in rows]
    return [candidate for _, candidate in sorted(found, key=lambda x: (x[0], x[1].arrival))]


def _users(db: apsw.Connection, line: JobClass) -> Iterator[str | None]:
    yield None
    user_id = ""
    for _ in range(MAX_USERS_SEEN):
        user_id = db.execute(
            "SELECT user_id FROM jobs INDEXED BY jobs_of_user_ready WHERE job_type = ?"
            " AND priority = ? AND user_id > ? AND turn IS NOT NULL ORDER BY user_id LIMIT 1",
            (*line, user_id),
        ).get
        if user_id is None:
            return
        yield user_id


def _start(db: apsw.Connection, seqs: list[int], worker_id: str, now: int) -> None:
    db.execute(
        "UPDATE jobs SET status = 'processing', turn = NULL, run_at = NULL, attempt = attempt + 1,"
        " worker_id = ?, processing_started_at = ?, updated_at = ?, step = 'initializing',"
        f" percent = 0, message = '', revision = {NEXT_REVISION}"
        " WHERE seq IN (SELECT value FROM json_each(?))",
        (worker_id, now, now, json.dumps(seqs)),
    )


def _read(db: apsw.Connection, seqs: list[int]) -> dict[int, Job]:
    """Many rows in one value: each row that SQLite hands over costs more than what is in it."""
    if not seqs:
        return {}
    rows: str = db.execute(
        f"SELECT json_group_array(json_array(jobs.seq, {JOB_COLUMNS}))"
        f" FROM json_each(?) AS chosen CROSS JOIN {JOBS} WHERE jobs.seq = chosen.value",
        (json.dumps(seqs),),
    ).get
    return {row[0]: job_from(row[1:]) for row in json.loads(rows)}


def _started(job: Job, worker_id: str, now: datetime) -> Job:
    """The job as `_start` has stored it."""
    return job.model_copy(
        update={
            "status": JobStatus.PROCESSING,
            "attempt": 1,
            "worker_id": worker_id,
            "processing_started_at": now,
            "updated_at": now,
            "run_at": None,
            "progress": STARTED,
            "attempts": (Attempt(attempt=1, worker_id=worker_id, started_at=now),),
        }
    )


STARTED = Progress(step="initializing")
