"""What the webhook sender asks of a store: which events are due, and how their delivery went."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import zip_longest
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
    #: See `queue_of`.
    queue: str
    delivery: Delivery
    #: The end of the lease identifies it: whoever lost it must not release the event.
    held_until: datetime = field(compare=False)

    @property
    def is_final(self) -> bool:
        return self.delivery.event != "progress"

    @property
    def endpoint(self) -> str:
        return endpoint_of(self.queue)

    @property
    def host(self) -> str:
        return host_of(self.queue)


def queue_of(webhook: Webhook, user_id: str | None) -> str:
    """The events of one user for one endpoint are a queue. An endpoint has no fragment, so `#`
    separates the two."""
    return f"{webhook.endpoint}#{user_id or ''}"


def endpoint_of(queue: str) -> str:
    endpoint = queue.partition("#")[0]
    # Versions that had one queue per host stored the host.
    return endpoint if "/" in endpoint.partition("://")[2] else f"{endpoint}/"


def host_of(queue: str) -> str:
    """Scheme, host and port."""
    scheme, _, rest = queue.partition("#")[0].partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def queues_of(target: str) -> tuple[str, str]:
    """The range of the queues of an endpoint or a host: from the first name up to the second."""
    separator = "/" if target == host_of(target) else "#"
    return target + separator, target + chr(ord(separator) + 1)


#: A user may have at most this many times as many requests in flight as slots remain for others,
#: of a host and of the sender: requests that hang never block everyone else.
MAX_OCCUPANCY = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class EventQuota:
    """How many events of one kind a sender may have in flight."""

    limit: int
    per_endpoint: int
    per_host: int
    #: How many there are in each queue.
    in_flight: Mapping[str, int] = field(default_factory=dict)
    #: Lower limits of endpoints and hosts that keep failing.
    reduced: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        return sum(self.in_flight.values()) >= self.limit

    def shares(self, queues: Iterable[str]) -> Mapping[str, int]:
        """How many events to claim from each of these queues: users in turn, in random order."""
        used: Counter[str] = Counter()
        for queue, number in self.in_flight.items():
            for key in _usage_keys(queue):
                used[key] += number
        shares: Counter[str] = Counter()
        remaining = _in_turn(queues)
        while remaining:
            remaining = [queue for queue in remaining if self._has_room(queue, used)]
            for queue in list(remaining):
                if self._has_room(queue, used):
                    shares[queue] += 1
                    used.update(_usage_keys(queue))
        return shares

    def _has_room(self, queue: str, used: Counter[str]) -> bool:
        total, host, endpoint, user, user_at_host = _usage_keys(queue)
        reduced, per_endpoint, per_host = self.reduced, self.per_endpoint, self.per_host
        return (
            used[endpoint] < min(per_endpoint, reduced.get(endpoint, per_endpoint))
            and used[host] < min(per_host, reduced.get(host, per_host))
            and used[user_at_host] < MAX_OCCUPANCY * (per_host - used[host])
            and used[user] < MAX_OCCUPANCY * (self.limit - used[total])
        )


def _usage_keys(queue: str) -> tuple[str, str, str, str, str]:
    host, user = host_of(queue), "#" + queue.partition("#")[2]
    return "", host, endpoint_of(queue), user, host + user


def _in_turn(queues: Iterable[str]) -> list[str]:
    """One queue of each user, then a second one of each that has more, and so on."""
    by_user: dict[str, list[str]] = defaultdict(list)
    for queue in random.sample(shuffled := list(queues), len(shuffled)):
        by_user[queue.partition("#")[2]].append(queue)
    return [queue for turn in zip_longest(*by_user.values()) for queue in turn if queue]


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
        """Claim due events: users take turns, and the oldest events of a queue are first."""

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

    async def postpone_events(self, target: str, until: datetime, *, final: bool) -> None:
        """Make no final events, or no progress, due for this endpoint or host before then, except
        events already claimed."""

    async def replay_event(self, owner_id: str, n: int) -> Delivery:
        """Make the last final event of a job or batch due now, as if never tried.

        Raises `Conflict` for any other event: what it reported is no longer true.
        """


def succeeded(tried: DeliveryAttempt | None) -> bool:
    return tried is not None and tried.status is not None and 200 <= tried.status < 300
