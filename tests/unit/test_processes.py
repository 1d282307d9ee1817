import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from secretary.core import processes
from secretary.core.processes import SANDBOX_VARIABLE
from tests.polling import wait_until

MIB = 1024 * 1024

#: Forks a child that forks a child, and prints their PIDs.
FAMILY = """
import os, sys, time
print(os.getpid(), flush=True)
for _ in range(2):
    if os.fork() == 0:
        print(os.getpid(), flush=True)
    else:
        break
time.sleep(1000)
"""


class Program:
    """A Python process, killed with all its descendants when the test is over."""

    def __init__(self, source: str, *arguments: str, mark: str | None = None) -> None:
        environment = dict(os.environ) if mark is None else {**os.environ, SANDBOX_VARIABLE: mark}
        self.process = subprocess.Popen(
            [sys.executable, "-c", source, *arguments],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.pid = self.process.pid

    def says_pid(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def end(self) -> None:
        processes.kill_tree(self.pid)
        self.process.communicate(timeout=10)


@pytest.fixture
def start() -> Iterator[Callable[..., Program]]:
    started: list[Program] = []

    def start(source: str, *arguments: str, mark: str | None = None) -> Program:
        started.append(Program(source, *arguments, mark=mark))
        return started[-1]

    yield start
    for program in started:
        program.end()


def test_children_and_their_children_are_descendants(start: Callable[..., Program]) -> None:
    program = start(FAMILY)
    root, child, grandchild = (program.says_pid() for _ in range(3))
    assert [process.pid for process in processes.descendants(root)] == [child, grandchild]
    assert [process.parent for process in processes.descendants(root)] == [root, child]


def test_a_tree_is_its_root_and_all_descendants(start: Callable[..., Program]) -> None:
    program = start(FAMILY)
    pids = [program.says_pid() for _ in range(3)]
    assert [process.pid for process in processes.tree(program.pid)] == pids


def test_the_memory_of_a_tree_is_the_sum_of_its_processes(start: Callable[..., Program]) -> None:
    program = start(FAMILY.replace("print", "hoard = bytes(b'x' * 20_000_000); print"))
    for _ in range(3):
        program.says_pid()
    assert sum(one.rss_bytes for one in processes.tree(program.pid)) > 60_000_000


def test_a_process_name_with_parentheses_is_parsed(tmp_path: Path) -> None:
    strange = tmp_path / "a) R 1 (b"
    strange.symlink_to("/bin/sleep")
    process = subprocess.Popen([str(strange), "1000"])
    try:
        wait_until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "a) R 1 (b\n")
        info = processes.find(process.pid)
        assert info is not None
        assert info.parent == os.getpid()
    finally:
        process.kill()
        process.wait()


def test_a_process_is_alive_until_it_is_killed(start: Callable[..., Program]) -> None:
    program = start("import time; time.sleep(1000)")
    started = processes.start_time(program.pid)
    assert started is not None
    assert processes.is_alive(program.pid, started)
    assert not processes.is_alive(program.pid, started - 1)
    program.process.kill()
    # Not waited for, it is a zombie now, which counts as dead.
    wait_until(lambda: not processes.is_alive(program.pid, started))


def test_kill_tree_ends_processes_that_ignore_sigterm(
    start: Callable[..., Program],
) -> None:
    ignoring = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    program = start(ignoring + FAMILY)
    pids = [program.says_pid() for _ in range(3)]
    processes.signal_tree(program.pid, signal.SIGTERM)
    killed = processes.kill_tree(program.pid)
    assert [process.pid for process in killed] == pids
    wait_until(lambda: not any(processes.is_alive(p.pid, p.started) for p in killed))


def test_signal_tree_signals_all_processes(start: Callable[..., Program]) -> None:
    program = start(FAMILY)
    pids = [program.says_pid() for _ in range(3)]
    processes.signal_tree(program.pid, signal.SIGTERM)
    wait_until(lambda: all(processes.find(pid) is None for pid in pids))


def test_killing_a_process_that_is_gone_does_nothing() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert processes.kill_tree(process.pid) == []
    assert processes.start_time(process.pid) is None
    assert processes.descendants(process.pid) == []
    assert processes.tree(process.pid) == []


def test_processes_are_found_by_their_token_or_its_parent(
    start: Callable[..., Program],
) -> None:
    token = secrets.token_hex(8)
    first = start(FAMILY, mark=f"{token}.1")
    twelfth = start(FAMILY, mark=f"{token}.12")
    first_pids = {first.says_pid() for _ in range(3)}
    twelfth_pids = {twelfth.says_pid() for _ in range(3)}
    assert {process.pid for process in processes.processes_with_token(f"{token}.1")} == first_pids
    assert {
        process.pid for process in processes.processes_with_token(token)
    } == first_pids | twelfth_pids
    assert processes.processes_with_token(token[:-1]) == []


GUARD = "import runpy, sys; runpy.run_path(sys.argv.pop(1), run_name='__main__')"


def test_the_watchdog_kills_all_processes_with_its_token_when_heartbeats_stop(
    start: Callable[..., Program],
) -> None:
    token = secrets.token_hex(8)
    program = start(FAMILY, mark=f"{token}.1")
    for _ in range(3):
        program.says_pid()
    guard = start(GUARD, processes.__file__, token, "0.5")
    assert guard.process.stdin is not None
    guard.process.stdin.write(b".")
    guard.process.stdin.flush()
    wait_until(lambda: processes.processes_with_token(token) == [], seconds=10)
    assert guard.process.poll() is None


def test_the_watchdog_kills_all_processes_with_its_token_when_its_pipe_closes(
    start: Callable[..., Program],
) -> None:
    token = secrets.token_hex(8)
    program = start(FAMILY, mark=f"{token}.1")
    for _ in range(3):
        program.says_pid()
    guard = start(GUARD, processes.__file__, token, "60")
    assert guard.process.stdin is not None
    assert len(processes.processes_with_token(token)) == 3
    guard.process.stdin.close()
    guard.process.stdin = None
    assert guard.process.wait(10) == 0
    assert processes.processes_with_token(token) == []
