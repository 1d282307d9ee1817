"""The report of a run."""

import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from .history import Lives


@dataclass
class Report:
    store: str
    seed: int
    faults: Counter[str] = field(default_factory=Counter)
    #: Faults that could not be injected here, and why.
    left_out: dict[str, str] = field(default_factory=dict)
    #: How jobs finished, by kind.
    ends: dict[str, Counter[str]] = field(default_factory=dict)
    attempts: int = 0
    batches: int = 0
    #: Client requests that had to be retried.
    refused: int = 0
    #: Events that receivers rejected.
    undelivered: int = 0
    failed_starts: int = 0
    #: Seconds from the last sign of an interrupted attempt to the start of the next one.
    recoveries: list[float] = field(default_factory=list)
    #: Seconds from the last fault until all jobs had finished, and all final events were delivered.
    settled_s: float = 0.0
    broken: list[str] = field(default_factory=list)

    @property
    def jobs(self) -> int:
        return sum(sum(ends.values()) for ends in self.ends.values())

    def ended(self, how: str) -> int:
        return sum(ends[how] for ends in self.ends.values())

    def __str__(self) -> str:
        lines = [
            f"{self.store}, seed {self.seed}: {sum(self.faults.values())} faults survived, "
            f"{self.jobs} jobs in {self.attempts} attempts, {self.batches} batches, "
            f"{len(self.broken)} promises broken",
            "  faults: " + _counted(self.faults),
            *(f"  left out: {kind}: {why}" for kind, why in self.left_out.items()),
            *(f"  {kind}: {_counted(ends)}" for kind, ends in sorted(self.ends.items())),
            f"  requests sent again: {self.refused}; events not taken: {self.undelivered}; "
            f"starts that failed: {self.failed_starts}",
            "  work that broke off began again, waiting in line included, after "
            f"{_spread(self.recoveries)}",
            f"  all jobs had ended {self.settled_s:.1f} s after the last fault",
            *(f"  BROKEN: {text}" for text in self.broken),
        ]
        return "\n".join(lines)


def _counted(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counter.items())) or "none"


def _spread(seconds: list[float]) -> str:
    if not seconds:
        return "no time (none did)"
    return f"{statistics.median(seconds):.1f} s (median), {max(seconds):.1f} s (longest)"


def recoveries(lives: Mapping[str, Lives]) -> list[float]:
    """Recovery times of interrupted attempts. Those that failed on purpose wait for their retry and
    do not count."""
    durations = []
    for of_job in lives.values():
        for before, after in pairwise(sorted(of_job)):
            events = of_job[before]
            if not any(event in ("end", "failure") for event, _ in events):
                durations.append(min(at for _, at in of_job[after]) - max(at for _, at in events))
    return durations
