"""Functions for a sandbox to call: some behave, most do not."""

import asyncio
import contextlib
import ctypes
import importlib
import itertools
import mmap
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from secretary.core.errors import InvalidParameters, LeaseLost
from secretary.core.processes import start_time
from secretary.worker.sandbox import child_main as inside

MIB = 1024 * 1024


class OwnError(Exception):
    pass


def add(left: int, right: int) -> int:
    return left + right


async def add_later(left: int, right: int) -> int:
    await asyncio.sleep(0)
    return left + right


def own_pid() -> int:
    return os.getpid()


async def own_loop() -> int:
    return id(asyncio.get_running_loop())


def variable(name: str) -> str | None:
    return os.environ.get(name)


def has_imported(module: str) -> bool:
    return module in sys.modules


def count(upto: int) -> str:
    for number in range(upto):
        inside.send(number)
    return "counted"


async def count_and_wait(upto: int) -> None:
    count(upto)
    await asyncio.sleep(1000)


def raise_value_error() -> NoReturn:
    raise ValueError("not this one", 7)


def raise_invalid_parameters() -> NoReturn:
    raise InvalidParameters("pages is wrong", field="pages")


def raise_own_error() -> NoReturn:
    raise OwnError("/home/me/secret.pdf")


async def raise_cancelled() -> NoReturn:
    raise asyncio.CancelledError


def leave() -> NoReturn:
    sys.exit(3)


def exit_at_once(code: int) -> NoReturn:
    os._exit(code)


def return_a_lock() -> object:
    return threading.Lock()


def raise_memory_error() -> NoReturn:
    raise MemoryError


def segfault() -> None:
    print("these are my last words")
    ctypes.string_at(0)


def segfault_with_children() -> None:
    leave_children()
    ctypes.string_at(0)


def eat_steadily(upto_bytes: int) -> None:
    """Allocates memory so slowly that a sampler sees every step."""
    taken = []
    for _ in range(0, upto_bytes, 8 * MIB):
        taken.append(touched(8 * MIB))
        time.sleep(0.02)


def eat_at_once(size: int) -> None:
    bytearray(size)


def eat_in_children(each_bytes: int, number: int) -> None:
    for _ in range(number):
        fork(lambda: take_and_sleep(each_bytes))
    time.sleep(1000)


def take_and_sleep(size: int) -> None:
    memory = touched(size)
    time.sleep(1000)
    memory.close()


def take_and_free(size: int) -> None:
    touched(size)


_kept: list[mmap.mmap] = []


def take_and_keep(size: int) -> None:
    _kept.append(touched(size))


def touched(size: int) -> mmap.mmap:
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for page in range(0, size, mmap.PAGESIZE):
        memory[page] = 1
    return memory


def burn(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def spin() -> None:
    inside.send("spinning")
    while True:
        pass


def sleep() -> None:
    inside.send("sleeping")
    time.sleep(1000)


def wait_for(sign: Path) -> str:
    inside.send("waiting")
    while not sign.exists():
        time.sleep(0.01)
    return "seen"


async def sleep_async() -> None:
    inside.send("sleeping")
    await asyncio.sleep(1000)


def spin_in_native_code() -> None:
    """No signal handler and no other thread gets to run during this."""
    inside.send("spinning")
    deque(itertools.repeat(None), maxlen=0)


def sleep_and_refuse() -> None:
    inside.send("refusing")
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(1000)


def sleep_and_tidy_up(path: Path) -> None:
    inside.send("sleeping")
    try:
        time.sleep(1000)
    finally:
        path.write_text("tidy")


def stop_when_asked() -> None:
    inside.send("waiting")
    while not inside.cancelled():
        time.sleep(0.01)


async def leave_a_task() -> None:
    leave_a_task.left = asyncio.create_task(asyncio.sleep(1000))  # type: ignore[attr-defined]


async def is_the_task_cancelled() -> bool:
    return bool(leave_a_task.left.cancelled())  # type: ignore[attr-defined]


def leave_children() -> str:
    """Leaves behind one plain child, one that ignores SIGTERM, and an orphan in its own session."""
    fork(lambda: time.sleep(1000))
    fork(ignore_and_sleep)
    fork_orphan(ignore_and_sleep)
    return "left"


def leave_children_and_sleep() -> None:
    leave_children()
    time.sleep(1000)


def leave_children_and_spin_in_native_code() -> None:
    leave_children()
    spin_in_native_code()


def leave_an_unmarked_child_and_die(seconds: float) -> None:
    child = subprocess.Popen(["sleep", "1000"], env={}, start_new_session=True)
    tell(child.pid)
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGKILL)


def fork_and_return_in_both() -> int:
    os.fork()
    return os.getpid()


def fork_bomb() -> None:
    while True:
        os.fork()


def print_much(size: int) -> str:
    for _ in range(0, size, MIB):
        sys.stdout.write("x" * MIB)
    return "printed"


def print_and_die(words: str) -> None:
    print(words, file=sys.stderr)
    os.kill(os.getpid(), signal.SIGKILL)


def fork(work: Callable[[], Any]) -> None:
    pid = os.fork()
    if pid:
        tell(pid)
        return
    work()
    os._exit(0)


def fork_orphan(work: Callable[[], Any]) -> None:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        tell(int(os.read(reading, 32)))
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    os.write(writing, str(os.getpid()).encode())
    work()


def tell(pid: int) -> None:
    inside.send((pid, start_time(pid)))


def ignore_and_sleep() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(1000)


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def send_trap(path: Path, kind: int) -> int:
    """Sends frames of every kind that a hijacked process might send instead of its result."""
    assert inside._server is not None
    trap = pickle.dumps(Trap(path))
    usage = b"" if kind == inside.MESSAGE else inside.USAGE.pack(0.0, 0, False)
    for prefix in (b"", b"j", b"b"):
        inside._server._send(inside.MESSAGE, prefix + trap)
    inside._server._send(kind, usage + trap)
    time.sleep(1000)
    return 0


def return_text() -> int:
    return "no number"  # type: ignore[return-value]


def raise_lost_lease() -> NoReturn:
    raise LeaseLost("another worker has the job")


def load_module(name: str) -> bool:
    """Returns whether it was not loaded before."""
    is_new = name not in sys.modules
    importlib.import_module(name)
    return is_new
