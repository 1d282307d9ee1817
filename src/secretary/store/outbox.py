"""What the webhook sender asks of a store: which events are due, and how their delivery went."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, Protocol

from ..core.job import Delivery, DeliveryAttempt, Webhook, utc_now

#: When a job that is not finished yet sends its first progress event.
FIRST_PROGRESS_AFTER = timedelta(seconds=1)
#: The progress at which that event is worth sending, until the sender sets another value.
FIRST_PERCENT = 5

OwnerKind = Literal["job", "batch"]
FinalEvent = Literal["completed", "error"]


@dataclass(frozen=True, slots=True)
class DueEvent:
    """An event claimed by a sender: the end of a job or batch, or a job's progress if that is the
    event of its delivery."""

    kind: OwnerKind
    owner_id: str
    endpoint: str
    delivery: Delivery
    #: The end of the lease identifies it: whoever lost it must not release the event.
    held_until: datetime = field(compare=False)

    @property
    def is_final(self) -> bool:
        return self.delivery.event != "progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventQuota:
    """How many events of one kind a sender can deliver now."""

    limit: int
    per_endpoint: int
    #: How much of `per_endpoint` is already in use.
    busy: Mapping[str, int] = field(default_factory=dict)

    def room(self, endpoint: str) -> int:
        return self.per_endpoint - self.busy.get(endpoint, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCapacity:
    """What a sender can deliver now; it owns the claimed events until the lease expires. Receivers
    may take minutes for a final event, so progress has a quota of its own."""

    finals: EventQuota
    progress: EventQuota
    lease: timedelta

    def quota(self, *, final: bool) -> EventQuota:
        return self.finals if final else self.progress


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressSchedule:
    """When a job's next progress event is due: at `due_at`, or already at `early_at` if the job
    has reached `early_percent`, or has fallen below `sent_percent` because it is retried."""

    sent_percent: int
    early_percent: int
    early_at: datetime
    due_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxState:
    """The pending webhook event of a job or batch."""

    #: None if no event is pending.
    due_at: datetime | None = None
    final: bool = False
    #: None if the job sends no progress.
    schedule: ProgressSchedule | None = None


NO_EVENT = OutboxState()


def first_event(webhook: Webhook | None) -> OutboxState:
    """The first progress event of a job that is new or was restarted."""
    if webhook is None or not webhook.wants_progress:
        return NO_EVENT
    first = utc_now() + FIRST_PROGRESS_AFTER
    schedule = ProgressSchedule(
        sent_percent=0, early_percent=FIRST_PERCENT, early_at=first, due_at=first
    )
    return OutboxState(due_at=first, schedule=schedule)


class OutboxStore(Protocol):
    """Events of jobs and batches with a webhook. A final event is written together with the final
    state; at most one per job or batch is undelivered, and none belongs to an earlier run."""

    async def claim_events(self, capacity: EventCapacity) -> list[DueEvent]:
        """Claim due events, the oldest ones of each endpoint first."""

    async def renew_events(self, events: Sequence[DueEvent], lease: timedelta) -> list[DueEvent]:
        """Extend the lease of events whose delivery takes longer; returns those whose lease had
        not been lost, with the new one."""

    async def record_delivery(
        self, event: DueEvent, tried: DeliveryAttempt | None, *, next_try_at: datetime | None = None
    ) -> None:
        """Record an attempt (if any) to deliver a final event and release it. After a 2xx response
        it is delivered; otherwise it is due again at `next_try_at`, or never if that is None. If
        the lease was lost, only the attempt is recorded."""

    async def record_progress(
        self, event: DueEvent, tried: DeliveryAttempt | None, schedule: ProgressSchedule | None
    ) -> None:
        """Record an attempt (if any) to deliver progress and release the event, unless its lease
        was lost. Without a schedule the job sends no more progress."""

    async def next_event_due_at(self) -> datetime | None:
        """When the oldest undelivered event was or will be due; None if there is none."""

    async def postpone_events(self, endpoint: str, until: datetime, *, final: bool) -> None:
        """Make no final events, or no progress, due for this endpoint before then, except events
        already claimed."""

    async def replay_event(self, owner_id: str, n: int) -> Delivery:
        """Make the last final event of a job or batch due now, as if never tried.

        Raises `Conflict` for any other event: what it reported is no longer true.
        """


def succeeded(tried: DeliveryAttempt | None) -> bool:
    return tried is not None and tried.status is not None and 200 <= tried.status < 300
