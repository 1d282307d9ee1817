"""What every depot owes: files of several machines, whole or not at all."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from secretary import doctor
from secretary.depot import Depot, Kept
from secretary.depot.directory import DirectoryDepot
from secretary.depot.s3 import S3Depot
from secretary.errors import NotFound, StoreUnavailable
from secretary.store import open_store
from tests.mongod import Mongod
from tests.s3_server import S3Server

LARGE = 9 * 1024 * 1024 + 17


@pytest.fixture(params=["directory", "gridfs", "s3"])
async def depot(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Depot]:
    if request.param == "directory":
        yield DirectoryDepot(tmp_path_factory.mktemp("depot"))
        return
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3_server")
        yield S3Depot(server.new_place())
        return
    mongod: Mongod = request.getfixturevalue("mongod")
    store = open_store(mongod.url(f"test_{uuid4().hex[:12]}"))
    await store.open()
    depot = store.depot()
    assert depot is not None
    yield depot
    await store.close()


def file(directory: Path, content: bytes, *, made_at: float = 1_700_000_000.25) -> Path:
    path = directory / uuid4().hex
    path.write_bytes(content)
    os.utime(path, (made_at, made_at))
    return path


async def keys(depot: Depot, prefix: str) -> list[str]:
    return sorted([kept.key async for kept in depot.below(prefix)])


async def found(depot: Depot, key: str) -> Kept:
    kept = await depot.find(key)
    assert kept is not None
    return kept


async def content(depot: Depot, kept: Kept, start: int = 0, end: int | None = None) -> bytes:
    return b"".join([piece async for piece in depot.read(kept, start, end)])


@pytest.mark.parametrize("size", [0, 1, 255 * 1024, 255 * 1024 + 1, LARGE])
async def test_a_file_comes_back_as_it_was(depot: Depot, tmp_path: Path, size: int) -> None:
    path = file(tmp_path, os.urandom(size))
    await depot.put([("jobs/a/1/x.bin", path)])
    kept = await found(depot, "jobs/a/1/x.bin")
    assert kept.size == size
    assert await content(depot, kept) == path.read_bytes()
    await depot.fetch([kept], lambda key: tmp_path / "back" / key)
    back = tmp_path / "back" / "jobs/a/1/x.bin"
    assert back.read_bytes() == path.read_bytes()
    assert back.stat().st_mtime == path.stat().st_mtime


async def test_any_part_of_a_file_can_be_read(depot: Depot, tmp_path: Path) -> None:
    data = os.urandom(LARGE)
    await depot.put([("a/x", file(tmp_path, data))])
    kept = await found(depot, "a/x")
    chunk = 255 * 1024
    for start, end in [
        (0, 1), (chunk - 1, chunk + 1), (chunk, 2 * chunk), (5, LARGE - 5), (LARGE - 1, LARGE),
        (LARGE - 3, LARGE + 99), (7, 7), (LARGE, LARGE),
    ]:  # fmt: skip
        assert await content(depot, kept, start, end) == data[start:end], (start, end)


@pytest.mark.parametrize(
    "name",
    ["Übung 1 #50%.pdf", 'it\'s "so" & more?.txt', ".hidden", "a+b=c;d,e@f", "日本.md", "😀"],
)
async def test_names_are_kept_as_they_are(depot: Depot, tmp_path: Path, name: str) -> None:
    await depot.put([(f"uploads/job-1/{name}", file(tmp_path, b"1"))])
    assert await keys(depot, "uploads/job-1/") == [f"uploads/job-1/{name}"]
    assert await content(depot, await found(depot, f"uploads/job-1/{name}")) == b"1"


async def test_what_is_put_again_replaces_what_was_there(depot: Depot, tmp_path: Path) -> None:
    await depot.put([("a/x", file(tmp_path, b"old"))])
    old = await found(depot, "a/x")
    await depot.put([("a/x", file(tmp_path, b"newer"))])
    new = await found(depot, "a/x")
    assert (new.size, new.tag != old.tag) == (5, True)
    assert await content(depot, new) == b"newer"
    assert await keys(depot, "a/") == ["a/x"]


async def test_many_files_are_put_and_brought_at_once(depot: Depot, tmp_path: Path) -> None:
    files = [(f"c/{i}", file(tmp_path, str(i).encode())) for i in range(450)]
    files.append(("c/large", file(tmp_path, os.urandom(600_000))))
    await depot.put(files)
    kept = [one async for one in depot.below("c/")]
    await depot.fetch(kept, lambda key: tmp_path / "back" / key)
    assert len(kept) == 451
    assert all((tmp_path / "back" / key).read_bytes() == path.read_bytes() for key, path in files)


async def test_a_prefix_is_a_directory_and_not_the_beginning_of_a_name(
    depot: Depot, tmp_path: Path
) -> None:
    names = ["jobs/1/a", "jobs/1/b/c", "jobs/10/a", "jobs/1.x/a", "jobs/2/a"]
    await depot.put([(name, file(tmp_path, b"x")) for name in names])
    assert await keys(depot, "jobs/1/") == ["jobs/1/a", "jobs/1/b/c"]
    await depot.remove("jobs/1/")
    assert await keys(depot, "jobs/") == ["jobs/1.x/a", "jobs/10/a", "jobs/2/a"]


@pytest.mark.parametrize("depot", ["gridfs"], indirect=True)
@pytest.mark.parametrize("name", ["../../evil", "a/../../../evil", "./a", "a//b", "..", "a\0b"])
async def test_a_name_that_leads_out_is_not_brought(
    depot: Depot, tmp_path: Path, name: str
) -> None:
    """Whoever else can write to the place chooses names; a bucket takes no such ones at all."""
    content = file(tmp_path, b"evil")
    try:
        await depot.put([(f"uploads/job-1/{name}", content)])
    except (StoreUnavailable, ValueError):
        return
    await depot.put([("uploads/job-1/good", content)])
    assert await keys(depot, "uploads/job-1/") == ["uploads/job-1/good"]


async def test_what_is_not_there_is_not_found(depot: Depot, tmp_path: Path) -> None:
    assert await depot.find("a/none") is None
    await depot.remove("nothing/here/")
    await depot.put([("a/x", file(tmp_path, b"old"))])
    kept = await found(depot, "a/x")
    await depot.remove("a/")
    with pytest.raises(NotFound):
        await content(depot, kept)
    await depot.fetch([kept], lambda key: tmp_path / "back" / key)
    assert not (tmp_path / "back" / "a/x").exists()


async def test_of_two_who_put_the_same_at_once_one_remains(depot: Depot, tmp_path: Path) -> None:
    files = [file(tmp_path, bytes([i]) * 1000) for i in range(8)]
    await asyncio.gather(*(depot.put([("a/x", path)]) for path in files))
    assert await keys(depot, "a/") == ["a/x"]
    whole = await content(depot, await found(depot, "a/x"))
    assert whole in [path.read_bytes() for path in files]


async def test_a_file_that_cannot_be_read_leaves_nothing(depot: Depot, tmp_path: Path) -> None:
    with pytest.raises(OSError):
        await depot.put([("a/x", tmp_path / "missing")])
    assert await depot.find("a/x") is None


class TestGridFs:
    async def test_what_a_dead_writer_left_is_tidied(self, mongod: Mongod, tmp_path: Path) -> None:
        import pymongo

        name = f"test_{uuid4().hex[:12]}"
        store = open_store(mongod.url(name))
        await store.open()
        depot = store.depot()
        assert depot is not None
        await depot.put([("a/x", file(tmp_path, b"whole")), ("a/y", file(tmp_path, b"gone"))])
        with pymongo.MongoClient[dict[str, object]](mongod.url(name)) as client:
            files, chunks = client[name]["files.files"], client[name]["files.chunks"]
            day = 25 * 3600 * 1000
            old = {"$set": {"filename": ".unfinished"}}
            files.update_one({"filename": "a/y"}, old)
            await depot.tidy()
            assert chunks.count_documents({}) == 2, "it may still be at it"
            files.update_one(
                {"filename": ".unfinished"},
                [{"$set": {"uploadDate": {"$subtract": ["$uploadDate", day]}}}],
            )
            await depot.tidy()
            assert (files.count_documents({}), chunks.count_documents({})) == (1, 1)
        await store.close()

    async def test_other_programs_can_read_the_files(self, mongod: Mongod, tmp_path: Path) -> None:
        import gridfs
        import pymongo

        name = f"test_{uuid4().hex[:12]}"
        store = open_store(mongod.url(name))
        await store.open()
        depot = store.depot()
        assert depot is not None
        data = os.urandom(700_000)
        await depot.put([("a/x", file(tmp_path, data)), ("a/y", file(tmp_path, b"small"))])
        with pymongo.MongoClient[dict[str, object]](mongod.url(name)) as client:
            bucket = gridfs.GridFSBucket(client[name], "files")
            assert bucket.open_download_stream_by_name("a/x").read() == data
            assert bucket.open_download_stream_by_name("a/y").read() == b"small"
        await store.close()


async def test_the_doctor_tries_it_and_leaves_nothing_behind(depot: Depot) -> None:
    finding = await doctor.look_at_depot(depot)
    assert (finding.subject, finding.verdict) == ("files", "ok")
    assert await keys(depot, "doctor/") == []


async def test_the_doctor_names_a_bucket_that_is_away() -> None:
    finding = await doctor.look_at_depot(S3Depot("s3://bucket?endpoint=http://127.0.0.1:9"))
    assert finding.verdict == "problem"
    assert "bucket" in finding.fact


async def test_the_doctor_names_a_depot_that_forgets(tmp_path: Path) -> None:
    class Forgetful(DirectoryDepot):
        async def find(self, key: str) -> Kept | None:
            return None

    finding = await doctor.look_at_depot(Forgetful(tmp_path))
    assert finding.verdict == "problem"
    assert "is not there" in finding.fact


async def test_a_bucket_that_is_away_is_named(tmp_path: Path) -> None:
    depot = S3Depot("s3://bucket?endpoint=http://127.0.0.1:9")
    with pytest.raises(StoreUnavailable, match="bucket"):
        await depot.find("a/x")
