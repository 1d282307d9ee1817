"""What is too big for a job's document: long parameters and results, and the log."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from ...job import MAX_LOG_ENTRIES, MAX_LOG_MESSAGE, LogEntry
from ..json_text import dumps
from ..notes import NumberedLog, with_note
from .bounds import stored_bytes
from .rows import moment, now_stamp, plain, stamp
from .schema import Database, Document

#: Up to this size, as BSON, a value stays in its job's document.
INLINE_BYTES = 2_500
#: MongoDB takes documents of 16 MB at the most.
CHUNK_BYTES = 8_000_000
#: A thousand of the longest messages would be too big for one document.
ENTRIES_PER_CHUNK = 250

#: Values that may lie outside: the field `<name>_in` then tells where.
OUTSIDE = ("parameters", "results")


async def put_value(
    db: Database, job_id: str, name: str, value: Mapping[str, Any] | None
) -> Document:
    """The fields of a job's document that hold `value`; a big one is written elsewhere first.

    Whether those fields ever get into the job is up to the fence: until then nobody looks there.
    """
    fields, chunks = outside_value(job_id, name, value, blob=uuid4().hex)
    for chunk in chunks:
        await db.durable.contents.insert_one(chunk)
    return fields


def outside_value(
    job_id: str, name: str, value: Mapping[str, Any] | None, *, blob: str
) -> tuple[Document, list[Document]]:
    """The same fields, and what of a big value is still to be written, under the name `blob`."""
    if value is None:
        return {}, []
    data = dumps(value).encode()
    if len(data) <= INLINE_BYTES and stored_bytes(kept := plain(value)) <= INLINE_BYTES:
        return {name: kept}, []
    pieces = [data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES)]
    chunks = [
        {"_id": f"{blob}/{n}", "job_id": job_id, "at": now_stamp(), "data": piece}
        for n, piece in enumerate(pieces)
    ]
    return {f"{name}_in": {"blob": blob, "chunks": len(chunks)}}, chunks


async def filled(db: Database, documents: Sequence[Document]) -> list[Document]:
    """The documents with the values that lie outside; without those deleted meanwhile."""
    ids = chunk_ids(documents)
    if not ids:
        return list(documents)
    found = db.contents.find({"_id": {"$in": ids}}, {"data": 1})
    chunks: dict[str, bytes] = {chunk["_id"]: chunk["data"] async for chunk in found}
    return [
        document | _values(document, chunks)
        for document in documents
        if all(chunk_id in chunks for chunk_id in chunk_ids([document]))
    ]


def _values(document: Document, chunks: Mapping[str, bytes]) -> Document:
    texts = {name: b"".join(chunks[n] for n in ids) for name, ids in _outside(document)}
    return {name: json.loads(text) for name, text in texts.items()}


async def drop_values(db: Database, fields: Iterable[Document]) -> None:
    """Delete what lies outside for documents, or parts of documents, that no longer need it."""
    if ids := chunk_ids(fields):
        await db.contents.delete_many({"_id": {"$in": ids}})


def chunk_ids(documents: Iterable[Document]) -> list[str]:
    return [n for document in documents for _, ids in _outside(document) for n in ids]


def _outside(document: Document) -> Iterator[tuple[str, list[str]]]:
    for name in OUTSIDE:
        if (place := document.get(f"{name}_in")) is not None:
            yield name, [f"{place['blob']}/{n}" for n in range(place["chunks"])]


async def add_logs(db: Database, job_id: str, logs: Sequence[LogEntry], *, last: int) -> None:
    """Append entries to a job's log; `last` is the number of the last of them."""
    await db.logs.insert_many(log_chunks(job_id, logs, first=last - len(logs) + 1))
    if last > MAX_LOG_ENTRIES:
        await db.logs.delete_many({"job_id": job_id, "last": {"$lte": last - MAX_LOG_ENTRIES}})


def log_chunks(job_id: str, logs: Sequence[LogEntry], *, first: int) -> list[Document]:
    """The documents of entries that are numbered from `first` on."""
    entries = [
        {
            "timestamp": stamp(entry.timestamp),
            "level": entry.level,
            "message": entry.message[:MAX_LOG_MESSAGE],
        }
        for entry in logs
    ]
    return [
        {"job_id": job_id, "first": first + start, "last": first + start + len(part) - 1}
        | {"entries": part}
        for start in range(0, len(entries), ENTRIES_PER_CHUNK)
        if (part := entries[start : start + ENTRIES_PER_CHUNK])
    ]


async def logs_of(db: Database, job_ids: Sequence[str]) -> Mapping[str, list[LogEntry]]:
    numbered = await numbered_logs(db, job_ids)
    return {job_id: with_note(numbered[job_id]) for job_id in job_ids}


async def numbered_logs(db: Database, job_ids: Sequence[str]) -> Mapping[str, NumberedLog]:
    chunks: dict[str, list[Document]] = {job_id: [] for job_id in job_ids}
    found = db.logs.find({"job_id": {"$in": list(job_ids)}}).sort([("job_id", 1), ("first", 1)])
    async for chunk in found:
        chunks[chunk["job_id"]].append(chunk)
    return {job_id: _log_from(chunks[job_id]) for job_id in job_ids}


def _log_from(chunks: Sequence[Document]) -> NumberedLog:
    numbered = [
        (n, entry) for chunk in chunks for n, entry in enumerate(chunk["entries"], chunk["first"])
    ]
    return [
        (
            n,
            LogEntry(
                timestamp=moment(entry["timestamp"]), level=entry["level"], message=entry["message"]
            ),
        )
        for n, entry in numbered[-MAX_LOG_ENTRIES:]
    ]
