"""How far a search goes at a time, so that it ends when its time is up."""

import time


class Stretches:
    """The first is short, as most pages are full soon; each further one as long as the pace so
    far allows in the time that is left."""

    FIRST, GROWTH = 200, 6

    def __init__(self, seconds: float) -> None:
        self._started = time.monotonic()
        self._seconds = seconds
        self._passed = 0
        self.length = self.FIRST

    def may_go_on(self) -> bool:
        """After each stretch: whether there is time for another, whose length is then set."""
        self._passed += self.length
        spent = time.monotonic() - self._started
        # Half of what is left: on a busy machine the pace changes at any time.
        possible = int(self._passed / max(spent, 1e-6) * (self._seconds - spent) / 2)
        self.length = min(self.length * self.GROWTH, possible)
        return possible >= self.FIRST
