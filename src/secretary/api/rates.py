"""How often someone may do something: a bucket of tokens for each, refilled evenly."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

MINUTE = 60.0
#: Of so many the state is kept; who is forgotten has a full bucket again.
MAX_KNOWN = 10_000


@dataclass(frozen=True, slots=True)
class Grant:
    allowed: bool
    #: How many more are allowed at once.
    remaining: int
    #: Whole seconds until the next one is allowed; 0: now.
    wait: int


class Allowance:
    """`per_minute` at once, then as many spread over each minute."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_minute = per_minute
        self._per_second = per_minute / MINUTE
        self._clock = clock
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def look(self, who: Hashable) -> Grant:
        """What `take` would say, without taking."""
        return self._grant(self._tokens(who, self._clock()))

    def take(self, who: Hashable) -> Grant:
        now = self._clock()
        tokens = self._tokens(who, now)
        grant = self._grant(tokens)
        if grant.allowed:
            self._buckets[who] = (tokens - 1, now)
            self._buckets.move_to_end(who)
            if len(self._buckets) > MAX_KNOWN:
                self._buckets.popitem(last=False)
        return grant

    def _tokens(self, who: Hashable, now: float) -> float:
        tokens, at = self._buckets.get(who, (float(self.per_minute), now))
        return min(tokens + (now - at) * self._per_second, float(self.per_minute))

    def _grant(self, tokens: float) -> Grant:
        if tokens >= 1:
            return Grant(True, int(tokens) - 1, 0)
        return Grant(False, 0, max(1, math.ceil((1 - tokens) / self._per_second)))
