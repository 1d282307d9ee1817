import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from secretary.core.errors import (
    FileTooLarge,
    InvalidParameters,
    OutOfMemory,
    ProcessingTimeout,
    WorkerCrashed,
)
from secretary.core.job import ResourceCalculator
from secretary.core.processes import is_alive
from secretary.worker.sandbox import Limits, RemoteError, Sandbox, SandboxClosed
from secretary.worker.sandbox import child_main as inside
from tests import sandbox_functions as functions
from tests.polling import until
from tests.sandbox_functions import MIB

#: One event loop for all, so that they can share a sandbox.
pytestmark = pytest.mark.asyncio(loop_scope="module")

BRIEF = Limits(wall_time=timedelta(seconds=0.3))


class Sandboxes:
    """Opens sandboxes whose processes can be identified by their environment."""

    def __init__(self) -> None:
        self.mark = f"SANDBOX_TEST={secrets.token_hex(8)}"
        self._opened: list[Sandbox] = []

    async def open(self, size: int = 1, **options: Any) -> Sandbox:
        name, value = self.mark.split("=")
        sandbox = Sandbox(size, environment={**os.environ, name: value}, **options)
        await sandbox.open()
        self._opened.append(sandbox)
        return sandbox

    async def close(self) -> None:
        for sandbox in self._opened:
            await sandbox.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox() -> AsyncIterator[Sandbox]:
    """Shared by all tests without special needs: it survives everything."""
    sandbox = Sandbox(1, max_calls=10_000)
    await sandbox.open()
    yield sandbox
    await sandbox.close()


@pytest_asyncio.fixture(loop_scope="module")
async def sandboxes() -> AsyncIterator[Sandboxes]:
    sandboxes = Sandboxes()
    yield sandboxes
    await sandboxes.close()
    assert bearing(sandboxes.mark) == []


class MessageRecorder:
    """What a call has sent so far."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def __call__(self, message: Any) -> None:
        self.messages.append(message)


def bearing(mark: str) -> list[int]:
    """The PIDs of the live processes with this in their environment."""
    results = []
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdigit() and mark.encode() in (process / "environ").read_bytes():
                results.append(int(process.name))
    return results


async def cancel(call: asyncio.Task[Any]) -> None:
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


# Return values


async def test_a_sync_function_gives_its_result(sandbox: Sandbox) -> None:
    assert await sandbox.run(functions.add, 1, 2) == 3


async def test_an_async_function_gives_its_result(sandbox: Sandbox) -> None:
    assert await sandbox.run(functions.add_later, 1, 2) == 3


async def test_the_work_is_done_in_another_process_that_is_kept(sandbox: Sandbox) -> None:
    pids = [await sandbox.run(functions.own_pid) for _ in range(5)]
    assert set(pids) == set(sandbox.processes)
    assert os.getpid() not in pids


async def test_async_functions_share_one_loop(sandbox: Sandbox) -> None:
    assert len({await sandbox.run(functions.own_loop) for _ in range(3)}) == 1


async def test_messages_arrive_in_order_and_before_the_result(sandbox: Sandbox) -> None:
    received = MessageRecorder()
    assert await sandbox.run(functions.count, 1000, on_message=received) == "counted"
    assert received.messages == list(range(1000))


async def test_messages_without_a_listener_are_dropped(sandbox: Sandbox) -> None:
    assert await sandbox.run(functions.count, 10) == "counted"


async def test_an_error_of_the_listener_ends_the_call(sandbox: Sandbox) -> None:
    def refuse(message: Any) -> None:
        raise LookupError(message)

    with pytest.raises(LookupError):
        await sandbox.run(functions.count_and_wait, 10, on_message=refuse)
    assert await sandbox.run(functions.add, 1, 2) == 3


async def test_a_large_result_arrives_whole(sandbox: Sandbox) -> None:
    result = await sandbox.run(bytes.__mul__, b"abcdefgh", 2 * MIB)
    assert result == b"abcdefgh" * 2 * MIB


async def test_the_modules_to_preload_are_there_before_the_first_call(sandboxes: Sandboxes) -> None:
    sandbox = await sandboxes.open(preload=["sqlite3"])
    assert await sandbox.run(functions.has_imported, "sqlite3")


async def test_a_process_sees_the_environment_it_was_given(sandboxes: Sandboxes) -> None:
    sandbox = await sandboxes.open()
    assert f"SANDBOX_TEST={await sandbox.run(functions.variable, 'SANDBOX_TEST')}" == sandboxes.mark


async def test_what_a_call_used_is_counted(sandbox: Sandbox) -> None:
    resources = ResourceCalculator()
    await sandbox.run(functions.burn, 0.2, resources=resources)
    await sandbox.run(functions.take_and_free, 50 * MIB, resources=resources)
    assert 0.2 <= resources.used["cpu_seconds"] < 0.6
    assert 50 * MIB < resources.used["peak_memory_bytes"] < 120 * MIB


async def test_what_a_call_used_is_counted_even_if_it_crashed(sandbox: Sandbox) -> None:
    resources = ResourceCalculator()
    with pytest.raises(ProcessingTimeout):
        await sandbox.run(functions.spin, limits=BRIEF, resources=resources)
    assert resources.used["cpu_seconds"] > 0.1
    assert resources.used["peak_memory_bytes"] > MIB


# Errors


async def test_a_builtin_error_is_raised_again(sandbox: Sandbox) -> None:
    with pytest.raises(ValueError, match="not this one") as caught:
        await sandbox.run(functions.raise_value_error)
    assert caught.value.args == ("not this one", 7)
    assert "in raise_value_error" in caught.value.remote_traceback  # type: ignore[attr-defined]


async def test_an_error_of_ours_is_raised_again_with_its_details(sandbox: Sandbox) -> None:
    with pytest.raises(InvalidParameters, match="pages is wrong") as caught:
        await sandbox.run(functions.raise_invalid_parameters)
    assert caught.value.details == {"field": "pages"}


async def test_of_a_foreign_error_only_the_type_is_reported(sandbox: Sandbox) -> None:
    with pytest.raises(RemoteError) as caught:
        await sandbox.run(functions.raise_own_error)
    assert str(caught.value) == "OwnError"
    assert "secret.pdf" in caught.value.remote_traceback


async def test_a_function_that_cancels_itself_does_not_cancel_its_caller(
    sandbox: Sandbox,
) -> None:
    with pytest.raises(RemoteError) as caught:
        await sandbox.run(functions.raise_cancelled)
    assert str(caught.value) == "CancelledError"


async def test_a_function_that_calls_exit_ends_its_call_only(sandbox: Sandbox) -> None:
    await sandbox.run(functions.add, 1, 2)
    before = sandbox.processes
    with pytest.raises(RemoteError) as caught:
        await sandbox.run(functions.leave)
    assert str(caught.value) == "SystemExit"
    assert sandbox.processes == before


async def test_a_result_that_cannot_be_sent_is_an_error(sandbox: Sandbox) -> None:
    with pytest.raises(TypeError, match="cannot be sent"):
        await sandbox.run(functions.return_a_lock)


@pytest.mark.parametrize("kind", [inside.RETURNED, inside.RAISED, inside.TOO_LARGE])
async def test_the_worker_never_unpickles_what_a_process_sends(
    sandbox: Sandbox, tmp_path: Path, kind: int
) -> None:
    with pytest.raises(RemoteError):
        await sandbox.run(functions.send_trap, tmp_path / "trapped", kind, on_message=print)
    assert not (tmp_path / "trapped").exists()


async def test_a_result_of_another_type_than_declared_is_an_error(sandbox: Sandbox) -> None:
    with pytest.raises(RemoteError, match="no valid <class 'int'>"):
        await sandbox.run(functions.return_text)


async def test_a_process_cannot_report_an_error_of_the_worker(sandbox: Sandbox) -> None:
    with pytest.raises(RemoteError, match="LeaseLost"):
        await sandbox.run(functions.raise_lost_lease)


async def test_a_function_that_cannot_be_imported_is_refused_at_once(sandbox: Sandbox) -> None:
    with pytest.raises(AttributeError):
        await sandbox.run(lambda: None)
    assert await sandbox.run(functions.add, 1, 2) == 3


async def test_a_module_that_cannot_be_preloaded_fails_the_call(
    sandboxes: Sandboxes, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox = await sandboxes.open(preload=["no_such_module"])
    for _ in range(2):
        with pytest.raises(WorkerCrashed, match="could not be started"):
            await sandbox.run(functions.add, 1, 2)
    assert "no_such_module" in caplog.text


async def test_a_process_that_cannot_be_spawned_fails_the_call() -> None:
    sandbox = Sandbox(1, environment={"TOO_LONG_FOR_THE_SYSTEM": "x" * MIB})
    await sandbox.open()
    with pytest.raises(WorkerCrashed, match="could not be started"):
        await sandbox.run(functions.add, 1, 2)
    await sandbox.close()


# Limits


@pytest.mark.parametrize(
    "function",
    [
        functions.spin,
        functions.sleep,
        functions.sleep_async,
        functions.spin_in_native_code,
        functions.sleep_and_refuse,
    ],
)
async def test_work_that_never_returns_is_stopped_in_time(
    sandbox: Sandbox, function: Callable[[], Any]
) -> None:
    await sandbox.run(functions.add, 1, 2)
    begun = time.monotonic()
    with pytest.raises(ProcessingTimeout, match=r"time limit of 0\.3 seconds") as caught:
        await sandbox.run(function, limits=BRIEF)
    assert caught.value.details == {"limit_seconds": 0.3}
    assert time.monotonic() - begun < 0.3 + 2
    assert await sandbox.run(functions.add, 1, 2) == 3


async def test_work_that_gathers_memory_is_stopped(sandbox: Sandbox) -> None:
    with pytest.raises(OutOfMemory, match="memory limit of 128 MiB") as caught:
        await sandbox.run(
            functions.eat_steadily, 10_000 * MIB, limits=Limits(memory_bytes=128 * MIB)
        )
    assert caught.value.details["limit_bytes"] == 128 * MIB
    assert caught.value.details["peak_bytes"] > 128 * MIB


async def test_work_that_asks_for_much_memory_at_once_does_not_get_it(sandbox: Sandbox) -> None:
    with pytest.raises(OutOfMemory):
        await sandbox.run(functions.eat_at_once, 300 * MIB, limits=Limits(memory_bytes=128 * MIB))
    await sandbox.run(functions.eat_at_once, 300 * MIB, limits=Limits(memory_bytes=512 * MIB))


async def test_the_memory_of_all_processes_of_a_call_counts(sandbox: Sandbox) -> None:
    limits = Limits(memory_bytes=200 * MIB)
    with pytest.raises(OutOfMemory):
        await sandbox.run(functions.eat_in_children, 80 * MIB, 3, limits=limits)


async def test_a_memory_error_of_the_function_is_out_of_memory(sandboxes: Sandboxes) -> None:
    sandbox = await sandboxes.open(limits=Limits(memory_bytes=None))
    with pytest.raises(OutOfMemory, match="ran out of memory"):
        await sandbox.run(functions.raise_memory_error)


async def test_a_result_that_is_too_large_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(FileTooLarge, match="exceeds the limit of 1 MiB") as caught:
        await sandbox.run(bytes, 2 * MIB, limits=Limits(output_bytes=MIB))
    assert caught.value.details["limit_bytes"] == MIB
    assert caught.value.details["size_bytes"] > 2 * MIB
    assert await sandbox.run(bytes, 3) == b"\0\0\0"


async def test_a_message_that_is_too_large_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(FileTooLarge):
        await sandbox.run(inside.send, "x" * 100, limits=Limits(output_bytes=50))


async def test_a_fork_bomb_is_put_out(sandboxes: Sandboxes) -> None:
    sandbox = await sandboxes.open()
    with pytest.raises(WorkerCrashed, match="more than 64 processes"):
        await sandbox.run(functions.fork_bomb, limits=Limits(processes=64))
    assert len(bearing(sandboxes.mark)) <= 1
    assert await sandbox.run(functions.add, 1, 2) == 3


async def test_printing_without_end_neither_blocks_nor_is_kept(sandbox: Sandbox) -> None:
    assert await sandbox.run(functions.print_much, 200 * MIB) == "printed"


# Crashes


async def test_a_segfault_fails_its_call_and_no_other(sandboxes: Sandboxes, tmp_path: Path) -> None:
    sandbox, received, sign = await sandboxes.open(2), MessageRecorder(), tmp_path / "sign"
    neighbour = asyncio.create_task(sandbox.run(functions.wait_for, sign, on_message=received))
    await until(lambda: received.messages == ["waiting"])
    with pytest.raises(WorkerCrashed, match="killed by SIGSEGV") as caught:
        await sandbox.run(functions.segfault)
    assert caught.value.details["signal"] == "SIGSEGV"
    assert not neighbour.done()
    sign.touch()
    assert await neighbour == "seen"


async def test_the_last_words_of_a_process_are_for_the_log_only(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    await sandbox.run(print, "words of another call")
    with pytest.raises(WorkerCrashed) as caught:
        await sandbox.run(functions.print_and_die, "cannot go on")
    assert set(caught.value.details) == {"signal", "peak_bytes"}
    assert "cannot go on" in caplog.text
    assert "words of another call" not in caplog.text


async def test_an_exit_of_the_process_is_a_crash_with_its_code(sandbox: Sandbox) -> None:
    with pytest.raises(WorkerCrashed, match="exited with code 7") as caught:
        await sandbox.run(functions.exit_at_once, 7)
    assert caught.value.details["exit_code"] == 7


async def test_a_process_killed_from_outside_fails_its_call(sandbox: Sandbox) -> None:
    received = MessageRecorder()
    call = asyncio.create_task(sandbox.run(functions.sleep, on_message=received))
    await until(lambda: received.messages == ["sleeping"])
    os.kill(sandbox.processes[0], signal.SIGKILL)
    with pytest.raises(WorkerCrashed, match=r"SIGKILL.*may be out of memory"):
        await call
    assert await sandbox.run(functions.add, 1, 2) == 3


async def test_a_process_killed_while_idle_is_replaced(sandbox: Sandbox) -> None:
    pid = await sandbox.run(functions.own_pid)
    os.kill(pid, signal.SIGKILL)
    await until(lambda: pid not in sandbox.processes)
    assert await sandbox.run(functions.own_pid) != pid


async def test_a_service_manager_cannot_terminate_a_call_that_nobody_cancelled(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    received, sign = MessageRecorder(), tmp_path / "sign"
    call = asyncio.create_task(sandbox.run(functions.wait_for, sign, on_message=received))
    await until(lambda: received.messages == ["waiting"])
    os.kill(sandbox.processes[0], signal.SIGTERM)
    sign.touch()
    assert await call == "seen"


async def test_crashes_leave_no_descriptor_open(sandbox: Sandbox) -> None:
    await sandbox.run(functions.add, 1, 2)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(WorkerCrashed):
            await sandbox.run(functions.exit_at_once, 7)
    await sandbox.run(functions.add, 1, 2)
    assert len(os.listdir("/proc/self/fd")) == before


# Cleanup


def all_gone(received: MessageRecorder) -> bool:
    assert len(received.messages) == 3
    return not any(is_alive(pid, started) for pid, started in received.messages)


async def test_what_a_call_forked_is_gone_when_it_returns(sandboxes: Sandboxes) -> None:
    sandbox, received = await sandboxes.open(), MessageRecorder()
    assert await sandbox.run(functions.leave_children, on_message=received) == "left"
    assert all_gone(received)
    assert bearing(sandboxes.mark) == sandbox.processes


async def test_what_a_call_forked_is_gone_when_it_runs_out_of_time(sandbox: Sandbox) -> None:
    received = MessageRecorder()
    with pytest.raises(ProcessingTimeout):
        await sandbox.run(functions.leave_children_and_sleep, limits=BRIEF, on_message=received)
    assert all_gone(received)


async def test_what_a_call_forked_is_gone_when_it_crashes(sandbox: Sandbox) -> None:
    received = MessageRecorder()
    with pytest.raises(WorkerCrashed):
        await sandbox.run(functions.segfault_with_children, on_message=received)
    assert all_gone(received)


async def test_a_child_that_hid_its_mark_is_found_if_it_was_seen_once(
    sandbox: Sandbox,
) -> None:
    received = MessageRecorder()
    with pytest.raises(WorkerCrashed):
        await sandbox.run(functions.leave_an_unmarked_child_and_die, 0.5, on_message=received)
    [(pid, started)] = received.messages
    assert not is_alive(pid, started)


async def test_a_fork_that_returns_cannot_end_the_call(sandbox: Sandbox) -> None:
    assert [await sandbox.run(functions.fork_and_return_in_both)] == sandbox.processes
    assert await sandbox.run(functions.add, 1, 2) == 3


async def test_a_task_left_behind_is_cancelled(sandbox: Sandbox) -> None:
    await sandbox.run(functions.leave_a_task)
    assert await sandbox.run(functions.is_the_task_cancelled)


# Cancellation


@pytest.mark.parametrize(
    "function",
    [functions.sleep, functions.spin, functions.spin_in_native_code],
)
async def test_cancelling_stops_the_work(
    sandboxes: Sandboxes, function: Callable[[], None]
) -> None:
    sandbox, received = await sandboxes.open(), MessageRecorder()
    call = asyncio.create_task(sandbox.run(function, on_message=received))
    await until(lambda: received.messages != [])
    [pid] = sandbox.processes
    begun = time.monotonic()
    await cancel(call)
    assert time.monotonic() - begun < 2
    assert pid not in bearing(sandboxes.mark)


async def test_cancelling_ends_what_the_call_forked(sandbox: Sandbox) -> None:
    received = MessageRecorder()
    call = asyncio.create_task(sandbox.run(functions.leave_children_and_sleep, on_message=received))
    await until(lambda: len(received.messages) == 3)
    begun = time.monotonic()
    await cancel(call)
    assert time.monotonic() - begun < 2
    assert all_gone(received)


@pytest.mark.parametrize("function", [functions.sleep_async, functions.stop_when_asked])
async def test_a_process_whose_call_obeys_is_kept(
    sandbox: Sandbox, function: Callable[[], None]
) -> None:
    received = MessageRecorder()
    call = asyncio.create_task(sandbox.run(function, on_message=received))
    await until(lambda: received.messages != [])
    [pid] = sandbox.processes
    await cancel(call)
    assert await sandbox.run(functions.own_pid) == pid


async def test_a_function_that_is_stopped_may_tidy_up(sandbox: Sandbox, tmp_path: Path) -> None:
    received = MessageRecorder()
    note = tmp_path / "note"
    call = asyncio.create_task(sandbox.run(functions.sleep_and_tidy_up, note, on_message=received))
    await until(lambda: received.messages == ["sleeping"])
    await cancel(call)
    assert note.read_text() == "tidy"


async def test_cancelling_twice_still_waits_for_the_end(sandboxes: Sandboxes) -> None:
    sandbox, received = await sandboxes.open(), MessageRecorder()
    call = asyncio.create_task(sandbox.run(functions.sleep_and_refuse, on_message=received))
    await until(lambda: received.messages == ["refusing"])
    [pid] = sandbox.processes
    call.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await cancel(call)
    assert pid not in bearing(sandboxes.mark)


# The pool


async def test_calls_wait_their_turn(sandbox: Sandbox) -> None:
    ended: list[int] = []

    async def call(number: int) -> None:
        await sandbox.run(functions.add, number, 0)
        ended.append(number)

    await asyncio.gather(*(call(number) for number in range(20)))
    assert ended == list(range(20))


async def test_waiting_does_not_count_as_work(sandbox: Sandbox, tmp_path: Path) -> None:
    received, sign = MessageRecorder(), tmp_path / "sign"
    first = asyncio.create_task(sandbox.run(functions.wait_for, sign, on_message=received))
    await until(lambda: received.messages == ["waiting"])
    second = asyncio.create_task(sandbox.run(functions.add, 1, 2, limits=BRIEF))
    await asyncio.wait([second], timeout=0.4)
    sign.touch()
    assert await second == 3
    assert await first == "seen"


async def test_a_cancelled_waiter_loses_no_process(sandbox: Sandbox) -> None:
    received = MessageRecorder()
    first = asyncio.create_task(sandbox.run(functions.stop_when_asked, on_message=received))
    await until(lambda: received.messages == ["waiting"])
    waiters = [asyncio.create_task(sandbox.run(functions.add, 1, 2)) for _ in range(5)]
    await asyncio.sleep(0)
    for waiter in waiters[:3]:
        waiter.cancel()
    await cancel(first)
    assert await asyncio.gather(*waiters[3:]) == [3, 3]


async def test_a_waiter_cancelled_as_its_turn_comes_loses_no_process(sandbox: Sandbox) -> None:
    for _ in range(20):
        first = asyncio.create_task(sandbox.run(functions.add, 1, 2))
        second = asyncio.create_task(sandbox.run(functions.add, 1, 2))
        first.add_done_callback(lambda _, second=second: second.cancel())  # type: ignore[misc]
        await asyncio.wait([first, second])
    assert await sandbox.run(functions.add, 1, 2) == 3


async def test_a_process_is_replaced_after_so_many_calls(sandboxes: Sandboxes) -> None:
    sandbox = await sandboxes.open(max_calls=3)
    pids = [await sandbox.run(functions.own_pid) for _ in range(7)]
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 1]
    await until(lambda: sandbox.processes == [pids[-1]])


async def test_a_process_that_has_grown_is_replaced(sandboxes: Sandboxes) -> None:
    sandbox = await sandboxes.open(max_growth_bytes=64 * MIB)
    pid = await sandbox.run(functions.own_pid)
    await sandbox.run(functions.take_and_free, 100 * MIB)
    assert await sandbox.run(functions.own_pid) == pid
    await sandbox.run(functions.take_and_keep, 100 * MIB)
    assert await sandbox.run(functions.own_pid) != pid


async def test_processes_are_started_when_they_are_wanted_and_one_ahead(
    sandboxes: Sandboxes,
) -> None:
    sandbox = await sandboxes.open(50)
    await sandbox.run(functions.add, 1, 2)
    assert len(sandbox.processes) <= 2
    await asyncio.gather(*(sandbox.run(functions.add, 1, 2) for _ in range(4)))
    assert len(sandbox.processes) <= 5


async def test_many_calls_leave_as_many_processes_as_before(sandboxes: Sandboxes) -> None:
    sandbox = await sandboxes.open(2, max_calls=1000)
    await asyncio.gather(*(sandbox.run(functions.add, 1, 2) for _ in range(20)))
    await until(lambda: len(bearing(sandboxes.mark)) == 2)
    before = set(sandbox.processes)
    await asyncio.gather(*(sandbox.run(functions.add, 1, 2) for _ in range(300)))
    assert set(bearing(sandboxes.mark)) == set(sandbox.processes) == before


# Shutdown


async def test_closing_ends_every_process_and_every_call(sandboxes: Sandboxes) -> None:
    sandbox, received = await sandboxes.open(2), MessageRecorder()
    running = asyncio.create_task(
        sandbox.run(functions.leave_children_and_sleep, on_message=received)
    )
    refusing = asyncio.create_task(sandbox.run(functions.sleep_and_refuse))
    waiting = asyncio.create_task(sandbox.run(functions.add, 1, 2))
    await until(lambda: len(received.messages) == 3)
    await sandbox.close()
    assert sandbox.processes == []
    assert bearing(sandboxes.mark) == []
    for call in (running, refusing, waiting):
        with pytest.raises(SandboxClosed):
            await call


async def test_a_closed_sandbox_takes_no_calls(sandboxes: Sandboxes) -> None:
    sandbox = await sandboxes.open()
    await sandbox.close()
    with pytest.raises(SandboxClosed):
        await sandbox.run(functions.add, 1, 2)


@pytest.mark.parametrize("turns", range(5))
async def test_a_sandbox_can_be_closed_while_its_processes_start(
    sandboxes: Sandboxes, turns: int
) -> None:
    sandbox = await sandboxes.open(2)
    for _ in range(turns):
        await asyncio.sleep(0)
    await sandbox.close()
    assert bearing(sandboxes.mark) == []


async def test_a_sandbox_can_be_opened_again(sandboxes: Sandboxes) -> None:
    sandbox = await sandboxes.open()
    await sandbox.close()
    await sandbox.open()
    assert await sandbox.run(functions.add, 1, 2) == 3


WORKER = """
import asyncio, sys
from secretary.worker.sandbox import Sandbox
from tests import sandbox_functions as functions

async def main():
    sandbox = Sandbox(2)
    await sandbox.open()
    on_message = lambda message: print(message, flush=True)
    await sandbox.run(getattr(functions, sys.argv[1]), on_message=on_message)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    "function", ["leave_children_and_sleep", "leave_children_and_spin_in_native_code"]
)
async def test_nothing_outlives_a_worker_that_is_killed(
    sandboxes: Sandboxes, function: str
) -> None:
    name, value = sandboxes.mark.split("=")
    environment = {**os.environ, name: value, "PYTHONPATH": os.pathsep.join(sys.path)}
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WORKER, function, env=environment, stdout=subprocess.PIPE
    )
    assert worker.stdout is not None
    async with asyncio.timeout(10):
        for _ in range(3):
            await worker.stdout.readline()
    worker.kill()
    await worker.wait()
    await until(lambda: bearing(sandboxes.mark) == [], seconds=2)
