"""Finishes what a process that died left half done."""

from collections.abc import Sequence
from datetime import timedelta

from ...job import utc_now
from .activity import drop_old
from .add import publish, unstage
from .change import release_held, settle_batch
from .rows import DELETED, STAGED, now_stamp, stamp, without_none
from .schema import Database, Document, Documents

#: A process that is alive is done with its part long before.
UNFINISHED_AFTER = timedelta(minutes=1)
ABANDONED_AFTER = timedelta(minutes=10)
TRACED_FOR = timedelta(days=1)
ORPHANED_AFTER = timedelta(days=1)

MAX_TIDIED = 1000


class Caretaker:
    def __init__(self, db: Database) -> None:
        self._db = db
        #: How far the search for what belongs to no job has come, by collection.
        self._swept: dict[str, str] = {}

    async def tidy(self) -> None:
        db = self._db
        await db.keys.delete_many({"expires_at": {"$lt": now_stamp()}})
        await db.traces.delete_many({"at": {"$lt": stamp(utc_now() - TRACED_FOR)}})
        await _publish_added(db)
        await _remove_staged(db)
        await _remove_deleted(db)
        await _settle_open(db)
        await drop_old(db.activity)
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


async def _remove_deleted(db: Database) -> None:
    found = db.jobs.find({"status": DELETED}, {"_id": 1}, limit=MAX_TIDIED, hint="by_status")
    await forget(db, [job["_id"] for job in await found.to_list()])


async def forget(db: Database, job_ids: Sequence[str]) -> None:
    """Remove deleted jobs: what belongs to them first, so that nothing is left without them."""
    if job_ids:
        among = {"$in": list(job_ids)}
        deleted = db.jobs.find({"_id": among, "status": DELETED}, {"batch_id": 1}, hint="_id_")
        batches = set()
        async for job in deleted:
            await leave_trace(db, job_id=job["_id"], batch_id=job.get("batch_id"))
            batches.add(job.get("batch_id"))
        if batches := batches - {None}:
            # Else who has counted them before would not count them again.
            await db.batches.update_many({"_id": {"$in": sorted(batches)}}, {"$inc": {"losses": 1}})
        await db.logs.delete_many({"job_id": among})
        await db.contents.delete_many({"job_id": among})
        await db.jobs.delete_many({"_id": among, "status": DELETED}, hint="_id_")


async def leave_trace(db: Database, *, job_id: str | None, batch_id: str | None) -> None:
    """For those who follow the changes: this is gone."""
    trace = without_none(job_id=job_id, batch_id=batch_id, at=now_stamp())
    await db.traces.insert_one(trace | db.touched)


async def _settle_open(db: Database) -> None:
    found = db.batches.find({"open": True, "staged": {"$exists": False}}, {"_id": 1}, hint="open")
    ids = [batch["_id"] for batch in await found.to_list()]
    for batch_id in ids:
        await settle_batch(db, batch_id)
    await release_held(db, ids)
