"""The streams that tell of many jobs: those of a batch, or all that the client may see."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing
from functools import partial

from ..errors import NotFound
from ..events import PAGE, Taken
from ..job import Batch, JobStatus
from ..store import Change, JobQuery
from .events import Event, batch_event, job_event
from .listening import Listener
from .sse import HEARTBEAT, Pieces, encoded

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

    async def _rounds(self, since: str | None) -> AsyncGenerator[Taken | None, None]:
        """What has changed, again and again; None is a heartbeat. First what the client missed,
        or that all is new to it."""
        subscription = self._listener.subscription
        position = subscription.take().position
        if since is None:
            yield Taken([], position, lost=True)
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

    async def _taken(self, position: str) -> AsyncIterator[Taken]:
        taken = self._listener.subscription.take()
        if not taken.lost:
            yield taken
            return
        async for missed in self._missed(position):
            yield missed

    async def _missed(self, since: str) -> AsyncIterator[Taken]:
        store = self._listener.desk.store
        while True:
            found = await self._listener.patiently(partial(store.changes, since, limit=PAGE))
            yield Taken(found.items, found.position, lost=found.gap)
            since = found.position
            if not found.items:
                return

    async def _events(self, taken: Taken) -> AsyncIterator[Event]:
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
        jobs = partial(self._listener.desk.jobs, query, user=self._listener.user)
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
