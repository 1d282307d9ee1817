"""Fenced writes: each finds its job as it expected it, or changes nothing."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pymongo import UpdateOne
from pymongo.errors import PyMongoError

from ...job import Job, JobStatus
from .. import JobQuery
from ..activity import Ending
from .outbox import told
from .reading import find_documents
from .rows import STAGED, UNENDED, now_stamp, stamp
from .schema import Database, Document

#: How often a change by query looks again because jobs moved under its hands.
MAX_ROUNDS = 3

WITHOUT_VALUES = {"parameters": 0, "results": 0, "deliveries": 0}


@dataclass(frozen=True, slots=True)
class Change:
    """An update of one job that applies `only` to the state it was made for."""

    job_id: str
    only: Mapping[str, Any]
    update: Document
    #: The batch that this may bring to its end.
    ends_batch: str | None = None
    #: What is counted of it when it is the end of the job.
    ending: Ending | None = None


def held_by(job: Job) -> Document:
    """The fence: the job is still in the claim that gave it to its worker."""
    assert job.processing_started_at is not None
    return {
        "status": "processing",
        "attempt": job.attempt,
        "worker_id": job.worker_id,
        # A claim that was lost with its server may be made again with the same number.
        "processing_started_at": stamp(job.processing_started_at),
    }


async def apply(db: Database, changes: Sequence[Change]) -> list[bool]:
    """Write all these changes in one request, durably; says which found their job."""
    token = uuid4().hex
    receipts = [f"{token}-{n}" for n in range(len(changes))]
    result = await db.durable.jobs.bulk_write(
        [
            _operation(db, change, receipt)
            for change, receipt in zip(changes, receipts, strict=True)
        ],
        ordered=False,
    )
    done = [True] * len(changes)
    if result.matched_count < len(changes):
        ids = [change.job_id for change in changes]
        found = db.jobs.find({"_id": {"$in": ids}}, {"receipt": 1})
        written = {job.get("receipt") async for job in found}
        done = [receipt in written for receipt in receipts]
    db.count_endings(
        [change.ending for change, ok in zip(changes, done, strict=True) if ok and change.ending]
    )
    ended = {change.ends_batch for change, ok in zip(changes, done, strict=True) if ok}
    with suppress(PyMongoError):  # the jobs did end; what is missing now, `tidy` does
        await asyncio.gather(*(settle_batch(db, batch_id) for batch_id in ended if batch_id))
    return done


def _operation(db: Database, change: Change, receipt: str) -> UpdateOne:
    update = (
        change.update | db.touch | {"$set": change.update.get("$set", {}) | {"receipt": receipt}}
    )
    return UpdateOne({"_id": change.job_id, **change.only}, update)


async def change_found(
    db: Database,
    query: JobQuery,
    plan: Callable[[list[Document]], Awaitable[list[Change]]],
    *,
    among: Collection[str],
    only: Mapping[str, Any] | None = None,
) -> list[str]:
    """Apply what `plan` makes of the jobs that a query finds; says which were changed."""
    changed: list[str] = []
    for _ in range(MAX_ROUNDS):
        limit = query.limit - len(changed)
        found = await find_documents(
            db, query, limit=limit, projection=WITHOUT_VALUES, among=among, only=only
        )
        if not found:
            break
        changes = await plan(found)
        done = await apply(db, changes)
        changed += [change.job_id for change, ok in zip(changes, done, strict=True) if ok]
        if all(done):
            break
    return changed


async def settle_batch(db: Database, batch_id: str) -> None:
    """Note the end of a batch, once: by whoever finds it open and without open jobs first.

    Whoever ends a job does this afterwards; if he dies in between, `tidy` does it.
    """
    if await db.jobs.find_one(**one_of_batch(batch_id, [*UNENDED, STAGED])) is not None:
        return
    batch = await db.batches.find_one({"_id": batch_id, "open": True}, {"webhook": 1})
    if batch is None:
        return
    completed = await db.jobs.find_one(**one_of_batch(batch_id, [JobStatus.COMPLETED.value]))
    failed = completed is None and await _has_jobs(db, batch_id)
    await db.durable.batches.update_one(
        {"_id": batch_id, "open": True}, _batch_end(batch, failed=failed) | db.touch
    )


async def _has_jobs(db: Database, batch_id: str) -> bool:
    ended = [JobStatus.FAILED.value, JobStatus.CANCELLED.value]
    return await db.jobs.find_one(**one_of_batch(batch_id, ended)) is not None


def one_of_batch(batch_id: str, statuses: Sequence[str]) -> Document:
    return {
        "filter": {"batch_id": batch_id, "status": {"$in": list(statuses)}},
        "projection": {"_id": 0, "status": 1},
        "hint": "by_batch",
    }


def _batch_end(batch: Document, *, failed: bool) -> Document:
    now = now_stamp()
    update: Document = {"$set": {"completed_at": now, "updated_at": now}, "$unset": {"open": ""}}
    return merged(update, told(batch, "error" if failed else "completed", now))


def merged(update: Document, more: Document) -> Document:
    """Both updates as one; they must not touch the same fields."""
    operators = update.keys() | more.keys()
    return {name: update.get(name, {}) | more.get(name, {}) for name in operators}


async def inactive_batches(db: Database, batch_ids: Collection[str | None]) -> set[str]:
    ids = [batch_id for batch_id in set(batch_ids) if batch_id is not None]
    if not ids:
        return set()
    found = db.batches.find({"_id": {"$in": ids}, "isActive": False}, {"_id": 1})
    return {batch["_id"] async for batch in found}


async def release_held(db: Database, batch_ids: Collection[str]) -> None:
    """Let the jobs start that wait for one of these batches and need not, as it is active."""
    active = set(batch_ids) - await inactive_batches(db, batch_ids)
    if active:
        await db.durable.jobs.update_many(
            {"batch_id": {"$in": sorted(active)}, "held": True, "status": "pending"},
            [{"$set": {"due_at": {"$ifNull": ["$run_at", now_stamp()]}}}, {"$unset": "held"}],
            hint="held",
        )
