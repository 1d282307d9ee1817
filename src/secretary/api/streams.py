"""The routes that tell of changes as they happen."""

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple, TypeVar

from fastapi import APIRouter, Header, Request, Response
from starlette.types import Receive, Scope, Send

from ..core.errors import NotFound, StoreUnavailable
from ..core.job import FINAL_STATUSES, Batch, Job, JobStatus
from ..core.json_codec import encode_json
from ..jobs.events import PAGE_SIZE, EventHub, PendingChanges, Subscription, event_payload
from ..jobs.service import JobService
from ..store import Change, JobQuery
from .auth import Caller
from .dependencies import job_service_of

#: The name of the event and the phase that belong to a state.
NAMES = {
    JobStatus.PENDING: ("pending", "pending"),
    JobStatus.PROCESSING: ("progress", "running"),
    JobStatus.COMPLETED: ("completed", "completed"),
    JobStatus.FAILED: ("error", "error"),
    JobStatus.CANCELLED: ("cancelled", "error"),
}


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    document: dict[str, Any]


def job_event(job: Job) -> Event:
    name, phase = NAMES[job.status]
    document: dict[str, Any] = {
        "job": {"id": job.job_id},
        "process": {"id": job.job_id, "main_processor": job.job_type},
        "phase": phase,
        "message": job.progress.message or job.progress.step,
        "data": event_payload(job)
        if job.status in FINAL_STATUSES
        else {"progress": job.progress.percent},
    }
    if job.error is not None and phase == "error":
        document |= {"message": job.error.message, "error": job.error.model_dump(mode="json")}
    return Event(name, document)


def job_event_id(job: Job, event: Event) -> str:
    """The same for the same state whatever process tells it; another one after each change."""
    state = encode_json([job.attempt, str(job.completed_at), event.name, event.document])
    return hashlib.blake2b(state, digest_size=9).hexdigest()


def batch_event(batch: Batch) -> Event:
    name, phase = NAMES[batch.status]
    ended = sum(batch.counts.get(status, 0) for status in FINAL_STATUSES)
    total = batch.total_jobs
    progress = 100 * ended // total if total else 100
    document: dict[str, Any] = {
        "batch": {"id": batch.batch_id},
        "process": {"id": batch.batch_id, "main_processor": "batch"},
        "phase": phase,
        "message": f"{ended} of {total} jobs have ended",
        "data": {"progress": progress, **batch.document()},
    }
    return Event(name, document)


HEARTBEAT = b": heartbeat\n\n"
#: How long a client should wait before it connects again.
RETRY_MILLISECONDS = 2000
#: Characters beside those of ASCII at which some clients end a line: U+0085, U+2028, U+2029.
LINE_ENDS = (b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9")

#: What a stream sends. The first piece, which may be empty, says that there is a stream at all.
Pieces = AsyncGenerator[bytes, None]


def encoded(event: Event, event_id: str) -> bytes:
    head = f"id: {event_id}\nevent: {event.name}\nretry: {RETRY_MILLISECONDS}\ndata: "
    return b"%b%b\n\n" % (head.encode("ascii"), _on_one_line(event.document))


def _on_one_line(document: dict[str, Any]) -> bytes:
    data = encode_json(document)
    if any(mark in data for mark in LINE_ENDS):
        return json.dumps(document, separators=(",", ":")).encode("ascii")
    return data


class NobodyListens(Exception):
    """The client has gone, or the service stops."""


class EventStream(Response):
    """Sends pieces as they come, until there are no more or the client has gone.

    An error before the first piece is an error of the request. Without any piece the answer
    is a 204: it tells a browser, which else comes back for ever, that it was all.
    """

    def __init__(self, subscription: Subscription, pieces: Pieces) -> None:
        self.background = None
        self.raw_headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        self._subscription = subscription
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watching = asyncio.create_task(self._notice_departure(receive))
        try:
            async with aclosing(self._pieces) as pieces:
                first = await anext(pieces, None)
                status = 204 if first is None else 200
                headers = self.raw_headers
                await send({"type": "http.response.start", "status": status, "headers": headers})
                if first is not None:
                    await _send(send, first)
                    with suppress(NobodyListens):
                        async for piece in pieces:
                            await _send(send, piece)
                await _send(send, b"", more=False)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _notice_departure(self, receive: Receive) -> None:
        try:
            while (await receive())["type"] != "http.disconnect":
                pass
        finally:
            self._subscription.close()


async def _send(send: Send, body: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


T = TypeVar("T")

#: A stream outlives a store that is away: it asks again after so long.
WATCHDOG_TIMEOUT = 1.0


@dataclass(slots=True)
class Listener:
    """A client with an open stream."""

    job_service: JobService
    subscription: Subscription
    user: str | None
    heartbeat_seconds: float
    #: The answer has begun, so it is too late for an error.
    started: bool = False

    async def is_news(self) -> bool:
        """Wait for news; False: it is time for a heartbeat."""
        return await self.subscription.wait(self.heartbeat_seconds)

    async def job(self, job_id: str) -> Job | None:
        """None when there is none, or none that the client may see."""
        return await self.patiently(partial(self.job_service.peek, job_id, user=self.user))

    async def batch(self, batch_id: str) -> Batch | None:
        return await self.patiently(partial(self.job_service.peek_batch, batch_id, user=self.user))

    async def patiently(self, read: Callable[[], Awaitable[T]]) -> T:
        """What `read` gives, sooner or later. A stream that has begun does not break off because
        the store is away; `NobodyListens` when it is closed."""
        while not (self.started and self.subscription.closed):
            try:
                return await read()
            except StoreUnavailable:
                if not self.started:
                    raise
                await asyncio.sleep(WATCHDOG_TIMEOUT)
        raise NobodyListens


#: A stream of everything begins with so many of the jobs that have not ended, the newest.
MAX_UNENDED = 1000
UNENDED = frozenset({JobStatus.PENDING, JobStatus.PROCESSING})

#: No position at all: who has seen only this must begin anew.
START = "start"

#: Between two rounds: a job that changes quickly is told once, a batch not for each of its jobs.
#: It takes some time to count the jobs of a big batch; no stream shall keep the store busy.
ROUND_SECONDS, LONGEST_ROUND_SECONDS = 0.05, 1.0


class Feed:
    """The `id` of its events is a position in the store's feed of changes: all up to there was
    told. Only the last event of a round has its position; who misses it gets the round again."""

    def __init__(self, listener: Listener, batch_id: str | None = None) -> None:
        self._listener = listener
        self._batch_id = batch_id
        self._over = False

    async def pieces(self, since: str | None) -> Pieces:
        async with self._listener.subscription, aclosing(self._rounds(since)) as rounds:
            told = since or START
            async for taken in rounds:
                if taken is None:
                    yield HEARTBEAT
                    continue
                before = START if taken.lost else told
                async for piece in _numbered(self._events(taken), before, taken.position):
                    self._listener.started = True
                    yield piece
                told = taken.position
                if self._over:
                    return
                if not self._listener.started:
                    self._listener.started = True
                    # So that a client can come back to here, although nothing has happened yet.
                    yield f"id: {taken.position}\n\n".encode()

    async def _rounds(self, since: str | None) -> AsyncGenerator[PendingChanges | None, None]:
        """What has changed, again and again; None is a heartbeat. First what the client missed,
        or that all is new to it."""
        subscription = self._listener.subscription
        position = subscription.take().position
        if since is None:
            yield PendingChanges([], position, lost=True)
        else:
            async for missed in self._missed(since):
                position = missed.position
                yield missed
        while not subscription.closed:
            if not await self._listener.is_news():
                yield None
            elif not subscription.closed:
                started = time.monotonic()
                async for taken in self._taken(position):
                    position = taken.position
                    yield taken
                await asyncio.sleep(_pause(time.monotonic() - started))

    async def _taken(self, position: str) -> AsyncIterator[PendingChanges]:
        taken = self._listener.subscription.take()
        if not taken.lost:
            yield taken
            return
        async for missed in self._missed(position):
            yield missed

    async def _missed(self, since: str) -> AsyncIterator[PendingChanges]:
        store = self._listener.job_service.store
        while True:
            found = await self._listener.patiently(partial(store.changes, since, limit=PAGE_SIZE))
            yield PendingChanges(found.items, found.position, lost=found.gap)
            since = found.position
            if not found.items:
                return

    async def _events(self, taken: PendingChanges) -> AsyncIterator[Event]:
        mine = [change for change in taken.changes if self._concerns(change)]
        if taken.lost and self._batch_id is None:
            async for event in self._unended():
                yield event
        for job_id in dict.fromkeys(change.job_id for change in mine):
            job = await self._listener.job(job_id) if job_id is not None else None
            if job is not None:
                yield job_event(job)
        for batch_id in self._batches(mine):
            batch = await self._listener.batch(batch_id)
            if batch_id == self._batch_id:
                self._judge(batch)
            if batch is not None and (mine or taken.lost):
                yield batch_event(batch)

    def _concerns(self, change: Change) -> bool:
        return self._batch_id is None or change.batch_id == self._batch_id

    def _batches(self, changes: Iterable[Change]) -> list[str]:
        if self._batch_id is not None:
            return [self._batch_id]
        return list(dict.fromkeys(change.batch_id for change in changes if change.batch_id))

    def _judge(self, batch: Batch | None) -> None:
        if batch is None and not self._listener.started:
            raise NotFound(f"There is no batch {self._batch_id}")
        self._over = batch is None or batch.completed_at is not None

    async def _unended(self) -> AsyncIterator[Event]:
        query = JobQuery(status=UNENDED, limit=MAX_UNENDED)
        jobs = partial(self._listener.job_service.jobs, query, user=self._listener.user)
        page = await self._listener.patiently(jobs)
        for job in reversed(page.items):
            yield job_event(job)


def _pause(round_took: float) -> float:
    return min(LONGEST_ROUND_SECONDS, max(ROUND_SECONDS, 4 * round_took))


async def _numbered(events: AsyncIterator[Event], before: str, position: str) -> Pieces:
    """All but the last get the position before them."""
    held_back: Event | None = None
    async for event in events:
        if held_back is not None:
            yield encoded(held_back, before)
        held_back = event
    if held_back is not None:
        yield encoded(held_back, position)


router = APIRouter(prefix="/api", tags=["streams"])

LastEventId = Annotated[
    str | None,
    Header(alias="Last-Event-ID", description="The last `id` that the client has seen"),
]


@router.get("/jobs/{job_id}/stream")
async def stream_job(
    request: Request, job_id: str, user: Caller, seen: LastEventId = None
) -> Response:
    """A job as it is now and each change of it, until it has ended."""
    listener = _listener(request, user, job_id=job_id)
    return EventStream(listener.subscription, job_pieces(listener, job_id, seen))


@router.get("/batches/{batch_id}/stream")
async def stream_batch(
    request: Request, batch_id: str, user: Caller, seen: LastEventId = None
) -> Response:
    """A batch as it is now, each change of its jobs and of itself, until it has ended."""
    listener = _listener(request, user, batch_id=batch_id)
    return EventStream(listener.subscription, Feed(listener, batch_id).pieces(seen))


@router.get("/events")
async def stream_events(request: Request, user: Caller, seen: LastEventId = None) -> Response:
    """The jobs that have not ended, then each change of anything that the caller may see."""
    listener = _listener(request, user)
    return EventStream(listener.subscription, Feed(listener).pieces(seen))


def _listener(request: Request, user: str | None, **subject: str) -> Listener:
    state = request.app.state
    hub: EventHub = state.hub
    return Listener(
        job_service_of(request), hub.subscription(**subject), user, state.heartbeat_seconds
    )


async def job_pieces(listener: Listener, job_id: str, seen: str | None) -> Pieces:
    async with listener.subscription as subscription:
        state = await _state(listener, job_id)
        if state is None:
            raise NotFound(f"There is no job {job_id}")
        if not state.final:
            listener.started = True
            yield b""
        while state is not None:
            if state.event_id != seen:
                seen = state.event_id
                yield state.piece
            if state.final:
                return
            state = None  # a stream that waits holds no job
            while not await listener.is_news():
                yield HEARTBEAT
            subscription.take()
            state = await _state(listener, job_id)


class State(NamedTuple):
    """A job as a stream tells it."""

    event_id: str
    piece: bytes
    final: bool


async def _state(listener: Listener, job_id: str) -> State | None:
    job = await listener.job(job_id)
    if job is None:
        return None
    event = job_event(job)
    event_id = job_event_id(job, event)
    return State(event_id, encoded(event, event_id), job.status in FINAL_STATUSES)
