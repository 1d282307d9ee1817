"""Whether a series stays flat once it has warmed up."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: The first third is for warming up: engines are loaded, the first jobs are kept.
WARM_UP = 1 / 3
#: With fewer samples a trend means nothing.
FEWEST = 10


@dataclass(frozen=True)
class Tolerance:
    """By so much a series may grow within the last two thirds: a part of its level, or this much,
    whichever is more."""

    part: float
    slack: float


@dataclass(frozen=True)
class Verdict:
    #: The median of the last two thirds.
    level: float
    #: By how much the trend of the last two thirds rises from their beginning to their end.
    growth: float
    allowed: float

    @property
    def is_flat(self) -> bool:
        return self.growth <= self.allowed


def judge(at: Sequence[float], values: Sequence[float], tolerance: Tolerance) -> Verdict:
    """The trend is the median of the slopes between all pairs of samples (Theil and Sen): single
    peaks, such as a large job that happens to run, do not bend it."""
    start = at[0] + (at[-1] - at[0]) * WARM_UP
    late = [(moment, value) for moment, value in zip(at, values, strict=True) if moment >= start]
    if len(late) < FEWEST:
        raise ValueError(f"{len(late)} samples are too few to tell a trend")
    moments, levels = (np.array(each, float) for each in zip(*late, strict=True))
    first, second = np.triu_indices(len(moments), k=1)
    slopes = (levels[second] - levels[first]) / (moments[second] - moments[first])
    growth = float(np.median(slopes)) * float(moments[-1] - moments[0])
    level = float(np.median(levels))
    return Verdict(level, growth, max(tolerance.part * level, tolerance.slack))
