"""The feed of changes in SQLite: each change gets a revision, in the order of the commits."""

import re
from typing import Any

import apsw

from .. import Change, Changes

#: As an expression of SQL. Writers take turns, so the next number is that of nobody else. All
#: rows that one statement changes share it. To find it takes two looks at the ends of indexes
#: and writes nothing.
NEXT_REVISION = (
    "(SELECT 1 + max(coalesce((SELECT max(revision) FROM jobs), 0),"
    " coalesce((SELECT max(revision) FROM traces), 0)))"
)

#: So many traces are kept; a reader that comes later than that does not hear of those changes.
MAX_TRACES = 10_000

# Not as one comparison of pairs: SQLite would seek by the first part only and walk the rest.
CHANGES = (
    "SELECT * FROM (SELECT revision, seq, job_id, batch_id FROM jobs INDEXED BY jobs_changed"
    " WHERE revision = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3)"
    " UNION ALL SELECT * FROM (SELECT revision, seq, job_id, batch_id FROM jobs"
    " INDEXED BY jobs_changed WHERE revision > ?1 ORDER BY revision, seq LIMIT ?3)"
    " UNION ALL SELECT * FROM (SELECT revision, 0, job_id, batch_id FROM traces"
    " WHERE revision > ?1 ORDER BY revision LIMIT ?3)"
    " ORDER BY 1, 2 LIMIT ?3"
)


def leave_trace(
    db: apsw.Connection, *, job_id: str | None, batch_id: str | None, above: int = 0
) -> None:
    """Note a change that no row of `jobs` tells of. `above` is the revision that went with a
    deleted job: if it was the highest, it must not be given out again."""
    db.execute(
        f"INSERT INTO traces VALUES (max({NEXT_REVISION}, ? + 1), ?, ?)",
        (above, job_id, batch_id),
    )


def drop_old_traces(db: apsw.Connection) -> None:
    """The newest one always stays: it may hold the highest revision."""
    db.execute(
        "DELETE FROM traces WHERE revision <="
        " (SELECT revision FROM traces ORDER BY revision DESC LIMIT 1 OFFSET ?)",
        (MAX_TRACES,),
    )


def changes(db: apsw.Connection, since: str | None, *, limit: int) -> Changes:
    place = _place(since) if since is not None else None
    with db:  # one view for both questions
        newest: int = db.execute(f"SELECT {NEXT_REVISION}").get - 1
        if place is None or place[0] > newest:  # unknown, or of another database
            return Changes([], _position(newest, _END), gap=since is not None)
        rows: list[Any] = db.execute(CHANGES, (*place, limit)).fetchall()
    items = [Change(job_id, batch_id) for _, _, job_id, batch_id in rows]
    if len(rows) < limit:
        return Changes(items, _position(newest, _END))
    return Changes(items, _position(rows[-1][0], rows[-1][1]))


#: Behind every row of a revision.
_END = 2**62


def _position(revision: int, seq: int) -> str:
    return f"{revision}" if seq == _END else f"{revision}.{seq}"


def _place(position: str) -> tuple[int, int] | None:
    found = re.fullmatch(r"(\d{1,18})(?:\.(\d{1,18}))?", position, re.ASCII)
    return (int(found[1]), int(found[2] or _END)) if found else None
