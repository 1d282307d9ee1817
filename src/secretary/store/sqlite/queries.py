"""Job and batch queries: each list is a scan of one index, however many jobs are stored."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import apsw

from ...core.errors import NotFound
from ...core.job import Batch, Job, JobStatus, utc_now
from ..jobs import BatchQuery, Change, Changes, JobQuery, Page, TimeBudget, log_for_clients
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
from .schema import (
    BATCH_COLUMNS,
    JOB_COLUMNS,
    JOBS,
    NEXT_REVISION,
    batch_from,
    deliveries_of,
    job_from,
    microseconds_or_none,
    moment,
    moment_or_none,
    numbered_log,
)

Term = tuple[str, tuple[Any, ...]]

#: Read instead of results that exceed `max_results_bytes`; results are text.
TOO_LARGE = 0


class LargeResults(Exception):
    """The results are too large to be read and parsed on the event loop."""


def get_job(db: apsw.Connection, job_id: str, *, max_results_bytes: int | None = None) -> Job:
    row = db.execute(
        f"SELECT {JOB_COLUMNS}, {_results(max_results_bytes)} FROM {JOBS} WHERE job_id = ?",
        (job_id,),
    ).fetchone()
    if row is None:
        raise NotFound(f"There is no job {job_id}")
    if row[-1] == TOO_LARGE:
        raise LargeResults
    return job_from(
        row[:-1],
        results=row[-1],
        logs=log_for_clients(numbered_log(db, row[0])),
        deliveries=deliveries_of(db, job_id),
    )


def _results(max_bytes: int | None) -> str:
    if max_bytes is None:
        return "results"
    return f"iif(octet_length(results) > {max_bytes}, {TOO_LARGE}, results)"


def find_jobs(
    db: apsw.Connection, query: JobQuery, *, max_results_bytes: int | None = None
) -> Page[Job]:
    with db:  # one snapshot: a job could be deleted between the two queries
        rows = find_seqs(db, query, limit=query.limit + 1)
        more = len(rows) > query.limit
        page = rows[: query.limit]
        jobs = [listed_job(db, seq, query.include, max_results_bytes) for seq, _ in page]
    return Page(jobs, make_cursor(page[-1][1], page[-1][0]) if more else None)


def listed_job(
    db: apsw.Connection, seq: int, include: frozenset[str], max_results_bytes: int | None = None
) -> Job:
    results = _results(max_results_bytes) if "results" in include else "NULL"
    row = db.execute(
        f"SELECT {JOB_COLUMNS}, {results} FROM {JOBS} WHERE jobs.seq = ?", (seq,)
    ).fetchone()
    assert row is not None
    if row[-1] == TOO_LARGE:
        raise LargeResults
    logs = log_for_clients(numbered_log(db, seq)) if "logs" in include else ()
    return job_from(row[:-1], results=row[-1], logs=logs)


def find_seqs(
    db: apsw.Connection, query: JobQuery, *, only: Sequence[Term] = (), limit: int | None = None
) -> list[tuple[int, int]]:
    """Return (seq, created_at) of matching jobs, newest first."""
    sql, bindings = find_sql(query, only=only, limit=limit or query.limit)
    return [(seq, created_at) for seq, created_at in db.execute(sql, bindings)]


def find_sql(
    query: JobQuery, *, only: Sequence[Term] = (), limit: int
) -> tuple[str, tuple[Any, ...]]:
    """Merge one index scan per state and per way in which a user may have access.

    `OR` and `IN` would lose the order of the index and sort everything that matches.
    """
    scans: list[str] = []
    bindings: list[Any] = []
    for source, table, access in _access_paths(query.visible_to):
        terms = [*terms_of(query), *_time_terms(query, table), *only]
        for status in sorted(query.status) if query.status else [None]:
            parts = [*terms, *access]
            if status is not None:
                parts.append(("status = ?", (status.value,)))
            where = " AND ".join(text for text, _ in parts) or "1"
            scans.append(
                f"SELECT * FROM (SELECT jobs.seq, jobs.created_at FROM {source} WHERE {where}"
                f" ORDER BY {table}.created_at DESC, {table}.seq DESC LIMIT ?)"
            )
            bindings += [value for _, values in parts for value in values]
            bindings.append(limit)
    if len(scans) == 1:
        return scans[0], tuple(bindings)
    merged = " UNION ALL ".join(scans) + " ORDER BY 2 DESC, 1 DESC LIMIT ?"
    return merged, (*bindings, limit)


def _access_paths(user: str | None) -> list[tuple[str, str, list[Term]]]:
    """Return (source, table that gives the order, terms) per way in which a user has access."""
    if user is None:
        return [("jobs", "jobs", [])]
    return [
        ("jobs", "jobs", [("jobs.user_id IS NULL", ())]),
        ("jobs", "jobs", [("jobs.user_id = ?", (user,))]),
        (
            "jobs INDEXED BY jobs_public",
            "jobs",
            [("public = 1 AND jobs.user_id IS NOT NULL AND jobs.user_id <> ?", (user,))],
        ),
        (
            "readers CROSS JOIN jobs ON jobs.seq = readers.seq",
            "readers",
            [("readers.user_id = ?", (user,))],
        ),
    ]


def terms_of(query: JobQuery) -> list[Term]:
    terms: list[Term] = []
    for column in ("job_id", "job_type", "batch_id", "user_id", "error_code"):
        value = getattr(query, column)
        if value is not None:
            terms.append((f"jobs.{column} = ?", (value,)))
    if query.archived is not None:
        terms.append(("archived = ?", (query.archived,)))
    if query.text is not None:
        pattern = "%" + re.sub("([%_!])", r"!\1", query.text) + "%"
        named = "(job_id = ? OR batch_id = ? OR job_name LIKE ? ESCAPE '!')"
        terms.append((named, (query.text, query.text, pattern)))
    return terms


def _time_terms(query: JobQuery, table: str) -> list[Term]:
    return time_terms(
        table,
        after=microseconds_or_none(query.created_after),
        before=microseconds_or_none(query.created_before),
        behind=parse_cursor(query.cursor) if query.cursor is not None else None,
    )


def time_terms(
    table: str, *, after: int | None, before: int | None, behind: tuple[int, int] | None
) -> list[Term]:
    terms: list[Term] = []
    if after is not None:
        terms.append((f"{table}.created_at > ?", (after,)))
    if before is not None:
        terms.append((f"{table}.created_at < ?", (before,)))
    if behind is not None:
        terms.append((f"({table}.created_at, {table}.seq) < (?, ?)", behind))
    return terms


def make_cursor(created_at: int, seq: int) -> str:
    return f"{created_at}.{seq}"


def parse_cursor(cursor: str) -> tuple[int, int]:
    """Return where a page ended; raises ValueError for an invalid cursor."""
    if not re.fullmatch(r"-?\d{1,18}\.\d{1,18}", cursor):
        raise ValueError(cursor)
    created_at, _, seq = cursor.partition(".")
    return int(created_at), int(seq)


def get_batch(db: apsw.Connection, batch_id: str) -> Batch:
    row = db.execute(
        f"SELECT {BATCH_COLUMNS} FROM batches WHERE batch_id = ?", (batch_id,)
    ).fetchone()
    if row is None:
        raise NotFound(f"There is no batch {batch_id}")
    return batch_from(row, deliveries_of(db, batch_id))


def find_batches(db: apsw.Connection, query: BatchQuery) -> Page[Batch]:
    terms: list[Term] = [("1", ())]
    if query.user_id is not None:
        terms.append(("user_id = ?", (query.user_id,)))
    if query.archived is not None:
        terms.append(("archived = ?", (query.archived,)))
    if query.visible_to is not None:
        mine = "(readers IS NULL OR EXISTS (SELECT 1 FROM json_each(readers) WHERE value = ?))"
        terms.append((mine, (query.visible_to,)))
    if query.cursor is not None:
        terms.append(("(created_at, seq) < (?, ?)", parse_cursor(query.cursor)))
    rows: list[Any] = db.execute(
        f"SELECT {BATCH_COLUMNS}, seq FROM batches WHERE {' AND '.join(t for t, _ in terms)}"
        " ORDER BY created_at DESC, seq DESC LIMIT ?",
        (*(value for _, values in terms for value in values), query.limit + 1),
    ).fetchall()
    page = rows[: query.limit]
    cursor = make_cursor(page[-1][12], page[-1][-1]) if len(rows) > query.limit else None
    return Page([batch_from(row[:-1]) for row in page], cursor)


def count_jobs_of_user(db: apsw.Connection, user_id: str) -> dict[JobStatus, int]:
    rows = db.execute(
        "SELECT status, count(*) FROM jobs INDEXED BY jobs_by_user WHERE user_id = ? GROUP BY 1",
        (user_id,),
    )
    return {JobStatus(status): n for status, n in rows}


def count_jobs(db: apsw.Connection) -> dict[str, dict[JobStatus, int]]:
    counts: dict[str, dict[JobStatus, int]] = {}
    for job_type, status, n in db.execute("SELECT * FROM tallies WHERE n > 0"):
        counts.setdefault(job_type, {})[JobStatus(status)] = n
    return counts


# Not a row-value comparison: SQLite would only seek by the first column and scan the rest.
CHANGES = (
    "SELECT * FROM (SELECT revision, seq, job_id, batch_id FROM jobs INDEXED BY jobs_changed"
    " WHERE revision = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3)"
    " UNION ALL SELECT * FROM (SELECT revision, seq, job_id, batch_id FROM jobs"
    " INDEXED BY jobs_changed WHERE revision > ?1 ORDER BY revision, seq LIMIT ?3)"
    " UNION ALL SELECT * FROM (SELECT revision, 0, job_id, batch_id FROM traces"
    " WHERE revision > ?1 ORDER BY revision LIMIT ?3)"
    " ORDER BY 1, 2 LIMIT ?3"
)


def changes(db: apsw.Connection, since: str | None, *, limit: int) -> Changes:
    position = _parse_position(since) if since is not None else None
    with db:  # one snapshot for both queries
        newest: int = db.execute(f"SELECT {NEXT_REVISION}").get - 1
        if position is None or position[0] > newest:  # invalid, or of another database
            return Changes([], _position(newest, _END_OF_REVISION), gap=since is not None)
        rows: list[Any] = db.execute(CHANGES, (*position, limit)).fetchall()
    items = [Change(job_id, batch_id) for _, _, job_id, batch_id in rows]
    if len(rows) < limit:
        return Changes(items, _position(newest, _END_OF_REVISION))
    return Changes(items, _position(rows[-1][0], rows[-1][1]))


#: Sorts after every row of a revision.
_END_OF_REVISION = 2**62


def _position(revision: int, seq: int) -> str:
    return f"{revision}" if seq == _END_OF_REVISION else f"{revision}.{seq}"


def _parse_position(position: str) -> tuple[int, int] | None:
    match = re.fullmatch(r"(\d{1,18})(?:\.(\d{1,18}))?", position, re.ASCII)
    return (int(match[1]), int(match[2] or _END_OF_REVISION)) if match else None


#: The best index is the one whose first entries, this many, reach back furthest.
ENTRIES_COMPARED = 2_000

Position = tuple[int, int]


@dataclass(frozen=True, slots=True)
class IndexScan:
    """A scan of one index: the range it covers, and the filter for its rows."""

    table: str
    #: The FROM clause for index entries alone, and for full rows.
    entries: str
    rows: str
    range: tuple[Term, ...] = ()
    filters: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchResult:
    rows: list[Position]
    #: Where the search ran out of time; None if it did not.
    reached: Position | None = None


def search(db: apsw.Connection, query: JobQuery, *, limit: int, seconds: float) -> SearchResult:
    """Find (created_at, seq) of up to `limit` jobs, newest first, within a time limit."""
    budget = TimeBudget(seconds)
    times = _time_range(query)
    at = parse_cursor(query.cursor) if query.cursor is not None else None
    scans = _best_scans(db, query, times, at)
    rows: list[Position] = []
    while True:
        end = _end_of_step(db, scans, times, at, budget.step)
        rows += _matches(db, scans, times, at, end, limit - len(rows))
        if len(rows) == limit:
            return SearchResult(rows)
        if end is None:
            return SearchResult(rows)
        at = end
        if not budget.next_step():
            return SearchResult(rows, end)


def search_jobs(db: apsw.Connection, query: JobQuery, seconds: float) -> Page[Job]:
    """Like `find_jobs`, within a time limit."""
    with db:
        result = search(db, query, limit=query.limit + 1, seconds=seconds)
        full = len(result.rows) > query.limit
        page = result.rows[: query.limit]
        jobs = [listed_job(db, seq, query.include) for _, seq in page]
    if full:
        return Page(jobs, make_cursor(*page[-1]))
    if result.reached is None:
        return Page(jobs)
    searched_to = moment(result.reached[0]) if len(jobs) < query.limit else None
    return Page(jobs, make_cursor(*result.reached), searched_to)


def _best_scans(
    db: apsw.Connection, query: JobQuery, times: Sequence[Any], at: Position | None
) -> list[IndexScan]:
    choices = [_scans(query, index, ranges) for index, ranges in _indexes(query)]
    if len(choices) == 1:
        return choices[0]
    ends = [_end_of_step(db, scans, times, at, ENTRIES_COMPARED) for scans in choices]
    return min(zip(ends, choices, strict=True), key=lambda pair: pair[0] or (0, 0))[1]


def _indexes(query: JobQuery) -> list[tuple[str, list[Term]]]:
    """Return each index that fits one of the terms, with the ranges to scan."""
    choices: list[tuple[str, list[Term]]] = []
    for index, column in (
        ("jobs_by_batch", "batch_id"),
        ("jobs_by_error", "error_code"),
        ("jobs_by_user", "user_id"),
        ("jobs_by_type", "job_type"),
    ):
        if (value := getattr(query, column)) is not None:
            choices.append((index, [(f"jobs.{column} = ?", (value,))]))
    if query.visible_to is not None and query.user_id is None:
        choices.append(("jobs_by_user", []))
    if query.status:
        terms: list[Term] = [("jobs.status = ?", (one.value,)) for one in sorted(query.status)]
        choices.append(("jobs_by_status", terms))
    if query.archived:
        choices.append(("jobs_archived", [("archived = 1", ())]))
    return choices or [("jobs_newest", [("1", ())])]


def _scans(query: JobQuery, index: str, ranges: list[Term]) -> list[IndexScan]:
    filters = terms_of(query)
    if query.status:
        among = ", ".join("?" * len(query.status))
        statuses = tuple(one.value for one in sorted(query.status))
        filters.append((f"jobs.status IN ({among})", statuses))
    jobs = f"jobs INDEXED BY {index}"
    if query.visible_to is None:
        return [IndexScan("jobs", jobs, jobs, (one,), tuple(filters)) for one in ranges]
    user = query.visible_to
    own: list[Term] = [("jobs.user_id IS NULL", ()), ("jobs.user_id = ?", (user,))]
    if index == "jobs_by_user":
        # Both are ranges of this index; a requested owner is one more filter.
        mine = [IndexScan("jobs", jobs, jobs, (one,), tuple(filters)) for one in own]
    else:
        either: Term = ("(jobs.user_id IS NULL OR jobs.user_id = ?)", (user,))
        mine = [IndexScan("jobs", jobs, jobs, (one,), (*filters, either)) for one in ranges]
    public = "jobs INDEXED BY jobs_public"
    public_terms: Term = ("public = 1 AND jobs.user_id IS NOT NULL", ())
    others: Term = ("jobs.user_id <> ?", (user,))
    shared: Term = ("readers.user_id = ?", (user,))
    return [
        *mine,
        IndexScan("jobs", public, public, (public_terms,), (*filters, others)),
        IndexScan(
            "readers",
            "readers",
            "readers CROSS JOIN jobs ON jobs.seq = readers.seq",
            (shared,),
            tuple(filters),
        ),
    ]


def _end_of_step(
    db: apsw.Connection,
    scans: Sequence[IndexScan],
    times: Sequence[Any],
    at: Position | None,
    length: int,
) -> Position | None:
    """Return how far all scans get with this many entries each; None is the end of the list."""
    ends: list[Position] = []
    for scan in scans:
        terms = [*scan.range, *_scan_bounds(scan.table, times, at)]
        sql, bindings = _select(scan.table, scan.entries, terms)
        row: Any = db.execute(f"{sql} LIMIT 1 OFFSET ?", (*bindings, length - 1)).fetchone()
        if row is not None:
            ends.append(row)
    return max(ends, default=None)


def _matches(
    db: apsw.Connection,
    scans: Sequence[IndexScan],
    times: Sequence[Any],
    at: Position | None,
    end: Position | None,
    limit: int,
) -> list[Position]:
    parts: list[str] = []
    values: list[Any] = []
    for scan in scans:
        terms = [*scan.range, *scan.filters, *_scan_bounds(scan.table, times, at)]
        if end is not None:
            terms.append((f"({scan.table}.created_at, {scan.table}.seq) >= (?, ?)", end))
        sql, bindings = _select(scan.table, scan.rows, terms)
        parts.append(f"SELECT * FROM ({sql} LIMIT ?)")
        values += [*bindings, limit]
    merged = " UNION ALL ".join(parts) + " ORDER BY 1 DESC, 2 DESC LIMIT ?"
    return [(created_at, seq) for created_at, seq in db.execute(merged, (*values, limit))]


def _select(table: str, source: str, terms: Sequence[Term]) -> tuple[str, tuple[Any, ...]]:
    where = " AND ".join(text for text, _ in terms)
    order = f"ORDER BY {table}.created_at DESC, {table}.seq DESC"
    sql = f"SELECT {table}.created_at, {table}.seq FROM {source} WHERE {where} {order}"
    return sql, tuple(value for _, values in terms for value in values)


def _time_range(query: JobQuery) -> tuple[int | None, int | None]:
    return microseconds_or_none(query.created_after), microseconds_or_none(query.created_before)


def _scan_bounds(table: str, times: Sequence[Any], at: Position | None) -> list[Term]:
    return time_terms(table, after=times[0], before=times[1], behind=at)


#: How many scopes are cleaned up at a time.
SCOPES_PER_SWEEP = 200


def write_counters(db: apsw.Connection, counts: Counter[StatsKey]) -> None:
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
    write_counters(db, count_finished([ending]))


def read_throughput(
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
