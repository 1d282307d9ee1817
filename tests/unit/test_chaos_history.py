"""The checker of `make chaos` detects every kind of broken guarantee in a made-up history."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from secretary.core.job import Attempt, Batch, Delivery, Job, JobError, JobStatus, LogEntry

from ..acceptance.service import ROOT
from ..chaos import fault_plan
from ..chaos.clock import VARIABLE, Clock
from ..chaos.cluster import CLOCKED
from ..chaos.history import Accepted, AcceptedBatch, History, Sighting, broken_promises
from ..chaos.receivers import ReceivedEvent
from ..chaos.report import recoveries
from ..chaos.run import INJECTORS

NOON = datetime(2031, 5, 9, 12, tzinfo=UTC)


def seconds(number: float) -> datetime:
    return NOON + timedelta(seconds=number)


ATTEMPTS = (
    Attempt(attempt=1, worker_id="a", started_at=seconds(0), ended_at=seconds(2)),
    Attempt(attempt=2, worker_id="b", started_at=seconds(3), ended_at=seconds(5)),
)
RECEIVED = Delivery(
    n=1, delivery_id="msg_1", event="completed", created_at=NOON, delivered_at=NOON, tried=1
)
DONE = Job(
    job_id="job-1",
    job_type="chaos",
    batch_id="batch-1",
    status=JobStatus.COMPLETED,
    completed_at=seconds(5),
    attempt=2,
    attempts=ATTEMPTS,
    results={"attempt": 2},
    logs=(LogEntry(message="attempt 1"), LogEntry(message="attempt 2")),
    deliveries=(RECEIVED,),
)
LIFE = {1: [("start", 0.0), ("beat", 2.0)], 2: [("start", 3.0), ("end", 5.0)]}
BATCH = Batch(batch_id="batch-1", completed_at=seconds(5), counts={JobStatus.COMPLETED: 1})
END = ReceivedEvent(
    "/1", "msg_1", True, {"phase": "completed", "status": "completed", "job_id": "job-1"}
)
PROGRESS = replace(END, document={"phase": "running", "status": "processing", "job_id": "job-1"})
FAILED = {
    "status": JobStatus.FAILED,
    "results": None,
    "error": JobError(code="WORKER_CRASHED", message="died"),
}


LOST = JobError(code="WORKER_CRASHED", message="lost", details={"worker_id": "b", "losses": 4})


def history(**changed: Any) -> History:
    whole = {
        "max_crashes": 2,
        "accepted": [Accepted("job-1", "chaos", "/1")],
        "batches": [AcceptedBatch("batch-1", ("job-1",))],
        "jobs": {"job-1": DONE},
        "stored_batches": {"batch-1": BATCH},
        "stored_jobs": 1,
        "sightings": {"job-1": Sighting("completed", 2, str(seconds(5)))},
        "lives": {"job-1": LIFE},
        "received_events": [PROGRESS, END],
    }
    return History(**{**whole, **changed})


def of_job(**changed: Any) -> dict[str, Any]:
    """The same with a changed job that was not seen before."""
    return {"jobs": {"job-1": DONE.model_copy(update=changed)}, "sightings": {}}


def received(*events: ReceivedEvent) -> dict[str, Any]:
    return {"received_events": list(events)}


def batch(**changed: Any) -> dict[str, Any]:
    return {"stored_batches": {"batch-1": BATCH.model_copy(update=changed)}}


def life(**attempts: list[tuple[str, float]]) -> dict[str, Any]:
    return {"lives": {"job-1": {int(name[1:]): events for name, events in attempts.items()}}}


def test_a_good_history_breaks_no_promise() -> None:
    assert broken_promises(history()) == []


def test_an_end_delivered_twice_with_one_id_is_as_promised() -> None:
    assert broken_promises(history(**received(PROGRESS, END, END))) == []


def test_a_job_that_took_its_process_down_too_often_may_fail() -> None:
    failed = of_job(
        **FAILED, crashes=2, deliveries=(RECEIVED.model_copy(update={"event": "error"}),)
    )
    end = replace(END, document={**END.document, "phase": "error", "status": "error"})
    counts = batch(counts={JobStatus.FAILED: 1})
    assert broken_promises(history(**failed, **received(end), **counts)) == []


def test_a_clock_that_was_set_back_excuses_times_out_of_order() -> None:
    late = (ATTEMPTS[0].model_copy(update={"ended_at": seconds(10)}), ATTEMPTS[1])
    assert broken_promises(history(**of_job(attempts=late), clock_went_back=8.0)) == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"jobs": {}, "stored_jobs": 0}, "job-1 (chaos) was accepted and is lost"),
        ({"stored_jobs": 2}, "1 jobs were accepted, 2 are stored"),
        ({"accepted": [Accepted("job-1", "chaos", "/1")] * 2}, "job-1 was given to 2 orders"),
        (of_job(status=JobStatus.PROCESSING, completed_at=None), "did not end: it is processing"),
        (of_job(**FAILED, crashes=1), "is failed without cause, after 1 crashes"),
        (
            of_job(**FAILED | {"error": LOST}, crashes=2, losses=4),
            "was failed because 4 workers were lost",
        ),
        (of_job(status=JobStatus.CANCELLED), "is cancelled without cause"),
        (of_job(error=FAILED["error"]), "is completed and has an error"),
        (of_job(results={"attempt": 1}), "ended with attempt 2 and has the results"),
        (of_job(attempts=ATTEMPTS[::-1]), "has attempts that do not grow"),
        (
            of_job(attempts=(ATTEMPTS[0].model_copy(update={"ended_at": None}), ATTEMPTS[1])),
            "attempt 1 overlaps 2 on paper",
        ),
        (
            of_job(logs=(LogEntry(message="attempt 2"), LogEntry(message="attempt 1"))),
            "has a log in which an old attempt wrote",
        ),
        (life(a1=LIFE[1], a2=[("start", 3.0)]), "is completed, but its work did not end"),
        (
            life(a1=[("start", 0.0), ("beat", 3.5)], a2=LIFE[2]),
            "attempt 1 still ran 0.50 s into attempt 2",
        ),
        (
            {"sightings": {"job-1": Sighting("failed", 1, str(seconds(2)))}},
            "had ended as Sighting(status='failed'",
        ),
        ({"wrong_results": {"job-1": ["has no text"]}}, "job-1 (chaos) has no text"),
        (received(PROGRESS), "ended, but no webhook was sent"),
        (received(replace(END, is_signed=False)), "/1 received an unsigned event"),
        (
            received(replace(END, document={**END.document, "status": "error"})),
            "is completed, but was reported as ['error']",
        ),
        (received(END, replace(END, message_id="msg_2")), "was delivered with several ids"),
        (received(END, PROGRESS), "was reported as running after its end"),
        (received(PROGRESS, replace(END, at=99.0)), "was first reported 94 s after its end"),
        (of_job(deliveries=()), "has 0 deliveries of its end"),
        (of_job(deliveries=(RECEIVED, RECEIVED)), "has 2 deliveries of its end"),
        (
            of_job(deliveries=(RECEIVED.model_copy(update={"delivered_at": None}),)),
            "was delivered, but the delivery is not recorded",
        ),
        (
            {"accepted": [Accepted("job-1", "chaos")], "received_events": []},
            "has 1 deliveries, and no webhook",
        ),
        ({"stored_batches": {}}, "batch-1 was accepted and is lost"),
        (batch(counts={JobStatus.COMPLETED: 2}), "batch-1 counts"),
        (batch(completed_at=None), "batch-1 has not ended"),
        ({"left": ["jobs/job-1/1.scratch is left"]}, "1.scratch is left"),
    ],
)
def test_a_broken_promise_is_found(changed: Mapping[str, Any], message: str) -> None:
    assert any(message in text for text in broken_promises(history(**changed)))


def test_the_end_of_a_batch_is_delivered_separately_from_those_of_its_jobs() -> None:
    batches = [AcceptedBatch("batch-1", ("job-1",), "/batch")]
    delivery = RECEIVED.model_copy(update={"delivery_id": "msg_9"})
    of_a_job = replace(END, path="/batch", document={**END.document, "batch_id": "batch-1"})
    given = {"batches": batches, **batch(deliveries=(delivery,))}
    assert any(
        text.startswith("batch-1 ended, but no webhook was sent")
        for text in broken_promises(history(**given, **received(PROGRESS, END, of_a_job)))
    )
    document = {"phase": "completed", "status": "completed", "job_id": None, "batch_id": "batch-1"}
    of_the_batch = ReceivedEvent("/batch", "msg_9", True, document)
    assert broken_promises(history(**given, **received(PROGRESS, END, of_the_batch))) == []


def test_of_a_batch_that_was_restarted_the_last_end_counts() -> None:
    churned = {
        "accepted": [Accepted("job-1", "churn")],
        "batches": [AcceptedBatch("batch-1", ("job-1",), "/batch", is_churned=True)],
        **of_job(status=JobStatus.CANCELLED, deliveries=()),
        "sightings": {"job-1": Sighting("completed", 1, str(seconds(2)))},
    }
    first, last = (
        RECEIVED.model_copy(update={"n": n, "delivery_id": f"msg_{n}", "event": event})
        for n, event in ((1, "completed"), (2, "error"))
    )
    failed = {"counts": {JobStatus.CANCELLED: 1}, "deliveries": (first, last)}
    document = {"phase": "error", "status": "error", "job_id": None, "batch_id": "batch-1"}
    end = ReceivedEvent("/batch", "msg_2", True, document)
    earlier = replace(end, message_id="msg_1", document={**document, "status": "completed"})
    given = churned | batch(**failed)
    assert broken_promises(history(**given, **received(earlier, end))) == []
    assert any(
        text.startswith("batch-1 ended, but no webhook was sent")
        for text in broken_promises(history(**given, **received(earlier)))
    )
    assert any(
        text.startswith("batch-1 counts")
        for text in broken_promises(
            history(**churned, **batch(**failed | {"counts": {}}), **received(end))
        )
    )


def test_the_same_seed_gives_the_same_faults_and_another_gives_others() -> None:
    first = fault_plan.faults(7, 600, "sqlite")
    assert first == fault_plan.faults(7, 600, "sqlite")
    assert first != fault_plan.faults(8, 600, "sqlite")


@pytest.mark.parametrize("store", ["sqlite", "mongodb"])
def test_every_kind_of_fault_comes_and_can_be_done(store: str) -> None:
    planned = fault_plan.faults(1, 600, store)
    drawn = {fault.kind for faults in planned.values() for fault in faults}
    streams = [*fault_plan.STREAMS.values(), fault_plan.STORE_FAULTS[store]]
    assert drawn == {kind for stream in streams for kind in stream.kinds}
    assert drawn <= set(INJECTORS)


def test_every_process_of_a_run_lives_by_its_clock(tmp_path: Path) -> None:
    clock = Clock(tmp_path / "clock")
    clock.step(7200)
    clock.step(-3600)
    program = (
        "import time; from secretary.core.job import utc_now;"
        "print(time.time(), time.time_ns() / 1e9, utc_now().timestamp(), time.monotonic())"
    )
    env = {
        **os.environ,
        VARIABLE: str(clock.file),
        "PYTHONPATH": f"{CLOCKED}:{ROOT / 'src'}:{ROOT}",
    }
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, timeout=60)
    *wall, monotonic = map(float, done.stdout.split())
    assert wall == pytest.approx([time.time() + 3600] * 3, abs=60)
    assert monotonic == pytest.approx(time.monotonic(), abs=60)
    assert clock.went_back == 3600


def test_a_recovery_is_counted_from_where_work_broke_off_and_not_from_where_it_failed() -> None:
    failed_on_purpose = {1: [("start", 0.0), ("failure", 1.0)], 2: [("start", 11.0), ("end", 12.0)]}
    assert recoveries({"job-1": LIFE, "job-2": failed_on_purpose}) == [1.0]
