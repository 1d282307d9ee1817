"""What clients do with jobs and batches: add, cancel, restart, archive, delete; and housekeeping.

A standalone server has no transactions. Instead, one write decides: everything before it is
invisible, and everything after it can be completed by any process (`tidy`).
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from pymongo.errors import BulkWriteError, DuplicateKeyError, PyMongoError

from ...core.errors import Conflict, KeyReused, StoreUnavailable
from ...core.job import QUEUED, Batch, Cancelled, Job, utc_now
from ..jobs import Added, IdempotencyKey, JobQuery
from ..outbox import first_event
from ..stats import JobCharge
from .outbox import WITHDRAWN, restarted, state_to
from .queries import charge, drop_expired_counters, drop_old_usage, get_batch, give_back
from .schema import (
    DELETED,
    FINISHED,
    LISTED,
    QUEUE_FIELDS,
    STAGED,
    UNFINISHED,
    Database,
    Document,
    Documents,
    batch_document,
    delete_overflow,
    job_document,
    now_stamp,
    stamp,
    without_none,
    write_value,
)
from .transitions import (
    Change,
    Placements,
    cancelled,
    change_matching,
    merge_updates,
    pending,
    placements_for,
    queue_update,
    resume_paused,
    settle_batch,
    user_queue_of,
)

DUPLICATE_KEY = 11000
CHUNK = 1000
MAX_TRIES = 5
#: For larger batches an idempotency key only stores the batch, and its jobs are looked up.
MAX_IDS_STORED = 100


ALREADY_STORED = "A job or batch with this id is already stored"

#: A job and its document without the queue fields.
NewJob = tuple[Job, Document]


async def new_job(db: Database, job: Job, key: Document | None = None) -> NewJob:
    document = job_document(job, arrival=db.next_arrival()) | db.new_change_time
    document |= state_to(job.webhook, job.user_id, first_event(job.webhook))
    document |= await write_value(db, job.job_id, "parameters", job.parameters)
    return job, document | ({"idempotency_key": key} if key else {})


async def add_jobs(db: Database, new: Sequence[NewJob]) -> list[Conflict | None]:
    """Store jobs of several callers in one request; returns an error for each duplicate id."""
    placements = await Placements.load(db, (user_queue_of(job) for job, _ in new))
    documents = [
        document | placements.for_job(*user_queue_of(job), run_at=job.run_at)
        for job, document in new
    ]
    conflicts: set[int] = set()
    try:
        await db.durable.jobs.insert_many(documents, ordered=False)
    except BulkWriteError as error:
        conflicts = duplicates(error)
        await delete_overflow(db, [documents[n] for n in conflicts])
    return [Conflict(ALREADY_STORED) if n in conflicts else None for n in range(len(new))]


class Charging:
    """Counts jobs towards quotas before they are stored, and gives them back if they already
    exist. After any other error they may be stored, so they stay counted."""

    def __init__(self, db: Database, charges: Sequence[JobCharge]) -> None:
        self._db = db
        self._charges = charges
        self._done = not charges

    async def charge_once(self) -> None:
        if not self._done:
            await charge(self._db, self._charges)
            self._done = True

    async def __aenter__(self) -> None:
        await self.charge_once()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, Conflict):
            await give_back(self._db, self._charges)


def duplicates(error: BulkWriteError) -> set[int]:
    """Return which documents were not inserted as duplicates; re-raises any other error."""
    failed = error.details["writeErrors"]
    if error.details["writeConcernErrors"] or any(f["code"] != DUPLICATE_KEY for f in failed):
        raise error
    return {one["index"] for one in failed}


async def add_batch(
    db: Database, jobs: Sequence[Job], batch: Batch, *, key: Document | None = None
) -> None:
    """Insert the jobs as `staged`, which is invisible; inserting the batch makes them exist."""
    document = batch_document(batch, arrival=db.next_arrival()) | db.new_change_time
    document |= {"idempotency_key": key} if key else {}
    if not jobs:
        await _insert_batch(db, document | {"open": True})
        await settle_batch(db, batch.batch_id)
        return
    token = uuid4().hex
    staged = {"token": token, "at": await server_time(db)}
    try:
        await _stage(db, jobs, staged, paused=not batch.is_active)
    except (Conflict, PyMongoError):
        with suppress(PyMongoError):  # otherwise `tidy` removes them
            await unstage(db, batch.batch_id, token)
        raise
    try:
        await _insert_batch(db, document | {"open": True, "staged": staged})
    except Conflict:
        await unstage(db, batch.batch_id, token)
        raise
    if await publish(db, batch.batch_id, token) == len(jobs):
        return
    # Has another process removed the staged jobs as abandoned, because this one was suspended for
    # minutes before it added the batch?
    listed = {"batch_id": batch.batch_id, "status": {"$in": LISTED}}
    if await db.jobs.count_documents(listed, hint="by_batch") < len(jobs):
        await db.durable.batches.delete_one({"_id": batch.batch_id})
        await db.durable.jobs.delete_many({"batch_id": batch.batch_id}, hint="by_batch")
        raise StoreUnavailable("Adding the batch took too long; nothing of it was stored")


async def server_time(db: Database) -> datetime:
    now: datetime = (await db.command("hello"))["localTime"]
    return now


async def _insert_batch(db: Database, document: Document) -> None:
    try:
        await db.durable.batches.insert_one(document)
    except DuplicateKeyError as error:
        raise Conflict(ALREADY_STORED) from error


async def _stage(db: Database, jobs: Sequence[Job], staged: Document, *, paused: bool) -> None:
    placements = await Placements.load(db, map(user_queue_of, jobs))
    for start in range(0, len(jobs), CHUNK):
        documents: list[Document] = []
        for job in jobs[start : start + CHUNK]:
            _, document = await new_job(db, job)
            document.pop("changed_at", None)  # keeps it out of the change feed for now
            placement = placements.for_job(*user_queue_of(job), run_at=job.run_at, paused=paused)
            documents.append(
                document | {"status": STAGED, "staged": {**staged, "place": placement}}
            )
        try:
            await db.durable.jobs.insert_many(documents, ordered=False)
        except BulkWriteError as error:
            await delete_overflow(db, [documents[n] for n in duplicates(error)])
            raise Conflict(ALREADY_STORED) from error


def staged_jobs(batch_id: str, token: str) -> Document:
    return {"batch_id": batch_id, "status": STAGED, "staged.token": token}


async def publish(db: Database, batch_id: str, token: str) -> int:
    """Make the jobs of an added batch visible."""
    placements = {name: f"$staged.place.{name}" for name in QUEUE_FIELDS}
    published = await db.durable.jobs.update_many(
        staged_jobs(batch_id, token),
        [{"$set": {"status": "pending", **placements}}, {"$unset": "staged"}],
        hint="by_batch",
    )
    if db.change_time:  # not possible in a pipeline update
        untouched = {"batch_id": batch_id, "changed_at": None}
        await db.durable.jobs.update_many(untouched, db.change_time, hint="by_batch")
    await db.batches.update_one(
        {"_id": batch_id, "staged.token": token}, {"$unset": {"staged": ""}}
    )
    return published.matched_count


async def unstage(db: Database, batch_id: str, token: str) -> None:
    """Remove the staged jobs of a batch that was not added."""
    jobs = await db.jobs.find(
        staged_jobs(batch_id, token), {"parameters_in": 1}, hint="by_batch"
    ).to_list()
    await delete_overflow(db, jobs)
    await db.jobs.delete_many(staged_jobs(batch_id, token), hint="by_batch")


StoreJobs = Callable[[Sequence[Job], Batch | None, Document], Awaitable[None]]


async def add_once(
    db: Database, jobs: Sequence[Job], batch: Batch | None, key: IdempotencyKey, store: StoreJobs
) -> Added:
    """Reserve an id for the key, then store under it.

    Requests with the same key use the same id: whichever of them crashes, exactly one succeeds.
    """
    own_id = batch.batch_id if batch else jobs[0].job_id
    reservation = await _reserve(db, key, own_id)
    if reservation["fingerprint"] != key.fingerprint:
        raise KeyReused("This idempotency key was used for another request")
    if "job_ids" in reservation:
        return Added(reservation["job_ids"], reservation.get("batch_id"), replayed=True)
    if "batch_id" in reservation:
        return await _stored_by_other(db, reservation["batch_id"], batch)
    reserved = reservation["reserved"]
    if batch is None:
        jobs = [jobs[0].model_copy(update={"job_id": reserved})]
    else:
        jobs = [job.model_copy(update={"batch_id": reserved}) for job in jobs]
        batch = batch.model_copy(update={"batch_id": reserved})
    ids = [job.job_id for job in jobs]
    added = Added(ids, reserved if batch else None, replayed=reserved != own_id)
    try:
        await store(jobs, batch, reservation["_id"])
    except Conflict:
        # Does the id exist because another process stored the same request?
        collection = db.jobs if batch is None else db.batches
        stored = await collection.find_one({"_id": reserved}, {"idempotency_key": 1})
        if stored is None or stored.get("idempotency_key") != reservation["_id"]:
            await db.keys.delete_one({"_id": reservation["_id"], "job_ids": {"$exists": False}})
            raise
        added = await _stored_by_other(db, reserved, batch)
    stored_ids = added.job_ids if len(added.job_ids) <= MAX_IDS_STORED else None
    await db.keys.update_one(
        {"_id": reservation["_id"], "reserved": reserved},
        {"$set": without_none(job_ids=stored_ids, batch_id=added.batch_id)},
    )
    return added


async def _reserve(db: Database, key: IdempotencyKey, own_id: str) -> Document:
    """Return the document of the key: a new one, or that of the first request."""
    new = {
        "_id": {"scope": key.scope, "key": key.key},
        "fingerprint": key.fingerprint,
        "reserved": own_id,
        "expires_at": stamp(key.expires_at),
    }
    for _ in range(MAX_TRIES):
        try:
            await db.durable.keys.insert_one(new)
            return new
        except DuplicateKeyError:
            existing = await db.keys.find_one({"_id": new["_id"]})
        if existing is not None and existing["expires_at"] > now_stamp():
            return existing
        if existing is not None:
            await db.durable.keys.delete_one(
                {"_id": existing["_id"], "reserved": existing["reserved"]}
            )
    raise StoreUnavailable("The idempotency key could not be stored: it keeps changing")


async def _stored_by_other(db: Database, reserved: str, batch: Batch | None) -> Added:
    if batch is None:
        return Added([reserved], replayed=True)
    stored = await db.batches.find_one({"_id": reserved}, {"staged": 1})
    token = (stored or {}).get("staged", {}).get("token", "")
    jobs = db.jobs.find(
        {"batch_id": reserved, "$or": [{"status": {"$in": LISTED}}, {"staged.token": token}]},
        {"_id": 1},
        sort=[("arrival", 1)],
    )
    return Added([job["_id"] async for job in jobs], reserved, replayed=True)


#: A running process completes its writes long before these times.
UNFINISHED_AFTER = timedelta(minutes=1)
ABANDONED_AFTER = timedelta(minutes=10)
DELETIONS_RETAINED = timedelta(days=1)
ORPHANED_AFTER = timedelta(days=1)

MAX_TIDIED = 1000


async def tidy(db: Database) -> None:
    await db.keys.delete_many({"expires_at": {"$lt": now_stamp()}})
    await db.callbacks.delete_many({"expires_at": {"$lt": now_stamp()}})
    await db.traces.delete_many({"at": {"$lt": stamp(utc_now() - DELETIONS_RETAINED)}})
    await publish_added(db, {"$expr": _older("$staged.at", UNFINISHED_AFTER)}, MAX_TIDIED)
    await _remove_staged(db)
    deleted = db.jobs.find({"status": DELETED}, {"_id": 1}, limit=MAX_TIDIED, hint="by_status")
    await remove_deleted(db, [job["_id"] for job in await deleted.to_list()])
    await _forget_restarts(db)
    unsettled = {"open": True, "staged": {"$exists": False}}
    batches = await db.batches.find(unsettled, {"_id": 1}, hint="open").to_list()
    for batch in batches:
        await settle_batch(db, batch["_id"])
    await resume_paused(db, [batch["_id"] for batch in batches])
    await drop_expired_counters(db)
    await drop_old_usage(db)
    await _sweep(db, db.logs)
    # A job's parameters are written shortly before the job itself.
    await _sweep(db, db.contents, {"at": {"$lt": stamp(utc_now() - ORPHANED_AFTER)}})


async def _forget_restarts(db: Database) -> None:
    """Let batches be settled whose restart was interrupted."""
    recent = {"$not": _older("$$this.at", UNFINISHED_AFTER)}
    await db.batches.update_many(
        {"open": True, "restarts.0": {"$exists": True}},
        [{"$set": {"restarts": {"$filter": {"input": RESTARTS, "cond": recent}}}}],
        hint="open",
    )


async def _sweep(db: Database, parts: Documents, only: Document | None = None) -> None:
    """Remove entries of jobs that were never stored, or were deleted.

    Scans a limited number of entries; the next call continues.
    """
    after = {"job_id": {"$gt": db.swept_to.get(parts.name, "")}} | (only or {})
    entries = await parts.find(
        after, {"_id": 0, "job_id": 1}, sort=[("job_id", 1)], limit=MAX_TIDIED, hint="of_job"
    ).to_list()
    owners = {part["job_id"] for part in entries}
    among = {"$in": sorted(owners)}
    existing = {job["_id"] async for job in db.jobs.find({"_id": among}, {"_id": 1})}
    if orphaned := sorted(owners - existing):
        await parts.delete_many({"job_id": {"$in": orphaned}} | (only or {}))
    db.swept_to[parts.name] = entries[-1]["job_id"] if len(entries) == MAX_TIDIED else ""


async def publish_added(db: Database, only: Document, limit: int = 0) -> None:
    """Make the jobs of batches visible whose addition was interrupted."""
    terms = {"staged": {"$exists": True}} | only
    added = db.batches.find(terms, {"staged": 1}, limit=limit, hint="staged")
    for batch in await added.to_list():
        await publish(db, batch["_id"], batch["staged"]["token"])


def _older(field: str, age: timedelta) -> Document:
    """Compare with the server's clock."""
    return {"$lt": [field, {"$subtract": ["$$NOW", round(age.total_seconds() * 1000)]}]}


async def _remove_staged(db: Database) -> None:
    """Remove staged jobs whose batch was not added; an added batch has their token."""
    groups = await db.jobs.aggregate(
        [
            {"$match": {"status": STAGED, "$expr": _older("$staged.at", ABANDONED_AFTER)}},
            {"$limit": MAX_TIDIED * 10},
            {"$group": {"_id": {"batch_id": "$batch_id", "token": "$staged.token"}}},
        ],
        hint="by_status",
    )
    for group in [group["_id"] for group in await groups.to_list()]:
        batch = await db.batches.find_one(
            {"_id": group["batch_id"], "staged.token": group["token"]}, {"_id": 1}
        )
        if batch is None:
            await unstage(db, group["batch_id"], group["token"])


async def remove_deleted(db: Database, job_ids: Sequence[str]) -> None:
    """Remove deleted jobs, their logs and values first, so that nothing is orphaned."""
    if not job_ids:
        return
    among = {"$in": list(job_ids)}
    deleted = db.jobs.find({"_id": among, "status": DELETED}, {"batch_id": 1}, hint="_id_")
    batches: set[str] = set()
    async for job in deleted:
        await record_deletion(db, job_id=job["_id"], batch_id=job.get("batch_id"))
        batches |= {job["batch_id"]} if "batch_id" in job else set()
    if batches:  # invalidate their cached counts
        await db.batches.update_many({"_id": {"$in": sorted(batches)}}, {"$inc": {"losses": 1}})
    await db.logs.delete_many({"job_id": among})
    await db.contents.delete_many({"job_id": among})
    await db.jobs.delete_many({"_id": among, "status": DELETED}, hint="_id_")


async def record_deletion(db: Database, *, job_id: str | None, batch_id: str | None) -> None:
    """Record a deletion for the change feed."""
    trace = without_none(job_id=job_id, batch_id=batch_id, at=now_stamp())
    await db.traces.insert_one(trace | db.new_change_time)


#: The state of a restarted job; None removes a field.
RESTARTED: dict[str, Any] = {
    **dict.fromkeys(("failures", "crashes", "losses", "strikes", "group_size")),
    **dict.fromkeys(("cancel_requested", "resources")),
    **dict.fromkeys(("results", "results_in")),
    "archived": False,
    "progress": QUEUED.model_dump(),
}


async def cancel(db: Database, query: JobQuery) -> list[str]:
    async def plan(jobs: list[Document]) -> list[Change]:
        changes: list[Change] = []
        for job in jobs:
            only = {"status": job["status"], "cancel_requested": None}
            if job["status"] == "pending":
                changes.append(cancelled(job, only, Cancelled().reason))
            else:
                changes.append(Change(job["_id"], only, {"$set": {"cancel_requested": True}}))
        return changes

    return await change_matching(db, query, plan, among=UNFINISHED, only={"cancel_requested": None})


async def restart(db: Database, query: JobQuery) -> list[str]:
    async def plan(jobs: list[Document]) -> list[Change]:
        batches.update(job["batch_id"] for job in jobs if "batch_id" in job)
        await _reopen(db, batches, {"restarts": _with_restart(token)})
        placements = await placements_for(db, [job | {"group_size": None} for job in jobs])
        changes: list[Change] = []
        for job, placement in zip(jobs, placements, strict=True):
            unchanged = {name: job.get(name) for name in ("status", "attempt", "completed_at")}
            change = pending(job, unchanged, placement, **RESTARTED)
            update = merge_updates(change.update, restarted(job))
            changes.append(replace(change, update=update))
        return changes

    token = uuid4().hex
    batches: set[str] = set()
    changed = await change_matching(db, query, plan, among=FINISHED)
    if batches:
        # Again: if this process was suspended before its jobs were pending, another one may have
        # settled the batches.
        await _reopen(db, batches, {"restarts": _without_restart(token)})
        await resume_paused(db, batches)
        for batch_id in batches:  # if its jobs have already finished again
            await settle_batch(db, batch_id)
    return changed


RESTARTS = {"$ifNull": ["$restarts", []]}


def _with_restart(token: str) -> Document:
    return {"$concatArrays": [_without_restart(token), [{"token": token, "at": "$$NOW"}]]}


def _without_restart(token: str) -> Document:
    return {"$filter": {"input": RESTARTS, "cond": {"$ne": ["$$this.token", token]}}}


async def _reopen(db: Database, batch_ids: Collection[str], changes: Document) -> None:
    """Reopen batches and withdraw their undelivered final events, in one write: a final event
    written after it reports the next end."""
    if not batch_ids:
        return
    among = {"_id": {"$in": sorted(batch_ids)}}
    reopened = {"$add": [{"$ifNull": ["$reopened", 0]}, 1]}
    fields = {"open": True, "updated_at": now_stamp(), "reopened": reopened, **changes}
    await db.durable.batches.update_many(
        among, [{"$set": fields}, {"$unset": ["completed_at", "outbox"]}, WITHDRAWN]
    )
    if db.change_time:  # not possible in a pipeline update
        await db.durable.batches.update_many(among, db.change_time)


async def archive(db: Database, query: JobQuery, *, archived: bool = True) -> list[str]:
    only = {"archived": not archived}

    async def plan(jobs: list[Document]) -> list[Change]:
        return [Change(job["_id"], only, {"$set": {"archived": archived}}) for job in jobs]

    return await change_matching(db, query, plan, among=LISTED, only=only)


async def delete(db: Database, query: JobQuery) -> list[str]:
    async def plan(jobs: list[Document]) -> list[Change]:
        return [
            Change(job["_id"], {"status": job["status"]}, {"$set": {"status": DELETED}})
            for job in jobs
        ]

    deleted = await change_matching(db, query, plan, among=FINISHED)
    await remove_deleted(db, deleted)
    return deleted


async def change_batch(
    db: Database, batch_id: str, *, is_active: bool | None = None, archived: bool | None = None
) -> Batch:
    changes = {"isActive": is_active, "archived": archived, "updated_at": now_stamp()}
    fields = {name: value for name, value in changes.items() if value is not None}
    await db.durable.batches.update_one({"_id": batch_id}, {"$set": fields} | db.change_time)
    if is_active:
        await resume_paused(db, [batch_id])
    elif is_active is not None:
        await db.durable.jobs.update_many(
            {"batch_id": batch_id, "status": "pending"},
            queue_update({"held": True}),
        )
    if archived is not None:
        await db.durable.jobs.update_many(
            {"batch_id": batch_id}, {"$set": {"archived": archived}} | db.change_time
        )
    return await get_batch(db, batch_id)


async def delete_batch(db: Database, batch_id: str) -> None:
    if (await get_batch(db, batch_id)).total_jobs:
        raise Conflict(f"The batch {batch_id} still has jobs")
    await db.durable.batches.delete_one({"_id": batch_id})
    await record_deletion(db, job_id=None, batch_id=batch_id)
