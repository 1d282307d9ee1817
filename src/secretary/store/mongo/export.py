"""Reads everything out of the collections of MongoDB."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Sequence

from ...job import MAX_LOG_ENTRIES
from ..notes import NumberedLog
from ..transfer import (
    GROUP,
    GROUP_BYTES,
    BatchRecord,
    JobRecord,
    KeyRecord,
    Kind,
    Record,
    RecordId,
    Telling,
)
from .add import publish
from .contents import chunk_ids, filled, numbered_logs
from .outbox import pace_from
from .reading import counted
from .rows import LISTED, job_from, moment, now_stamp
from .schema import Database, Document, Documents

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
        await _finish_additions(db)
    hint = {"jobs": "by_status", "batches": "newest", "keys": "_id_"}[kind]
    while True:
        found = await collection.find(query, sort=[(order, 1)], limit=GROUP, hint=hint).to_list()
        if not found:
            return
        query[order] = {"$gt": found[-1][order]}
        for part in await _parts(db, kind, found):
            yield await _records_of(db, kind, part)


async def _finish_additions(db: Database) -> None:
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


async def _parts(db: Database, kind: Kind, documents: Sequence[Document]) -> list[list[Document]]:
    """Documents that fit into memory together with what lies outside of them."""
    if kind != "jobs":
        return [list(documents)]
    size = {"size": {"$binarySize": "$data"}}
    outside = db.contents.find({"_id": {"$in": chunk_ids(documents)}}, size)
    sizes: dict[str, int] = {chunk["_id"]: chunk["size"] async for chunk in outside}
    return list(_parted(documents, sizes))


def _parted(documents: Sequence[Document], sizes: dict[str, int]) -> Iterator[list[Document]]:
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
            whole = await filled(db, documents)
            logs = await numbered_logs(db, [one["_id"] for one in whole if "logged" in one])
            return [_job_record(one, logs.get(one["_id"], [])) for one in whole]
        case "batches":
            batches = await counted(db, documents)
            return [
                BatchRecord(batch=batch, telling=_telling(document))
                for batch, document in zip(batches, documents, strict=True)
            ]
        case "keys":
            keys = await asyncio.gather(*(_key_record(db, document) for document in documents))
            return [key for key in keys if key is not None]


def _job_record(document: Document, logs: NumberedLog) -> JobRecord:
    return JobRecord(
        job=job_from(document, logs=[entry for _, entry in logs]),
        dropped_logs=logs[0][0] - 1 if logs else 0,
        turn=document.get("turn"),
        held=document.get("held", False),
        telling=_telling(document),
    )


def _telling(document: Document) -> Telling:
    due, pace = document.get("outbox"), document.get("pace")
    return Telling(
        due_at=moment(due["due_at"]) if due else None,
        final=due["final"] if due else False,
        pace=pace_from(pace) if pace else None,
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
