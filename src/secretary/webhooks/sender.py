"""Sends the events that are due: as many at once as the receivers and the limits allow."""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

import httpx

from ..core.errors import NotFound, StoreUnavailable
from ..core.job import FINAL_STATUSES, Batch, DeliveryAttempt, Job, Webhook, utc_now
from ..network.client import Network
from ..storage.artifacts import JobFiles
from ..store import JobStore
from ..store.outbox import DueEvent, EventCapacity, Pace, succeeded
from .payload import phase_of
from .request import GONE, Answer, post, write
from .retry_policy import BreakerOptions, Breakers, Schedule

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderOptions:
    in_flight: int = 64
    per_endpoint: int = 8
    timeout: timedelta = timedelta(seconds=30)
    #: Progress is no longer of interest so soon, and the end of the job may be waiting behind it.
    progress_timeout: timedelta = timedelta(seconds=10)
    schedule: Schedule = field(default_factory=Schedule)
    breaker: BreakerOptions = field(default_factory=BreakerOptions)
    progress_every: timedelta = timedelta(seconds=1)
    progress_step: int = 5
    heartbeat: timedelta = timedelta(seconds=60)
    poll_every: timedelta = timedelta(seconds=1)
    #: After a sender died, its events are sent by another when this time is over.
    lease: timedelta = timedelta(seconds=10)
    #: What is on its way when the sender stops gets so long to arrive.
    grace: timedelta = timedelta(seconds=5)


@dataclass(slots=True)
class _Sending:
    event: DueEvent
    held_at: float = field(default_factory=time.monotonic)
    #: The request, while there is one.
    request: asyncio.Task[Answer] | None = None


class Sender:
    """Any number of processes may send: each event is held by one of them at a time."""

    def __init__(
        self,
        store: JobStore,
        network: Network,
        files: JobFiles,
        options: SenderOptions,
    ) -> None:
        #: Called after each try, with the event and whether it was delivered: for who counts them.
        self.told: Callable[[str, bool], None] = lambda event, delivered: None
        self._store = store
        self._network = network
        self._files = files
        self._options = options
        self._breakers = Breakers(options.breaker)
        self._sending: dict[str, _Sending] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()
        self._stopping = asyncio.Event()

    def poke(self, ended: str | None = None) -> None:
        """There may be something to send. When a job has ended, its progress is old news."""
        sending = self._sending.get(ended) if ended is not None else None
        if sending is not None and sending.event.delivery.event == "progress" and sending.request:
            sending.request.cancel()
        self._news.set()

    def stop(self) -> None:
        """Send what is due now, then end; the rest is for others, or for later."""
        self._stopping.set()
        self._news.set()

    async def run(self) -> None:
        async with self._network.client(timeout=self._options.timeout.total_seconds()) as client:
            try:
                while not self._stopping.is_set():
                    self._news.clear()
                    if not await self._send_due(client):
                        await self._wait_for_news()
                await self._send_due(client)
                await self._wait_for_tasks()
            finally:
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _wait_for_news(self) -> None:
        # Not all processes at the same moment.
        seconds = self._options.poll_every.total_seconds() * random.uniform(0.8, 1.2)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    async def _wait_for_tasks(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._options.grace.total_seconds())

    async def _send_due(self, client: httpx.AsyncClient) -> bool:
        """Start to send what is due; says whether there was anything."""
        try:
            await self._keep_holding()
            events = await self._take()
        except StoreUnavailable as error:
            logger.error("Cannot look for events to send, will try again: %s", error)
            return False
        except Exception:
            logger.exception("Looking for events to send broke, will try again")
            return False
        for event in events:
            if event.owner_id in self._sending:
                continue  # its lease lapsed while the store was away; one of them is enough
            sending = self._sending[event.owner_id] = _Sending(event)
            task = asyncio.create_task(self._send(client, sending), name=event.owner_id)
            self._tasks.add(task)
            task.add_done_callback(partial(self._sent, event))
        return bool(events)

    async def _keep_holding(self) -> None:
        lease = self._options.lease.total_seconds()
        now = time.monotonic()
        held = [one for one in self._sending.values() if not self._is_old_news(one)]
        slow = [one for one in held if now - one.held_at > lease / 3]
        if slow:
            await self._store.hold_events([one.event for one in slow], self._options.lease)
            for one in slow:
                one.held_at = now

    def _is_old_news(self, sending: _Sending) -> bool:
        """Progress that is not held any more, because this process was stopped for a while:
        another may have told meanwhile that the job ended. An end is never old."""
        silent = time.monotonic() - sending.held_at
        is_held = silent < self._options.lease.total_seconds()
        return sending.event.delivery.event == "progress" and not is_held

    async def _take(self) -> list[DueEvent]:
        options = self._options
        limit = options.in_flight - len(self._sending)
        if limit <= 0:
            return []
        busy = Counter(one.event.endpoint for one in self._sending.values())
        for endpoint in self._breakers.failing:
            allowed = self._breakers.allowed(endpoint, options.per_endpoint)
            busy[endpoint] += options.per_endpoint - allowed
        wanted = EventCapacity(
            limit=limit, per_endpoint=options.per_endpoint, busy=busy, lease=options.lease
        )
        return await self._store.take_events(wanted)

    def _sent(self, event: DueEvent, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._sending.pop(event.owner_id, None)
        self._news.set()  # there is room for another

    async def _send(self, client: httpx.AsyncClient, sending: _Sending) -> None:
        """Whatever happens here must not end the sender; what is not recorded is sent again."""
        event = sending.event
        try:
            await self._tell(client, sending)
        except NotFound:
            pass  # it was deleted, and its events with it
        except StoreUnavailable as error:
            logger.error("Cannot record an event of %s: %s", event.owner_id, error)
        except Exception:
            logger.exception("Sending an event of %s broke", event.owner_id)
            with suppress(StoreUnavailable):
                await self._record_broken(event)

    async def _record_broken(self, event: DueEvent) -> None:
        tried = DeliveryAttempt(at=utc_now(), error="internal error", duration_ms=0)
        if event.delivery.event == "progress":
            await self._store.pace_event(event, tried, None)
        else:
            await self._record(event, tried, retry_after=None)

    async def _tell(self, client: httpx.AsyncClient, sending: _Sending) -> None:
        event = sending.event
        owner = await self._owner(event)
        is_end = event.delivery.event != "progress"
        webhook = owner.webhook
        wanted = webhook is not None and (is_end or webhook.wants(phase_of(owner)))
        if webhook is None or not wanted or is_end != (owner.status in FINAL_STATUSES):
            # Things have moved on since it was taken.
            await self._store.pace_event(event, None, self._pace(owner))
            return
        answer = await self._request(client, sending, owner, webhook)
        if answer is None:
            await self._store.pace_event(event, None, self._pace(owner))
            return
        self.told(event.delivery.event, succeeded(answer.tried))
        pause = self._judge(event.endpoint, answer)
        if is_end:
            await self._record(event, answer.tried, retry_after=answer.retry_after)
        else:
            pace = None if answer.tried.status == GONE else self._pace(owner)
            await self._store.pace_event(event, answer.tried, pace)
        if pause is not None:
            logger.warning("%s fails again and again; a pause of %s", event.endpoint, pause)
            await self._store.postpone_events(event.endpoint, utc_now() + pause)

    async def _owner(self, event: DueEvent) -> Job | Batch:
        if event.kind == "job":
            return await self._store.get(event.owner_id)
        return await self._store.get_batch(event.owner_id)

    def _pace(self, owner: Job | Batch) -> Pace | None:
        if isinstance(owner, Batch) or owner.webhook is None or not owner.webhook.wants_progress:
            return None
        now = utc_now()
        percent = owner.progress.percent
        return Pace(
            told_percent=percent,
            ripe_percent=percent + self._options.progress_step,
            ripe_at=now + self._options.progress_every,
            due_at=now + self._options.heartbeat,
        )

    async def _request(
        self, client: httpx.AsyncClient, sending: _Sending, owner: Job | Batch, webhook: Webhook
    ) -> Answer | None:
        """The answer; None when the request was given up because its job ended, or may have."""
        event = sending.event
        is_end = event.delivery.event != "progress"
        letter = await write(event, owner, webhook, self._files)
        limit = self._options.timeout if is_end else self._options.progress_timeout
        if self._is_old_news(sending):
            return None
        request = sending.request = asyncio.create_task(
            post(client, self._network, letter, limit=limit)
        )
        try:
            await asyncio.wait({request})
        finally:
            request.cancel()
        return None if request.cancelled() else request.result()

    def _judge(self, endpoint: str, answer: Answer) -> timedelta | None:
        """The pause that the endpoint needs now, if it does."""
        if answer.is_alive:
            self._breakers.succeeded(endpoint)
            return None
        return self._breakers.failed(endpoint)

    async def _record(
        self, event: DueEvent, tried: DeliveryAttempt, *, retry_after: timedelta | None
    ) -> None:
        delivery = event.delivery
        next_try_at = None
        if not succeeded(tried) and tried.status != GONE:
            next_try_at = self._options.schedule.next_try(
                delivery.tried + 1,
                since=delivery.replayed_at or delivery.created_at,
                now=utc_now(),
                retry_after=retry_after,
            )
            if next_try_at is None:
                logger.warning("Gave up telling %s how %s ended", event.endpoint, event.owner_id)
        await self._store.settle_event(event, tried, next_try_at=next_try_at)
