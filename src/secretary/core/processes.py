"""Process trees: finding, measuring and killing them, and running external programs."""

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

#: Environment variable that identifies the processes of a sandbox, whatever their parent.
SANDBOX_VARIABLE = "SECRETARY_SANDBOX"

#: Orphans move up the tree while we walk down, so walks are repeated until nothing is new.
_MAX_PASSES = 100


class Process(NamedTuple):
    pid: int
    parent: int
    #: Clock ticks since boot; unique together with the pid.
    started: int
    rss_bytes: int


def spawn(
    arguments: Sequence[str], environment: Mapping[str, str], descriptors: Sequence[int | None]
) -> int:
    """Start Python as the leader of a new session, with these as file descriptors 0, 1, …

    None stands for /dev/null.
    """
    actions: list[tuple[object, ...]] = [
        (os.POSIX_SPAWN_OPEN, target, os.devnull, os.O_RDWR, 0)
        if source is None
        else (os.POSIX_SPAWN_DUP2, source, target)
        for target, source in enumerate(descriptors)
    ]
    command = [sys.executable, *arguments]
    return os.posix_spawn(
        sys.executable, command, environment, file_actions=actions, setsid=True, setsigmask=()
    )


def find(pid: int) -> Process | None:
    """The process if it is alive; None for a zombie, which holds and runs nothing."""
    stat = _read(f"/proc/{pid}/stat")
    if stat is None:
        return None
    # The name in parentheses may itself contain spaces and parentheses.
    fields = stat[stat.rindex(b")") + 2 :].split()
    if fields[0] in b"ZX":
        return None
    rss_bytes = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    return Process(pid, int(fields[1]), int(fields[19]), rss_bytes)


def start_time(pid: int) -> int | None:
    process = find(pid)
    return process.started if process else None


def is_alive(pid: int, started: int) -> bool:
    return start_time(pid) == started


def descendants(pid: int) -> list[Process]:
    """All descendants of `pid`, parents before children."""
    return list(_walk(pid))


def _walk(pid: int) -> Iterator[Process]:
    visited, unvisited = {pid}, [pid]
    while unvisited:
        for child in _children(unvisited.pop()):
            process = find(child)
            if process and child not in visited:
                visited.add(child)
                unvisited.append(child)
                yield process


def tree(pid: int) -> list[Process]:
    root = find(pid)
    return [root, *descendants(pid)] if root else []


def processes_with_token(token: str) -> list[Process]:
    """Processes started with this token in SANDBOX_VARIABLE, or a sub-token (`token.3`)."""
    entry = f"{SANDBOX_VARIABLE}={token}".encode()
    matches = []
    for pid in _all_pids():
        environ = _read(f"/proc/{pid}/environ") or b""
        if entry not in environ:
            continue
        variables = environ.split(b"\0")
        is_match = any(item == entry or item.startswith(entry + b".") for item in variables)
        if is_match and (process := find(pid)):
            matches.append(process)
    return matches


def signal_tree(pid: int, number: signal.Signals) -> None:
    if not _has_proc():
        _signal(pid, number, group=True)
    for process in tree(pid):
        _signal(process.pid, number)


def kill_tree(pid: int) -> list[Process]:
    """Kill `pid` and its descendants; return them, as they take a moment to exit."""
    if not _has_proc():
        _signal(pid, signal.SIGKILL, group=True)
    root = find(pid)
    if root is None:
        return []
    # The whole group at once: a fork bomb would outrun a walk over the tree.
    _signal(pid, signal.SIGSTOP, group=True)
    _signal(pid, signal.SIGSTOP)
    killed = kill_below(pid)
    # The root goes last: while it is alive, orphans are reparented to it (a subreaper), not init.
    _signal(pid, signal.SIGKILL)
    return [root, *killed]


def kill_below(pid: int) -> list[Process]:
    """Stop all descendants of `pid` before killing any, so that none can fork meanwhile."""
    stopped: dict[int, Process] = {}
    for _ in range(_MAX_PASSES):
        before = len(stopped)
        for process in _walk(pid):  # each is stopped before its children are listed
            if process.pid not in stopped:
                _signal(process.pid, signal.SIGSTOP)
                stopped[process.pid] = process
        if len(stopped) == before:
            break
    for number in stopped:
        _signal(number, signal.SIGKILL)
    return list(stopped.values())


def watchdog(token: str, patience: float) -> None:
    """Kill all processes with `token` when the worker at the other end of stdin is gone, or when
    its heartbeat stops for `patience` seconds: it hangs, other workers take over its jobs, and no
    job may run twice at a time.

    Runs as a separate process, because sandbox processes may be stuck in native code when their
    worker is killed.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    wait: float | None = None
    while True:
        if not select.select([0], [], [], wait)[0]:
            _kill_with_token(token)
            wait = None
        elif os.read(0, 4096):
            wait = patience
        else:
            _kill_with_token(token)
            return


def _kill_with_token(token: str) -> None:
    deadline = time.monotonic() + 10
    while (remaining := processes_with_token(token)) and time.monotonic() < deadline:
        for process in remaining:
            kill_tree(process.pid)
        time.sleep(0.01)


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
        # A kernel without CONFIG_PROC_CHILDREN: check the parent of every process.
        yield from (other for other in _all_pids() if (p := find(other)) and p.parent == pid)


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()] if _has_proc() else []


def _signal(pid: int, number: signal.Signals, *, group: bool = False) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        (os.killpg if group else os.kill)(pid, number)


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        # Exited meanwhile, not permitted, or not Linux.
        return None


def _has_proc() -> bool:
    return os.path.exists("/proc/self/stat")


def boot_id() -> str:
    """Identifies the current boot of the machine, to which its monotonic clock refers."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:  # not Linux
        return f"boot-{round(time.time() - time.monotonic(), -1):.0f}"


def process_identity(pid: int) -> str:
    """Identifies a process uniquely: pid namespace and start time."""
    return f"{_pid_namespace()}/{start_time(pid)}"


def has_died(pid: int, identity: str) -> bool:
    """Whether the process is known to be gone; False for processes of other machines."""
    namespace, _, started = identity.rpartition("/")
    if namespace == _pid_namespace() and started.isdigit():
        return not is_alive(pid, int(started))
    return False


def _pid_namespace() -> str:
    """Boot id and pid namespace; each container has its own."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = "?"
    return f"{boot_id()}/{namespace}"


#: Programs map far more memory than they use. A tight limit would crash them before the sandbox can
#: report that they ran out of memory.
_MAPPED_TO_RESIDENT_RATIO = 4


#: Variables that a process may have that reads documents of strangers. All others may be secret.
_HARMLESS = frozenset(
    {
        "PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "LD_PRELOAD",
        "SSL_CERT_FILE", "SSL_CERT_DIR", "TESSDATA_PREFIX", "VIRTUAL_ENV", "MALLOC_ARENA_MAX",
        "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
    }
)  # fmt: skip
_HARMLESS_PREFIXES = ("LC_", "PYTHON", "FONTCONFIG_")


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Without keys, tokens, settings and whatever else is not known to be harmless."""
    return {
        name: value
        for name, value in environment.items()
        if name in _HARMLESS or name.startswith(_HARMLESS_PREFIXES)
    }


def inherited_environment(*names: str) -> dict[str, str]:
    """The environment of an external program: these variables, and the sandbox's own."""
    return {name: os.environ[name] for name in (SANDBOX_VARIABLE, *names) if name in os.environ}


@contextlib.contextmanager
def running_program(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program; at exit, kill it and everything it started."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft != resource.RLIM_INFINITY:
        raised = soft * _MAPPED_TO_RESIDENT_RATIO
        raised = raised if hard == resource.RLIM_INFINITY else min(raised, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (raised, hard))
    try:
        process = subprocess.Popen(  # nosec B603  # no shell, and we choose the file names
            command, stdin=subprocess.DEVNULL, start_new_session=True, **options
        )
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    try:
        yield process
    finally:
        # The program may be only a wrapper for another process.
        _signal(process.pid, signal.SIGKILL, group=True)
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


if __name__ == "__main__":
    watchdog(sys.argv[1], float(sys.argv[2]))
