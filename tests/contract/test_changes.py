"""What every store guarantees for its change feed. A new store passes this file unchanged."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from secretary.core.job import Cancelled, Completed, Failed, Job, JobError, Progress, utc_now
from secretary.store import Change, JobQuery, Store, open_store

from ..mongod import Mongod
from ..polling import until
from .factories import LAPSED, add_batch, claim, claimed


@pytest.fixture(scope="module")
def standalone(mongod: Mongod, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mongod]:
    """A MongoDB that is not a replica set and so has no change streams."""
    server = Mongod(tmp_path_factory.mktemp("standalone"), replica_set=None)
    server.start()
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "mongodb", "standalone mongodb"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/jobs.db"
    name = "mongod" if request.param == "mongodb" else "standalone"
    server: Mongod = request.getfixturevalue(name)
    return server.url(f"test_{uuid4().hex[:12]}")


ERROR = JobError(code="FILE_CORRUPT", message="It is torn")


class Reader:
    """Reads the change feed of a store."""

    def __init__(self, store: Store, position: str) -> None:
        self.store = store
        self.position = position

    @classmethod
    async def of(cls, store: Store) -> "Reader":
        return cls(store, (await store.changes(None)).position)

    async def read(self, *, limit: int = 1000) -> list[Change]:
        """All changes so far."""
        changes: list[Change] = []
        while True:
            page = await self.store.changes(self.position, limit=limit)
            assert not page.gap
            assert len(page.items) <= limit
            self.position = page.position
            changes += page.items
            if not page.items:
                return changes

    async def ids(self) -> set[str | None]:
        return {change.job_id for change in await self.read()}

    async def until(self, wanted: set[str], *, seconds: float = 10) -> list[Change]:
        """All changes until each of these jobs has appeared."""
        deadline = time.monotonic() + seconds
        changes: list[Change] = []
        while not wanted <= {change.job_id for change in changes}:
            assert time.monotonic() < deadline, wanted - {change.job_id for change in changes}
            changes += await self.read()
            await asyncio.sleep(0.01)
        return changes


@pytest.fixture
async def other(store: Store, store_url: str) -> AsyncIterator[Store]:
    """Another process with the same data."""
    other = open_store(store_url)
    await other.open()
    yield other
    await other.close()


async def test_it_begins_now(store: Store) -> None:
    await store.add([Job()])
    reader = await Reader.of(store)
    assert await reader.read() == []
    job = Job()
    await store.add([job])
    await reader.until({job.job_id})


async def test_a_position_stays_valid(store: Store) -> None:
    reader = await Reader.of(store)
    job = Job()
    await store.add([job])
    again = Reader(store, reader.position)
    await reader.until({job.job_id})
    await again.until({job.job_id})


Act = Callable[[Store, Job], Awaitable[object]]

ACTS: dict[str, Act] = {
    "progress": lambda store, job: store.report(job, Progress(step="x", percent=5)),
    "completion": lambda store, job: store.finish(job, Completed({"a": 1})),
    "failure": lambda store, job: store.finish(job, Failed(ERROR)),
    "retry": lambda store, job: store.finish(job, Failed(ERROR, retry_at=utc_now())),
    "cancellation": lambda store, job: store.finish(job, Cancelled()),
    "cancellation request": lambda store, job: store.cancel(JobQuery(job_id=job.job_id)),
    "archiving": lambda store, job: store.archive(JobQuery(job_id=job.job_id)),
    "rescue": lambda store, job: store.rescue(dead=["worker-1"]),
    "lost lease": lambda store, job: _lapse(store),
}


async def _lapse(store: Store) -> None:
    await claim(store, lease=LAPSED)
    await store.rescue()


@pytest.mark.parametrize("act", ACTS)
async def test_a_change_of_a_running_job_is_reported(store: Store, act: str) -> None:
    job = await claimed(store)
    reader = await Reader.of(store)
    await ACTS[act](store, job)
    await reader.until({job.job_id})
    assert await reader.read() == []


async def test_a_claim_is_reported(store: Store) -> None:
    reader = await Reader.of(store)
    job = Job(job_type="pdf")
    await store.add([job])
    await reader.until({job.job_id})
    await claim(store)
    await reader.until({job.job_id})


async def test_a_restart_and_a_deletion_are_reported(store: Store) -> None:
    job = await claimed(store)
    await store.finish(job, Completed())
    reader = await Reader.of(store)
    await store.restart(JobQuery(job_id=job.job_id))
    await reader.until({job.job_id})
    await store.cancel(JobQuery(job_id=job.job_id))
    await reader.until({job.job_id})
    await store.delete(JobQuery(job_id=job.job_id))
    await reader.until({job.job_id})


async def test_changes_after_the_newest_job_is_deleted_are_delivered(store: Store) -> None:
    """Its revision must not be reused for another change."""
    first, last = await claimed(store), await claimed(store, "worker-2")
    await store.finish(last, Completed())
    reader = await Reader.of(store)
    await store.delete(JobQuery(job_id=last.job_id))
    await store.report(first, Progress(step="x", percent=5))
    await reader.until({first.job_id})
    late = await Reader.of(store)
    await store.finish(first, Completed())
    await store.delete(JobQuery(job_id=first.job_id))
    job = Job()
    await store.add([job])
    await late.until({first.job_id, job.job_id})


async def test_a_job_is_reported_with_its_batch(store: Store) -> None:
    reader = await Reader.of(store)
    batch, jobs = await add_batch(store, 3)
    changes = await reader.until({job.job_id for job in jobs})
    assert {change.batch_id for change in changes if change.job_id} == {batch.batch_id}


async def test_a_change_of_the_batch_itself_is_reported(store: Store) -> None:
    batch, jobs = await add_batch(store, 1)
    (job,) = await claim(store)
    for change in ({"is_active": False}, {"is_active": True}, {"archived": True}):
        reader = await Reader.of(store)
        await store.change_batch(batch.batch_id, **change)

        async def caught_up(reader: Reader = reader) -> bool:
            return batch.batch_id in {change.batch_id for change in await reader.read()}

        await until(caught_up)
    assert jobs[0].job_id == job.job_id


async def test_the_end_of_a_batch_is_not_reported_before_it_is_visible(store: Store) -> None:
    reader = await Reader.of(store)
    batch, _ = await add_batch(store, 1)
    (job,) = await claim(store)
    await store.finish(job, Completed())
    deadline = time.monotonic() + 10
    ended = False
    while not ended:
        assert time.monotonic() < deadline
        batch_ids = {change.batch_id for change in await reader.read()}
        if batch.batch_id in batch_ids:
            ended = (await store.get_batch(batch.batch_id)).completed_at is not None
        await asyncio.sleep(0.01)


async def test_archiving_a_batch_reports_its_jobs(store: Store) -> None:
    batch, jobs = await add_batch(store, 3)
    reader = await Reader.of(store)
    await store.change_batch(batch.batch_id, archived=True)
    await reader.until({job.job_id for job in jobs})


async def test_pages_lead_through_changes_made_together(store: Store) -> None:
    reader = await Reader.of(store)
    batch, jobs = await add_batch(store, 25)
    await store.change_batch(batch.batch_id, archived=True)
    await claim(store, slots=20)
    seen_ids: set[str | None] = set()
    deadline = time.monotonic() + 10
    while not {job.job_id for job in jobs} <= seen_ids:
        assert time.monotonic() < deadline
        seen_ids |= {change.job_id for change in await reader.read(limit=4)}


async def test_changes_by_another_process_are_reported(store: Store, other: Store) -> None:
    reader = await Reader.of(store)
    job = await claimed(other)
    await reader.until({job.job_id})
    await other.finish(job, Completed())
    await reader.until({job.job_id})


async def test_a_position_of_one_process_is_good_in_another(store: Store, other: Store) -> None:
    reader = await Reader.of(store)
    job = Job()
    await store.add([job])
    await Reader(other, reader.position).until({job.job_id})


async def test_nothing_is_lost_among_many_writers(store: Store, other: Store) -> None:
    """Every change is followed by a read that is at least as new."""
    reader = await Reader.of(store)
    done = asyncio.Event()
    seen: dict[str, str] = {}

    async def follow() -> None:
        while True:
            finishing = done.is_set()
            for change in await reader.read(limit=7):
                assert change.job_id is not None
                seen[change.job_id] = (await store.get(change.job_id)).status
            if finishing and set(seen.values()) == {"completed"}:
                return
            await asyncio.sleep(0.001)

    async def write(to: Store, name: str) -> None:
        for _ in range(15):
            await to.add([Job(job_type=name)])
            (job,) = await claim(to, name, job_types={name})
            await to.report(job, Progress(step="x", percent=50))
            await to.finish(job, Completed())

    following = asyncio.create_task(follow())
    await asyncio.gather(
        *(write(to, f"{n}{i}") for n, to in enumerate((store, other)) for i in range(4))
    )
    done.set()
    await asyncio.wait_for(following, 20)
    assert len(seen) == 8 * 15


async def test_it_waits_for_a_change_of_its_own_process(store: Store) -> None:
    reader = await Reader.of(store)
    job = await claimed(store)
    await reader.until({job.job_id})
    await reader.read()

    async def wait() -> float:
        while True:
            changes = await store.changes(reader.position, seconds=5)
            reader.position = changes.position
            if any(change.job_id == job.job_id for change in changes.items):
                return time.monotonic()

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    await store.finish(job, Completed())
    finished = time.monotonic()
    assert await asyncio.wait_for(waiting, 4) - finished < 1


async def test_it_waits_no_longer_than_requested(store: Store) -> None:
    reader = await Reader.of(store)
    started = time.monotonic()
    assert (await store.changes(reader.position, seconds=0.05)).items == []
    assert time.monotonic() - started < 3


@pytest.mark.parametrize("position", ["", "x", "1.x", "99999999999999999999", "t:1:1", "s:00", "é"])
async def test_a_position_that_no_store_gave_out_is_a_gap(store: Store, position: str) -> None:
    changes = await store.changes(position)
    assert changes.gap
    assert changes.items == []
    assert not (await store.changes(changes.position)).gap
