"""Throughput counters. Completed jobs, which are many, are counted together a moment later; all
others in the transaction that finishes them."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import apsw

from ...core.job import JobStatus, utc_now
from ..stats import (
    RETENTION,
    SLOT,
    UNKNOWN,
    WIDTHS,
    FinishedJob,
    StatsKey,
    Throughput,
    count_finished,
    scope_of,
    slot_of,
    wait_of,
    width_for,
)
from .schema import moment, moment_or_none

#: How many scopes are cleaned up at a time.
SCOPES_PER_SWEEP = 200


def write(db: apsw.Connection, counts: Counter[StatsKey]) -> None:
    rows: Counter[StatsKey] = Counter()
    for (key, n), width in product(counts.items(), WIDTHS):
        scope, slot = f"{width}/{key.scope}", key.slot // width * width
        rows[key._replace(scope=scope, slot=slot)] += n
    db.executemany(
        "INSERT INTO activity VALUES (?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET n = n + excluded.n",
        [(*key, n) for key, n in rows.items()],
    )


def count_one(db: apsw.Connection, seq: int, status: JobStatus, code: str, at: int) -> None:
    row: Any = db.execute(
        "SELECT job_type, user_id, attempt, created_at, processing_started_at FROM jobs"
        " WHERE seq = ?",
        (seq,),
    ).fetchone()
    job_type, user_id, attempt, created_at, started_at = row
    ending = FinishedJob(
        job_type=job_type,
        user_id=user_id,
        status=status.value,
        code=code,
        at=moment(at),
        waited=wait_of(attempt, moment(created_at), moment_or_none(started_at)),
    )
    write(db, count_finished([ending]))


def read(
    db: apsw.Connection, since: datetime, *, step: timedelta, parts: int, user_id: str | None
) -> list[Throughput]:
    first, width = slot_of(since), step // SLOT
    ended: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    failed: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    waits: dict[tuple[int, str], Counter[int]] = defaultdict(Counter)
    rows: Iterable[Any] = db.execute(
        "SELECT (slot - ?1) / ?2, job_type, status, code, rung, sum(n) FROM activity"
        " WHERE scope = ?3 AND slot >= ?1 AND slot < ?1 + ?2 * ?4 GROUP BY 1, 2, 3, 4, 5",
        (first, width, f"{width_for(first, width)}/{scope_of(user_id)}", parts),
    )
    for part, job_type, status, code, rung, n in rows:
        ended[part, job_type][status] += n
        if status == JobStatus.FAILED:
            failed[part, job_type][code] += n
        if rung != UNKNOWN:
            waits[part, job_type][rung] += n
    return [
        Throughput(
            interval=part,
            job_type=job_type,
            completed=counts[JobStatus.COMPLETED],
            cancelled=counts[JobStatus.CANCELLED],
            failed=dict(failed[part, job_type]),
            waits=dict(waits[part, job_type]),
        )
        for (part, job_type), counts in ended.items()
    ]


class ExpiredStats:
    """Drops expired counters, some scopes at a time, as there may be very many users."""

    def __init__(self) -> None:
        self._after = ""

    def drop(self, db: apsw.Connection) -> None:
        before = slot_of(utc_now() - RETENTION)
        scopes = [scope for (scope,) in db.execute(NEXT_SCOPES, (self._after, SCOPES_PER_SWEEP))]
        for scope in scopes:
            db.execute("DELETE FROM activity WHERE scope = ? AND slot < ?", (scope, before))
        self._after = scopes[-1] if len(scopes) == SCOPES_PER_SWEEP else ""


#: One index lookup per scope.
NEXT_SCOPES = (
    "WITH RECURSIVE found(scope) AS ("
    " SELECT min(scope) FROM activity WHERE scope > ?"
    " UNION ALL SELECT (SELECT min(scope) FROM activity WHERE scope > found.scope) FROM found"
    " WHERE found.scope IS NOT NULL)"
    " SELECT scope FROM found WHERE scope IS NOT NULL LIMIT ?"
)
