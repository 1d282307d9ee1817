"""Looks for jobs for a limited time: stretch by stretch down the index that narrows most."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from ...job import Job
from .. import JobQuery, Page
from ..stretches import Stretches
from .reading import Term, cursor_at, listed_job, place_of, terms_of, times_of
from .rows import microseconds_or_none, moment

#: Indexes are compared by how far back so many of their entries go.
COMPARED = 2_000

Position = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Walk:
    """Down one index: which jobs it passes, and which of them are wanted."""

    table: str
    #: The entries of the index alone, and with the rows they stand for.
    entries: str
    rows: str
    passed: tuple[Term, ...] = ()
    wanted: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    rows: list[Position]
    #: Where time was up; None: it was not.
    reached: Position | None = None


def search(db: apsw.Connection, query: JobQuery, *, limit: int, seconds: float) -> Found:
    """(created_at, seq) of up to `limit` jobs, newest first."""
    stretches = Stretches(seconds)
    times = _times(query)
    at = place_of(query.cursor) if query.cursor is not None else None
    walks = _best(db, query, times, at)
    found: list[Position] = []
    while True:
        end = _end_of_stretch(db, walks, times, at, stretches.length)
        found += _matches(db, walks, times, at, end, limit - len(found))
        if len(found) == limit:
            return Found(found)
        if end is None:
            return Found(found)
        at = end
        if not stretches.may_go_on():
            return Found(found, end)


def search_jobs(db: apsw.Connection, query: JobQuery, seconds: float) -> Page[Job]:
    """Like `reading.find_jobs`, but for so long only."""
    with db:
        found = search(db, query, limit=query.limit + 1, seconds=seconds)
        full = len(found.rows) > query.limit
        page = found.rows[: query.limit]
        jobs = [listed_job(db, seq, query.include) for _, seq in page]
    if full:
        return Page(jobs, cursor_at(*page[-1]))
    if found.reached is None:
        return Page(jobs)
    searched_to = moment(found.reached[0]) if len(jobs) < query.limit else None
    return Page(jobs, cursor_at(*found.reached), searched_to)


def _best(
    db: apsw.Connection, query: JobQuery, times: Sequence[Any], at: Position | None
) -> list[Walk]:
    choices = [_walks(query, index, passed) for index, passed in _indexes(query)]
    if len(choices) == 1:
        return choices[0]
    ends = [_end_of_stretch(db, walks, times, at, COMPARED) for walks in choices]
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


def _walks(query: JobQuery, index: str, passed: list[Term]) -> list[Walk]:
    wanted = terms_of(query)
    if query.status:
        among = ", ".join("?" * len(query.status))
        statuses = tuple(one.value for one in sorted(query.status))
        wanted.append((f"jobs.status IN ({among})", statuses))
    jobs = f"jobs INDEXED BY {index}"
    if query.visible_to is None:
        return [Walk("jobs", jobs, jobs, (one,), tuple(wanted)) for one in passed]
    user = query.visible_to
    own: list[Term] = [("jobs.user_id IS NULL", ()), ("jobs.user_id = ?", (user,))]
    if index == "jobs_by_user":
        # Both are walks down this index; an owner that is asked for is one more wish.
        mine = [Walk("jobs", jobs, jobs, (one,), tuple(wanted)) for one in own]
    else:
        either: Term = ("(jobs.user_id IS NULL OR jobs.user_id = ?)", (user,))
        mine = [Walk("jobs", jobs, jobs, (one,), (*wanted, either)) for one in passed]
    public = "jobs INDEXED BY jobs_public"
    public_terms: Term = ("public = 1 AND jobs.user_id IS NOT NULL", ())
    others: Term = ("jobs.user_id <> ?", (user,))
    shared: Term = ("readers.user_id = ?", (user,))
    return [
        *mine,
        Walk("jobs", public, public, (public_terms,), (*wanted, others)),
        Walk(
            "readers",
            "readers",
            "readers CROSS JOIN jobs ON jobs.seq = readers.seq",
            (shared,),
            tuple(wanted),
        ),
    ]


def _end_of_stretch(
    db: apsw.Connection,
    walks: Sequence[Walk],
    times: Sequence[Any],
    at: Position | None,
    length: int,
) -> Position | None:
    """How far all walks get with so many steps each; None: to the end of the list."""
    ends: list[Position] = []
    for walk in walks:
        terms = [*walk.passed, *_bounds(walk.table, times, at)]
        sql, bindings = _select(walk.table, walk.entries, terms)
        row: Any = db.execute(f"{sql} LIMIT 1 OFFSET ?", (*bindings, length - 1)).fetchone()
        if row is not None:
            ends.append(row)
    return max(ends, default=None)


def _matches(
    db: apsw.Connection,
    walks: Sequence[Walk],
    times: Sequence[Any],
    at: Position | None,
    end: Position | None,
    limit: int,
) -> list[Position]:
    parts: list[str] = []
    values: list[Any] = []
    for walk in walks:
        terms = [*walk.passed, *walk.wanted, *_bounds(walk.table, times, at)]
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


def _times(query: JobQuery) -> tuple[int | None, int | None]:
    return microseconds_or_none(query.created_after), microseconds_or_none(query.created_before)


def _bounds(table: str, times: Sequence[Any], at: Position | None) -> list[Term]:
    return times_of(table, after=times[0], before=times[1], behind=at)
