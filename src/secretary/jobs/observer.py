"""Hooks through which metrics and traces follow the jobs of a worker."""

from collections.abc import Sequence

from ..core.job import Job, Outcome, Progress
from ..store import Rescued


class Observer:
    """Called while jobs run, so every method must be fast and must not raise. Does nothing by
    default."""

    def started(self, job: Job) -> None:
        """An attempt starts."""

    def progressed(self, job: Job, progress: Progress) -> None:
        """The handler reported progress."""

    def ended(self, job: Job, outcome: Outcome) -> None:
        """The outcome of the attempt has been recorded."""

    def lost(self, job: Job) -> None:
        """The lease expired; another worker may own the job now."""

    def rescued(self, jobs: Sequence[Rescued]) -> None:
        """Jobs were taken away from workers that died or lost their leases."""


class Observers(Observer):
    """Calls several observers in turn."""

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
