"""When an event that was not delivered is tried again."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Tries over a day, growing apart; `jitter` keeps events that failed together from coming
    back together."""

    waits: tuple[timedelta, ...] = (
        timedelta(seconds=5),
        timedelta(seconds=30),
        timedelta(minutes=5),
        timedelta(minutes=30),
        timedelta(hours=2),
        timedelta(hours=5),
        timedelta(hours=7),
        timedelta(hours=9),
    )
    window: timedelta = timedelta(hours=24)
    jitter: float = 0.1

    def next_try(
        self, tried: int, *, since: datetime, now: datetime, retry_after: timedelta | None = None
    ) -> datetime | None:
        """The next try after `tried` ones, of which the last failed; None: give up.

        What a receiver asks for (`Retry-After`) is granted within the window.
        """
        end = since + self.window
        if tried > len(self.waits) or now >= end:
            return None
        wait = self.waits[tried - 1] * random.uniform(1 - self.jitter, 1 + self.jitter)
        return min(now + max(wait, retry_after or wait), end)


MAX_ENDPOINTS_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerOptions:
    failures: int = 5
    pause: timedelta = timedelta(seconds=30)
    longest_pause: timedelta = timedelta(minutes=5)


@dataclass(slots=True)
class _Endpoint:
    failures: int = 0
    pauses: int = 0
    paused_until: float = 0.0


class Breakers:
    """After some failures in a row an endpoint gets a pause, then a single request as a probe.
    If that fails too, the next pause is twice as long.

    The memory is a process's own: what it knows it has learnt the hard way, as the others will.
    """

    def __init__(
        self, options: BreakerOptions, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._options = options
        self._clock = clock
        self._failing: dict[str, _Endpoint] = {}

    def allowed(self, endpoint: str, most: int) -> int:
        """How many requests may be on their way to this endpoint, of `most` at best."""
        known = self._failing.get(endpoint)
        if known is None or not known.pauses:
            return most
        return 0 if self._clock() < known.paused_until else min(1, most)

    @property
    def failing(self) -> list[str]:
        return list(self._failing)

    def succeeded(self, endpoint: str) -> None:
        self._failing.pop(endpoint, None)

    def failed(self, endpoint: str) -> timedelta | None:
        """Note a failure; gives the pause that begins with it, if one does."""
        if len(self._failing) >= MAX_ENDPOINTS_REMEMBERED:
            self._failing.clear()
        known = self._failing.setdefault(endpoint, _Endpoint())
        known.failures += 1
        now = self._clock()
        if known.failures < self._options.failures or now < known.paused_until:
            return None
        pause: timedelta = min(self._options.pause * 2**known.pauses, self._options.longest_pause)
        known.pauses = min(known.pauses + 1, 30)
        known.paused_until = now + pause.total_seconds()
        return pause
