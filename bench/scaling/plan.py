"""How much a run of the scale benchmark measures, and what it has found."""

from dataclasses import dataclass, field

from .costs import Cost
from .documents import Kind, Rate
from .durable import Row
from .throughput import Throughput, WakeUp

WORKERS = (1, 2, 4, 8)
#: Jobs that do nothing, and jobs that wait a tenth of a second for somebody else.
SLOTS = {"noop": 32, "rest": 8}


@dataclass(frozen=True)
class Plan:
    rounds: int = 2
    window_s: float = 5
    jobs: int = 20_000
    probes: int = 200
    #: Files of each kind that count, and those that are read before.
    scans: int = 8
    texts: int = 24
    durable_jobs: int = 4_000
    recovery_cap_s: float = 60
    cost_jobs: int = 1_024


QUICK = Plan(
    rounds=1,
    window_s=2,
    jobs=6_000,
    probes=40,
    scans=4,
    texts=6,
    durable_jobs=500,
    recovery_cap_s=15,
    cost_jobs=128,
)
KINDS = {"scans": Kind("3 scanned pages", 3, True), "texts": Kind("200 pages of text", 200, False)}


@dataclass
class Run:
    rounds: int
    curves: dict[str, dict[int, list[Throughput]]] = field(default_factory=dict)
    wake_ups: dict[int, WakeUp] = field(default_factory=dict)
    documents: dict[str, dict[int, list[Rate]]] = field(default_factory=dict)
    durable: list[Row] = field(default_factory=list)
    costs: dict[str, Cost] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
