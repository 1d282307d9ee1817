"""Data of the older service is imported once, and its database is not changed."""

import asyncio
import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pymongo
import pytest
from bson import Int64, ObjectId
from pymongo.database import Database

from secretary.core.job import Batch, Job, JobStatus
from secretary.storage.artifacts import JobFiles
from secretary.store import JobQuery, open_store
from tests.contract.factories import claim
from tests.mongod import Mongod

from .program import Program

AT = datetime(2025, 3, 6, 12, 56, 36, tzinfo=UTC)
ZIP = b"PK\x05\x06" + bytes(18)
JOBS: list[dict[str, Any]] = [
    {
        "job_id": "job-done",
        "job_type": "session",
        "status": "completed",
        "batch_id": "batch-old",
        "user_id": "ann",
        "parameters": {"event": "FOSDEM", "count": Int64(5), "ref": ObjectId()},
        "results": {
            "markdown_file": "sessions/FOSDEM/t1.md",
            "archive_data": base64.b64encode(ZIP).decode(),
            "archive_filename": "t1.zip",
        },
        "created_at": AT,
        "completed_at": AT,
        "retry_count": 3,
    },
    {"job_id": "job-waits", "status": "pending", "batch_id": "batch-old", "created_at": AT},
    {"job_id": "job-ran", "status": "processing", "created_at": AT, "parameters": {}},
    {"job_id": "job-held", "status": "pending", "batch_id": "batch-paused", "created_at": AT},
    {"job_id": "job-odd", "status": "exploded", "created_at": AT},
]
BATCHES: list[dict[str, Any]] = [
    {
        "batch_id": "batch-old",
        "batch_name": "FOSDEM ecosocial",
        "status": "processing",
        "completed_jobs": 0,
        "isActive": True,
        "created_at": AT,
        "webhook": {"url": "https://example.org/hook", "token": "SECRET"},
    },
    {"batch_id": "batch-paused", "status": "pending", "isActive": False, "created_at": AT},
]


@pytest.fixture
def older(mongod: Mongod) -> Iterator[Database[dict[str, Any]]]:
    with pymongo.MongoClient[dict[str, Any]](mongod.url("")) as client:
        database = client[f"test_{uuid4().hex[:12]}"]
        database["event_jobs"].insert_many([dict(job) for job in JOBS])
        database["event_batches"].insert_many([dict(batch) for batch in BATCHES])
        yield database


def contents(database: Database[dict[str, Any]]) -> dict[str, Any]:
    return {name: list(database[name].find()) for name in sorted(database.list_collection_names())}


def read(url: str) -> tuple[dict[str, Job], dict[str, Batch], list[str]]:
    """All jobs and batches, and the jobs that can start."""

    async def run() -> tuple[dict[str, Job], dict[str, Batch], list[str]]:
        store = open_store(url)
        await store.open()
        jobs = {job.job_id: await store.get(job.job_id) for job in (await all_of(store))}
        batches = {job.batch_id for job in jobs.values() if job.batch_id}
        batches_by_id = {batch_id: await store.get_batch(batch_id) for batch_id in sorted(batches)}
        started = [job.job_id for job in await claim(store, slots=10)]
        await store.close()
        return jobs, batches_by_id, started

    async def all_of(store: Any) -> list[Job]:
        return list((await store.find(JobQuery())).items)

    return asyncio.run(run())


@pytest.mark.parametrize("kind", ["sqlite", "mongodb"])
def test_legacy_jobs_are_imported_once(
    tmp_path: Path, mongod: Mongod, older: Database[dict[str, Any]], kind: str
) -> None:
    program = Program(tmp_path)
    url = f"sqlite://{program.data_dir}/secretary.db"
    if kind == "mongodb":
        url = program.env["MONGODB_URI"] = mongod.url(f"test_{uuid4().hex[:12]}")
        program.env["SECRETARY_STORAGE__FILES"] = "directory"
    before = contents(older)
    uri = mongod.url(older.name)
    looked = program.json("import-legacy", uri, "--dry-run")
    assert (looked["jobs"]["imported"], looked["batches"]["imported"]) == (4, 2)
    assert kind == "mongodb" or not program.data_dir.exists()
    report = program.json("import-legacy", uri)
    assert report == looked == {
        "jobs": {
            "found": 5,
            "imported": 4,
            "skipped": 0,
            "unreadable": {"job-odd": "its status is exploded"},
            "left_behind": {"retry_count": 1},
        },
        "batches": {"found": 2, "imported": 2, "skipped": 0, "unreadable": {}, "left_behind": {}},
        "archives": 1,
        "by_status": {"completed": 1, "pending": 2, "failed": 1},
    }  # fmt: skip
    again = program.json("import-legacy", uri)
    assert [again[kind][n] for kind in ("jobs", "batches") for n in ("imported", "skipped")] == [
        0, 4, 0, 2,
    ]  # fmt: skip
    assert contents(older) == before
    jobs, batches, started = read(url)
    assert started == ["job-waits"], "the other job waits for its batch"
    done = jobs["job-done"]
    assert (done.results or {})["markdown_file"] == "sessions/FOSDEM/t1.md"
    assert done.parameters["count"] == 5
    archive = asyncio.run(JobFiles(program.data_dir).archive(done))
    assert archive.path is not None and archive.path.read_bytes() == ZIP
    assert jobs["job-ran"].status is JobStatus.FAILED
    assert (batches["batch-old"].total_jobs, batches["batch-old"].completed_at) == (2, None)
    assert batches["batch-paused"].is_active is False


def test_the_report_mentions_problems_and_retention(
    tmp_path: Path, mongod: Mongod, older: Database[dict[str, Any]]
) -> None:
    program = Program(tmp_path)
    result = program.run("import-legacy", mongod.url(older.name), "--running", "pending")
    assert result.code == 0
    assert "cannot be read: job-odd: its status is exploded" in result.err
    assert "3 jobs are pending here" in result.err
    assert "retention.completed_days" in result.err
    assert "SECRET" not in result.out + result.err


@pytest.mark.parametrize(
    ("address", "code", "says"),
    [
        ("{}/nothing_here?directConnection=true", 4, "has no event_jobs and no event_batches"),
        ("{}/?directConnection=true", 2, "Name the database"),
        ("data", 2, "in a MongoDB"),
        ("settings", 2, "in a MongoDB"),
    ],
)
def test_an_invalid_address_is_rejected(
    tmp_path: Path, mongod: Mongod, address: str, code: int, says: str
) -> None:
    program = Program(tmp_path)
    base = mongod.url("").partition("/?")[0]
    result = program.run("import-legacy", address.format(base))
    assert (result.code, says in result.err) == (code, True), result.err
    assert not program.data_dir.exists()
