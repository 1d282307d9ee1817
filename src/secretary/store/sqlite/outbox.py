"""The events for webhooks in SQLite: noted in the transaction that brings about what they tell.

`outbox` has a row for each job or batch with a webhook; see schema.sql.
"""

from typing import Literal

import apsw

from ...job import Job, Webhook, new_delivery_id
from ..outbox import Pace, first_pace
from ..transfer import Telling
from .rows import microseconds, microseconds_or_none

FinalEvent = Literal["completed", "error"]


def register(
    db: apsw.Connection, kind: Literal["job", "batch"], owner_id: str, webhook: Webhook
) -> None:
    """Note where the events of a new job or batch go."""
    first = first_pace() if kind == "job" and webhook.wants_progress else None
    insert(db, kind, owner_id, webhook, Telling(due_at=first.due_at if first else None, pace=first))


def insert(
    db: apsw.Connection,
    kind: Literal["job", "batch"],
    owner_id: str,
    webhook: Webhook,
    telling: Telling,
) -> None:
    pace = telling.pace
    db.execute(
        "INSERT INTO outbox (owner_id, kind, endpoint, due_at, final, told_percent, ripe_percent,"
        " ripe_at, paced_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            owner_id,
            kind,
            webhook.endpoint,
            microseconds_or_none(telling.due_at),
            telling.final,
            pace.told_percent if pace else 0,
            pace.ripe_percent if pace else None,
            microseconds(pace.ripe_at) if pace else None,
            microseconds(pace.due_at) if pace else None,
        ),
    )


def begin_again(db: apsw.Connection, job_id: str, webhook: Webhook) -> None:
    """A job that ended is open again."""
    withdraw(db, job_id)
    if webhook.wants_progress:
        first = first_pace()
        set_pace(db, job_id, first)
        due_at = microseconds(first.due_at)
        db.execute("UPDATE outbox SET due_at = ? WHERE owner_id = ?", (due_at, job_id))


def set_pace(db: apsw.Connection, owner_id: str, pace: Pace) -> None:
    db.execute(
        "UPDATE outbox SET told_percent = ?, ripe_percent = ?, ripe_at = ?, paced_at = ?"
        " WHERE owner_id = ?",
        (
            pace.told_percent,
            pace.ripe_percent,
            microseconds(pace.ripe_at),
            microseconds(pace.due_at),
            owner_id,
        ),
    )


def withdraw(db: apsw.Connection, owner_id: str) -> None:
    """What was not yet told of the end of a job or batch is no longer true: it is open again."""
    db.execute(
        "UPDATE deliveries SET next_try_at = NULL WHERE owner_id = ? AND next_try_at IS NOT NULL",
        (owner_id,),
    )
    db.execute("UPDATE outbox SET due_at = NULL, final = 0 WHERE owner_id = ?", (owner_id,))


def note_end(
    db: apsw.Connection, owner_id: str, webhook: Webhook, event: FinalEvent, at: int
) -> None:
    """The duty to tell that a job or batch ended; then there is no progress to tell of."""
    wanted = webhook.wants(event)
    if wanted:
        insert_delivery(db, owner_id, event, at, next_try_at=at)
    db.execute(
        "UPDATE outbox SET due_at = ?, final = ? WHERE owner_id = ?",
        (at if wanted else None, wanted, owner_id),
    )


def insert_delivery(
    db: apsw.Connection, owner_id: str, event: str, at: int, *, next_try_at: int | None = None
) -> None:
    db.execute(
        "INSERT INTO deliveries (delivery_id, owner_id, n, event, created_at, next_try_at)"
        " SELECT ?, ?, coalesce(max(n), 0) + 1, ?, ?, ? FROM deliveries WHERE owner_id = ?",
        (new_delivery_id(), owner_id, event, at, next_try_at, owner_id),
    )


def note_progress(db: apsw.Connection, job: Job) -> None:
    """The job has reported: is that worth an event before its next one is due?"""
    db.execute(
        "UPDATE outbox SET due_at = ripe_at FROM jobs WHERE outbox.owner_id = ?"
        " AND jobs.job_id = outbox.owner_id AND final = 0 AND due_at > ripe_at"
        " AND (percent >= ripe_percent OR percent < told_percent)",
        (job.job_id,),
    )


def forget(db: apsw.Connection, owner_id: str) -> None:
    db.execute("DELETE FROM deliveries WHERE owner_id = ?", (owner_id,))
    db.execute("DELETE FROM outbox WHERE owner_id = ?", (owner_id,))
