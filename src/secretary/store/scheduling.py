"""Which of the jobs that could start next should: priority with ageing, users in turn, limits."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import AGEING, Capacity

#: Jobs of one type and priority wait in one line; a line serves its users in turn.
JobClass = tuple[str, int]

MAX_USERS_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job that could start. `arrival` orders jobs of different classes first in, first out."""

    key: Any
    user_id: str | None
    arrival: Any


@dataclass(slots=True)
class Running:
    """How many jobs run now, on any worker."""

    per_type: Counter[str] = field(default_factory=Counter)
    per_user: Counter[str | None] = field(default_factory=Counter)


class FairScheduler:
    """Remembers who was served last, so that no class of jobs and no user waits for ever.

    The memory is a process's own: losing it costs a little fairness, never a job.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._served_at: dict[JobClass, float] = {}
        self._user_served: dict[str | None, int] = {}
        self._tick = 0

    def choose(
        self, lines: Mapping[JobClass, Iterator[Candidate]], wanted: Capacity, running: Running
    ) -> list[Candidate]:
        """Take jobs off the heads of the lines until the worker has what it wanted."""
        heads = {line: head for line, waiting in lines.items() if (head := next(waiting, None))}
        now = self._clock()
        self._served_at = {line: self._served_at.get(line, now) for line in heads}
        chosen: list[Candidate] = []
        while len(chosen) < wanted.slots:
            allowed = [line for line in heads if _room(line[0], wanted, running)]
            if not allowed:
                break
            line = min(allowed, key=lambda line: self._rank(line, heads[line], now))
            head = heads[line]
            if _user_room(head.user_id, wanted, running):
                chosen.append(head)
                self._note(line, head, now, running)
            following = next(lines[line], None)
            if following is None:
                del heads[line]
            else:
                heads[line] = following
        return chosen

    def _rank(self, line: JobClass, head: Candidate, now: float) -> tuple[int, int, Any]:
        aged = int((now - self._served_at[line]) / AGEING.total_seconds())
        return (-(line[1] + aged), self._user_served.get(head.user_id, 0), head.arrival)

    def _note(self, line: JobClass, head: Candidate, now: float, running: Running) -> None:
        running.per_type[line[0]] += 1
        running.per_user[head.user_id] += 1
        self._served_at[line] = now
        if len(self._user_served) > MAX_USERS_REMEMBERED:
            self._user_served.clear()
        self._tick += 1
        self._user_served[head.user_id] = self._tick


def _room(job_type: str, wanted: Capacity, running: Running) -> bool:
    most = wanted.max_per_type.get(job_type)
    return most is None or running.per_type[job_type] < most


def _user_room(user_id: str | None, wanted: Capacity, running: Running) -> bool:
    if wanted.max_per_user is None or user_id is None:
        return True
    return running.per_user[user_id] < wanted.max_per_user
