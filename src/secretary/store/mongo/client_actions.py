"""Takes in new jobs: one by one, as a batch that is added whole or not at all, and once per key.

There are no transactions here, as a standalone server has none: one write decides, what comes
before it is invisible, and what comes after it can be done by anybody (`tidy`).
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import uuid4

from pymongo.errors import BulkWriteError, DuplicateKeyError, PyMongoError

from ...core.errors import Conflict, KeyReused, StoreUnavailable
from ...core.job import QUEUED, Batch, Cancelled, Job, utc_now
from ..jobs import Added, IdempotencyKey, JobQuery
from .outbox import first_event, restarted, withdraw
from .queries import get_batch
from .queue import Placements
from .rows import (
    DELETED,
    FINISHED,
    LISTED,
    QUEUE_FIELDS,
    STAGED,
    UNFINISHED,
    batch_document,
    delete_overflow,
    job_document,
    now_stamp,
    stamp,
    without_none,
    write_value,
)
from .schema import Database, Document, Documents
from .stats import drop_expired
from .transitions import (
    Change,
    cancelled,
    change_matching,
    merge_updates,
    pending,
    placements_for,
    resume_paused,
    settle_batch,
)

DUPLICATE_KEY = 11000
CHUNK = 1000
MAX_TRIES = 5
#: With more jobs than these their key knows the batch alone, and its jobs are looked up.
MAX_IDS_STORED = 100


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job and its document, which lacks nothing but its place in line."""

    job: Job
    document: Document


def _conflict() -> Conflict:
    return Conflict("A job or batch with this id is already stored")


async def new_job(db: Database, job: Job, key: Document | None = None) -> NewJob:
    document = job_document(job, arrival=db.arrival_numbers.next()) | db.new_change_time
    document |= first_event(job.webhook)
    document |= await write_value(db, job.job_id, "parameters", job.parameters)
    return NewJob(job, document | ({"idempotency_key": key} if key else {}))


async def add_jobs(db: Database, new: Sequence[NewJob]) -> list[Conflict | None]:
    """Store jobs of different callers in one request; says for each if its id is taken."""
    placements = await _queue_fields(db, [item.job for item in new])
    documents = [item.document | _fields_of(item.job, placements) for item in new]
    taken: set[int] = set()
    try:
        await db.durable.jobs.insert_many(documents, ordered=False)
    except BulkWriteError as error:
        taken = duplicates(error)
        await delete_overflow(db, [documents[n] for n in taken])
    return [_conflict() if n in taken else None for n in range(len(new))]


def duplicates(error: BulkWriteError) -> set[int]:
    """Which documents were not inserted as their ids are taken; any other failure goes on."""
    failed = error.details["writeErrors"]
    if error.details["writeConcernErrors"] or any(f["code"] != DUPLICATE_KEY for f in failed):
        raise error
    return {one["index"] for one in failed}


async def _queue_fields(db: Database, jobs: Iterable[Job]) -> Placements:
    placements = Placements(db)
    await placements.load((job.job_type, job.priority, job.user_id) for job in jobs)
    return placements


def _fields_of(job: Job, placements: Placements, *, paused: bool = False) -> Document:
    return placements.for_job(
        job.job_type, job.priority, job.user_id, run_at=job.run_at, paused=paused
    )


async def add_batch(
    db: Database, jobs: Sequence[Job], batch: Batch, *, key: Document | None = None
) -> None:
    """The jobs first, as `staged`, which nobody sees; then the batch, and with it they exist."""
    document = batch_document(batch, arrival=db.arrival_numbers.next()) | db.new_change_time
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
        with suppress(PyMongoError):  # what cannot be removed now, `tidy` removes
            await unstage(db, batch.batch_id, token)
        raise
    try:
        await _insert_batch(db, document | {"open": True, "staged": staged})
    except Conflict:
        await unstage(db, batch.batch_id, token)
        raise
    if await publish(db, batch.batch_id, token) < len(jobs):
        await _check_complete(db, batch.batch_id, len(jobs))


async def _check_complete(db: Database, batch_id: str, size: int) -> None:
    """Somebody had a hand in the jobs: `tidy` published them, or took them for left over because
    this process slept for minutes before it added the batch."""
    listed = {"batch_id": batch_id, "status": {"$in": LISTED}}
    if await db.jobs.count_documents(listed, hint="by_batch") < size:
        await db.durable.batches.delete_one({"_id": batch_id})
        await db.durable.jobs.delete_many({"batch_id": batch_id}, hint="by_batch")
        raise StoreUnavailable("Adding the batch took too long; nothing of it was stored")


async def server_time(db: Database) -> datetime:
    now: datetime = (await db.command("hello"))["localTime"]
    return now


async def _insert_batch(db: Database, document: Document) -> None:
    try:
        await db.durable.batches.insert_one(document)
    except DuplicateKeyError as error:
        raise _conflict() from error


async def _stage(db: Database, jobs: Sequence[Job], staged: Document, *, paused: bool) -> None:
    placements = await _queue_fields(db, jobs)
    for start in range(0, len(jobs), CHUNK):
        new = [await new_job(db, job) for job in jobs[start : start + CHUNK]]
        documents = [
            {**_without_change_time(item.document), "status": STAGED}
            | {"staged": {**staged, "place": _fields_of(item.job, placements, paused=paused)}}
            for item in new
        ]
        try:
            await db.durable.jobs.insert_many(documents, ordered=False)
        except BulkWriteError as error:
            await delete_overflow(db, [documents[n] for n in duplicates(error)])
            raise _conflict() from error


def _without_change_time(document: Document) -> Document:
    """Nobody is to hear of it yet."""
    return {name: value for name, value in document.items() if name != "changed_at"}


def staged_jobs(batch_id: str, token: str) -> Document:
    return {"batch_id": batch_id, "status": STAGED, "staged.token": token}


async def publish(db: Database, batch_id: str, token: str) -> int:
    """Make the jobs of a batch that was added known to everybody."""
    placements = {name: f"$staged.place.{name}" for name in QUEUE_FIELDS}
    published = await db.durable.jobs.update_many(
        staged_jobs(batch_id, token),
        [{"$set": {"status": "pending", **placements}}, {"$unset": "staged"}],
        hint="by_batch",
    )
    if db.change_time:  # an update of the form above cannot do it
        untouched = {"batch_id": batch_id, "changed_at": None}
        await db.durable.jobs.update_many(untouched, db.change_time, hint="by_batch")
    await db.batches.update_one(
        {"_id": batch_id, "staged.token": token}, {"$unset": {"staged": ""}}
    )
    return published.matched_count


async def unstage(db: Database, batch_id: str, token: str) -> None:
    """Remove the jobs of a batch that was not added."""
    left = await db.jobs.find(
        staged_jobs(batch_id, token), {"parameters_in": 1}, hint="by_batch"
    ).to_list()
    await delete_overflow(db, left)
    await db.jobs.delete_many(staged_jobs(batch_id, token), hint="by_batch")


StoreJobs = Callable[[Sequence[Job], Batch | None, Document], Awaitable[None]]


async def add_once(
    db: Database, jobs: Sequence[Job], batch: Batch | None, key: IdempotencyKey, store: StoreJobs
) -> Added:
    """Store under an id that is reserved for the key first.

    Whoever comes with the same key stores under the same id: so it does not matter who of
    them dies on the way, and one alone succeeds.
    """
    own_id = batch.batch_id if batch else jobs[0].job_id
    known = await _reserve(db, key, own_id)
    if known["fingerprint"] != key.fingerprint:
        raise KeyReused("This idempotency key was used for another request")
    if "job_ids" in known:
        return Added(known["job_ids"], known.get("batch_id"), replayed=True)
    if "batch_id" in known:
        return await _stored_by_other(db, known["batch_id"], batch)
    jobs, batch = _with_reserved_id(known["reserved"], jobs, batch)
    added = Added(
        [job.job_id for job in jobs],
        batch.batch_id if batch else None,
        replayed=known["reserved"] != own_id,
    )
    try:
        await store(jobs, batch, known["_id"])
    except Conflict:
        if not await _stored_with(db, known, batch):
            await db.keys.delete_one({"_id": known["_id"], "job_ids": {"$exists": False}})
            raise
        added = await _stored_by_other(db, known["reserved"], batch)
    ids = added.job_ids if len(added.job_ids) <= MAX_IDS_STORED else None
    await db.keys.update_one(
        {"_id": known["_id"], "reserved": known["reserved"]},
        {"$set": without_none(job_ids=ids, batch_id=added.batch_id)},
    )
    return added


async def _reserve(db: Database, key: IdempotencyKey, own_id: str) -> Document:
    """The document of the key: a new one, or that of whoever came first."""
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
            known = await db.keys.find_one({"_id": new["_id"]})
        if known is not None and known["expires_at"] > now_stamp():
            return known
        if known is not None:
            await db.durable.keys.delete_one({"_id": known["_id"], "reserved": known["reserved"]})
    raise StoreUnavailable("The idempotency key could not be stored, others keep changing it")


def _with_reserved_id(
    reserved: str, jobs: Sequence[Job], batch: Batch | None
) -> tuple[Sequence[Job], Batch | None]:
    if batch is None:
        return [jobs[0].model_copy(update={"job_id": reserved})], None
    moved = [job.model_copy(update={"batch_id": reserved}) for job in jobs]
    return moved, batch.model_copy(update={"batch_id": reserved})


async def _stored_with(db: Database, known: Document, batch: Batch | None) -> bool:
    """Whether the id is taken because someone else stored the same request under it."""
    collection = db.jobs if batch is None else db.batches
    found = await collection.find_one({"_id": known["reserved"]}, {"idempotency_key": 1})
    return found is not None and found.get("idempotency_key") == known["_id"]


async def _stored_by_other(db: Database, reserved: str, batch: Batch | None) -> Added:
    if batch is None:
        return Added([reserved], replayed=True)
    stored = await db.batches.find_one({"_id": reserved}, {"staged": 1})
    token = (stored or {}).get("staged", {}).get("token", "")
    found = db.jobs.find(
        {"batch_id": reserved, "$or": [{"status": {"$in": LISTED}}, {"staged.token": token}]},
        {"_id": 1},
        sort=[("arrival", 1)],
    )
    return Added([job["_id"] async for job in found], reserved, replayed=True)


#: A process that is alive is done with its part long before.
UNFINISHED_AFTER = timedelta(minutes=1)
ABANDONED_AFTER = timedelta(minutes=10)
DELETIONS_RETAINED = timedelta(days=1)
ORPHANED_AFTER = timedelta(days=1)

MAX_TIDIED = 1000


class Housekeeping:
    def __init__(self, db: Database) -> None:
        self._db = db
        #: How far the search for what belongs to no job has come, by collection.
        self._swept: dict[str, str] = {}

    async def tidy(self) -> None:
        db = self._db
        await db.keys.delete_many({"expires_at": {"$lt": now_stamp()}})
        await db.traces.delete_many({"at": {"$lt": stamp(utc_now() - DELETIONS_RETAINED)}})
        await _publish_added(db)
        await _remove_staged(db)
        await _finish_deletions(db)
        await _settle_open(db)
        await drop_expired(db.activity)
        await self._sweep(db.logs)
        # A job's parameters are written shortly before the job itself.
        await self._sweep(db.contents, {"at": {"$lt": stamp(utc_now() - ORPHANED_AFTER)}})

    async def _sweep(self, parts: Documents, only: Document | None = None) -> None:
        """Remove what a process wrote for a job just before it died, or after the job was deleted.

        A bounded walk through the index; the next call goes on where this one ended.
        """
        after = {"job_id": {"$gt": self._swept.get(parts.name, "")}} | (only or {})
        found = await parts.find(
            after, {"_id": 0, "job_id": 1}, sort=[("job_id", 1)], limit=MAX_TIDIED, hint="of_job"
        ).to_list()
        owners = {part["job_id"] for part in found}
        among = {"$in": sorted(owners)}
        existing = {job["_id"] async for job in self._db.jobs.find({"_id": among}, {"_id": 1})}
        if orphaned := sorted(owners - existing):
            await parts.delete_many({"job_id": {"$in": orphaned}} | (only or {}))
        self._swept[parts.name] = found[-1]["job_id"] if len(found) == MAX_TIDIED else ""


async def _publish_added(db: Database) -> None:
    found = db.batches.find(
        {"staged": {"$exists": True}, "$expr": _older("$staged.at", UNFINISHED_AFTER)},
        {"staged": 1},
        limit=MAX_TIDIED,
        hint="staged",
    )
    for batch in await found.to_list():
        await publish(db, batch["_id"], batch["staged"]["token"])


def _older(field: str, age: timedelta) -> Document:
    """By the server's clock, that of no process."""
    return {"$lt": [field, {"$subtract": ["$$NOW", round(age.total_seconds() * 1000)]}]}


async def _remove_staged(db: Database) -> None:
    """Jobs of batches that never came to be. A batch that did has its token until it is public."""
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


async def _finish_deletions(db: Database) -> None:
    found = db.jobs.find({"status": DELETED}, {"_id": 1}, limit=MAX_TIDIED, hint="by_status")
    await remove_deleted(db, [job["_id"] for job in await found.to_list()])


async def remove_deleted(db: Database, job_ids: Sequence[str]) -> None:
    """Remove deleted jobs: what belongs to them first, so that nothing is left without them."""
    if job_ids:
        among = {"$in": list(job_ids)}
        deleted = db.jobs.find({"_id": among, "status": DELETED}, {"batch_id": 1}, hint="_id_")
        batches = set()
        async for job in deleted:
            await record_deletion(db, job_id=job["_id"], batch_id=job.get("batch_id"))
            batches.add(job.get("batch_id"))
        if batches := batches - {None}:
            # Else who has counted them before would not count them again.
            await db.batches.update_many({"_id": {"$in": sorted(batches)}}, {"$inc": {"losses": 1}})
        await db.logs.delete_many({"job_id": among})
        await db.contents.delete_many({"job_id": among})
        await db.jobs.delete_many({"_id": among, "status": DELETED}, hint="_id_")


async def record_deletion(db: Database, *, job_id: str | None, batch_id: str | None) -> None:
    """For those who follow the changes: this is gone."""
    trace = without_none(job_id=job_id, batch_id=batch_id, at=now_stamp())
    await db.traces.insert_one(trace | db.new_change_time)


async def _settle_open(db: Database) -> None:
    found = db.batches.find({"open": True, "staged": {"$exists": False}}, {"_id": 1}, hint="open")
    ids = [batch["_id"] for batch in await found.to_list()]
    for batch_id in ids:
        await settle_batch(db, batch_id)
    await resume_paused(db, ids)


async def cancel(db: Database, query: JobQuery) -> list[str]:
    async def plan(found: list[Document]) -> list[Change]:
        return [_cancel_one(job) for job in found]

    return await change_matching(db, query, plan, among=UNFINISHED, only={"cancel_requested": None})


def _cancel_one(job: Document) -> Change:
    only = {"status": job["status"], "cancel_requested": None}
    if job["status"] == "pending":
        return cancelled(job, only, Cancelled().reason)
    return Change(job["_id"], only, {"$set": {"cancel_requested": True}})


async def restart(db: Database, query: JobQuery) -> list[str]:
    async def plan(found: list[Document]) -> list[Change]:
        batches.update(job["batch_id"] for job in found if "batch_id" in job)
        await _reopen(db, batches)
        placements = await placements_for(db, found)
        return [
            _restart_one(job, placement) for job, placement in zip(found, placements, strict=True)
        ]

    batches: set[str] = set()
    changed = await change_matching(db, query, plan, among=FINISHED)
    if batches:
        # Again: until their jobs were open, anybody could settle the batches.
        await _reopen(db, batches)
        await resume_paused(db, batches)
    return changed


async def _reopen(db: Database, batch_ids: Collection[str]) -> None:
    if batch_ids:
        await db.durable.batches.update_many(
            {"_id": {"$in": sorted(batch_ids)}},
            {"$set": {"open": True, "updated_at": now_stamp()}, "$unset": {"completed_at": ""}}
            | db.change_time,
        )
        await withdraw(db, sorted(batch_ids))


def _restart_one(job: Document, placement: Document) -> Change:
    unchanged = {name: job.get(name) for name in ("status", "attempt", "completed_at")}
    change = pending(
        job,
        unchanged,
        placement,
        failures=None,
        crashes=None,
        cancel_requested=None,
        archived=False,
        progress=QUEUED.model_dump(),
        results=None,
        results_in=None,
        resources=None,
    )
    return replace(change, update=merge_updates(change.update, restarted(job)))


async def archive(db: Database, query: JobQuery, *, archived: bool) -> list[str]:
    only = {"archived": not archived}

    async def plan(found: list[Document]) -> list[Change]:
        return [Change(job["_id"], only, {"$set": {"archived": archived}}) for job in found]

    return await change_matching(db, query, plan, among=LISTED, only=only)


async def delete(db: Database, query: JobQuery) -> list[str]:
    async def plan(found: list[Document]) -> list[Change]:
        return [
            Change(job["_id"], {"status": job["status"]}, {"$set": {"status": DELETED}})
            for job in found
        ]

    deleted = await change_matching(db, query, plan, among=FINISHED)
    await remove_deleted(db, deleted)
    return deleted


async def change_batch(
    db: Database, batch_id: str, *, is_active: bool | None, archived: bool | None
) -> Batch:
    changes = {"isActive": is_active, "archived": archived, "updated_at": now_stamp()}
    given = {name: value for name, value in changes.items() if value is not None}
    await db.durable.batches.update_one({"_id": batch_id}, {"$set": given} | db.change_time)
    if is_active:
        await resume_paused(db, [batch_id])
    elif is_active is not None:
        await _pause(db, batch_id)
    if archived is not None:
        await db.durable.jobs.update_many(
            {"batch_id": batch_id}, {"$set": {"archived": archived}} | db.change_time
        )
    return await get_batch(db, batch_id)


async def _pause(db: Database, batch_id: str) -> None:
    await db.durable.jobs.update_many(
        {"batch_id": batch_id, "status": "pending"},
        {"$set": {"held": True}, "$unset": {"line": "", "turn": "", "due_at": ""}},
    )


async def delete_batch(db: Database, batch_id: str) -> None:
    if (await get_batch(db, batch_id)).total_jobs:
        raise Conflict(f"The batch {batch_id} still has jobs")
    await db.durable.batches.delete_one({"_id": batch_id})
    await record_deletion(db, job_id=None, batch_id=batch_id)
