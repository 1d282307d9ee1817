"""The program on a terminal, where it draws progress bars and tables."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from contextlib import suppress

from .program import COMMAND, Program

ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    """`secretary …` on a terminal of this width, with both outputs or (piped) with stderr only."""

    def __init__(
        self, program: Program, *arguments: str, columns: int = 120, is_piped: bool = False
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self._raw = b""
        self.out = ""
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            env={**program.env, "TERM": "xterm"},
            cwd=program.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if is_piped else theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    @property
    def shown(self) -> str:
        """Everything ever drawn, without colours and cursor movements."""
        return ESCAPES.sub(b"", self._raw).decode(errors="replace").replace("\r", "\n")

    def wait_for(self, pattern: str, *, seconds: float = 30) -> str:
        deadline = time.monotonic() + seconds
        while (match := re.search(pattern, self.shown)) is None:
            assert time.monotonic() < deadline, self.shown
            if select.select([self._ours], [], [], 1)[0]:
                self._raw += os.read(self._ours, 65536)
        return match[1] if match.groups() else match[0]

    def send(self, sign: int) -> None:
        os.killpg(self.process.pid, sign)

    def end(self) -> int:
        """Return the exit code; piped output is in `out` afterwards."""
        with suppress(OSError):  # no process has the terminal open any more
            while shown := os.read(self._ours, 65536):
                self._raw += shown
        os.close(self._ours)
        out, _ = self.process.communicate(timeout=20)
        self.out = (out or b"").decode()
        return self.process.returncode
