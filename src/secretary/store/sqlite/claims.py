"""Workers and their leases, claims, progress, outcomes and the rescue of lost jobs."""

import functools
import json
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import chain, islice
from typing import Any

import apsw

from ...core.errors import LeaseLost
from ...core.job import (
    MAX_LOG_ENTRIES,
    MAX_LOG_MESSAGE,
    Cancelled,
    Failed,
    Job,
    LogEntry,
    Progress,
    Released,
    has_secrets,
    remove_secrets,
    utc_now,
)
from ...core.json_codec import encode_json_text
from ...core.processes import boot_id
from .. import claims
from . import outbox, schema
from .jobs import (
    MAX_SUSPECTS_CHECKED,
    WAITING_SUSPECTS,
    cancel_job,
    fail,
    promote,
    queues_with_jobs,
    requeue,
    settle_batch,
)

#: How many users of a queue a claim checks at most when there is a limit per user.
MAX_USERS_CHECKED = 500


def claim_together(
    scheduler: claims.FairScheduler,
    db: apsw.Connection,
    requests: list[tuple[str, claims.Capacity]],
) -> list[list[Job] | LeaseLost]:
    answers: list[list[Job] | LeaseLost] = []
    for worker_id, capacity in requests:
        try:
            answers.append(claim(db, scheduler, worker_id, capacity))
        except LeaseLost as error:
            answers.append(error)
    return answers


def claim(
    db: apsw.Connection, scheduler: claims.FairScheduler, worker_id: str, capacity: claims.Capacity
) -> list[Job]:
    """Give a worker the jobs that should start next."""
    now = schema.microseconds(utc_now())
    before: Any = db.execute(CLAIM_PRECONDITIONS, (worker_id, worker_id, now)).fetchone()
    registered, preparing, due = before
    if not registered:
        raise LeaseLost(f"The worker {worker_id} is not registered")
    if due:
        promote(db, now)
    suspects = _waiting_suspects(db)
    if suspects or preparing:
        becomes_idle = _prepare_for_suspect(db, worker_id, capacity, suspects)
        if becomes_idle and not preparing:
            db.execute("INSERT INTO preparing_workers VALUES (?)", (worker_id,))
        elif preparing and not becomes_idle:
            db.execute("DELETE FROM preparing_workers WHERE worker_id = ?", (worker_id,))
        if becomes_idle:
            return []
    takes_suspects = bool(suspects) and not capacity.busy
    chosen: list[int] = []
    if takes_suspects and capacity.suspects_first:
        chosen = _choose_suspects(db, capacity, suspects)
    chosen = chosen or _choose(db, scheduler, capacity)
    if takes_suspects and not chosen:
        chosen = _choose_suspects(db, capacity, suspects)
    return _start_jobs(db, worker_id, chosen, now) if chosen else []


def _choose(
    db: apsw.Connection, scheduler: claims.FairScheduler, capacity: claims.Capacity
) -> list[int]:
    running = _running_jobs(db, capacity)
    queues = {
        queue: _candidates(db, queue, capacity, running)
        for queue in queues_with_jobs(db)
        if capacity.accepts(queue[0])
    }
    return [one.key for one in scheduler.choose(queues, capacity, running)] if queues else []


def _waiting_suspects(db: apsw.Connection) -> list[claims.Suspect]:
    rows: list[Any] = db.execute(WAITING_SUSPECTS, (MAX_SUSPECTS_CHECKED,)).fetchall()
    return [claims.Suspect(*row[:-1]) for row in rows]


def _choose_suspects(
    db: apsw.Connection, capacity: claims.Capacity, suspects: Sequence[claims.Suspect]
) -> list[int]:
    running = _running_jobs(db, capacity)
    return [one.key for one in claims.choose_suspects(suspects, capacity, running)]


def _prepare_for_suspect(
    db: apsw.Connection,
    worker_id: str,
    capacity: claims.Capacity,
    suspects: Sequence[claims.Suspect],
) -> bool:
    """Whether the worker is busy and should start nothing until it is idle."""
    if not suspects or not capacity.busy:
        return False
    others: int = db.execute(
        "SELECT count(*) FROM preparing_workers WHERE worker_id <> ?", (worker_id,)
    ).get
    running = _running_jobs(db, capacity)
    return claims.has_to_become_idle(suspects, capacity, running, others_preparing=others)


def _start_jobs(db: apsw.Connection, worker_id: str, chosen: list[int], now: int) -> list[Job]:
    seqs = json.dumps(chosen)
    db.execute(
        "UPDATE jobs SET status = 'processing', turn = NULL, run_at = NULL, attempt = attempt + 1,"
        " worker_id = ?, processing_started_at = ?, updated_at = ?, step = 'initializing',"
        f" percent = 0, message = '', revision = {schema.NEXT_REVISION}"
        " WHERE seq IN (SELECT value FROM json_each(?))",
        (worker_id, now, now, seqs),
    )
    # Read all rows as one JSON value: fetching rows one by one costs more than parsing them.
    rows: str = db.execute(
        f"SELECT json_group_array(json_array({schema.JOB_COLUMNS}))"
        f" FROM json_each(?) AS chosen CROSS JOIN {schema.JOBS} WHERE jobs.seq = chosen.value",
        (seqs,),
    ).get
    jobs = {row[0]: schema.job_from(row) for row in json.loads(rows)}
    return [jobs[seq] for seq in chosen]


#: Whether the worker is registered, whether it prepares to run a suspect, and whether a scheduled
#: job is due.
CLAIM_PRECONDITIONS = (
    "SELECT EXISTS (SELECT 1 FROM workers WHERE worker_id = ?),"
    " EXISTS (SELECT 1 FROM preparing_workers WHERE worker_id = ?),"
    " EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_waiting"
    " WHERE status = 'pending' AND turn IS NULL AND held = 0 AND run_at <= ?)"
)


def _running_jobs(db: apsw.Connection, capacity: claims.Capacity) -> claims.Running:
    running = claims.Running()
    if capacity.max_per_type or capacity.max_per_user is not None:
        for job_type, user_id in db.execute(
            "SELECT job_type, user_id FROM jobs INDEXED BY jobs_running WHERE status = 'processing'"
        ):
            running.per_type[job_type] += 1
            running.per_user[user_id] += 1
    return running


def _candidates(
    db: apsw.Connection, queue: claims.JobClass, capacity: claims.Capacity, running: claims.Running
) -> Iterator[claims.Candidate]:
    if capacity.max_per_user is None:
        rows: list[Any] = db.execute(
            "SELECT seq, user_id FROM jobs INDEXED BY jobs_ready"
            " WHERE job_type = ? AND priority = ? AND turn IS NOT NULL ORDER BY turn, seq LIMIT ?",
            (*queue, capacity.slots_for(queue[0])),
        ).fetchall()
        return (claims.Candidate(seq, user_id, seq) for seq, user_id in rows)
    # Only jobs of users below their limit: skipping a busy user's 10,000 jobs is one index lookup.
    candidates: list[tuple[int, int, str | None]] = []
    users = islice(schema.distinct_values(db, NEXT_USER, queue), MAX_USERS_CHECKED)
    for user_id in chain([None], users):
        room = capacity.slots_for(queue[0])
        if user_id is not None:
            room = min(room, capacity.max_per_user - running.per_user[user_id])
        jobs = db.execute(
            "SELECT turn, seq FROM jobs INDEXED BY jobs_of_user_ready WHERE job_type = ?"
            " AND priority = ? AND user_id IS ? AND turn IS NOT NULL ORDER BY turn LIMIT ?",
            (*queue, user_id, max(room, 0)),
        )
        candidates += [(position, seq, user_id) for position, seq in jobs]
    candidates.sort(key=lambda candidate: candidate[:2])
    return (claims.Candidate(seq, user_id, seq) for _, seq, user_id in candidates)


NEXT_USER = (
    "SELECT user_id FROM jobs INDEXED BY jobs_of_user_ready WHERE job_type = ?"
    " AND priority = ? AND user_id > ? AND turn IS NOT NULL ORDER BY user_id LIMIT 1"
)


OWNED_BY = " WHERE job_id = ? AND attempt = ? AND worker_id = ? AND status = 'processing'"


def fence(job: Job) -> tuple[str, int, str | None]:
    return job.job_id, job.attempt, job.worker_id


def report(
    db: apsw.Connection, job: Job, progress: Progress | None = None, logs: Sequence[LogEntry] = ()
) -> None:
    now = schema.microseconds(utc_now())
    if progress is not None:
        seq = db.execute(
            "UPDATE jobs SET step = ?, percent = max(percent, ?), message = ?, updated_at = ?,"
            f" revision = {schema.NEXT_REVISION}" + OWNED_BY + " RETURNING seq",
            (progress.step, progress.percent, progress.message, now, *fence(job)),
        ).get
    else:
        seq = db.execute("SELECT seq FROM jobs" + OWNED_BY, fence(job)).get
    if seq is None:
        raise LeaseLost(job.job_id)
    if progress is not None and job.webhook is not None:
        outbox.advance_progress_event(db, job)
    add_logs(db, seq, logs)


def add_logs(db: apsw.Connection, seq: int, logs: Sequence[LogEntry]) -> None:
    if not logs:
        return
    last = db.execute("SELECT max(n) FROM logs WHERE seq = ?", (seq,)).get or 0
    for n, entry in enumerate(logs, last + 1):
        message = entry.message[:MAX_LOG_MESSAGE]
        row = (seq, n, schema.microseconds(entry.timestamp), entry.level, message)
        db.execute("INSERT INTO logs VALUES (?, ?, ?, ?, ?)", row)
    oldest = last + len(logs) - MAX_LOG_ENTRIES
    if oldest > 0:
        db.execute("DELETE FROM logs WHERE seq = ? AND n <= ?", (seq, oldest))


#: Results up to this length are written together with those of other jobs.
SMALL_RESULTS = 10_000

#: The outcomes other than success, which has a faster path (`complete`).
Unfinished = Failed | Cancelled | Released


def finish(
    db: apsw.Connection, job: Job, outcome: Unfinished, resources: Mapping[str, float] | None
) -> None:
    owned = db.execute("SELECT seq, cancel_requested FROM jobs" + OWNED_BY, fence(job)).fetchone()
    if owned is None:
        raise LeaseLost(job.job_id)
    seq, cancel_requested = owned
    used = encode_json_text(resources) if resources else None
    goes_on = isinstance(outcome, Released) or (isinstance(outcome, Failed) and outcome.retry_at)
    if goes_on and cancel_requested:
        outcome = Cancelled()
    match outcome:
        case Failed(error=error, retry_at=None, crashed=crashed):
            fail(db, seq, error, counter="crashes" if crashed else "failures")
        case Failed(error=error, retry_at=retry_at, crashed=crashed):
            counter = "crashes" if crashed else "failures"
            requeue(db, seq, error=error, run_at=retry_at, counter=counter)
        case Released():
            requeue(db, seq, interrupted=True)
        case Cancelled(reason=reason):
            cancel_job(db, seq, reason)
    db.execute("UPDATE contents SET resources = ? WHERE seq = ?", (used, seq))


@dataclass(frozen=True, slots=True)
class Completion:
    """A completed job, with its results and resource usage as JSON."""

    job: Job
    results: str | None
    resources: str | None


def complete(db: apsw.Connection, completions: list[Completion]) -> list[LeaseLost | None]:
    """Complete many jobs at once; returns an error for each whose lease was lost."""
    rows: str = db.execute(
        "SELECT json_group_array(json_array(job_id, seq, batch_id))"
        " FROM json_each(?) AS ended CROSS JOIN jobs ON job_id = ended.value ->> 0"
        " AND attempt = ended.value ->> 1 AND worker_id = ended.value ->> 2"
        " AND status = 'processing'",
        (json.dumps([fence(completion.job) for completion in completions]),),
    ).get
    owned = {job_id: (seq, batch_id) for job_id, seq, batch_id in json.loads(rows)}
    now = schema.microseconds(utc_now())
    db.execute(
        "UPDATE jobs SET status = 'completed', step = 'completed', percent = 100, message = '',"
        f" error_code = NULL, updated_at = ?, completed_at = ?, revision = {schema.NEXT_REVISION}"
        " WHERE seq IN (SELECT value FROM json_each(?))",
        (now, now, json.dumps([seq for seq, _ in owned.values()])),
    )
    valid = [c for c in completions if c.job.job_id in owned]
    small: list[tuple[int, str | None, str | None]] = []
    for completion in valid:
        row = owned[completion.job.job_id][0], completion.results, completion.resources
        if len(completion.results or "") < SMALL_RESULTS:
            small.append(row)
        else:
            db.execute(
                "UPDATE contents SET results = ?2, resources = ?3, error = NULL WHERE seq = ?1", row
            )
    db.execute(
        "UPDATE contents SET results = kept.value ->> 1, resources = kept.value ->> 2,"
        " error = NULL FROM json_each(?) AS kept WHERE contents.seq = kept.value ->> 0",
        (json.dumps(small),),
    )
    for job in (completion.job for completion in valid):
        if has_secrets(job.parameters):
            parameters = encode_json_text(remove_secrets(job.parameters))
            seq = owned[job.job_id][0]
            db.execute("UPDATE contents SET parameters = ? WHERE seq = ?", (parameters, seq))
        if job.webhook is not None:
            outbox.add_final_event(db, job.job_id, job.webhook, "completed", now)
    for batch_id in {batch_id for _, batch_id in owned.values() if batch_id is not None}:
        settle_batch(db, batch_id)
    return [None if c.job.job_id in owned else LeaseLost(c.job.job_id) for c in completions]


#: The boot to which the leases that this process reads and writes refer.
_boot = functools.cache(boot_id)

LAPSED = "FROM workers WHERE boot <> ? OR lease_until < ?"


def has_lost_jobs(db: apsw.Connection) -> bool:
    lapsed = db.execute(f"SELECT 1 {LAPSED} LIMIT 1", (_boot(), time.monotonic())).get
    return bool(lapsed or db.execute(ABANDONED).fetchone())


def rescue(db: apsw.Connection, dead: Collection[str]) -> list[claims.Rescued]:
    rebooted = {row[0] for row in db.execute(REBOOTED, (_boot(),))}
    lapsed: list[Any] = db.execute(
        f"DELETE {LAPSED} RETURNING worker_id", (_boot(), time.monotonic())
    ).fetchall()
    for worker_id in dead:
        unregister_worker(db, worker_id)
    abandoned: list[Any] = db.execute(ABANDONED).fetchall()
    jobs_per_worker = Counter(worker_id for _, _, _, worker_id, *_ in abandoned)
    with_suspects = {row[3] for row in abandoned if row[-1] is not None}
    _record_lost_workers(db, {*(row[0] for row in lapsed), *dead, *jobs_per_worker}, with_suspects)
    recent = [
        claims.LostWorker(worker_id, bool(ran_suspects))
        for worker_id, ran_suspects in db.execute(
            "SELECT worker_id, ran_suspects FROM lost_workers"
        )
    ]
    rescued: list[claims.Rescued] = []
    for seq, job_id, attempt, worker_id, cancel_requested, attempts, *counters in abandoned:
        past = json.loads(attempts) if attempts else []
        suspicion = claims.judge_loss(
            claims.Suspicion(*counters),
            jobs_lost=jobs_per_worker[worker_id],
            unstable=worker_id in rebooted or claims.is_unstable(recent, worker_id, past),
        )
        db.execute(
            "UPDATE jobs SET losses = ?, strikes = ?, group_size = ? WHERE seq = ?",
            (suspicion.losses, suspicion.strikes, suspicion.group_size, seq),
        )
        error = claims.loss_error(worker_id, suspicion)
        failed = suspicion.is_proven and not cancel_requested
        if cancel_requested:
            cancel_job(db, seq, Cancelled().reason)
        elif failed:
            fail(db, seq, error)
        else:
            requeue(db, seq, error=error, interrupted=True)
        add_logs(db, seq, [claims.worker_lost_entry(worker_id, attempt, suspicion)])
        is_suspect = suspicion.group_size is not None
        rescued.append(
            claims.Rescued(job_id, attempt, worker_id, failed, bool(cancel_requested), is_suspect)
        )
    return rescued


def _record_lost_workers(
    db: apsw.Connection, lost: Collection[str], with_suspects: Collection[str]
) -> None:
    now = time.monotonic()
    oldest = now - claims.UNSTABLE_WITHIN.total_seconds()
    db.execute("DELETE FROM lost_workers WHERE lost_at NOT BETWEEN ? AND ?", (oldest, now))
    for worker_id in lost:
        row = (worker_id, now, worker_id in with_suspects)
        db.execute("INSERT OR REPLACE INTO lost_workers VALUES (?, ?, ?)", row)


#: Workers that were lost because the machine was restarted: no job is the cause.
REBOOTED = "SELECT worker_id FROM workers WHERE boot <> ?"

#: Running jobs whose worker is no longer registered.
ABANDONED = (
    "SELECT jobs.seq, job_id, attempt, worker_id, cancel_requested, attempts, losses, strikes,"
    " group_size FROM jobs INDEXED BY jobs_running JOIN contents ON contents.seq = jobs.seq"
    " WHERE status = 'processing'"
    " AND worker_id NOT IN (SELECT worker_id FROM workers)"
)


def register_worker(
    db: apsw.Connection,
    worker: claims.WorkerInfo,
    lease: timedelta,
    *,
    survived: Collection[tuple[str, int]] = (),
) -> None:
    info = {**asdict(worker), "started_at": schema.microseconds(worker.started_at)}
    del info["seen_at"]
    lease_until = time.monotonic() + lease.total_seconds()
    db.execute(
        "INSERT INTO workers VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE"
        " SET info = excluded.info, seen_at = excluded.seen_at,"
        " lease_until = excluded.lease_until",
        (worker.worker_id, json.dumps(info), schema.microseconds(utc_now()), lease_until, _boot()),
    )
    for job_id, attempt in survived:
        _clear_suspicion(db, job_id, attempt)


def _clear_suspicion(db: apsw.Connection, job_id: str, attempt: int) -> None:
    """Clear a job whose worker turned out to be alive, unless more has happened since. If it waits
    for an idle worker, the next claim moves it to its queue."""
    db.execute(
        "UPDATE jobs SET losses = 0, strikes = 0, group_size = NULL,"
        " run_at = CASE WHEN status = 'pending' AND group_size IS NOT NULL"
        f" THEN coalesce(run_at, ?1) ELSE run_at END, revision = {schema.NEXT_REVISION}"
        " WHERE job_id = ?2 AND losses > 0 AND (status = 'pending' AND attempt = ?3"
        " OR status = 'processing' AND attempt = ?3 + 1)",
        (schema.microseconds(utc_now()), job_id, attempt),
    )


def unregister_worker(db: apsw.Connection, worker_id: str) -> None:
    db.execute("DELETE FROM workers WHERE worker_id = ?", (worker_id,))


def busy_slots(db: apsw.Connection) -> dict[str, dict[str, int]]:
    busy: dict[str, dict[str, int]] = {}
    for worker_id, job_type, n in db.execute(
        "SELECT worker_id, job_type, count(*) FROM jobs INDEXED BY jobs_running"
        " WHERE status = 'processing' AND worker_id IS NOT NULL GROUP BY 1, 2"
    ):
        busy.setdefault(worker_id, {})[job_type] = n
    return busy


def all_workers(db: apsw.Connection) -> list[claims.WorkerInfo]:
    workers: list[claims.WorkerInfo] = []
    for text, seen_at in db.execute("SELECT info, seen_at FROM workers ORDER BY worker_id"):
        info = json.loads(text)
        times = {"started_at": schema.moment(info["started_at"]), "seen_at": schema.moment(seen_at)}
        workers.append(claims.WorkerInfo.from_stored(info | times))
    return workers


def read_lease(db: apsw.Connection, worker_id: str) -> tuple[float, claims.Renewal]:
    """Return how many seconds of the lease remain and which jobs it covers; most renewals need no
    write."""
    lease_until = db.execute(
        "SELECT lease_until FROM workers WHERE worker_id = ?", (worker_id,)
    ).get
    if lease_until is None:
        raise LeaseLost(f"The worker {worker_id} is not registered")
    rows: list[Any] = db.execute(
        "SELECT job_id, attempt, cancel_requested FROM jobs INDEXED BY jobs_running"
        " WHERE worker_id = ? AND status = 'processing'",
        (worker_id,),
    ).fetchall()
    cancelled = frozenset(job_id for job_id, _, cancel in rows if cancel)
    remaining = lease_until - time.monotonic()
    return remaining, claims.Renewal({job_id: n for job_id, n, _ in rows}, cancelled)


def extend_lease(db: apsw.Connection, worker_id: str, lease: timedelta) -> None:
    db.execute(
        "UPDATE workers SET lease_until = ?, seen_at = ? WHERE worker_id = ?",
        (time.monotonic() + lease.total_seconds(), schema.microseconds(utc_now()), worker_id),
    )
    if not db.changes():
        raise LeaseLost(f"The worker {worker_id} is not registered")
