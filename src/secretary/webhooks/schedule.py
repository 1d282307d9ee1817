"""When an event that was not delivered is tried again."""

import random
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
