"""Delivers due webhook events concurrently, with retries and a circuit breaker per endpoint."""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

import httpx

from ..core.errors import NotFound, StoreUnavailable
from ..core.job import FINAL_STATUSES, Batch, DeliveryAttempt, Job, Webhook, utc_now
from ..network.client import Network
from ..storage.artifacts import JobFiles
from ..store import BatchStore, JobStore, OutboxStore
from ..store.outbox import DueEvent, EventCapacity, ProgressSchedule, succeeded
from .request import GONE, DeliveryResult, build_request, phase_of, post


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySchedule:
    """Increasing delays over a day; `jitter` spreads the retries of events that failed
    together."""

    waits: tuple[timedelta, ...] = (
        *(timedelta(seconds=n) for n in (5, 30)),
        *(timedelta(minutes=n) for n in (5, 30)),
        *(timedelta(hours=n) for n in (2, 5, 7, 9)),
    )
    window: timedelta = timedelta(hours=24)
    jitter: float = 0.1

    def next_attempt(
        self, attempts: int, *, since: datetime, now: datetime, retry_after: timedelta | None = None
    ) -> datetime | None:
        """When to retry after this many attempts, the last of which failed; None to give up.

        A receiver's `Retry-After` is honoured within the window.
        """
        end = since + self.window
        if attempts > len(self.waits) or now >= end:
            return None
        wait = self.waits[attempts - 1] * random.uniform(1 - self.jitter, 1 + self.jitter)
        return min(now + max(wait, retry_after or wait), end)


MAX_ENDPOINTS_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerOptions:
    failures: int = 5
    pause: timedelta = timedelta(seconds=30)
    max_pause: timedelta = timedelta(minutes=5)


@dataclass(slots=True)
class _Endpoint:
    failures: int = 0
    pauses: int = 0
    paused_until: float = 0.0


class CircuitBreakers:
    """Circuit breakers by endpoint. Consecutive failures open the circuit for a pause; then a
    single probe is sent, and if it fails too, the next pause is twice as long.

    State is kept per process: each process finds out for itself.
    """

    def __init__(
        self, options: BreakerOptions, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._options = options
        self._clock = clock
        self.failing: dict[str, _Endpoint] = {}

    def allowed(self, endpoint: str, limit: int) -> int:
        """How many requests may be in flight to this endpoint, at most `limit`."""
        state = self.failing.get(endpoint)
        if state is None or not state.pauses:
            return limit
        return 0 if self._clock() < state.paused_until else min(1, limit)

    def succeeded(self, endpoint: str) -> None:
        self.failing.pop(endpoint, None)

    def failed(self, endpoint: str) -> timedelta | None:
        """Record a failure; returns the pause it starts, if any."""
        if len(self.failing) >= MAX_ENDPOINTS_REMEMBERED:
            self.failing.clear()
        state = self.failing.setdefault(endpoint, _Endpoint())
        state.failures += 1
        now = self._clock()
        if state.failures < self._options.failures or now < state.paused_until:
            return None
        pause: timedelta = min(self._options.pause * 2**state.pauses, self._options.max_pause)
        state.pauses = min(state.pauses + 1, 30)
        state.paused_until = now + pause.total_seconds()
        return pause


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderOptions:
    in_flight: int = 64
    per_endpoint: int = 8
    timeout: timedelta = timedelta(seconds=30)
    #: Shorter: progress is soon outdated, and the final event may be waiting behind it.
    progress_timeout: timedelta = timedelta(seconds=10)
    schedule: RetrySchedule = field(default_factory=RetrySchedule)
    breaker: BreakerOptions = field(default_factory=BreakerOptions)
    progress_every: timedelta = timedelta(seconds=1)
    progress_step: int = 5
    heartbeat: timedelta = timedelta(seconds=60)
    poll_every: timedelta = timedelta(seconds=1)
    #: How long a sender owns an event; after its death another sender takes over.
    lease: timedelta = timedelta(seconds=10)
    #: How long requests in flight may take to complete at shutdown.
    grace: timedelta = timedelta(seconds=5)


@dataclass(slots=True)
class _Delivery:
    event: DueEvent
    leased_at: float = field(default_factory=time.monotonic)
    #: The request in flight, if any.
    request: asyncio.Task[DeliveryResult] | None = None


class EventStore(JobStore, BatchStore, OutboxStore, Protocol):
    """The events, and the jobs and batches that they describe."""


class Sender:
    """Delivers events. Any number of processes may run one: an event is leased to one at a time."""

    def __init__(
        self, store: EventStore, network: Network, files: JobFiles, options: SenderOptions
    ) -> None:
        #: Called after each attempt with the event's name and whether it was delivered.
        self.on_attempt: Callable[[str, bool], None] = lambda event, delivered: None
        self._store = store
        self._network = network
        self._files = files
        self._options = options
        self._breakers = CircuitBreakers(options.breaker)
        self._sending: dict[str, _Delivery] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._wakeup = asyncio.Event()
        self._stopping = asyncio.Event()

    def wake(self, ended: str | None = None) -> None:
        """Look for due events now. Progress of a job that has `ended` is no longer sent."""
        sending = self._sending.get(ended) if ended is not None else None
        if sending is not None and sending.event.delivery.event == "progress" and sending.request:
            sending.request.cancel()
        self._wakeup.set()

    def stop(self) -> None:
        """Send what is due now, then stop; the rest stays in the outbox."""
        self._stopping.set()
        self._wakeup.set()

    async def run(self) -> None:
        async with self._network.client(timeout=self._options.timeout.total_seconds()) as client:
            try:
                while not self._stopping.is_set():
                    self._wakeup.clear()
                    if not await self._send_due(client):
                        # Jittered, so that processes do not poll at the same moment.
                        seconds = self._options.poll_every.total_seconds()
                        with suppress(TimeoutError):
                            async with asyncio.timeout(seconds * random.uniform(0.8, 1.2)):
                                await self._wakeup.wait()
                await self._send_due(client)
                if self._tasks:
                    await asyncio.wait(self._tasks, timeout=self._options.grace.total_seconds())
            finally:
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _send_due(self, client: httpx.AsyncClient) -> bool:
        """Start sending what is due; returns whether anything was."""
        try:
            await self._extend_leases()
            events = await self._take()
        except StoreUnavailable as error:
            logger.error("Could not read due webhook events; retrying: %s", error)
            return False
        except Exception:
            logger.exception("Unexpected error while reading due webhook events; retrying")
            return False
        for event in events:
            if event.owner_id in self._sending:
                continue  # leased again after a store outage; already being sent
            sending = self._sending[event.owner_id] = _Delivery(event)
            task = asyncio.create_task(self._send(client, sending), name=event.owner_id)
            self._tasks.add(task)
            task.add_done_callback(self._sent)
        return bool(events)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._sending.pop(task.get_name(), None)
        self._wakeup.set()  # a slot is free

    async def _extend_leases(self) -> None:
        lease = self._options.lease.total_seconds()
        now = time.monotonic()
        leased = [one for one in self._sending.values() if not self._is_stale(one)]
        slow = [one for one in leased if now - one.leased_at > lease / 3]
        if slow:
            await self._store.renew_events([one.event for one in slow], self._options.lease)
            for one in slow:
                one.leased_at = now

    def _is_stale(self, sending: _Delivery) -> bool:
        """Whether the lease of a progress event lapsed, say because this process was suspended:
        another sender may have delivered the final event meanwhile. Final events never go stale."""
        is_leased = time.monotonic() - sending.leased_at < self._options.lease.total_seconds()
        return sending.event.delivery.event == "progress" and not is_leased

    async def _take(self) -> list[DueEvent]:
        options = self._options
        limit = options.in_flight - len(self._sending)
        if limit <= 0:
            return []
        busy = Counter(one.event.endpoint for one in self._sending.values())
        for endpoint in [*self._breakers.failing]:
            allowed = self._breakers.allowed(endpoint, options.per_endpoint)
            busy[endpoint] += options.per_endpoint - allowed
        wanted = EventCapacity(
            limit=limit, per_endpoint=options.per_endpoint, busy=busy, lease=options.lease
        )
        return await self._store.claim_events(wanted)

    async def _send(self, client: httpx.AsyncClient, sending: _Delivery) -> None:
        """Errors must not stop the sender; an event without a recorded outcome is sent again."""
        event = sending.event
        try:
            await self._deliver(client, sending)
        except NotFound:
            pass  # deleted meanwhile, with its events
        except StoreUnavailable as error:
            logger.error("Could not record a webhook event of %s: %s", event.owner_id, error)
        except Exception:
            logger.exception("Unexpected error while sending a webhook event of %s", event.owner_id)
            attempt = DeliveryAttempt(at=utc_now(), error="internal error", duration_ms=0)
            with suppress(StoreUnavailable):
                if event.delivery.event == "progress":
                    await self._store.record_progress(event, attempt, None)
                else:
                    await self._record(event, attempt, retry_after=None)

    async def _deliver(self, client: httpx.AsyncClient, sending: _Delivery) -> None:
        event, store = sending.event, self._store
        is_job = event.kind == "job"
        owner = await (store.get(event.owner_id) if is_job else store.get_batch(event.owner_id))
        is_final = event.delivery.event != "progress"
        webhook, result = owner.webhook, None
        wanted = webhook is not None and (is_final or webhook.wants(phase_of(owner)))
        if webhook is not None and wanted and is_final == (owner.status in FINAL_STATUSES):
            result = await self._request(client, sending, owner, webhook)
        if result is None:  # the job has moved on since the event was leased
            await store.record_progress(event, None, self._progress_schedule(owner))
            return
        self.on_attempt(event.delivery.event, succeeded(result.attempt))
        pause, status = None, result.attempt.status
        if status is not None and status < 500:  # it responded, even if it rejected this request
            self._breakers.succeeded(event.endpoint)
        else:
            pause = self._breakers.failed(event.endpoint)
        if is_final:
            await self._record(event, result.attempt, retry_after=result.retry_after)
        else:
            pace = None if status == GONE else self._progress_schedule(owner)
            await store.record_progress(event, result.attempt, pace)
        if pause is not None:
            text = "Webhook endpoint %s keeps failing; pausing for %s"
            logger.warning(text, event.endpoint, pause)
            await store.postpone_events(event.endpoint, utc_now() + pause)

    def _progress_schedule(self, owner: Job | Batch) -> ProgressSchedule | None:
        if isinstance(owner, Batch) or owner.webhook is None or not owner.webhook.wants_progress:
            return None
        now = utc_now()
        percent = owner.progress.percent
        return ProgressSchedule(
            sent_percent=percent,
            early_percent=percent + self._options.progress_step,
            early_at=now + self._options.progress_every,
            due_at=now + self._options.heartbeat,
        )

    async def _request(
        self, client: httpx.AsyncClient, sending: _Delivery, owner: Job | Batch, webhook: Webhook
    ) -> DeliveryResult | None:
        """Returns None if the request was abandoned because its job has ended, or may have."""
        event, options = sending.event, self._options
        is_final = event.delivery.event != "progress"
        outgoing = await build_request(event, owner, webhook, self._files)
        limit = options.timeout if is_final else options.progress_timeout
        if self._is_stale(sending):
            return None
        request = sending.request = asyncio.create_task(
            post(client, self._network, outgoing, limit=limit)
        )
        try:
            await asyncio.wait({request})
        finally:
            request.cancel()
        return None if request.cancelled() else request.result()

    async def _record(
        self, event: DueEvent, attempt: DeliveryAttempt, *, retry_after: timedelta | None
    ) -> None:
        delivery = event.delivery
        next_try_at = None
        if not succeeded(attempt) and attempt.status != GONE:
            next_try_at = self._options.schedule.next_attempt(
                delivery.tried + 1,
                since=delivery.replayed_at or delivery.created_at,
                now=utc_now(),
                retry_after=retry_after,
            )
            if next_try_at is None:
                text = "Giving up on delivering to %s the final event of %s"
                logger.warning(text, event.endpoint, event.owner_id)
        await self._store.record_delivery(event, attempt, next_try_at=next_try_at)
