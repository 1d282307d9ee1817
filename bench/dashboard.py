"""Every view of the dashboard with many jobs in the store and with few, on SQLite and on MongoDB.

    python bench/dashboard.py [--quick] [--jobs N] [--only sqlite] [--json FILE]

A store is filled with few jobs and measured, filled up to many and measured again: the requests
that each view makes, one after the other over one connection, and the view itself in a browser.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import dashboard_views
import program
import report
from adapter import MONGODB, PEERS
from arena import noting_failure, open_arena
from dashboard_views import Facts, Timing
from program import say
from servers import SERVE, Server, running

from secretary.config import Settings, StorageSettings

sys.path.append(str(PEERS))

import dashboard_filling

STORES = ("sqlite", "mongodb")
#: What every request must keep to, and every view.
LIMIT_MS, USABLE_MS = 100, 1000
NOTES = """\
{many:,} jobs over {days} days beside {few:,}; five types, {users} users, half of the jobs in
batches of 1,000. p50, p95 and max of {repeats} requests in ms, as the client sees them over
loopback; "times few": p50 with many jobs over p50 with few. Usable: from the navigation in a
browser with an empty cache to the view's content, median and highest of {visits}."""


@dataclass(frozen=True)
class Plan:
    many: int = 1_000_000
    few: int = 10_000
    repeats: int = 30
    visits: int = 5


QUICK = Plan(many=100_000, repeats=8, visits=2)


@dataclass
class Row:
    """One store: the timings of requests and views, with few jobs and with many."""

    name: str
    few: dict[str, Timing] = field(default_factory=dict)
    many: dict[str, Timing] = field(default_factory=dict)
    usable: dict[str, Timing] = field(default_factory=dict)
    filled_s: float = 0.0
    failures: list[str] = field(default_factory=list)


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    plan = QUICK if options.quick else Plan()
    if options.jobs:
        plan = Plan(options.jobs, min(plan.few, options.jobs), plan.repeats, plan.visits)
    rows = [Row(name) for name in STORES if options.only in (None, name)]
    with program.workplace() as place:
        for row in rows:
            with noting_failure(row.failures):
                _measure(row, plan, place.root / row.name)
        machine = place.machine()
    print(_text(rows, plan, machine))
    program.keep(options.json, machine, plan, rows=[asdict(row) for row in rows])
    return 1 if any(row.failures or _slow(row) for row in rows) else 0


def _measure(row: Row, plan: Plan, directory: Path) -> None:
    (directory / "data").mkdir(parents=True)
    with _database(row.name, directory) as url:
        settings = {"MONGODB_URI": url} if url else {}
        storage = StorageSettings(data_dir=directory / "data", mongodb_uri=url)
        store_url = Settings(storage=storage).store_url
        command = (*SERVE[:-1], str(directory / "data"), "--no-worker")
        server = Server(row.name, command, settings=settings)
        templates: list[str] = []
        for amount, timings in ((plan.few, row.few), (plan.many, row.many)):
            say(f"{row.name}: filling up to {amount:,} jobs")
            started = time.monotonic()
            facts = asyncio.run(dashboard_filling.fill(store_url, amount, templates))
            row.filled_s = time.monotonic() - started
            say(f"{row.name}: filled in {row.filled_s:.0f} s; measuring")
            with running(server, directory) as service:
                timings |= dashboard_views.requests(service.url, facts, repeats=plan.repeats)
                if amount == plan.many:
                    row.usable |= _visits(service.url, facts, plan)


def _visits(url: str, facts: Facts, plan: Plan) -> dict[str, Timing]:
    try:
        return dashboard_views.visits(url, facts, count=plan.visits)
    except dashboard_views.NoBrowser as missing:
        say(f"no browser, so no visits: {missing}")
        return {}


@contextmanager
def _database(name: str, directory: Path) -> Iterator[str | None]:
    if name == "sqlite":
        yield None
        return
    with open_arena(MONGODB, directory) as arena:
        yield arena.url


def _text(rows: Sequence[Row], plan: Plan, machine: str) -> str:
    parts = [_requests_table(rows), notes_of(asdict(plan)), _visits_table(rows)]
    filled = ", ".join(f"{row.name} in {row.filled_s:.0f} s" for row in rows)
    parts.append(f"Filled: {filled}.")
    for row in rows:
        verdict = ", ".join(_slow(row)) or "none"
        parts.append(
            f"{row.name}: p95 over {LIMIT_MS} ms or not usable within {USABLE_MS}: {verdict}"
        )
        parts += [f"{row.name} failed: {failure}" for failure in row.failures]
    return "\n\n".join([*parts, machine])


def notes_of(plan: Mapping[str, Any]) -> str:
    return NOTES.format(days=dashboard_filling.DAYS, users=dashboard_filling.USERS, **plan)


def _slow(row: Row) -> list[str]:
    slow = [title for title, timing in row.many.items() if timing.p95_ms > LIMIT_MS]
    return slow + [title for title, timing in row.usable.items() if timing.p50_ms > USABLE_MS]


def _requests_table(rows: Sequence[Row]) -> str:
    columns = ("p50", "p95", "max", "times few")
    head = ["", *(f"{row.name} {name}" for row in rows for name in columns)]
    titles = dict.fromkeys(title for row in rows for title in row.many)
    return report.table(
        [
            head,
            *([title, *(cell for row in rows for cell in _cells(row, title))] for title in titles),
        ]
    )


def _cells(row: Row, title: str) -> list[str]:
    many, few = row.many.get(title), row.few.get(title)
    if many is None:
        return [report.number(None)] * 4
    ratio = many.p50_ms / few.p50_ms if few else None
    return [report.number(n) for n in (many.p50_ms, many.p95_ms, many.max_ms, ratio)]


def _visits_table(rows: Sequence[Row]) -> str:
    head = ["usable, ms", *(f"{row.name}{name}" for row in rows for name in ("", ", highest"))]
    titles = dict.fromkeys(title for row in rows for title in row.usable)
    if not titles:
        return "No browser was there to look at the views."
    lines = [
        [title, *(cell for row in rows for cell in _visit_cells(row, title))] for title in titles
    ]
    return report.table([head, *lines])


def _visit_cells(row: Row, title: str) -> list[str]:
    timing = row.usable.get(title)
    return [report.number(n) for n in ((timing.p50_ms, timing.max_ms) if timing else (None, None))]


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = program.parser("dashboard.py", __doc__)
    parser.add_argument("--jobs", type=int, help="how many are many")
    parser.add_argument("--only", choices=STORES, help="one store")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    program.run(main)
