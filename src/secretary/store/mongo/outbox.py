"""The events for webhooks in MongoDB: part of the job or batch they tell of, so that one write
ends a job and makes its event due.

`outbox` says when something is to be told, and whether a sender is at it; a job or batch that
has nothing to tell has none. `pace` is how progress is told (see store/outbox.py).
"""

from collections.abc import Sequence
from typing import Literal

from ...job import Webhook
from ..outbox import Pace, first_pace
from .rows import moment, new_delivery, stamp, webhook_from
from .schema import Database, Document

#: A job or batch that is restarted again and again keeps this many deliveries, the last ones.
MAX_DELIVERIES_KEPT = 4


def webhook_of(document: Document) -> Webhook | None:
    """The webhook of a job or batch, as it is stored or as it was read before."""
    known = document.get("webhook")
    return known if isinstance(known, Webhook) else webhook_from(known)


def first_sign(webhook: Webhook | None) -> Document:
    """The fields of a job that is new, or open again, by which its progress will be told."""
    if webhook is None or not webhook.wants_progress:
        return {}
    pace = first_pace()
    due = {"endpoint": webhook.endpoint, "final": False, "due_at": stamp(pace.due_at)}
    return {"outbox": due, "pace": pace_to(pace)}


def pace_to(pace: Pace) -> Document:
    return {
        "told_percent": pace.told_percent,
        "ripe_percent": pace.ripe_percent,
        "ripe_at": stamp(pace.ripe_at),
        "due_at": stamp(pace.due_at),
    }


def pace_from(stored: Document) -> Pace:
    return Pace(
        told_percent=stored["told_percent"],
        ripe_percent=stored["ripe_percent"],
        ripe_at=moment(stored["ripe_at"]),
        due_at=moment(stored["due_at"]),
    )


def told(document: Document, event: Literal["completed", "error"], at: str) -> Document:
    """The duty to tell the webhook of a job or batch, as part of the update that ends it."""
    webhook = webhook_of(document)
    if webhook is None:
        return {}
    if not webhook.wants(event):
        return {"$unset": {"outbox": ""}}
    delivery = new_delivery(event, at) | {"next_try_at": at}
    due = {"endpoint": webhook.endpoint, "final": True, "due_at": at}
    return pushed(delivery) | {"$set": {f"outbox.{name}": value for name, value in due.items()}}


def pushed(delivery: Document) -> Document:
    kept = {"$each": [delivery], "$slice": -MAX_DELIVERIES_KEPT}
    return {"$push": {"deliveries": kept}, "$inc": {"told": 1}}


def open_again(document: Document) -> Document:
    """What was not yet told of the end of a job is no longer true, as part of its restart."""
    update: Document = {}
    if "told" in document:
        update["$unset"] = {"deliveries.$[].next_try_at": ""}
    if fields := first_sign(webhook_of(document)):
        update["$set"] = fields
    elif "outbox" in document:
        update["$unset"] = update.get("$unset", {}) | {"outbox": ""}
    return update


async def withdraw(db: Database, batch_ids: Sequence[str]) -> None:
    """The same for batches that are open again."""
    await db.durable.batches.update_many(
        {"_id": {"$in": list(batch_ids)}, "told": {"$exists": True}},
        {"$unset": {"deliveries.$[].next_try_at": "", "outbox": ""}},
    )


REPORTED = {"outbox": 1, "pace": 1, "progress.percent": 1}


async def note_progress(db: Database, before: Document, percent: int) -> None:
    """A job reported: is that worth an event before its next one is due? `before` has the
    fields `REPORTED` as they were then."""
    due, pace = before.get("outbox"), before.get("pace")
    if due is None or pace is None or due["final"] or due["due_at"] <= pace["ripe_at"]:
        return
    percent = max(percent, before["progress"]["percent"])
    if percent >= pace["ripe_percent"] or percent < pace["told_percent"]:
        await db.jobs.update_one(
            {"_id": before["_id"], "outbox.final": False, "pace": pace},
            {"$set": {"outbox.due_at": pace["ripe_at"]}},
        )
