"""Reads everything out of the collections of MongoDB."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from typing import Any

from pymongo import ReplaceOne
from pymongo.errors import BulkWriteError

from ...core.job import MAX_LOG_ENTRIES, Attempt, Batch, Delivery, Job, JobStatus
from ..jobs import NumberedLog
from ..transfer import (
    GROUP,
    GROUP_BYTES,
    BatchRecord,
    JobRecord,
    KeyRecord,
    Kind,
    OutboxState,
    Record,
    RecordId,
)
from .client_actions import duplicates, publish, server_time
from .outbox import schedule_from, schedule_to
from .queries import with_counts
from .queue import Placements, queue_name
from .rows import (
    LISTED,
    STAGED,
    batch_document,
    chunk_ids,
    error_to,
    job_document,
    job_from,
    log_chunks,
    moment,
    now_stamp,
    numbered_logs,
    split_value,
    stamp,
    stamp_or_none,
    to_bson,
    with_overflow,
    without_none,
)
from .schema import Database, Document, Documents
from .transitions import settle_batch

#: What a log entry is taken to need, when groups are made.
ENTRY_BYTES = 500


async def records(
    db: Database, kind: Kind, ids: Collection[RecordId] | None
) -> AsyncIterator[list[Record]]:
    query, collection, order = _source(db, kind)
    if ids is not None:
        known = [{"scope": one[0], "key": one[1]} if isinstance(one, tuple) else one for one in ids]
        found = await collection.find({**query, "_id": {"$in": known}}).to_list()
        yield await _records_of(db, kind, found)
        return
    if kind == "jobs":
        await _publish_added_batches(db)
    hint = {"jobs": "by_status", "batches": "newest", "keys": "_id_"}[kind]
    while True:
        found = await collection.find(query, sort=[(order, 1)], limit=GROUP, hint=hint).to_list()
        if not found:
            return
        query[order] = {"$gt": found[-1][order]}
        for part in await _groups_in_memory(db, kind, found):
            yield await _records_of(db, kind, part)


async def _publish_added_batches(db: Database) -> None:
    """Batches that were added and whose jobs nobody sees yet: here everybody may do the rest."""
    async for batch in db.batches.find({"staged": {"$exists": True}}, {"staged": 1}, hint="staged"):
        await publish(db, batch["_id"], batch["staged"]["token"])


def _source(db: Database, kind: Kind) -> tuple[Document, Documents, str]:
    """What to look for, where, and the field that gives the order."""
    match kind:
        case "jobs":
            return {"status": {"$in": LISTED}}, db.jobs, "listed_at"
        case "batches":
            return {}, db.batches, "listed_at"
        case "keys":
            return {"expires_at": {"$gt": now_stamp()}}, db.keys, "_id"


async def _groups_in_memory(
    db: Database, kind: Kind, documents: Sequence[Document]
) -> list[list[Document]]:
    """Documents that fit into memory together with what lies outside of them."""
    if kind != "jobs":
        return [list(documents)]
    size = {"size": {"$binarySize": "$data"}}
    outside = db.contents.find({"_id": {"$in": chunk_ids(documents)}}, size)
    sizes: dict[str, int] = {chunk["_id"]: chunk["size"] async for chunk in outside}
    return list(_group_by_size(documents, sizes))


def _group_by_size(
    documents: Sequence[Document], sizes: dict[str, int]
) -> Iterator[list[Document]]:
    part: list[Document] = []
    size = 0
    for document in documents:
        logged = min(document.get("logged", 0), MAX_LOG_ENTRIES)
        needed = sum(sizes.get(one, 0) for one in chunk_ids([document])) + logged * ENTRY_BYTES
        if part and size + needed > GROUP_BYTES:
            yield part
            part, size = [], 0
        part.append(document)
        size += needed
    if part:
        yield part


async def _records_of(db: Database, kind: Kind, documents: Sequence[Document]) -> list[Record]:
    match kind:
        case "jobs":
            whole = await with_overflow(db, documents)
            logs = await numbered_logs(db, [one["_id"] for one in whole if "logged" in one])
            return [_job_record(one, logs.get(one["_id"], [])) for one in whole]
        case "batches":
            batches = await with_counts(db, documents)
            return [
                BatchRecord(batch=batch, outbox=_outbox_state(document))
                for batch, document in zip(batches, documents, strict=True)
            ]
        case "keys":
            keys = await asyncio.gather(*(_key_record(db, document) for document in documents))
            return [key for key in keys if key is not None]


def _job_record(document: Document, logs: NumberedLog) -> JobRecord:
    return JobRecord(
        job=job_from(document, logs=[entry for _, entry in logs]),
        dropped_logs=logs[0][0] - 1 if logs else 0,
        position=document.get("turn"),
        paused=document.get("held", False),
        outbox=_outbox_state(document),
    )


def _outbox_state(document: Document) -> OutboxState:
    due, pace = document.get("outbox"), document.get("pace")
    return OutboxState(
        due_at=moment(due["due_at"]) if due else None,
        final=due["final"] if due else False,
        schedule=schedule_from(pace) if pace else None,
    )


async def _key_record(db: Database, document: Document) -> KeyRecord | None:
    known = document if "job_ids" in document else await _stored_under(db, document)
    if known is None:
        return None
    return KeyRecord(
        scope=document["_id"]["scope"],
        key=document["_id"]["key"],
        fingerprint=document["fingerprint"],
        job_ids=tuple(known["job_ids"]),
        batch_id=known.get("batch_id"),
        expires_at=moment(document["expires_at"]),
    )


async def _stored_under(db: Database, key: Document) -> Document | None:
    """What was stored by one who died before he could note it; None: nothing was."""
    mine = {"_id": key["reserved"], "idempotency_key": key["_id"]}
    if await db.jobs.find_one({**mine, "status": {"$in": LISTED}}, {"_id": 1}) is not None:
        return {"job_ids": [key["reserved"]]}
    if await db.batches.find_one(mine, {"_id": 1}) is None:
        return None
    jobs = db.jobs.find(
        {"batch_id": key["reserved"], "status": {"$in": LISTED}},
        {"_id": 1},
        sort=[("arrival", 1)],
        hint="by_batch",
    )
    return {"job_ids": [job["_id"] async for job in jobs], "batch_id": key["reserved"]}


#: Marks the place of a job whose parts are being written. Nobody sees it, and `tidy` removes it
#: if it is left, as that of a batch which never came to be.
IMPORT_TOKEN = "_copy"
PLACEHOLDER = {"status": STAGED, "staged.token": IMPORT_TOKEN}


async def import_records(db: Database, records: Sequence[Record]) -> set[RecordId]:
    jobs = [record for record in records if isinstance(record, JobRecord)]
    batches = [record for record in records if isinstance(record, BatchRecord)]
    keys = [record for record in records if isinstance(record, KeyRecord)]
    new: set[RecordId] = set()
    if jobs:
        new |= await _import_jobs(db, jobs)
    if batches:
        new |= await _import_batches(db, batches)
    if keys:
        new |= await _import_keys(db, keys)
    return new


async def _import_jobs(db: Database, records: Sequence[JobRecord]) -> set[RecordId]:
    """The places first, then what lies outside the documents, the documents last: with them the
    jobs exist. What is written again after an interruption has the same ids and is no second
    time there."""
    ids = [record.record_id for record in records]
    known = db.jobs.find({"_id": {"$in": ids}, "$nor": [PLACEHOLDER]}, {"_id": 1}, hint="_id_")
    taken = {job["_id"] async for job in known}
    missing = [record for record in records if record.record_id not in taken]
    if not missing:
        return set()
    staged = {"token": IMPORT_TOKEN, "at": await server_time(db)}
    marks = [
        {"_id": record.record_id, "status": STAGED, "batch_id": IMPORT_TOKEN, "staged": staged}
        for record in missing
    ]
    await _replace(db.jobs, marks, only=PLACEHOLDER)
    placements = await _queue_fields(db, missing)
    documents = []
    parts: list[Document] = []
    for record, placement in zip(missing, placements, strict=True):
        values, chunks = _values(record.job)
        parts += chunks
        documents.append(_job_document(db, record) | placement | values)
    await _replace(db.durable.contents, parts)
    await _replace(db.durable.logs, [chunk for record in missing for chunk in _log_chunks(record)])
    return await _replace(db.durable.jobs, documents, only=PLACEHOLDER)


async def _replace(
    collection: Documents, documents: Sequence[Document], *, only: Document | None = None
) -> set[RecordId]:
    """Write these, in place of what is there; with `only` where that fits or nothing is there.
    Gives the ids of those that were written."""
    if not documents:
        return set()
    failed: set[int] = set()
    try:
        await collection.bulk_write(
            [
                ReplaceOne({"_id": one["_id"], **(only or {})}, one, upsert=True)
                for one in documents
            ],
            ordered=False,
        )
    except BulkWriteError as error:
        failed = duplicates(error)
    return {one["_id"] for n, one in enumerate(documents) if n not in failed}


def _values(job: Job) -> tuple[Document, list[Document]]:
    """The fields that hold parameters and results, and what of them lies outside."""
    fields: Document = {}
    chunks: list[Document] = []
    for name, value in (("parameters", job.parameters), ("results", job.results)):
        held, outside = split_value(job.job_id, name, value, blob=f"{job.job_id}/{name}")
        fields |= held
        chunks += outside
    return fields, chunks


def _log_chunks(record: JobRecord) -> list[Document]:
    job_id = record.job.job_id
    chunks = log_chunks(job_id, record.job.logs, first=record.dropped_logs + 1)
    return [chunk | {"_id": f"{job_id}/{chunk['first']}"} for chunk in chunks]


async def _queue_fields(db: Database, records: Sequence[JobRecord]) -> list[Document]:
    placements = Placements(db)
    unplaced = [record.job for record in records if _needs_position(record)]
    await placements.load((job.job_type, job.priority, job.user_id) for job in unplaced)
    return [_fields_of(record, placements) for record in records]


def _needs_position(record: JobRecord) -> bool:
    waits = record.paused or record.job.run_at is not None
    return record.job.status is JobStatus.PENDING and record.position is None and not waits


def _fields_of(record: JobRecord, placements: Placements) -> Document:
    job = record.job
    if job.status is not JobStatus.PENDING:
        return {}
    if record.paused:
        return {"held": True}
    if record.position is not None:
        return {"line": queue_name(job.job_type, job.priority), "turn": record.position}
    if job.run_at is not None:
        return {"due_at": stamp(job.run_at)}
    return placements.for_job(job.job_type, job.priority, job.user_id)


def _job_document(db: Database, record: JobRecord) -> Document:
    job = record.job
    logged = record.dropped_logs + len(job.logs)
    told = without_none(
        attempt=job.attempt,
        failures=job.failures or None,
        crashes=job.crashes or None,
        worker_id=job.worker_id,
        cancel_requested=job.cancel_requested or None,
        error=error_to(job.error) if job.error else None,
        updated_at=stamp(job.updated_at),
        processing_started_at=stamp_or_none(job.processing_started_at),
        completed_at=stamp_or_none(job.completed_at),
        attempts=[_attempt(one) for one in job.past_attempts] or None,
        resources=to_bson(job.resources) if job.resources else None,
        logged=logged or None,
    )
    document = job_document(job, arrival=db.arrival_numbers.next()) | db.new_change_time | told
    return document | _deliveries(job, record.outbox)


def _attempt(attempt: Attempt) -> Document:
    return without_none(
        attempt=attempt.attempt,
        worker_id=attempt.worker_id,
        started_at=stamp(attempt.started_at),
        ended_at=stamp_or_none(attempt.ended_at),
        error=error_to(attempt.error) if attempt.error else None,
    )


def _deliveries(owner: Job | Batch, state: OutboxState) -> Document:
    fields: Document = {}
    if owner.deliveries:
        fields["deliveries"] = [_delivery(one) for one in owner.deliveries]
        fields["told"] = owner.deliveries[-1].n
    if owner.webhook is not None and state.due_at is not None:
        due = {"final": state.final, "due_at": stamp(state.due_at)}
        fields["outbox"] = {"endpoint": owner.webhook.endpoint, **due}
    if state.schedule is not None:
        fields["pace"] = schedule_to(state.schedule)
    return fields


def _delivery(delivery: Delivery) -> Document:
    tries = [one.model_dump(mode="json", exclude_none=True) for one in delivery.tries]
    return without_none(
        delivery_id=delivery.delivery_id,
        event=delivery.event,
        created_at=stamp(delivery.created_at),
        replayed_at=stamp_or_none(delivery.replayed_at),
        delivered_at=stamp_or_none(delivery.delivered_at),
        next_try_at=stamp_or_none(delivery.next_try_at),
        tried=delivery.tried or None,
        tries=tries or None,
    )


async def _import_batches(db: Database, records: Sequence[BatchRecord]) -> set[RecordId]:
    new = await _insert(db.durable.batches, [_batch_document(db, record) for record in records])
    for record in records:
        if record.record_id in new and record.batch.completed_at is None:
            await settle_batch(db, record.record_id)
    return new


def _batch_document(db: Database, record: BatchRecord) -> Document:
    batch = record.batch
    ends = without_none(
        started_at=stamp_or_none(batch.started_at),
        completed_at=stamp_or_none(batch.completed_at),
        open=batch.completed_at is None or None,
    )
    document = batch_document(batch, arrival=db.arrival_numbers.next()) | db.new_change_time | ends
    return document | _deliveries(batch, record.outbox)


async def _import_keys(db: Database, records: Sequence[KeyRecord]) -> set[RecordId]:
    documents = [
        without_none(
            _id={"scope": record.scope, "key": record.key},
            fingerprint=record.fingerprint,
            reserved=record.batch_id or record.job_ids[0],
            job_ids=list(record.job_ids),
            batch_id=record.batch_id,
            expires_at=stamp(record.expires_at),
        )
        for record in records
    ]
    ids = [document["_id"] for document in documents]
    await db.keys.delete_many({"_id": {"$in": ids}, "expires_at": {"$lt": now_stamp()}})
    new = await _insert(db.durable.keys, documents, name=lambda one: (one["scope"], one["key"]))
    return new


async def _insert(
    collection: Documents,
    documents: Sequence[Document],
    *,
    name: Callable[[Any], RecordId] = lambda one: one,
) -> set[RecordId]:
    failed: set[int] = set()
    try:
        await collection.insert_many(documents, ordered=False)
    except BulkWriteError as error:
        failed = duplicates(error)
    return {name(one["_id"]) for n, one in enumerate(documents) if n not in failed}
