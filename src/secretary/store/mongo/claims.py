"""Workers and their leases, claims, and the rescue of lost jobs."""

import asyncio
import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from itertools import chain
from uuid import uuid4

import pymongo
from pymongo import ReturnDocument, UpdateOne
from pymongo.errors import PyMongoError

from ...core.errors import LeaseLost
from ...core.job import QUEUED, Cancelled, Job
from .. import claims
from .client import ShieldedCalls
from .queries import WITHOUT_DETAILS
from .schema import Database, Document, add_logs, job_from, moment, now_stamp, stamp, with_overflow
from .transitions import (
    WITHOUT_VALUES,
    Change,
    apply,
    cancelled,
    class_of,
    failed,
    inactive_batches,
    pending,
    placements_for,
    promote,
    queue_update,
    resume_if_active,
)


async def register_worker(db: Database, worker: claims.WorkerInfo, lease: timedelta) -> None:
    info = {**asdict(worker), "started_at": stamp(worker.started_at)}
    del info["seen_at"]
    literal = {name: {"$literal": value} for name, value in info.items()}
    await db.workers.update_one(
        {"_id": worker.worker_id}, [{"$set": literal | _lease(lease)}], upsert=True
    )


async def busy_slots(db: Database) -> dict[str, dict[str, int]]:
    key = {"worker_id": "$worker_id", "job_type": "$job_type"}
    groups = await db.jobs.aggregate(
        [{"$match": RUNNING}, {"$group": {"_id": key, "n": {"$sum": 1}}}], hint="running"
    )
    busy: dict[str, dict[str, int]] = {}
    async for group in groups:
        busy.setdefault(group["_id"]["worker_id"], {})[group["_id"]["job_type"]] = group["n"]
    return busy


async def all_workers(db: Database) -> list[claims.WorkerInfo]:
    return [
        claims.WorkerInfo.from_stored({**stored, "started_at": moment(stored["started_at"])})
        async for stored in db.workers.find(sort=[("_id", 1)])
    ]


async def require_registered(db: Database, worker_id: str) -> None:
    if await db.workers.find_one({"_id": worker_id}, {"_id": 1}) is None:
        raise LeaseLost(f"The worker {worker_id} is not registered")


async def renew(db: Database, worker_id: str, lease: timedelta) -> claims.Renewal:
    # A connection that hangs must not outlive the lease, nor the grace period after an outage.
    with pymongo.timeout(min(3.0, max(0.5, lease.total_seconds() / 3))):
        updated = await db.workers.update_one({"_id": worker_id}, [{"$set": _lease(lease)}])
    if not updated.matched_count:
        raise LeaseLost(f"The worker {worker_id} is not registered")
    jobs = await db.jobs.find(
        {"worker_id": worker_id, "status": "processing"},
        {"attempt": 1, "cancel_requested": 1},
        hint="running",
    ).to_list()
    cancelled = frozenset(job["_id"] for job in jobs if job.get("cancel_requested"))
    return claims.Renewal({job["_id"]: job["attempt"] for job in jobs}, cancelled)


def _lease(lease: timedelta) -> Document:
    until = {"$add": ["$$NOW", round(lease.total_seconds() * 1000)]}
    return {"lease_until": until, "seen_at": "$$NOW"}


#: How often a claim tries again when other processes claimed the jobs it had chosen.
MAX_TRIES = 4

#: How much later a request that was given up may still reach the server.
ORPHANED_CLAIM_SECONDS = 60.0

RUNNING = {"worker_id": {"$gt": ""}, "status": "processing"}
#: The fields of a candidate.
CANDIDATE = {"line": 1, "turn": 1, "user_id": 1, "arrival": 1}
INITIALIZING = {"step": "initializing", "percent": 0, "message": ""}


class Claims:
    """Runs one claim of this process at a time: concurrent ones would compete for the same jobs,
    and they share a scheduler."""

    def __init__(self, db: Database, shielded_calls: ShieldedCalls) -> None:
        self._db = db
        self._scheduler = claims.FairScheduler()
        self._shielded_calls = shielded_calls
        self._lock = asyncio.Lock()
        #: Tokens of claims whose caller was cancelled or whose result is unknown, with their
        #: worker and until when they may take effect.
        self._orphaned_claims: dict[str, tuple[str, float]] = {}

    async def claim(self, worker_id: str, capacity: claims.Capacity) -> list[Job]:
        token = uuid4().hex
        try:
            return await self._shielded_calls.run(self._claim(worker_id, capacity, token))
        except (asyncio.CancelledError, PyMongoError):
            self._orphaned_claims[token] = worker_id, time.monotonic() + ORPHANED_CLAIM_SECONDS
            raise

    async def undo_orphaned_claims(self) -> None:
        """Undo claims that their worker does not know of."""
        async with self._lock:
            await self._undo_orphaned_claims()

    async def _claim(self, worker_id: str, capacity: claims.Capacity, token: str) -> list[Job]:
        async with self._lock:
            await self._undo_orphaned_claims()
            await asyncio.gather(require_registered(self._db, worker_id), promote(self._db))
            claimed: list[Document] = []
            for _ in range(MAX_TRIES):
                remaining = capacity.without(job["job_type"] for job in claimed)
                chosen = await self._choose(remaining)
                started = await _start_jobs(self._db, chosen, worker_id, token) if chosen else []
                claimed += started
                if len(started) == len(chosen):
                    break
            allowed = await _keep_allowed(self._db, worker_id, capacity, claimed, token)
            return [job_from(document) for document in await with_overflow(self._db, allowed)]

    async def _undo_orphaned_claims(self) -> None:
        for token, (worker_id, until) in list(self._orphaned_claims.items()):
            await self._db.jobs.update_many(
                {"worker_id": worker_id, "status": "processing", "claim": token},
                _undo_update({"due_at": now_stamp()}) | self._db.change_time,
                hint="running",
            )
            if time.monotonic() > until:
                del self._orphaned_claims[token]

    async def _choose(self, capacity: claims.Capacity) -> list[claims.Candidate]:
        names, running = await asyncio.gather(
            self._db.jobs.distinct("line", {"line": {"$gt": ""}}), _running_jobs(self._db, capacity)
        )
        queues = {class_of(name): name for name in names if capacity.accepts(class_of(name)[0])}
        if not queues:
            return []
        waiting = await asyncio.gather(
            *(
                _candidates(self._db, name, queue[0], capacity, running)
                for queue, name in queues.items()
            )
        )
        heads = {queue: iter(jobs) for queue, jobs in zip(queues, waiting, strict=True)}
        return self._scheduler.choose(heads, capacity, running)


async def _keep_allowed(
    db: Database, worker_id: str, capacity: claims.Capacity, claimed: list[Document], token: str
) -> list[Document]:
    """Check limits again now that the claim is visible: others may have claimed concurrently.

    Of all workers that exceed a limit together, the last to check sees it and undoes its claims. A
    worker that was unregistered meanwhile keeps nothing: a rescue removes the worker before it
    looks for its jobs, so one of the two finds them.
    """
    if not claimed:
        return []
    try:
        await require_registered(db, worker_id)
    except LeaseLost:
        await _undo_claims(db, {job["_id"]: job["place"] for job in claimed}, token)
        raise
    surplus = await _over_limits(db, capacity, claimed)
    refused = {job["_id"]: job["place"] for job in surplus}
    inactive = await _start_batches(db, [job for job in claimed if job["_id"] not in refused])
    refused |= {job["_id"]: {"held": True} for job in claimed if job.get("batch_id") in inactive}
    await _undo_claims(db, refused, token)
    return [job for job in claimed if job["_id"] not in refused]


async def _running_jobs(db: Database, capacity: claims.Capacity) -> claims.Running:
    running = claims.Running()
    if capacity.max_per_type or capacity.max_per_user is not None:
        projection = {"_id": 0, "job_type": 1, "user_id": 1}
        async for job in db.jobs.find(RUNNING, projection, hint="running"):
            running.per_type[job["job_type"]] += 1
            running.per_user[job.get("user_id")] += 1
    return running


async def _candidates(
    db: Database, queue: str, job_type: str, capacity: claims.Capacity, running: claims.Running
) -> list[claims.Candidate]:
    slots = capacity.slots_for(job_type)
    if capacity.max_per_user is None:
        order = [("turn", 1), ("arrival", 1)]
        jobs = await db.jobs.find(
            {"line": queue}, CANDIDATE, sort=order, limit=slots, hint="line"
        ).to_list()
        return [claims.Candidate(job, job.get("user_id"), job["arrival"]) for job in jobs]
    # Only jobs of users below their limit: skipping a busy user's 10,000 jobs is one index lookup.
    first_of_users: list[Document] = [
        {"$match": {"line": queue}},
        {"$sort": {"line": 1, "user_id": 1, "turn": 1}},
        {"$group": {"_id": "$user_id", "turn": {"$first": "$turn"}}},
    ]
    heads = await (await db.jobs.aggregate(first_of_users, hint="lane")).to_list()
    room: dict[str | None, int] = {}
    for head in sorted(heads, key=lambda head: int(head["turn"])):
        user_id, free = head["_id"], slots
        if user_id is not None:
            free = min(free, capacity.max_per_user - running.per_user[user_id])
        if free > 0 and len(room) < slots:
            room[user_id] = free
    pages = await asyncio.gather(
        *(
            db.jobs.find(
                {"line": queue, "user_id": user_id},
                CANDIDATE,
                sort=[("turn", 1)],
                limit=limit,
                hint="lane",
            ).to_list()
            for user_id, limit in room.items()
        )
    )
    jobs = sorted(chain(*pages), key=lambda job: (job["turn"], job["arrival"]))
    return [claims.Candidate(job, job.get("user_id"), job["arrival"]) for job in jobs]


async def _start_jobs(
    db: Database, chosen: Sequence[claims.Candidate], worker_id: str, token: str
) -> list[Document]:
    """Claim those jobs that are still pending, and return them."""
    keys = [candidate.key for candidate in chosen]
    placements = {key["_id"]: {"line": key["line"], "turn": key["turn"]} for key in keys}
    ids = list(placements)
    now = now_stamp()
    update = queue_update(
        {},
        status="processing",
        run_at=None,
        worker_id=worker_id,
        processing_started_at=now,
        updated_at=now,
        progress=INITIALIZING,
        claim=token,
    )
    update |= {"$inc": {"attempt": 1}} | db.change_time
    free = {"_id": {"$in": ids}, "status": "pending", "line": {"$gt": ""}}
    if len(ids) == 1:  # one request instead of two
        job = await db.jobs.find_one_and_update(
            free, update, WITHOUT_DETAILS, return_document=ReturnDocument.AFTER, hint="_id_"
        )
        won = {ids[0]: job} if job is not None else {}
    else:
        await db.jobs.update_many(free, update, hint="_id_")
        mine = {"_id": {"$in": ids}, "claim": token}
        started = db.jobs.find(mine, WITHOUT_DETAILS, hint="_id_")
        won = {job["_id"]: job async for job in started}
    return [won[one] | {"place": place} for one, place in placements.items() if one in won]


async def _over_limits(
    db: Database, capacity: claims.Capacity, claimed: Sequence[Document]
) -> list[Document]:
    """Return the newly claimed jobs that exceed the limits, the last claimed first."""
    running = await _running_jobs(db, capacity)
    surplus: list[Document] = []
    for job in reversed(claimed):
        job_type, user_id = job["job_type"], job.get("user_id")
        too_many = running.per_type[job_type] > capacity.max_per_type.get(job_type, math.inf)
        if capacity.max_per_user is not None and user_id is not None:
            too_many = too_many or running.per_user[user_id] > capacity.max_per_user
        if too_many:
            surplus.append(job)
            running.per_type[job_type] -= 1
            running.per_user[user_id] -= 1
    return surplus


async def _start_batches(db: Database, claimed: Sequence[Document]) -> set[str]:
    """Set the start time of batches; returns those that are paused and start nothing."""
    ids = {job["batch_id"] for job in claimed if "batch_id" in job}
    if not ids:
        return set()
    inactive = await inactive_batches(db, ids)
    now = now_stamp()
    await db.batches.update_many(
        {"_id": {"$in": list(ids - inactive)}, "started_at": None},
        {"$set": {"started_at": now, "updated_at": now}} | db.change_time,
    )
    return inactive


async def _undo_claims(db: Database, placements: Mapping[str, Document], token: str) -> None:
    """Undo claims; only the attempt number stays used."""
    updates = [
        UpdateOne(
            {"_id": job_id, "status": "processing", "claim": token},
            _undo_update(placement) | db.change_time,
        )
        for job_id, placement in placements.items()
    ]
    if updates:
        await db.jobs.bulk_write(updates)


def _undo_update(placement: Document) -> Document:
    return queue_update(
        placement,
        status="pending",
        worker_id=None,
        processing_started_at=None,
        claim=None,
        progress=QUEUED.model_dump(),
    )


async def rescue(db: Database, dead: Collection[str], max_crashes: int) -> list[claims.Rescued]:
    """Remove lost workers first, which is final; then take their jobs.

    If this is interrupted, the next rescue finds jobs without a worker and continues.
    """
    lapsed = {"$lt": [{"$max": ["$lease_until", await _grace_until(db)]}, "$$NOW"]}
    await db.workers.delete_many({"$or": [{"_id": {"$in": list(dead)}}, {"$expr": lapsed}]})
    # In this order: a worker is registered before it owns a job.
    holders = await db.jobs.distinct("worker_id", RUNNING)
    registered = {worker["_id"] async for worker in db.workers.find({}, {"_id": 1})}
    lost = [worker_id for worker_id in holders if worker_id not in registered]
    if not lost:
        return []
    jobs = await db.jobs.find(
        {"worker_id": {"$in": lost}, "status": "processing"}, WITHOUT_VALUES, hint="running"
    ).to_list()
    if not jobs:
        return []
    placements = await placements_for(db, jobs, interrupted=True)
    pairs = zip(jobs, placements, strict=True)
    done = await apply(db, [_rescue_one(job, placement, max_crashes) for job, placement in pairs])
    await resume_if_active(db, jobs, placements)
    rescued: list[claims.Rescued] = []
    for job in (job for job, ok in zip(jobs, done, strict=True) if ok):
        job_id, attempt, worker_id = job["_id"], job["attempt"], job["worker_id"]
        entry = claims.worker_lost_entry(worker_id, attempt)
        await add_logs(db, job_id, [entry], last=job.get("logged", 0) + 1)
        is_cancelled = bool(job.get("cancel_requested"))
        is_failed = not is_cancelled and job.get("crashes", 0) + 1 >= max_crashes
        rescued.append(claims.Rescued(job_id, attempt, worker_id, is_failed, is_cancelled))
    return rescued


#: If no process could look for lost workers for this long, the store was unreachable, and workers
#: have as long as this to renew their leases. Processes that have just started know it from the
#: store.
OUTAGE = timedelta(seconds=5)


async def _grace_until(db: Database) -> datetime | None:
    """Record this sweep; return until when lapsed leases are not the fault of their workers."""
    outage = round(OUTAGE.total_seconds() * 1000)
    silence = {"$subtract": ["$$NOW", {"$ifNull": ["$at", "$$NOW"]}]}
    until = {"$add": ["$$NOW", outage]}
    grace = {"$cond": [{"$gt": [silence, outage]}, until, {"$ifNull": ["$grace_until", None]}]}
    sweep = await db.meta.find_one_and_update(
        {"_id": "rescue"},
        [{"$set": {"at": "$$NOW", "grace_until": grace}}],
        upsert=True,
        return_document=ReturnDocument.AFTER,
    )
    grace_until: datetime | None = sweep["grace_until"] if sweep else None
    return grace_until


def _rescue_one(job: Document, placement: Document, max_crashes: int) -> Change:
    names = ("status", "attempt", "worker_id", "processing_started_at", "cancel_requested")
    only = {name: job.get(name) for name in names}
    deaths = job.get("crashes", 0) + 1
    error = claims.crash_error(job["worker_id"], deaths)
    if job.get("cancel_requested"):
        change = cancelled(job, only, Cancelled().reason)
    elif deaths >= max_crashes:
        change = failed(job, only, error, crashed=True)
    else:
        change = pending(job, only, placement, error=error, counters={"crashes": 1})
    change.update["$inc"] = change.update.get("$inc", {}) | {"logged": 1}
    return change
