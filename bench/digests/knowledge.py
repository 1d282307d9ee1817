"""A transformer job beside its call of the model."""

import statistics
from collections.abc import Mapping

import knowledge
from publishing.result import Cell, Chart, Digest, Table

from .figures import Found, at_least, below, text_of

ROWS = {"bare call": "bare_ms", "job, at work": "work_ms", "job, as a client sees it": "seen_ms"}


def digest(found: Mapping[str, Found]) -> Digest:
    (run,) = found.values()
    medians = {name: statistics.median(run[key]) for name, key in ROWS.items()}
    bare, seen = medians["bare call"], medians["job, as a client sees it"]
    rates = {int(width): rate for width, rate in run["jobs_per_s"].items()}
    shares = {width: rate / _ideal(width) for width, rate in rates.items()}
    notes = text_of(knowledge.notes_of(run["plan"]))
    costs: tuple[tuple[Cell, ...], ...] = tuple(
        (name, value, value - bare) for name, value in medians.items()
    )
    lines: tuple[tuple[Cell, ...], ...] = tuple(
        (str(width), rate, _ideal(width), shares[width]) for width, rate in rates.items()
    )
    worst = min(shares, key=lambda width: shares[width])
    return Digest(
        tables=(
            Table(("", "ms", "beyond the bare call"), costs, notes),
            Table(("requests at a time", "jobs/s", "ideal", "share"), lines, title="Throughput"),
        ),
        charts=(_chart(rates),),
        aims=(
            below("what a job adds to its call", knowledge.OVERHEAD_AIM_MS, seen - bare, unit="ms"),
            at_least(
                f"share of what the endpoint could give, worst ({worst} requests at a time)",
                knowledge.SHARE_AIM,
                shares[worst],
            ),
        ),
        plan=run["plan"],
    )


def _ideal(width: int) -> float:
    return min(width, knowledge.PARALLEL) / knowledge.ANSWER_S


def _chart(rates: Mapping[int, float]) -> Chart:
    rows: dict[str, tuple[float | None, ...]] = {
        "jobs that were done": tuple(rates.values()),
        "what the endpoint could do": tuple(_ideal(width) for width in rates),
    }
    title, axis = "Jobs a second by requests at a time", "requests at a time"
    return Chart("rates", "lines", title, "jobs/s", tuple(map(str, rates)), rows, axis)
