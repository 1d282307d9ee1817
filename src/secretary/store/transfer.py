"""Everything a store holds in a form that belongs to none, so that it can go to another one."""

import hashlib
import json
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, Protocol

from ..core.job import Batch, Job
from .outbox import Pace

Kind = Literal["jobs", "batches", "keys"]
#: In the order in which they go: a batch comes when its jobs are there, so that nobody takes it
#: for one that has none left; a key when what it stands for is.
KINDS: tuple[Kind, ...] = ("jobs", "batches", "keys")

#: A store reads and takes records in groups of so many, or of fewer when they are big.
GROUP = 200
GROUP_BYTES = 8_000_000

#: The id of a job or batch; of a key its scope and itself.
RecordId = str | tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """When a webhook is to be told something; see store/outbox.py."""

    #: None: there is nothing to tell.
    due_at: datetime | None = None
    #: It is the end that is to be told.
    final: bool = False
    #: None: progress is not told.
    pace: Pace | None = None


NOTHING_TO_TELL = Telling()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    #: With results, logs and deliveries; the logs without the note on what was dropped.
    job: Job
    dropped_logs: int = 0
    #: Its place in the line of its type and priority. A pending job that has none and waits for
    #: nothing is given one where it arrives.
    turn: int | None = None
    #: It waits for its batch to become active.
    held: bool = False
    telling: Telling = NOTHING_TO_TELL

    @property
    def record_id(self) -> str:
        return self.job.job_id


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    batch: Batch
    telling: Telling = NOTHING_TO_TELL

    @property
    def record_id(self) -> str:
        return self.batch.batch_id


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """An idempotency key and what was stored under it."""

    scope: str
    key: str
    fingerprint: str
    job_ids: tuple[str, ...]
    batch_id: str | None
    expires_at: datetime

    @property
    def record_id(self) -> tuple[str, str]:
        return self.scope, self.key


Record = JobRecord | BatchRecord | KeyRecord


class Transfer(Protocol):
    """What a store owes to whoever copies it. Workers and their leases stay where they are: a job
    that was being processed arrives as one whose worker is gone, and is rescued."""

    def records(
        self, kind: Kind, ids: Collection[RecordId] | None = None
    ) -> AsyncIterator[list[Record]]:
        """All records of a kind, or those of these ids that there are, in groups that fit into
        memory. Jobs and batches come oldest first. Keys that have expired are left out."""
        ...

    async def import_records(self, records: Sequence[Record]) -> set[RecordId]:
        """Store records of one kind as they are. What has its id already stays as it is; the ids
        of the others are given back. Each record is stored whole or not at all, so that one who
        was interrupted can begin anew."""
        ...


def digest(record: Record) -> str:
    """The same for two records that tell the same, whatever stores they come from."""
    text = json.dumps(_told(record), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _told(record: Record) -> dict[str, Any]:
    match record:
        case JobRecord(job=job, dropped_logs=dropped, turn=turn, held=held, telling=telling):
            document = job.model_dump(mode="json", by_alias=True)
            return {**document, "place": [turn, held], "dropped": dropped, **_due(telling)}
        case BatchRecord(batch=batch, telling=telling):
            document = batch.model_dump(mode="json", by_alias=True, exclude={"counts"})
            counts = {status.value: n for status, n in batch.counts.items() if n}
            return {**document, "counts": counts, **_due(telling)}
        case KeyRecord():
            return {name: getattr(record, name) for name in KeyRecord.__slots__}


def _due(telling: Telling) -> dict[str, Any]:
    pace = telling.pace
    paced = pace and [pace.told_percent, pace.ripe_percent, pace.ripe_at, pace.due_at]
    return {"due": [telling.due_at, telling.final], "pace": paced}


def differs(source: Record, target: Record) -> bool:
    """Whether something was lost on the way. A job without a place was given one."""
    if isinstance(source, JobRecord) and isinstance(target, JobRecord) and source.turn is None:
        target = replace(target, turn=None)
    return digest(source) != digest(target)
