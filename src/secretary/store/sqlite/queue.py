"""The life of a job in SQLite: into the line, claimed, ended. Each function is part of one
transaction that the caller has open."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import apsw

from ...errors import LeaseLost
from ...job import (
    MAX_ATTEMPTS_KEPT,
    MAX_LOG_ENTRIES,
    MAX_LOG_MESSAGE,
    Attempt,
    Cancelled,
    Failed,
    Job,
    JobError,
    JobStatus,
    LogEntry,
    Progress,
    Released,
    Webhook,
    crash_error,
    utc_now,
)
from .. import Rescued, Wanted
from ..json_text import dumps
from ..policy import Candidate, JobClass, Running, Turns
from . import outbox
from .changes import NEXT_REVISION
from .rows import JOB_COLUMNS, JOBS, insert_job, job_from, microseconds, moment

#: Jobs whose time has come are moved into the line in bounded steps.
MAX_PROMOTED = 1000

#: Results up to this length are written together with those of other jobs.
SMALL_RESULTS = 10_000

#: With a limit per user a claim looks at this many users of a line at the most.
MAX_USERS_SEEN = 500


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
        turn = self._head(job_type, priority) if last is None else last + 1
        self._last[lane] = turn
        return turn

    def _last_of(self, job_type: str, priority: int, user_id: str | None) -> int | None:
        last: int | None = self._db.execute(
            "SELECT max(turn) FROM jobs INDEXED BY jobs_of_user_ready"
            " WHERE job_type = ? AND priority = ? AND user_id IS ? AND turn IS NOT NULL",
            (job_type, priority, user_id),
        ).get
        return last

    def _head(self, job_type: str, priority: int) -> int:
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
        line: _waiting(db, line, wanted, running) for line in _lines(db) if _serves(wanted, line)
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


def _serves(wanted: Wanted, line: JobClass) -> bool:
    return wanted.job_types is None or line[0] in wanted.job_types


def _lines(db: apsw.Connection) -> Iterator[JobClass]:
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
    for line in _lines(db):
        head = db.execute(HEAD_WAITS_SINCE, line).get
        if head is not None:
            since[line[0]] = min(moment(head), since.get(line[0], moment(head)))
    return since


#: A pending job was changed last when it became pending; it may have had to wait for its time.
HEAD_WAITS_SINCE = (
    "SELECT max(updated_at, coalesce(run_at, 0)) FROM jobs INDEXED BY jobs_ready"
    " WHERE job_type = ? AND priority = ? AND turn IS NOT NULL ORDER BY turn, seq LIMIT 1"
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


HELD_BY = " WHERE job_id = ? AND attempt = ? AND worker_id = ? AND status = 'processing'"


def fence(job: Job) -> tuple[str, int, str | None]:
    return job.job_id, job.attempt, job.worker_id


def report(
    db: apsw.Connection, job: Job, progress: Progress | None, logs: Sequence[LogEntry]
) -> None:
    now = microseconds(utc_now())
    if progress is not None:
        seq = db.execute(
            "UPDATE jobs SET step = ?, percent = max(percent, ?), message = ?, updated_at = ?,"
            f" revision = {NEXT_REVISION}" + HELD_BY + " RETURNING seq",
            (progress.step, progress.percent, progress.message, now, *fence(job)),
        ).get
    else:
        seq = db.execute("SELECT seq FROM jobs" + HELD_BY, fence(job)).get
    if seq is None:
        raise LeaseLost(job.job_id)
    if progress is not None and job.webhook is not None:
        outbox.note_progress(db, job)
    add_logs(db, seq, logs)


def add_logs(db: apsw.Connection, seq: int, logs: Sequence[LogEntry]) -> None:
    if not logs:
        return
    last = db.execute("SELECT max(n) FROM logs WHERE seq = ?", (seq,)).get or 0
    for n, entry in enumerate(logs, last + 1):
        message = entry.message[:MAX_LOG_MESSAGE]
        row = (seq, n, microseconds(entry.timestamp), entry.level, message)
        db.execute("INSERT INTO logs VALUES (?, ?, ?, ?, ?)", row)
    oldest = last + len(logs) - MAX_LOG_ENTRIES
    if oldest > 0:
        db.execute("DELETE FROM logs WHERE seq = ? AND n <= ?", (seq, oldest))


#: The outcomes other than success; success has its own way, as it is the common case.
Unfinished = Failed | Cancelled | Released


def finish(
    db: apsw.Connection, job: Job, outcome: Unfinished, resources: Mapping[str, float] | None
) -> None:
    held = db.execute(
        "SELECT seq, batch_id, cancel_requested FROM jobs" + HELD_BY, fence(job)
    ).fetchone()
    if held is None:
        raise LeaseLost(job.job_id)
    seq, batch_id, cancel_requested = held
    used = dumps(resources) if resources else None
    goes_on = isinstance(outcome, Released) or (isinstance(outcome, Failed) and outcome.retry_at)
    if goes_on and cancel_requested:
        outcome = Cancelled()
    match outcome:
        case Failed(error=error, retry_at=None, crashed=crashed):
            _fail(db, seq, error, crashed=crashed)
            _ended(db, seq, batch_id)
        case Failed(error=error, retry_at=retry_at, crashed=crashed):
            counted = "crashes" if crashed else "failures"
            back_to_line(db, seq, error=error, run_at=retry_at, counted=counted)
        case Released():
            back_to_line(db, seq)
        case Cancelled(reason=reason):
            cancel_job(db, seq, reason)
            _ended(db, seq, batch_id)
    db.execute("UPDATE contents SET resources = ? WHERE seq = ?", (used, seq))


@dataclass(frozen=True, slots=True)
class Completion:
    """A completed job, with its results and what it used as JSON."""

    job: Job
    results: str | None
    resources: str | None


def complete(db: apsw.Connection, completions: list[Completion]) -> list[LeaseLost | None]:
    """End many jobs at once; the answer for each says whether it was still its worker's."""
    found: str = db.execute(
        "SELECT json_group_array(json_array(job_id, seq, batch_id))"
        " FROM json_each(?) AS ended CROSS JOIN jobs ON job_id = ended.value ->> 0"
        " AND attempt = ended.value ->> 1 AND worker_id = ended.value ->> 2"
        " AND status = 'processing'",
        (json.dumps([fence(completion.job) for completion in completions]),),
    ).get
    held = {job_id: (seq, batch_id) for job_id, seq, batch_id in json.loads(found)}
    now = microseconds(utc_now())
    db.execute(
        "UPDATE jobs SET status = 'completed', step = 'completed', percent = 100, message = '',"
        f" error_code = NULL, updated_at = ?, completed_at = ?, revision = {NEXT_REVISION}"
        " WHERE seq IN (SELECT value FROM json_each(?))",
        (now, now, json.dumps([seq for seq, _ in held.values()])),
    )
    kept = [c for c in completions if c.job.job_id in held]
    _keep_results(db, [(held[c.job.job_id][0], c.results, c.resources) for c in kept])
    for completion in kept:
        if completion.job.webhook is not None:
            outbox.note_end(db, completion.job.job_id, completion.job.webhook, "completed", now)
    for batch_id in {batch_id for _, batch_id in held.values() if batch_id is not None}:
        settle_batch(db, batch_id)
    return [None if c.job.job_id in held else LeaseLost(c.job.job_id) for c in completions]


def _keep_results(db: apsw.Connection, rows: list[tuple[int, str | None, str | None]]) -> None:
    together = [row for row in rows if len(row[1] or "") < SMALL_RESULTS]
    db.execute(
        "UPDATE contents SET results = kept.value ->> 1, resources = kept.value ->> 2,"
        " error = NULL FROM json_each(?) AS kept WHERE contents.seq = kept.value ->> 0",
        (json.dumps(together),),
    )
    for seq, results, resources in rows:
        if len(results or "") >= SMALL_RESULTS:
            db.execute(
                "UPDATE contents SET results = ?, resources = ?, error = NULL WHERE seq = ?",
                (results, resources, seq),
            )


def _fail(db: apsw.Connection, seq: int, error: JobError, *, crashed: bool) -> None:
    now = microseconds(utc_now())
    db.execute(
        "UPDATE jobs SET status = 'failed', error_code = ?, failures = failures + ?,"
        f" crashes = crashes + ?, updated_at = ?, completed_at = ?, revision = {NEXT_REVISION}"
        " WHERE seq = ?",
        (error.code, not crashed, crashed, now, now, seq),
    )
    db.execute("UPDATE contents SET error = ? WHERE seq = ?", (error.model_dump_json(), seq))


def cancel_job(db: apsw.Connection, seq: int, reason: str) -> None:
    now = microseconds(utc_now())
    db.execute(
        "UPDATE jobs SET status = 'cancelled', turn = NULL, run_at = NULL, held = 0,"
        " cancel_requested = 1, error_code = 'CANCELLED', updated_at = ?, completed_at = ?,"
        f" revision = {NEXT_REVISION} WHERE seq = ?",
        (now, now, seq),
    )
    error = JobError(code="CANCELLED", message=reason)
    db.execute("UPDATE contents SET error = ? WHERE seq = ?", (error.model_dump_json(), seq))


def back_to_line(
    db: apsw.Connection,
    seq: int,
    *,
    error: JobError | None = None,
    run_at: datetime | None = None,
    counted: str | None = None,
) -> None:
    """Make a running or ended job pending again; the attempt that ends here becomes history."""
    _keep_attempt(db, seq, error)
    now = utc_now()
    row: Any = db.execute(
        "SELECT job_type, priority, jobs.user_id, coalesce(NOT is_active, 0) FROM jobs"
        " LEFT JOIN batches USING (batch_id) WHERE jobs.seq = ?",
        (seq,),
    ).fetchone()
    job_type, priority, user_id, held = row
    waits = held or (run_at is not None and run_at > now)
    turn = None if waits else Line(db).next_turn(job_type, priority, user_id)
    counting = f", {counted} = {counted} + 1" if counted else ""
    db.execute(
        "UPDATE jobs SET status = 'pending', turn = ?, held = ?, run_at = ?, worker_id = NULL,"
        " processing_started_at = NULL, completed_at = NULL, error_code = ?, updated_at = ?,"
        f" revision = {NEXT_REVISION}{counting} WHERE seq = ?",
        (
            turn,
            held,
            microseconds(run_at) if run_at else None,
            error.code if error else None,
            microseconds(now),
            seq,
        ),
    )
    text = error.model_dump_json() if error else None
    db.execute("UPDATE contents SET error = ? WHERE seq = ?", (text, seq))


def _keep_attempt(db: apsw.Connection, seq: int, error: JobError | None) -> None:
    row = db.execute(
        "SELECT attempt, worker_id, processing_started_at, completed_at, attempts, error"
        f" FROM {JOBS} WHERE jobs.seq = ?",
        (seq,),
    ).fetchone()
    if row is None or row[1] is None:  # it never ran
        return
    attempt, worker_id, started_at, completed_at, attempts, ended_with = row
    if error is None and completed_at is not None and ended_with:
        error = JobError.model_validate_json(ended_with)
    ended = Attempt(
        attempt=attempt,
        worker_id=worker_id,
        started_at=moment(started_at),
        ended_at=moment(completed_at) if completed_at else utc_now(),
        error=error,
    )
    kept = [ended.model_dump(mode="json")]
    if attempts:
        kept = [*json.loads(attempts), *kept][-MAX_ATTEMPTS_KEPT:]
    db.execute("UPDATE contents SET attempts = ? WHERE seq = ?", (dumps(kept), seq))


def _ended(db: apsw.Connection, seq: int, batch_id: str | None) -> None:
    """The duties that come with an end other than success: the job's webhook, and its batch."""
    row: Any = db.execute(
        "SELECT job_id, webhook, completed_at FROM jobs JOIN contents USING (seq)"
        " WHERE seq = ? AND webhook IS NOT NULL",
        (seq,),
    ).fetchone()
    if row is not None:
        job_id, webhook, ended_at = row
        outbox.note_end(db, job_id, Webhook.model_validate_json(webhook), "error", ended_at)
    if batch_id is not None:
        settle_batch(db, batch_id)


def settle_batch(db: apsw.Connection, batch_id: str) -> None:
    """Note the end of a batch once, in the transaction that ended the last of its jobs."""
    row: Any = db.execute(
        "UPDATE batches SET completed_at = updated_at WHERE batch_id = ? AND completed_at IS NULL"
        " AND pending = 0 AND processing = 0"
        " RETURNING webhook, completed OR NOT (failed OR cancelled), updated_at",
        (batch_id,),
    ).fetchone()
    if row is None or row[0] is None:
        return
    webhook = Webhook.model_validate_json(row[0])
    outbox.note_end(db, batch_id, webhook, "completed" if row[1] else "error", row[2])


def cancel(db: apsw.Connection, seqs: Sequence[int]) -> None:
    for seq in seqs:
        row = db.execute("SELECT status, batch_id FROM jobs WHERE seq = ?", (seq,)).fetchone()
        assert row is not None
        if row[0] == "pending":
            cancel_job(db, seq, Cancelled().reason)
            _ended(db, seq, row[1])
        else:
            db.execute(
                f"UPDATE jobs SET cancel_requested = 1, revision = {NEXT_REVISION} WHERE seq = ?",
                (seq,),
            )


def restart(db: apsw.Connection, seqs: Sequence[int], parameters: Mapping[str, Any] | None) -> None:
    for seq in seqs:
        back_to_line(db, seq)
        db.execute(
            "UPDATE jobs SET failures = 0, crashes = 0, cancel_requested = 0, archived = 0,"
            " step = 'queued', percent = 0, message = '' WHERE seq = ?",
            (seq,),
        )
        db.execute(
            "UPDATE contents SET results = NULL, resources = NULL,"
            " parameters = coalesce(?, parameters) WHERE seq = ?",
            (None if parameters is None else dumps(parameters), seq),
        )
        _reopen(db, seq)


def _reopen(db: apsw.Connection, seq: int) -> None:
    """The end of a restarted job, and of its batch, is not to be told any more."""
    row: Any = db.execute(
        "SELECT job_id, batch_id, webhook FROM jobs JOIN contents USING (seq) WHERE seq = ?", (seq,)
    ).fetchone()
    job_id, batch_id, webhook = row
    if webhook is not None:
        outbox.begin_again(db, job_id, Webhook.model_validate_json(webhook))
    if batch_id is not None:
        db.execute("UPDATE batches SET completed_at = NULL WHERE batch_id = ?", (batch_id,))
        outbox.withdraw(db, batch_id)


def rescue(
    db: apsw.Connection, boot: str, clock: float, dead: Sequence[str], max_crashes: int
) -> list[Rescued]:
    db.execute("DELETE FROM workers WHERE boot <> ? OR lease_until < ?", (boot, clock))
    for worker_id in dead:
        db.execute("DELETE FROM workers WHERE worker_id = ?", (worker_id,))
    abandoned: list[Any] = db.execute(ABANDONED).fetchall()
    return [_rescue_one(db, *row, max_crashes=max_crashes) for row in abandoned]


#: Claims without a worker behind them.
ABANDONED = (
    "SELECT seq, job_id, attempt, worker_id, batch_id, crashes, cancel_requested"
    " FROM jobs INDEXED BY jobs_running WHERE status = 'processing'"
    " AND worker_id NOT IN (SELECT worker_id FROM workers)"
)


def _rescue_one(
    db: apsw.Connection,
    seq: int,
    job_id: str,
    attempt: int,
    worker_id: str,
    batch_id: str | None,
    crashes: int,
    cancel_requested: int,
    *,
    max_crashes: int,
) -> Rescued:
    deaths = crashes + 1
    error = crash_error(worker_id, deaths)
    over = deaths >= max_crashes
    if cancel_requested:
        cancel_job(db, seq, Cancelled().reason)
    elif over:
        _fail(db, seq, error, crashed=True)
    else:
        back_to_line(db, seq, error=error, counted="crashes")
    if cancel_requested or over:
        _ended(db, seq, batch_id)
    text = "The worker vanished while it ran this job"
    add_logs(db, seq, [LogEntry(level="error", message=f"{text} (attempt {attempt}, {worker_id})")])
    return Rescued(job_id, attempt, worker_id, failed=over)
