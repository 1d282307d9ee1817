"""What the streams share: who listens, waiting for news, and patience with the store."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from ..desk import Desk
from ..errors import StoreUnavailable
from ..events import Subscription
from ..job import Batch, Job
from .sse import NobodyListens

T = TypeVar("T")

#: A stream outlives a store that is away: it asks again after so long.
PATIENCE_SECONDS = 1.0


@dataclass(slots=True)
class Listener:
    """A client with an open stream."""

    desk: Desk
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
        return await self.patiently(partial(self.desk.glance, job_id, user=self.user))

    async def batch(self, batch_id: str) -> Batch | None:
        return await self.patiently(partial(self.desk.glance_at_batch, batch_id, user=self.user))

    async def patiently(self, read: Callable[[], Awaitable[T]]) -> T:
        """What `read` gives, sooner or later. A stream that has begun does not break off because
        the store is away; `NobodyListens` when it is closed."""
        while not (self.started and self.subscription.closed):
            try:
                return await read()
            except StoreUnavailable:
                if not self.started:
                    raise
                await asyncio.sleep(PATIENCE_SECONDS)
        raise NobodyListens
