"""Fair scheduling: which pending jobs start next, by priority with ageing, user and limits."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from .claims import Capacity

#: Jobs of one type and priority share one queue, which serves its users in turn.
JobClass = tuple[str, int]

#: A queue that is not served while others are gains one priority level per this time.
AGEING = timedelta(minutes=1)

MAX_USERS_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job that could start. `arrival` orders jobs of different queues first in, first out."""

    key: Any
    user_id: str | None
    arrival: Any


@dataclass(slots=True)
class Running:
    """How many jobs are running on all workers."""

    per_type: Counter[str] = field(default_factory=Counter)
    per_user: Counter[str | None] = field(default_factory=Counter)


class FairScheduler:
    """Remembers who was served last, so that no queue and no user starves.

    Each process has its own memory: losing it costs a little fairness, never a job.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._served_at: dict[JobClass, float] = {}
        self._user_served: dict[str | None, int] = {}
        self._tick = 0

    def choose(
        self, queues: Mapping[JobClass, Iterator[Candidate]], capacity: Capacity, running: Running
    ) -> list[Candidate]:
        """Take jobs from the heads of the queues until the capacity is used up."""
        heads = {queue: head for queue, waiting in queues.items() if (head := next(waiting, None))}
        now = self._clock()
        self._served_at = {queue: self._served_at.get(queue, now) for queue in heads}
        chosen: list[Candidate] = []
        while len(chosen) < capacity.slots:
            allowed = [queue for queue in heads if _type_has_room(queue[0], capacity, running)]
            if not allowed:
                break
            queue = min(allowed, key=lambda queue: self._rank(queue, heads[queue], now))
            head = heads[queue]
            if _user_has_room(head.user_id, capacity, running):
                chosen.append(head)
                self._note(queue, head, now, running)
            following = next(queues[queue], None)
            if following is None:
                del heads[queue]
            else:
                heads[queue] = following
        return chosen

    def _rank(self, queue: JobClass, head: Candidate, now: float) -> tuple[int, int, Any]:
        aged = int((now - self._served_at[queue]) / AGEING.total_seconds())
        return (-(queue[1] + aged), self._user_served.get(head.user_id, 0), head.arrival)

    def _note(self, queue: JobClass, head: Candidate, now: float, running: Running) -> None:
        running.per_type[queue[0]] += 1
        running.per_user[head.user_id] += 1
        self._served_at[queue] = now
        if len(self._user_served) > MAX_USERS_REMEMBERED:
            self._user_served.clear()
        self._tick += 1
        self._user_served[head.user_id] = self._tick


def _type_has_room(job_type: str, capacity: Capacity, running: Running) -> bool:
    limit = capacity.max_per_type.get(job_type)
    return limit is None or running.per_type[job_type] < limit


def _user_has_room(user_id: str | None, capacity: Capacity, running: Running) -> bool:
    if capacity.max_per_user is None or user_id is None:
        return True
    return running.per_user[user_id] < capacity.max_per_user
