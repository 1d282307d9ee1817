"""Ends the processes of a sandbox when their worker is killed or stopped."""

import asyncio
import os
import time

from ...core import processes
from .child import DEATH_SECONDS, Exit, exit_of

#: Who has shown life and then none for so long is taken for stopped. Less than a worker's lease,
#: so that its work has ended when another worker may take it.
PATIENCE_SECONDS = 4.0
#: Whoever comes back after so long must assume that the guard has acted.
SILENCE_SECONDS = 3.0
#: A guard that dies sooner than this after another one has is not replaced before the next sign
#: of life: something is wrong with it, and to start one after the other would help nobody.
SHORT_LIFE_SECONDS = 1.0


class Watchdog:
    """The process that ends a sandbox's children when their worker is killed."""

    def __init__(self, token: str, *, patience: float = PATIENCE_SECONDS) -> None:
        self._token = token
        self._patience = patience
        self._has_shown_life = False
        self._died_at = -SHORT_LIFE_SECONDS
        self._is_closed = False
        self._start()

    def _start(self) -> None:
        reading, self._lifeline = os.pipe()
        os.set_blocking(self._lifeline, False)
        if self._has_shown_life:  # else the new one would wait for it, and we may be stopped now
            os.write(self._lifeline, b".")
        try:
            # By path and without site: it needs nothing of the package and stays small.
            arguments = ["-I", "-S", processes.__file__, self._token, str(self._patience)]
            self._exit = asyncio.create_task(
                exit_of(processes.spawn(arguments, os.environ, [reading, None, None]))
            )
        finally:
            os.close(reading)
        self._exit.add_done_callback(self._died)

    def _died(self, exit: asyncio.Task[Exit]) -> None:
        """A signal to our group may reach it while it starts, and anybody may kill it."""
        is_short = time.monotonic() - self._died_at < SHORT_LIFE_SECONDS
        self._died_at = time.monotonic()
        if exit is self._exit and not exit.cancelled() and not self._is_closed and not is_short:
            self._replace()

    def _replace(self) -> None:
        os.close(self._lifeline)
        self._start()

    def show_life(self) -> None:
        self._has_shown_life = True
        try:
            os.write(self._lifeline, b".")
        except BlockingIOError:  # it has enough to read
            pass
        except BrokenPipeError:
            self._replace()

    async def close(self) -> None:
        self._is_closed = True
        os.close(self._lifeline)
        await asyncio.wait([self._exit], timeout=DEATH_SECONDS)


class Heartbeat:
    """Tells from the signs of life of this process whether it was stopped."""

    def __init__(self) -> None:
        self._alive_at: float | None = None
        self._came_back_at = -SILENCE_SECONDS

    def beat(self) -> None:
        if self._is_silent:
            self._came_back_at = time.monotonic()
        self._alive_at = time.monotonic()

    @property
    def was_stopped(self) -> bool:
        """Whether a death that is noticed now may be the guard's doing."""
        return self._is_silent or time.monotonic() - self._came_back_at < SILENCE_SECONDS

    @property
    def _is_silent(self) -> bool:
        return self._alive_at is not None and time.monotonic() - self._alive_at > SILENCE_SECONDS
