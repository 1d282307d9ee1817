"""Chaos: workers are killed, stopped and drained at random while jobs run; then every job's
history is checked. `python -m tests.chaos --store sqlite --seconds 600 --seed 7`."""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from secretary.errors import StoreUnavailable
from secretary.job import FINAL, Batch, Job, JobStatus, Webhook
from secretary.store import JobQuery, JobStore, open_store

from .mongod import Mongod

ROOT = Path(__file__).parents[1]
WORKERS = 3
SETTLE_SECONDS = 120
HOOK = Webhook(url="https://example.org/hook")


@dataclass
class Report:
    seed: int
    faults: Counter[str] = field(default_factory=Counter)
    accepted: list[str] = field(default_factory=list)
    batches: list[str] = field(default_factory=list)
    refused: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    attempts: int = 0
    broken: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {len(self.accepted)} jobs in {len(self.batches)} batches, "
            f"{self.attempts} attempts, faults {dict(self.faults)}, ended {dict(self.outcomes)}, "
            f"{self.refused} submissions refused while the store was away, "
            f"{len(self.broken)} promises broken"
        )


class WorkerProcess:
    """A worker as its users start it, and a way to hurt it."""

    def __init__(self, environment: dict[str, str], log: Path) -> None:
        self._environment = environment
        self._log = log
        self._start()

    def _start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "secretary", "worker"],
                env=self._environment,
                cwd=ROOT,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    async def kill(self, _: random.Random) -> None:
        self._process.kill()
        await asyncio.to_thread(self._process.wait)
        self._start()

    async def stop_for_a_while(self, dice: random.Random) -> None:
        self._process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(dice.uniform(0.5, 16))
        self._process.send_signal(signal.SIGCONT)

    async def drain(self, dice: random.Random) -> None:
        self._process.terminate()
        if dice.random() < 0.5:
            self._process.terminate()
        await asyncio.to_thread(self._process.wait)
        self._start()

    def end(self) -> None:
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise


async def run(
    url: str,
    directory: Path,
    *,
    seconds: float,
    seed: int,
    restart_store: Callable[[], None] | None,
) -> Report:
    report = Report(seed)
    dice = random.Random(seed)
    journal = directory / "journal"
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "SECRETARY_HANDLERS": "tests.chaos_handlers:register",
        "SECRETARY_STORAGE__DATA_DIR": str(directory),
        "SECRETARY_GENERIC_WORKER__SHUTDOWN_GRACE_SEC": "2",
    }
    if url.startswith("mongodb"):
        environment["MONGODB_URI"] = url
    else:
        environment.pop("MONGODB_URI", None)
    store = open_store(url)
    await store.open()
    workers = [WorkerProcess(environment, directory / f"worker-{n}.log") for n in range(WORKERS)]
    try:
        deadline = time.monotonic() + seconds
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_submit(store, report, journal, dice, deadline))
            for worker in workers:
                tasks.create_task(_hurt(worker, report, random.Random(dice.random()), deadline))
            if restart_store is not None:
                tasks.create_task(_restart(restart_store, report, dice, seconds, deadline))
        await _settle(store, report)
        await _check(store, report, journal)
    finally:
        for worker in workers:
            worker.end()
        await store.close()
    return report


async def _submit(
    store: JobStore, report: Report, journal: Path, dice: random.Random, deadline: float
) -> None:
    while time.monotonic() < deadline:
        batch = Batch(webhook=HOOK if dice.random() < 0.5 else None)
        jobs = [_job(journal, batch, dice) for _ in range(dice.randint(1, 5))]
        try:
            await store.add(jobs, batch=batch)
        except StoreUnavailable:  # not accepted: the client knows
            report.refused += 1
        else:
            report.accepted += [job.job_id for job in jobs]
            report.batches.append(batch.batch_id)
        await asyncio.sleep(dice.uniform(0.1, 0.8))


def _job(journal: Path, batch: Batch, dice: random.Random) -> Job:
    parameters = {
        "journal": str(journal),
        "seconds": 12.0 if dice.random() < 0.03 else dice.choice([0.0, 0.1, 0.5, 1.0, 3.0]),
        "blocking": dice.random() < 0.3,
        "fails": 1 if dice.random() < 0.1 else 0,
    }
    hook = HOOK if dice.random() < 0.5 else None
    user = dice.choice([None, "ann", "bob"])
    return Job(
        job_type="chaos", parameters=parameters, batch_id=batch.batch_id, webhook=hook, user_id=user
    )


async def _hurt(
    worker: WorkerProcess, report: Report, dice: random.Random, deadline: float
) -> None:
    await asyncio.sleep(dice.uniform(2, 6))
    while time.monotonic() < deadline:
        fault = dice.choice([worker.kill, worker.kill, worker.stop_for_a_while, worker.drain])
        report.faults[fault.__name__] += 1
        await fault(dice)
        await asyncio.sleep(dice.uniform(2, 8))


async def _restart(
    restart: Callable[[], None],
    report: Report,
    dice: random.Random,
    seconds: float,
    deadline: float,
) -> None:
    while time.monotonic() + seconds / 4 < deadline:
        await asyncio.sleep(dice.uniform(seconds / 4, seconds / 2))
        report.faults["restart_store"] += 1
        await asyncio.to_thread(restart)


async def _settle(store: JobStore, report: Report) -> None:
    """Wait until every accepted job has ended."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < deadline:
        counts = (await store.counts()).get("chaos", {})
        if not any(counts.get(status) for status in JobStatus if status not in FINAL):
            return
        await asyncio.sleep(0.5)
    report.broken.append(f"jobs did not end within {SETTLE_SECONDS} s: {counts}")


async def _check(store: JobStore, report: Report, journal: Path) -> None:
    text = await asyncio.to_thread(journal.read_text)
    lines = [json.loads(line) for line in text.splitlines()]
    lives: dict[str, dict[int, list[tuple[str, float]]]] = {}
    for job_id, attempt, event, at, _ in lines:
        lives.setdefault(job_id, {}).setdefault(attempt, []).append((event, at))
    stored = Counter[str]()
    for job_id in report.accepted:
        job = await store.get(job_id)
        stored[job.batch_id or ""] += 1
        report.outcomes[job.error.code if job.error else job.status] += 1
        report.attempts += len(job.attempts)
        report.broken += faults_of(job, lives.get(job_id, {}))
    for batch_id in report.batches:
        report.broken += await _faults_of_batch(store, batch_id, stored[batch_id])
    everything = sum((await store.counts()).get("chaos", {}).values())
    if everything < len(report.accepted):
        report.broken.append(f"{len(report.accepted)} accepted, {everything} stored")


def faults_of(job: Job, lives: dict[int, list[tuple[str, float]]]) -> list[str]:
    wrong: list[str] = []
    if job.status not in FINAL or job.completed_at is None:
        wrong.append(f"is {job.status}")
    if job.status is JobStatus.FAILED and job.crashes < 2:
        wrong.append(f"failed without cause: {job.error}")
    if job.status is JobStatus.COMPLETED and job.results != {"attempt": job.attempt}:
        wrong.append(f"attempt {job.attempt} has the results {job.results}")
    if job.status is JobStatus.COMPLETED and not _ended(lives.get(job.attempt, [])):
        wrong.append("is completed, but its work did not end")
    for before, after in zip(job.attempts, job.attempts[1:], strict=False):
        if before.ended_at is None or before.ended_at > after.started_at:
            wrong.append(f"attempt {before.attempt} overlaps {after.attempt} on paper")
        if before.attempt >= after.attempt:
            wrong.append("attempts do not grow")
    for attempt, following in zip(sorted(lives), sorted(lives)[1:], strict=False):
        lived_until = max(at for _, at in lives[attempt])
        started = min(at for _, at in lives[following])
        if lived_until > started:
            late = lived_until - started
            wrong.append(f"attempt {attempt} still ran {late:.2f} s into attempt {following}")
    logged = [int(entry.message.split()[1]) for entry in job.logs if entry.level == "info"]
    if logged != sorted(logged):
        wrong.append(f"an old attempt wrote to the log: {logged}")
    ends = [delivery for delivery in job.deliveries if delivery.event != "progress"]
    if len(ends) != (1 if job.webhook else 0):
        wrong.append(f"has {len(ends)} deliveries of its end")
    return [f"{job.job_id} {text}" for text in wrong]


def _ended(life: list[tuple[str, float]]) -> bool:
    return any(event == "end" for event, _ in life)


async def _faults_of_batch(store: JobStore, batch_id: str, accepted: int) -> list[str]:
    await store.tidy()
    batch = await store.get_batch(batch_id)
    jobs = (await store.find(JobQuery(batch_id=batch_id))).items
    wrong = []
    counted = {status: n for status, n in batch.counts.items() if n}
    if counted != Counter(job.status for job in jobs) or batch.total_jobs != accepted:
        wrong.append(f"counts {counted} of {accepted} jobs")
    if batch.completed_at is None:
        wrong.append("has not ended")
    if len(batch.deliveries) != (1 if batch.webhook else 0):
        wrong.append(f"has {len(batch.deliveries)} deliveries")
    return [f"{batch_id} {text}" for text in wrong]


def chaos_on_sqlite(directory: Path, *, seconds: float, seed: int) -> Report:
    url = f"sqlite://{directory}/secretary.db"
    return asyncio.run(run(url, directory, seconds=seconds, seed=seed, restart_store=None))


def chaos_on_mongodb(directory: Path, *, seconds: float, seed: int) -> Report:
    data = directory / "mongod"
    data.mkdir()
    server = Mongod(data)
    server.start()
    try:
        url = server.url("chaos")
        arguments: dict[str, Any] = {"seconds": seconds, "seed": seed}
        return asyncio.run(run(url, directory, restart_store=server.restart, **arguments))
    finally:
        server.stop()


STORES = {"sqlite": chaos_on_sqlite, "mongodb": chaos_on_mongodb}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=STORES, action="append")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    broken = 0
    for name in options.store or STORES:
        with tempfile.TemporaryDirectory() as directory:
            report = STORES[name](Path(directory), seconds=options.seconds, seed=options.seed)
        print(f"{name}: {report}", *report.broken, sep="\n  ", flush=True)
        broken += len(report.broken)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
