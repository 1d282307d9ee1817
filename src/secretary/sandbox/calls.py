"""A call that runs in a sandbox process, and the ways in which it can end."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .limits import Limits


@dataclass(frozen=True, slots=True)
class Ended:
    kind: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Breached:
    error: BaseException
    at_once: bool


@dataclass(frozen=True, slots=True)
class Died:
    pass


Outcome = Ended | Breached | Died


@dataclass(slots=True, eq=False)
class Call:
    limits: Limits
    on_message: Callable[[Any], None] | None
    outcome: asyncio.Future[Outcome]
    timer: asyncio.TimerHandle | None = None
    cpu_seconds: float = 0.0
    peak_bytes: int = 0

    def settle(self, outcome: Outcome) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if not self.outcome.done():
            self.outcome.set_result(outcome)
