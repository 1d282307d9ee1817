"""Throughput counters: one document per scope and slot, and one per scope and hour."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import product
from typing import Any

from pymongo import UpdateOne

from ...core.job import utc_now
from ..stats import (
    FAILED,
    RETENTION,
    SLOT,
    UNKNOWN,
    WIDTHS,
    FinishedJob,
    StatsKey,
    Throughput,
    scope_of,
    slot_of,
    wait_of,
    width_for,
)
from .rows import moment, moment_or_none
from .schema import Document, Documents

#: Characters that field names may not contain, and their escapes.
SPECIAL = {"%": "%25", ".": "%2E", "$": "%24", "\0": "%00"}


async def write(documents: Documents, counts: Counter[StatsKey]) -> None:
    await documents.bulk_write(updates(counts), ordered=False)


async def read(
    documents: Documents, since: datetime, *, step: timedelta, parts: int, user_id: str | None
) -> list[Throughput]:
    first, width, scope = slot_of(since), step // SLOT, scope_of(user_id)
    slots = width_for(first, width)
    ends = (_id(scope, slots, slot) for slot in (first, first + width * parts))
    cursor = documents.find({"_id": dict(zip(("$gte", "$lt"), ends, strict=True))})
    merged: dict[tuple[int, str], Counter[tuple[str, str]]] = defaultdict(Counter)
    for document in await cursor.to_list():
        part = (document["slot"] - first) // width
        for job_type, counts in document["types"].items():
            merged[part, _unescape(job_type)] += _flat(counts)
    return [_throughput(part, job_type, counts) for (part, job_type), counts in merged.items()]


async def drop_expired(documents: Documents) -> None:
    await documents.delete_many({"slot": {"$lt": slot_of(utc_now() - RETENTION)}}, hint="by_slot")


def _id(scope: str, width: int, slot: int) -> str:
    return f"{scope}/{width}/{slot:012}"


def updates(counts: Counter[StatsKey]) -> list[UpdateOne]:
    added: dict[tuple[str, int, int], Counter[str]] = defaultdict(Counter)
    for (key, n), width in product(counts.items(), WIDTHS):
        fields = added[key.scope, width, key.slot // width * width]
        job_type = f"types.{_escape(key.job_type)}"
        name = f".{_escape(key.code)}" if key.status == FAILED else ""
        fields[f"{job_type}.{key.status}{name}"] += n
        if key.bucket != UNKNOWN:
            fields[f"{job_type}.waits.{key.bucket}"] += n
    return [
        UpdateOne(
            {"_id": _id(scope, width, slot)},
            {"$inc": dict(fields), "$setOnInsert": {"slot": slot}},
            upsert=True,
        )
        for (scope, width, slot), fields in added.items()
    ]


def _flat(counts: Document) -> Counter[tuple[str, str]]:
    flat: Counter[tuple[str, str]] = Counter()
    for name, value in counts.items():
        if isinstance(value, dict):
            flat.update({(name, inner): n for inner, n in value.items()})
        else:
            flat[name, ""] = value
    return flat


def _throughput(part: int, job_type: str, counts: Mapping[tuple[str, str], int]) -> Throughput:
    def within(name: str) -> dict[str, int]:
        return {inner: n for (outer, inner), n in counts.items() if outer == name}

    return Throughput(
        interval=part,
        job_type=job_type,
        completed=sum(within("completed").values()),
        cancelled=sum(within("cancelled").values()),
        failed={_unescape(code): n for code, n in within("failed").items()},
        waits={int(rung): n for rung, n in within("waits").items()},
    )


def _escape(text: str) -> str:
    escaped = "".join(SPECIAL.get(sign, sign) for sign in text)
    return escaped or "%"  # field names must not be empty


def _unescape(name: str) -> str:
    if name == "%":
        return ""
    for sign in reversed(SPECIAL):
        name = name.replace(SPECIAL[sign], sign)
    return name


def finished_job(
    job: Mapping[str, Any], status: str, error: Document | None, at: str
) -> FinishedJob:
    started_at = moment_or_none(job.get("processing_started_at"))
    return FinishedJob(
        job_type=job["job_type"],
        user_id=job.get("user_id"),
        status=status,
        code=error["code"] if error else None,
        at=moment(at),
        waited=wait_of(job.get("attempt", 0), moment(job["created_at"]), started_at),
    )
