"""How a worker ends its claim: the job is done, or it is pending again."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import apsw

from ...errors import LeaseLost
from ...job import Cancelled, Failed, Job, Released, utc_now
from ...secret_parameters import has_secrets, without_secrets
from ..json_text import dumps
from . import outbox
from .changes import NEXT_REVISION
from .report import HELD_BY, fence
from .rows import microseconds
from .states import back_to_line, cancel_job, ended, fail, settle_batch

#: Results up to this length are written together with those of other jobs.
SMALL_RESULTS = 10_000


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
            fail(db, seq, error, crashed=crashed)
            ended(db, seq, batch_id)
        case Failed(error=error, retry_at=retry_at, crashed=crashed):
            counted = "crashes" if crashed else "failures"
            back_to_line(db, seq, error=error, run_at=retry_at, counted=counted)
        case Released():
            back_to_line(db, seq, broke_off=True)
        case Cancelled(reason=reason):
            cancel_job(db, seq, reason)
            ended(db, seq, batch_id)
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
        if has_secrets(completion.job.parameters):
            _forget_secrets(db, held[completion.job.job_id][0], completion.job)
        if completion.job.webhook is not None:
            outbox.note_end(db, completion.job.job_id, completion.job.webhook, "completed", now)
    for batch_id in {batch_id for _, batch_id in held.values() if batch_id is not None}:
        settle_batch(db, batch_id)
    return [None if c.job.job_id in held else LeaseLost(c.job.job_id) for c in completions]


def _forget_secrets(db: apsw.Connection, seq: int, job: Job) -> None:
    parameters = dumps(without_secrets(job.parameters))
    db.execute("UPDATE contents SET parameters = ? WHERE seq = ?", (parameters, seq))


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
