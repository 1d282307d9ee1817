"""Workers and their leases, claims, and the rescue of lost jobs."""

import asyncio
import math
import time
from collections import Counter
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
    SUSPECT,
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


async def register_worker(
    db: Database,
    worker: claims.WorkerInfo,
    lease: timedelta,
    *,
    survived: Collection[tuple[str, int]] = (),
) -> None:
    info = {**asdict(worker), "started_at": stamp(worker.started_at)}
    del info["seen_at"]
    literal = {name: {"$literal": value} for name, value in info.items()}
    await db.workers.update_one(
        {"_id": worker.worker_id}, [{"$set": literal | _lease(lease)}], upsert=True
    )
    if survived:
        updates = [one for job in survived for one in _clear_suspicion(*job)]
        await db.jobs.bulk_write(updates)


def _clear_suspicion(job_id: str, attempt: int) -> list[UpdateOne]:
    """Clear a job whose worker turned out to be alive, unless more has happened since. A suspect
    that waits for an idle worker moves to its queue with the next claim."""
    cleared = {"losses": "", "strikes": "", "group_size": ""}
    waiting = {"_id": job_id, "status": "pending", "attempt": attempt}
    return [
        # Its rescue is still to come.
        UpdateOne(
            {"_id": job_id, "status": "processing", "attempt": attempt},
            {"$set": {"survived": attempt}},
        ),
        UpdateOne(
            {**waiting, "suspect_since": {"$gt": ""}},
            {"$set": {"due_at": now_stamp()}, "$unset": {**cleared, "suspect_since": ""}},
        ),
        UpdateOne(waiting, {"$unset": cleared}),
        # Another worker runs it already.
        UpdateOne(
            {"_id": job_id, "status": "processing", "attempt": attempt + 1}, {"$unset": cleared}
        ),
    ]


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


async def require_registered(db: Database, worker_id: str) -> bool:
    """Return whether the worker prepares to run a suspect."""
    worker = await db.workers.find_one({"_id": worker_id}, {"preparing": 1})
    if worker is None:
        raise LeaseLost(f"The worker {worker_id} is not registered")
    return bool(worker.get("preparing"))


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
#: How many waiting suspects a claim checks at most.
MAX_SUSPECTS_CHECKED = 1000

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
            preparing, suspects, promoted = await asyncio.gather(
                require_registered(self._db, worker_id),
                _waiting_suspects(self._db),
                promote(self._db),
            )
            if promoted:
                suspects = await _waiting_suspects(self._db)
            if suspects or preparing:
                becomes_idle = await _prepare_for_suspect(self._db, worker_id, capacity, suspects)
                if becomes_idle != preparing:
                    await self._db.workers.update_one(
                        {"_id": worker_id}, {"$set": {"preparing": becomes_idle}}
                    )
                if becomes_idle:
                    return []
            claimed: list[Document] = []
            takes_suspects = bool(suspects) and not capacity.busy
            if takes_suspects and capacity.suspects_first:
                claimed = await self._start_suspects(worker_id, capacity, suspects, token)
            claimed = claimed or await self._start_queued(worker_id, capacity, token)
            if takes_suspects and not claimed:
                claimed = await self._start_suspects(worker_id, capacity, suspects, token)
            allowed = await _keep_allowed(self._db, worker_id, capacity, claimed, token)
            return [job_from(document) for document in await with_overflow(self._db, allowed)]

    async def _start_queued(
        self, worker_id: str, capacity: claims.Capacity, token: str
    ) -> list[Document]:
        claimed: list[Document] = []
        for _ in range(MAX_TRIES):
            remaining = capacity.without(job["job_type"] for job in claimed)
            keys = [candidate.key for candidate in await self._choose(remaining)]
            started = await _start_jobs(self._db, keys, worker_id, token) if keys else []
            claimed += started
            if len(started) == len(keys):
                break
        return claimed

    async def _start_suspects(
        self,
        worker_id: str,
        capacity: claims.Capacity,
        suspects: Sequence[claims.Suspect],
        token: str,
    ) -> list[Document]:
        running = await _running_jobs(self._db, capacity)
        keys = [one.key for one in claims.choose_suspects(suspects, capacity, running)]
        return await _start_jobs(self._db, keys, worker_id, token) if keys else []

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


async def _waiting_suspects(db: Database) -> list[claims.Suspect]:
    """Suspects in the order in which they became pending."""
    jobs = db.jobs.find(
        {"suspect_since": {"$gt": ""}},
        SUSPECT,
        sort=[("suspect_since", 1), ("arrival", 1)],
        limit=MAX_SUSPECTS_CHECKED,
        hint="suspects",
    )
    return [
        claims.Suspect(job, job["job_type"], job.get("user_id"), job.get("group_size", 1))
        async for job in jobs
    ]


async def _prepare_for_suspect(
    db: Database, worker_id: str, capacity: claims.Capacity, suspects: Sequence[claims.Suspect]
) -> bool:
    """Whether the worker is busy and should start nothing until it is idle."""
    if not suspects or not capacity.busy:
        return False
    others = await db.workers.count_documents({"preparing": True, "_id": {"$ne": worker_id}})
    running = await _running_jobs(db, capacity)
    return claims.has_to_become_idle(suspects, capacity, running, others_preparing=others)


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
    db: Database, chosen: Sequence[Document], worker_id: str, token: str
) -> list[Document]:
    """Claim those jobs that are still pending in the same place, and return them."""
    places = ("line", "turn", "suspect_since")
    placements = {job["_id"]: {name: job[name] for name in places if name in job} for job in chosen}
    queue = "line" if "line" in chosen[0] else "suspect_since"
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
    free = {"_id": {"$in": ids}, "status": "pending", queue: {"$gt": ""}}
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


async def rescue(db: Database, dead: Collection[str]) -> list[claims.Rescued]:
    """Remove lost workers first, which is final; then take their jobs.

    If this is interrupted, the next rescue finds jobs without a worker and continues.
    """
    is_lapsed = {"$lt": [{"$max": ["$lease_until", await _grace_until(db)]}, "$$NOW"]}
    lapsed = {"$or": [{"_id": {"$in": list(dead)}}, {"$expr": is_lapsed}]}
    gone = {worker["_id"] async for worker in db.workers.find(lapsed, {"_id": 1})}
    if gone:
        await db.workers.delete_many(lapsed)
    # In this order: a worker is registered before it owns a job.
    holders = await db.jobs.distinct("worker_id", RUNNING)
    registered = {worker["_id"] async for worker in db.workers.find({}, {"_id": 1})}
    lost = [worker_id for worker_id in holders if worker_id not in registered]
    jobs: list[Document] = []
    if lost:
        jobs = await db.jobs.find(
            {"worker_id": {"$in": lost}, "status": "processing"}, WITHOUT_VALUES, hint="running"
        ).to_list()
    if lost_workers := {*lost, *gone} - registered:
        with_suspects = {job["worker_id"] for job in jobs if "group_size" in job}
        await _record_lost_workers(db, lost_workers, with_suspects)
    return await _take_jobs(db, jobs) if jobs else []


async def _record_lost_workers(
    db: Database, lost: Collection[str], with_suspects: Collection[str]
) -> None:
    await db.lost_workers.delete_many({"$expr": {"$not": [RECENTLY]}})
    await db.lost_workers.bulk_write(
        [
            UpdateOne(
                {"_id": worker_id},
                # Another process may have recorded it, and taken its jobs, a moment ago.
                [{"$set": {"at": "$$NOW", "ran_suspects": {"$or": ["$ran_suspects", ran]}}}],
                upsert=True,
            )
            for worker_id in sorted(lost)
            for ran in [worker_id in with_suspects]
        ]
    )


#: Whether a worker was lost recently, as an expression.
RECENTLY = {
    "$gt": ["$at", {"$subtract": ["$$NOW", int(claims.UNSTABLE_WITHIN.total_seconds() * 1000)]}]
}


async def _take_jobs(db: Database, jobs: Sequence[Document]) -> list[claims.Rescued]:
    recent = [
        claims.LostWorker(worker["_id"], worker["ran_suspects"])
        async for worker in db.lost_workers.find({"$expr": RECENTLY})
    ]
    jobs_per_worker = Counter(job["worker_id"] for job in jobs)
    judged = [_judge(job, jobs_per_worker[job["worker_id"]], recent) for job in jobs]
    suspected = [
        job | {"group_size": suspicion.group_size}
        for job, suspicion in zip(jobs, judged, strict=True)
    ]
    placements = await placements_for(db, suspected, interrupted=True)
    changes = map(_rescue_one, jobs, placements, judged)
    done = await apply(db, list(changes))
    await resume_if_active(db, jobs, placements)
    rescued: list[claims.Rescued] = []
    for job, suspicion, ok in zip(jobs, judged, done, strict=True):
        if not ok:
            continue
        job_id, attempt, worker_id = job["_id"], job["attempt"], job["worker_id"]
        entry = claims.worker_lost_entry(worker_id, attempt, suspicion)
        await add_logs(db, job_id, [entry], last=job.get("logged", 0) + 1)
        is_cancelled = bool(job.get("cancel_requested"))
        is_failed = not is_cancelled and suspicion.is_proven
        is_suspect = suspicion.group_size is not None
        rescued.append(
            claims.Rescued(job_id, attempt, worker_id, is_failed, is_cancelled, is_suspect)
        )
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


def _judge(job: Document, jobs_lost: int, recent: Sequence[claims.LostWorker]) -> claims.Suspicion:
    if job.get("survived") == job["attempt"]:  # the worker is alive
        return claims.Suspicion()
    before = claims.Suspicion(job.get("losses", 0), job.get("strikes", 0), job.get("group_size"))
    unstable = claims.is_unstable(recent, job["worker_id"], job.get("attempts", ()))
    return claims.judge_loss(before, jobs_lost=jobs_lost, unstable=unstable)


def _rescue_one(job: Document, placement: Document, suspicion: claims.Suspicion) -> Change:
    names = ("status", "attempt", "worker_id", "processing_started_at", "cancel_requested")
    only = {name: job.get(name) for name in (*names, "survived")}
    error = claims.loss_error(job["worker_id"], suspicion)
    counters = {name: value or None for name, value in asdict(suspicion).items()}
    if job.get("cancel_requested"):
        change = cancelled(job, only, Cancelled().reason, **counters)
    elif suspicion.is_proven:
        change = failed(job, only, error, **counters)
    else:
        change = pending(job, only, placement, error=error, **counters)
    change.update["$inc"] = change.update.get("$inc", {}) | {"logged": 1}
    return change
