"""Delivers due webhook events concurrently, with retries and a circuit breaker per URL."""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

import httpx

from ..core.errors import NotFound, StoreUnavailable
from ..core.job import FINAL_STATUSES, Batch, DeliveryAttempt, Job, Webhook, utc_now
from ..network.client import Network
from ..storage.artifacts import JobFiles
from ..store import BatchStore, JobStore, OutboxStore
from ..store.outbox import DueEvent, EventCapacity, EventQuota, ProgressSchedule, succeeded
from .request import GONE, DeliveryResult, build_request, phase_of, post
from .retries import BreakerOptions, CircuitBreakers, RetrySchedule

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT = 10.0
#: The share of the heartbeat after which progress is reported again if it was not delivered.
UNDELIVERED_SHARE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryLimits:
    """Limits for requests in flight, and for the time that a receiver may take to respond."""

    in_flight: int
    per_host: int
    per_endpoint: int
    timeout: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderOptions:
    #: Receivers do their own work before they respond to a final event, and call the API for it.
    finals: DeliveryLimits = DeliveryLimits(
        in_flight=512, per_host=128, per_endpoint=64, timeout=timedelta(minutes=10)
    )
    #: Shorter: progress is soon outdated, and the final event may be waiting behind it.
    progress: DeliveryLimits = DeliveryLimits(
        in_flight=64, per_host=16, per_endpoint=8, timeout=timedelta(seconds=30)
    )
    #: A receiver that takes longer than this for a final event is processing it.
    slow_after: timedelta = timedelta(seconds=10)
    #: How long progress in flight may take after its job has ended.
    progress_grace: timedelta = timedelta(seconds=2)
    schedule: RetrySchedule = field(default_factory=RetrySchedule)
    breaker: BreakerOptions = field(default_factory=BreakerOptions)
    progress_every: timedelta = timedelta(seconds=1)
    progress_step: int = 5
    #: Less than the minute that clients are promised: polling and sending take time too.
    heartbeat: timedelta = timedelta(seconds=50)
    poll_every: timedelta = timedelta(seconds=1)
    #: How long a sender owns an event; after its death another sender takes over.
    lease: timedelta = timedelta(seconds=10)
    #: How long requests in flight may take to complete at shutdown.
    grace: timedelta = timedelta(seconds=5)


@dataclass(slots=True)
class _Delivery:
    event: DueEvent
    lease: timedelta
    leased_at: float = field(default_factory=time.monotonic)
    #: The request in flight, if any, and since when.
    request: asyncio.Task[DeliveryResult] | None = None
    sent_at: float = 0.0
    #: Held while the lease is renewed or released: each needs the lease as the store knows it.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class _Channel:
    """Final events and progress have limits, circuit breakers and connections of their own: an
    endpoint that is slow with the one still gets the other."""

    limits: DeliveryLimits
    breakers: CircuitBreakers
    client: httpx.AsyncClient

    def quota(self, in_flight: Counter[str]) -> EventQuota:
        limits, breakers = self.limits, self.breakers
        return EventQuota(
            limit=limits.in_flight,
            per_endpoint=limits.per_endpoint,
            per_host=limits.per_host,
            in_flight=in_flight,
            reduced={key: breakers.allowed(key, limits.per_host) for key in breakers.failing},
        )

    def responded(self, event: DueEvent, result: DeliveryResult) -> tuple[str, timedelta] | None:
        """Record a request for the circuit breakers. If it starts a pause: of which endpoint or
        host, and how long. Only a host that cannot be reached is paused as a whole."""
        status = result.attempt.status
        if result.connected:
            self.breakers.succeeded(event.host)
        if result.processed or (status is not None and status < 500):
            self.breakers.succeeded(event.endpoint)  # it may have rejected this request
            return None
        target = event.endpoint if result.connected else event.host
        pause = self.breakers.failed(target)
        return (target, pause) if pause is not None else None


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
        self._finals: _Channel
        self._progress: _Channel
        self._sending: dict[str, _Delivery] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._wakeup = asyncio.Event()
        self._stopping = asyncio.Event()

    def wake(self, ended: str | None = None) -> None:
        """Look for due events now. Progress of a job that has `ended` gets a moment to arrive, so
        that the final event does not overtake it, and is then abandoned."""
        sending = self._sending.get(ended) if ended is not None else None
        if sending is not None and not sending.event.is_final and sending.request:
            seconds = self._options.progress_grace.total_seconds()
            asyncio.get_running_loop().call_later(seconds, sending.request.cancel)
        self._wakeup.set()

    def stop(self) -> None:
        """Send what is due now, then stop; the rest stays in the outbox."""
        self._stopping.set()
        self._wakeup.set()

    async def run(self) -> None:
        async with (
            self._open_channel(self._options.finals) as self._finals,
            self._open_channel(self._options.progress) as self._progress,
        ):
            try:
                while not self._stopping.is_set():
                    self._wakeup.clear()
                    if not await self._send_due():
                        # Jittered, so that processes do not poll at the same moment.
                        seconds = self._options.poll_every.total_seconds()
                        with suppress(TimeoutError):
                            async with asyncio.timeout(seconds * random.uniform(0.8, 1.2)):
                                await self._wakeup.wait()
                await self._send_due()
                if self._tasks:
                    await asyncio.wait(self._tasks, timeout=self._options.grace.total_seconds())
                with suppress(StoreUnavailable):
                    finals = [one for one in self._sending.values() if one.event.is_final]
                    await self._renew(finals, self._options.schedule.late_wait)
            finally:
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)

    @asynccontextmanager
    async def _open_channel(self, limits: DeliveryLimits) -> AsyncIterator[_Channel]:
        timeout = httpx.Timeout(limits.timeout.total_seconds(), connect=CONNECT_TIMEOUT)
        # Without keep-alive: a receiver that closes an idle connection just as it is used again
        # looks like one that fails while it processes the event.
        connections = httpx.Limits(max_connections=limits.in_flight, max_keepalive_connections=0)
        async with self._network.client(timeout=timeout, limits=connections) as client:
            yield _Channel(limits, CircuitBreakers(self._options.breaker), client)

    async def _send_due(self) -> bool:
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
            if (same := self._sending.get(event.owner_id)) is not None:
                # Leased again after a store outage; already being sent.
                if same.event.delivery.delivery_id == event.delivery.delivery_id:
                    same.event = event
                continue
            sending = self._sending[event.owner_id] = _Delivery(event, self._options.lease)
            task = asyncio.create_task(self._send(sending), name=event.owner_id)
            self._tasks.add(task)
            task.add_done_callback(self._sent)
        return bool(events)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._sending.pop(task.get_name(), None)
        self._wakeup.set()  # a slot is free

    async def _take(self) -> list[DueEvent]:
        in_flight: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
        for one in self._sending.values():
            in_flight[one.event.is_final][one.event.queue] += 1
        finals, progress = (
            self._finals.quota(in_flight[True]),
            self._progress.quota(in_flight[False]),
        )
        if finals.is_full and progress.is_full:
            return []
        lease = self._options.lease
        return await self._store.claim_events(
            EventCapacity(finals=finals, progress=progress, lease=lease)
        )

    async def _extend_leases(self) -> None:
        """Progress whose lease was lost is abandoned: another sender may be delivering the final
        event. A final event that a receiver is processing is leased for so long that nobody sends
        it again soon, even if this process dies."""
        now, short, long = time.monotonic(), self._options.lease, self._options.schedule.late_wait
        due: dict[timedelta, list[_Delivery]] = {short: [], long: []}
        for one in self._sending.values():
            lease = long if self._is_processed(one) else short
            is_old = one.lease != lease or now - one.leased_at > lease.total_seconds() / 3
            if is_old and not self._is_stale(one):
                due[lease].append(one)
        for lease, deliveries in due.items():
            for one in await self._renew(deliveries, lease):
                if not one.event.is_final and one.request is not None:
                    one.request.cancel()

    async def _renew(self, sending: list[_Delivery], lease: timedelta) -> list[_Delivery]:
        """Extend leases; returns the deliveries whose lease was lost."""
        sending = [one for one in sending if not one.lock.locked()]  # not those that just end
        if not sending:
            return []
        now = time.monotonic()
        async with AsyncExitStack() as locks:
            for one in sending:
                await locks.enter_async_context(one.lock)
            events = await self._store.renew_events([one.event for one in sending], lease)
            renewed = {event.owner_id: event for event in events}
            for one in sending:
                if one.event.owner_id in renewed:
                    one.event = renewed[one.event.owner_id]
                    one.lease, one.leased_at = lease, now
        return [one for one in sending if one.event.owner_id not in renewed]

    def _is_processed(self, sending: _Delivery) -> bool:
        """Whether a receiver has taken so long for a final event that it must be processing it."""
        slow = time.monotonic() - sending.sent_at > self._options.slow_after.total_seconds()
        return sending.event.is_final and sending.request is not None and slow

    def _is_stale(self, sending: _Delivery) -> bool:
        """Whether the lease of a progress event lapsed, say because this process was suspended:
        another sender may have delivered the final event meanwhile. Final events never go stale."""
        is_leased = time.monotonic() - sending.leased_at < self._options.lease.total_seconds()
        return not sending.event.is_final and not is_leased

    async def _send(self, sending: _Delivery) -> None:
        """Errors must not stop the sender; an event without a recorded outcome is sent again."""
        try:
            await self._deliver(sending)
        except NotFound:
            pass  # deleted meanwhile, with its events
        except StoreUnavailable as error:
            owner_id = sending.event.owner_id
            logger.error("Could not record a webhook event of %s: %s", owner_id, error)
        except Exception:
            event = sending.event
            logger.exception("Unexpected error while sending a webhook event of %s", event.owner_id)
            attempt = DeliveryAttempt(at=utc_now(), error="internal error", duration_ms=0)
            with suppress(StoreUnavailable):
                if event.is_final:
                    await self._record(event, DeliveryResult(attempt))
                else:
                    await self._store.record_progress(event, attempt, None)

    async def _deliver(self, sending: _Delivery) -> None:
        event, store, result = sending.event, self._store, None
        is_job = event.kind == "job"
        owner = await (store.get(event.owner_id) if is_job else store.get_batch(event.owner_id))
        webhook = owner.webhook
        wanted = webhook is not None and webhook.wants(phase_of(owner))
        has_ended = owner.status in FINAL_STATUSES and owner.completed_at is not None
        is_current = event.is_final == has_ended
        if event.is_final and is_current and not wanted:  # another job reports to this webhook now
            await store.record_delivery(event, None)
            return
        if event.is_final and not is_current:  # withdrawn since, or not committed yet
            later = utc_now() + self._options.poll_every
            await store.record_delivery(event, None, next_try_at=later)
            return
        if webhook is not None and wanted and is_current:
            result = await self._request(sending, owner, webhook)
        async with sending.lock:
            await self._release(sending.event, owner, result)

    async def _release(
        self, event: DueEvent, owner: Job | Batch, result: DeliveryResult | None
    ) -> None:
        """Record how the delivery went and when the next one is due."""
        store = self._store
        if result is None:  # the job has moved on since the event was leased
            await store.record_progress(event, None, self._progress_schedule(owner))
            return
        self.on_attempt(event.delivery.event, succeeded(result.attempt))
        pause = (self._finals if event.is_final else self._progress).responded(event, result)
        if event.is_final:
            await self._record(event, result)
        else:
            gone = result.attempt.status == GONE
            pace = None if gone else self._progress_schedule(owner, result.attempt)
            await store.record_progress(event, result.attempt, pace)
        if pause is not None:
            target, duration = pause
            what = "final events" if event.is_final else "progress"
            text = "A webhook of %s keeps failing; pausing its %s for %s"
            # The host only: a path may contain a token.
            logger.warning(text, event.host, what, duration)
            await store.postpone_events(target, utc_now() + duration, final=event.is_final)

    def _progress_schedule(
        self, owner: Job | Batch, tried: DeliveryAttempt | None = None
    ) -> ProgressSchedule | None:
        if isinstance(owner, Batch) or owner.webhook is None or not owner.webhook.wants_progress:
            return None
        now = utc_now()
        percent = owner.progress.percent
        return ProgressSchedule(
            sent_percent=percent,
            early_percent=percent + self._options.progress_step,
            early_at=now + self._options.progress_every,
            due_at=self._next_heartbeat(tried, now),
        )

    def _next_heartbeat(self, tried: DeliveryAttempt | None, now: datetime) -> datetime:
        """Counted from when the last event was sent. One that did not arrive was none: the
        receiver must not be without news for longer because of it."""
        heartbeat = self._options.heartbeat
        if tried is None or succeeded(tried):
            return max(now, (tried.at if tried else now) + heartbeat)
        return now + heartbeat * UNDELIVERED_SHARE

    async def _request(
        self, sending: _Delivery, owner: Job | Batch, webhook: Webhook
    ) -> DeliveryResult | None:
        """Returns None if the request was abandoned because its job has ended, or may have."""
        event = sending.event
        channel = self._finals if event.is_final else self._progress
        outgoing = await build_request(event, owner, webhook, self._files)
        if self._is_stale(sending):
            return None
        limit = channel.limits.timeout
        sending.sent_at = time.monotonic()
        request = sending.request = asyncio.create_task(
            post(channel.client, self._network, outgoing, limit=limit)
        )
        try:
            await asyncio.wait({request})
        finally:
            request.cancel()
        return None if request.cancelled() else request.result()

    async def _record(self, event: DueEvent, result: DeliveryResult) -> None:
        delivery, attempt, schedule = event.delivery, result.attempt, self._options.schedule
        next_try_at = None
        if not (succeeded(attempt) or attempt.status == GONE or result.processed):
            duration = timedelta(milliseconds=attempt.duration_ms)
            uncertain = result.sent and duration >= self._options.slow_after
            next_try_at = schedule.next_attempt(
                delivery.tried + 1,
                since=delivery.replayed_at or delivery.created_at,
                now=utc_now(),
                at_least=result.retry_after or (schedule.late_wait if uncertain else None),
            )
            if next_try_at is None:
                text = "Giving up on delivering to %s the final event of %s"
                logger.warning(text, event.host, event.owner_id)
        await self._store.record_delivery(event, attempt, next_try_at=next_try_at)
