"""When a request is made once more, and how long to wait before that."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from ..retry_after import read_retry_after

#: The service, or what stands before it, cannot answer now.
BUSY = frozenset({429, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Retries:
    """`attempts` in all; the waits between them double from `first_wait` to `longest_wait`
    seconds, each up to a half shorter so that many clients do not come back at once. A
    `Retry-After` makes a wait longer, up to `longest_retry_after`."""

    attempts: int = 8
    first_wait: float = 0.5
    longest_wait: float = 15.0
    longest_retry_after: float = 120.0
    chance: Callable[[], float] = random.random

    def wait(self, failures: int, retry_after: float | None = None) -> float:
        """Seconds to wait after so many failures in a row."""
        grown = min(self.first_wait * 2.0 ** min(failures - 1, 30), self.longest_wait)
        jittered = grown * (1 - self.chance() / 2)
        return max(jittered, min(retry_after or 0.0, self.longest_retry_after))


def seconds_until(header: str | None) -> float | None:
    """`Retry-After`: seconds, or a date."""
    wait = read_retry_after(header, datetime.now(UTC))
    return None if wait is None else wait.total_seconds()
