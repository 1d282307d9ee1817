"""Finishes what a process that died left half done."""

from collections.abc import Sequence
from datetime import timedelta

from .mongo_add import publish, unstage
from .mongo_change import release_held, settle_batch
from .mongo_rows import DELETED, STAGED, now_stamp
from .mongo_schema import Database, Document

#: A process that is alive is done with its part long before.
UNFINISHED_AFTER = timedelta(minutes=1)
ABANDONED_AFTER = timedelta(minutes=10)

MAX_TIDIED = 1000


async def tidy(db: Database) -> None:
    await db.keys.delete_many({"expires_at": {"$lt": now_stamp()}})
    await _publish_added(db)
    await _remove_staged(db)
    await _remove_deleted(db)
    await _settle_open(db)


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
        await db.logs.delete_many({"job_id": among})
        await db.contents.delete_many({"job_id": among})
        await db.jobs.delete_many({"_id": among, "status": DELETED}, hint="_id_")


async def _settle_open(db: Database) -> None:
    found = db.batches.find({"open": True, "staged": {"$exists": False}}, {"_id": 1}, hint="open")
    ids = [batch["_id"] for batch in await found.to_list()]
    for batch_id in ids:
        await settle_batch(db, batch_id)
    await release_held(db, ids)
