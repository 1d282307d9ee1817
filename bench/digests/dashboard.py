"""Every view of the dashboard with many jobs and with few."""

from collections.abc import Iterator, Mapping, Sequence

import dashboard
from publishing.result import Aim, Cell, Chart, Digest, Table

from .figures import Found, below, failures_of, text_of

#: So many of the slowest requests are drawn.
DRAWN = 14


def digest(found: Mapping[str, Found]) -> Digest:
    """Each store may have been measured in a run of its own."""
    rows = [row for run in found.values() for row in run["rows"]]
    plan = next(iter(found.values()))["plan"]
    return Digest(
        tables=(
            Table(
                _head(rows, ("p50", "p95", "max", "times few")),
                tuple(_requests(rows)),
                text_of(dashboard.notes_of(plan)),
                title="Requests, ms",
            ),
            Table(_head(rows, ("", "highest")), tuple(_visits(rows)), title="Views usable, ms"),
        ),
        charts=(_requests_chart(rows), _visits_chart(rows)),
        aims=tuple(aim for row in rows for aim in _aims(row, plan["many"])),
        plan=plan,
        failures=failures_of(rows),
    )


def _head(rows: Sequence[Found], columns: Sequence[str]) -> tuple[str, ...]:
    return ("", *(f"{row['name']} {column}".strip() for row in rows for column in columns))


def _titles(rows: Sequence[Found], what: str) -> list[str]:
    return list(dict.fromkeys(title for row in rows for title in row[what]))


def _requests(rows: Sequence[Found]) -> Iterator[tuple[Cell, ...]]:
    for title in _titles(rows, "many"):
        cells: list[Cell] = []
        for row in rows:
            many, few = row["many"].get(title), row["few"].get(title)
            if many is None:
                cells += [None] * 4
                continue
            ratio = many["p50_ms"] / few["p50_ms"] if few else None
            cells += [many["p50_ms"], many["p95_ms"], many["max_ms"], ratio]
        yield (title, *cells)


def _visits(rows: Sequence[Found]) -> Iterator[tuple[Cell, ...]]:
    for title in _titles(rows, "usable"):
        times = [row["usable"].get(title) for row in rows]
        yield (
            title,
            *(time[key] if time else None for time in times for key in ("p50_ms", "max_ms")),
        )


def _requests_chart(rows: Sequence[Found]) -> Chart:
    def figures(title: str) -> tuple[float | None, ...]:
        return tuple(row["many"][title]["p95_ms"] if title in row["many"] else None for row in rows)

    slowest = sorted(_titles(rows, "many"), key=lambda title: -max(n or 0 for n in figures(title)))
    return Chart(
        name="requests",
        kind="bars",
        title=f"The {DRAWN} slowest requests, p95 (less is better)",
        unit="ms",
        names=tuple(row["name"] for row in rows),
        rows={title: figures(title) for title in slowest[:DRAWN]},
        aim=dashboard.LIMIT_MS,
    )


def _visits_chart(rows: Sequence[Found]) -> Chart:
    drawn = {
        title: tuple(row["usable"].get(title, {}).get("p50_ms") for row in rows)
        for title in _titles(rows, "usable")
    }
    title, names = (
        "Until a view can be used, median (less is better)",
        [row["name"] for row in rows],
    )
    return Chart("views", "bars", title, "ms", tuple(names), drawn, aim=dashboard.USABLE_MS)


def _aims(row: Found, many: int) -> Iterator[Aim]:
    for what, timings, key, limit in (
        ("slowest request, p95", row["many"], "p95_ms", dashboard.LIMIT_MS),
        ("slowest view, usable after", row["usable"], "p50_ms", dashboard.USABLE_MS),
    ):
        slowest = max(timings, key=lambda title: timings[title][key], default=None)
        found = timings[slowest][key] if slowest else None
        told = f"{row['name']}, {many:,} jobs: {what}{f' ({slowest})' if slowest else ''}"
        yield below(told, limit, found, unit="ms")
