"""The workers and their leases, counted on the server's clock: the only one they all share."""

from dataclasses import asdict
from datetime import timedelta

from ...errors import LeaseLost
from .. import Renewal, WorkerInfo
from .rows import moment, stamp
from .schema import Database, Document


async def enlist(db: Database, worker: WorkerInfo, lease: timedelta) -> None:
    info = {**asdict(worker), "started_at": stamp(worker.started_at)}
    del info["seen_at"]
    literal = {name: {"$literal": value} for name, value in info.items()}
    await db.workers.update_one(
        {"_id": worker.worker_id}, [{"$set": literal | _lease(lease)}], upsert=True
    )


async def busy_slots(db: Database) -> dict[str, int]:
    groups = await db.jobs.aggregate(
        [
            {"$match": {"worker_id": {"$gt": ""}, "status": "processing"}},
            {"$group": {"_id": "$worker_id", "n": {"$sum": 1}}},
        ],
        hint="running",
    )
    return {group["_id"]: group["n"] async for group in groups}


async def all_workers(db: Database) -> list[WorkerInfo]:
    return [_worker_from(document) async for document in db.workers.find(sort=[("_id", 1)])]


async def must_be_enlisted(db: Database, worker_id: str) -> None:
    if await db.workers.find_one({"_id": worker_id}, {"_id": 1}) is None:
        raise LeaseLost(f"The worker {worker_id} is not enlisted")


async def renew(db: Database, worker_id: str, lease: timedelta) -> Renewal:
    known = await db.workers.update_one({"_id": worker_id}, [{"$set": _lease(lease)}])
    if not known.matched_count:
        raise LeaseLost(f"The worker {worker_id} is not enlisted")
    jobs = await db.jobs.find(
        {"worker_id": worker_id, "status": "processing"},
        {"attempt": 1, "cancel_requested": 1},
        hint="running",
    ).to_list()
    cancelled = frozenset(job["_id"] for job in jobs if job.get("cancel_requested"))
    return Renewal({job["_id"]: job["attempt"] for job in jobs}, cancelled)


def _lease(lease: timedelta) -> Document:
    until = {"$add": ["$$NOW", round(lease.total_seconds() * 1000)]}
    return {"lease_until": until, "seen_at": "$$NOW"}


def _worker_from(document: Document) -> WorkerInfo:
    return WorkerInfo.known_of({**document, "started_at": moment(document["started_at"])})
