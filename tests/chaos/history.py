"""Checks what happened against the guarantees, without I/O: takes a history, returns violations."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from secretary.core.job import FINAL_STATUSES, Batch, Delivery, Job, JobStatus

from .receivers import ReceivedEvent

#: How long a final event may wait for its first attempt: for a sender and the store, and until the
#: pause of a host that refused connections is over, but not for other paths of its host.
MAX_WAIT = 90.0

#: What a handler recorded about one job: the events and monotonic times of each attempt.
Lives = Mapping[int, Sequence[tuple[str, float]]]


@dataclass(frozen=True)
class Accepted:
    job_id: str
    kind: str
    #: The webhook path that must receive its final event.
    hook: str | None = None


@dataclass(frozen=True)
class AcceptedBatch:
    batch_id: str
    job_ids: tuple[str, ...]
    hook: str | None = None
    #: Whether it was cancelled and restarted.
    is_churned: bool = False


@dataclass(frozen=True)
class Sighting:
    """A job as it was when it was first seen finished."""

    status: str
    attempt: int
    completed_at: str


@dataclass
class History:
    max_crashes: int
    accepted: Sequence[Accepted] = ()
    batches: Sequence[AcceptedBatch] = ()
    #: At the end of the run, as stored.
    jobs: Mapping[str, Job] = field(default_factory=dict)
    stored_batches: Mapping[str, Batch] = field(default_factory=dict)
    stored_jobs: int = 0
    sightings: Mapping[str, Sighting] = field(default_factory=dict)
    lives: Mapping[str, Lives] = field(default_factory=dict)
    received_events: Sequence[ReceivedEvent] = ()
    #: Errors in the results of completed jobs, by job.
    wrong_results: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: Files and processes that should be gone.
    left: Sequence[str] = ()
    #: Total seconds by which the wall clock was set back.
    clock_went_back: float = 0.0


def broken_promises(history: History) -> list[str]:
    return [
        *_lost(history),
        *_twice(history),
        *_of_jobs(history),
        *_of_batches(history),
        *_undelivered(history),
        *_late(history),
        *history.left,
    ]


def _lost(history: History) -> list[str]:
    return [
        f"{one.job_id} ({one.kind}) was accepted and is lost"
        for one in history.accepted
        if one.job_id not in history.jobs
    ]


def _twice(history: History) -> list[str]:
    """An idempotency key creates one job, however often it is sent."""
    ids = [one.job_id for one in history.accepted]
    wrong = [f"{job_id} was given to {n} orders" for job_id, n in Counter(ids).items() if n > 1]
    if history.stored_jobs != len(ids):
        wrong.append(f"{len(ids)} jobs were accepted, {history.stored_jobs} are stored")
    return wrong


def _of_jobs(history: History) -> list[str]:
    wrong: list[str] = []
    for one in history.accepted:
        job = history.jobs.get(one.job_id)
        if job is None:
            continue
        lives = history.lives.get(one.job_id, {})
        is_churned = one.kind == "churn"
        may_be_cancelled = is_churned and job.status is JobStatus.CANCELLED
        faults = [
            *(() if may_be_cancelled else _of_end(job, history.max_crashes)),
            *_of_attempts(job, history.clock_went_back),
            *(_of_journal(job, lives) if one.kind == "chaos" else ()),
            *(() if is_churned else _changed_after_its_end(job, history.sightings.get(one.job_id))),
            *history.wrong_results.get(one.job_id, ()),
        ]
        wrong += [f"{one.job_id} ({one.kind}) {fault}" for fault in faults]
    return wrong


def _of_end(job: Job, max_crashes: int) -> list[str]:
    if job.status not in FINAL_STATUSES or job.completed_at is None:
        return [f"did not end: it is {job.status}, attempt {job.attempt}, {job.error}"]
    if job.status is JobStatus.COMPLETED:
        return ["is completed and has an error"] if job.error else []
    if job.error is not None and "losses" in (job.error.details or {}):
        return [f"was failed because {job.losses} workers were lost, all of which were killed"]
    if job.status is JobStatus.FAILED and job.crashes >= max_crashes:
        return []  # its own process was killed so often that it may be the cause
    return [f"is {job.status} without cause, after {job.crashes} crashes: {job.error}"]


def _of_attempts(job: Job, clock_went_back: float) -> list[str]:
    wrong = []
    for before, after in pairwise(job.attempts):
        late = 0.0
        if before.ended_at is not None:
            late = (before.ended_at - after.started_at).total_seconds()
        if before.ended_at is None or late > clock_went_back:
            wrong.append(f"attempt {before.attempt} overlaps {after.attempt} on paper")
        if before.attempt >= after.attempt:
            wrong.append("has attempts that do not grow")
    return wrong


def _of_journal(job: Job, lives: Lives) -> list[str]:
    """From the handler's own journal, and from what it reported to the store."""
    wrong = []
    if job.status is JobStatus.COMPLETED:
        if job.results != {"attempt": job.attempt}:
            wrong.append(f"ended with attempt {job.attempt} and has the results {job.results}")
        if not any(event == "end" for event, _ in lives.get(job.attempt, ())):
            wrong.append("is completed, but its work did not end")
    for attempt, following in pairwise(sorted(lives)):
        lived_until = max(at for _, at in lives[attempt])
        started = min(at for _, at in lives[following])
        if lived_until > started:
            late = lived_until - started
            wrong.append(f"attempt {attempt} still ran {late:.2f} s into attempt {following}")
    logged = [int(entry.message.split()[1]) for entry in job.logs if entry.level == "info"]
    if logged != sorted(logged):
        wrong.append(f"has a log in which an old attempt wrote: {logged}")
    return wrong


def _changed_after_its_end(job: Job, seen: Sighting | None) -> list[str]:
    """It finished, once and for good."""
    if seen is None:
        return []
    now = Sighting(job.status, job.attempt, str(job.completed_at))
    return [] if now == seen else [f"had ended as {seen}, and later as {now}"]


def _of_batches(history: History) -> list[str]:
    wrong = []
    for one in history.batches:
        batch = history.stored_batches.get(one.batch_id)
        if batch is None:
            wrong.append(f"{one.batch_id} was accepted and is lost")
            continue
        jobs = [history.jobs[job_id] for job_id in one.job_ids if job_id in history.jobs]
        counted = {status: n for status, n in batch.counts.items() if n}
        if counted != Counter(job.status for job in jobs):
            wrong.append(f"{one.batch_id} counts {counted}, its {len(jobs)} jobs say otherwise")
        if batch.completed_at is None:
            wrong.append(f"{one.batch_id} has not ended")
    return wrong


def _undelivered(history: History) -> list[str]:
    """Each final event with a webhook is delivered as stored, and signed."""
    by_path: dict[str, list[ReceivedEvent]] = {}
    for delivery in history.received_events:
        by_path.setdefault(delivery.path, []).append(delivery)
    wrong = [
        f"{delivery.path} received an unsigned event"
        for delivery in history.received_events
        if not delivery.is_signed
    ]
    for one in history.accepted:
        if (job := history.jobs.get(one.job_id)) is not None and one.kind != "rejected":
            received = _of_owner(by_path.get(one.hook or "", ()), "job_id", one.job_id)
            check = _of_last_delivery if one.kind == "churn" else _of_deliveries
            faults = check(job.deliveries, job.status, one.hook, received)
            wrong += [f"{one.job_id} ({one.kind}) {fault}" for fault in faults]
    for each in history.batches:
        if (batch := history.stored_batches.get(each.batch_id)) is not None:
            received = [
                delivery
                for delivery in _of_owner(
                    by_path.get(each.hook or "", ()), "batch_id", each.batch_id
                )
                if delivery.document.get("job_id") is None
            ]
            check = _of_last_delivery if each.is_churned else _of_deliveries
            faults = check(batch.deliveries, batch.status, each.hook, received)
            wrong += [f"{each.batch_id} {fault}" for fault in faults]
    return wrong


def _late(history: History) -> list[str]:
    """An event that no fault kept from arriving at its first attempt arrives soon."""
    received = {one.message_id: one.at for one in reversed(history.received_events) if one.is_end}
    wrong = []
    for one in history.accepted:
        job = history.jobs.get(one.job_id)
        if job is None or one.kind != "chaos":
            continue
        lives = history.lives.get(one.job_id, {}).get(job.attempt, ())
        ended_at = max((at for event, at in lives if event == "end"), default=math.inf)
        for delivery in job.deliveries:
            waited = received.get(delivery.delivery_id, 0.0) - ended_at
            if delivery.tried == 1 and waited > MAX_WAIT:
                wrong.append(f"{one.job_id} was first reported {waited:.0f} s after its end")
    return wrong


def _of_owner(deliveries: Iterable[ReceivedEvent], name: str, owner: str) -> list[ReceivedEvent]:
    return [one for one in deliveries if one.document.get(name) == owner]


def _of_deliveries(
    deliveries: Sequence[Delivery],
    status: JobStatus,
    hook: str | None,
    events: Sequence[ReceivedEvent],
) -> list[str]:
    ends = [delivery for delivery in deliveries if delivery.event != "progress"]
    if hook is None:
        return [f"has {len(ends)} deliveries, and no webhook"] if ends else []
    if len(ends) != 1:
        return [f"has {len(ends)} deliveries of its end"]
    (delivery,) = ends
    endings = [one for one in events if one.is_end]
    expected = "completed" if status is JobStatus.COMPLETED else "error"
    wrong = []
    if not endings:
        wrong.append(f"ended, but no webhook was sent: {delivery}")
    if any(one.document["status"] != expected for one in endings):
        wrong.append(
            f"is {status}, but was reported as {[one.document['status'] for one in endings]}"
        )
    if any(one.message_id != delivery.delivery_id for one in endings):
        wrong.append("was delivered with several ids")
    if endings and delivery.delivered_at is None:
        wrong.append("was delivered, but the delivery is not recorded")
    last_end = max((index for index, one in enumerate(events) if one.is_end), default=len(events))
    first_end = min((index for index, one in enumerate(events) if one.is_end), default=len(events))
    if any(not one.is_end for one in events[first_end:last_end]) or events[last_end + 1 :]:
        wrong.append("was reported as running after its end")
    return wrong


def _of_last_delivery(
    deliveries: Sequence[Delivery],
    status: JobStatus,
    hook: str | None,
    events: Sequence[ReceivedEvent],
) -> list[str]:
    """It ended several times; its last end is delivered."""
    ends = [delivery for delivery in deliveries if delivery.event != "progress"]
    if hook is None or not ends:
        return [] if hook is None else ["has no delivery of its end"]
    last = [one for one in events if one.is_end and one.message_id == ends[-1].delivery_id]
    return _of_deliveries(ends[-1:], status, hook, last)


def faults_of(job: Job, lives: Lives) -> list[str]:
    """The attempts of one job in the journal, whichever worker ran it."""
    return [*_of_end(job, 2), *_of_attempts(job, 0.0), *_of_journal(job, lives)]
