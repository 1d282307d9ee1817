"""Webhook events, written in the transaction that causes them.

`outbox` has a row for each job or batch with a webhook; see schema.sql. `callbacks` has a row for
each callback, with the last job submitted for it: at most one job at a time reports to a callback.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import apsw

from ...core.errors import Conflict, NotFound
from ...core.job import (
    MAX_DELIVERY_ATTEMPTS_KEPT,
    Batch,
    Delivery,
    DeliveryAttempt,
    Job,
    Webhook,
    new_delivery_id,
    utc_now,
)
from ...core.json_codec import encode_json_text
from ..jobs import CallbackKey
from ..outbox import (
    NO_EVENT,
    DueEvent,
    EventCapacity,
    FinalEvent,
    OutboxState,
    ProgressSchedule,
    first_event,
    queue_of,
    queues_of,
    succeeded,
)
from . import schema


def register(db: apsw.Connection, owner: Job | Batch, webhook: Webhook) -> None:
    """Add the outbox row of a new job or batch."""
    insert(db, owner, webhook, first_event(webhook) if isinstance(owner, Job) else NO_EVENT)


def insert(db: apsw.Connection, owner: Job | Batch, webhook: Webhook, state: OutboxState) -> None:
    kind, owner_id = ("job", owner.job_id) if isinstance(owner, Job) else ("batch", owner.batch_id)
    queue = queue_of(webhook, owner.user_id)
    row = {"owner_id": owner_id, "kind": kind, "endpoint": queue, "final": state.final}
    row |= {"due_at": schema.microseconds_or_none(state.due_at)}
    schema.insert_row(db, "outbox", row | _schedule_row(state.schedule))


def restart(db: apsw.Connection, job_id: str, webhook: Webhook) -> None:
    """Withdraw the final event of a restarted job and schedule its progress."""
    withdraw(db, job_id)
    if (first := first_event(webhook)).due_at is not None:
        row = _schedule_row(first.schedule) | {"due_at": schema.microseconds(first.due_at)}
        schema.update_row(db, "outbox", row, owner_id=job_id)


def _schedule_row(schedule: ProgressSchedule | None) -> dict[str, Any]:
    """Without a schedule, no progress is sent."""
    if schedule is None:
        return {"paced_at": None}
    return {
        "told_percent": schedule.sent_percent,
        "ripe_percent": schedule.early_percent,
        "ripe_at": schema.microseconds(schedule.early_at),
        "paced_at": schema.microseconds(schedule.due_at),
    }


def withdraw(db: apsw.Connection, owner_id: str) -> None:
    """Drop undelivered final events of a job or batch that is unfinished again."""
    db.execute(
        "UPDATE deliveries SET next_try_at = NULL WHERE owner_id = ? AND next_try_at IS NOT NULL",
        (owner_id,),
    )
    db.execute("UPDATE outbox SET due_at = NULL, final = 0 WHERE owner_id = ?", (owner_id,))


def add_final_event(
    db: apsw.Connection, owner_id: str, webhook: Webhook, event: FinalEvent, at: int
) -> None:
    """Make the final event of a job or batch due; it replaces any progress event."""
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


def advance_progress_event(db: apsw.Connection, job: Job) -> None:
    """Make the next progress event due early if the job has reached that percentage."""
    db.execute(
        "UPDATE outbox SET due_at = ripe_at FROM jobs WHERE outbox.owner_id = ?"
        " AND jobs.job_id = outbox.owner_id AND final = 0 AND due_at > ripe_at"
        " AND (percent >= ripe_percent OR percent < told_percent)",
        (job.job_id,),
    )


def delete(db: apsw.Connection, owner_id: str) -> None:
    db.execute("DELETE FROM deliveries WHERE owner_id = ?", (owner_id,))
    db.execute("DELETE FROM outbox WHERE owner_id = ?", (owner_id,))


def choose(db: apsw.Connection, capacity: EventCapacity) -> list[str]:
    """Return the owners of due events, without claiming them."""
    now = schema.microseconds(utc_now())
    if not db.execute("SELECT 1 FROM outbox WHERE due_at <= ? LIMIT 1", (now,)).get:
        return []
    queues = list(schema.distinct_values(db, NEXT_QUEUE))
    chosen: list[str] = []
    for final in (True, False):
        due = [one for one in queues if db.execute(DUE, (one, final, now, now, 1)).get]
        for queue, most in capacity.quota(final=final).shares(due).items():
            chosen += [one for (one,) in db.execute(DUE, (queue, final, now, now, most))]
    return chosen


# Few events are both claimed and due: ends of jobs whose progress was just being delivered.
DUE = (
    "SELECT owner_id FROM outbox INDEXED BY outbox_of_endpoint WHERE endpoint = ? AND final = ?"
    " AND due_at <= ? AND (held_until IS NULL OR held_until <= ?) ORDER BY due_at LIMIT ?"
)


NEXT_QUEUE = (
    "SELECT endpoint FROM outbox INDEXED BY outbox_of_endpoint"
    " WHERE due_at IS NOT NULL AND endpoint > ? ORDER BY endpoint LIMIT 1"
)


def claim(db: apsw.Connection, owner_ids: list[str], capacity: EventCapacity) -> list[DueEvent]:
    """Claim those events that are still due."""
    now = utc_now()
    until = schema.microseconds(now + capacity.lease)
    claimed: list[DueEvent] = []
    for owner_id in owner_ids:
        row: Any = db.execute(
            "UPDATE outbox SET held_until = ?, due_at = ? WHERE owner_id = ? AND due_at <= ?"
            " AND (held_until IS NULL OR held_until <= ?) RETURNING kind, endpoint",
            (until, until, owner_id, schema.microseconds(now), schema.microseconds(now)),
        ).fetchone()
        if row is None:
            continue
        delivery = _current_delivery(db, owner_id)
        if delivery is None:
            _schedule_next(db, owner_id)
        else:
            claimed.append(DueEvent(row[0], owner_id, row[1], delivery, schema.moment(until)))
    return claimed


def next_due_at(db: apsw.Connection) -> datetime | None:
    return schema.moment_or_none(db.execute("SELECT min(due_at) FROM outbox").get)


def renew(db: apsw.Connection, events: Sequence[DueEvent], lease: timedelta) -> list[DueEvent]:
    until = schema.microseconds(utc_now() + lease)
    renewed: list[DueEvent] = []
    for event in events:
        db.execute(
            "UPDATE outbox SET held_until = ?, due_at = ? WHERE owner_id = ? AND held_until = ?",
            (until, until, event.owner_id, schema.microseconds(event.held_until)),
        )
        if db.changes():
            renewed.append(replace(event, held_until=schema.moment(until)))
    return renewed


def _current_delivery(db: apsw.Connection, owner_id: str) -> Delivery | None:
    """Return the undelivered final event, or the delivery that records this run's progress."""
    row = db.execute(
        f"SELECT {schema.DELIVERY_COLUMNS} FROM deliveries"
        " WHERE owner_id = ? AND next_try_at IS NOT NULL ORDER BY n LIMIT 1",
        (owner_id,),
    ).fetchone()
    if row is not None:
        return schema.delivery_from(row)
    status = db.execute("SELECT status FROM jobs WHERE job_id = ?", (owner_id,)).get
    if status not in ("pending", "processing"):
        return None
    last = f"SELECT {schema.DELIVERY_COLUMNS} FROM deliveries WHERE owner_id = ?"
    last += " ORDER BY n DESC LIMIT 1"
    row = db.execute(last, (owner_id,)).fetchone()
    if row is None or schema.delivery_from(row).event != "progress":
        insert_delivery(db, owner_id, "progress", schema.microseconds(utc_now()))
        row = db.execute(last, (owner_id,)).fetchone()
    assert row is not None
    return schema.delivery_from(row)


def record_delivery(
    db: apsw.Connection,
    event: DueEvent,
    tried: DeliveryAttempt | None,
    *,
    next_try_at: datetime | None = None,
) -> None:
    delivered, released = succeeded(tried), _release(db, event)
    again = None if delivered or next_try_at is None else schema.microseconds(next_try_at)
    if delivered or released:
        # An event that was withdrawn in the meantime stays withdrawn.
        db.execute(
            "UPDATE deliveries SET delivered_at = coalesce(?, delivered_at),"
            " next_try_at = CASE WHEN next_try_at IS NOT NULL THEN ? END WHERE delivery_id = ?",
            (
                schema.microseconds(utc_now()) if delivered else None,
                again,
                event.delivery.delivery_id,
            ),
        )
    _record_attempt(db, event, tried)
    if released:
        _schedule_next(db, event.owner_id)


def record_progress(
    db: apsw.Connection,
    event: DueEvent,
    tried: DeliveryAttempt | None,
    schedule: ProgressSchedule | None,
) -> None:
    _record_attempt(db, event, tried)
    if _release(db, event):
        schema.update_row(db, "outbox", _schedule_row(schedule), owner_id=event.owner_id)
        _schedule_next(db, event.owner_id)


def _release(db: apsw.Connection, event: DueEvent) -> bool:
    """Release a claimed event; False if its lease was lost, and another sender may own it now."""
    db.execute(
        "UPDATE outbox SET held_until = NULL WHERE owner_id = ? AND held_until = ?",
        (event.owner_id, schema.microseconds(event.held_until)),
    )
    return db.changes() > 0


def _record_attempt(db: apsw.Connection, event: DueEvent, tried: DeliveryAttempt | None) -> None:
    if tried is None:
        return
    delivery_id = event.delivery.delivery_id
    stored: str | None = db.execute(
        "SELECT tries FROM deliveries WHERE delivery_id = ?", (delivery_id,)
    ).get
    tries = [*(json.loads(stored) if stored else []), tried.model_dump(mode="json")]
    db.execute(
        "UPDATE deliveries SET tried = tried + 1, tries = ? WHERE delivery_id = ?",
        (encode_json_text(tries[-MAX_DELIVERY_ATTEMPTS_KEPT:]), delivery_id),
    )


def _schedule_next(db: apsw.Connection, owner_id: str) -> None:
    """Set when the next event is due, which nobody has claimed."""
    again: int | None = db.execute(
        "SELECT next_try_at FROM deliveries WHERE owner_id = ? AND next_try_at IS NOT NULL"
        " ORDER BY n LIMIT 1",
        (owner_id,),
    ).get
    if again is not None:
        db.execute(
            "UPDATE outbox SET held_until = NULL, due_at = ?, final = 1 WHERE owner_id = ?",
            (again, owner_id),
        )
        return
    db.execute(
        "UPDATE outbox SET held_until = NULL, final = 0, due_at ="
        " (SELECT CASE WHEN percent >= ripe_percent OR percent < told_percent"
        " THEN min(ripe_at, paced_at) ELSE paced_at END FROM jobs"
        " WHERE job_id = owner_id AND status IN ('pending', 'processing')) WHERE owner_id = ?",
        (owner_id,),
    )


def postpone(db: apsw.Connection, target: str, until: datetime, *, final: bool) -> None:
    now, then = schema.microseconds(utc_now()), schema.microseconds(until)
    db.execute(
        "UPDATE outbox INDEXED BY outbox_of_endpoint SET due_at = ?"
        " WHERE endpoint >= ? AND endpoint < ?"
        " AND final = ? AND due_at < ? AND (held_until IS NULL OR held_until <= ?)",
        (then, *queues_of(target), final, then, now),
    )


def replay(db: apsw.Connection, owner_id: str, n: int) -> Delivery:
    one = f"SELECT {schema.DELIVERY_COLUMNS} FROM deliveries WHERE owner_id = ? AND n = ?"
    row = db.execute(one, (owner_id, n)).fetchone()
    if row is None:
        raise NotFound(f"{owner_id} has no delivery {n}")
    delivery = schema.delivery_from(row)
    owner: Any = db.execute(
        f"SELECT completed_at, webhook FROM {schema.JOBS} WHERE job_id = ?"
        " UNION ALL SELECT completed_at, webhook FROM batches WHERE batch_id = ?",
        (owner_id, owner_id),
    ).fetchone()
    ended_at, webhook = owner
    if (
        delivery.event == "progress"
        or ended_at is None
        or delivery.created_at < schema.moment(ended_at)
        or not Webhook.from_stored_json(webhook).wants(delivery.event)  # it has been replaced
    ):
        raise Conflict(f"Delivery {n} of {owner_id} reports an outdated state")
    now = schema.microseconds(utc_now())
    db.execute(
        "UPDATE deliveries SET delivered_at = NULL, next_try_at = ?, replayed_at = ?, tried = 0"
        " WHERE delivery_id = ?",
        (now, now, delivery.delivery_id),
    )
    db.execute("UPDATE outbox SET due_at = ?, final = 1 WHERE owner_id = ?", (now, owner_id))
    again: Any = db.execute(one, (owner_id, n)).fetchone()
    return schema.delivery_from(again)


# Repeated submissions for a callback ------------------------------------------------------------


def find_repeated(db: apsw.Connection, job: Job, callback: CallbackKey) -> str | None:
    """Return the unfinished job of the same request, after giving it the new token."""
    row: Any = db.execute(
        "SELECT jobs.job_id, jobs.seq, webhook FROM callbacks JOIN jobs USING (job_id)"
        " JOIN contents ON contents.seq = jobs.seq WHERE key = ? AND fingerprint = ?"
        " AND expires_at > ? AND status IN ('pending', 'processing') AND cancel_requested = 0",
        (callback.key, callback.fingerprint, schema.microseconds(utc_now())),
    ).fetchone()
    if row is None or row[2] is None:
        return None
    job_id, seq, stored = row
    webhook = Webhook.from_stored_json(stored)
    assert job.webhook is not None
    if webhook.token == job.webhook.token:
        return None
    _write_webhook(db, seq, webhook.model_copy(update={"token": job.webhook.token}))
    return str(job_id)


def take_over(db: apsw.Connection, job: Job, callback: CallbackKey) -> tuple[Job, str | None]:
    """Return the job with the id that its events report, and the job that it replaces, whose
    events are withdrawn."""
    assert job.webhook is not None
    now = schema.microseconds(utc_now())
    before: Any = db.execute(
        "SELECT job_id, process_id FROM callbacks WHERE key = ? AND expires_at > ?",
        (callback.key, now),
    ).fetchone()
    process_id, replaced = job.job_id, None
    if before is not None:
        replaced, process_id = before
        stored: Any = db.execute(
            f"SELECT jobs.seq, webhook FROM {schema.JOBS} WHERE job_id = ?", (replaced,)
        ).fetchone()
        webhook = Webhook.from_stored_json(stored[1]) if stored and stored[1] else None
        if webhook is not None and webhook.token == job.webhook.token:
            return job, None
        if webhook is not None:
            _write_webhook(db, stored[0], webhook.silenced())
            withdraw(db, replaced)
        job = job.model_copy(update={"process_id": process_id})
    db.execute(
        "INSERT OR REPLACE INTO callbacks VALUES (?, ?, ?, ?, ?)",
        (
            callback.key,
            job.job_id,
            process_id,
            callback.fingerprint,
            schema.microseconds(callback.expires_at),
        ),
    )
    return job, replaced


def _write_webhook(db: apsw.Connection, seq: int, webhook: Webhook) -> None:
    text = webhook.model_dump_json(by_alias=True)
    db.execute("UPDATE contents SET webhook = ? WHERE seq = ?", (text, seq))


def reporting_job(db: apsw.Connection, process_id: str) -> str | None:
    job_id: str | None = db.execute(
        "SELECT job_id FROM callbacks WHERE process_id = ?", (process_id,)
    ).get
    return job_id


def drop_expired_callbacks(db: apsw.Connection) -> None:
    now = schema.microseconds(utc_now())
    db.execute("DELETE FROM callbacks WHERE expires_at < ?", (now,))
