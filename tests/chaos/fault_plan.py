"""Which faults happen when; this depends on the seed only, not on the course of the run."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WORKERS = 2


@dataclass(frozen=True)
class Fault:
    #: A name in `INJECTORS` (run.py), and the target of the fault.
    kind: str
    target: str
    #: Seconds since the previous fault on the same target.
    wait: float
    #: How long it lasts, if it does.
    seconds: float
    #: For faults with a choice, such as which process or how far; from 0 to 1.
    dice: float


@dataclass(frozen=True)
class Stream:
    """The faults of one target, one after the other; every kind occurs before any is repeated."""

    kinds: Sequence[str]
    wait: tuple[float, float]
    seconds: tuple[float, float] = (0.0, 0.0)


WORKER = Stream(("kill worker", "stop worker", "kill worker", "drain worker"), (4, 12), (0.5, 14))
STREAMS: Mapping[str, Stream] = {
    **{f"worker {number + 1}": WORKER for number in range(WORKERS)},
    "api": Stream(("kill api", "stop api", "restart api"), (6, 14), (0.5, 6)),
    "children": Stream(("kill child", "stop child"), (3, 9), (0.5, 8)),
    "disk": Stream(("fill disk",), (12, 30), (1, 4)),
    "receivers": Stream(
        ("answer 500", "hang", "refuse connections", "close in the middle"), (3, 8), (2, 6)
    ),
    "clock": Stream(("set clock forward", "set clock back"), (6, 15)),
}
MOMENTARY = frozenset({"kill worker", "drain worker", "kill api", "restart api", "kill child"})
STORE_FAULTS = {
    "sqlite": Stream(("lock store",), (8, 20), (1, 7)),
    "mongodb": Stream(("kill store",), (12, 30), (0, 2)),
}


def faults(seed: int, seconds: float, store: str) -> dict[str, list[Fault]]:
    """The faults of each target that begin within this many seconds."""
    streams = {**STREAMS, "store": STORE_FAULTS[store]}
    return {target: _drawn(seed, target, stream, seconds) for target, stream in streams.items()}


def _drawn(seed: int, target: str, stream: Stream, seconds: float) -> list[Fault]:
    dice = random.Random(f"{seed} {target}")  # independent of other targets
    drawn: list[Fault] = []
    bag: list[str] = []
    at = 0.0
    while True:
        bag = bag or dice.sample(stream.kinds, len(stream.kinds))
        kind, lasts = bag.pop(), dice.uniform(*stream.seconds)
        wait, chosen = dice.uniform(*stream.wait), dice.random()
        at += wait
        if at >= seconds:
            return drawn
        lasts = 0.0 if kind in MOMENTARY else min(lasts, seconds - at)
        drawn.append(Fault(kind, target, wait, lasts, chosen))
        at += lasts


def listed(planned: Mapping[str, Sequence[Fault]]) -> str:
    """Shows what a seed does."""
    lines = []
    for target, drawn in planned.items():
        listing = ", ".join(f"+{one.wait:.1f} {one.kind} ({one.seconds:.1f} s)" for one in drawn)
        lines.append(f"  {target}: {listing or 'nothing'}")
    return "\n".join(lines)
