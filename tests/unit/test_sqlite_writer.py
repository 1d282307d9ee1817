"""Many callers, one commit: a failed call is rolled back alone, and waiting ones lose nothing."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from secretary.core.errors import Conflict
from secretary.store.sqlite.connection import Writer, connect


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncIterator[Writer]:
    path = tmp_path / "numbers.db"
    db = connect(path)
    db.execute("CREATE TABLE numbers (n INTEGER NOT NULL)")
    db.close()
    writer = Writer(path)
    writer.open(asyncio.get_running_loop())
    yield writer
    await writer.close()


def insert(db: apsw.Connection, n: int) -> int:
    db.execute("INSERT INTO numbers VALUES (?)", (n,))
    return n


def numbers(db: apsw.Connection) -> list[int]:
    return [n for (n,) in db.execute("SELECT n FROM numbers ORDER BY n")]


async def test_each_caller_gets_its_own_answer(writer: Writer) -> None:
    calls = (writer.call(lambda db, n=n: insert(db, n)) for n in range(100))  # type: ignore[misc]
    assert await asyncio.gather(*calls) == list(range(100))
    assert await writer.call(numbers) == list(range(100))


async def test_a_call_that_fails_is_undone_alone(writer: Writer) -> None:
    def fail(db: apsw.Connection) -> None:
        insert(db, 99)
        raise Conflict("no")

    for durable in (False, True):
        answers = await asyncio.gather(
            writer.call(lambda db: insert(db, 1), durable=durable),
            writer.call(fail),
            writer.call(lambda db: insert(db, 2)),
            return_exceptions=True,
        )
        assert isinstance(answers[1], Conflict)
        assert (answers[0], answers[2]) == (1, 2)
    assert await writer.call(numbers) == [1, 1, 2, 2]


async def test_calls_of_one_kind_are_done_together(writer: Writer) -> None:
    groups: list[int] = []

    def insert_all(db: apsw.Connection, items: list[int]) -> list[int | Conflict]:
        groups.append(len(items))
        for item in items:
            insert(db, item)
        return [Conflict("seven") if item == 7 else item for item in items]

    calls = (writer.call_with_others(insert_all, n) for n in range(10))
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert groups == [10]
    assert isinstance(answers[7], Conflict) and answers[8] == 8


async def test_a_caller_that_gives_up_harms_nobody(writer: Writer) -> None:
    gone = asyncio.create_task(writer.call(lambda db: insert(db, 1), durable=True))
    stays = asyncio.create_task(writer.call(lambda db: insert(db, 2), durable=True))
    await asyncio.sleep(0)
    gone.cancel()
    assert await stays == 2
    assert 2 in await writer.call(numbers)


async def test_a_call_waits_while_another_process_writes(writer: Writer, tmp_path: Path) -> None:
    other = connect(tmp_path / "numbers.db")
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.create_task(writer.call(lambda db: insert(db, 1)))
    for _ in range(20):  # the event loop is not blocked
        await asyncio.sleep(0.005)
    assert not waiting.done()
    other.execute("COMMIT")
    other.close()
    assert await waiting == 1


async def test_closing_waits_for_what_was_asked(tmp_path: Path, writer: Writer) -> None:
    early = asyncio.create_task(writer.call(lambda db: insert(db, 1), durable=True))
    await asyncio.sleep(0)
    second = Writer(tmp_path / "numbers.db")
    second.open(asyncio.get_running_loop())
    late = asyncio.create_task(second.call(lambda db: insert(db, 2), heavy=True))
    await asyncio.sleep(0)
    await second.close()
    assert (await early, await late) == (1, 2)
