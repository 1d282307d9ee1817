"""What a job used: CPU seconds, peak memory, pages, seconds of sound, tokens and their cost."""

from collections.abc import Mapping

#: Of these the largest value counts; all others add up.
PEAKS = frozenset({"peak_memory_bytes"})


class ResourceCalculator:
    """Filled by handlers and processes while a job runs; stored with the job when it ends."""

    def __init__(self) -> None:
        self._used: dict[str, float] = {}

    @property
    def used(self) -> Mapping[str, float]:
        return dict(self._used)

    def add(self, resource: str, amount: float) -> None:
        before = self._used.get(resource, 0)
        self._used[resource] = max(before, amount) if resource in PEAKS else before + amount

    def add_all(self, used: Mapping[str, float]) -> None:
        for resource, amount in used.items():
            self.add(resource, amount)
