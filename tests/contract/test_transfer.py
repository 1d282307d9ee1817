"""What every store guarantees when it is copied: everything is exported, and imported unchanged."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from secretary.core.errors import Conflict, KeyReused
from secretary.core.job import (
    MAX_LOG_ENTRIES,
    AccessControl,
    Attempt,
    Batch,
    Completed,
    Delivery,
    DeliveryAttempt,
    Failed,
    Job,
    JobError,
    JobStatus,
    LogEntry,
    Progress,
    Released,
    Webhook,
    utc_now,
)
from secretary.store import Capacity, IdempotencyKey, JobQuery, Store, open_store
from secretary.store.outbox import OutboxState, ProgressSchedule
from secretary.store.transfer import (
    KINDS,
    BatchRecord,
    JobRecord,
    KeyRecord,
    Kind,
    Record,
    RecordId,
    differs,
    digest,
)
from tests.mongod import Mongod

from .factories import LEASE, claim, claimed, event_capacity, worker

#: Times with full precision; in the past, whatever the fraction of the second.
T0 = (utc_now() - timedelta(seconds=1)).replace(microsecond=123457)
ERROR = JobError(code="UPSTREAM_FAILED", message="503: ü", details={"a.b": {"$c": [1, None]}})
HOOK = Webhook.model_validate(
    {
        "url": "https://example.org/hook/{jobId}",
        "token": "SECRET",
        "jobId": "client-1",
        "headers": {"X-Key": "SECRET"},
        "secret": "whsec_c2VjcmV0",
        "events": ["progress", "completed", "error"],
        "x-unknown": {"kept": True},
    }
)
PACE = ProgressSchedule(
    sent_percent=40,
    early_percent=45,
    early_at=T0 + timedelta(seconds=1),
    due_at=T0 + timedelta(seconds=60),
)
TRIES = (
    DeliveryAttempt(at=T0, status=503, duration_ms=12),
    DeliveryAttempt(at=T0 + timedelta(seconds=5), error="ConnectTimeout", duration_ms=5000),
)
ODD = {"": 1, "$x": 2**60, "a.b": "\ud800", "n": None, "deep": [[{"ü": 1.5}]], "big": 2**31}


@pytest.fixture(params=["sqlite", "mongodb"])
async def target(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    url = f"sqlite://{tmp_path}/target.db"
    if request.param == "mongodb":
        mongod: Mongod = request.getfixturevalue("mongod")
        url = mongod.url(f"test_{uuid4().hex[:12]}")
    store = open_store(url)
    await store.open()
    yield store
    await store.close()


async def everything(store: Store, kind: Kind) -> dict[RecordId, Record]:
    return {one.record_id: one async for group in store.records(kind) for one in group}


async def copy(source: Store, target: Store) -> list[RecordId]:
    new: list[RecordId] = []
    for kind in KINDS:
        async for group in source.records(kind):
            new += await target.import_records(group)
    return new


async def assert_same(source: Store, target: Store) -> None:
    for kind in KINDS:
        original, copied = await everything(source, kind), await everything(target, kind)
        assert list(original) == list(copied), "the order is kept"
        for one, other in zip(original.values(), copied.values(), strict=True):
            if not isinstance(one, BatchRecord):  # a batch may store zeros, or omit them
                assert one == other
            assert not differs(one, other)
    assert await source.counts() == await target.counts()


def full_job() -> JobRecord:
    """A job with a value in every field."""
    first = Attempt(
        attempt=1, worker_id="w-0", started_at=T0, ended_at=T0 + timedelta(seconds=9), error=ERROR
    )
    second = Attempt(
        attempt=2,
        worker_id="w-1",
        started_at=T0 + timedelta(seconds=20),
        ended_at=T0 + timedelta(seconds=31),
        error=ERROR,
    )
    job = Job(
        job_type="pdf",
        job_name="Ünïcode 😀",
        status=JobStatus.FAILED,
        parameters={"file": "a.pdf", "extra": ODD},
        progress=Progress(step="page", percent=41, message="4 of 10"),
        results={"text": "x" * 20_000, "odd": ODD},
        error=ERROR,
        created_at=T0 - timedelta(days=400),
        updated_at=T0 + timedelta(seconds=32),
        processing_started_at=second.started_at,
        completed_at=second.ended_at,
        batch_id="batch-somewhere",
        user_id="ann",
        access_control=AccessControl(
            visibility="private", read_access=("ben",), write_access=("eve",), admin_access=("x",)
        ),
        logs=tuple(
            LogEntry(timestamp=T0 + timedelta(microseconds=n), level="warning", message=f"line {n}")
            for n in range(600)
        ),
        archived=True,
        priority=-7,
        run_at=T0 + timedelta(hours=1),
        timeout_s=90.5,
        max_attempts=4,
        retention_days=2.5,
        stored_bytes=2**40,
        webhook=HOOK,
        deliveries=(
            Delivery(n=3, delivery_id="msg_1", event="progress", created_at=T0, tried=1),
            Delivery(
                n=4,
                delivery_id="msg_2",
                event="error",
                created_at=T0,
                replayed_at=T0 + timedelta(seconds=1),
                next_try_at=T0 + timedelta(hours=2),
                tried=2,
                tries=TRIES,
            ),
        ),
        resources={"seconds": 1.25},
        traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        process_id="job-first",
        attempt=2,
        worker_id="w-1",
        attempts=(first, second),
        failures=2,
        crashes=1,
        losses=3,
        strikes=2,
        group_size=1,
        cancel_requested=True,
    )
    outbox = OutboxState(due_at=T0 + timedelta(hours=3), final=True, schedule=PACE)
    return JobRecord(job=job, dropped_logs=17, outbox=outbox)


def full_batch(batch_id: str) -> BatchRecord:
    batch = Batch(
        batch_id=batch_id,
        batch_name="Ünïcode",
        created_at=T0 - timedelta(days=1),
        updated_at=T0 + timedelta(seconds=1),
        started_at=T0,
        completed_at=T0 + timedelta(seconds=2),
        is_active=False,
        retention_days=0.0,
        archived=True,
        webhook=HOOK,
        user_id="ann",
        access_control=AccessControl(visibility="public", read_access=("ben",)),
        deliveries=(
            Delivery(
                n=1, delivery_id="msg_3", event="error", created_at=T0, delivered_at=T0, tried=1
            ),
        ),
        counts={JobStatus.FAILED: 1},
    )
    return BatchRecord(batch=batch, outbox=OutboxState(due_at=T0 + timedelta(days=1), final=True))


class TestRecords:
    def test_the_example_leaves_no_field_at_its_default(self) -> None:
        """Otherwise a new field could be forgotten here and get lost."""
        record = full_job()
        for owner in (record.job, full_batch("batch-1").batch):
            for name, field in type(owner).model_fields.items():
                assert getattr(owner, name) != field.get_default(), name
        assert replace(record, position=1, paused=True) != record

    async def test_every_field_of_a_job_and_a_batch_comes_back(
        self, store: Store, target: Store
    ) -> None:
        job = full_job()
        batch = full_batch(str(job.job.batch_id))
        assert await store.import_records([job]) == {job.record_id}
        assert await store.import_records([batch]) == {batch.record_id}
        (original,) = (await everything(store, "jobs")).values()
        (exported_batch,) = (await everything(store, "batches")).values()
        assert original == job
        assert isinstance(exported_batch, BatchRecord)
        counts = {status: n for status, n in exported_batch.batch.counts.items() if n}
        batch_with_counts = exported_batch.batch.model_copy(update={"counts": counts})
        assert replace(exported_batch, batch=batch_with_counts) == batch
        await copy(store, target)
        assert (await everything(target, "jobs")).popitem()[1] == job
        assert (await target.get(job.record_id)).logs[0].message.startswith("17 older entries")

    async def test_a_job_that_never_ran_has_nothing_it_did_not_have(
        self, store: Store, target: Store
    ) -> None:
        await store.add([Job()])
        await copy(store, target)
        await assert_same(store, target)

    async def test_records_are_found_by_their_ids(self, store: Store) -> None:
        job = full_job()
        batch = full_batch(str(job.job.batch_id))
        key = KeyRecord(
            scope="ann",
            key="k",
            fingerprint="f",
            job_ids=(job.record_id,),
            batch_id=None,
            expires_at=T0 + timedelta(days=1),
        )
        cases: list[tuple[Kind, Record]] = [("jobs", job), ("batches", batch), ("keys", key)]
        for kind, record in cases:
            other = ("ann", "other") if kind == "keys" else "other"
            assert [g async for g in store.records(kind, [other])] in ([], [[]])
            await store.import_records([record])
            groups = [group async for group in store.records(kind, [other, record.record_id])]
            assert [one.record_id for group in groups for one in group] == [record.record_id]

    async def test_a_digest_reveals_any_difference(self) -> None:
        record = full_job()
        one = record.job.logs[0].model_copy(update={"message": "another"})
        changed = [
            replace(record, job=record.job.model_copy(update={"logs": (one,)})),
            replace(record, job=record.job.model_copy(update={"webhook": None})),
            replace(record, dropped_logs=0),
            replace(record, paused=True),
            replace(record, outbox=OutboxState()),
        ]
        assert len({digest(other) for other in [record, *changed]}) == 6
        assert digest(record) == digest(replace(record, job=record.job.model_copy(deep=True)))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
OBJECT = st.dictionaries(st.text(), JSON, max_size=4)
#: As far as a store can write it: a lone surrogate is not text.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
TIME = st.datetimes(
    min_value=datetime(1971, 1, 1), max_value=datetime(2200, 1, 1), timezones=st.just(UTC)
)


@st.composite
def any_job(draw: st.DrawFn) -> JobRecord:
    started, ended = draw(st.none() | TIME), draw(st.none() | TIME)
    status = draw(st.sampled_from([JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED]))
    error = draw(st.none() | st.builds(JobError, code=TEXT, message=TEXT))
    job = Job(
        job_type=draw(TEXT),
        job_name=draw(st.none() | TEXT),
        status=status,
        parameters=draw(OBJECT),
        results=draw(st.none() | OBJECT),
        error=error,
        created_at=draw(TIME),
        updated_at=draw(TIME),
        processing_started_at=started,
        completed_at=ended,
        worker_id="w" if started else None,
        attempt=3,
        user_id=draw(st.none() | TEXT),
        logs=tuple(draw(st.lists(st.builds(LogEntry, timestamp=TIME, message=TEXT), max_size=3))),
        timeout_s=draw(st.none() | st.floats(min_value=0.001, max_value=1e9)),
        resources=draw(st.dictionaries(TEXT, st.floats(0, 1e12), max_size=2)),
    )
    if started is not None:
        last = Attempt(attempt=3, worker_id="w", started_at=started, ended_at=ended, error=error)
        job = job.model_copy(update={"attempts": (last,)})
    return JobRecord(job=job, dropped_logs=draw(st.integers(0, 5)) if job.logs else 0)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(records=st.lists(any_job(), min_size=1, max_size=5))
async def test_whatever_a_job_holds_comes_back(store: Store, records: list[JobRecord]) -> None:
    await store.import_records(records)
    ids = [record.record_id for record in records]
    copied = {one.record_id: one async for group in store.records("jobs", ids) for one in group}
    assert [copied[record.record_id] for record in records] == records
    assert not any(differs(record, copied[record.record_id]) for record in records)


async def lived_in(store: Store) -> None:
    """Jobs and batches in all states that occur."""
    hook = HOOK.model_copy(update={"events": None})
    await store.register_worker(worker(), LEASE)
    done = await claimed(store, webhook=hook, user_id="ann")
    logs = [LogEntry(message=f"line {n}") for n in range(MAX_LOG_ENTRIES + 5)]
    await store.report(done, Progress(step="a", percent=50, message="half"), logs)
    await store.finish(done, Completed({"text": "y" * 9000}), resources={"seconds": 0.5})
    failed = await claimed(store, webhook=hook)
    await store.finish(failed, Failed(ERROR, retry_at=utc_now() - timedelta(seconds=1)))
    (failed,) = await claim(store)
    await store.finish(failed, Failed(ERROR, crashed=True))
    again = await claimed(store)
    await store.finish(again, Completed({"n": 1}))
    await store.restart(JobQuery(job_id=again.job_id))
    later = await claimed(store, job_type="retried")
    await store.finish(later, Failed(ERROR, retry_at=utc_now() + timedelta(hours=1)))
    for n in range(7):
        await store.add([Job(job_type="pdf", user_id=f"user-{n % 2}", priority=n % 2)])
    await store.add([Job(run_at=utc_now() + timedelta(days=1), webhook=hook)])
    gone = Job()
    await store.add([gone])
    await store.cancel(JobQuery(job_id=gone.job_id))
    for active in (True, False):
        batch = Batch(is_active=active, webhook=hook)
        jobs = [Job(job_type="slow", batch_id=batch.batch_id) for _ in range(3)]
        key = IdempotencyKey(f"key-{active}", "print", scope="ann")
        await store.add(jobs, batch=batch, idempotency=key)
    await store.add([], batch=Batch(webhook=hook))
    await store.add([Job()], idempotency=IdempotencyKey("one", "print"))
    running = await store.claim("worker-1", Capacity(slots=1, job_types=["slow"]))
    await store.report(running[0], Progress(step="b", percent=10, message=""), [])
    wanted = event_capacity(limit=1, per_endpoint=1, lease=timedelta(minutes=1))
    for event in await store.claim_events(wanted):
        await store.record_delivery(event, TRIES[0], next_try_at=utc_now() + timedelta(minutes=5))


class TestCopies:
    async def test_what_work_left_is_the_same_in_the_copy(
        self, store: Store, target: Store
    ) -> None:
        await lived_in(store)
        await copy(store, target)
        await assert_same(store, target)

    async def test_a_second_time_nothing_is_new(self, store: Store, target: Store) -> None:
        await lived_in(store)
        assert await copy(store, target)
        assert await copy(store, target) == []
        await assert_same(store, target)

    async def test_what_is_there_stays_as_it_is(self, store: Store, target: Store) -> None:
        job = Job()
        await store.add([job])
        await target.add([job.model_copy(update={"job_name": "mine"})])
        assert await copy(store, target) == []
        assert (await target.get(job.job_id)).job_name == "mine"

    async def test_jobs_start_in_the_same_order(
        self, store: Store, target: Store, store_url: str
    ) -> None:
        await lived_in(store)
        await copy(store, target)
        source = open_store(store_url)  # the open one remembers whom it has served
        await source.open()
        order = []
        for one in (source, target):
            await one.register_worker(worker("w"), LEASE)
            jobs = await one.claim("w", Capacity(slots=100))
            order.append([job.job_id for job in jobs])
        await source.close()
        assert order[0] == order[1]
        assert len(order[0]) > 8

    async def test_the_same_events_are_pending(self, store: Store, target: Store) -> None:
        await lived_in(store)
        await copy(store, target)
        wanted = event_capacity(limit=100, per_endpoint=100, lease=timedelta(minutes=1))
        event_ids = [
            {
                (event.owner_id, event.delivery.delivery_id)
                for event in await one.claim_events(wanted)
                if event.delivery.event != "progress"
            }
            for one in (store, target)
        ]
        assert event_ids[0] == event_ids[1] and len(event_ids[0]) > 1

    async def test_a_job_that_was_running_is_rescued(self, store: Store, target: Store) -> None:
        job = await claimed(store)
        await copy(store, target)
        assert [one.job_id for one in await target.rescue()] == [job.job_id]
        (again,) = await claim(target, "another")
        assert (again.job_id, again.attempt, again.losses) == (job.job_id, 2, 1)

    async def test_the_copy_goes_on_where_the_source_was(self, store: Store, target: Store) -> None:
        """Batch counts, idempotency keys and logs still work, and a paused batch can be resumed."""
        batch = Batch(is_active=False, webhook=HOOK)
        jobs = [Job(batch_id=batch.batch_id) for _ in range(2)]
        key = IdempotencyKey("k", "print")
        await store.add(jobs, batch=batch, idempotency=key)
        await copy(store, target)
        added = await target.add([Job(), Job()], batch=Batch(), idempotency=key)
        assert (added.replayed, added.batch_id) == (True, batch.batch_id)
        assert set(added.job_ids) == {job.job_id for job in jobs}
        with pytest.raises(KeyReused):
            await target.add([Job()], idempotency=replace(key, fingerprint="other"))
        assert await claim(target) == []
        await target.change_batch(batch.batch_id, is_active=True)
        for job in await claim(target, slots=2):
            await target.report(job, None, [LogEntry(message="here")])
            await target.finish(job, Completed())
        ended = await target.get_batch(batch.batch_id)
        assert (ended.status, ended.total_jobs, len(ended.deliveries)) == (
            JobStatus.COMPLETED,
            2,
            1,
        )
        with pytest.raises(Conflict):
            await target.add([jobs[0]])

    async def test_a_job_without_a_place_is_given_one(self, store: Store) -> None:
        first, second = Job(), Job()
        await store.import_records([JobRecord(job=first), JobRecord(job=second)])
        assert [job.job_id for job in await claim(store, slots=2)] == [first.job_id, second.job_id]

    async def test_many_jobs_come_in_groups(self, store: Store, target: Store) -> None:
        batch = Batch()
        jobs = [Job(batch_id=batch.batch_id, parameters={"n": n}) for n in range(450)]
        await store.add(jobs, batch=batch)
        sizes = [len(group) async for group in store.records("jobs")]
        assert sum(sizes) == 450 and max(sizes) <= 200
        await copy(store, target)
        await assert_same(store, target)

    async def test_big_results_come_in_small_groups(self, store: Store) -> None:
        for _ in range(5):
            job = await claimed(store)
            await store.finish(job, Completed({"text": "x" * 3_000_000}))
        groups = [len(group) async for group in store.records("jobs")]
        assert sum(groups) == 5 and max(groups) <= 3

    async def test_followers_see_the_imported_jobs(self, store: Store) -> None:
        before = (await store.changes(None)).position
        job, batch = full_job(), full_batch("batch-somewhere")
        await store.import_records([job])
        await store.import_records([batch])
        changes = await store.changes(before, seconds=5)
        assert job.record_id in {change.job_id for change in changes.items}
        assert "batch-somewhere" in {change.batch_id for change in changes.items}

    async def test_a_released_job_keeps_its_history(self, store: Store, target: Store) -> None:
        job = await claimed(store)
        await store.finish(job, Released())
        await copy(store, target)
        (again,) = await claim(target)
        assert [attempt.attempt for attempt in again.attempts] == [1, 2]
