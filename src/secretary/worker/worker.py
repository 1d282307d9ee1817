"""Claims jobs and keeps as many running as there are slots, until it is told to stop."""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

from ..core.errors import LeaseLost, StoreUnavailable
from ..core.job import Job, utc_now
from ..core.processes import process_identity
from ..store import Capacity, Renewal, Store, WorkerInfo
from ..version import __version__
from .executor import Execution, Executor, Stop
from .peers import PeerCapabilities

logger = logging.getLogger(__name__)

#: While jobs run, requests to cancel are looked for this often even if no one pokes us.
LOOK_EVERY = 0.5
#: However much news there is, leases are not renewed more often than this.
LOOK_PAUSE = 0.05
SHOW_LIFE_EVERY = 1.0
LOOK_AROUND_EVERY = 3.0
#: A slot stays free for so long at the most while there is work.
GATHER_SECONDS = 0.005
#: Of a lease, counted from when it was last asked for. It may have been written a tenth earlier
#: (see store.RENEW_BELOW), and to stop takes a moment.
HEED_AT = 0.8
#: So long a worker that shuts down tries to write down how its jobs ended.
RECORD_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    slots: int = 3
    #: None: all types, those too that no worker has a handler for (they fail with
    #: UNKNOWN_JOB_TYPE).
    job_types: Collection[str] | None = None
    #: Those of them that it has a handler for.
    handles: Collection[str] = ()
    max_per_type: Mapping[str, int] = field(default_factory=dict)
    max_per_user: int | None = None
    poll_interval: timedelta = timedelta(seconds=1)
    lease: timedelta = timedelta(seconds=10)
    grace: timedelta = timedelta(seconds=30)


class Worker:
    """One per process: one claimer, one heartbeat, `slots` jobs at once."""

    def __init__(self, store: Store, executor: Executor, options: WorkerOptions) -> None:
        self._store = store
        self._executor = executor
        self._options = options
        self._info = _info(options)
        self._colleagues = PeerCapabilities(options.handles)
        self._running: dict[str, Execution] = {}
        self._free = options.slots
        self._claim_now = asyncio.Event()
        self._look_now = asyncio.Event()
        self._draining = asyncio.Event()
        self._hurry = asyncio.Event()
        self._renewed_at = 0.0

    @property
    def worker_id(self) -> str:
        return self._info.worker_id

    def drain(self) -> None:
        """Claim nothing more and end when the running jobs have; asked twice, end now."""
        if self._draining.is_set():
            self._hurry.set()
        self._draining.set()
        self._claim_now.set()

    async def run(self) -> None:
        await self._enlist()
        await self._look_at_colleagues()
        duties = [
            asyncio.create_task(self._watch_colleagues()),
            asyncio.create_task(self._claim_jobs()),
            asyncio.create_task(self._watch_for_news()),
            asyncio.create_task(self._keep_leases()),
            asyncio.create_task(self._show_life()),
        ]
        if self._store.remote:
            duties.append(asyncio.create_task(self._heed_lease()))
        try:
            await _first(asyncio.create_task(self._draining.wait()), *duties)
            await self._finish_running()
        finally:
            for duty in duties:
                duty.cancel()
            await asyncio.gather(*duties, return_exceptions=True)
            await self._leave()

    # Claiming

    async def _claim_jobs(self) -> None:
        more = False
        while not self._draining.is_set():
            self._claim_now.clear()
            if more and self._store.remote:
                await self._gather_free_slots()
            free = self._free
            jobs = await self._claim(free) if free > 0 else []
            for job in jobs:
                self._start(job)
            if free > 0:
                more = len(jobs) == free
            if not jobs or len(jobs) < free:
                await self._claim_now.wait()

    async def _gather_free_slots(self) -> None:
        """A claim of a store elsewhere costs the same for one slot as for many: with more jobs
        waiting than there is room for, fill together what gets free together."""
        with suppress(TimeoutError):
            async with asyncio.timeout(GATHER_SECONDS):
                while 0 < self._free < self._options.slots:
                    self._claim_now.clear()
                    await self._claim_now.wait()

    def _wanted(self, slots: int) -> Capacity:
        options = self._options
        return Capacity(
            slots=slots,
            job_types=options.job_types,
            excluded_types=self._colleagues.job_types,
            max_per_type=options.max_per_type,
            max_per_user=options.max_per_user,
        )

    async def _claim(self, slots: int) -> list[Job]:
        try:
            return await self._store.claim(self.worker_id, self._wanted(slots))
        except LeaseLost:
            await self._start_over()
        except StoreUnavailable as error:
            logger.error("Cannot claim jobs, will try again: %s", error)
        return []

    def _start(self, job: Job) -> None:
        self._free -= 1
        execution = self._executor.start(job)
        self._running[job.job_id] = execution
        self._look_now.set()
        execution.task.add_done_callback(lambda task: self._ended(job, task))

    def _ended(self, job: Job, task: asyncio.Task[None]) -> None:
        if self._running.get(job.job_id) is not None and self._running[job.job_id].job is job:
            del self._running[job.job_id]
        self._free += 1
        self._claim_now.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("The execution of %s broke", job.job_id, exc_info=error)

    async def _watch_for_news(self) -> None:
        """News from the store, or nothing for a while: look again."""
        since = -1
        while True:
            try:
                since = await self._store.wait(
                    since, seconds=self._options.poll_interval.total_seconds()
                )
            except StoreUnavailable as error:
                logger.error("Cannot wait for news: %s", error)
                await asyncio.sleep(self._options.poll_interval.total_seconds())
            self._claim_now.set()
            self._look_now.set()

    async def _watch_colleagues(self) -> None:
        while True:
            await asyncio.sleep(LOOK_AROUND_EVERY)
            await self._look_at_colleagues()

    async def _look_at_colleagues(self) -> None:
        try:
            self._colleagues.update(await self._store.workers())
        except StoreUnavailable as error:
            logger.error("Cannot see the other workers, will look again: %s", error)

    # Leases

    async def _keep_leases(self) -> None:
        while True:
            try:
                running, asked_at = list(self._running.values()), time.monotonic()
                renewal = await self._store.renew(self.worker_id, self._options.lease)
                self._renewed_at = asked_at
                _obey(renewal, running)
            except LeaseLost:
                await self._start_over()
            except StoreUnavailable as error:
                logger.error("Cannot renew the leases, will try again: %s", error)
            await asyncio.sleep(LOOK_PAUSE)
            self._look_now.clear()
            every = LOOK_EVERY if self._running else self._options.lease.total_seconds() / 3
            try:
                async with asyncio.timeout(every):
                    await self._wait_for_news_of_running()
            except TimeoutError:
                pass

    async def _heed_lease(self) -> None:
        """Cut off from the store, stop before the lease is over: then the jobs are another's. If
        they are still ours when the store is back, they are put back into the queue."""
        patience = self._options.lease.total_seconds() * HEED_AT
        while True:
            left = self._renewed_at + patience - time.monotonic()
            if left <= 0 and self._running:
                logger.error("The store does not answer; stopping the jobs while they are ours")
                for execution in list(self._running.values()):
                    execution.stop(Stop.INTERRUPTED)
            await asyncio.sleep(left if left > 0 else 1.0)

    async def _wait_for_news_of_running(self) -> None:
        """Nothing can be cancelled while nothing runs."""
        while True:
            await self._look_now.wait()
            if self._running:
                return
            self._look_now.clear()

    async def _show_life(self) -> None:
        """A worker that is stopped must not leave work behind that goes on without it."""
        while True:
            self._executor.sandbox.heartbeat()
            await asyncio.sleep(SHOW_LIFE_EVERY)

    async def _start_over(self) -> None:
        """Someone took us for dead and gave our jobs away. Stop them; come back as a new worker."""
        logger.warning("The lease of worker %s was lost; stopping its jobs", self.worker_id)
        for execution in list(self._running.values()):
            execution.stop(Stop.LOST)
        self._info = replace(self._info, worker_id=_new_worker_id())
        await self._enlist()

    async def _enlist(self) -> None:
        while True:
            try:
                asked_at = time.monotonic()
                await self._store.register_worker(self._info, self._options.lease)
                self._renewed_at = asked_at
                return
            except StoreUnavailable as error:
                logger.error("Cannot enlist, will try again: %s", error)
                await asyncio.sleep(1)

    # The end

    async def _finish_running(self) -> None:
        """Give running jobs their time, then put them back into the queue at no cost to them."""
        self._info = replace(self._info, draining=True)
        await self._enlist()
        logger.info("Draining: %d jobs still run", len(self._running))
        hurry = asyncio.create_task(self._hurry.wait())
        everything = asyncio.create_task(self._all_ended())
        grace = self._options.grace.total_seconds()
        await asyncio.wait({hurry, everything}, timeout=grace, return_when=asyncio.FIRST_COMPLETED)
        for execution in list(self._running.values()):
            execution.stop(Stop.INTERRUPTED)
        await asyncio.wait({everything}, timeout=RECORD_SECONDS)
        for execution in list(self._running.values()):  # the store is away: leases must do
            execution.task.cancel()
        await everything
        hurry.cancel()

    async def _all_ended(self) -> None:
        while self._running:
            await asyncio.wait([execution.task for execution in self._running.values()])
            await asyncio.sleep(0)  # lets their callbacks run

    async def _leave(self) -> None:
        try:
            await self._store.unregister_worker(self.worker_id)
        except StoreUnavailable as error:
            logger.warning("Cannot say goodbye: %s", error)


def _obey(renewal: Renewal, running: Collection[Execution]) -> None:
    """Stop what someone wants cancelled, and what ran before but is ours no longer."""
    for execution in running:
        job = execution.job
        if job.job_id in renewal.cancelled:
            execution.stop(Stop.CANCELLED)
        elif renewal.attempts.get(job.job_id) != job.attempt:
            execution.stop(Stop.LOST)


async def _first(*tasks: asyncio.Task[Any]) -> None:
    """Wait until one of the tasks ends; a broken duty must not go unnoticed."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    tasks[0].cancel()
    for task in done:
        task.result()


def _info(options: WorkerOptions) -> WorkerInfo:
    now = utc_now()
    return WorkerInfo(
        worker_id=_new_worker_id(),
        host=socket.gethostname(),
        pid=os.getpid(),
        birth=process_identity(os.getpid()),
        slots=options.slots,
        version=__version__,
        job_types=sorted(options.job_types) if options.job_types is not None else (),
        handles=sorted(options.handles),
        started_at=now,
        seen_at=now,
    )


def _new_worker_id() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
