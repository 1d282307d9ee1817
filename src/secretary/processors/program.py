"""Programs that a processor starts: in a process group of their own, which ends with the work."""

import contextlib
import os
import resource
import signal
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

from ..processes import MARK

#: Programs map far more memory than they touch. Too little makes them crash by themselves, before
#: whoever looks after the sandbox can say that it was the memory.
_MAPPED_FOR_ONE_TOUCHED = 4


def passed_on(*names: str) -> dict[str, str]:
    """What a program gets of our environment: these, and the mark of the sandbox, by which its
    processes are found, whoever their parent is by then."""
    return {name: os.environ[name] for name in (MARK, *names) if name in os.environ}


@contextlib.contextmanager
def started(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """The running program; when this is left, it and all it started are gone."""
    with _more_data():
        process = subprocess.Popen(  # nosec B603  # no shell, and names of files are ours
            command, stdin=subprocess.DEVNULL, start_new_session=True, **options
        )
    try:
        yield process
    finally:
        # The program we started may be only the parent of the one that works.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


@contextlib.contextmanager
def _more_data() -> Iterator[None]:
    """What is started now may map more than this process may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft == resource.RLIM_INFINITY:
        yield
        return
    more = soft * _MAPPED_FOR_ONE_TOUCHED
    if hard != resource.RLIM_INFINITY:
        more = min(more, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
