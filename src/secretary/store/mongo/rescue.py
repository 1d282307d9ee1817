"""Takes jobs away from workers that died or lost touch."""

from collections.abc import Collection, Sequence

from ...job import Cancelled
from .. import Rescued
from ..notes import crash_error, obituary
from .change import WITHOUT_VALUES, Change, apply
from .contents import add_logs
from .ending import cancelled, check_held, failed, pending, places_for
from .schema import Database, Document


async def rescue(db: Database, dead: Collection[str], max_crashes: int) -> list[Rescued]:
    """First the worker goes, and nothing leads back from there; then its jobs are taken.

    If this stops midway, the next rescue finds jobs without a worker and goes on.
    """
    lapsed = {"$lt": ["$lease_until", "$$NOW"]}
    await db.workers.delete_many({"$or": [{"_id": {"$in": list(dead)}}, {"$expr": lapsed}]})
    # In this order: a worker is enlisted before it holds a job.
    holders = await db.jobs.distinct("worker_id", HOLDERS)
    enlisted = {worker["_id"] async for worker in db.workers.find({}, {"_id": 1})}
    lost = [worker_id for worker_id in holders if worker_id not in enlisted]
    if not lost:
        return []
    jobs = await db.jobs.find(
        {"worker_id": {"$in": lost}, "status": "processing"}, WITHOUT_VALUES, hint="running"
    ).to_list()
    return await _rescue_jobs(db, jobs, max_crashes)


HOLDERS = {"worker_id": {"$gt": ""}, "status": "processing"}


async def _rescue_jobs(db: Database, jobs: Sequence[Document], max_crashes: int) -> list[Rescued]:
    if not jobs:
        return []
    places = await places_for(db, jobs, broke_off=True)
    changes = [
        _rescue_one(job, place, max_crashes) for job, place in zip(jobs, places, strict=True)
    ]
    done = await apply(db, changes)
    taken = [job for job, ok in zip(jobs, done, strict=True) if ok]
    await check_held(db, jobs, places)
    for job in taken:
        entry = obituary(job["worker_id"], job["attempt"])
        await add_logs(db, job["_id"], [entry], last=job.get("logged", 0) + 1)
    return [
        Rescued(
            job_id=job["_id"],
            attempt=job["attempt"],
            worker_id=job["worker_id"],
            failed=not job.get("cancel_requested") and job.get("crashes", 0) + 1 >= max_crashes,
            cancelled=bool(job.get("cancel_requested")),
        )
        for job in taken
    ]


def _rescue_one(job: Document, place: Document, max_crashes: int) -> Change:
    only = {
        "status": "processing",
        "attempt": job["attempt"],
        "worker_id": job["worker_id"],
        "processing_started_at": job["processing_started_at"],
        "cancel_requested": job.get("cancel_requested"),
    }
    deaths = job.get("crashes", 0) + 1
    error = crash_error(job["worker_id"], deaths)
    if job.get("cancel_requested"):
        change = cancelled(job, only, Cancelled().reason)
    elif deaths >= max_crashes:
        change = failed(job, only, error, crashed=True)
    else:
        change = pending(job, only, place, error=error, counted={"crashes": 1})
    change.update["$inc"] = change.update.get("$inc", {}) | {"logged": 1}
    return change
