"""Everything a store holds in a portable form, so that it can be copied to another store."""

import hashlib
import json
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Literal, Protocol

from ..core.job import Batch, Job, JobStatus
from .outbox import NO_EVENT, OutboxState

Kind = Literal["jobs", "batches", "keys"]
#: The order of copying: batches after their jobs, so that no batch looks empty; keys after what
#: they refer to.
KINDS: tuple[Kind, ...] = ("jobs", "batches", "keys")

#: Records are read and imported in groups of this many, or fewer if they are large.
GROUP = 200
GROUP_BYTES = 8_000_000

#: The id of a job or batch, or the scope and value of an idempotency key.
RecordId = str | tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    #: With results, logs and deliveries; without the log's note on dropped entries.
    job: Job
    dropped_logs: int = 0
    #: Its position in the queue of its type and priority. A pending job that has none and waits
    #: for nothing gets one on import.
    position: int | None = None
    #: It waits for its batch to become active.
    paused: bool = False
    outbox: OutboxState = NO_EVENT

    @property
    def record_id(self) -> str:
        return self.job.job_id

    @property
    def needs_position(self) -> bool:
        job = self.job
        waits = self.paused or job.run_at is not None or job.group_size is not None
        return job.status is JobStatus.PENDING and self.position is None and not waits


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    batch: Batch
    outbox: OutboxState = NO_EVENT

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


class TransferStore(Protocol):
    """Export and import. Workers and leases are not copied: a running job arrives without its
    worker and is rescued."""

    def records(
        self, kind: Kind, ids: Collection[RecordId] | None = None
    ) -> AsyncIterator[list[Record]]:
        """Yield all records of a kind, or those with the given ids, in groups that fit into
        memory. Jobs and batches come oldest first. Expired keys are left out."""

    async def import_records(self, records: Sequence[Record]) -> set[RecordId]:
        """Store records of one kind unchanged, skip those whose id exists, and return the ids of
        the new ones. Each record is stored completely or not at all, so that an interrupted
        import can be repeated."""


def digest(record: Record) -> str:
    """Return a hash that is equal for equal records, whatever stores they come from."""
    match record:
        case JobRecord(job=job):
            portable = job.model_dump(mode="json", by_alias=True)
            portable["queue"] = [record.position, record.paused, record.dropped_logs]
        case BatchRecord(batch=batch):
            portable = batch.model_dump(mode="json", by_alias=True, exclude={"counts"})
            portable["counts"] = {status.value: n for status, n in batch.counts.items() if n}
        case KeyRecord():
            portable = asdict(record)
    if not isinstance(record, KeyRecord):
        portable["outbox"] = asdict(record.outbox)
    text = json.dumps(portable, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def differs(source: Record, target: Record) -> bool:
    """Whether anything was lost in a copy. A position assigned on import does not count."""
    if isinstance(source, JobRecord) and isinstance(target, JobRecord) and source.position is None:
        target = replace(target, position=None)
    return digest(source) != digest(target)
