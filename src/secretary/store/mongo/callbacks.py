"""Repeated submissions: at most one job at a time reports to a client's callback.

`callbacks` has a document for each callback, with the last job submitted for it. It is written
before that job: of two processes, one stores the job and the other finds it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from pymongo.errors import DuplicateKeyError

from ...core.errors import StoreUnavailable
from ...core.job import Job, Webhook, utc_now
from ..jobs import CallbackKey
from .outbox import webhook_of
from .schema import HIDDEN, UNFINISHED, Database, Document, moment, now_stamp, stamp, to_bson

#: A job is stored soon after the document that names it; until then others wait.
STORED_WITHIN = timedelta(seconds=5)
WAIT_SECONDS = 0.05
MAX_TRIES = 200


async def resolve(
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
