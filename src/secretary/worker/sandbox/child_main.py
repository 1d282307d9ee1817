"""The entry point of a sandbox process: serves calls from its socket, one at a time."""

import asyncio
import ctypes
import faulthandler
import importlib
import os
import pickle
import resource
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from ...core import processes
from ...core.callables import LazyCallable
from ...core.errors import FileTooLarge
from . import codec

#: The file descriptor on which the worker passes the socket.
SOCKET = 3

#: A frame: its kind, the length of its body, and the body.
HEADER = struct.Struct("!BQ")
CALL, CANCEL = range(2)
READY, MESSAGE, RETURNED, RAISED, TOO_LARGE, OUT_OF_MEMORY = range(6)

#: Prefix of a CALL: the limits of memory (0: none) and output, in bytes.
ALLOWED = struct.Struct("!QQ")
#: Prefix of READY and of the frame that ends a call: total CPU seconds of this process, peak
#: memory in bytes, and whether everything the call started has ended.
USAGE = struct.Struct("!dQ?")


class ResourceMeter:
    def __init__(self) -> None:
        self._status = _opened("/proc/self/status", os.O_RDONLY)
        self._statm = _opened("/proc/self/statm", os.O_RDONLY)
        self._clear_refs = _opened("/proc/self/clear_refs", os.O_WRONLY)
        self._children_peak = 0

    def start(self, memory_bytes: int) -> None:
        if self._clear_refs is not None:
            os.pwrite(self._clear_refs, b"5", 0)  # reset the peak
        if memory_bytes and self._statm is not None:
            # For what allocates faster than the worker samples; with a margin, because not all
            # mapped memory is touched.
            had = int(os.pread(self._statm, 128, 0).split()[5]) * resource.getpagesize()
            _limit_data(had + memory_bytes * 5 // 4)

    def stop(self) -> None:
        _limit_data(resource.RLIM_INFINITY)

    def cpu_seconds(self) -> float:
        own = resource.getrusage(resource.RUSAGE_SELF)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime

    def rss_bytes(self) -> int:
        if self._statm is None:
            return 0
        return int(os.pread(self._statm, 128, 0).split()[1]) * resource.getpagesize()

    def peak_bytes(self) -> int:
        """Since `start`; an ended child counts only if it was the largest so far."""
        if self._status is None:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        else:  # not ru_maxrss: it starts with the peak of the worker that spawned us
            status = os.pread(self._status, 4096, 0).partition(b"VmHWM:")[2]
            peak = int(status.partition(b"kB")[0]) * 1024
        children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        if children > self._children_peak:
            self._children_peak = children
            peak = max(peak, children)
        return peak


def _opened(path: str, flags: int) -> int | None:
    try:
        return os.open(path, flags)
    except OSError:
        return None


def _limit_data(size: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY and not 0 <= size <= hard:
        size = hard
    resource.setrlimit(resource.RLIMIT_DATA, (size, hard))


_PR_SET_CHILD_SUBREAPER = 36

_server: "_Server | None" = None


def send(message: Any) -> None:
    """Send `message` to the caller of the call that runs in this process."""
    if _server is None:
        raise RuntimeError("no call is running in this process")
    _server.send_message(message)


def cancelled() -> bool:
    """Whether the running call should stop; cheap enough for an inner loop."""
    return _server is not None and _server.is_cancelled()


def main(preload: Sequence[str]) -> None:
    global _server
    faulthandler.enable()
    # Otherwise the last output of a crashing process would be lost in its buffer.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a file, never None
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _server = _Server(socket.socket(fileno=SOCKET))
    for module in preload:
        importlib.import_module(module)
    _server.serve()


class _Server:
    """Runs sync functions in the main thread and async ones on one event loop."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._pid = os.getpid()
        self._meter = ResourceMeter()
        self._loop: _Loop | None = None
        self._output_bytes = 0
        self._is_calling = False
        self._is_terminated = False

    def serve(self) -> None:
        self._connection.set_inheritable(False)
        signal.signal(signal.SIGTERM, self._terminate)
        os.register_at_fork(after_in_child=self._detach_after_fork)
        self._send(READY, USAGE.pack(self._meter.cpu_seconds(), self._meter.rss_bytes(), True))
        while header := self._receive(HEADER.size):
            kind, size = HEADER.unpack(header)
            body = self._receive(size)
            # A cancellation that arrives after its call has ended is ignored.
            if kind == CALL:
                self._serve_call(body)

    def send_message(self, message: Any) -> None:
        data = codec.encode(message)
        if len(data) > self._output_bytes:
            raise FileTooLarge(
                "A message of the work exceeds the size limit.",
                limit_bytes=self._output_bytes,
                size_bytes=len(data),
            )
        self._send(MESSAGE, data)

    def is_cancelled(self) -> bool:
        # While a call runs, the worker sends nothing but its cancellation. End of stream means
        # that the worker died, which is a reason to stop, too.
        try:
            self._connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except ConnectionError:
            pass
        return True

    def _serve_call(self, body: bytes) -> None:
        memory_bytes, self._output_bytes = ALLOWED.unpack_from(body)
        try:
            kind, payload = self._perform(memory_bytes, memoryview(body)[ALLOWED.size :])
        except BaseException as error:  # whatever it is, it ends the call
            kind, payload = _describe_error(error)
        if os.getpid() != self._pid:
            # A process forked by the function returned from it: it must not end the call.
            os._exit(1)
        is_clean = self._kill_descendants()
        usage = USAGE.pack(self._meter.cpu_seconds(), self._meter.peak_bytes(), is_clean)
        self._send(kind, usage + payload)

    def _perform(self, memory_bytes: int, request: memoryview) -> tuple[int, bytes]:
        self._meter.start(memory_bytes)
        try:
            self._is_calling = True
            try:
                function, args = pickle.loads(request)  # nosec B301  # the worker asks
                result = function(*args)
                if hasattr(result, "__await__"):
                    self._loop = self._loop or _Loop(self._connection)
                    result = self._loop.run(result)
            finally:
                self._is_calling = False
            payload = codec.encode(result, _declared_result(function))
        finally:
            self._meter.stop()
        if len(payload) > self._output_bytes:
            return TOO_LARGE, codec.encode(len(payload))
        return RETURNED, payload

    def _kill_descendants(self) -> bool:
        """Kill what the call forked; as a subreaper we are the parent of all orphans."""
        for _ in range(200):
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return True
            if not self._is_terminated:  # else they were signalled, and have their grace period
                processes.kill_below(self._pid)
            time.sleep(0.005)
        return False

    def _terminate(self, *_: object) -> None:
        # Service managers signal all processes of a service while its worker still drains, so a
        # signal counts only if the worker has cancelled the call before.
        if self._is_calling and not self._is_terminated and self.is_cancelled():
            self._is_terminated = True
            raise SystemExit("terminated")

    def _detach_after_fork(self) -> None:
        global _server
        _server = None
        self._connection.close()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _send(self, kind: int, body: bytes) -> None:
        with self._sending:
            self._connection.sendall(HEADER.pack(kind, len(body)) + body)

    def _receive(self, size: int) -> bytes:
        data = self._connection.recv(size, socket.MSG_WAITALL)
        while 0 < len(data) < size:  # interrupted by a signal
            more = self._connection.recv(size - len(data), socket.MSG_WAITALL)
            data = data + more if more else b""
        return data


class _Loop:
    def __init__(self, connection: socket.socket) -> None:
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self._connection = connection
        self._is_listening = False

    def run(self, awaitable: Awaitable[Any]) -> Any:
        self._task = asyncio.ensure_future(awaitable, loop=self._loop)
        if not self._is_listening:
            self._loop.add_reader(self._connection, self._cancel)
            self._is_listening = True
        try:
            return self._loop.run_until_complete(self._task)
        finally:
            for task in (tasks := asyncio.all_tasks(self._loop)):
                task.cancel()
            if tasks:
                ended = asyncio.gather(*tasks, return_exceptions=True)
                self._loop.run_until_complete(ended)

    def _cancel(self) -> None:
        # The frame stays in the socket for `cancelled()`; the server reads it after the call.
        self._loop.remove_reader(self._connection)
        self._is_listening = False
        self._task.cancel()


def _declared_result(function: Callable[..., Any]) -> Any:
    while isinstance(function, partial):
        function = function.func
    return codec.return_type(function.load() if isinstance(function, LazyCallable) else function)


def _describe_error(error: BaseException) -> tuple[int, bytes]:
    if isinstance(error, MemoryError):
        return OUT_OF_MEMORY, b""
    return RAISED, codec.encode_error(error)
