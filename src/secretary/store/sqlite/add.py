"""Takes in new jobs: a batch whole or not at all, and once per key."""

import json
from collections.abc import Sequence

import apsw

from ...errors import Conflict, KeyReused
from ...job import Batch, Job, utc_now
from .. import Added, IdempotencyKey
from . import outbox
from .line import enqueue
from .rows import insert_batch, microseconds
from .states import settle_batch


def add(
    db: apsw.Connection,
    *,
    jobs: Sequence[Job],
    batch: Batch | None,
    idempotency: IdempotencyKey | None,
) -> tuple[Added, dict[int, Job]]:
    """What was stored, and the jobs by the numbers of their rows."""
    if idempotency is not None and (known := _known_key(db, idempotency)) is not None:
        return known, {}
    try:
        if batch is not None:
            insert_batch(db, batch)
            if batch.webhook is not None:
                outbox.register(db, "batch", batch.batch_id, batch.webhook)
        stored = enqueue(db, jobs, held=batch is not None and not batch.is_active)
    except apsw.ConstraintError as error:
        raise Conflict("A job or batch with this id is already stored") from error
    if batch is not None and not jobs:
        settle_batch(db, batch.batch_id)
    added = Added([job.job_id for job in jobs], batch.batch_id if batch else None)
    if idempotency is not None:
        _keep_key(db, idempotency, added)
    return added, stored


def _known_key(db: apsw.Connection, key: IdempotencyKey) -> Added | None:
    row = db.execute(
        "SELECT fingerprint, job_ids, batch_id FROM idempotency_keys"
        " WHERE scope = ? AND key = ? AND expires_at > ?",
        (key.scope, key.key, microseconds(utc_now())),
    ).fetchone()
    if row is None:
        return None
    if row[0] != key.fingerprint:
        raise KeyReused("This idempotency key was used for another request")
    return Added(json.loads(row[1]), row[2], replayed=True)


def _keep_key(db: apsw.Connection, key: IdempotencyKey, added: Added) -> None:
    db.execute(
        "INSERT OR REPLACE INTO idempotency_keys VALUES (?, ?, ?, ?, ?, ?)",
        (
            key.scope,
            key.key,
            key.fingerprint,
            json.dumps(added.job_ids),
            added.batch_id,
            microseconds(key.expires_at),
        ),
    )
