"""One run: jobs are submitted while the faults of a plan come; then everything is looked at."""

import asyncio
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from secretary.core.errors import StoreUnavailable
from secretary.storage.gridfs import GridFsBlobStore
from secretary.store import Store, open_store
from secretary.store.mongo import MongoStore

from ..acceptance.service import ROOT
from . import checks, fault_plan
from .client import Book, submit_file
from .cluster import MAX_CRASHES, Cluster, world
from .fault_plan import Fault
from .history import History, Sighting, broken_promises
from .receivers import SECRET, all_delivered
from .report import Report, recoveries
from .service_process import Member, none_alive
from .workload import Workload

CLIENTS = 2
#: After the last fault all jobs have to end within so long, and their ends must be delivered.
SETTLE_SECONDS = 180
TELL_SECONDS = 60
#: While waiting for the last ones time flies: retries are due after minutes.
FORWARD_EVERY, FORWARD = 6.0, 300.0
#: The furthest that the clock is set while jobs run. A job that waits for its next try waits for
#: longer when it is set back.
FURTHEST_FORWARD, FURTHEST_BACK = 600.0, 20.0
DAY = 25 * 3600.0


async def run(directory: Path, store_kind: str, *, seconds: float, seed: int) -> Report:
    report = Report(store_kind, seed)
    planned = fault_plan.faults(seed, seconds, store_kind)
    async with world(directory, store_kind) as made:
        store = open_store(made.url)
        await store.open()
        try:
            await _Run(made, store, report).go(planned, seconds)
        finally:
            await store.close()
    return report


class _Run:
    def __init__(self, made: Cluster, store: Store, report: Report) -> None:
        self._world = made
        self._store = store
        self._report = report
        self._book = Book()
        self._seen: dict[str, Sighting] = {}

    async def go(self, planned: dict[str, list[Fault]], seconds: float) -> None:
        made, stop = self._world, asyncio.Event()
        watching = [
            asyncio.create_task(checks.watch(self._store, self._book, self._seen, stop)),
            *(asyncio.create_task(member.supervise()) for member in made.members),
        ]
        try:
            await self._hurt_while_jobs_come(planned, seconds)
            began = time.monotonic()
            await self._settle()
            self._report.settled_s = time.monotonic() - began
            await self._tell()
            history = await self._history()
        finally:
            stop.set()
            for member in made.members:
                await member.end()
            await asyncio.gather(*watching)
        history.left = await self._left(history)
        self._sum_up(history)

    async def _hurt_while_jobs_come(self, planned: dict[str, list[Fault]], seconds: float) -> None:
        made, seed = self._world, self._report.seed
        workload = Workload(seed, str(made.journal), made.external_services.site, self._hook)
        orders = workload.orders()
        deadline = time.monotonic() + seconds
        async with asyncio.TaskGroup() as tasks:
            for number in range(CLIENTS):
                pace = random.Random(f"{seed} client {number}")
                tasks.create_task(submit_file(made.api_url, orders, self._book, pace, deadline))
            for faults in planned.values():
                tasks.create_task(self._hurt(faults, deadline))

    def _hook(self, path: str) -> dict[str, str]:
        boxes = self._world.mailboxes
        return {"url": boxes[sum(path.encode()) % len(boxes)].url(path), "secret": SECRET}

    async def _hurt(self, faults: Sequence[Fault], deadline: float) -> None:
        for fault in faults:
            await asyncio.sleep(fault.wait)
            if time.monotonic() > deadline:
                return
            if fault.kind == "fill disk" and not self._world.disk.is_own:
                self._report.left_out[fault.kind] = "only root can make a disk of its own"
                continue
            await HURTS[fault.kind](self._world, fault)
            self._report.faults[fault.kind] += 1

    async def _settle(self) -> None:
        """Wait until every job has ended. What waits for its next try need not wait that long."""
        deadline = time.monotonic() + SETTLE_SECONDS
        forward_at = time.monotonic() + FORWARD_EVERY
        while (remaining := await self._open_jobs()) != {}:
            if time.monotonic() > deadline:
                self._report.broken.append(f"jobs did not end in {SETTLE_SECONDS} s: {remaining}")
                return
            if time.monotonic() > forward_at:
                forward_at = time.monotonic() + FORWARD_EVERY
                self._world.clock.step(FORWARD)
            await asyncio.sleep(0.2)

    async def _open_jobs(self) -> dict[str, int] | None:
        try:
            return await checks.open_jobs(self._store)
        except StoreUnavailable:  # it is just coming back
            return None

    async def _tell(self) -> None:
        """Deploy once more, so that nobody remembers which receivers were ill; an hour later all
        that is left is due."""
        made = self._world
        await asyncio.gather(*(member.restart() for member in made.members))
        made.clock.step(3600)
        hooks = {one.hook for one in self._book.jobs if one.hook}
        hooks |= {one.hook for one in self._book.batches if one.hook}
        await all_delivered(made.mailboxes, hooks, seconds=TELL_SECONDS)

    async def _history(self) -> History:
        made, book = self._world, self._book
        await _until_up(made.api_url)
        jobs = await checks.stored(self._store, [one.job_id for one in book.jobs])
        batch_ids = [one.batch_id for one in book.batches]
        counts = (await self._store.counts()).values()
        return History(
            max_crashes=MAX_CRASHES,
            accepted=book.jobs,
            batches=book.batches,
            jobs=jobs,
            stored_batches=await checks.stored_batches(self._store, batch_ids),
            stored_jobs=sum(sum(by_status.values()) for by_status in counts),
            sightings=self._seen,
            lives=checks.lives(made.journal),
            received_events=[
                delivery for box in made.mailboxes for delivery in box.received_events
            ],
            wrong_results=await checks.wrong_results(made.api_url, jobs, book.checks),
            clock_went_back=made.clock.went_back,
        )

    async def _left(self, history: History) -> list[str]:
        """A day later, when maintenance has run, nothing is left that nobody needs."""
        made = self._world
        remaining = await none_alive(made.token, seconds=15)
        made.clock.step(DAY)
        for member in made.members if made.server else made.workers[:1]:
            await asyncio.to_thread(_swept, member)
        for data in made.data_directories:
            remaining += checks.orphaned_files(data, history.jobs, shared=made.server is not None)
        if isinstance(self._store, MongoStore):
            blob_store = GridFsBlobStore(self._store)
            remaining += await checks.orphaned_blobs(blob_store, history.jobs)
        return remaining

    def _sum_up(self, history: History) -> None:
        report, made = self._report, self._world
        for one in history.accepted:
            if (job := history.jobs.get(one.job_id)) is not None:
                ends = report.ends.setdefault(one.kind, Counter())
                ends[job.error.code if job.error else job.status] += 1
                report.attempts += job.attempt
        report.batches = len(history.batches)
        report.refused = self._book.refused
        report.undelivered = sum(box.refused for box in made.mailboxes)
        report.failed_starts = sum(member.failed_starts for member in made.members)
        report.recoveries = recoveries(history.lives)
        of_members = [text for member in made.members for text in member.broken]
        report.broken += [*self._book.broken, *of_members, *broken_promises(history)]


def _swept(member: Member) -> None:
    command = [sys.executable, "-m", "tests.chaos.maintenance"]
    subprocess.run(command, env=member.environment, cwd=ROOT, check=True, timeout=120)


async def _until_up(url: str) -> None:
    host, _, port = url.removeprefix("http://").partition(":")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return


Hurt = Callable[[Cluster, Fault], Awaitable[object]]


def _worker(made: Cluster, fault: Fault) -> Member:
    return next(member for member in made.workers if member.name == fault.target)


async def _hurt_child(made: Cluster, fault: Fault, number: signal.Signals) -> None:
    """The dice choose the worker and its child; who has none is no target."""
    position = fault.dice * len(made.workers)
    await made.workers[int(position)].hurt_child(position % 1, number, fault.seconds)


async def _ill(made: Cluster, fault: Fault) -> None:
    box = made.mailboxes[int(fault.dice * len(made.mailboxes))]
    await box.be_ill(fault.kind, fault.seconds)


async def _set_clock(made: Cluster, seconds: float) -> None:
    made.clock.step(seconds)


HURTS: dict[str, Hurt] = {
    "kill worker": lambda made, fault: _worker(made, fault).kill(),
    "stop worker": lambda made, fault: _worker(made, fault).stop_for(fault.seconds),
    "drain worker": lambda made, fault: _worker(made, fault).restart(hurry=fault.dice < 0.5),
    "kill api": lambda made, fault: made.api.kill(),
    "stop api": lambda made, fault: made.api.stop_for(fault.seconds),
    "restart api": lambda made, fault: made.api.restart(hurry=fault.dice < 0.5),
    "kill child": lambda made, fault: _hurt_child(made, fault, signal.SIGKILL),
    "stop child": lambda made, fault: _hurt_child(made, fault, signal.SIGSTOP),
    "fill disk": lambda made, fault: made.disk.fill(fault.seconds),
    "lock store": lambda made, fault: made.hurt_store(fault.seconds),
    "kill store": lambda made, fault: made.hurt_store(fault.seconds),
    "answer 500": _ill,
    "hang": _ill,
    "refuse connections": _ill,
    "close in the middle": _ill,
    "set clock forward": lambda made, fault: _set_clock(made, fault.dice * FURTHEST_FORWARD),
    "set clock back": lambda made, fault: _set_clock(made, -fault.dice * FURTHEST_BACK),
}


def chaos(directory: Path, store: str, *, seconds: float, seed: int) -> Report:
    return asyncio.run(run(directory, store, seconds=seconds, seed=seed))
