"""Export and import of all records."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Collection, Sequence

from pymongo import ReplaceOne
from pymongo.errors import BulkWriteError

from ...core.job import MAX_LOG_ENTRIES, Batch, Delivery, Job, JobStatus
from ..jobs import NumberedLog
from ..outbox import OutboxState
from ..transfer import (
    GROUP,
    GROUP_BYTES,
    BatchRecord,
    JobRecord,
    KeyRecord,
    Kind,
    Record,
    RecordId,
)
from . import schema
from .client_actions import duplicates, publish_added, server_time
from .outbox import schedule_from, state_to
from .queries import with_counts
from .transitions import Placements, queue_name, settle_batch, user_queue_of

#: The assumed size of a log entry when grouping records.
ENTRY_BYTES = 500


async def records(
    db: schema.Database, kind: Kind, ids: Collection[RecordId] | None
) -> AsyncIterator[list[Record]]:
    sources: dict[Kind, tuple[schema.Document, schema.Documents, str, str]] = {
        "jobs": ({"status": {"$in": schema.LISTED}}, db.jobs, "listed_at", "by_status"),
        "batches": ({}, db.batches, "listed_at", "newest"),
        "keys": ({"expires_at": {"$gt": schema.now_stamp()}}, db.keys, "_id", "_id_"),
    }
    query, collection, order, hint = sources[kind]
    if ids is not None:
        keys = [{"scope": one[0], "key": one[1]} if isinstance(one, tuple) else one for one in ids]
        documents = await collection.find({**query, "_id": {"$in": keys}}).to_list()
        yield await _records_of(db, kind, documents)
        return
    if kind == "jobs":
        await publish_added(db, {})
    while True:
        documents = await collection.find(
            query, sort=[(order, 1)], limit=GROUP, hint=hint
        ).to_list()
        if not documents:
            return
        query[order] = {"$gt": documents[-1][order]}
        async for part in _groups_in_memory(db, kind, documents):
            yield await _records_of(db, kind, part)


async def _groups_in_memory(
    db: schema.Database, kind: Kind, documents: list[schema.Document]
) -> AsyncIterator[list[schema.Document]]:
    """Group documents so that each group fits into memory with its overflow values."""
    if kind != "jobs":
        yield documents
        return
    projection = {"size": {"$binarySize": "$data"}}
    chunks = db.contents.find({"_id": {"$in": schema.chunk_ids(documents)}}, projection)
    sizes: dict[str, int] = {chunk["_id"]: chunk["size"] async for chunk in chunks}
    group: list[schema.Document] = []
    size = 0
    for document in documents:
        logged = min(document.get("logged", 0), MAX_LOG_ENTRIES)
        needed = (
            sum(sizes.get(one, 0) for one in schema.chunk_ids([document])) + logged * ENTRY_BYTES
        )
        if group and size + needed > GROUP_BYTES:
            yield group
            group, size = [], 0
        group.append(document)
        size += needed
    yield group


async def _records_of(
    db: schema.Database, kind: Kind, documents: Sequence[schema.Document]
) -> list[Record]:
    match kind:
        case "jobs":
            whole = await schema.with_overflow(db, documents)
            logs = await schema.numbered_logs(db, [one["_id"] for one in whole if "logged" in one])
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


def _job_record(document: schema.Document, logs: NumberedLog) -> JobRecord:
    return JobRecord(
        job=schema.job_from(document, logs=[entry for _, entry in logs]),
        dropped_logs=logs[0][0] - 1 if logs else 0,
        position=document.get("turn"),
        paused=document.get("held", False),
        outbox=_outbox_state(document),
    )


def _outbox_state(document: schema.Document) -> OutboxState:
    due, pace = document.get("outbox"), document.get("pace")
    return OutboxState(
        due_at=schema.moment(due["due_at"]) if due else None,
        final=due["final"] if due else False,
        schedule=schedule_from(pace) if pace else None,
    )


async def _key_record(db: schema.Database, document: schema.Document) -> KeyRecord | None:
    stored = document if "job_ids" in document else await _stored_under(db, document)
    if stored is None:
        return None
    return KeyRecord(
        scope=document["_id"]["scope"],
        key=document["_id"]["key"],
        fingerprint=document["fingerprint"],
        job_ids=tuple(stored["job_ids"]),
        batch_id=stored.get("batch_id"),
        expires_at=schema.moment(document["expires_at"]),
    )


async def _stored_under(db: schema.Database, key: schema.Document) -> schema.Document | None:
    """Return what a process stored under the key before it crashed; None if nothing."""
    mine = {"_id": key["reserved"], "idempotency_key": key["_id"]}
    if await db.jobs.find_one({**mine, "status": {"$in": schema.LISTED}}, {"_id": 1}) is not None:
        return {"job_ids": [key["reserved"]]}
    if await db.batches.find_one(mine, {"_id": 1}) is None:
        return None
    jobs = db.jobs.find(
        {"batch_id": key["reserved"], "status": {"$in": schema.LISTED}},
        {"_id": 1},
        sort=[("arrival", 1)],
        hint="by_batch",
    )
    return {"job_ids": [job["_id"] async for job in jobs], "batch_id": key["reserved"]}


#: Marks the invisible placeholder of a job that is being imported. `tidy` removes leftovers, like
#: staged jobs whose batch was not added.
IMPORT_TOKEN = "_copy"
PLACEHOLDER = {"status": schema.STAGED, "staged.token": IMPORT_TOKEN}


async def import_records(db: schema.Database, records: Sequence[Record]) -> set[RecordId]:
    new: set[RecordId] = set()
    if jobs := [record for record in records if isinstance(record, JobRecord)]:
        new |= await _import_jobs(db, jobs)
    if batches := [record for record in records if isinstance(record, BatchRecord)]:
        new |= await _import_batches(db, batches)
    if keys := [record for record in records if isinstance(record, KeyRecord)]:
        new |= await _import_keys(db, keys)
    return new


async def _import_jobs(db: schema.Database, records: Sequence[JobRecord]) -> set[RecordId]:
    """Write placeholders, then overflow chunks and logs, and the documents last: they make the jobs
    exist. After an interruption, everything is written again under the same ids."""
    ids = [record.record_id for record in records]
    existing = db.jobs.find({"_id": {"$in": ids}, "$nor": [PLACEHOLDER]}, {"_id": 1}, hint="_id_")
    existing_ids = {job["_id"] async for job in existing}
    new = [record for record in records if record.record_id not in existing_ids]
    if not new:
        return set()
    staged = {"token": IMPORT_TOKEN, "at": await server_time(db)}
    placeholders = [
        {
            "_id": record.record_id,
            "status": schema.STAGED,
            "batch_id": IMPORT_TOKEN,
            "staged": staged,
        }
        for record in new
    ]
    await _replace(db.jobs, placeholders, only=PLACEHOLDER)
    unplaced = [user_queue_of(record.job) for record in new if record.needs_position]
    placements = await Placements.load(db, unplaced)
    documents: list[schema.Document] = []
    chunks: list[schema.Document] = []
    logs: list[schema.Document] = []
    for record in new:
        job = record.job
        document = _job_document(db, record) | _queue_fields(record, placements)
        for name, value in (("parameters", job.parameters), ("results", job.results)):
            inline, overflow = schema.split_value(
                job.job_id, name, value, blob=f"{job.job_id}/{name}"
            )
            document |= inline
            chunks += overflow
        documents.append(document)
        for chunk in schema.log_chunks(job.job_id, job.logs, first=record.dropped_logs + 1):
            logs.append(chunk | {"_id": f"{job.job_id}/{chunk['first']}"})
    await _replace(db.durable.contents, chunks)
    await _replace(db.durable.logs, logs)
    written = await _replace(db.durable.jobs, documents, only=PLACEHOLDER)
    return {document["_id"] for document in written}


async def _replace(
    collection: schema.Documents,
    documents: Sequence[schema.Document],
    *,
    only: schema.Document | None = None,
) -> list[schema.Document]:
    """Insert or replace documents; with `only`, replace just those that match it. Returns the
    written documents."""
    requests = [
        ReplaceOne({"_id": one["_id"], **(only or {})}, one, upsert=True) for one in documents
    ]
    if not requests:
        return []
    return await _written(collection.bulk_write(requests, ordered=False), documents)


async def _written(
    write: Awaitable[object], documents: Sequence[schema.Document]
) -> list[schema.Document]:
    """Await a write of many documents; return those that were not refused as duplicates."""
    failed: set[int] = set()
    try:
        await write
    except BulkWriteError as error:
        failed = duplicates(error)
    return [one for n, one in enumerate(documents) if n not in failed]


def _queue_fields(record: JobRecord, placements: Placements) -> schema.Document:
    job = record.job
    if job.status is not JobStatus.PENDING:
        return {}
    if record.paused:
        return {"held": True}
    if record.position is not None:
        return {"line": queue_name(job.job_type, job.priority), "turn": record.position}
    if job.run_at is not None:
        return {"due_at": schema.stamp(job.run_at)}
    return placements.for_job(*user_queue_of(job), suspect=job.group_size is not None)


def _job_document(db: schema.Database, record: JobRecord) -> schema.Document:
    job = record.job
    logged = record.dropped_logs + len(job.logs)
    state = schema.without_none(
        **{name: getattr(job, name) or None for name in schema.STATE_FIELDS},
        error=schema.error_to(job.error) if job.error else None,
        updated_at=schema.stamp(job.updated_at),
        processing_started_at=schema.stamp_or_none(job.processing_started_at),
        completed_at=schema.stamp_or_none(job.completed_at),
        expires_at=schema.stamp_or_none(job.expires_at),
        attempts=[schema.attempt_to(one) for one in job.past_attempts] or None,
        resources=schema.to_bson(job.resources) if job.resources else None,
        logged=logged or None,
    )
    document = schema.job_document(job, arrival=db.next_arrival()) | db.new_change_time | state
    return document | _deliveries(job, record.outbox)


def _deliveries(owner: Job | Batch, state: OutboxState) -> schema.Document:
    fields: schema.Document = {}
    if owner.deliveries:
        fields["deliveries"] = [_delivery(one) for one in owner.deliveries]
        fields["told"] = owner.deliveries[-1].n
    return fields | state_to(owner.webhook, owner.user_id, state)


def _delivery(delivery: Delivery) -> schema.Document:
    tries = [one.model_dump(mode="json", exclude_none=True) for one in delivery.tries]
    return schema.without_none(
        delivery_id=delivery.delivery_id,
        event=delivery.event,
        created_at=schema.stamp(delivery.created_at),
        replayed_at=schema.stamp_or_none(delivery.replayed_at),
        delivered_at=schema.stamp_or_none(delivery.delivered_at),
        next_try_at=schema.stamp_or_none(delivery.next_try_at),
        tried=delivery.tried or None,
        tries=tries or None,
    )


async def _import_batches(db: schema.Database, records: Sequence[BatchRecord]) -> set[RecordId]:
    documents = [_batch_document(db, record) for record in records]
    insert = db.durable.batches.insert_many(documents, ordered=False)
    new = await _written(insert, documents)
    for document in new:
        if "open" in document:
            await settle_batch(db, document["_id"])
    return {document["_id"] for document in new}


def _batch_document(db: schema.Database, record: BatchRecord) -> schema.Document:
    batch = record.batch
    ends = schema.without_none(
        started_at=schema.stamp_or_none(batch.started_at),
        completed_at=schema.stamp_or_none(batch.completed_at),
        open=batch.completed_at is None or None,
    )
    document = schema.batch_document(batch, arrival=db.next_arrival()) | db.new_change_time | ends
    return document | _deliveries(batch, record.outbox)


async def _import_keys(db: schema.Database, records: Sequence[KeyRecord]) -> set[RecordId]:
    documents = [
        schema.without_none(
            _id={"scope": record.scope, "key": record.key},
            fingerprint=record.fingerprint,
            reserved=record.batch_id or record.job_ids[0],
            job_ids=list(record.job_ids),
            batch_id=record.batch_id,
            expires_at=schema.stamp(record.expires_at),
        )
        for record in records
    ]
    ids = [document["_id"] for document in documents]
    await db.keys.delete_many({"_id": {"$in": ids}, "expires_at": {"$lt": schema.now_stamp()}})
    new = await _written(db.durable.keys.insert_many(documents, ordered=False), documents)
    return {(one["_id"]["scope"], one["_id"]["key"]) for one in new}
