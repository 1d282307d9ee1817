"""Queries for jobs, batches, changes and statistics: each list is a scan of one index, however many
jobs are stored."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import islice, product
from typing import Any

import apsw

from ...core.errors import NotFound
from ...core.job import Batch, Job, JobStatus, utc_now
from .. import stats
from ..jobs import BatchQuery, Change, Changes, JobQuery, Page, TimeBudget, log_for_clients
from . import schema

Term = tuple[str, tuple[Any, ...]]
#: `created_at` and `seq` of a job or batch, the order of all lists.
Position = tuple[int, int]

#: Read instead of results that exceed `max_results_bytes`; results are text.
TOO_LARGE = 0


class LargeResults(Exception):
    """The results are too large to be read and parsed on the event loop."""


def get_job(db: apsw.Connection, job_id: str, *, max_results_bytes: int | None = None) -> Job:
    details = frozenset({"results", "logs", "deliveries"})
    job = _read_job(db, "job_id", job_id, details, max_results_bytes)
    if job is None:
        raise NotFound(f"There is no job {job_id}")
    return job


def _read_job(
    db: apsw.Connection,
    column: str,
    value: str | int,
    include: frozenset[str],
    max_results_bytes: int | None,
) -> Job | None:
    results = "results" if "results" in include else "NULL"
    if max_results_bytes is not None:
        results = f"iif(octet_length({results}) > {max_results_bytes}, {TOO_LARGE}, {results})"
    row = db.execute(
        f"SELECT {schema.JOB_COLUMNS}, {results} FROM {schema.JOBS} WHERE jobs.{column} = ?",
        (value,),
    ).fetchone()
    if row is None:
        return None
    if row[-1] == TOO_LARGE:
        raise LargeResults
    return schema.job_from(
        row[:-1],
        results=row[-1],
        logs=log_for_clients(schema.numbered_log(db, row[0])) if "logs" in include else (),
        deliveries=schema.deliveries_of(db, row[1]) if "deliveries" in include else (),
    )


def find_jobs(
    db: apsw.Connection, query: JobQuery, *, max_results_bytes: int | None = None
) -> Page[Job]:
    reached: Position | None = None
    with db:  # one snapshot: a job could be deleted between the two queries
        if query.search_seconds is not None and query.job_id is None:
            rows, reached = _search(db, query, query.limit + 1, query.search_seconds)
        else:
            rows = find_seqs(db, query, limit=query.limit + 1)
        page = rows[: query.limit]
        found = [_read_job(db, "seq", seq, query.include, max_results_bytes) for _, seq in page]
    jobs = [job for job in found if job is not None]
    if len(rows) > query.limit:
        return Page(jobs, make_cursor(*page[-1]))
    if reached is None:
        return Page(jobs)
    searched_to = schema.moment(reached[0]) if len(jobs) < query.limit else None
    return Page(jobs, make_cursor(*reached), searched_to)


def find_seqs(
    db: apsw.Connection, query: JobQuery, *, only: Sequence[Term] = (), limit: int | None = None
) -> list[Position]:
    """Return the positions of matching jobs, newest first."""
    sql, bindings = find_sql(query, only=only, limit=limit or query.limit)
    return [(created_at, seq) for created_at, seq in db.execute(sql, bindings)]


@dataclass(frozen=True, slots=True)
class IndexScan:
    """A scan of one index: the range it covers, and the filter for its rows."""

    #: The FROM clause for full rows.
    source: str
    range: Term
    filters: Sequence[Term] = ()
    #: Gives the order; its index entries alone are enough to measure the scan.
    table: str = "jobs"


def find_sql(
    query: JobQuery, *, only: Sequence[Term] = (), limit: int
) -> tuple[str, tuple[Any, ...]]:
    """One index scan per state and per way in which a user may have access."""
    after = parse_cursor(query.cursor) if query.cursor is not None else None
    states: list[list[Term]] = [
        [("status = ?", (one.value,))] for one in sorted(query.status or ())
    ]
    selects: list[Term] = []
    filters = terms_of(query)
    own = [IndexScan("jobs", one, filters) for one in _own_jobs(query.visible_to)]
    for scan in _visible_scans(query, own, filters):
        terms = [*scan.filters, *_bounds(query, scan.table, after), *only, scan.range]
        selects += [_select(scan.table, scan.source, [*terms, *one]) for one in states or [[]]]
    return _merged(selects, limit)


def _own_jobs(user: str | None) -> list[Term]:
    """The ranges of jobs that belong to nobody or to this user; all jobs without a user."""
    if user is None:
        return [("1", ())]
    return [("jobs.user_id IS NULL", ()), ("jobs.user_id = ?", (user,))]


def _visible_scans(
    query: JobQuery, own: list[IndexScan], filters: Sequence[Term]
) -> list[IndexScan]:
    """Add the scans of what others made public or shared with the user."""
    if (user := query.visible_to) is None:
        return own
    public: Term = ("public = 1 AND jobs.user_id IS NOT NULL", ())
    others: Term = ("jobs.user_id <> ?", (user,))
    shared: Term = ("readers.user_id = ?", (user,))
    return [
        *own,
        IndexScan("jobs INDEXED BY jobs_public", public, [*filters, others]),
        IndexScan("readers CROSS JOIN jobs ON jobs.seq = readers.seq", shared, filters, "readers"),
    ]


def _select(table: str, source: str, terms: Sequence[Term]) -> Term:
    sql = (
        f"SELECT {table}.created_at, {table}.seq FROM {source}"
        f" WHERE {' AND '.join(text for text, _ in terms)}"
        f" ORDER BY {table}.created_at DESC, {table}.seq DESC LIMIT ?"
    )
    return sql, tuple(value for _, values in terms for value in values)


def _merged(selects: Sequence[Term], limit: int) -> tuple[str, tuple[Any, ...]]:
    """Merge index scans: `OR` and `IN` would lose their order and sort everything that matches."""
    values = tuple(value for _, bindings in selects for value in (*bindings, limit))
    if len(selects) == 1:
        return selects[0][0], values
    scans = " UNION ALL ".join(f"SELECT * FROM ({sql})" for sql, _ in selects)
    return f"{scans} ORDER BY 1 DESC, 2 DESC LIMIT ?", (*values, limit)


def terms_of(query: JobQuery) -> list[Term]:
    columns = ("job_id", "job_type", "batch_id", "user_id", "error_code", "archived")
    terms: list[Term] = [
        (f"jobs.{column} = ?", (value,))
        for column in columns
        if (value := getattr(query, column)) is not None
    ]
    if query.text is not None:
        pattern = "%" + re.sub("([%_!])", r"!\1", query.text) + "%"
        named = "(job_id = ? OR batch_id = ? OR job_name LIKE ? ESCAPE '!')"
        terms.append((named, (query.text, query.text, pattern)))
    return terms


def _bounds(query: JobQuery, table: str, after: Position | None) -> list[Term]:
    """The time range of the query; `after` is where the previous page or step ended."""
    terms: list[Term] = []
    if query.created_after is not None:
        terms.append((f"{table}.created_at > ?", (schema.microseconds(query.created_after),)))
    if query.created_before is not None:
        terms.append((f"{table}.created_at < ?", (schema.microseconds(query.created_before),)))
    if after is not None:
        terms.append((f"({table}.created_at, {table}.seq) < (?, ?)", after))
    return terms


def make_cursor(created_at: int, seq: int) -> str:
    return f"{created_at}.{seq}"


def parse_cursor(cursor: str) -> Position:
    """Return where a page ended; raises ValueError for an invalid cursor."""
    if not re.fullmatch(r"-?\d{1,18}\.\d{1,18}", cursor):
        raise ValueError(cursor)
    created_at, _, seq = cursor.partition(".")
    return int(created_at), int(seq)


def get_batch(db: apsw.Connection, batch_id: str) -> Batch:
    row = db.execute(
        f"SELECT {schema.BATCH_COLUMNS} FROM batches WHERE batch_id = ?", (batch_id,)
    ).fetchone()
    if row is None:
        raise NotFound(f"There is no batch {batch_id}")
    return schema.batch_from(row, schema.deliveries_of(db, batch_id))


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
        f"SELECT {schema.BATCH_COLUMNS}, seq FROM batches WHERE {' AND '.join(t for t, _ in terms)}"
        " ORDER BY created_at DESC, seq DESC LIMIT ?",
        (*(value for _, values in terms for value in values), query.limit + 1),
    ).fetchall()
    page = rows[: query.limit]
    batches = [schema.batch_from(row[:-1]) for row in page]
    if len(rows) <= query.limit:
        return Page(batches)
    return Page(batches, make_cursor(schema.microseconds(batches[-1].created_at), page[-1][-1]))


#: The expression of the index `jobs_expiring`.
EXPIRES_AT = "completed_at + retention_days * 86400000000"


def find_expired(
    db: apsw.Connection, older_than: Mapping[JobStatus, datetime], *, limit: int
) -> list[str]:
    own = db.execute(
        "SELECT job_id FROM jobs INDEXED BY jobs_expiring WHERE retention_days > 0"
        f" AND completed_at IS NOT NULL AND {EXPIRES_AT} < ? ORDER BY {EXPIRES_AT} LIMIT ?",
        (schema.microseconds(utc_now()), limit),
    )
    job_ids: list[str] = [job_id for (job_id,) in own]
    for status, before in older_than.items():
        rows = db.execute(
            "SELECT job_id FROM jobs INDEXED BY jobs_ended WHERE status = ?"
            " AND completed_at IS NOT NULL AND completed_at < ? AND retention_days IS NULL"
            " ORDER BY completed_at LIMIT ?",
            (status.value, schema.microseconds(before), limit - len(job_ids)),
        )
        job_ids += [job_id for (job_id,) in rows]
    return job_ids


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
    """A position is a revision, or a revision and the last `seq` that was read of it."""
    position = re.fullmatch(r"(\d{1,18})(?:\.(\d{1,18}))?", since or "", re.ASCII)
    with db:  # one snapshot for both queries
        newest: int = db.execute(f"SELECT {schema.NEXT_REVISION}").get - 1
        if position is None or int(position[1]) > newest:  # invalid, or of another database
            return Changes([], str(newest), gap=since is not None)
        after = int(position[1]), int(position[2] or 2**62)
        rows: list[Any] = db.execute(CHANGES, (*after, limit)).fetchall()
    items = [Change(job_id, batch_id) for _, _, job_id, batch_id in rows]
    return Changes(items, str(newest) if len(rows) < limit else f"{rows[-1][0]}.{rows[-1][1]}")


#: The best index is the one whose first entries, this many, reach back furthest.
ENTRIES_COMPARED = 2_000


def _search(
    db: apsw.Connection, query: JobQuery, limit: int, seconds: float
) -> tuple[list[Position], Position | None]:
    """Find up to `limit` jobs, newest first, within a time limit. Also return where the search ran
    out of time; None if it did not."""
    budget = TimeBudget(seconds)
    after = parse_cursor(query.cursor) if query.cursor is not None else None
    choices = [_scans(query, index, ranges) for index, ranges in _indexes(query)]
    scans = choices[0]
    if len(choices) > 1:
        ends = [_end_of_step(db, query, one, after, ENTRIES_COMPARED) for one in choices]
        scans = min(zip(ends, choices, strict=True), key=lambda pair: pair[0] or (0, 0))[1]
    rows: list[Position] = []
    while True:
        end = _end_of_step(db, query, scans, after, budget.step)
        selects: list[Term] = []
        for scan in scans:
            terms = [scan.range, *scan.filters, *_bounds(query, scan.table, after)]
            if end is not None:
                terms.append((f"({scan.table}.created_at, {scan.table}.seq) >= (?, ?)", end))
            selects.append(_select(scan.table, scan.source, terms))
        rows += db.execute(*_merged(selects, limit - len(rows)))
        if len(rows) == limit or end is None:
            return rows, None
        after = end
        if not budget.next_step():
            return rows, end


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
    mine: list[Term] = []
    if query.visible_to is not None and index == "jobs_by_user":
        # Both are ranges of this index; a requested owner is one more filter.
        ranges = _own_jobs(query.visible_to)
    elif query.visible_to is not None:
        mine = [("(jobs.user_id IS NULL OR jobs.user_id = ?)", (query.visible_to,))]
    own = [IndexScan(f"jobs INDEXED BY {index}", one, [*filters, *mine]) for one in ranges]
    return _visible_scans(query, own, filters)


def _end_of_step(
    db: apsw.Connection,
    query: JobQuery,
    scans: Sequence[IndexScan],
    after: Position | None,
    length: int,
) -> Position | None:
    """Return how far all scans get with this many entries each; None is the end of the list."""
    ends: list[Position] = []
    for scan in scans:
        entries = "readers" if scan.table == "readers" else scan.source
        terms = [scan.range, *_bounds(query, scan.table, after)]
        sql, bindings = _select(scan.table, entries, terms)
        row: Any = db.execute(f"{sql} OFFSET ?", (*bindings, 1, length - 1)).fetchone()
        if row is not None:
            ends.append(row)
    return max(ends, default=None)


#: How many scopes are cleaned up at a time.
SCOPES_PER_SWEEP = 200


def write_counters(db: apsw.Connection, counts: Counter[stats.StatsKey]) -> None:
    rows: Counter[stats.StatsKey] = Counter()
    for (key, n), width in product(counts.items(), stats.WIDTHS):
        scope, slot = f"{width}/{key.scope}", key.slot // width * width
        rows[key._replace(scope=scope, slot=slot)] += n
    db.executemany(
        "INSERT INTO activity VALUES (?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET n = n + excluded.n",
        [(*key, n) for key, n in rows.items()],
    )


def throughput(
    db: apsw.Connection, since: datetime, *, step: timedelta, intervals: int, user_id: str | None
) -> list[stats.Throughput]:
    first, width = stats.slot_of(since), step // stats.SLOT
    rows: Iterable[Any] = db.execute(
        "SELECT (slot - ?1) / ?2, job_type, status, code, rung, sum(n) FROM activity"
        " WHERE scope = ?3 AND slot >= ?1 AND slot < ?1 + ?2 * ?4 GROUP BY 1, 2, 3, 4, 5",
        (first, width, f"{stats.width_for(first, width)}/{stats.scope_of(user_id)}", intervals),
    )
    return stats.throughput_of(rows)


def drop_expired_counters(db: apsw.Connection, last_scope: str) -> str:
    """Drop counters, some scopes at a time, as there may be very many users. Returns the scope
    after which to continue."""
    before = stats.slot_of(utc_now() - stats.RETENTION)
    following = "SELECT min(scope) FROM activity WHERE scope > ?"
    scopes = list(islice(schema.distinct_values(db, following, after=last_scope), SCOPES_PER_SWEEP))
    for scope in scopes:
        db.execute("DELETE FROM activity WHERE scope = ? AND slot < ?", (scope, before))
    return scopes[-1] if len(scopes) == SCOPES_PER_SWEEP else ""


def usage(db: apsw.Connection, day: date, user_id: str | None = None) -> stats.Usage:
    own = "" if user_id is None else " AND user_id = ?"
    row: Any = db.execute(
        "SELECT coalesce(sum(jobs), 0), coalesce(sum(pages), 0),"
        f" coalesce(sum(audio_seconds), 0.0), count(*) FROM usage WHERE day = ?{own}",
        (_day_number(day), *([] if user_id is None else [user_id])),
    ).fetchone()
    return stats.Usage(*row)


def charge(db: apsw.Connection, charges: Sequence[stats.JobCharge]) -> None:
    for one in charges:
        if one.refusal is not None:
            raise one.refusal
        row = (_day_number(one.day), one.user_id, one.jobs)
        if one.limit is None:
            db.execute(CHARGE, row)
            continue
        if one.jobs <= one.limit:
            db.execute(f"{CHARGE} WHERE jobs + excluded.jobs <= ?", (*row, one.limit))
            if db.changes():
                continue
        raise one.exceeded(usage(db, one.day, one.user_id).jobs)


CHARGE = (
    "INSERT INTO usage (day, user_id, jobs) VALUES (?, ?, ?)"
    " ON CONFLICT DO UPDATE SET jobs = jobs + excluded.jobs"
)


def add_usage(
    db: apsw.Connection,
    job: Job,
    *,
    pages: int,
    audio_seconds: float,
    stored_bytes: int | None = None,
) -> None:
    if pages or audio_seconds:
        db.execute(
            "INSERT INTO usage (day, user_id, pages, audio_seconds) VALUES (?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET pages = pages + excluded.pages,"
            " audio_seconds = audio_seconds + excluded.audio_seconds",
            (_day_number(utc_now().date()), job.user_id, pages, audio_seconds),
        )
    if stored_bytes is not None:
        db.execute(
            "UPDATE jobs SET stored_bytes = ? WHERE job_id = ? AND attempt = ?",
            (stored_bytes, job.job_id, job.attempt),
        )


def stored_bytes(db: apsw.Connection, user_id: str) -> int:
    total: int = db.execute(
        "SELECT coalesce(sum(stored_bytes), 0) FROM jobs INDEXED BY jobs_stored"
        " WHERE user_id = ? AND stored_bytes > 0",
        (user_id,),
    ).get
    return total


def forget_files(db: apsw.Connection, job_id: str) -> None:
    db.execute("UPDATE jobs SET stored_bytes = 0 WHERE job_id = ? AND stored_bytes > 0", (job_id,))


def drop_old_usage(db: apsw.Connection) -> None:
    before = _day_number((utc_now() - stats.USAGE_RETENTION).date())
    db.execute("DELETE FROM usage WHERE day < ?", (before,))


def _day_number(day: date) -> int:
    return (day - stats.EPOCH.date()).days
