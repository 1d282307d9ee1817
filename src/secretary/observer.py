"""What a worker tells of its jobs to whoever counts them."""

from collections.abc import Sequence
from typing import Protocol

from .job import Job, Outcome
from .store import Rescued


class Observer(Protocol):
    """Called in the middle of the work: each call takes microseconds and never fails."""

    def started(self, job: Job) -> None: ...

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

    def ended(self, job: Job, outcome: Outcome) -> None:
        pass

    def lost(self, job: Job) -> None:
        pass

    def rescued(self, jobs: Sequence[Rescued]) -> None:
        pass
