"""One run: jobs are submitted while planned faults are injected; then everything is checked."""

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
from .client import Book, churn, submit_file
from .cluster import MAX_CRASHES, Cluster, running_cluster
from .fault_plan import Fault
from .history import History, Sighting, broken_promises
from .receivers import SECRET, all_delivered
from .report import Report, recoveries
from .service_process import Member, none_alive
from .workload import BROKEN, Workload

CLIENTS = 2
#: After the last fault, all jobs must finish and their final events be delivered within this time.
SETTLE_SECONDS = 180
DELIVERY_SECONDS = 60
#: The clock is moved forward while waiting for the last jobs: retries are due after minutes.
FORWARD_EVERY, FORWARD = 6.0, 300.0
#: The largest clock steps while jobs run. Setting the clock back delays retries.
FURTHEST_FORWARD, FURTHEST_BACK = 600.0, 20.0
DAY = 25 * 3600.0


async def run(directory: Path, store_kind: str, *, seconds: float, seed: int) -> Report:
    report = Report(store_kind, seed)
    planned = fault_plan.faults(seed, seconds, store_kind)
    async with running_cluster(directory, store_kind) as cluster:
        store = open_store(cluster.url)
        await store.open()
        try:
            await _Run(cluster, store, report).go(planned, seconds)
        finally:
            await store.close()
    return report


class _Run:
    def __init__(self, cluster: Cluster, store: Store, report: Report) -> None:
        self._cluster = cluster
        self._store = store
        self._report = report
        self._book = Book()
        self._seen: dict[str, Sighting] = {}

    async def go(self, planned: dict[str, list[Fault]], seconds: float) -> None:
        cluster, stop = self._cluster, asyncio.Event()
        watching = [
            asyncio.create_task(checks.watch(self._store, self._book, self._seen, stop)),
            *(asyncio.create_task(member.supervise()) for member in cluster.members),
        ]
        try:
            await self._inject_under_load(planned, seconds)
            began = time.monotonic()
            await self._settle()
            self._report.settled_s = time.monotonic() - began
            await self._wait_for_deliveries()
            history = await self._history()
        finally:
            stop.set()
            for member in cluster.members:
                await member.end()
            await asyncio.gather(*watching)
        history.left = await self._left(history)
        self._sum_up(history)

    async def _inject_under_load(self, planned: dict[str, list[Fault]], seconds: float) -> None:
        cluster, seed = self._cluster, self._report.seed
        workload = Workload(seed, str(cluster.journal), cluster.external_services.site, self._hook)
        orders = workload.orders()
        deadline = time.monotonic() + seconds
        async with asyncio.TaskGroup() as tasks:
            for number in range(CLIENTS):
                pace = random.Random(f"{seed} client {number}")
                tasks.create_task(submit_file(cluster.api_url, orders, self._book, pace, deadline))
            pace = random.Random(f"{seed} churn")
            tasks.create_task(churn(cluster.api_url, self._book, pace, deadline))
            for faults in planned.values():
                tasks.create_task(self._inject(faults, deadline))

    def _hook(self, path: str) -> dict[str, str]:
        boxes = self._cluster.mailboxes
        return {"url": boxes[sum(path.encode()) % len(boxes)].url(path), "secret": SECRET}

    async def _inject(self, faults: Sequence[Fault], deadline: float) -> None:
        for fault in faults:
            await asyncio.sleep(fault.wait)
            if time.monotonic() > deadline:
                return
            if fault.kind == "fill disk" and not self._cluster.disk.is_own:
                self._report.left_out[fault.kind] = "only root can make a disk of its own"
                continue
            await INJECTORS[fault.kind](self._cluster, fault)
            self._report.faults[fault.kind] += 1

    async def _settle(self) -> None:
        """Wait until every job has finished; the clock is moved forward to make retries due."""
        deadline = time.monotonic() + SETTLE_SECONDS
        forward_at = time.monotonic() + FORWARD_EVERY
        while (remaining := await self._open_jobs()) != {}:
            if time.monotonic() > deadline:
                self._report.broken.append(
                    f"jobs did not finish in {SETTLE_SECONDS} s: {remaining}"
                )
                return
            if time.monotonic() > forward_at:
                forward_at = time.monotonic() + FORWARD_EVERY
                self._cluster.clock.step(FORWARD)
            await asyncio.sleep(0.2)

    async def _open_jobs(self) -> dict[str, int] | None:
        try:
            return await checks.open_jobs(self._store)
        except StoreUnavailable:  # it is restarting
            return None

    async def _wait_for_deliveries(self) -> None:
        """Redeploy, so that no process remembers which receivers were faulty; an hour later, all
        remaining events are due."""
        cluster = self._cluster
        await asyncio.gather(*(member.restart() for member in cluster.members))
        cluster.clock.step(3600)
        hooks = {one.hook for one in self._book.jobs if one.hook}
        hooks |= {one.hook for one in self._book.batches if one.hook}
        hooks.discard(BROKEN)
        await all_delivered(cluster.mailboxes, hooks, seconds=DELIVERY_SECONDS)

    async def _history(self) -> History:
        cluster, book = self._cluster, self._book
        await _until_up(cluster.api_url)
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
            lives=checks.lives(cluster.journal),
            received_events=[
                delivery for box in cluster.mailboxes for delivery in box.received_events
            ],
            wrong_results=await checks.wrong_results(cluster.api_url, jobs, book.checks),
            clock_went_back=cluster.clock.went_back,
        )

    async def _left(self, history: History) -> list[str]:
        """A day later, after maintenance, nothing is left that is no longer needed."""
        cluster = self._cluster
        remaining = await none_alive(cluster.token, seconds=15)
        cluster.clock.step(DAY)
        for member in cluster.members if cluster.server else cluster.workers[:1]:
            await asyncio.to_thread(_swept, member)
        for data in cluster.data_directories:
            remaining += checks.orphaned_files(
                data, history.jobs, shared=cluster.server is not None
            )
        if isinstance(self._store, MongoStore):
            blob_store = GridFsBlobStore(self._store)
            remaining += await checks.orphaned_blobs(blob_store, history.jobs)
        return remaining

    def _sum_up(self, history: History) -> None:
        report, cluster = self._report, self._cluster
        for one in history.accepted:
            if (job := history.jobs.get(one.job_id)) is not None:
                ends = report.ends.setdefault(one.kind, Counter())
                ends[job.error.code if job.error else job.status] += 1
                report.attempts += job.attempt
        report.batches = len(history.batches)
        report.refused = self._book.refused
        report.undelivered = sum(box.refused for box in cluster.mailboxes)
        report.failed_starts = sum(member.failed_starts for member in cluster.members)
        report.recoveries = recoveries(history.lives)
        of_members = [text for member in cluster.members for text in member.broken]
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


Injector = Callable[[Cluster, Fault], Awaitable[object]]


def _worker(cluster: Cluster, fault: Fault) -> Member:
    return next(member for member in cluster.workers if member.name == fault.target)


async def _signal_child(cluster: Cluster, fault: Fault, number: signal.Signals) -> None:
    """The dice choose a worker and one of its children; a worker without children is no target."""
    position = fault.dice * len(cluster.workers)
    await cluster.workers[int(position)].signal_child(position % 1, number, fault.seconds)


async def _disrupt_receiver(cluster: Cluster, fault: Fault) -> None:
    box = cluster.mailboxes[int(fault.dice * len(cluster.mailboxes))]
    await box.misbehave(fault.kind, fault.seconds)


async def _set_clock(cluster: Cluster, seconds: float) -> None:
    cluster.clock.step(seconds)


INJECTORS: dict[str, Injector] = {
    "kill worker": lambda cluster, fault: _worker(cluster, fault).kill(),
    "stop worker": lambda cluster, fault: _worker(cluster, fault).stop_for(fault.seconds),
    "drain worker": lambda cluster, fault: _worker(cluster, fault).restart(hurry=fault.dice < 0.5),
    "kill api": lambda cluster, fault: cluster.api.kill(),
    "stop api": lambda cluster, fault: cluster.api.stop_for(fault.seconds),
    "restart api": lambda cluster, fault: cluster.api.restart(hurry=fault.dice < 0.5),
    "kill child": lambda cluster, fault: _signal_child(cluster, fault, signal.SIGKILL),
    "stop child": lambda cluster, fault: _signal_child(cluster, fault, signal.SIGSTOP),
    "fill disk": lambda cluster, fault: cluster.disk.fill(fault.seconds),
    "lock store": lambda cluster, fault: cluster.disrupt_store(fault.seconds),
    "kill store": lambda cluster, fault: cluster.disrupt_store(fault.seconds),
    "answer 500": _disrupt_receiver,
    "hang": _disrupt_receiver,
    "refuse connections": _disrupt_receiver,
    "close in the middle": _disrupt_receiver,
    "set clock forward": lambda cluster, fault: _set_clock(cluster, fault.dice * FURTHEST_FORWARD),
    "set clock back": lambda cluster, fault: _set_clock(cluster, -fault.dice * FURTHEST_BACK),
}


def chaos(directory: Path, store: str, *, seconds: float, seed: int) -> Report:
    return asyncio.run(run(directory, store, seconds=seconds, seed=seed))
