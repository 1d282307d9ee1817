"""When a failed delivery is retried, and when an endpoint gets a pause."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySchedule:
    """Increasing delays over a day; `jitter` spreads the retries of events that failed
    together.

    A receiver that waits long before it fails may have processed the event, and processing it
    again may be expensive: the next attempt is then made no sooner than after `late_wait`.
    """

    waits: tuple[timedelta, ...] = (
        *(timedelta(seconds=n) for n in (5, 30)),
        *(timedelta(minutes=n) for n in (5, 30)),
        *(timedelta(hours=n) for n in (2, 5, 7, 9)),
    )
    window: timedelta = timedelta(hours=24)
    jitter: float = 0.1
    late_wait: timedelta = timedelta(minutes=30)

    def next_attempt(
        self, attempts: int, *, since: datetime, now: datetime, at_least: timedelta | None = None
    ) -> datetime | None:
        """When to retry after this many attempts, the last of which failed; None to give up.

        `at_least` (a receiver's `Retry-After`, or `late_wait`) is honoured within the window.
        """
        end = since + self.window
        if attempts > len(self.waits) or now >= end:
            return None
        wait = self.waits[attempts - 1] * random.uniform(1 - self.jitter, 1 + self.jitter)
        return min(now + max(wait, at_least or wait), end)


MAX_ENDPOINTS_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerOptions:
    failures: int = 5
    pause: timedelta = timedelta(seconds=30)
    max_pause: timedelta = timedelta(minutes=5)


@dataclass(slots=True)
class _Endpoint:
    failures: int = 0
    pauses: int = 0
    paused_until: float = 0.0


class CircuitBreakers:
    """Circuit breakers by endpoint, and by host for failed connections. Consecutive failures open
    the circuit for a pause; then a single probe is sent, and if it fails too, the next pause is
    twice as long.

    State is kept per process: each process finds out for itself.
    """

    def __init__(
        self, options: BreakerOptions, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._options = options
        self._clock = clock
        self.failing: dict[str, _Endpoint] = {}

    def allowed(self, endpoint: str, limit: int) -> int:
        """How many requests may be in flight to this endpoint, at most `limit`."""
        state = self.failing.get(endpoint)
        if state is None or not state.pauses:
            return limit
        return 0 if self._clock() < state.paused_until else min(1, limit)

    def succeeded(self, endpoint: str) -> None:
        self.failing.pop(endpoint, None)

    def failed(self, endpoint: str) -> timedelta | None:
        """Record a failure; returns the pause it starts, if any."""
        if len(self.failing) >= MAX_ENDPOINTS_REMEMBERED and endpoint not in self.failing:
            del self.failing[next(iter(self.failing))]
        state = self.failing.setdefault(endpoint, _Endpoint())
        state.failures += 1
        now = self._clock()
        if state.failures < self._options.failures or now < state.paused_until:
            return None
        pause: timedelta = min(self._options.pause * 2**state.pauses, self._options.max_pause)
        state.pauses = min(state.pauses + 1, 30)
        state.paused_until = now + pause.total_seconds()
        return pause
