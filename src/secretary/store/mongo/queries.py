"""Job and batch queries: each list is a scan of indexes that give its order."""

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import product
from typing import Any
from urllib.parse import unquote

from pymongo import UpdateOne
from pymongo.errors import DuplicateKeyError

from ...core.errors import NotFound, QuotaExceeded
from ...core.job import Batch, Job, JobStatus, utc_now
from .. import stats
from ..jobs import BatchQuery, JobQuery, Page, TimeBudget
from .schema import (
    DETAILS,
    EVERYBODY,
    FINISHED,
    LISTED,
    STAGED,
    Database,
    Document,
    SettledKey,
    batch_from,
    job_from,
    logs_of,
    moment,
    parse_cursor,
    stamp,
    stamp_or_none,
    with_overflow,
)

#: Older writes cannot be rolled back, even with clock skew: a primary that loses its majority
#: steps down within seconds.
MAJORITY_LAG = timedelta(minutes=2)


async def majority_reads(
    db: Database, documents: Sequence[Document], projection: Mapping[str, Any] | None = None
) -> list[Document]:
    """Drop jobs that a majority does not have yet, and undo ends that it does not have.

    Everything else may be newer than the majority's state: lost progress is reported again.
    """
    since = stamp(utc_now() - MAJORITY_LAG)
    recent = [document["_id"] for document in documents if _changed_at(document) > since]
    if not recent:
        return list(documents)
    query = {"_id": {"$in": recent}, "status": {"$in": LISTED}}
    cursor = db.majority_reads.jobs.find(query, projection, hint="_id_")
    confirmed = {document["_id"]: document async for document in cursor}
    result: list[Document] = []
    for document in documents:
        if _changed_at(document) <= since:
            result.append(document)
        elif (durable := confirmed.get(document["_id"])) is not None:
            end_is_lost = document["status"] in FINISHED and durable["status"] not in FINISHED
            result.append(durable if end_is_lost else document)
    return result


def _changed_at(document: Document) -> str:
    created: str = document["created_at"]
    return max(created, document.get("completed_at") or "")


#: Sorts after every suffix of a timestamp.
AFTER_ANY_SUFFIX = "~"

WITHOUT_DETAILS = dict.fromkeys(DETAILS, 0)

#: The indexes, the most selective first, with the term of a query that each is for and the field
#: of that term.
INDEXES = {
    "_id_": ("job_id", "_id"),
    "by_batch": ("batch_id", "batch_id"),
    "by_error": ("error_code", "error.code"),
    "by_user": ("user_id", "user_id"),
    "by_reader": ("visible_to", "readers"),
    "by_type": ("job_type", "job_type"),
}


async def get_job(db: Database, job_id: str) -> Job:
    document = await db.jobs.find_one({"_id": job_id, "status": {"$in": LISTED}}, hint="_id_")
    whole = await with_overflow(db, await majority_reads(db, [document] if document else []))
    if not whole:
        raise NotFound(f"There is no job {job_id}")
    logs = await logs_of(db, [job_id]) if "logged" in whole[0] else {job_id: []}
    return job_from(whole[0], logs=logs[job_id])


async def find_jobs(db: Database, query: JobQuery) -> Page[Job]:
    wanted = {"results", "results_in"} if "results" in query.include else set()
    projection = dict.fromkeys(set(DETAILS) - wanted, 0)
    limit, reached = query.limit + 1, None
    if query.search_seconds is None or query.job_id is not None:
        documents = await find_documents(db, query, limit=limit, projection=projection)
    else:
        documents, reached = await _search(db, query, limit, projection, query.search_seconds)
    cursor = documents[query.limit - 1]["listed_at"] if len(documents) == limit else reached
    page = await majority_reads(db, documents[: query.limit], projection)
    logs: Mapping[str, Any] = {}
    if "logs" in query.include:
        logs = await logs_of(db, [document["_id"] for document in page])
    jobs = [job_from(one, logs=logs.get(one["_id"], ())) for one in await with_overflow(db, page)]
    searched_to = None
    if reached is not None and len(documents) < query.limit:
        searched_to = moment(reached.rpartition("-")[0])
    return Page(jobs, cursor, searched_to)


async def find_documents(
    db: Database,
    query: JobQuery,
    *,
    limit: int,
    projection: Mapping[str, Any],
    among: Collection[str] = LISTED,
    only: Mapping[str, Any] | None = None,
) -> list[Document]:
    """Return the newest matching jobs whose state is in `among` and that match `only`."""
    return await db.jobs.find(
        job_filter(query, among) | dict(only or {}),
        projection,
        sort=[("listed_at", -1)],
        limit=limit,
        hint=indexes_for(query)[0],
    ).to_list()


def indexes_for(query: JobQuery) -> list[str]:
    """Return the indexes for the query's terms; without terms, one that lists all jobs."""
    fit = [name for name, (term, _) in INDEXES.items() if getattr(query, term) is not None]
    return fit or ["archived" if query.archived else "by_status"]


def job_filter(query: JobQuery, among: Collection[str] = LISTED) -> Document:
    statuses = query.status or JobStatus
    terms: Document = {"status": {"$in": sorted(s.value for s in statuses if s.value in among)}}
    for term, field in (*INDEXES.values(), ("archived", "archived")):
        if (value := getattr(query, term)) is not None:
            terms[field] = {"$in": [EVERYBODY, value]} if term == "visible_to" else value
    if query.text is not None:
        pattern = re.escape(query.text).replace("\0", r"\x00")  # the server rejects NUL characters
        name = {"$regex": pattern, "$options": "i"}
        terms["$or"] = [{"_id": query.text}, {"batch_id": query.text}, {"job_name": name}]
    cursor = parse_cursor(query.cursor) if query.cursor is not None else None
    bounds = {"$gt": stamp(query.created_after) + AFTER_ANY_SUFFIX} if query.created_after else {}
    if ends := [end for end in (stamp_or_none(query.created_before), cursor) if end is not None]:
        bounds["$lt"] = min(ends)
    return terms | _listed_within(bounds)


async def get_batch(db: Database, batch_id: str) -> Batch:
    document = await db.batches.find_one({"_id": batch_id})
    if document is None:
        raise NotFound(f"There is no batch {batch_id}")
    (batch,) = await with_counts(db, [document])
    return batch


async def find_batches(db: Database, query: BatchQuery) -> Page[Batch]:
    terms: Document = {}
    index = "newest"
    if query.visible_to is not None:
        terms["readers"] = {"$in": [EVERYBODY, query.visible_to]}
        index = "by_reader"
    if query.user_id is not None:
        terms["user_id"] = query.user_id
        index = "by_user"
    if query.archived is not None:
        terms["archived"] = query.archived
    if query.cursor is not None:
        terms["listed_at"] = {"$lt": parse_cursor(query.cursor)}
    documents = await db.batches.find(
        terms, {"deliveries": 0}, sort=[("listed_at", -1)], limit=query.limit + 1, hint=index
    ).to_list()
    page = documents[: query.limit]
    cursor = page[-1]["listed_at"] if len(documents) > query.limit else None
    return Page(await with_counts(db, page), cursor)


async def _with_committed_ends(db: Database, batches: Sequence[Document]) -> list[Document]:
    """Undo ends of batches that a majority does not have yet: they may be lost, and a final event
    that was already sent would be followed by another one."""
    since = stamp(utc_now() - MAJORITY_LAG)
    recent = [batch["_id"] for batch in batches if batch.get("completed_at", "") > since]
    if not recent:
        return list(batches)
    cursor = db.majority_reads.batches.find({"_id": {"$in": recent}}, hint="_id_")
    committed = {batch["_id"]: batch async for batch in cursor}
    result: list[Document] = []
    for batch in batches:
        durable = committed.get(batch["_id"], {})
        if batch["_id"] in recent and durable.get("completed_at") != batch["completed_at"]:
            undone = {key: value for key, value in batch.items() if key != "completed_at"}
            batch = undone | {"open": True, "deliveries": durable.get("deliveries", [])}
        result.append(batch)
    return result


async def with_counts(db: Database, batches: Sequence[Document]) -> list[Batch]:
    """Return batches with their counts; those of completed batches are cached."""
    batches = await _with_committed_ends(db, batches)
    cache = db.settled_counts
    keys = {batch["_id"]: _settled_key(batch) for batch in batches}
    missing = [batch for batch in batches if keys[batch["_id"]] not in cache]
    counts: dict[str, Mapping[JobStatus, int]] = {**await _count(db, missing)}
    for batch_id, key in keys.items():
        if key in cache:
            counts[batch_id] = cache[key]
        elif key is not None and batch_id in counts:
            cache[key] = counts[batch_id]
            if len(cache) > MAX_SETTLED_COUNTS:
                del cache[next(iter(cache))]
    return [batch_from(batch, counts.get(batch["_id"], {})) for batch in batches]


def _settled_key(batch: Document) -> SettledKey | None:
    """The cache key of a completed batch; it changes when its counts may change."""
    if "completed_at" not in batch or "open" in batch or "staged" in batch:
        return None
    return batch["_id"], batch["completed_at"], batch.get("losses", 0)


async def _count(db: Database, batches: Sequence[Document]) -> dict[str, dict[JobStatus, int]]:
    if not batches:
        return {}
    counts: dict[str, dict[JobStatus, int]] = defaultdict(dict)
    added = {batch["_id"] for batch in batches if "staged" in batch}
    # Count jobs in the index rather than store counters, which could be wrong.
    pipeline: list[Document] = [
        {"$match": {"batch_id": {"$in": [batch["_id"] for batch in batches]}}},
        {"$project": {"_id": 0, "batch_id": 1, "status": 1}},
        {"$group": {"_id": {"batch_id": "$batch_id", "status": "$status"}, "n": {"$sum": 1}}},
    ]
    async for group in await db.jobs.aggregate(pipeline, hint="by_batch"):
        batch_id, status = group["_id"]["batch_id"], group["_id"]["status"]
        if status == STAGED and batch_id in added:
            status = JobStatus.PENDING.value
        if status in LISTED:
            counted = counts[batch_id].get(JobStatus(status), 0)
            counts[batch_id][JobStatus(status)] = counted + group["n"]
    return counts


async def count_jobs_of_user(db: Database, user_id: str) -> dict[JobStatus, int]:
    return await _count_by_status(db, {"user_id": user_id}, "by_user")


async def count_jobs(db: Database) -> dict[str, dict[JobStatus, int]]:
    types = await db.jobs.distinct("job_type", {"job_type": {"$gt": ""}})
    counts = await asyncio.gather(
        *(_count_by_status(db, {"job_type": job_type}, "by_type") for job_type in types)
    )
    return {job_type: count for job_type, count in zip(types, counts, strict=True) if count}


async def _count_by_status(db: Database, terms: Document, index: str) -> dict[JobStatus, int]:
    # Counting index entries is about five times faster than $group.
    filters = [terms | {"status": status.value} for status in JobStatus]
    numbers = await asyncio.gather(*(db.jobs.count_documents(one, hint=index) for one in filters))
    return {status: n for status, n in zip(JobStatus, numbers, strict=True) if n}


async def find_expired(
    db: Database, older_than: Mapping[JobStatus, datetime], *, limit: int
) -> list[str]:
    own = db.jobs.find(
        {"status": {"$in": FINISHED}, "expires_at": {"$lt": stamp(utc_now())}},
        {"_id": 1},
        sort=[("expires_at", 1)],
        limit=limit,
        hint="expiring",
    )
    job_ids = [document["_id"] async for document in own]
    for status, before in older_than.items():
        if len(job_ids) == limit:
            break
        finished = {"status": status.value, "completed_at": {"$lt": stamp(before)}}
        documents = db.jobs.find(
            finished | {"retention_days": None},
            {"_id": 1},
            sort=[("completed_at", 1)],
            limit=limit - len(job_ids),
            hint="ended",
        )
        job_ids += [document["_id"] async for document in documents]
    return job_ids


MAX_SETTLED_COUNTS = 10_000

#: The best index is the one whose first entries, this many, reach back furthest.
ENTRIES_COMPARED = 1_000


async def _search(
    db: Database, query: JobQuery, limit: int, projection: Mapping[str, Any], seconds: float
) -> tuple[list[Document], str | None]:
    """Find up to `limit` jobs, newest first, within a time limit. Also return where the search ran
    out of time; None if it did not."""
    budget = TimeBudget(seconds)
    filters = job_filter(query)
    bounds: Document = filters.pop("listed_at", {})
    choices = indexes_for(query)
    index = choices[0]
    if len(choices) > 1:
        ends = await asyncio.gather(
            *(_end_of_step(db, one, filters, bounds, ENTRIES_COMPARED) for one in choices)
        )
        index = min(zip(ends, choices, strict=True), key=lambda pair: pair[0] or "")[1]
    matches: list[Document] = []
    while True:
        end = await _end_of_step(db, index, filters, bounds, budget.step)
        matches += await db.jobs.find(
            filters | _listed_within(bounds if end is None else bounds | {"$gte": end}),
            projection,
            sort=[("listed_at", -1)],
            limit=limit - len(matches),
            hint=index,
        ).to_list()
        if len(matches) == limit or end is None:
            return matches, None
        bounds = bounds | {"$lt": end}
        if not budget.next_step():
            return matches, end


async def _end_of_step(
    db: Database, index: str, filters: Document, bounds: Document, length: int
) -> str | None:
    """Return how far this many index entries reach; None is the end of the list."""
    fields = {"status", "archived" if index == "archived" else INDEXES.get(index, ("", ""))[1]}
    indexed = {field: term for field, term in filters.items() if field in fields}
    entry = await db.jobs.find_one(
        indexed | _listed_within(bounds),
        {"_id": 0, "listed_at": 1},
        sort=[("listed_at", -1)],
        skip=length - 1,
        hint=index,
    )
    return entry["listed_at"] if entry else None


def _listed_within(bounds: Document) -> Document:
    return {"listed_at": bounds} if bounds else {}


#: Characters that field names may not contain, and their escapes.
SPECIAL = {"%": "%25", ".": "%2E", "$": "%24", "\0": "%00"}


async def write_counters(db: Database, counts: Counter[stats.StatsKey]) -> None:
    await db.activity.bulk_write(updates(counts), ordered=False)


async def throughput(
    db: Database, since: datetime, *, step: timedelta, intervals: int, user_id: str | None
) -> list[stats.Throughput]:
    first, width, scope = stats.slot_of(since), step // stats.SLOT, stats.scope_of(user_id)
    slots = stats.width_for(first, width)
    start, end = (_id(scope, slots, slot) for slot in (first, first + width * intervals))
    rows: list[tuple[int, str, str, str, int, int]] = []
    async for document in db.activity.find({"_id": {"$gte": start, "$lt": end}}):
        part = (document["slot"] - first) // width
        for escaped, numbers in document["types"].items():
            job_type, waits = _unescape(escaped), numbers.pop("waits", {})
            rows += [(part, job_type, "", "", int(bucket), n) for bucket, n in waits.items()]
            for status, number in numbers.items():
                codes = number if isinstance(number, dict) else {"%": number}
                rows += [
                    (part, job_type, status, _unescape(c), stats.UNKNOWN, n)
                    for c, n in codes.items()
                ]
    return stats.throughput_of(rows)


async def drop_expired_counters(db: Database) -> None:
    expired = {"slot": {"$lt": stats.slot_of(utc_now() - stats.RETENTION)}}
    await db.activity.delete_many(expired, hint="by_slot")


def _id(scope: str, width: int, slot: int) -> str:
    return f"{scope}/{width}/{slot:012}"


def updates(counts: Counter[stats.StatsKey]) -> list[UpdateOne]:
    added: dict[tuple[str, int, int], Counter[str]] = defaultdict(Counter)
    for (key, n), width in product(counts.items(), stats.WIDTHS):
        fields = added[key.scope, width, key.slot // width * width]
        job_type = f"types.{_escape(key.job_type)}"
        name = f".{_escape(key.code)}" if key.status == stats.FAILED else ""
        fields[f"{job_type}.{key.status}{name}"] += n
        if key.bucket != stats.UNKNOWN:
            fields[f"{job_type}.waits.{key.bucket}"] += n
    return [
        UpdateOne(
            {"_id": _id(scope, width, slot)},
            {"$inc": dict(fields), "$setOnInsert": {"slot": slot}},
            upsert=True,
        )
        for (scope, width, slot), fields in added.items()
    ]


def _escape(text: str) -> str:
    return "".join(SPECIAL.get(sign, sign) for sign in text) or "%"  # no field name is empty


def _unescape(name: str) -> str:
    return "" if name == "%" else unquote(name)


async def usage(db: Database, day: date, user_id: str | None = None) -> stats.Usage:
    terms = {"day": day.isoformat()} if user_id is None else {"_id": _usage_id(day, user_id)}
    fields = ("jobs", "pages", "audio_seconds")
    sums = {name: {"$sum": f"${name}"} for name in fields}
    pipeline: list[Document] = [
        {"$match": terms},
        {"$group": {"_id": None, "users": {"$sum": 1}, **sums}},
    ]
    total = await (await db.usage.aggregate(pipeline)).to_list()
    values = {name: total[0][name] for name in (*fields, "users")} if total else {}
    return stats.Usage(**values)


async def charge(db: Database, charges: Sequence[stats.JobCharge]) -> None:
    done: list[stats.JobCharge] = []
    for one in charges:
        error = one.refusal or await _charge(db, one)
        if error is not None:
            await give_back(db, done)
            raise error
        done.append(one)


async def _charge(db: Database, one: stats.JobCharge) -> QuotaExceeded | None:
    only: Document = {"_id": _usage_id(one.day, one.user_id)}
    update = {"$inc": {"jobs": one.jobs}, "$setOnInsert": {"day": one.day.isoformat()}}
    if one.limit is None:
        await db.usage.update_one(only, update, upsert=True)
        return None
    room = {"jobs": {"$not": {"$gt": one.limit - one.jobs}}}
    if one.jobs <= one.limit:
        try:
            await db.usage.update_one(only | room, update, upsert=True)
            return None
        except DuplicateKeyError:  # there is no room, or another process has just inserted it
            updated = await db.usage.update_one(only | room, update)
            if updated.matched_count:
                return None
    return one.exceeded((await usage(db, one.day, one.user_id)).jobs)


async def give_back(db: Database, charges: Sequence[stats.JobCharge]) -> None:
    """Undo charges of jobs that were not stored."""
    for one in charges:
        only = {"_id": _usage_id(one.day, one.user_id)}
        await db.usage.update_one(only, {"$inc": {"jobs": -one.jobs}})


async def add_usage(
    db: Database, job: Job, *, pages: int, audio_seconds: float, stored_bytes: int | None = None
) -> None:
    assert job.user_id is not None
    if pages or audio_seconds:
        day = utc_now().date()
        await db.usage.update_one(
            {"_id": _usage_id(day, job.user_id)},
            {
                "$inc": {"pages": pages, "audio_seconds": audio_seconds},
                "$setOnInsert": {"day": day.isoformat()},
            },
            upsert=True,
        )
    if stored_bytes is not None:
        await db.jobs.update_one(
            {"_id": job.job_id, "attempt": job.attempt}, {"$set": {"stored_bytes": stored_bytes}}
        )


async def stored_bytes(db: Database, user_id: str) -> int:
    pipeline: list[Document] = [
        {"$match": {"user_id": user_id, "status": {"$in": LISTED}, "stored_bytes": {"$gt": 0}}},
        {"$group": {"_id": None, "total": {"$sum": "$stored_bytes"}}},
    ]
    total = await (await db.jobs.aggregate(pipeline, hint="stored")).to_list()
    return int(total[0]["total"]) if total else 0


async def forget_files(db: Database, job_id: str) -> None:
    await db.jobs.update_one(
        {"_id": job_id, "stored_bytes": {"$gt": 0}}, {"$set": {"stored_bytes": 0}}
    )


async def drop_old_usage(db: Database) -> None:
    before = (utc_now() - stats.USAGE_RETENTION).date().isoformat()
    await db.usage.delete_many({"day": {"$lt": before}}, hint="by_day")


def _usage_id(day: date, user_id: str) -> str:
    return f"{day.isoformat()}/{user_id}"
