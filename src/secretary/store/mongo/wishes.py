"""What clients wish of jobs and batches that are stored."""

from collections.abc import Collection
from dataclasses import replace

from ...errors import Conflict
from ...job import QUEUED, Batch, Cancelled
from .. import JobQuery
from .change import Change, change_found, merged, release_held
from .ending import cancelled, pending, places_for
from .outbox import open_again, withdraw
from .reading import get_batch
from .rows import DELETED, ENDED, LISTED, UNENDED, now_stamp
from .schema import Database, Document
from .tidy import forget, leave_trace


async def cancel(db: Database, query: JobQuery) -> list[str]:
    async def plan(found: list[Document]) -> list[Change]:
        return [_cancel_one(job) for job in found]

    return await change_found(db, query, plan, among=UNENDED, only={"cancel_requested": None})


def _cancel_one(job: Document) -> Change:
    only = {"status": job["status"], "cancel_requested": None}
    if job["status"] == "pending":
        return cancelled(job, only, Cancelled().reason)
    return Change(job["_id"], only, {"$set": {"cancel_requested": True}})


async def restart(db: Database, query: JobQuery) -> list[str]:
    async def plan(found: list[Document]) -> list[Change]:
        batches.update(job["batch_id"] for job in found if "batch_id" in job)
        await _reopen(db, batches)
        places = await places_for(db, found)
        return [_restart_one(job, place) for job, place in zip(found, places, strict=True)]

    batches: set[str] = set()
    changed = await change_found(db, query, plan, among=ENDED)
    if batches:
        # Again: until their jobs were open, anybody could settle the batches.
        await _reopen(db, batches)
        await release_held(db, batches)
    return changed


async def _reopen(db: Database, batch_ids: Collection[str]) -> None:
    if batch_ids:
        await db.durable.batches.update_many(
            {"_id": {"$in": sorted(batch_ids)}},
            {"$set": {"open": True, "updated_at": now_stamp()}, "$unset": {"completed_at": ""}}
            | db.touch,
        )
        await withdraw(db, sorted(batch_ids))


def _restart_one(job: Document, place: Document) -> Change:
    unchanged = {name: job.get(name) for name in ("status", "attempt", "completed_at")}
    change = pending(
        job,
        unchanged,
        place,
        failures=None,
        crashes=None,
        cancel_requested=None,
        archived=False,
        progress=QUEUED.model_dump(),
        results=None,
        results_in=None,
        resources=None,
    )
    return replace(change, update=merged(change.update, open_again(job)))


async def archive(db: Database, query: JobQuery, *, archived: bool) -> list[str]:
    only = {"archived": not archived}

    async def plan(found: list[Document]) -> list[Change]:
        return [Change(job["_id"], only, {"$set": {"archived": archived}}) for job in found]

    return await change_found(db, query, plan, among=LISTED, only=only)


async def delete(db: Database, query: JobQuery) -> list[str]:
    async def plan(found: list[Document]) -> list[Change]:
        return [
            Change(job["_id"], {"status": job["status"]}, {"$set": {"status": DELETED}})
            for job in found
        ]

    deleted = await change_found(db, query, plan, among=ENDED)
    await forget(db, deleted)
    return deleted


async def change_batch(
    db: Database, batch_id: str, *, is_active: bool | None, archived: bool | None
) -> Batch:
    changes = {"isActive": is_active, "archived": archived, "updated_at": now_stamp()}
    given = {name: value for name, value in changes.items() if value is not None}
    await db.durable.batches.update_one({"_id": batch_id}, {"$set": given} | db.touch)
    if is_active:
        await release_held(db, [batch_id])
    elif is_active is not None:
        await _hold(db, batch_id)
    if archived is not None:
        await db.durable.jobs.update_many(
            {"batch_id": batch_id}, {"$set": {"archived": archived}} | db.touch
        )
    return await get_batch(db, batch_id)


async def _hold(db: Database, batch_id: str) -> None:
    await db.durable.jobs.update_many(
        {"batch_id": batch_id, "status": "pending"},
        {"$set": {"held": True}, "$unset": {"line": "", "turn": "", "due_at": ""}},
    )


async def delete_batch(db: Database, batch_id: str) -> None:
    if (await get_batch(db, batch_id)).total_jobs:
        raise Conflict(f"The batch {batch_id} still has jobs")
    await db.durable.batches.delete_one({"_id": batch_id})
    await leave_trace(db, job_id=None, batch_id=batch_id)
