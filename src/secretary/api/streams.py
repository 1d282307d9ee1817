"""Server-sent events: a job, a batch or everything the caller may see, as it changes."""

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import Header, Request, Response
from pydantic.json_schema import SkipJsonSchema
from starlette.types import Receive, Scope, Send

from ..core.errors import NotFound, StoreUnavailable
from ..core.job import FINAL_STATUSES, Batch, Job, JobStatus
from ..core.json_codec import encode_in_parts, encode_json, is_large
from ..jobs.events import PAGE_SIZE, EventHub, Subscription, event_payload
from ..jobs.service import JobService
from ..store import Changes, JobQuery
from .auth import Caller
from .openapi import Responses, make_router
from .requests import BatchId, JobId, job_service_of

router = make_router("streams")

T = TypeVar("T")
#: What a stream sends. The first chunk, which may be empty, starts the response.
Chunks = AsyncGenerator[bytes, None]

LastEventId = Annotated[
    str | SkipJsonSchema[None],
    Header(alias="Last-Event-ID", description="The last `id` the client has seen"),
]
STREAM: Responses = {
    200: {
        "description": "Server-sent events: `event`, `id`, and `data` as JSON",
        "content": {"text/event-stream": {"schema": {}}},
    }
}
ENDING_STREAM: Responses = STREAM | {
    204: {"description": "The final event has already been received"}
}


@router.get("/jobs/{job_id}/stream", response_class=Response, responses=ENDING_STREAM)
async def stream_job(
    request: Request, job_id: JobId, user: Caller, last_event_id: LastEventId = None
) -> Response:
    """Stream the current state of a job and every change, until it finishes."""
    listener = _listener(request, user, job_id=job_id)
    return EventStream(listener.subscription, _stream_job(listener, job_id, last_event_id))


@router.get("/batches/{batch_id}/stream", response_class=Response, responses=ENDING_STREAM)
async def stream_batch(
    request: Request, batch_id: BatchId, user: Caller, last_event_id: LastEventId = None
) -> Response:
    """Stream the current state of a batch and every change to it and its jobs, until it
    finishes."""
    listener = _listener(request, user, batch_id=batch_id)
    return EventStream(listener.subscription, ChangeFeed(listener, batch_id).chunks(last_event_id))


@router.get("/events", response_class=Response, responses=ENDING_STREAM)
async def stream_events(
    request: Request, user: Caller, last_event_id: LastEventId = None
) -> Response:
    """Stream the unfinished jobs, then every change to anything the caller may see."""
    listener = _listener(request, user)
    return EventStream(listener.subscription, ChangeFeed(listener).chunks(last_event_id))


def _listener(request: Request, user: str | None, **subject: str) -> "Listener":
    hub: EventHub = request.app.state.hub
    seconds: float = request.app.state.heartbeat_seconds
    return Listener(job_service_of(request), hub.subscription(**subject), user, seconds)


# Events

#: The event name and the phase of each status.
NAMES = {
    JobStatus.PENDING: ("pending", "pending"),
    JobStatus.PROCESSING: ("progress", "running"),
    JobStatus.COMPLETED: ("completed", "completed"),
    JobStatus.FAILED: ("error", "error"),
    # Not a name of its own: clients that do not know it would take the stream for broken.
    JobStatus.CANCELLED: ("error", "error"),
}
HEARTBEAT = b": heartbeat\n\n"
#: How long a client should wait before it reconnects.
RETRY_MILLISECONDS = 2000
#: Non-ASCII characters that some clients treat as line ends, and their escapes.
LINE_ENDS = {end.encode(): f"\\u{ord(end):04x}".encode() for end in "\x85\u2028\u2029"}


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    document: dict[str, Any]


def job_event(job: Job) -> Event:
    name, phase = NAMES[job.status]
    is_final = job.status in FINAL_STATUSES
    document: dict[str, Any] = {
        "job": {"id": job.job_id},
        "process": {"id": job.job_id, "main_processor": job.job_type},
        "phase": phase,
        "message": job.progress.message or job.progress.step,
        "data": {"progress": job.progress.percent},
    }
    if is_final:
        data = event_payload(job)
        document["data"] = None if data is None else {**data, **job.ids_in_data}
    if job.error is not None and phase == "error":
        document |= {"message": job.error.message, "error": job.error.model_dump(mode="json")}
    return Event(name, document)


def job_event_id(job: Job, event: Event) -> str:
    """Identifies a state of a job: the same in every process, different after each change."""
    state = encode_in_parts([job.attempt, str(job.completed_at), event.name, event.document])
    return hashlib.blake2b(state, digest_size=9).hexdigest()


def batch_event(batch: Batch) -> Event:
    name, phase = NAMES[batch.status]
    finished = sum(batch.counts.get(status, 0) for status in FINAL_STATUSES)
    progress = 100 * finished // batch.total_jobs if batch.total_jobs else 100
    document = {
        "batch": {"id": batch.batch_id},
        "process": {"id": batch.batch_id, "main_processor": "batch"},
        "phase": phase,
        "message": f"{finished} of {batch.total_jobs} jobs have finished",
        "data": {"progress": progress, **batch.document()},
    }
    return Event(name, document)


def encode_event(event: Event, event_id: str) -> bytes:
    def encode_on_one_line(value: Any) -> bytes:
        data = encode_json(value)
        if not data.isascii():
            for line_end, escape in LINE_ENDS.items():
                data = data.replace(line_end, escape)
        return data

    head = f"id: {event_id}\nevent: {event.name}\nretry: {RETRY_MILLISECONDS}\ndata: "
    data = encode_in_parts(event.document, encode_on_one_line)
    return b"".join((head.encode("ascii"), data, b"\n\n"))


# The response


class StreamClosed(Exception):
    """The client has disconnected, or the service is shutting down."""


class EventStream(Response):
    """Sends chunks as they come, until there are no more or the client disconnects.

    An error before the first chunk is an error of the request. Without any chunk the response is
    a 204, which tells browsers not to reconnect.
    """

    def __init__(self, subscription: Subscription, chunks: Chunks) -> None:
        self.background = None
        self.raw_headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        self._subscription = subscription
        self._chunks = chunks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_chunk(body: bytes, *, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": body, "more_body": more})

        watching = asyncio.create_task(self._close_on_disconnect(receive))
        try:
            async with aclosing(self._chunks) as chunks:
                first = await anext(chunks, None)
                status = 204 if first is None else 200
                headers = self.raw_headers
                await send({"type": "http.response.start", "status": status, "headers": headers})
                if first is not None:
                    await send_chunk(first)
                    with suppress(StreamClosed):
                        async for chunk in chunks:
                            await send_chunk(chunk)
                await send_chunk(b"", more=False)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _close_on_disconnect(self, receive: Receive) -> None:
        try:
            while (await receive())["type"] != "http.disconnect":
                pass
        finally:
            self._subscription.close()


#: How long an open stream waits before it asks an unavailable store again.
STORE_RETRY_SECONDS = 1.0


@dataclass(slots=True)
class Listener:
    """A client with an open stream."""

    job_service: JobService
    subscription: Subscription
    user: str | None
    heartbeat_seconds: float
    #: The response has started, so it is too late for an error status.
    started: bool = False

    async def job(self, job_id: str) -> Job | None:
        """None if it does not exist or the client may not see it."""
        return await self.retrying(partial(self.job_service.peek, job_id, user=self.user))

    async def batch(self, batch_id: str) -> Batch | None:
        try:
            return await self.retrying(partial(self.job_service.batch, batch_id, user=self.user))
        except NotFound:
            return None

    async def retrying(self, read: Callable[[], Awaitable[T]]) -> T:
        """Call `read` until the store responds: an open stream outlives an outage of the store.
        Raises `StreamClosed` once the stream is closed."""
        while not (self.started and self.subscription.closed):
            try:
                return await read()
            except StoreUnavailable:
                if not self.started:
                    raise
                await asyncio.sleep(STORE_RETRY_SECONDS)
        raise StreamClosed


# One job


async def _stream_job(listener: Listener, job_id: str, last_event_id: str | None) -> Chunks:
    """Job events are identified by the state they show, so a client that reconnects gets only
    what it has not seen."""
    async with listener.subscription as subscription:
        job = await listener.job(job_id)
        if job is None:
            raise NotFound(f"There is no job {job_id}")
        if job.status not in FINAL_STATUSES:
            listener.started = True
            yield b""
        while job is not None:
            event_id, chunk = (
                await asyncio.to_thread(_encode_state, job)
                if is_large(job.results)
                else _encode_state(job)
            )
            if event_id != last_event_id:
                last_event_id = event_id
                yield chunk
            if job.status in FINAL_STATUSES:
                return
            del job, chunk  # free the memory while waiting
            while not await listener.subscription.wait(listener.heartbeat_seconds):
                yield HEARTBEAT
            subscription.take()
            job = await listener.job(job_id)


def _encode_state(job: Job) -> tuple[str, bytes]:
    """Return the id of the event that shows this state, and the event."""
    event = job_event(job)
    event_id = job_event_id(job, event)
    return event_id, encode_event(event, event_id)


# A batch, or everything

#: How many unfinished jobs, newest first, a stream of everything starts with.
MAX_UNFINISHED = 1000
UNFINISHED = frozenset({JobStatus.PENDING, JobStatus.PROCESSING})

#: Not a position: a client that has seen only this must start over.
START = "start"

#: The pause between two rounds, so that a job that changes quickly is sent once, and a batch not
#: for each of its jobs. Counting the jobs of a big batch takes time, so slow rounds pause longer.
MIN_ROUND_SECONDS, MAX_ROUND_SECONDS = 0.05, 1.0


class ChangeFeed:
    """Streams changes in rounds. The `id` of an event is a position in the store's change feed:
    everything up to there was sent. Only the last event of a round has its position, so a client
    that misses it gets the round again."""

    def __init__(self, listener: Listener, batch_id: str | None = None) -> None:
        self._listener = listener
        self._batch_id = batch_id
        self._finished = False

    async def chunks(self, since: str | None) -> Chunks:
        async with self._listener.subscription, aclosing(self._rounds(since)) as rounds:
            sent_up_to = since or START
            async for pending in rounds:
                if pending is None:
                    yield HEARTBEAT
                    continue
                # All events but the last get the position before the round.
                before, previous = START if pending.gap else sent_up_to, None
                async for event in self._events(pending):
                    if previous is not None:
                        yield await self._chunk(previous, before)
                    previous = event
                if previous is not None:
                    yield await self._chunk(previous, pending.position)
                sent_up_to = pending.position
                if self._finished:
                    return
                if not self._listener.started:
                    self._listener.started = True
                    # Lets the client resume from here although nothing has happened yet.
                    yield f"id: {pending.position}\n\n".encode()

    async def _chunk(self, event: Event, event_id: str) -> bytes:
        if is_large(event.document):
            chunk = await asyncio.to_thread(encode_event, event, event_id)
        else:
            chunk = encode_event(event, event_id)
        self._listener.started = True
        return chunk

    async def _rounds(self, since: str | None) -> AsyncGenerator[Changes | None, None]:
        """Changes, first those the client missed; a gap means it has to start over. None is a
        heartbeat."""
        subscription = self._listener.subscription
        position = subscription.take().position
        if since is None:
            yield Changes([], position, gap=True)
        else:
            async for missed in self._missed(since):
                position = missed.position
                yield missed
        while not subscription.closed:
            if not await subscription.wait(self._listener.heartbeat_seconds):
                yield None
            elif not subscription.closed:
                started = time.monotonic()
                pending = subscription.take()
                if not pending.gap:
                    position = pending.position
                    yield pending
                else:
                    async for missed in self._missed(position):
                        position = missed.position
                        yield missed
                pause = 4 * (time.monotonic() - started)
                await asyncio.sleep(min(MAX_ROUND_SECONDS, max(MIN_ROUND_SECONDS, pause)))

    async def _missed(self, since: str) -> AsyncIterator[Changes]:
        store = self._listener.job_service.store
        while True:
            page = await self._listener.retrying(partial(store.changes, since, limit=PAGE_SIZE))
            yield page
            since = page.position
            if not page.items:
                return

    async def _events(self, pending: Changes) -> AsyncIterator[Event]:
        listener, of_batch = self._listener, self._batch_id
        changes = [one for one in pending.items if of_batch in (None, one.batch_id)]
        if pending.gap and of_batch is None:
            query = JobQuery(status=UNFINISHED, limit=MAX_UNFINISHED)
            read = partial(listener.job_service.jobs, query, user=listener.user)
            for unfinished in reversed((await listener.retrying(read)).items):
                yield job_event(unfinished)
        for job_id in dict.fromkeys(change.job_id for change in changes):
            job = await listener.job(job_id) if job_id is not None else None
            if job is not None:
                yield job_event(job)
        batch_ids = [of_batch] if of_batch else [one.batch_id for one in changes if one.batch_id]
        for batch_id in dict.fromkeys(batch_ids):
            batch = await listener.batch(batch_id)
            if batch_id == of_batch:
                if batch is None and not listener.started:
                    raise NotFound(f"There is no batch {batch_id}")
                self._finished = batch is None or batch.completed_at is not None
            if batch is not None and (changes or pending.gap):
                yield batch_event(batch)
