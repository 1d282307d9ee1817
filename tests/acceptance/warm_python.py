"""A Python process that has already imported the program and forks for each command. The child runs
what `python -m secretary` would run, without importing everything again for each of the hundreds of
commands in the tests. Services, terminal programs and the examples of the docs start without it, as
they do for users."""

import atexit
import functools
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: Read by Python and the C library at startup, so it cannot be changed later.
_OF_THE_START = ("PYTHON", "LANG", "LC_", "LD_", "MALLOC_", "TZ")
_IMPORTED = ("local", "output", "remote")


class WarmPython:
    """Runs one command at a time."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._start = _of_the_start(environment)
        self._is_idle = True
        self._connection, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                env=dict(environment),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self._answers = self._connection.makefile("rb")

    def fits(self, environment: Mapping[str, str]) -> bool:
        """Whether it can do what a new process would; not after an interrupted test."""
        alike = _of_the_start(environment) == self._start
        return alike and self._is_idle and self._process.poll() is None

    def run(
        self,
        arguments: list[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        stdin: str | None,
        seconds: float,
    ) -> tuple[int, str, str]:
        """Exit code, output and errors, once all processes that can write them have exited."""
        request = json.dumps({"arguments": arguments, "env": dict(env), "cwd": str(cwd)})
        deadline = time.monotonic() + seconds
        (their_in, our_in), (our_out, their_out), (our_err, their_err) = (
            os.pipe() for _ in range(3)
        )
        theirs = [their_in, their_out, their_err]
        self._is_idle = False
        try:
            socket.send_fds(self._connection, [request.encode() + b"\n"], theirs)
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        pid = int(self._answers.readline())
        try:
            out, err = _communicated(our_in, (stdin or "").encode(), [our_out, our_err], deadline)
        except BaseException as error:
            os.kill(pid, signal.SIGKILL)
            if isinstance(error, TimeoutError):
                raise subprocess.TimeoutExpired(arguments, seconds) from None
            raise
        code = int(self._answers.readline())
        self._is_idle = True
        return code, out.decode(), err.decode()

    def close(self) -> None:
        self._answers.close()
        self._connection.close()
        self._process.wait(30)


@functools.cache
def warm_python(root: Path) -> WarmPython:
    """One for all tests of this process, with the program of this checkout."""
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    warm = WarmPython(environment)
    atexit.register(warm.close)
    return warm


def _of_the_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in environment.items() if name.startswith(_OF_THE_START)}


def _communicated(
    stdin: int, text: bytes, outputs: list[int], deadline: float
) -> tuple[bytes, bytes]:
    read = {descriptor: b"" for descriptor in outputs}
    with selectors.DefaultSelector() as selector, os.fdopen(stdin, "wb", buffering=0) as pipe:
        for descriptor in outputs:
            selector.register(descriptor, selectors.EVENT_READ)
        if text:
            pipe.write(text)  # the tests' input fits into a pipe
        pipe.close()
        try:
            while selector.get_map():
                ready = selector.select(deadline - time.monotonic())
                if not ready:
                    raise TimeoutError
                for key, _ in ready:
                    piece = os.read(key.fd, 65536)
                    read[key.fd] += piece
                    if not piece:
                        selector.unregister(key.fd)
        finally:
            for descriptor in outputs:
                os.close(descriptor)
    first, second = read.values()
    return first, second


# In the child process


def main(connection: socket.socket) -> None:
    for module in _IMPORTED:
        importlib.import_module(f"secretary.cli.{module}")
    gc.collect()
    gc.freeze()  # so that the garbage collector does not make a fork copy its memory
    while request := _received(connection):
        text, descriptors = request
        pid = os.fork()
        if pid == 0:
            connection.close()
            _become(json.loads(text), descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)
        connection.sendall(b"%d\n" % pid)
        _, status = os.waitpid(pid, 0)
        connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def _received(connection: socket.socket) -> tuple[bytes, list[int]] | None:
    text, descriptors, _, _ = socket.recv_fds(connection, 65536, 3)
    while text and not text.endswith(b"\n"):
        text += connection.recv(65536)
    return (text, descriptors) if text else None


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.path[0] = os.getcwd()
    sys.argv = ["secretary", *request["arguments"]]
    runpy.run_module("secretary", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
