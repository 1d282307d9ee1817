"""Webhook events, stored in the job or batch they report: one write finishes a job and makes its
event due.

`outbox` has the time of the next event, its queue (as `endpoint`) and its lease, if there is an
event; `pace` is the schedule of progress events (see store/outbox.py).
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain

from pymongo.errors import DuplicateKeyError

from ...core.errors import Conflict, NotFound, StoreUnavailable
from ...core.job import (
    MAX_DELIVERY_ATTEMPTS_KEPT,
    Delivery,
    DeliveryAttempt,
    Job,
    Webhook,
    utc_now,
)
from ..jobs import CallbackKey
from ..outbox import (
    DueEvent,
    EventCapacity,
    EventQuota,
    FinalEvent,
    OutboxState,
    OwnerKind,
    ProgressSchedule,
    first_event,
    queue_of,
    queues_of,
    succeeded,
)
from .schema import (
    HIDDEN,
    MAX_HISTORY_BYTES,
    UNFINISHED,
    Database,
    Document,
    Documents,
    deliveries_from,
    moment,
    new_delivery,
    now_stamp,
    stamp,
    to_bson,
    truncate,
    webhook_from,
)

#: How many deliveries of a repeatedly restarted job or batch are retained.
MAX_DELIVERIES_KEPT = 4

#: In an aggregation: the deliveries of a document, and whether one of them is to be tried again.
DELIVERIES = {"$ifNull": ["$deliveries", []]}
IS_WAITING = {"$gt": ["$$this.next_try_at", None]}


def webhook_of(document: Document) -> Webhook | None:
    """The webhook of a job or batch, stored or already parsed."""
    stored = document.get("webhook")
    return stored if isinstance(stored, Webhook) else webhook_from(stored)


def state_to(webhook: Webhook | None, user_id: str | None, state: OutboxState) -> Document:
    """The fields of a job or batch with this pending event."""
    fields: Document = {}
    if webhook is not None and state.due_at is not None:
        due = {"final": state.final, "due_at": stamp(state.due_at)}
        fields["outbox"] = {"endpoint": queue_of(webhook, user_id), **due}
    if state.schedule is not None:
        fields["pace"] = schedule_to(state.schedule)
    return fields


def schedule_to(pace: ProgressSchedule) -> Document:
    return {
        "told_percent": pace.sent_percent,
        "ripe_percent": pace.early_percent,
        "ripe_at": stamp(pace.early_at),
        "due_at": stamp(pace.due_at),
    }


def schedule_from(stored: Document) -> ProgressSchedule:
    return ProgressSchedule(
        sent_percent=stored["told_percent"],
        early_percent=stored["ripe_percent"],
        early_at=moment(stored["ripe_at"]),
        due_at=moment(stored["due_at"]),
    )


def final_event(document: Document, event: FinalEvent, at: str) -> Document:
    """The part of a final update that makes the webhook event due."""
    webhook = webhook_of(document)
    if webhook is None:
        return {}
    if not webhook.wants(event):
        return {"$unset": {"outbox": ""}}
    delivery = new_delivery(event, at) | {"next_try_at": at}
    return add_delivery(delivery) | {"$set": _final_due(webhook, document.get("user_id"), at)}


def _final_due(webhook: Webhook, user_id: str | None, at: str) -> Document:
    due = {"endpoint": queue_of(webhook, user_id), "final": True, "due_at": at}
    return {f"outbox.{name}": value for name, value in due.items()}


def add_delivery(delivery: Document) -> Document:
    latest = {"$each": [delivery], "$slice": -MAX_DELIVERIES_KEPT}
    return {"$push": {"deliveries": latest}, "$inc": {"told": 1}}


def restarted(document: Document) -> Document:
    """The part of a restart that withdraws undelivered final events."""
    update: Document = {}
    if "told" in document:
        update["$unset"] = {"deliveries.$[].next_try_at": ""}
    webhook = webhook_of(document)
    if fields := state_to(webhook, document.get("user_id"), first_event(webhook)):
        update["$set"] = fields
    elif "outbox" in document:
        update["$unset"] = update.get("$unset", {}) | {"outbox": ""}
    return update


_WITHDRAWN = {"$mergeObjects": ["$$this", {"next_try_at": None}]}
#: The stage that withdraws the undelivered final event of a batch that is unfinished again.
WITHDRAWN: Document = {
    "$set": {
        "deliveries": {
            "$cond": [
                {"$isArray": "$deliveries"},
                {"$map": {"input": DELIVERIES, "in": _WITHDRAWN}},
                "$$REMOVE",
            ]
        }
    }
}


REPORTED = {"outbox": 1, "pace": 1, "progress.percent": 1}


async def advance_progress_event(db: Database, before: Document, percent: int) -> None:
    """Make the next progress event due early if the job has reached that percentage. `before` has
    the fields `REPORTED` as they were before the report."""
    due, pace = before.get("outbox"), before.get("pace")
    if due is None or pace is None or due["final"] or due["due_at"] <= pace["ripe_at"]:
        return
    percent = max(percent, before["progress"]["percent"])
    if percent >= pace["ripe_percent"] or percent < pace["told_percent"]:
        await db.jobs.update_one(
            {"_id": before["_id"], "outbox.final": False, "pace": pace},
            {"$set": {"outbox.due_at": pace["ripe_at"]}},
        )


async def claim(db: Database, capacity: EventCapacity) -> list[DueEvent]:
    claimed: list[DueEvent] = []
    kinds: tuple[tuple[OwnerKind, Documents], ...] = (("batch", db.batches), ("job", db.jobs))
    for kind, documents in kinds:
        remaining = replace(
            capacity,
            finals=_remaining(capacity.finals, [one for one in claimed if one.is_final]),
            progress=_remaining(capacity.progress, [one for one in claimed if not one.is_final]),
        )
        claimed += await _claim_from(documents, kind, remaining)
    return claimed


def _remaining(quota: EventQuota, claimed: Sequence[DueEvent]) -> EventQuota:
    in_flight = Counter(quota.in_flight) + Counter(event.queue for event in claimed)
    return replace(quota, in_flight=in_flight)


async def _claim_from(
    documents: Documents, kind: OwnerKind, capacity: EventCapacity
) -> list[DueEvent]:
    is_due = {"outbox.due_at": {"$lte": now_stamp()}}
    if not await documents.find_one(is_due, {"_id": 1}, hint="outbox_due"):
        return []
    queues = await _due_queues(documents)
    chosen = [
        _due(documents, queue, final=final, limit=limit)
        for final, names in queues.items()
        for queue, limit in capacity.quota(final=final).shares(names).items()
    ]
    due = chain(*await asyncio.gather(*chosen))
    until = stamp(utc_now() + capacity.lease)
    claimed = await asyncio.gather(*(_claim_one(documents, kind, one, until) for one in due))
    return [event for event in claimed if event is not None]


async def _due_queues(documents: Documents) -> dict[bool, list[str]]:
    """The queues with due final events, and those that may have due progress: where there are
    final events too, this is not known yet."""
    first_of_queues: list[Document] = [
        {
            "$match": {
                "outbox.endpoint": {"$gt": ""},
                "outbox.final": {"$in": [True, False]},
                "outbox.due_at": {"$lte": now_stamp()},
            }
        },
        {"$sort": {"outbox.endpoint": 1, "outbox.final": -1, "outbox.due_at": 1}},
        {"$group": {"_id": "$outbox.endpoint", "final": {"$first": "$outbox.final"}}},
    ]
    heads = await (await documents.aggregate(first_of_queues, hint="outbox")).to_list()
    finals = [head["_id"] for head in heads if head["final"]]
    return {True: finals, False: [head["_id"] for head in heads]}


async def _due(documents: Documents, queue: str, *, final: bool, limit: int) -> list[Document]:
    # Few events are both claimed and due: ends of jobs whose progress was being delivered.
    now = now_stamp()
    return await documents.find(
        {
            "outbox.endpoint": queue,
            "outbox.final": final,
            "outbox.due_at": {"$lte": now},
            "outbox.held_until": {"$not": {"$gt": now}},
            "status": {"$nin": HIDDEN},
        },
        {"outbox": 1, "deliveries": 1, "told": 1, "status": 1},
        sort=[("outbox.due_at", 1)],
        limit=limit,
        hint="outbox",
    ).to_list()


async def _claim_one(
    documents: Documents, kind: OwnerKind, document: Document, until: str
) -> DueEvent | None:
    """Claim an event, if it has not changed since it was read: the undelivered final event, or the
    delivery that records this run's progress."""
    due, status, deliveries = document["outbox"], document.get("status"), deliveries_from(document)
    update: Document = {"$set": {"outbox.held_until": until, "outbox.due_at": until}}
    delivery = next((one for one in deliveries if one.next_try_at is not None), None)
    if delivery is None and status in UNFINISHED:
        if deliveries and deliveries[-1].event == "progress":
            delivery = deliveries[-1]
        else:
            stored = new_delivery("progress", now_stamp())
            update |= add_delivery(stored)
            fields = {"deliveries": [stored], "told": document.get("told", 0) + 1}
            (delivery,) = deliveries_from(fields)
    unchanged = {
        "_id": document["_id"],
        "status": status,
        "outbox.due_at": due["due_at"],
        "outbox.held_until": due.get("held_until"),
    }
    if delivery is None:
        await documents.update_one(unchanged, _release(due["endpoint"]))
        return None
    updated = await documents.update_one(unchanged, update)
    if not updated.matched_count:
        return None
    return DueEvent(kind, document["_id"], due["endpoint"], delivery, moment(until))


async def renew(db: Database, events: Sequence[DueEvent], lease: timedelta) -> list[DueEvent]:
    until = stamp(utc_now() + lease)
    changes = {"$set": {"outbox.held_until": until, "outbox.due_at": until}}
    renewals = await asyncio.gather(
        *(_collection_of(db, one).update_one(_held(one), changes) for one in events)
    )
    return [
        replace(event, held_until=moment(until))
        for event, renewal in zip(events, renewals, strict=True)
        if renewal.matched_count
    ]


def _collection_of(db: Database, event: DueEvent) -> Documents:
    return db.jobs if event.kind == "job" else db.batches


def _held(event: DueEvent) -> Document:
    """The fence: nobody else has claimed the event since."""
    return {"_id": event.owner_id, "outbox.held_until": stamp(event.held_until)}


async def record_delivery(
    db: Database,
    event: DueEvent,
    tried: DeliveryAttempt | None,
    *,
    next_try_at: datetime | None = None,
) -> None:
    delivered = succeeded(tried)
    again = None if delivered or next_try_at is None else stamp(next_try_at)
    # An event that was withdrawn in the meantime stays withdrawn.
    changes: Document = {"next_try_at": {"$cond": [IS_WAITING, again, None]}}
    if delivered:
        changes["delivered_at"] = now_stamp()
    await _record(db, event, tried, changes, if_lost=changes if delivered else {})


async def record_progress(
    db: Database, event: DueEvent, tried: DeliveryAttempt | None, schedule: ProgressSchedule | None
) -> None:
    pace = {"$set": {"pace": schedule_to(schedule)}} if schedule else {"$unset": "pace"}
    await _record(db, event, tried, {}, pace)


async def _record(
    db: Database,
    event: DueEvent,
    tried: DeliveryAttempt | None,
    changes: Document,
    *stages: Document,
    if_lost: Document | None = None,
) -> None:
    """Change a delivery and release its event; if the lease was lost, do only what still holds."""
    documents = _collection_of(db, event)
    update = [_with_try(event, tried, changes), *stages, *_release(event.queue)]
    released = await documents.update_one(_held(event), update)
    if not released.matched_count and tried is not None:
        attempt = [_with_try(event, tried, if_lost or {})]
        await documents.update_one({"_id": event.owner_id}, attempt)


def _with_try(event: DueEvent, tried: DeliveryAttempt | None, changes: Document) -> Document:
    """The stage that adds an attempt to a delivery and makes these changes to it. Earlier runs keep
    only one attempt per delivery, so that the document stays small."""
    if tried is not None:
        stored = tried.model_dump(mode="json", exclude_none=True)
        if tried.error is not None:
            stored["error"] = truncate(tried.error, MAX_HISTORY_BYTES)
        new = {"$literal": stored}
        tries = {"$concatArrays": [{"$ifNull": ["$$this.tries", []]}, [new]]}
        changes = changes | {
            "tried": {"$add": [{"$ifNull": ["$$this.tried", 0]}, 1]},
            "tries": {"$slice": [tries, -MAX_DELIVERY_ATTEMPTS_KEPT]},
        }
    is_it = {"$eq": ["$$this.delivery_id", event.delivery.delivery_id]}
    of_last_run = {"$slice": [{"$ifNull": ["$deliveries.delivery_id", []]}, -2]}
    kept = {"$cond": [{"$in": ["$$this.delivery_id", of_last_run]}, MAX_DELIVERY_ATTEMPTS_KEPT, 1]}
    past = {"tries": {"$slice": [{"$ifNull": ["$$this.tries", []]}, {"$multiply": [kept, -1]}]}}
    changed = {"$mergeObjects": ["$$this", {"$cond": [is_it, changes, past]}]}
    return {"$set": {"deliveries": {"$map": {"input": DELIVERIES, "in": changed}}}}


def _release(queue: str) -> list[Document]:
    """The stages that release an event and set when the next one is due."""
    waiting = {"$filter": {"input": DELIVERIES, "cond": IS_WAITING}}
    end = {"final": True, "due_at": "$$this.next_try_at"}
    first_end = {"$arrayElemAt": [{"$map": {"input": waiting, "in": end}}, 0]}
    is_open = {"$and": [{"$in": ["$status", UNFINISHED]}, {"$gt": ["$pace.due_at", None]}]}
    is_ripe = {
        "$or": [
            {"$gte": ["$progress.percent", "$pace.ripe_percent"]},
            {"$lt": ["$progress.percent", "$pace.told_percent"]},
        ]
    }
    earlier = {"$min": ["$pace.ripe_at", "$pace.due_at"]}
    progress = {"final": False, "due_at": {"$cond": [is_ripe, earlier, "$pace.due_at"]}}
    due = {"$ifNull": [first_end, {"$cond": [is_open, progress, None]}]}
    filled = {"$mergeObjects": [{"endpoint": {"$literal": queue}}, "$due"]}
    return [
        {"$set": {"due": due}},
        {"$unset": "outbox"},  # otherwise its old fields would stay
        {"$set": {"outbox": {"$cond": [{"$eq": ["$due", None]}, "$$REMOVE", filled]}}},
        {"$unset": "due"},
    ]


async def next_due_at(db: Database) -> datetime | None:
    firsts = [
        await documents.find_one(
            {"outbox.due_at": {"$exists": True}},
            {"outbox.due_at": 1},
            sort=[("outbox.due_at", 1)],
            hint="outbox_due",
        )
        for documents in (db.jobs, db.batches)
    ]
    return min((moment(first["outbox"]["due_at"]) for first in firsts if first), default=None)


async def postpone(db: Database, target: str, until: datetime, *, final: bool) -> None:
    first, end = queues_of(target)
    for documents in (db.jobs, db.batches):
        await documents.update_many(
            {
                "outbox.endpoint": {"$gte": first, "$lt": end},
                "outbox.final": final,
                "outbox.due_at": {"$lt": stamp(until)},
                "outbox.held_until": {"$not": {"$gt": now_stamp()}},
            },
            {"$set": {"outbox.due_at": stamp(until)}},
            hint="outbox",
        )


REPLAYED = dict.fromkeys(("deliveries", "told", "completed_at", "webhook", "user_id"), 1)


async def replay(db: Database, owner_id: str, n: int) -> Delivery:
    for documents in (db.durable.jobs, db.durable.batches):
        owner = await documents.find_one({"_id": owner_id, "status": {"$nin": HIDDEN}}, REPLAYED)
        if owner is not None:
            break
    else:
        raise NotFound(f"There is no job or batch {owner_id}")
    delivery = next((one for one in deliveries_from(owner) if one.n == n), None)
    webhook = webhook_of(owner)
    if delivery is None or webhook is None:
        raise NotFound(f"{owner_id} has no delivery {n}")
    outdated = Conflict(f"Delivery {n} of {owner_id} reports an outdated state")
    ended_at = owner.get("completed_at")
    if delivery.event == "progress" or ended_at is None or delivery.created_at < moment(ended_at):
        raise outdated
    if not webhook.wants(delivery.event):  # the job has been replaced
        raise outdated
    now = now_stamp()
    again = {"delivered_at": None, "next_try_at": now, "replayed_at": now, "tried": 0}
    update = _final_due(webhook, owner.get("user_id"), now)
    update |= {f"deliveries.$.{name}": value for name, value in again.items()}
    unchanged = {"_id": owner_id, "completed_at": ended_at}
    found = await documents.update_one(
        unchanged | {"deliveries.delivery_id": delivery.delivery_id}, {"$set": update}
    )
    if not found.matched_count:
        raise outdated
    return Delivery.model_validate({**dict(delivery), **again, "tried": 0})


# Repeated submissions for a callback: at most one job at a time reports to it -------------------

# `callbacks` has a document for each callback, with the last job submitted for it. It is written
# before that job: of two processes, one stores the job and the other finds it.

#: A job is stored soon after the document that names it; until then others wait.
STORED_WITHIN = timedelta(seconds=5)
WAIT_SECONDS = 0.05
MAX_TRIES = 200


async def resolve_callback(
    db: Database, job: Job, callback: CallbackKey, charge: Callable[[], Awaitable[None]]
) -> tuple[Job | None, str | None]:
    """Return the job to store, with the id that its events report, or None if the same request is
    still being processed; and the job that was found, to be cancelled if there is a new one.
    `charge` is called before anything is written for a new job."""
    assert job.webhook is not None
    for _ in range(MAX_TRIES):
        known = await db.callbacks.find_one({"_id": callback.key})
        if known is not None and known["expires_at"] <= now_stamp():
            await db.durable.callbacks.delete_one(known)
            known = None
        if known is None:
            await charge()
            if await _reserve(db, job, callback):
                return job, None
            continue
        job_id = known["job_id"]
        stored = await db.jobs.find_one(
            {"_id": job_id, "status": {"$nin": HIDDEN}},
            {"status": 1, "webhook": 1, "cancel_requested": 1},
        )
        if stored is None and utc_now() - moment(known["at"]) < STORED_WITHIN:
            await asyncio.sleep(WAIT_SECONDS)
            continue
        webhook = webhook_of(stored) if stored else None
        if webhook is not None and webhook.token == job.webhook.token:
            return job, None
        if stored is not None and webhook is not None and _is_repeated(stored, known, callback):
            if await _replace_token(db, job_id, webhook, job.webhook.token):
                return None, job_id
            continue
        await charge()
        if await _take_over(db, job, callback, known):
            if webhook is not None:
                await _silence(db, job_id, webhook)
            return job.model_copy(update={"process_id": known["process_id"]}), job_id
    raise StoreUnavailable("The job could not be stored: others keep replacing it")


async def _reserve(db: Database, job: Job, callback: CallbackKey) -> bool:
    document = _document(job, callback) | {"_id": callback.key, "process_id": job.job_id}
    try:
        await db.durable.callbacks.insert_one(document)
    except DuplicateKeyError:
        return False
    return True


def _document(job: Job, callback: CallbackKey) -> Document:
    return {
        "job_id": job.job_id,
        "fingerprint": callback.fingerprint,
        "at": now_stamp(),
        "expires_at": stamp(callback.expires_at),
    }


def _is_repeated(stored: Document, known: Document, callback: CallbackKey) -> bool:
    is_active = stored["status"] in UNFINISHED and not stored.get("cancel_requested")
    return is_active and bool(known["fingerprint"] == callback.fingerprint)


async def _replace_token(db: Database, job_id: str, webhook: Webhook, token: str | None) -> bool:
    """False if the job has finished in the meantime."""
    changes = {"webhook": _stored(webhook.model_copy(update={"token": token}))}
    updated = await db.durable.jobs.update_one(
        {"_id": job_id, "status": {"$in": UNFINISHED}}, {"$set": changes}
    )
    return bool(updated.matched_count)


async def _take_over(db: Database, job: Job, callback: CallbackKey, known: Document) -> bool:
    """False if another request was faster."""
    updated = await db.durable.callbacks.update_one(
        {"_id": callback.key, "job_id": known["job_id"]}, {"$set": _document(job, callback)}
    )
    return bool(updated.matched_count)


async def _silence(db: Database, job_id: str, webhook: Webhook) -> None:
    """Withdraw the events of a job. One that it writes at this moment is dropped by the sender."""
    await db.durable.jobs.update_one(
        {"_id": job_id},
        {"$set": {"webhook": _stored(webhook.silenced())}, "$unset": {"outbox": "", "pace": ""}},
    )
    await db.durable.jobs.update_one(
        {"_id": job_id, "deliveries": {"$exists": True}},
        {"$unset": {"deliveries.$[].next_try_at": ""}},
    )


def _stored(webhook: Webhook) -> object:
    return to_bson(webhook.model_dump(mode="json", by_alias=True))


async def reporting_job(db: Database, process_id: str) -> str | None:
    known = await db.callbacks.find_one({"process_id": process_id}, {"job_id": 1})
    return None if known is None else str(known["job_id"])
