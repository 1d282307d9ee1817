"""A service moves from one machine to many and back, and no job or file is lost."""

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from secretary.core.job import Batch, Completed, Job, LogEntry
from secretary.store import BatchQuery, IdempotencyKey, JobQuery, Store, open_store
from secretary.store.transfer import KINDS, differs
from tests.contract.factories import LEASE, claim, worker
from tests.mongod import Mongod
from tests.s3_server import S3Server

from .program import COMMAND, Program, Result


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


@pytest.fixture
def mongodb(mongod: Mongod) -> str:
    return mongod.url(f"test_{uuid4().hex[:12]}")


@asynccontextmanager
async def opened(url: str | Path) -> AsyncIterator[Store]:
    store = open_store(url if isinstance(url, str) else f"sqlite://{url}/secretary.db")
    await store.open()
    yield store
    await store.close()


def fill(directory: Path, jobs: int = 5) -> None:
    """A data directory with finished and waiting jobs and their files."""

    async def run() -> None:
        async with opened(directory) as store:
            batch = Batch(batch_name="Talks", user_id="ann")
            waiting = [Job(batch_id=batch.batch_id, user_id="ann") for _ in range(jobs)]
            key = IdempotencyKey("once", "print")
            await store.add(waiting, batch=batch, idempotency=key)
            for job in waiting:
                write(directory / "uploads" / job.job_id / "talk ü.pdf", b"%PDF")
            (job,) = await claim(store)
            await store.report(job, None, [LogEntry(message="hello")])
            await store.finish(job, Completed({"text": "x" * 10_000}))
            write(directory / "jobs" / job.job_id / "1" / "pages" / "1.txt", b"one")
            write(directory / "jobs" / job.job_id / "1" / "big.bin", os.urandom(600_000))
            write(directory / "jobs" / job.job_id / "1.scratch" / "x", b"not needed")
            write(directory / "cache" / "y", b"made again")
            await store.unregister_worker("worker-1")

    asyncio.run(run())


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


async def same(one: Store, other: Store) -> int:
    compared = 0
    for kind in KINDS:
        original = {r.record_id: r async for group in one.records(kind) for r in group}
        copied = {r.record_id: r async for group in other.records(kind) for r in group}
        assert original.keys() == copied.keys()
        for record_id, record in original.items():
            assert not differs(record, copied[record_id])
            compared += 1
    return compared


def compare(one: str | Path, other: str | Path) -> int:
    async def run() -> int:
        async with opened(one) as first, opened(other) as second:
            return await same(first, second)

    return asyncio.run(run())


def tree(directory: Path) -> dict[str, tuple[bytes, float]]:
    return {
        str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mtime)
        for part in ("jobs", "uploads")
        for path in sorted((directory / part).rglob("*"))
        if path.is_file() and "scratch" not in str(path)
    }


def copied(result: Result) -> tuple[int, ...]:
    assert result.code == 0, result.err
    return tuple(result.json[kind]["copied"] for kind in ("jobs", "batches", "keys", "files"))


def test_a_store_is_copied_to_mongodb_and_back(program: Program, mongodb: str) -> None:
    source, back = program.directory / "here", program.directory / "back"
    fill(source)
    first_copy = program.run("store", "copy", str(source), mongodb, "--verify", "--json")
    assert copied(first_copy) == (5, 1, 1, 7)
    assert first_copy.json["comparison"] == {"compared": 7, "missing": [], "different": []}
    again = program.run("store", "copy", mongodb, str(back), "--verify", "--json")
    assert copied(again) == (5, 1, 1, 7)
    assert compare(source, back) == 7
    assert tree(source) == tree(back)
    assert not (back / "cache").exists()


def test_jobs_run_in_the_copy_and_can_be_copied_back(tmp_path: Path, mongodb: str) -> None:
    """A file uploaded on the laptop is processed by a worker on MongoDB."""
    homes = [tmp_path / name for name in ("laptop", "cluster", "home")]
    for home in homes:
        home.mkdir()
    laptop, cluster = Program(homes[0]), Program(homes[1], MONGODB_URI=mongodb)
    with laptop.serving("--no-worker") as running:
        file = {"file": ("talk.csv", b"name,city\nAnn,Bozen\n")}
        answer = running.post("/api/office/process", files=file)
        assert answer.status_code == 202, answer.text
        job_id = answer.json()["job_id"]
    moved = laptop.run("store", "copy", str(laptop.data_dir), mongodb, "--json")
    assert copied(moved)[0] == 1
    with cluster.serving() as running:
        job = running.wait_until(job_id, "completed", "failed", seconds=60)
        assert "Bozen" in job["results"]["extracted_text"]
    back = Program(homes[2])
    assert copied(back.run("store", "copy", mongodb, str(back.data_dir), "--json"))[0] == 1
    with back.serving("--no-worker") as running:
        again = running.job(job_id)
        assert again["results"] == job["results"]
        assert b"Bozen" in running.get(job["results"]["markdown_file"]).content


def test_files_are_copied_to_a_bucket_and_back(program: Program, s3_server: S3Server) -> None:
    source, target, back = (program.directory / name for name in ("here", "there", "back"))
    fill(source)
    program.env |= s3_server.environment()
    bucket = s3_server.new_bucket()
    assert copied(
        program.run("store", "copy", str(source), str(target), "--to-files", bucket, "--json")
    ) == (5, 1, 1, 7)
    assert not (target / "jobs").exists()
    result = program.run(
        "store", "copy", str(target), str(back), "--from-files", bucket, "--verify", "--json"
    )
    assert copied(result) == (5, 1, 1, 7)
    assert tree(source) == tree(back)


def test_settings_can_be_source_or_target(program: Program, mongodb: str) -> None:
    """So that no password shows up in the process list."""
    source = program.directory / "here"
    fill(source)
    program.env["MONGODB_URI"] = mongodb
    assert copied(program.run("store", "copy", str(source), "settings", "--json")) == (5, 1, 1, 7)
    assert compare(source, mongodb) == 7


@pytest.mark.parametrize("kind", ["sqlite", "mongodb"])
def test_an_interrupted_copy_can_be_resumed(program: Program, mongod: Mongod, kind: str) -> None:
    source = program.directory / "here"
    fill(source, jobs=1200)
    for n in range(10):  # until one is interrupted halfway
        target = str(program.directory / f"there-{n}")
        url = f"sqlite://{target}/secretary.db"
        if kind == "mongodb":
            url = target = mongod.url(f"test_{uuid4().hex[:12]}")
        if 0 < (count := interrupted(program, source, target, url)) < 1200:
            break
    else:
        pytest.fail("no copy was interrupted halfway")
    refused = program.run("store", "copy", str(source), target)
    assert (refused.code, "--into-existing" in refused.err) == (1, True)
    went_on = program.run(
        "store", "copy", str(source), target, "--into-existing", "--verify", "--json", seconds=120
    )
    assert copied(went_on)[1:] == (1, 1, 1202)
    jobs = went_on.json["jobs"]
    assert jobs["copied"] + jobs["skipped"] == 1200
    assert jobs["skipped"] >= count, "a server finishes the requests it has received"
    assert compare(source, url) == 1202


def interrupted(program: Program, source: Path, target: str, url: str) -> int:
    """The number of jobs after a copy was killed as soon as it had copied some."""
    command = [*COMMAND, "store", "copy", str(source), target, "--to-files", "none"]
    null = subprocess.DEVNULL
    running = subprocess.Popen(
        command, env=program.env, cwd=program.directory, stdout=null, stderr=null
    )

    async def kill() -> int:
        async with opened(url) as store:
            deadline = time.monotonic() + 60
            while not await count_jobs(store):
                assert time.monotonic() < deadline
                await asyncio.sleep(0.002)
            running.kill()
            running.wait()
            return await count_jobs(store)

    return asyncio.run(kill())


async def count_jobs(store: Store) -> int:
    return sum(n for by_status in (await store.counts()).values() for n in by_status.values())


def test_a_store_with_workers_needs_anyway(program: Program, mongodb: str) -> None:
    source = program.directory / "here"
    fill(source)

    async def register_worker() -> None:
        async with opened(source) as store:
            await store.register_worker(worker("w-1"), LEASE)

    asyncio.run(register_worker())
    refused = program.run("store", "copy", str(source), mongodb)
    assert (refused.code, "w-1" in refused.err, "--anyway" in refused.err) == (1, True, True)
    assert copied(program.run("store", "copy", str(source), mongodb, "--anyway", "--json"))[0] == 5


def test_a_dry_run_counts_and_copies_nothing(program: Program) -> None:
    source, target = program.directory / "here", program.directory / "there"
    fill(source)
    result = program.run("store", "copy", str(source), str(target), "--dry-run", "--json")
    assert copied(result) == (0, 0, 0, 0)
    assert [result.json[kind]["found"] for kind in ("jobs", "batches", "keys", "files")] == [
        5, 1, 1, 7,
    ]  # fmt: skip
    assert not target.exists()


def test_verify_lists_differences(program: Program) -> None:
    source, target = program.directory / "here", program.directory / "there"
    fill(source)
    assert program.run("store", "copy", str(source), str(target)).code == 0

    async def change() -> str:
        async with opened(target) as store:
            (job, *_) = (await store.find(JobQuery())).items
            await store.archive(JobQuery(job_id=job.job_id))
            (batch,) = (await store.find_batches(BatchQuery())).items
            assert batch.total_jobs == 5
            return job.job_id

    changed = asyncio.run(change())
    gone = sorted(tree(target))[0]
    (target / gone).unlink()
    (source / gone).unlink()
    result = program.run("store", "copy", str(source), str(target), "--into-existing", "--verify")
    assert result.code == 1
    assert f"different: {changed}" in result.err
    assert "not the same" in result.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("here", "here"), "the same store"),
        (("here", "there", "--to-files", "gridfs"), "gridfs needs a MongoDB"),
    ],
)
def test_an_invalid_address_is_rejected(
    program: Program, arguments: tuple[str, ...], says: str
) -> None:
    fill(program.directory / "here", jobs=1)
    result = program.run("store", "copy", *arguments)
    assert (result.code, says in result.err) == (2, True), result.err


def test_no_password_is_printed(program: Program) -> None:
    fill(program.directory / "here", jobs=1)
    result = program.run(
        "store", "copy", "here",
        "mongodb://ann:SECRET@127.0.0.1:9/db?serverSelectionTimeoutMS=200",
    )  # fmt: skip
    assert result.code == 3
    assert "SECRET" not in result.out + result.err
