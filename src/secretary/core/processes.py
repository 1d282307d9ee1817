"""Process trees: who is below a process, how much memory they hold, and how to end them all."""

import contextlib
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

#: The environment variable by which the processes of a sandbox are known, whoever their parent is.
SANDBOX_VARIABLE = "SECRETARY_SANDBOX"

#: Orphans move up in the tree while we walk down; so we look again until there is no one new.
_MAX_PASSES = 100


class Process(NamedTuple):
    pid: int
    parent: int
    #: Clock ticks since boot; together with the pid this names one process for ever.
    started: int
    rss_bytes: int


def spawn(
    arguments: Sequence[str], environment: Mapping[str, str], descriptors: Sequence[int | None]
) -> int:
    """Starts Python as the leader of a session of its own, with these as its descriptors 0, 1, …

    None stands for /dev/null.
    """
    actions: list[tuple[object, ...]] = [
        (os.POSIX_SPAWN_OPEN, theirs, os.devnull, os.O_RDWR, 0)
        if ours is None
        else (os.POSIX_SPAWN_DUP2, ours, theirs)
        for theirs, ours in enumerate(descriptors)
    ]
    command = [sys.executable, *arguments]
    return os.posix_spawn(
        sys.executable, command, environment, file_actions=actions, setsid=True, setsigmask=()
    )


def find(pid: int) -> Process | None:
    """The process if it lives: a zombie holds nothing and runs nothing, so it is none."""
    stat = _read(f"/proc/{pid}/stat")
    if stat is None:
        return None
    # The name in parentheses may hold spaces and parentheses of its own.
    fields = stat[stat.rindex(b")") + 2 :].split()
    if fields[0] in b"ZX":
        return None
    return Process(pid, int(fields[1]), int(fields[19]), int(fields[21]) * _page_bytes())


def start_time(pid: int) -> int | None:
    process = find(pid)
    return process.started if process else None


def is_alive(pid: int, started: int) -> bool:
    return start_time(pid) == started


def descendants(pid: int) -> list[Process]:
    """Everyone below `pid`, parents before their children."""
    found: dict[int, Process] = {}
    unvisited = [pid]
    while unvisited:
        for child in _children(unvisited.pop()):
            process = find(child)
            if process and child not in found:
                found[child] = process
                unvisited.append(child)
    return list(found.values())


def tree(pid: int) -> list[Process]:
    root = find(pid)
    return [root, *descendants(pid)] if root else []


def processes_with_token(token: str) -> list[Process]:
    """Everyone who was started with this token in MARK, or with one below it (`token.3`)."""
    entry = f"{SANDBOX_VARIABLE}={token}".encode()
    found = []
    for pid in _all_pids():
        environ = _read(f"/proc/{pid}/environ")
        if environ and entry in environ and _holds(environ, entry) and (process := find(pid)):
            found.append(process)
    return found


def signal_tree(pid: int, number: signal.Signals) -> None:
    if not _has_proc():
        _signal_group(pid, number)
    for process in tree(pid):
        _signal(process.pid, number)


def kill_tree(pid: int) -> list[Process]:
    """Kills `pid` and everyone below it; says who they were, as they need a moment to be gone."""
    if not _has_proc():
        _signal_group(pid, signal.SIGKILL)
    root = find(pid)
    if root is None:
        return []
    # All of its group at once: a fork bomb would outrun the walk from one to the next.
    _signal_group(pid, signal.SIGSTOP)
    _signal(pid, signal.SIGSTOP)
    killed = kill_below(pid)
    # The root goes last: while it lives, orphans fall to it (if it is a subreaper), not to init.
    _signal(pid, signal.SIGKILL)
    return [root, *killed]


def kill_below(pid: int) -> list[Process]:
    """Stops everyone below `pid` before it kills the first: none can fork in between."""
    stopped: dict[int, Process] = {}
    for _ in range(_MAX_PASSES):
        before = len(stopped)
        _stop_below(pid, stopped)
        if len(stopped) == before:
            break
    for number in stopped:
        _signal(number, signal.SIGKILL)
    return list(stopped.values())


def watchdog(token: str, patience: float) -> None:
    """Kills all that bear `token` when whoever holds the other end of stdin is gone, and when it
    has once shown that it lives but has not for `patience` seconds: it is stopped, others take
    its work for abandoned, and nothing may be done twice at once.

    A process of its own, as the processes of a sandbox may be stuck in native code when their
    worker is killed.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    wait: float | None = None
    while True:
        if not select.select([0], [], [], wait)[0]:
            _kill_marked(token)
            wait = None
        elif os.read(0, 4096):
            wait = patience
        else:
            _kill_marked(token)
            return


def _kill_marked(token: str) -> None:
    deadline = time.monotonic() + 10
    while (left := processes_with_token(token)) and time.monotonic() < deadline:
        for process in left:
            kill_tree(process.pid)
        time.sleep(0.01)


def _stop_below(pid: int, stopped: dict[int, Process]) -> None:
    visited = {pid}
    unvisited = [pid]
    while unvisited:
        # Whose children are listed has been stopped: it has no more of them after that.
        for child in _children(unvisited.pop()):
            process = find(child)
            if process is None or child in visited:
                continue
            if child not in stopped:
                _signal(child, signal.SIGSTOP)
                stopped[child] = process
            visited.add(child)
            unvisited.append(child)


def _children(pid: int) -> Iterator[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for thread in threads:
        children = _read(f"/proc/{pid}/task/{thread}/children")
        if children:
            yield from map(int, children.split())
    if not os.path.exists("/proc/thread-self/children"):
        # A kernel without CONFIG_PROC_CHILDREN: ask everyone for their parent.
        yield from (other for other in _all_pids() if (p := find(other)) and p.parent == pid)


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()] if _has_proc() else []


def _holds(environ: bytes, entry: bytes) -> bool:
    return any(held == entry or held.startswith(entry + b".") for held in environ.split(b"\0"))


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _signal_group(leader: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        # Gone since it was listed, not ours to see, or no Linux.
        return None


def _has_proc() -> bool:
    return os.path.exists("/proc/self/stat")


def _page_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    watchdog(sys.argv[1], float(sys.argv[2]))


def boot_id() -> str:
    """Which start of the machine this is: its monotonic clock counts from there."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:  # not Linux
        return f"boot-{round(time.time() - time.monotonic(), -1):.0f}"


def process_identity(pid: int) -> str:
    """Names a process for ever: where its pid counts, and when it started."""
    return f"{_pid_namespace()}/{start_time(pid)}"


def has_died(pid: int, identity: str) -> bool:
    """Whether that process is known to be gone. Of other machines nothing is known."""
    namespace, _, started = identity.rpartition("/")
    if namespace == _pid_namespace() and started.isdigit():
        return not is_alive(pid, int(started))
    return False


def _pid_namespace() -> str:
    """Pids count within a process namespace (a container has its own) of one boot."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = "?"
    return f"{boot_id()}/{namespace}"


#: Programs map far more memory than they touch. Too little makes them crash by themselves, before
#: whoever looks after the sandbox can say that it was the memory.
_MAPPED_TO_RESIDENT_RATIO = 4


def inherited_environment(*names: str) -> dict[str, str]:
    """What a program gets of our environment: these, and the mark of the sandbox, by which its
    processes are found, whoever their parent is by then."""
    return {name: os.environ[name] for name in (SANDBOX_VARIABLE, *names) if name in os.environ}


@contextlib.contextmanager
def running_program(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """The running program; when this is left, it and all it started are gone."""
    with _raised_data_limit():
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
def _raised_data_limit() -> Iterator[None]:
    """What is started now may map more than this process may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft == resource.RLIM_INFINITY:
        yield
        return
    more = soft * _MAPPED_TO_RESIDENT_RATIO
    if hard != resource.RLIM_INFINITY:
        more = min(more, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
