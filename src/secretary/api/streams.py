"""The routes that tell of changes as they happen."""

from typing import Annotated, NamedTuple

from fastapi import APIRouter, Header, Request, Response

from ..errors import NotFound
from ..events import Hub
from ..job import FINAL
from .access import Caller
from .asked import desk_of
from .events import job_event, job_event_id
from .feeds import Feed
from .listening import Listener
from .sse import HEARTBEAT, EventStream, Pieces, encoded

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
    hub: Hub = state.hub
    return Listener(desk_of(request), hub.subscription(**subject), user, state.heartbeat_seconds)


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
    return State(event_id, encoded(event, event_id), job.status in FINAL)
