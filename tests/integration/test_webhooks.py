"""Events on their way from a store to a real receiver."""

import asyncio
import base64
import io
import logging
import os
import signal
import sys
import time
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook as Verifier

from secretary.core.job import (
    Batch,
    Cancelled,
    Completed,
    Delivery,
    Failed,
    Job,
    JobError,
    JobStatus,
    Outcome,
    Progress,
    Webhook,
    utc_now,
)
from secretary.network.client import Network
from secretary.storage.artifacts import JobFiles
from secretary.store import CallbackKey, JobQuery, Store, open_store
from secretary.webhooks import BreakerOptions, DeliveryLimits, RetrySchedule, Sender, SenderOptions

from ..contract.factories import claim, claimed, lose_workers
from ..ports import free_ports
from ..webhook_receiver import HANG, RESET, Receiver, Reply

SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
DONE = Completed({"extracted_text": "Hallo"})


def milliseconds(number: int) -> timedelta:
    return timedelta(milliseconds=number)


FINALS = DeliveryLimits(in_flight=64, per_host=64, per_endpoint=8, timeout=milliseconds(800))
FAST = SenderOptions(
    finals=FINALS,
    progress=replace(FINALS, timeout=milliseconds(400)),
    progress_grace=milliseconds(100),
    schedule=RetrySchedule(waits=(milliseconds(20),) * 8, jitter=0),
    breaker=BreakerOptions(failures=1000),
    progress_every=milliseconds(50),
    heartbeat=timedelta(hours=1),
    poll_every=milliseconds(20),
    lease=milliseconds(700),
    grace=milliseconds(500),
)


def with_finals(**limits: Any) -> SenderOptions:
    return replace(FAST, finals=replace(FINALS, **limits))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver().running() as receiver:
        yield receiver


@asynccontextmanager
async def sending(
    store: Store,
    options: SenderOptions = FAST,
    *,
    files: Path = Path("nowhere"),
    allow: tuple[str, ...] = ("127.0.0.1",),
) -> AsyncIterator[Sender]:
    sender = Sender(store, Network(allow), JobFiles(files), options)
    task = asyncio.create_task(sender.run())
    try:
        yield sender
    finally:
        sender.stop()
        await task


def hook(receiver: Receiver, path: str = "/hook", **fields: Any) -> Webhook:
    return Webhook.model_validate(
        {"url": receiver.url(path), "events": ["completed", "error"], **fields}
    )


async def ended(store: Store, webhook: Webhook, outcome: Outcome = DONE, **fields: Any) -> Job:
    job = await claimed(store, webhook=webhook, **fields)
    await store.finish(job, outcome)
    return job


async def settled(store: Store, job: Job) -> Delivery:
    """The final delivery of a job, once there is nothing left to do for it."""
    async with asyncio.timeout(10):
        while True:
            delivery = (await store.get(job.job_id)).deliveries[-1]
            if delivery.event != "progress" and delivery.next_try_at is None:
                return delivery
            await asyncio.sleep(0.01)


async def tried(store: Store, job: Job) -> Delivery:
    """The final delivery of a job after its first attempt."""
    async with asyncio.timeout(10):
        while not (delivery := (await store.get(job.job_id)).deliveries[-1]).tries:
            await asyncio.sleep(0.01)
    return delivery


class TestTheEnd:
    @pytest.mark.parametrize(
        ("outcome", "phase", "code"),
        [
            (DONE, "completed", None),
            (Failed(JobError(code="FILE_CORRUPT", message="torn")), "error", "FILE_CORRUPT"),
            (
                Failed(JobError(code="PROCESSING_TIMEOUT", message="!")),
                "error",
                "PROCESSING_TIMEOUT",
            ),
            (Cancelled(), "error", "CANCELLED"),
        ],
    )
    async def test_it_is_reported(
        self, store: Store, receiver: Receiver, outcome: Outcome, phase: str, code: str | None
    ) -> None:
        job = await ended(store, hook(receiver), outcome)
        async with sending(store):
            delivery = await settled(store, job)
        (request,) = receiver.received
        payload = request.json
        assert (payload["phase"], payload["status"], payload["job_id"]) == (
            phase,
            phase,
            job.job_id,
        )
        assert (payload["error"] or {}).get("code") == code
        assert delivery.delivered_at is not None
        assert request.message_id == delivery.delivery_id

    async def test_cancelling_a_waiting_job_notifies_its_webhook(
        self, store: Store, receiver: Receiver
    ) -> None:
        job = Job(webhook=hook(receiver))
        await store.add([job])
        await store.cancel(JobQuery(job_id=job.job_id))
        async with sending(store):
            (request,) = await receiver.wait_for()
        assert request.json["error"]["code"] == "CANCELLED"
        assert request.json["data"] is None

    async def test_a_job_that_takes_its_workers_down_is_reported(
        self, store: Store, receiver: Receiver
    ) -> None:
        await store.add([Job(job_type="pdf", webhook=hook(receiver))])
        await lose_workers(store)
        async with sending(store):
            (request,) = await receiver.wait_for()
        assert request.json["error"]["code"] == "WORKER_CRASHED"

    async def test_waking_the_sender_delivers_at_once(
        self, store: Store, receiver: Receiver
    ) -> None:
        async with sending(store, replace(FAST, poll_every=timedelta(hours=1))) as sender:
            await asyncio.sleep(0.05)
            job = await ended(store, hook(receiver))
            sender.wake(job.job_id)
            await receiver.wait_for()
            await settled(store, job)

    async def test_a_batch_sends_one_event_with_its_job_counts(
        self, store: Store, receiver: Receiver
    ) -> None:
        batch = Batch(webhook=hook(receiver, "/batch", jobId="mine"))
        jobs = [Job(job_type="pdf", batch_id=batch.batch_id) for _ in range(2)]
        await store.add(jobs, batch=batch)
        async with sending(store):
            for job in await claim(store, slots=2):
                await store.finish(job, DONE)
            (request,) = await receiver.wait_for(path="/batch")
        payload = request.json
        assert (payload["job_type"], payload["phase"]) == ("batch", "completed")
        assert (payload["batch_id"], payload["jobId"]) == (batch.batch_id, "mine")
        assert payload["process"]["id"] == batch.batch_id
        assert (payload["batch"]["total_jobs"], payload["batch"]["completed_jobs"]) == (2, 2)


class TestRetries:
    async def test_a_receiver_that_fails_five_times_gets_the_same_event_a_sixth_time(
        self, store: Store, receiver: Receiver
    ) -> None:
        receiver.answer(500, 502, 404, RESET, 503, 200)
        job = await ended(store, hook(receiver, secret=SECRET))
        async with sending(store):
            delivery = await settled(store, job)
        requests = receiver.received
        assert len(requests) == 6
        assert {request.message_id for request in requests} == {delivery.delivery_id}
        assert len({request.body for request in requests}) == 1
        assert [one.status for one in delivery.tries] == [500, 502, 404, None, 503, 200]
        assert delivery.tries[3].error == "request failed (ReadError)"
        assert delivery.delivered_at is not None

    async def test_it_is_given_up_when_all_tries_have_failed(
        self, store: Store, receiver: Receiver
    ) -> None:
        receiver.answer(500)
        job = await ended(store, hook(receiver))
        async with sending(store):
            delivery = await settled(store, job)
        assert (delivery.gave_up, delivery.tried, len(receiver.received)) == (True, 9, 9)

    async def test_a_receiver_that_does_not_answer_in_time_is_asked_again(
        self, store: Store, receiver: Receiver
    ) -> None:
        receiver.answer(HANG, 204)
        job = await ended(store, hook(receiver))
        async with sending(store, with_finals(timeout=milliseconds(100))):
            delivery = await settled(store, job)
        assert [(one.status, one.error) for one in delivery.tries] == [
            (None, "timed out"),
            (204, None),
        ]

    async def test_a_slow_try_is_not_made_twice(self, store: Store, receiver: Receiver) -> None:
        receiver.answer(Reply(delay=1.5))
        job = await ended(store, hook(receiver))
        options = with_finals(timeout=timedelta(seconds=5))
        async with sending(store, options), sending(store, options):
            delivery = await settled(store, job)
        assert (len(receiver.received), delivery.tried) == (1, 1)

    async def test_a_receiver_that_is_not_there_is_tried_again(
        self, store: Store, receiver: Receiver
    ) -> None:
        job = await ended(store, Webhook(url="http://127.0.0.1:9/", events=("completed",)))
        async with sending(store):
            delivery = await settled(store, job)
        assert {one.error for one in delivery.tries} == {"connection failed"}
        assert delivery.gave_up

    @pytest.mark.parametrize("status", [429, 503])
    async def test_a_receiver_says_when_it_wants_to_be_asked_again(
        self, store: Store, receiver: Receiver, status: int
    ) -> None:
        receiver.answer(Reply(status, {"Retry-After": "1"}), 200)
        job = await ended(store, hook(receiver))
        async with sending(store):
            await settled(store, job)
        first, second = receiver.received
        assert second.at - first.at >= 1

    @pytest.mark.parametrize(
        "retry_after", ["9" * 5000, "Sun, 01 Mar 2026 12:00:00 +99999999999999999999"]
    )
    async def test_what_a_receiver_says_of_the_time_cannot_break_the_sender(
        self, store: Store, receiver: Receiver, retry_after: str
    ) -> None:
        receiver.answer(Reply(503, {"Retry-After": retry_after}))
        job = await ended(store, hook(receiver))
        async with sending(store):
            async with asyncio.timeout(10):
                while not (tries := (await store.get(job.job_id)).deliveries[-1].tries):
                    await asyncio.sleep(0.01)
        assert {(one.status, one.error) for one in tries} == {(503, None)}

    async def test_a_receiver_that_answers_410_gets_no_more_events(
        self, store: Store, receiver: Receiver
    ) -> None:
        receiver.answer(410)
        job = await ended(store, hook(receiver))
        async with sending(store):
            delivery = await settled(store, job)
        assert (delivery.gave_up, len(receiver.received)) == (True, 1)

    @pytest.mark.parametrize("status", [301, 302, 307, 308])
    async def test_a_redirect_is_a_failure_and_not_followed(
        self, store: Store, receiver: Receiver, status: int
    ) -> None:
        headers = {"Location": receiver.url("/elsewhere")}
        receiver.answer(Reply(status, headers), 200)
        job = await ended(store, hook(receiver))
        async with sending(store):
            delivery = await settled(store, job)
        assert receiver.to("/elsewhere") == []
        assert [one.status for one in delivery.tries] == [status, 200]

    async def test_a_private_address_is_refused_and_never_asked(
        self, store: Store, receiver: Receiver
    ) -> None:
        job = await ended(store, hook(receiver))
        async with sending(store, allow=()):
            delivery = await settled(store, job)
        assert {one.error for one in delivery.tries} == {"address not allowed"}
        assert (delivery.tried, receiver.received) == (9, [])

    async def test_a_sender_that_is_started_again_goes_on(
        self, store: Store, receiver: Receiver
    ) -> None:
        receiver.answer(500, 200)
        job = await ended(store, hook(receiver))
        slow = replace(FAST, schedule=RetrySchedule(waits=(milliseconds(300),), jitter=0))
        async with sending(store, slow):
            await receiver.wait_for(1)
        async with sending(store, slow):
            delivery = await settled(store, job)
        assert [one.status for one in delivery.tries] == [500, 200]

    async def test_an_event_of_a_sender_that_was_killed_is_sent_by_another(
        self, store: Store, store_url: str, receiver: Receiver
    ) -> None:
        """Killed after the receiver got the event and before that was recorded."""
        receiver.answer(HANG, 200)
        job = await ended(store, hook(receiver))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.integration.test_webhooks",
            store_url,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        await receiver.wait_for(1)
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
        async with sending(store):
            delivery = await settled(store, job)
        first, second = receiver.received
        assert first.message_id == second.message_id == delivery.delivery_id
        assert first.body == second.body
        assert delivery.tried == 1

    async def test_a_replay_is_the_same_event_again(self, store: Store, receiver: Receiver) -> None:
        job = await ended(store, hook(receiver))
        async with sending(store):
            await settled(store, job)
            await store.replay_event(job.job_id, 1)
            await receiver.wait_for(2)
            delivery = await settled(store, job)
        first, second = receiver.received
        assert (first.message_id, first.body) == (second.message_id, second.body)
        assert len(delivery.tries) == 2


SLOW = replace(with_finals(timeout=timedelta(seconds=30)), slow_after=milliseconds(200))


class NotCommitted:
    """A store whose majority does not have the ends of jobs yet."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.looked = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get(self, job_id: str) -> Job:
        self.looked.set()
        job = await self._store.get(job_id)
        return job.model_copy(update={"status": JobStatus.PROCESSING, "completed_at": None})


async def test_an_end_that_is_not_committed_yet_is_neither_sent_nor_looked_at_without_pause(
    store: Store, receiver: Receiver
) -> None:
    job = await ended(store, hook(receiver))
    waiting: Any = NotCommitted(store)
    async with sending(waiting, replace(FAST, poll_every=timedelta(hours=1))):
        await waiting.looked.wait()
    due_at = await store.next_event_due_at()
    assert due_at is not None and due_at > utc_now() + timedelta(minutes=30)
    (delivery,) = (await store.get(job.job_id)).deliveries
    assert (delivery.tried, receiver.received) == (0, [])


class TestReceiversThatProcessBeforeTheyRespond:
    """They take minutes for a final event, and processing it twice is expensive."""

    @pytest.mark.parametrize(
        "reply", [Reply(500, delay=0.4), Reply(504, delay=0.4), Reply(delay=0.4, reset=True)]
    )
    async def test_a_failure_after_a_while_is_retried_late(
        self, store: Store, receiver: Receiver, reply: Reply
    ) -> None:
        receiver.answer(reply)
        job = await ended(store, hook(receiver))
        async with sending(store, SLOW):
            delivery = await tried(store, job)
        assert delivery.next_try_at is not None
        assert delivery.next_try_at - utc_now() > timedelta(minutes=29)
        assert len(receiver.received) == 1

    async def test_so_is_a_request_that_timed_out(self, store: Store, receiver: Receiver) -> None:
        receiver.answer(HANG)
        job = await ended(store, hook(receiver))
        options = replace(SLOW, finals=replace(FINALS, timeout=milliseconds(400)))
        async with sending(store, options):
            delivery = await tried(store, job)
        assert delivery.tries[0].error == "timed out"
        assert delivery.next_try_at is not None
        assert delivery.next_try_at - utc_now() > timedelta(minutes=29)

    async def test_a_receiver_that_asks_for_a_retry_gets_it_when_it_says(
        self, store: Store, receiver: Receiver
    ) -> None:
        receiver.answer(Reply(503, {"Retry-After": "1"}, delay=0.4), 200)
        job = await ended(store, hook(receiver))
        async with sending(store, SLOW):
            delivery = await settled(store, job)
        assert [one.status for one in delivery.tries] == [503, 200]

    async def test_one_that_says_it_has_processed_the_event_does_not_get_it_again(
        self, store: Store, receiver: Receiver
    ) -> None:
        receiver.answer(Reply(500, body=b'{"status":"error","kind":"failed_ingestion"}'))
        job = await ended(store, hook(receiver))
        async with sending(store):
            delivery = await settled(store, job)
        assert (delivery.tried, delivery.tries[0].status, delivery.gave_up) == (1, 500, True)
        assert delivery.tries[0].error == "the receiver processed the event and failed"

    async def test_an_ignored_event_is_delivered(self, store: Store, receiver: Receiver) -> None:
        receiver.answer(Reply(body=b'{"status":"ignored","reason":"mismatched_process"}'))
        job = await ended(store, hook(receiver))
        async with sending(store):
            delivery = await settled(store, job)
        assert (delivery.tried, delivery.delivered_at is not None) == (1, True)

    async def test_the_event_is_not_repeated_while_a_restarted_sender_finds_it_open(
        self, store: Store, receiver: Receiver
    ) -> None:
        """A receiver goes on processing an event whose sender is gone."""
        receiver.answer(HANG)
        job = await ended(store, hook(receiver))
        async with sending(store, replace(SLOW, grace=milliseconds(10))):
            await receiver.wait_for(1)
        async with sending(store, SLOW):
            await asyncio.sleep(3 * FAST.lease.total_seconds())
        assert (len(receiver.received), (await store.get(job.job_id)).deliveries[0].tried) == (1, 0)

    async def test_nor_after_its_sender_was_killed(
        self, store: Store, store_url: str, receiver: Receiver
    ) -> None:
        receiver.answer(HANG)
        await ended(store, hook(receiver))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.integration.test_webhooks",
            store_url,
            "slow",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        await receiver.wait_for(1)
        await asyncio.sleep(SLOW.slow_after.total_seconds() + 1)
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
        async with sending(store):
            await asyncio.sleep(3 * FAST.lease.total_seconds())
        assert len(receiver.received) == 1

    async def test_meanwhile_other_jobs_of_the_endpoint_report_their_progress(
        self, store: Store, receiver: Receiver
    ) -> None:
        receiver.answer(HANG, path="/final")
        for _ in range(3):
            await ended(store, hook(receiver, "/final"))
        await claimed(store, webhook=hook(receiver, "/progress", events=None))
        options = replace(
            with_finals(timeout=timedelta(seconds=30), per_endpoint=2, in_flight=2),
            progress=replace(FINALS, per_endpoint=1, in_flight=1),
            heartbeat=milliseconds(100),
        )
        async with sending(store, options):
            await receiver.wait_for(2, path="/final")
            await receiver.wait_for(5, path="/progress")
        assert len(receiver.to("/final")) == 2

    async def test_and_failures_with_final_events_do_not_silence_them(
        self, store: Store, receiver: Receiver
    ) -> None:
        receiver.answer(500, path="/final")
        for _ in range(4):
            await ended(store, hook(receiver, "/final"))
        await claimed(store, webhook=hook(receiver, "/progress", events=None))
        breaker = BreakerOptions(failures=2, pause=timedelta(hours=1))
        options = replace(FAST, breaker=breaker, heartbeat=milliseconds(100))
        async with sending(store, options):
            await receiver.wait_for(2, path="/final")
            await receiver.wait_for(5, path="/progress")

    async def test_progress_in_flight_arrives_before_the_final_event_is_sent(
        self, store: Store, receiver: Receiver
    ) -> None:
        answered: list[float] = []
        receiver.on_request = lambda request: answered.append(time.monotonic() + 0.3)
        receiver.answer(Reply(delay=0.3), 200)
        job = await claimed(store, webhook=hook(receiver, events=None))
        limits = replace(FINALS, timeout=timedelta(seconds=30))
        options = replace(FAST, progress=limits, progress_grace=timedelta(seconds=5))
        async with sending(store, options) as sender:
            await receiver.wait_for(1)
            await store.finish(job, DONE)
            sender.wake(job.job_id)
            await settled(store, job)
        assert receiver.phases() == ["running", "completed"]
        assert receiver.received[1].at >= answered[0] - 0.02


class TestRepeatedSubmissions:
    async def test_the_client_gets_one_final_event_under_the_first_id_with_the_last_token(
        self, store: Store, receiver: Receiver
    ) -> None:
        """The job before it completes at the same moment: its event is written, but not sent."""
        first = Job(job_type="pdf", webhook=hook(receiver, token="T1", events=None))
        second = Job(job_type="pdf", webhook=hook(receiver, token="T2", events=None))
        await store.add([first], callback=CallbackKey("one", "a request"))
        (running,) = await claim(store)
        await store.add([second], callback=CallbackKey("one", "another request"))
        await store.finish(running, DONE)
        (running,) = await claim(store)
        await store.finish(running, DONE)
        async with sending(store):
            await settled(store, first)
            await settled(store, second)
        (request,) = receiver.received
        assert request.headers["x-callback-token"] == "T2"
        assert request.json["process"]["id"] == first.job_id
        assert request.json["job_id"] == second.job_id


class TestIsolation:
    async def test_a_slow_receiver_does_not_hold_up_another(
        self, store: Store, receiver: Receiver
    ) -> None:
        with Receiver().running() as slow:
            slow.answer(HANG)
            for _ in range(6):
                await ended(store, hook(slow))
            options = with_finals(timeout=timedelta(seconds=30), per_endpoint=2, in_flight=4)
            async with sending(store, options):
                await slow.wait_for(2)
                for n in range(20):
                    await settled(store, await ended(store, hook(receiver, f"/{n}")))
                assert len(slow.received) == 2

    async def test_a_dead_receiver_is_left_alone_and_costs_its_events_no_tries(
        self, store: Store, receiver: Receiver
    ) -> None:
        receiver.answer(500)
        jobs = [await ended(store, hook(receiver)) for _ in range(30)]
        breaker = BreakerOptions(failures=3, pause=timedelta(hours=1))
        options = replace(with_finals(per_endpoint=1), breaker=breaker)
        with Receiver().running() as other:
            async with sending(store, options):
                await receiver.wait_for(3)
                await settled(store, await ended(store, hook(other)))
        assert len(receiver.received) == 3
        tried = [(await store.get(job.job_id)).deliveries[0].tried for job in jobs]
        assert sum(tried) == 3

    async def test_a_receiver_that_recovers_gets_a_probe_and_then_everything(
        self, store: Store, receiver: Receiver
    ) -> None:
        receiver.answer(500, 500, 500, 200)
        jobs = [await ended(store, hook(receiver)) for _ in range(10)]
        breaker = BreakerOptions(failures=2, pause=milliseconds(100))
        async with sending(store, replace(with_finals(per_endpoint=1), breaker=breaker)):
            for job in jobs:
                assert (await settled(store, job)).delivered_at is not None
        times = [request.at for request in receiver.received]
        assert times[2] - times[1] >= 0.1 and times[3] - times[2] >= 0.2

    async def test_a_path_that_fails_does_not_hold_up_others_on_its_host(
        self, store: Store, receiver: Receiver
    ) -> None:
        broken = "/broken?job=1"
        receiver.answer(500, path=broken)
        for _ in range(5):
            await ended(store, hook(receiver, broken), user_id="ann")
        breaker = BreakerOptions(failures=3, pause=timedelta(hours=1))
        async with sending(store, replace(with_finals(per_endpoint=1), breaker=breaker)):
            await receiver.wait_for(3, path=broken)
            for user_id in ("ann", "bob"):
                job = await ended(store, hook(receiver), user_id=user_id)
                assert (await settled(store, job)).delivered_at is not None
        assert len(receiver.to(broken)) == 3

    async def test_a_url_that_fails_for_one_user_is_tried_for_the_others(
        self, store: Store, receiver: Receiver
    ) -> None:
        """Its breaker has opened; the probes do not all go to the oldest events."""
        receiver.answer(500, path="/hook?ann")
        for _ in range(20):
            await ended(store, hook(receiver, "/hook?ann"), user_id="ann")
        schedule = RetrySchedule(waits=(timedelta(), *(milliseconds(20),) * 10_000), jitter=0)
        pause = milliseconds(10)
        breaker = BreakerOptions(failures=3, pause=pause, max_pause=pause)
        options = replace(with_finals(per_endpoint=1), breaker=breaker, schedule=schedule)
        async with sending(store, options):
            await receiver.wait_for(4, path="/hook?ann")
            job = await ended(store, hook(receiver, "/hook?bob"), user_id="bob")
            assert (await settled(store, job)).delivered_at is not None

    async def test_a_host_that_is_not_there_is_paused_though_each_job_has_its_own_path(
        self, store: Store
    ) -> None:
        (port,) = free_ports(1)
        jobs = [await ended(store, Webhook(url=f"http://127.0.0.1:{port}/{n}")) for n in range(8)]
        breaker = BreakerOptions(failures=3, pause=timedelta(hours=1))
        options = replace(with_finals(per_endpoint=1, per_host=1), breaker=breaker)
        async with sending(store, options):
            async with asyncio.timeout(10):
                while await self._attempts(store, jobs) < 3:
                    await asyncio.sleep(0.01)
        assert await self._attempts(store, jobs) == 3

    async def _attempts(self, store: Store, jobs: list[Job]) -> int:
        return sum([(await store.get(job.job_id)).deliveries[-1].tried for job in jobs])


class TestProgress:
    async def test_a_running_job_sends_progress_events_and_then_its_outcome(
        self, store: Store, receiver: Receiver
    ) -> None:
        job = await claimed(store, webhook=hook(receiver, events=None))
        async with sending(store):
            await receiver.wait_for(1)
            for percent in range(100):
                await store.report(job, Progress(step="pages", percent=percent, message="…"))
                await asyncio.sleep(0.004)
            await store.finish(job, DONE)
            await settled(store, job)
        requests = receiver.received
        *open_ones, end = [request.json for request in requests]
        assert end["phase"] == "completed"
        assert {deliveries["phase"] for deliveries in open_ones} == {"running"}
        percents = [deliveries["percent"] for deliveries in open_ones]
        assert 2 < len(percents) <= 21
        assert all(later - earlier >= 5 for earlier, later in pairwise(percents))
        assert len({request.message_id for request in requests}) == len(requests)
        deliveries = (await store.get(job.job_id)).deliveries
        assert [(one.n, one.event) for one in deliveries] == [(1, "progress"), (2, "completed")]
        assert deliveries[0].tried == len(open_ones)
        gaps = [later.at - earlier.at for earlier, later in pairwise(deliveries[0].tries)]
        assert min(gaps) >= FAST.progress_every

    async def test_a_waiting_job_sends_heartbeats(self, store: Store, receiver: Receiver) -> None:
        await store.add([Job(webhook=hook(receiver, events=None))])
        async with sending(store, replace(FAST, heartbeat=milliseconds(100))):
            requests = await receiver.wait_for(4)
        assert set(receiver.phases()) == {"queued"}
        assert requests[0].json["status"] == "processing"
        assert requests[0].json["data"] == {"progress": 0}
        assert requests[1].at - requests[0].at >= 0.09

    async def test_the_end_does_not_wait_for_progress_that_hangs(
        self, store: Store, receiver: Receiver
    ) -> None:
        receiver.answer(HANG, 200)
        job = await claimed(store, webhook=hook(receiver, events=None))
        limits = replace(FINALS, timeout=timedelta(seconds=30))
        slow = replace(FAST, finals=limits, progress=limits)
        async with sending(store, slow) as sender:
            await receiver.wait_for(1)
            await store.finish(job, DONE)
            sender.wake(job.job_id)
            await settled(store, job)
        assert receiver.phases() == ["running", "completed"]

    async def test_progress_that_cannot_be_delivered_is_not_retried(
        self, store: Store, receiver: Receiver
    ) -> None:
        receiver.answer(500, 200)
        job = await claimed(store, webhook=hook(receiver, events=None))
        async with sending(store):
            await receiver.wait_for(1)
            await store.report(job, Progress(step="x", percent=50))
            await receiver.wait_for(2)
        assert [request.json["percent"] for request in receiver.received] == [0, 50]

    async def test_a_suspended_sender_does_not_send_outdated_progress(
        self, store: Store, receiver: Receiver
    ) -> None:
        """Another process may have delivered the final event in the meantime."""
        job = await claimed(store, webhook=hook(receiver, events=None))
        was_stopped = asyncio.Event()

        class Stopped:
            def __getattr__(self, name: str) -> Any:
                return getattr(store, name)

            async def get(self, job_id: str) -> Job:
                stored = await store.get(job_id)
                if not was_stopped.is_set():
                    was_stopped.set()
                    time.sleep(2 * FAST.lease.total_seconds())  # as SIGSTOP does
                return stored

        stopped: Any = Stopped()
        async with sending(stopped):
            await asyncio.wait_for(was_stopped.wait(), 10)
            await store.finish(job, DONE)
            await settled(store, job)
        assert receiver.phases() == ["completed"]

    async def test_events_of_one_job_come_in_order_through_failures_and_restarts(
        self, store: Store, receiver: Receiver
    ) -> None:
        receiver.answer(200, 500, 500, 200, 200, 500, 200)
        job = await claimed(store, webhook=hook(receiver, events=None))
        async with sending(store), sending(store):
            await receiver.wait_for(1)
            await store.finish(job, Failed(JobError(code="X", message="x")))
            await settled(store, job)
            await store.restart(JobQuery(job_id=job.job_id))
            await receiver.wait_for(5)
            (again,) = await claim(store)
            await store.finish(again, DONE)
            await settled(store, job)
        phases = receiver.phases()
        assert phases == ["running", "error", "error", "error", "queued", "completed", "completed"]


class TestTheRequest:
    async def test_it_is_signed_as_standard_webhooks_says(
        self, store: Store, receiver: Receiver
    ) -> None:
        job = await ended(store, hook(receiver, secret=SECRET), Completed({"text": "größe 😀"}))
        async with sending(store):
            await settled(store, job)
        (request,) = receiver.received
        verified = Verifier(SECRET).verify(request.body, dict(request.headers))
        assert verified["results"]["text"] == "größe 😀"

    async def test_token_headers_and_address_are_as_the_client_said(
        self, store: Store, receiver: Receiver
    ) -> None:
        webhook = hook(
            receiver,
            "/hook/{jobId}?x={jobId}",
            jobId="a/b c",
            token="t0ken",
            headers={"X-Own": "ärger", "Content-Type": "text/plain", "Webhook-Id": "forged"},
        )
        job = await ended(store, webhook)
        async with sending(store):
            delivery = await settled(store, job)
        (request,) = receiver.received
        assert request.path == "/hook/a%2Fb%20c?x=a%2Fb%20c"
        assert request.headers["authorization"] == "Bearer t0ken"
        assert request.headers["x-callback-token"] == "t0ken"
        assert request.headers["x-own"].encode("latin-1").decode() == "ärger"
        assert request.headers["content-type"] == "application/json"
        assert request.message_id == delivery.delivery_id
        assert "webhook-signature" not in request.headers
        assert "callback_token" not in request.json
        assert (request.json["jobId"], request.json["job"]) == ("a/b c", {"id": "a/b c"})
        assert request.json["process"]["id"] == request.json["job_id"] == job.job_id

    async def test_the_trace_of_the_request_goes_on_in_the_event(
        self, store: Store, receiver: Receiver
    ) -> None:
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        job = await ended(store, hook(receiver), traceparent=trace)
        async with sending(store):
            await settled(store, job)
        assert receiver.received[0].headers["traceparent"] == trace

    async def test_a_small_archive_comes_along_if_it_is_asked_for(
        self, store: Store, receiver: Receiver, tmp_path: Path
    ) -> None:
        job = await claimed(store, webhook=hook(receiver, include_archive=True))
        directory = Path(JobFiles(tmp_path).attempt_directory(job))
        directory.mkdir(parents=True)
        (directory / "all.zip").write_bytes(b"zip")
        await store.finish(job, Completed({"archive_filename": "all.zip"}))
        async with sending(store, files=tmp_path):
            await settled(store, job)
        data = receiver.received[0].json["data"]
        assert (data["archive_data"], data["archive_filename"]) == ("emlw", "all.zip")

    async def test_an_archive_that_nobody_asked_for_before_is_packed_for_it(
        self, store: Store, receiver: Receiver, tmp_path: Path
    ) -> None:
        job = await claimed(store, webhook=hook(receiver, include_archive=True))
        directory = Path(JobFiles(tmp_path).attempt_directory(job))
        directory.mkdir(parents=True)
        (directory / "page_001.txt").write_text("Hallo")
        (directory / "results.json").write_text('{"extracted_text": "Hallo"}')
        results = {"archive_filename": "all.zip", "more_in": "results.json"}
        await store.finish(job, Completed(results))
        async with sending(store, files=tmp_path):
            await settled(store, job)
        data = receiver.received[0].json["data"]
        packed = zipfile.ZipFile(io.BytesIO(base64.b64decode(data["archive_data"])))
        assert packed.namelist() == ["page_001.txt"]
        assert data["extracted_text"] == "Hallo"

    async def test_no_secret_is_ever_shown(
        self, store: Store, receiver: Receiver, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        caplog.set_level(logging.WARNING, "pymongo")  # as logs.set_up does
        webhook = hook(receiver, secret="S3CRET", token="S3CRET", headers={"X-Key": "S3CRET"})
        receiver.answer(500, RESET, 200)
        job = await ended(store, webhook)
        async with sending(store):
            await settled(store, job)
        stored = await store.get(job.job_id)
        assert "S3CRET" not in str(stored.document())
        assert "S3CRET" not in str(stored.deliveries)
        assert "S3CRET" not in receiver.received[0].body.decode()
        shown = [record for record in caplog.records if "S3CRET" in record.getMessage()]
        assert [record.name for record in shown] == []


async def _send_until_killed(url: str, options: SenderOptions) -> None:
    store = open_store(url)
    await store.open()
    async with sending(store, options):
        await asyncio.sleep(60)


if __name__ == "__main__":
    slow = sys.argv[2:] == ["slow"]
    options = SLOW if slow else with_finals(timeout=timedelta(seconds=60))
    asyncio.run(_send_until_killed(sys.argv[1], options))
