"""Jobs of a batch that are added, claimed, finished, cancelled, restarted, lost and rescued in any
order, compared with a model of what must be true at any time."""

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from secretary.core.errors import LeaseLost
from secretary.core.job import (
    FINAL_STATUSES,
    MAX_ATTEMPTS_KEPT,
    Batch,
    Cancelled,
    Completed,
    Failed,
    Job,
    JobError,
    JobStatus,
    LogEntry,
    Outcome,
    Progress,
    Released,
    utc_now,
)
from secretary.store import JobQuery, Store, open_store

from .factories import LAPSED, LEASE, claim, worker

T = TypeVar("T")

ERROR = JobError(code="FILE_CORRUPT", message="It is damaged")
OUTCOMES: dict[str, Outcome] = {
    "completed": Completed({"n": 1}),
    "failed": Failed(ERROR),
    "tried again": Failed(ERROR, retry_at=utc_now() - timedelta(seconds=1)),
    "crashed": Failed(ERROR, crashed=True),
    "cancelled": Cancelled(),
    "released": Released(),
}
#: The resulting state of a job.
STATES = {
    "completed": JobStatus.COMPLETED,
    "failed": JobStatus.FAILED,
    "crashed": JobStatus.FAILED,
    "cancelled": JobStatus.CANCELLED,
    "tried again": JobStatus.PENDING,
    "released": JobStatus.PENDING,
}
WORKERS = ("w-1", "w-2")


class History(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="history_"))
        self.runner = asyncio.Runner()
        self.store: Store = open_store(f"sqlite://{self.directory}/jobs.db")
        self.do(self.store.open())
        self.batch = Batch()
        first = Job(job_type="pdf", batch_id=self.batch.batch_id)
        self.do(self.store.add([first], batch=self.batch))
        #: What each job must be, by ID; valid claims, and lost claims.
        self.states: dict[str, JobStatus] = {first.job_id: JobStatus.PENDING}
        self.batched = {first.job_id}
        self.held: dict[str, tuple[str, Job]] = {}
        self.lost: list[Job] = []
        self.attempts: Counter[str] = Counter()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def teardown(self) -> None:
        self.do(self.store.close())
        self.runner.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    @rule(job_type=st.sampled_from(("pdf", "audio")), priority=st.integers(-1, 1))
    def a_job_is_added(self, job_type: str, priority: int) -> None:
        job = Job(job_type=job_type, priority=priority)
        self.do(self.store.add([job]))
        self.states[job.job_id] = JobStatus.PENDING

    @rule(worker_id=st.sampled_from(WORKERS), slots=st.integers(1, 3))
    def a_worker_claims(self, worker_id: str, slots: int) -> None:
        waiting = self.in_state(JobStatus.PENDING)
        for job in self.do(claim(self.store, worker_id, slots=slots)):
            assert job.job_id in waiting, "only pending jobs are claimed"
            self.attempts[job.job_id] += 1
            assert job.attempt == self.attempts[job.job_id]
            self.states[job.job_id] = JobStatus.PROCESSING
            self.held[job.job_id] = (worker_id, job)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), how=st.sampled_from(sorted(OUTCOMES)))
    def a_job_ends(self, data: st.DataObject, how: str) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.held)))
        _, job = self.held.pop(job_id)
        was_asked = self.do(self.store.get(job_id)).cancel_requested
        self.do(self.store.finish(job, OUTCOMES[how]))
        goes_on = STATES[how] == JobStatus.PENDING
        self.states[job_id] = JobStatus.CANCELLED if goes_on and was_asked else STATES[how]
        self.lost.append(job)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), percent=st.integers(0, 100))
    def a_job_reports(self, data: st.DataObject, percent: int) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.held)))
        before = self.do(self.store.get(job_id)).progress.percent
        progress = Progress(step="s", percent=percent)
        self.do(self.store.report(self.held[job_id][1], progress, [LogEntry(message="x")]))
        after = self.do(self.store.get(job_id)).progress.percent
        assert after == max(before, percent), "progress never goes backwards"

    @precondition(lambda self: self.lost)
    @rule(data=st.data())
    def who_lost_a_job_writes(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(self.lost))
        with pytest.raises(LeaseLost):
            self.do(self.store.report(job, Progress(percent=99)))
        with pytest.raises(LeaseLost):
            self.do(self.store.finish(job, Completed({"late": True})))

    @rule(data=st.data())
    def a_job_is_cancelled(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.states)))
        self.do(self.store.cancel(JobQuery(job_id=job_id)))
        if self.states[job_id] is JobStatus.PENDING:
            self.states[job_id] = JobStatus.CANCELLED

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def a_running_job_is_to_be_cancelled(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.held)))
        self.do(self.store.cancel(JobQuery(job_id=job_id)))
        worker_id, _ = self.held[job_id]
        assert job_id in self.do(self.store.renew(worker_id, LEASE)).cancelled

    @rule(data=st.data())
    def a_job_is_restarted(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.states)))
        changed = self.do(self.store.restart(JobQuery(job_id=job_id)))
        assert changed == ([job_id] if self.states[job_id] in FINAL_STATUSES else [])
        if changed:
            self.states[job_id] = JobStatus.PENDING
            job = self.do(self.store.get(job_id))
            assert (job.results, job.error, job.progress.percent) == (None, None, 0)

    @rule(worker_id=st.sampled_from(WORKERS), returns=st.booleans())
    def a_worker_vanishes(self, worker_id: str, returns: bool) -> None:
        self.do(self.store.register_worker(worker(worker_id), LAPSED))
        rescued = self.do(self.store.rescue())
        gone = {job_id for job_id, (owner, _) in self.held.items() if owner == worker_id}
        assert {one.job_id for one in rescued} == gone
        for one in rescued:
            self.lost.append(self.held.pop(one.job_id)[1])
            job = self.do(self.store.get(one.job_id))
            assert one.failed == (job.status is JobStatus.FAILED)
            assert one.cancelled == (job.status is JobStatus.CANCELLED)
            assert job.status is not JobStatus.PROCESSING
            assert one.suspect == (job.group_size is not None)
            self.states[one.job_id] = job.status
        survived = [(one.job_id, one.attempt) for one in rescued] if returns else []
        self.do(self.store.register_worker(worker(worker_id), LEASE, survived=survived))
        for job_id, _ in survived:
            job = self.do(self.store.get(job_id))
            assert job.status is not JobStatus.PENDING or not (job.losses or job.group_size)

    @rule(active=st.booleans())
    def the_batch_is_switched(self, active: bool) -> None:
        self.do(self.store.change_batch(self.batch.batch_id, is_active=active))

    @rule(data=st.data())
    def a_job_is_deleted(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.states)))
        deleted = self.do(self.store.delete(JobQuery(job_id=job_id)))
        assert deleted == ([job_id] if self.states[job_id] in FINAL_STATUSES else [])
        if deleted and len(self.states) > 1:
            del self.states[job_id]
            self.batched.discard(job_id)
        elif deleted:
            job = Job(job_type="pdf")
            self.do(self.store.add([job]))
            self.states = {job.job_id: JobStatus.PENDING}
            self.batched.clear()

    @invariant()
    def the_store_agrees(self) -> None:
        jobs = self.do(self.store.find(JobQuery(limit=1000))).items
        assert {job.job_id: job.status for job in jobs} == self.states
        for job in jobs:
            assert (job.completed_at is not None) == (job.status in FINAL_STATUSES)
            assert len(job.attempts) <= MAX_ATTEMPTS_KEPT + 1
            assert job.attempt == self.attempts[job.job_id]
            assert job.status is not JobStatus.COMPLETED or job.error is None

    @invariant()
    def counters_agree(self) -> None:
        by_type = self.do(self.store.counts())
        counted = Counter[JobStatus]()
        for counts in by_type.values():
            counted.update(counts)
        assert +counted == Counter(self.states.values())
        batch = self.do(self.store.get_batch(self.batch.batch_id))
        theirs = Counter(self.states[job_id] for job_id in self.batched)
        assert +Counter(dict(batch.counts)) == theirs

    @invariant()
    def busy_slots_agree(self) -> None:
        busy = self.do(self.store.busy_slots())
        per_worker = {worker_id: sum(by_type.values()) for worker_id, by_type in busy.items()}
        assert per_worker == Counter(owner for owner, _ in self.held.values())

    def in_state(self, status: JobStatus) -> set[str]:
        return {job_id for job_id, one in self.states.items() if one is status}


TestHistory = History.TestCase
TestHistory.settings = settings(max_examples=15, stateful_step_count=25)
