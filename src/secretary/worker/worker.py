"""The worker: claims jobs, keeps its slots busy and renews its lease until it is drained."""

import asyncio
import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from uuid import uuid4

from ..core.errors import LeaseLost, StoreUnavailable
from ..core.job import Job, utc_now
from ..core.processes import process_identity
from ..store import Capacity, ClaimStore, WorkerInfo
from ..store.claims import is_alive
from ..version import __version__
from .executor import Execution, Executor, Stop

logger = logging.getLogger(__name__)

#: How often leases are renewed, and so cancellations noticed, while jobs run.
RENEW_INTERVAL = 0.5
#: The minimum time between two renewals, however often the worker is woken.
MIN_RENEW_INTERVAL = 0.05
HEARTBEAT_INTERVAL = 1.0
PEER_REFRESH_INTERVAL = 3.0
#: How long a free slot waits for others, so that one claim can fill several.
CLAIM_BATCH_WINDOW = 0.005
#: Stop running jobs at this share of the lease if it could not be renewed: the last renewal may
#: be a tenth older than we think (see claims.RENEW_BELOW), and stopping takes a moment.
LEASE_SAFETY = 0.8
#: An event loop that was blocked for this share of the lease explains why it could not be renewed.
BLOCKED_SHARE = 0.5
#: How long a worker that is shutting down keeps trying to record outcomes.
SHUTDOWN_WRITE_TIMEOUT = 15.0
MAX_LOST_REMEMBERED = 10_000
#: How long a lost worker, or another one like it, is expected to come back.
EXPECTED_BACK_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    slots: int = 3
    #: Further slots, only for jobs of these types: they wait for the network most of the time.
    io_slots: int = 0
    io_types: Collection[str] = ()
    #: None claims all types, including those without any handler, which fail with
    #: UNKNOWN_JOB_TYPE.
    job_types: Collection[str] | None = None
    #: Those of them that it has a handler for.
    handles: Collection[str] = ()
    max_per_type: Mapping[str, int] = field(default_factory=dict)
    max_per_user: int | None = None
    poll_interval: timedelta = timedelta(seconds=1)
    lease: timedelta = timedelta(seconds=10)
    grace: timedelta = timedelta(seconds=30)


@dataclass(slots=True)
class SlotPool:
    """Slots for jobs of the same kind."""

    size: int
    free: int
    #: The last claim filled all slots, so more jobs may be waiting.
    has_backlog: bool = False

    @property
    def busy(self) -> int:
        return self.size - self.free

    @property
    def may_fill_more(self) -> bool:
        """Whether a claim could fill more slots in a moment than it can now."""
        return self.has_backlog and 0 < self.free < self.size


class Worker:
    """One per process: one claim at a time for all free slots, one lease."""

    def __init__(self, store: ClaimStore, executor: Executor, options: WorkerOptions) -> None:
        self._store = store
        self._executor = executor
        self._options = options
        now = utc_now()
        self._info = WorkerInfo(
            worker_id=_new_worker_id(),
            host=socket.gethostname(),
            pid=os.getpid(),
            birth=process_identity(os.getpid()),
            slots=options.slots,
            io_slots=options.io_slots,
            io_types=sorted(options.io_types),
            version=__version__,
            job_types=sorted(options.job_types) if options.job_types is not None else (),
            handles=sorted(options.handles),
            started_at=now,
            seen_at=now,
        )
        self._peers = PeerCapabilities(options.handles)
        self._running: dict[str, Execution] = {}
        #: Ids and attempts of jobs that were lost since the worker was registered.
        self._lost: deque[tuple[str, int]] = deque(maxlen=MAX_LOST_REMEMBERED)
        self._slots = SlotPool(options.slots, options.slots)
        self._io_slots = SlotPool(options.io_slots, options.io_slots)
        self._claim_now = asyncio.Event()
        self._renew_now = asyncio.Event()
        self._draining = asyncio.Event()
        self._stop_now = asyncio.Event()
        self._registering = asyncio.Lock()
        self._renewed_at = 0.0
        self._loop_monitor = LoopMonitor()
        #: The last jobs were suspects: others are next.
        self._ran_suspects = False

    @property
    def worker_id(self) -> str:
        return self._info.worker_id

    def drain(self) -> None:
        """Stop claiming and exit when the running jobs have finished; a second call stops now."""
        if self._draining.is_set():
            self._stop_now.set()
        self._draining.set()
        self._claim_now.set()

    async def run(self) -> None:
        await self._register(self._info)
        await self._refresh_peers()
        tasks = [
            asyncio.create_task(self._watch_peers()),
            asyncio.create_task(self._claim_jobs()),
            asyncio.create_task(self._watch_store()),
            asyncio.create_task(self._renew_leases()),
            asyncio.create_task(self._send_heartbeats()),
        ]
        if self._store.remote:
            tasks.append(asyncio.create_task(self._stop_before_lease_expires()))
        draining = asyncio.create_task(self._draining.wait())
        self._loop_monitor.start()
        try:
            done, _ = await asyncio.wait([draining, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # raises if one of them failed
            await self._drain_running()
        finally:
            for task in (draining, *tasks):
                task.cancel()
            await asyncio.gather(draining, *tasks, return_exceptions=True)
            self._loop_monitor.stop()
            try:
                await self._store.unregister_worker(self.worker_id)
            except StoreUnavailable as error:
                logger.warning("Could not unregister the worker: %s", error)

    # Claiming

    async def _claim_jobs(self) -> None:
        pools = (self._slots, self._io_slots)
        while not self._draining.is_set():
            self._claim_now.clear()
            if self._store.remote:
                # Fill slots together that become free together: with a remote store, a claim for
                # many slots costs the same as for one.
                with suppress(TimeoutError):
                    async with asyncio.timeout(CLAIM_BATCH_WINDOW):
                        while any(pool.may_fill_more for pool in pools):
                            self._claim_now.clear()
                            await self._claim_now.wait()
            offered = [(pool, pool.free) for pool in pools if pool.free]
            jobs = await self._claim() if offered and not self._runs_suspects else []
            for job in jobs:
                self._start(job)
            for pool, free in offered:
                pool.has_backlog = free == sum(self._pool_of(job) is pool for job in jobs)
            await self._claim_now.wait()

    @property
    def _runs_suspects(self) -> bool:
        """Nothing starts beside a suspect: if the worker is lost, it is clear which jobs it ran."""
        return any(execution.job.group_size for execution in self._running.values())

    async def _claim(self) -> list[Job]:
        options = self._options
        capacity = Capacity(
            slots=self._slots.free,
            io_slots=self._io_slots.free,
            io_types=options.io_types,
            job_types=options.job_types,
            excluded_types=self._peers.job_types,
            max_per_type=options.max_per_type,
            max_per_user=options.max_per_user,
            busy=self._slots.busy + self._io_slots.busy,
            suspects_first=not self._ran_suspects,
        )
        worker_id = self.worker_id
        try:
            jobs = await self._store.claim(worker_id, capacity)
            if jobs:
                self._ran_suspects = jobs[0].group_size is not None
            return jobs
        except LeaseLost:
            await self._register_again(worker_id)
        except StoreUnavailable as error:
            logger.error("Could not claim jobs; retrying: %s", error)
        return []

    def _start(self, job: Job) -> None:
        pool = self._pool_of(job)
        pool.free -= 1
        execution = Execution(self._executor, job)
        self._running[job.job_id] = execution
        self._renew_now.set()

        def on_finished(task: asyncio.Task[None]) -> None:
            if self._running.get(job.job_id) is execution:
                del self._running[job.job_id]
            if execution.is_lost:
                self._lost.append((job.job_id, job.attempt))
            pool.free += 1
            self._claim_now.set()
            if not task.cancelled() and (error := task.exception()) is not None:
                logger.error("The execution of %s failed unexpectedly", job.job_id, exc_info=error)

        execution.task.add_done_callback(on_finished)

    def _pool_of(self, job: Job) -> SlotPool:
        return self._io_slots if job.job_type in self._options.io_types else self._slots

    async def _watch_store(self) -> None:
        """Claim and renew when the store has changed, or after the poll interval."""
        since, seconds = -1, self._options.poll_interval.total_seconds()
        while True:
            try:
                since = await self._store.wait(since, seconds=seconds)
            except StoreUnavailable as error:
                logger.error("Could not wait for changes; retrying: %s", error)
                await asyncio.sleep(seconds)
            self._claim_now.set()
            self._renew_now.set()

    async def _watch_peers(self) -> None:
        while True:
            await asyncio.sleep(PEER_REFRESH_INTERVAL)
            await self._refresh_peers()

    async def _refresh_peers(self) -> None:
        try:
            self._peers.update(await self._store.workers())
        except StoreUnavailable as error:
            logger.error("Could not list the other workers; retrying: %s", error)

    # Leases

    async def _renew_leases(self) -> None:
        while True:
            try:
                worker_id, running = self.worker_id, list(self._running.values())
                requested_at = time.monotonic()
                renewal = await self._store.renew(worker_id, self._options.lease)
                self._renewed_at = requested_at
                self._loop_monitor.reset()
                for execution in running:
                    job = execution.job
                    if job.job_id in renewal.cancelled:
                        execution.stop(Stop.CANCELLED)
                    elif renewal.attempts.get(job.job_id) != job.attempt:
                        execution.stop(Stop.LOST)
            except LeaseLost:
                await self._register_again(worker_id)
            except StoreUnavailable as error:
                logger.error("Could not renew the lease; retrying: %s", error)
            await asyncio.sleep(MIN_RENEW_INTERVAL)
            self._renew_now.clear()
            interval = RENEW_INTERVAL if self._running else self._options.lease.total_seconds() / 3
            with suppress(TimeoutError):
                async with asyncio.timeout(interval):
                    # Without running jobs nothing can be cancelled, so wake-ups are ignored.
                    while await self._renew_now.wait() and not self._running:
                        self._renew_now.clear()

    async def _stop_before_lease_expires(self) -> None:
        """Stop jobs before an unrenewed lease expires and other workers claim them. If the store
        comes back in time, they are put back into the queue."""
        safe_for = self._options.lease.total_seconds() * LEASE_SAFETY
        while True:
            remaining = self._renewed_at + safe_for - time.monotonic()
            if remaining <= 0 and self._running:
                logger.error("The store is unreachable; stopping jobs before their leases expire")
                for execution in list(self._running.values()):
                    execution.stop(Stop.INTERRUPTED)
            await asyncio.sleep(remaining if remaining > 0 else 1.0)

    async def _send_heartbeats(self) -> None:
        """Keep sandbox processes alive: without heartbeats they stop, so none outlives a worker."""
        while True:
            self._loop_monitor.beat()
            self._executor.sandbox.heartbeat()
            await asyncio.sleep(HEARTBEAT_INTERVAL)

    async def _register_again(self, lost: str) -> None:
        """Stop all jobs after losing the lease, and register as a new worker, once: claims and
        renewals notice the loss independently.

        The process is alive, so its jobs are no suspects, unless one of them blocked the event loop
        and kept it from renewing the lease.
        """
        async with self._registering:
            if self.worker_id != lost:
                return
            logger.warning("Worker %s lost its lease; stopping its jobs", lost)
            survived = list(self._lost)
            for execution in list(self._running.values()):
                execution.stop(Stop.LOST)
                survived.append((execution.job.job_id, execution.job.attempt))
            max_blocked = self._options.lease.total_seconds() * BLOCKED_SHARE
            if self._loop_monitor.blocked_seconds > max_blocked:
                logger.error("A job blocked the event loop for too long to renew the lease")
                survived = []
            self._lost.clear()
            await self._register(replace(self._info, worker_id=_new_worker_id()), survived)

    async def _register(self, info: WorkerInfo, survived: Collection[tuple[str, int]] = ()) -> None:
        while True:
            try:
                requested_at = time.monotonic()
                await self._store.register_worker(info, self._options.lease, survived=survived)
                self._info, self._renewed_at = info, requested_at
                return
            except StoreUnavailable as error:
                logger.error("Could not register the worker; retrying: %s", error)
                await asyncio.sleep(1)

    # Shutdown

    async def _drain_running(self) -> None:
        """Let running jobs finish within the grace period, then requeue them without counting the
        attempt."""
        async with self._registering:
            await self._register(replace(self._info, draining=True))
        logger.info("Draining: %d jobs still running", len(self._running))
        stop_now = asyncio.create_task(self._stop_now.wait())
        all_finished = asyncio.create_task(self._wait_for_running())
        grace = self._options.grace.total_seconds()
        await asyncio.wait(
            {stop_now, all_finished}, timeout=grace, return_when=asyncio.FIRST_COMPLETED
        )
        for execution in list(self._running.values()):
            execution.stop(Stop.INTERRUPTED)
        await asyncio.wait({all_finished}, timeout=SHUTDOWN_WRITE_TIMEOUT)
        # If the store is unreachable, rely on lease expiry.
        for execution in list(self._running.values()):
            execution.task.cancel()
        await all_finished
        stop_now.cancel()

    async def _wait_for_running(self) -> None:
        while self._running:
            await asyncio.wait([execution.task for execution in self._running.values()])
            await asyncio.sleep(0)  # let their callbacks run


class LoopMonitor:
    """Measures for how long jobs block the event loop. A thread looks for missing heartbeats; while
    the whole process is suspended it does not run either, so that time does not count."""

    def __init__(self, interval: float = HEARTBEAT_INTERVAL) -> None:
        self._interval = interval
        self._beat_at = time.monotonic()
        self._stopped = threading.Event()
        #: Since the last `reset`.
        self.blocked_seconds = 0.0

    def start(self) -> None:
        self._beat_at = time.monotonic()
        threading.Thread(target=self._watch, name="loop-monitor", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def beat(self) -> None:
        """Called by the event loop, once per interval."""
        self._beat_at = time.monotonic()

    def reset(self) -> None:
        self.blocked_seconds = 0.0

    def _watch(self) -> None:
        while not self._stopped.wait(self._interval):
            if time.monotonic() - self._beat_at > 2 * self._interval:
                self.blocked_seconds += self._interval


def _new_worker_id() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"


class PeerCapabilities:
    """Job types that only other workers can run: during a deploy not all workers have the same
    version, and some have handlers of their own. `handles` are the types of this worker."""

    def __init__(
        self, handles: Collection[str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._handles = frozenset(handles)
        self._clock = clock
        self._seen: dict[str, float] = {}

    def update(self, workers: Iterable[WorkerInfo]) -> None:
        now = self._clock()
        for worker in workers:
            if is_alive(worker):
                self._seen |= dict.fromkeys(set(worker.handles) - self._handles, now)
        oldest = now - EXPECTED_BACK_SECONDS
        self._seen = {name: at for name, at in self._seen.items() if at > oldest}

    @property
    def job_types(self) -> Collection[str]:
        return self._seen.keys()
