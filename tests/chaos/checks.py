"""Checks what a run has left: jobs in the store, results from the API, files on disk."""

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import httpx

from secretary.core.errors import NotFound, StoreUnavailable
from secretary.core.job import FINAL_STATUSES, Batch, Job, JobStatus
from secretary.storage.blob_store import BlobStore
from secretary.store import Store

from .client import Book
from .history import Lives, Sighting
from .workload import Check

LOOK_EVERY = 0.5


async def watch(store: Store, book: Book, seen: dict[str, Sighting], stop: asyncio.Event) -> None:
    """Record each job as it was when it was first seen finished."""
    while not stop.is_set():
        for one in list(book.jobs):
            if one.job_id in seen:
                continue
            try:
                job = await store.get(one.job_id)
            except (StoreUnavailable, NotFound):  # checked again at the end
                break
            if job.status in FINAL_STATUSES:
                seen[one.job_id] = Sighting(job.status, job.attempt, str(job.completed_at))
        await asyncio.sleep(LOOK_EVERY)


async def open_jobs(store: Store) -> dict[str, int]:
    """The number of unfinished jobs, by type."""
    open_counts = {
        kind: sum(count for status, count in counts.items() if status not in FINAL_STATUSES)
        for kind, counts in (await store.counts()).items()
    }
    return {kind: count for kind, count in open_counts.items() if count}


async def stored(store: Store, ids: Iterable[str]) -> dict[str, Job]:
    jobs = {}
    for job_id in ids:
        try:
            jobs[job_id] = await store.get(job_id)
        except NotFound:
            continue
    return jobs


async def stored_batches(store: Store, ids: Iterable[str]) -> dict[str, Batch]:
    await store.tidy()
    batches = {}
    for batch_id in ids:
        try:
            batches[batch_id] = await store.get_batch(batch_id)
        except NotFound:
            continue
    return batches


async def wrong_results(
    url: str, jobs: Mapping[str, Job], checks: Mapping[str, Check]
) -> dict[str, list[str]]:
    """Checks completed jobs as clients see them: the results, and that their files are served."""
    wrong = {}
    async with httpx.AsyncClient(base_url=url, timeout=30, trust_env=False) as client:
        for job_id, job in jobs.items():
            if job.status is JobStatus.COMPLETED and job.job_type != "chaos":
                wrong[job_id] = await _wrong(client, job_id, checks[job_id])
    return wrong


async def _wrong(client: httpx.AsyncClient, job_id: str, check: Check) -> list[str]:
    response = await client.get(f"/api/jobs/{job_id}")
    if response.status_code != 200:
        return [f"is answered with {response.status_code}: {response.text[:200]}"]
    results = response.json()["data"]["results"]
    problems = [f"has wrong results: {fault}" for fault in check(results)]
    for file in _files_in(results):
        response = await client.get(file)
        if response.status_code != 200:
            problems.append(f"names {file}, which is answered with {response.status_code}")
        elif not response.content:
            problems.append(f"names {file}, which is empty")
    return problems


def _files_in(value: Any) -> set[str]:
    """URLs of files anywhere in the results."""
    if isinstance(value, str):
        return {value} if re.match(r"/api/\S+$", value) else set()
    if isinstance(value, Mapping):
        value = list(value.values())
    return set().union(*map(_files_in, value)) if isinstance(value, list) else set()


def lives(journal: Path) -> dict[str, Lives]:
    """What the handlers recorded, by job."""
    by_job: dict[str, dict[int, list[tuple[str, float]]]] = {}
    for line in journal.read_text().splitlines() if journal.exists() else ():
        job_id, attempt, event, at, _ = json.loads(line)
        by_job.setdefault(job_id, {}).setdefault(attempt, []).append((event, at))
    return dict(by_job)


def orphaned_files(data: Path, jobs: Mapping[str, Job], *, shared: bool) -> list[str]:
    """Files that are no longer needed, outside the cache, which has its own limit. `shared`: files
    are in a blob store, so nothing has to be on this disk."""
    remaining, counts = (
        [str(path) for path in data.glob("uploads/job-*")],
        _attempts_that_count(jobs),
    )
    for directory in data.glob("jobs/*/*"):
        if shared or counts.get(directory.parent.name) != directory.name:
            remaining.append(str(directory))
    return [f"{path} is left" for path in sorted(remaining)]


async def orphaned_blobs(blob_store: BlobStore, jobs: Mapping[str, Job]) -> list[str]:
    remaining = [blob.key async for blob in blob_store.list_blobs("uploads/")]
    counts = _attempts_that_count(jobs)
    async for blob in blob_store.list_blobs("jobs/"):
        _, job_id, attempt, _ = blob.key.split("/", 3)
        if counts.get(job_id) != attempt:
            remaining.append(blob.key)
    return [f"{key} is left in the blob store" for key in remaining]


def _attempts_that_count(jobs: Mapping[str, Job]) -> dict[str, str]:
    completed = (job for job in jobs.values() if job.status is JobStatus.COMPLETED)
    return {job.job_id: str(job.attempt) for job in completed}
