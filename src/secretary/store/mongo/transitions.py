"""Fenced state changes, each of which applies only if the job is still in the expected state; and
the queues of pending jobs."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from uuid import uuid4

from pymongo import UpdateOne
from pymongo.errors import PyMongoError

from ...core.errors import LeaseLost
from ...core.job import (
    MAX_ATTEMPTS_KEPT,
    Cancelled,
    Completed,
    Failed,
    Job,
    JobError,
    Outcome,
    Progress,
    Released,
    has_secrets,
    remove_secrets,
    utc_now,
)
from ..claims import JobClass
from ..jobs import JobQuery
from ..stats import FinishedJob, wait_of
from .outbox import REPORTED, advance_progress_event, final_event
from .queries import find_documents
from .schema import (
    MAX_HISTORY_BYTES,
    MAX_MESSAGE_BYTES,
    QUEUE_FIELDS,
    STAGED,
    UNFINISHED,
    Database,
    Document,
    delete_overflow,
    ended_attempt,
    error_to,
    expires_at,
    moment,
    moment_or_none,
    now_stamp,
    past_error,
    stamp,
    stamp_or_none,
    to_bson,
    truncate,
    write_value,
)

#: How often a change by query is repeated because jobs changed concurrently.
MAX_ROUNDS = 3

WITHOUT_VALUES = {"parameters": 0, "results": 0, "deliveries": 0}


@dataclass(frozen=True, slots=True)
class Change:
    """An update of one job that applies only if it matches `only`."""

    job_id: str
    only: Mapping[str, Any]
    update: Document
    #: The batch that this may complete.
    ends_batch: str | None = None
    #: For the statistics, if it finishes the job.
    ending: FinishedJob | None = None


def owned_by(job: Job) -> Document:
    """The fence: the job still belongs to the claim that started it."""
    assert job.processing_started_at is not None
    return {
        "status": "processing",
        "attempt": job.attempt,
        "worker_id": job.worker_id,
        # A claim that was rolled back with its server may be repeated with the same number.
        "processing_started_at": stamp(job.processing_started_at),
    }


async def apply(db: Database, changes: Sequence[Change]) -> list[bool]:
    """Write all changes durably in one request; returns which of them applied."""
    token = uuid4().hex
    receipts = [f"{token}-{n}" for n in range(len(changes))]
    result = await db.durable.jobs.bulk_write(
        [
            UpdateOne(
                {"_id": change.job_id, **change.only},
                change.update
                | db.change_time
                | {"$set": change.update.get("$set", {}) | {"receipt": receipt}},
            )
            for change, receipt in zip(changes, receipts, strict=True)
        ],
        ordered=False,
    )
    written: set[str | None] = set(receipts)
    if result.matched_count < len(changes):
        ids = [change.job_id for change in changes]
        jobs = db.jobs.find({"_id": {"$in": ids}}, {"receipt": 1})
        written = {job.get("receipt") async for job in jobs}
    done = [receipt in written for receipt in receipts]
    applied = [change for change, ok in zip(changes, done, strict=True) if ok]
    db.on_finished([change.ending for change in applied if change.ending])
    ended = {change.ends_batch for change in applied}
    with suppress(PyMongoError):  # the jobs did finish; `tidy` does the rest
        await asyncio.gather(*(settle_batch(db, batch_id) for batch_id in ended if batch_id))
    return done


async def change_matching(
    db: Database,
    query: JobQuery,
    plan: Callable[[list[Document]], Awaitable[list[Change]]],
    *,
    among: Collection[str],
    only: Mapping[str, Any] | None = None,
) -> list[str]:
    """Apply what `plan` returns for the matching jobs; returns the ids of those changed."""
    changed: list[str] = []
    for _ in range(MAX_ROUNDS):
        limit = query.limit - len(changed)
        jobs = await find_documents(
            db, query, limit=limit, projection=WITHOUT_VALUES, among=among, only=only
        )
        if not jobs:
            break
        changes = await plan(jobs)
        done = await apply(db, changes)
        changed += [change.job_id for change, ok in zip(changes, done, strict=True) if ok]
        if all(done):
            break
    return changed


async def settle_batch(db: Database, batch_id: str) -> None:
    """Complete a batch once, if it has no unfinished jobs.

    Every process that finishes a job calls this; if one crashes before, `tidy` does it.
    """

    async def has_jobs(*statuses: str, **only: str) -> bool:
        among = {"batch_id": batch_id, "status": {"$in": statuses}, **only}
        return await db.jobs.find_one(among, {"_id": 0, "status": 1}, hint="by_batch") is not None

    # Read before its jobs: if the batch is reopened after this, the update does not apply.
    projection = {"webhook": 1, "user_id": 1, "staged": 1, "reopened": 1}
    # Not while it is restarted: its jobs are about to be pending.
    settleable = {"_id": batch_id, "open": True, "restarts.0": {"$exists": False}}
    batch = await db.batches.find_one(settleable, projection)
    if batch is None or await has_jobs(*UNFINISHED):
        return
    # Staged jobs with another token were left by a process that crashed while adding the batch.
    if "staged" in batch and await has_jobs(STAGED, **{"staged.token": batch["staged"]["token"]}):
        return
    failed = not await has_jobs("completed") and await has_jobs("failed", "cancelled")
    now = now_stamp()
    update: Document = {"$set": {"completed_at": now, "updated_at": now}, "$unset": {"open": ""}}
    update = merge_updates(update, final_event(batch, "error" if failed else "completed", now))
    unchanged = {"_id": batch_id, "open": True, "reopened": batch.get("reopened")}
    await db.durable.batches.update_one(unchanged, update | db.change_time)


def merge_updates(update: Document, more: Document) -> Document:
    """Combine two updates that change different fields."""
    operators = update.keys() | more.keys()
    return {name: update.get(name, {}) | more.get(name, {}) for name in operators}


async def inactive_batches(db: Database, batch_ids: Collection[str | None]) -> set[str]:
    ids = [batch_id for batch_id in set(batch_ids) if batch_id is not None]
    if not ids:
        return set()
    batches = db.batches.find({"_id": {"$in": ids}, "isActive": False}, {"_id": 1})
    return {batch["_id"] async for batch in batches}


async def resume_paused(db: Database, batch_ids: Collection[str]) -> None:
    """Schedule paused jobs of those batches that are active."""
    active = set(batch_ids) - await inactive_batches(db, batch_ids)
    if active:
        await db.durable.jobs.update_many(
            {"batch_id": {"$in": sorted(active)}, "held": True, "status": "pending"},
            [{"$set": {"due_at": {"$ifNull": ["$run_at", now_stamp()]}}}, {"$unset": "held"}],
            hint="held",
        )


DONE = {"step": "completed", "percent": 100, "message": ""}

Write = Callable[[Change], Awaitable[bool]]


async def report(db: Database, job: Job, progress: Progress | None, entries: int) -> int:
    """Store progress; returns the number of the last of `entries` new log entries."""
    update: Document = {"$inc": {"logged": entries}} if entries else {}
    if progress is not None:
        update["$set"] = {
            "progress.step": truncate(progress.step, MAX_HISTORY_BYTES),
            "progress.message": truncate(progress.message, MAX_MESSAGE_BYTES),
            "updated_at": now_stamp(),
        }
        update["$max"] = {"progress.percent": progress.percent}
        update |= db.change_time
    only = {"_id": job.job_id, **owned_by(job)}
    sends_progress = progress is not None and job.webhook is not None
    if update:
        projection = {"logged": 1} | (REPORTED if sends_progress else {})
        owned = await db.jobs.find_one_and_update(only, update, projection)
    else:
        owned = await db.jobs.find_one(only, {"logged": 1})
    if owned is None:
        raise LeaseLost(job.job_id)
    if progress is not None and sends_progress:
        await advance_progress_event(db, owned, progress.percent)
    return int(owned.get("logged", 0)) + entries


async def finish(
    db: Database, write: Write, job: Job, outcome: Outcome, resources: Mapping[str, float] | None
) -> None:
    used = to_bson(dict(resources)) if resources else None
    document, owned = _document_of(job), owned_by(job)
    match outcome:
        case Completed(results=results):
            await _complete(db, write, job, results, used)
            return
        case Failed(error=error, retry_at=None, crashed=crashed):
            counter = "crashes" if crashed else "failures"
            change = failed(document, owned, error, counter=counter, resources=used)
        case Cancelled(reason=reason):
            change = cancelled(document, owned, reason, resources=used)
        case Failed() | Released():
            retry = outcome if isinstance(outcome, Failed) else None
            run_at = retry.retry_at if retry else None
            (placement,) = await placements_for(
                db, [document], run_at=run_at, interrupted=retry is None
            )
            change = pending(
                document,
                owned | {"cancel_requested": None},
                placement,
                error=retry.error if retry else None,
                counters={"crashes" if retry.crashed else "failures": 1} if retry else None,
                run_at=stamp_or_none(run_at),
                resources=used,
            )
            if await write(change):
                await resume_if_active(db, [document], [placement])
                return
            # Unless the lease was lost, the job was to be cancelled.
            change = cancelled(document, owned, Cancelled().reason, resources=used)
    if not await write(change):
        raise LeaseLost(job.job_id)


async def _complete(
    db: Database, write: Write, job: Job, results: Mapping[str, Any] | None, used: Any
) -> None:
    values = {"results": None, "results_in": None}
    values |= await write_value(db, job.job_id, "results", results)
    before: Document | None = None
    if has_secrets(job.parameters):
        before = await db.jobs.find_one({"_id": job.job_id}, {"parameters_in": 1})
        redacted = await write_value(db, job.job_id, "parameters", remove_secrets(job.parameters))
        values |= {"parameters": None, "parameters_in": None} | redacted
    fields = {"status": "completed", "progress": DONE, "error": None, "resources": used, **values}
    if not await write(_finished(_document_of(job), owned_by(job), "completed", **fields)):
        await delete_overflow(db, [values])
        raise LeaseLost(job.job_id)
    with suppress(PyMongoError):  # the job has finished; leftovers are deleted with it
        await delete_overflow(db, [before or {}])


def _document_of(job: Job) -> Document:
    """The fields of a claimed job that changes need."""
    assert job.processing_started_at is not None
    names = (
        "job_type", "priority", "attempt", "worker_id", "user_id", "batch_id", "retention_days",
        "group_size",
    )  # fmt: skip
    document = {
        "_id": job.job_id,
        **{name: getattr(job, name) for name in names},
        "processing_started_at": stamp(job.processing_started_at),
        "created_at": stamp(job.created_at),
    }
    return document | ({"webhook": job.webhook} if job.webhook else {})


async def placements_for(
    db: Database,
    documents: Sequence[Document],
    *,
    run_at: datetime | None = None,
    interrupted: bool = False,
) -> list[Document]:
    inactive = await inactive_batches(db, [job.get("batch_id") for job in documents])
    user_queues = [(job["job_type"], job["priority"], job.get("user_id")) for job in documents]
    placements = await Placements.load(db, user_queues)
    return [
        placements.for_job(
            *user_queue,
            run_at=run_at,
            paused=job.get("batch_id") in inactive,
            interrupted=interrupted,
            suspect=job.get("group_size") is not None,
        )
        for job, user_queue in zip(documents, user_queues, strict=True)
    ]


async def resume_if_active(
    db: Database, documents: Sequence[Document], placements: Sequence[Document]
) -> None:
    """Resume jobs whose batch became active just before they were paused."""
    pairs = zip(documents, placements, strict=True)
    if batches := {job["batch_id"] for job, placement in pairs if "held" in placement}:
        await resume_paused(db, batches)


def _finished(
    job: Document, only: Document, event: Literal["completed", "error"], **fields: Any
) -> Change:
    now = now_stamp()
    times = {"completed_at": now, "expires_at": expires_at(job, now), "updated_at": now}
    update = queue_update({}, **times, run_at=None, **fields)
    update = merge_updates(update, final_event(job, event, now))
    error, started_at = fields["error"], moment_or_none(job.get("processing_started_at"))
    ending = FinishedJob(
        job_type=job["job_type"],
        user_id=job.get("user_id"),
        status=fields["status"],
        code=error["code"] if error else None,
        at=moment(now),
        waited=wait_of(job.get("attempt", 0), moment(job["created_at"]), started_at),
    )
    return Change(job["_id"], only, update, ends_batch=job.get("batch_id"), ending=ending)


def failed(
    job: Document, only: Document, error: JobError, *, counter: str | None = None, **fields: Any
) -> Change:
    change = _finished(job, only, "error", status="failed", error=error_to(error), **fields)
    if counter is None:
        return change
    return replace(change, update=merge_updates(change.update, {"$inc": {counter: 1}}))


def cancelled(job: Document, only: Document, reason: str, **fields: Any) -> Change:
    error = error_to(JobError(code="CANCELLED", message=reason))
    return _finished(
        job, only, "error", status="cancelled", cancel_requested=True, error=error, **fields
    )


def pending(
    job: Document,
    only: Document,
    placement: Document,
    *,
    error: JobError | None = None,
    counters: Document | None = None,
    **fields: Any,
) -> Change:
    """Make a running or finished job pending again and archive its attempt."""
    now = now_stamp()
    stored = error_to(error) if error else None
    update = queue_update(
        placement,
        status="pending",
        worker_id=None,
        processing_started_at=None,
        completed_at=None,
        expires_at=None,
        error=stored,
        updated_at=now,
        **{"run_at": None, **fields},
    )
    if "worker_id" in job:
        ended_at = job.get("completed_at", now)
        past = ended_attempt(job, ended_at=ended_at, error=past_error(stored or job.get("error")))
        update["$push"] = {"attempts": {"$each": [past], "$slice": -MAX_ATTEMPTS_KEPT}}
    if counters:
        update["$inc"] = counters
    return Change(job["_id"], only, update)


#: Scheduled jobs that are due enter their queue in batches of this size.
MAX_PROMOTED = 1000


def queue_name(job_type: str, priority: int) -> str:
    return f"{job_type}/{priority}"


def user_queue_of(job: Job) -> tuple[str, int, str | None]:
    return job.job_type, job.priority, job.user_id


def class_of(queue: str) -> JobClass:
    job_type, _, priority = queue.rpartition("/")
    return job_type, int(priority)


class Placements:
    """Queue fields of jobs that become pending, loaded for many jobs in few round trips.

    A new job goes behind the last one of the same user, or to the head of the queue if the user
    has none: this serves users in turn (start-time fair queueing, with the head of the queue as
    its clock). Nothing is locked: jobs that get the same position are ordered by arrival.
    """

    def __init__(self) -> None:
        self._now = utc_now()
        self._last: dict[tuple[str, str | None], int | None] = {}
        self._heads: dict[str, int] = {}

    @classmethod
    async def load(
        cls, db: Database, user_queues: Iterable[tuple[str, int, str | None]]
    ) -> "Placements":
        """Load where these user queues end, and their queues begin."""
        placements = cls()

        async def load_last(queue: str, user_id: str | None) -> None:
            last = await db.jobs.find_one(
                {"line": queue, "user_id": user_id},
                {"_id": 0, "turn": 1},
                sort=[("turn", -1)],
                hint="lane",
            )
            placements._last[queue, user_id] = last["turn"] if last else None

        async def load_head(queue: str) -> None:
            head = await find_head(db, queue, {"_id": 0, "turn": 1})
            placements._heads[queue] = head["turn"] if head else 0

        named = {(queue_name(job_type, n), user_id) for job_type, n, user_id in user_queues}
        heads = {queue for queue, _ in named}
        await asyncio.gather(*(load_last(*one) for one in named), *map(load_head, heads))
        return placements

    def for_job(
        self,
        job_type: str,
        priority: int,
        user_id: str | None,
        *,
        run_at: datetime | None = None,
        paused: bool = False,
        interrupted: bool = False,
        suspect: bool = False,
    ) -> Document:
        """An interrupted job goes to the head of its queue: it has waited before. A suspect is in
        no queue: it waits for an idle worker."""
        if paused:
            return {"held": True}
        if run_at is not None and run_at > self._now:
            return {"due_at": stamp(run_at)}
        if suspect:
            return {"suspect_since": stamp(self._now)}
        queue = queue_name(job_type, priority)
        if interrupted:
            return {"line": queue, "turn": self._heads[queue]}
        last = self._last[queue, user_id]
        position = self._heads[queue] if last is None else last + 1
        self._last[queue, user_id] = position
        return {"line": queue, "turn": position}


#: The fields of a waiting suspect that claims and statistics need.
SUSPECT = {"job_type": 1, "user_id": 1, "group_size": 1, "suspect_since": 1}


async def find_head(db: Database, queue: str, projection: Document) -> Document | None:
    order = [("turn", 1), ("arrival", 1)]
    return await db.jobs.find_one({"line": queue}, projection, sort=order, hint="line")


async def waiting_since(db: Database) -> dict[str, datetime]:
    """Since when the heads of the queues have been ready, by type."""
    queues = await db.jobs.distinct("line", {"line": {"$gt": ""}})
    # A pending job was last updated when it became pending, but may be scheduled for later.
    projection = {"_id": 0, "updated_at": 1, "run_at": 1}
    heads = await asyncio.gather(*(find_head(db, queue, projection) for queue in queues))
    since: dict[str, datetime] = {}
    for queue, head in zip(queues, heads, strict=True):
        if head is not None:
            at = moment(max(head["updated_at"], head.get("run_at", "")))
            job_type, _ = class_of(queue)
            since[job_type] = min(at, since.get(job_type, at))
    suspects = db.jobs.find({"suspect_since": {"$gt": ""}}, SUSPECT, hint="suspects")
    async for job in suspects:
        at = moment(job["suspect_since"])
        since[job["job_type"]] = min(at, since.get(job["job_type"], at))
    return since


def queue_update(placement: Document, **fields: Any) -> Document:
    """The update that sets a job's queue fields (none if it is not pending) and other fields.

    A field set to None is removed.
    """
    values = dict.fromkeys(QUEUE_FIELDS) | placement | fields
    update: Document = {"$set": {name: v for name, v in values.items() if v is not None}}
    removed = {name: "" for name, value in values.items() if value is None}
    return update | ({"$unset": removed} if removed else {})


async def promote(db: Database) -> bool:
    """Move scheduled jobs that are due into their queues; returns whether there were any."""
    due = await db.jobs.find(
        {"due_at": {"$lte": now_stamp()}},
        {"job_type": 1, "priority": 1, "user_id": 1, "group_size": 1},
        sort=[("due_at", 1), ("arrival", 1)],
        limit=MAX_PROMOTED,
        hint="due",
    ).to_list()
    if not due:
        return False
    placements = await placements_for(db, due)
    await db.jobs.bulk_write(
        [
            UpdateOne(
                {"_id": job["_id"], "status": "pending", "due_at": {"$exists": True}},
                queue_update(placement),
            )
            for job, placement in zip(due, placements, strict=True)
        ]
    )
    return True
