"""Kills the processes of a sandbox when their worker is killed or suspended."""

import asyncio
import os
import time

from ...core import processes
from .child import KILL_TIMEOUT, Exit, exit_of

#: A worker without a heartbeat for this long counts as suspended. Shorter than its lease, so that
#: its work has ended before another worker may claim the job.
WATCHDOG_TIMEOUT = 4.0
#: After a gap this long, assume that the watchdog has acted.
HEARTBEAT_GAP = 3.0
#: A watchdog that dies this soon after another one is replaced only at the next heartbeat:
#: restarting it in a loop would not help.
RESTART_INTERVAL = 1.0


class Watchdog:
    """The process that kills the sandbox's children when their worker dies or is suspended."""

    def __init__(self, token: str, *, timeout: float = WATCHDOG_TIMEOUT) -> None:
        self._token = token
        self._timeout = timeout
        self._is_armed = False
        self._died_at = -RESTART_INTERVAL
        self._is_closed = False
        self._start()

    def _start(self) -> None:
        reading, self._lifeline = os.pipe()
        os.set_blocking(self._lifeline, False)
        if self._is_armed:  # arm the new one at once: this process may be suspended
            os.write(self._lifeline, b".")
        try:
            # Run by path and without site: it needs nothing of the package and stays small.
            arguments = ["-I", "-S", processes.__file__, self._token, str(self._timeout)]
            self._exit = asyncio.create_task(
                exit_of(processes.spawn(arguments, os.environ, [reading, None, None]))
            )
        finally:
            os.close(reading)
        self._exit.add_done_callback(self._died)

    def _died(self, exit: asyncio.Task[Exit]) -> None:
        """Replace a watchdog that was killed, say by a signal to our process group."""
        is_short = time.monotonic() - self._died_at < RESTART_INTERVAL
        self._died_at = time.monotonic()
        if exit is self._exit and not exit.cancelled() and not self._is_closed and not is_short:
            self._replace()

    def _replace(self) -> None:
        os.close(self._lifeline)
        self._start()

    def heartbeat(self) -> None:
        self._is_armed = True
        try:
            os.write(self._lifeline, b".")
        except BlockingIOError:  # its pipe is full, which is enough
            pass
        except BrokenPipeError:
            self._replace()

    async def close(self) -> None:
        self._is_closed = True
        os.close(self._lifeline)
        await asyncio.wait([self._exit], timeout=KILL_TIMEOUT)


class Heartbeat:
    """Detects from gaps between its beats that this process was suspended."""

    def __init__(self) -> None:
        self._last_beat: float | None = None
        self._resumed_at = -HEARTBEAT_GAP

    def beat(self) -> None:
        if self._is_overdue:
            self._resumed_at = time.monotonic()
        self._last_beat = time.monotonic()

    @property
    def was_suspended(self) -> bool:
        """Whether the watchdog may have killed a child whose death is noticed now."""
        return self._is_overdue or time.monotonic() - self._resumed_at < HEARTBEAT_GAP

    @property
    def _is_overdue(self) -> bool:
        return self._last_beat is not None and time.monotonic() - self._last_beat > HEARTBEAT_GAP
