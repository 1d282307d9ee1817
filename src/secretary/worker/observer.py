"""What a worker tells of its jobs to whoever counts them."""

from collections.abc import Sequence
from typing import Protocol

from ..core.job import Job, Outcome, Progress
from ..store import Rescued


class Observer(Protocol):
    """Called in the middle of the work: each call takes microseconds and never fails."""

    def started(self, job: Job) -> None: ...

    def progressed(self, job: Job, progress: Progress) -> None: ...

    def ended(self, job: Job, outcome: Outcome) -> None:
        """This attempt came to an end that is recorded now."""
        ...

    def lost(self, job: Job) -> None:
        """The job is another worker's now."""
        ...

    def rescued(self, jobs: Sequence[Rescued]) -> None: ...


class Unobserved:
    def started(self, job: Job) -> None:
        pass

    def progressed(self, job: Job, progress: Progress) -> None:
        pass

    def ended(self, job: Job, outcome: Outcome) -> None:
        pass

    def lost(self, job: Job) -> None:
        pass

    def rescued(self, jobs: Sequence[Rescued]) -> None:
        pass


class Observers:
    """Several, told one after the other."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def started(self, job: Job) -> None:
        for one in self._observers:
            one.started(job)

    def progressed(self, job: Job, progress: Progress) -> None:
        for one in self._observers:
            one.progressed(job, progress)

    def ended(self, job: Job, outcome: Outcome) -> None:
        for one in self._observers:
            one.ended(job, outcome)

    def lost(self, job: Job) -> None:
        for one in self._observers:
            one.lost(job)

    def rescued(self, jobs: Sequence[Rescued]) -> None:
        for one in self._observers:
            one.rescued(jobs)
