"""Finds jobs in SQLite: each list is a walk down one index, however many jobs are stored."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from ...core.errors import NotFound
from ...core.job import Batch, Job, JobStatus
from ..jobs import BatchQuery, JobQuery, Page, TimeBudget, log_for_clients
from .schema import (
    BATCH_COLUMNS,
    JOB_COLUMNS,
    JOBS,
    batch_from,
    deliveries_of,
    job_from,
    microseconds_or_none,
    moment,
    numbered_log,
)

Term = tuple[str, tuple[Any, ...]]


def get_job(db: apsw.Connection, job_id: str) -> Job:
    row = db.execute(
        f"SELECT {JOB_COLUMNS}, results FROM {JOBS} WHERE job_id = ?", (job_id,)
    ).fetchone()
    if row is None:
        raise NotFound(f"There is no job {job_id}")
    return job_from(
        row[:-1],
        results=row[-1],
        logs=log_for_clients(numbered_log(db, row[0])),
        deliveries=deliveries_of(db, job_id),
    )


def find_jobs(db: apsw.Connection, query: JobQuery) -> Page[Job]:
    with db:  # else a job could be deleted between being found and being read
        found = find_seqs(db, query, limit=query.limit + 1)
        more = len(found) > query.limit
        page = found[: query.limit]
        jobs = [listed_job(db, seq, query.include) for seq, _ in page]
    return Page(jobs, make_cursor(page[-1][1], page[-1][0]) if more else None)


def listed_job(db: apsw.Connection, seq: int, include: frozenset[str]) -> Job:
    results = "results" if "results" in include else "NULL"
    row = db.execute(
        f"SELECT {JOB_COLUMNS}, {results} FROM {JOBS} WHERE jobs.seq = ?", (seq,)
    ).fetchone()
    assert row is not None
    logs = log_for_clients(numbered_log(db, seq)) if "logs" in include else ()
    return job_from(row[:-1], results=row[-1], logs=logs)


def find_seqs(
    db: apsw.Connection, query: JobQuery, *, only: Sequence[Term] = (), limit: int | None = None
) -> list[tuple[int, int]]:
    """(seq, created_at) of the jobs a query finds, newest first."""
    sql, bindings = find_sql(query, only=only, limit=limit or query.limit)
    return [(seq, created_at) for seq, created_at in db.execute(sql, bindings)]


def find_sql(
    query: JobQuery, *, only: Sequence[Term] = (), limit: int
) -> tuple[str, tuple[Any, ...]]:
    """One walk for each state and each ground on which a user may read, merged.

    `OR` and `IN` would lose the order of the index and sort everything that matches.
    """
    walks: list[str] = []
    bindings: list[Any] = []
    for source, table, ground in _access_paths(query.visible_to):
        terms = [*terms_of(query), *_time_terms(query, table), *only]
        for status in sorted(query.status) if query.status else [None]:
            parts = [*terms, *ground]
            if status is not None:
                parts.append(("status = ?", (status.value,)))
            where = " AND ".join(text for text, _ in parts) or "1"
            walks.append(
                f"SELECT * FROM (SELECT jobs.seq, jobs.created_at FROM {source} WHERE {where}"
                f" ORDER BY {table}.created_at DESC, {table}.seq DESC LIMIT ?)"
            )
            bindings += [value for _, values in parts for value in values]
            bindings.append(limit)
    if len(walks) == 1:
        return walks[0], tuple(bindings)
    merged = " UNION ALL ".join(walks) + " ORDER BY 2 DESC, 1 DESC LIMIT ?"
    return merged, (*bindings, limit)


def _access_paths(user: str | None) -> list[tuple[str, str, list[Term]]]:
    """Where to look, which table gives the order, and what must hold."""
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
    """Where a page ended. ValueError if no list gave out this cursor."""
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
    found: dict[str, dict[JobStatus, int]] = {}
    for job_type, status, n in db.execute("SELECT * FROM tallies WHERE n > 0"):
        found.setdefault(job_type, {})[JobStatus(status)] = n
    return found


#: Indexes are compared by how far back so many of their entries go.
ENTRIES_COMPARED = 2_000

Position = tuple[int, int]


@dataclass(frozen=True, slots=True)
class IndexScan:
    """Down one index: which jobs it passes, and which of them are wanted."""

    table: str
    #: The entries of the index alone, and with the rows they stand for.
    entries: str
    rows: str
    passed: tuple[Term, ...] = ()
    wanted: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchResult:
    rows: list[Position]
    #: Where time was up; None: it was not.
    reached: Position | None = None


def search(db: apsw.Connection, query: JobQuery, *, limit: int, seconds: float) -> SearchResult:
    """(created_at, seq) of up to `limit` jobs, newest first."""
    stretches = TimeBudget(seconds)
    times = _time_range(query)
    at = parse_cursor(query.cursor) if query.cursor is not None else None
    walks = _best_scans(db, query, times, at)
    found: list[Position] = []
    while True:
        end = _end_of_step(db, walks, times, at, stretches.step)
        found += _matches(db, walks, times, at, end, limit - len(found))
        if len(found) == limit:
            return SearchResult(found)
        if end is None:
            return SearchResult(found)
        at = end
        if not stretches.next_step():
            return SearchResult(found, end)


def search_jobs(db: apsw.Connection, query: JobQuery, seconds: float) -> Page[Job]:
    """Like `reading.find_jobs`, but for so long only."""
    with db:
        found = search(db, query, limit=query.limit + 1, seconds=seconds)
        full = len(found.rows) > query.limit
        page = found.rows[: query.limit]
        jobs = [listed_job(db, seq, query.include) for _, seq in page]
    if full:
        return Page(jobs, make_cursor(*page[-1]))
    if found.reached is None:
        return Page(jobs)
    searched_to = moment(found.reached[0]) if len(jobs) < query.limit else None
    return Page(jobs, make_cursor(*found.reached), searched_to)


def _best_scans(
    db: apsw.Connection, query: JobQuery, times: Sequence[Any], at: Position | None
) -> list[IndexScan]:
    choices = [_scans(query, index, passed) for index, passed in _indexes(query)]
    if len(choices) == 1:
        return choices[0]
    ends = [_end_of_step(db, walks, times, at, ENTRIES_COMPARED) for walks in choices]
    return min(zip(ends, choices, strict=True), key=lambda pair: pair[0] or (0, 0))[1]


def _indexes(query: JobQuery) -> list[tuple[str, list[Term]]]:
    """Each index that fits one of the terms, with the walks down it."""
    found: list[tuple[str, list[Term]]] = []
    for index, column in (
        ("jobs_by_batch", "batch_id"),
        ("jobs_by_error", "error_code"),
        ("jobs_by_user", "user_id"),
        ("jobs_by_type", "job_type"),
    ):
        if (value := getattr(query, column)) is not None:
            found.append((index, [(f"jobs.{column} = ?", (value,))]))
    if query.visible_to is not None and query.user_id is None:
        found.append(("jobs_by_user", []))
    if query.status:
        walks: list[Term] = [("jobs.status = ?", (one.value,)) for one in sorted(query.status)]
        found.append(("jobs_by_status", walks))
    if query.archived:
        found.append(("jobs_archived", [("archived = 1", ())]))
    return found or [("jobs_newest", [("1", ())])]


def _scans(query: JobQuery, index: str, passed: list[Term]) -> list[IndexScan]:
    wanted = terms_of(query)
    if query.status:
        among = ", ".join("?" * len(query.status))
        statuses = tuple(one.value for one in sorted(query.status))
        wanted.append((f"jobs.status IN ({among})", statuses))
    jobs = f"jobs INDEXED BY {index}"
    if query.visible_to is None:
        return [IndexScan("jobs", jobs, jobs, (one,), tuple(wanted)) for one in passed]
    user = query.visible_to
    own: list[Term] = [("jobs.user_id IS NULL", ()), ("jobs.user_id = ?", (user,))]
    if index == "jobs_by_user":
        # Both are walks down this index; an owner that is asked for is one more wish.
        mine = [IndexScan("jobs", jobs, jobs, (one,), tuple(wanted)) for one in own]
    else:
        either: Term = ("(jobs.user_id IS NULL OR jobs.user_id = ?)", (user,))
        mine = [IndexScan("jobs", jobs, jobs, (one,), (*wanted, either)) for one in passed]
    public = "jobs INDEXED BY jobs_public"
    public_terms: Term = ("public = 1 AND jobs.user_id IS NOT NULL", ())
    others: Term = ("jobs.user_id <> ?", (user,))
    shared: Term = ("readers.user_id = ?", (user,))
    return [
        *mine,
        IndexScan("jobs", public, public, (public_terms,), (*wanted, others)),
        IndexScan(
            "readers",
            "readers",
            "readers CROSS JOIN jobs ON jobs.seq = readers.seq",
            (shared,),
            tuple(wanted),
        ),
    ]


def _end_of_step(
    db: apsw.Connection,
    walks: Sequence[IndexScan],
    times: Sequence[Any],
    at: Position | None,
    length: int,
) -> Position | None:
    """How far all walks get with so many steps each; None: to the end of the list."""
    ends: list[Position] = []
    for walk in walks:
        terms = [*walk.passed, *_scan_bounds(walk.table, times, at)]
        sql, bindings = _select(walk.table, walk.entries, terms)
        row: Any = db.execute(f"{sql} LIMIT 1 OFFSET ?", (*bindings, length - 1)).fetchone()
        if row is not None:
            ends.append(row)
    return max(ends, default=None)


def _matches(
    db: apsw.Connection,
    walks: Sequence[IndexScan],
    times: Sequence[Any],
    at: Position | None,
    end: Position | None,
    limit: int,
) -> list[Position]:
    parts: list[str] = []
    values: list[Any] = []
    for walk in walks:
        terms = [*walk.passed, *walk.wanted, *_scan_bounds(walk.table, times, at)]
        if end is not None:
            terms.append((f"({walk.table}.created_at, {walk.table}.seq) >= (?, ?)", end))
        sql, bindings = _select(walk.table, walk.rows, terms)
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
