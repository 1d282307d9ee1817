"""Figures and the machine they come from, as all benchmarks show them."""

import os
import platform
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

FSYNC_PROBES = 50
UNSTEADY_RATIO = 1.5


def machine(directory: Path) -> str:
    return (
        f"{cpu_model()}, {os.cpu_count()} cores, Linux {platform.release()}, "
        f"Python {platform.python_version()}; 4 kB written and synced in "
        f"{fsync_ms(directory):.2f} ms"
    )


def table(lines: Sequence[Sequence[str]]) -> str:
    """Markdown that is aligned as plain text too: names to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    first, *others = widths
    rule = [":" + "-" * (first - 1), *("-" * (width - 1) + ":" for width in others)]
    aligned = [
        [name.ljust(first), *(cell.rjust(width) for cell, width in zip(cells, others, strict=True))]
        for name, *cells in lines
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [aligned[0], rule, *aligned[1:]])


def median(samples: Sequence[float]) -> str:
    if not samples:
        return number(None)
    unsteady = max(samples) > UNSTEADY_RATIO * min(samples)
    return ("~" if unsteady else "") + number(statistics.median(samples))


def number(value: float | None) -> str:
    if value is None:
        return "failed"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def fsync_ms(directory: Path) -> float:
    path, times = directory / "fsync", []
    with path.open("wb", buffering=0) as file:
        for _ in range(FSYNC_PROBES):
            started = time.perf_counter()
            file.write(b"\0" * 4096)
            os.fsync(file.fileno())
            times.append(time.perf_counter() - started)
    path.unlink()
    return statistics.median(times) * 1000
