"""The entry point of a sandbox process: serves calls from its socket, one at a time."""

import asyncio
import ctypes
import faulthandler
import gc
import importlib
import os
import pickle
import re
import resource
import select
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn

from ...core import processes
from ...core.callables import LazyCallable
from ...core.errors import FileTooLarge
from ...core.fence import Fence, enter, prepare, warm_up
from . import codec

#: The file descriptor on which the worker passes the socket.
SOCKET = 3

#: A frame: its kind, the length of its body, and the body.
HEADER = struct.Struct("!BQ")
CALL, CANCEL = range(2)
READY, MESSAGE, RETURNED, RAISED, TOO_LARGE, OUT_OF_MEMORY, IMPORTED = range(7)

#: What a fork server is asked for, one message each: the kind, and a pickled body.
PREPARE, BIND, UNBIND, IMPORT = range(4)
#: What it reports when it has forked: the pid, its own total CPU seconds and its memory in bytes.
FORKED = struct.Struct("!QdQ")
_MESSAGE_BYTES = 256 * 1024
#: Modules that a fork server imports if a fork asks for it, which may be hostile: ours that read
#: documents, and libraries that these load when they need them. All do nothing when imported.
LEARNED_MODULES = re.compile(
    r"(secretary\.(documents|media|web)|PIL|numpy|lxml|pypdfium2|pikepdf|tesserocr|cv2|onnxruntime"
    r"|rapidocr|ctranslate2|trafilatura|markdown_it|pi_heif|orjson|zipfile|xml)(\.\w+)*"
)

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

    @staticmethod
    def current_bytes() -> int:
        process = processes.find(os.getpid())
        return process.rss_bytes if process else 0

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


def main(preload: Sequence[str], *, system: Sequence[str] | None = None) -> None:
    """Serve calls, or with the `system` paths of a fence let confined forks serve them."""
    global _server
    faulthandler.enable()
    # Otherwise the last output of a crashing process would be lost in its buffer.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a file, never None
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    connection = socket.socket(fileno=SOCKET)
    if system is not None:
        _import_modules(preload)
        ForkServer(connection, Fence(system=tuple(system))).serve()
        return
    _server = _Server(connection)
    _import_modules(preload)
    _server.announce()
    _server.serve()


def _import_modules(names: Sequence[str]) -> None:
    for name in names:
        importlib.import_module(name)


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
        self._modules: set[str] | None = None

    def connect(self, connection: socket.socket) -> None:
        self._connection = connection
        self._modules = set(sys.modules)

    def announce(self) -> None:
        self._send(READY, USAGE.pack(self._meter.cpu_seconds(), self._meter.rss_bytes(), True))

    def serve(self) -> None:
        self._connection.set_inheritable(False)
        signal.signal(signal.SIGTERM, self._terminate)
        os.register_at_fork(after_in_child=self._detach_after_fork)
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
        self._report_imports()
        usage = USAGE.pack(self._meter.cpu_seconds(), self._meter.peak_bytes(), is_clean)
        self._send(kind, usage + payload)

    def _report_imports(self) -> None:
        """Tell which modules a call has loaded, so that the next forks have them from the start."""
        if self._modules is not None and len(sys.modules) > len(self._modules):
            names = [name for name in sys.modules.copy() if name not in self._modules]
            self._modules.update(names)
            self._send(IMPORTED, " ".join(filter(LEARNED_MODULES.fullmatch, names)).encode())

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


@dataclass(frozen=True, slots=True)
class Binding:
    """What a fork is allowed, for the calls of one job."""

    #: None: everything, for handlers of the operator.
    fence: Fence | None
    #: Variables that it gets beside those of the fork server.
    environment: Mapping[str, str]
    #: Directory for its temporary files.
    scratch: str | None


class ForkServer:
    """Forks a process for each job, which can then be confined to the files of this job.

    The server itself never sees a document. It has one fork at a time: a spare one until the worker
    binds it to a job, which takes no time then. When the job has ended, the fork is killed.
    """

    def __init__(self, control: socket.socket, fence: Fence) -> None:
        self._fence = fence
        self._control = control
        self._control.set_inheritable(False)
        self._pid = 0
        self._is_bound = False

    def serve(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        warm_up(self._fence)
        gc.collect()
        gc.freeze()  # otherwise a collection in the fork would copy all pages
        self._fork()
        while True:
            if not self._has_message():
                self._die_like_fork()
            message, descriptors, _, _ = socket.recv_fds(self._control, _MESSAGE_BYTES, 1)
            if not message:
                self._end_fork()
                return
            match message[0]:
                case 0:  # PREPARE
                    self._prepare(message[1:])
                case 1:  # BIND
                    self._bind(message, descriptors)
                case 2:  # UNBIND
                    self._replace_fork()
                case 3:  # IMPORT
                    for name in message[1:].decode().split():
                        with suppress(Exception):  # not all parts of a library can be imported
                            importlib.import_module(name)

    def _has_message(self) -> bool:
        """Wait for a message of the worker; false if the fork has died instead."""
        exit = os.pidfd_open(self._pid)
        try:
            control = self._control.fileno()
            # The message may be the reason why it has exited.
            return control in select.select([control, exit], [], [])[0]
        finally:
            os.close(exit)

    def _prepare(self, pickled: bytes) -> None:
        """Import what a function needs, so that the next forks have it."""
        with suppress(Exception):  # the call itself will fail for the same reason, and report it
            function = pickle.loads(pickled)  # nosec B301  # the worker asks
            codec.prepare(_declared_result(function))
        if not self._is_bound:
            self._replace_fork()

    def _bind(self, message: bytes, descriptors: list[int]) -> None:
        if self._is_bound:
            self._replace_fork()
        self._is_bound = True
        socket.send_fds(self._spare, [message[1:]], descriptors)
        self._spare.close()
        for descriptor in descriptors:
            os.close(descriptor)

    def _replace_fork(self) -> None:
        self._end_fork()
        self._fork()

    def _fork(self) -> None:
        self._spare, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._is_bound = False
        self._pid = os.fork()
        if not self._pid:
            self._control.close()
            self._spare.close()
            _serve_fork(theirs, self._fence)
            os._exit(0)
        theirs.close()
        usage = (
            resource.getrusage(resource.RUSAGE_SELF),
            resource.getrusage(resource.RUSAGE_CHILDREN),
        )
        cpu_seconds = sum(each.ru_utime + each.ru_stime for each in usage)
        self._control.send(FORKED.pack(self._pid, cpu_seconds, ResourceMeter.current_bytes()))

    def _end_fork(self) -> None:
        """Kill the fork and everything that it has started."""
        if not self._is_bound:
            self._spare.close()
        processes.kill_below(os.getpid())
        with suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)

    def _die_like_fork(self) -> NoReturn:
        """Report the death of the fork as our own: the worker learns of it by our exit status."""
        _, status = os.waitpid(self._pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            with suppress(OSError, ValueError):
                signal.signal(-code, signal.SIG_DFL)
            faulthandler.disable()
            os.kill(os.getpid(), -code)
        os._exit(code & 0xFF)


def _serve_fork(spare: socket.socket, system: Fence) -> None:
    """In the fork: wait for a job, confine this process to it, and serve its calls."""
    global _server
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    ruleset = prepare(system)
    server = _server = _rehearsed_server()
    message, descriptors, _, _ = socket.recv_fds(spare, _MESSAGE_BYTES, 1)
    spare.close()
    if not message:
        return
    binding: Binding = pickle.loads(message)  # nosec B301  # from the worker, before any call
    os.environ.update(binding.environment)
    if binding.scratch is not None:
        os.environ["TMPDIR"] = tempfile.tempdir = binding.scratch
    server.connect(socket.socket(fileno=descriptors[0]))
    if ruleset is not None and (binding.fence is None or binding.fence.network):
        os.close(ruleset)  # it is for processes without network
        ruleset = None
    if binding.fence is not None:
        enter(replace(binding.fence, system=system.system), ruleset)
    server.serve()


def _rehearsed_server() -> "_Server":
    """A server that has performed a call: the memory that this needs is now our own, no longer
    shared with the process that forked us, so that the first call is as fast as others."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        server = _Server(theirs)
        binding = Binding(Fence(), {}, None)
        request = pickle.dumps((_rehearse, (binding,)), protocol=5)
        server._serve_call(ALLOWED.pack(0, _MESSAGE_BYTES) + request)
    return server


def _rehearse(binding: Binding) -> int:
    return os.getpid()


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
    return codec.return_type(_implementation(function))


def _implementation(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, partial):
        function = function.func
    return function.load() if isinstance(function, LazyCallable) else function


def _describe_error(error: BaseException) -> tuple[int, bytes]:
    if isinstance(error, MemoryError):
        return OUT_OF_MEMORY, b""
    return RAISED, codec.encode_error(error)
