"""Every series of a soak, drawn, listed and judged."""

from collections.abc import Mapping, Sequence

import charts
import report

from .samples import Sample
from .trend import WARM_UP, Tolerance, Verdict, judge

#: By the first word of a series: its unit, and by how much it may grow.
KINDS: Mapping[str, tuple[str, Tolerance]] = {
    "memory": ("MB", Tolerance(0.10, 15)),
    "open files": ("", Tolerance(0.10, 10)),
    "threads": ("", Tolerance(0.10, 4)),
    "processes": ("", Tolerance(0.10, 2)),
    "directories": ("", Tolerance(0.25, 20)),
    "size": ("MB", Tolerance(0.25, 4)),
}
#: Programs that come and go with jobs (ffmpeg): shown, not judged.
UNJUDGED = "other"

Columns = Mapping[str, Sequence[float]]


def columns(samples: Sequence[Sample]) -> dict[str, list[float]]:
    """Each series; what was not there at a moment was nothing."""
    names = sorted({name for sample in samples for name in sample.values})
    return {name: [sample.values.get(name, 0.0) for sample in samples] for name in names}


def verdicts(at: Sequence[float], series: Columns) -> dict[str, Verdict]:
    return {
        name: judge(at, values, KINDS[name.partition(":")[0]][1])
        for name, values in series.items()
        if not name.endswith(UNJUDGED)
    }


def table(series: Columns, judged: Mapping[str, Verdict]) -> str:
    head = ["series", "first", "median", "most", "last", "growth", "allowed", "flat"]
    lines = []
    for name, values in series.items():
        verdict = judged.get(name)
        known = (
            [f"{verdict.growth:+,.1f}", f"{verdict.allowed:,.1f}", _word(verdict)]
            if verdict
            else ["", "", "not judged"]
        )
        level = verdict.level if verdict else sorted(values)[len(values) // 2]
        figures = [f"{value:,.1f}" for value in (values[0], level, max(values), values[-1])]
        unit = KINDS[name.partition(":")[0]][0]
        lines.append([f"{name}{f' ({unit})' if unit else ''}", *figures, *known])
    return report.table([head, *lines])


def _word(verdict: Verdict) -> str:
    return "yes" if verdict.is_flat else "NO"


def drawing(title: str, at: Sequence[float], series: Columns) -> str:
    """A chart for each kind, over minutes."""
    minutes = [moment / 60 for moment in at]
    drawn = []
    for kind, (unit, _) in KINDS.items():
        lines = {
            name.partition(": ")[2]: values
            for name, values in series.items()
            if name.startswith(f"{kind}:")
        }
        if lines:
            shown = f"{kind[0].upper()}{kind[1:]}"
            drawn.append(charts.curves(shown, minutes, lines, unit=unit, axis="minutes"))
    return charts.below_each_other(title, drawn)


def growing(judged: Mapping[str, Verdict]) -> list[str]:
    return [
        f"{name} grew by {verdict.growth:,.1f} in the last {1 - WARM_UP:.0%} of the run "
        f"(allowed: {verdict.allowed:,.1f})"
        for name, verdict in judged.items()
        if not verdict.is_flat
    ]
