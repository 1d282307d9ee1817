"""What all digests do with samples: their middle, their spread, and who is ahead."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import report
from publishing.result import Aim, Cell, Spread

#: What the program of a part writes with `--json`.
Found = Mapping[str, Any]


def spread(samples: Sequence[float]) -> Spread | None:
    if not samples:
        return None
    return min(samples), statistics.median(samples), max(samples)


def middle(samples: Sequence[float]) -> float | None:
    return statistics.median(samples) if samples else None


def at_least(
    what: str, aim: float, found: float | None, *, unit: str = "", beside: str = ""
) -> Aim:
    """Of a ratio to a peer, which is its own ratio, too."""
    reached = found is not None and found >= aim
    return Aim(what, f"≥ {aim:g}", found, unit, reached, beside, found if beside else None)


def below(what: str, aim: float, found: float | None, *, unit: str) -> Aim:
    wanted = f"< {aim:,g} {unit}".rstrip()
    return Aim(what, wanted, found, unit, found is not None and found < aim)


def at_most(
    what: str, aim: float | None, found: float | None, *, unit: str = "", beside: str = ""
) -> Aim:
    """With `beside` it is how much longer ours takes than that. Nothing may be aimed at."""
    wanted = "" if aim is None else f"≤ {aim:g} {unit}".rstrip()
    reached = None if aim is None else found is not None and found <= aim
    return Aim(what, wanted, found, unit, reached, beside, 1 / found if beside and found else None)


def ahead(
    what: str,
    ours: float | None,
    others: Mapping[str, float | None],
    *,
    unit: str,
    wanted: str = "ahead of all",
    less_is_better: bool = False,
    decimals: int | None = None,
) -> Aim:
    """Beside the best of the others. Without `wanted` it is no aim, but told all the same."""
    there = {name: value for name, value in others.items() if value}
    if ours is None or not there:
        return Aim(what, wanted, ours, unit, False if wanted else None)
    best = (min if less_is_better else max)(there, key=lambda name: there[name])
    ratio = there[best] / ours if less_is_better else ours / there[best]
    value = there[best]
    beside = f"{best}: {report.number(value) if decimals is None else f'{value:.{decimals}f}'}"
    reached = ratio > 1 if wanted else None
    return Aim(what, wanted, ours, unit, reached, beside, ratio, decimals)


def recovered(recovery: Found | None) -> Cell:
    if recovery is None:
        return None
    seconds: float | None = recovery["seconds"]
    return f"> {recovery['cap_s']:g}" if seconds is None else seconds


def sooner(what: str, row: Found, peers: Sequence[Found], *, wanted: str) -> Aim:
    """Back after kill -9. A peer that was not back in time counts with that time."""
    back = [peer for peer in peers if peer["recovery"]]
    times = {p["name"]: p["recovery"]["seconds"] or p["recovery"]["cap_s"] for p in back}
    found = row["recovery"]["seconds"] if row["recovery"] else None
    aim = ahead(what, found, times, unit="s", wanted=wanted, less_is_better=True)
    if aim.beside and all(peer["recovery"]["seconds"] is None for peer in back):
        cap_s = min(peer["recovery"]["cap_s"] for peer in back)
        aim = replace(aim, beside=f"none within {cap_s:g} s")
    return aim


def versions_of(peers: Iterable[Found]) -> dict[str, str]:
    """Some stand in two rows, with a store each: "huey-redis"."""
    return {row["name"].split("-")[0]: row["about"]["version"] for row in peers}


def failures_of(rows: Iterable[Found]) -> tuple[str, ...]:
    return tuple(f"{row['name']}: {failure}" for row in rows for failure in row["failures"])


def told_of(rows: Iterable[Found]) -> str:
    """How each of them was run."""
    return "\n".join(f"- {row['name']}: {row['about']['runs_as']}" for row in rows)


def text_of(notes: str) -> str:
    """Notes are set for a terminal; on a page they are a paragraph."""
    return " ".join(notes.split())
