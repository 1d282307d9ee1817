"""What a store owes the sender of webhooks: which events are due, and what became of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, Protocol

from ..core.job import Delivery, DeliveryAttempt, utc_now

#: A job that is still open so long after it was added is told of for the first time.
FIRST_SIGN = timedelta(seconds=1)
#: Until a sender says otherwise, progress is worth an event from here on.
FIRST_PERCENT = 5


@dataclass(frozen=True, slots=True)
class DueEvent:
    """Something that a sender holds now and must tell: that a job or batch ended, or, when the
    delivery is a `progress`, how its job is doing."""

    kind: Literal["job", "batch"]
    owner_id: str
    endpoint: str
    delivery: Delivery


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCapacity:
    """What a sender can take on now. It holds what it takes until the lease lapses: the events
    of a sender that died are given to another."""

    limit: int
    per_endpoint: int
    #: How much of `per_endpoint` is used up already.
    busy: Mapping[str, int] = field(default_factory=dict)
    lease: timedelta

    def room(self, endpoint: str) -> int:
        return self.per_endpoint - self.busy.get(endpoint, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """When a job's progress is told next: at `due_at`; but once it has come to `ripe_percent`,
    or fallen below what was told because it is tried again, at `ripe_at`."""

    told_percent: int
    ripe_percent: int
    ripe_at: datetime
    due_at: datetime


def first_pace() -> Pace:
    """Of a job that is new, or open again."""
    first = utc_now() + FIRST_SIGN
    return Pace(told_percent=0, ripe_percent=FIRST_PERCENT, ripe_at=first, due_at=first)


class Outbox(Protocol):
    """The events of jobs and batches with a webhook. A final event is written together with the
    final state; at most one of an owner waits to be told, and none of an earlier run."""

    async def take_events(self, wanted: EventCapacity) -> list[DueEvent]:
        """Hold events that are due. Of each endpoint final ones come first, oldest first."""
        ...

    async def hold_events(self, held: Sequence[DueEvent], lease: timedelta) -> None:
        """Go on holding events that take longer than their lease."""
        ...

    async def settle_event(
        self, event: DueEvent, tried: DeliveryAttempt, *, next_try_at: datetime | None = None
    ) -> None:
        """Record a try of a final event and let go of it. It was delivered if the try was
        answered with a 2xx; otherwise it is due again at `next_try_at`, None: never."""
        ...

    async def pace_event(
        self, event: DueEvent, tried: DeliveryAttempt | None, pace: Pace | None
    ) -> None:
        """Record a try (None: there was none) to tell of progress and let go of it. Without a
        pace the job's progress is not told any more."""
        ...

    async def events_due_since(self) -> datetime | None:
        """When the event that is next was due, or will be; None: there is none."""
        ...

    async def postpone_events(self, endpoint: str, until: datetime) -> None:
        """Nothing of this endpoint is due before then, other than what is held now."""
        ...

    async def replay_event(self, owner_id: str, n: int) -> Delivery:
        """Make the last final event of a job or batch due again, now and from the first try on.

        `Conflict` for any other: what it told of is gone.
        """
        ...


def succeeded(tried: DeliveryAttempt) -> bool:
    return tried.status is not None and 200 <= tried.status < 300
