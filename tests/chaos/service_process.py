"""The service's processes, started as users do, and ways to inject faults into them."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from secretary.core import processes

from ..acceptance.service import ROOT

#: How long a process may take to stop; less than supervisors allow.
END_SECONDS = 60
LOOK_EVERY = 0.1
#: A supervisor waits before it restarts a process that failed to start.
START_PAUSE = 0.5


class Member:
    """One process, kept running: if it exits, it is restarted, as systemd does."""

    def __init__(
        self, name: str, command: list[str], environment: dict[str, str], log: Path, ready: str
    ) -> None:
        self.name = name
        self._command = [sys.executable, "-m", "secretary", *command]
        self.environment = environment
        self._log = log
        #: It is ready when it has written this.
        self._ready = ready
        self._log_start = 0
        self._wanted = True
        self._lock = asyncio.Lock()
        #: How often it exited before it was ready, for example without a store; that is allowed.
        self.failed_starts = 0
        self.broken: list[str] = []
        self._start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _start(self) -> None:
        with self._log.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                self._command,
                env=self.environment,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    async def supervise(self) -> None:
        while self._wanted:
            await asyncio.sleep(LOOK_EVERY)
            if self._lock.locked() or self._process.poll() is None:
                continue
            output = self._output()
            if self._ready in output:
                last = output.strip().splitlines()[-1:]
                text = f"{self.name} ended by itself with code {self._process.returncode}: {last}"
                self.broken.append(text)
            else:
                self.failed_starts += 1
                await asyncio.sleep(START_PAUSE)
            if self._wanted and not self._lock.locked() and self._process.poll() is not None:
                self._start()

    def _output(self) -> str:
        with self._log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    async def kill(self) -> None:
        async with self._lock:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)
            self._start()

    async def stop_for(self, seconds: float) -> None:
        async with self._lock:
            self._signal(signal.SIGSTOP)
            try:
                await asyncio.sleep(seconds)
            finally:
                self._signal(signal.SIGCONT)

    async def restart(self, *, hurry: bool = False) -> None:
        """As a deployment does; a second signal stops it at once."""
        async with self._lock:
            await self._ended(hurry=hurry)
            self._start()

    async def end(self) -> None:
        async with self._lock:
            if self._wanted:
                self._wanted = False
                await self._ended(hurry=False)

    async def _ended(self, *, hurry: bool) -> None:
        was_up = self._ready in self._output()
        self._signal(signal.SIGTERM)
        if hurry:
            self._signal(signal.SIGTERM)
        try:
            code = await asyncio.to_thread(self._process.wait, END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)
            self.broken.append(f"{self.name} did not exit within {END_SECONDS} s")
            return
        if code != 0 and was_up:
            self.broken.append(f"{self.name} exited with code {code} when it was stopped")

    async def signal_child(self, dice: float, number: signal.Signals, seconds: float) -> bool:
        """Send a signal to one of its children, and SIGCONT later; return whether there was one."""
        below = processes.descendants(self.pid)
        if not below:
            return False
        child = below[int(dice * len(below))]
        with suppress(ProcessLookupError):
            os.kill(child.pid, number)
        if number is signal.SIGSTOP:
            await asyncio.sleep(seconds)
            if processes.is_alive(child.pid, child.started):
                with suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGCONT)
        return True

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)


def surviving_processes(token: str) -> list[str]:
    """Processes with this in their environment, apart from this one."""
    alive = []
    for entry in Path("/proc").glob("[0-9]*"):
        pid = int(entry.name)
        try:
            if pid != os.getpid() and token.encode() in (entry / "environ").read_bytes():
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:120]
                if processes.find(pid):
                    alive.append(f"process {pid} is left: {command}")
        except OSError:  # gone, or of another user
            continue
    return alive


async def none_alive(token: str, *, seconds: float) -> list[str]:
    """The same, after they had time to exit."""
    deadline = time.monotonic() + seconds
    while (remaining := surviving_processes(token)) and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    return remaining
