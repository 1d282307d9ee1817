"""What every blob store guarantees: files shared by several machines, complete or not at all."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from secretary.core.errors import NotFound, StoreUnavailable
from secretary.observability import doctor
from secretary.storage.blob_store import BlobInfo, BlobStore, DirectoryBlobStore
from secretary.storage.gridfs import GridFsBlobStore
from secretary.storage.s3 import S3BlobStore
from secretary.store.mongo import MongoStore
from tests.mongod import Mongod
from tests.s3_server import S3Server

LARGE = 9 * 1024 * 1024 + 17


@pytest.fixture(params=["directory", "gridfs", "s3"])
async def blob_store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[BlobStore]:
    if request.param == "directory":
        yield DirectoryBlobStore(tmp_path_factory.mktemp("blob_store"))
        return
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3_server")
        yield S3BlobStore(server.new_bucket())
        return
    mongod: Mongod = request.getfixturevalue("mongod")
    store = MongoStore(mongod.url(f"test_{uuid4().hex[:12]}"))
    await store.open()
    blob_store = GridFsBlobStore(store)
    yield blob_store
    await store.close()


def file(directory: Path, content: bytes, *, modified_at: float = 1_700_000_000.25) -> Path:
    path = directory / uuid4().hex
    path.write_bytes(content)
    os.utime(path, (modified_at, modified_at))
    return path


async def keys(blob_store: BlobStore, prefix: str) -> list[str]:
    return sorted([blob.key async for blob in blob_store.list_blobs(prefix)])


async def find(blob_store: BlobStore, key: str) -> BlobInfo:
    blob = await blob_store.find(key)
    assert blob is not None
    return blob


async def content(
    blob_store: BlobStore, blob: BlobInfo, start: int = 0, end: int | None = None
) -> bytes:
    return b"".join([chunk async for chunk in blob_store.read(blob, start, end)])


@pytest.mark.parametrize("size", [0, 1, 255 * 1024, 255 * 1024 + 1, LARGE])
async def test_a_stored_file_is_fetched_unchanged(
    blob_store: BlobStore, tmp_path: Path, size: int
) -> None:
    path = file(tmp_path, os.urandom(size))
    await blob_store.put([("jobs/a/1/x.bin", path)])
    blob = await find(blob_store, "jobs/a/1/x.bin")
    assert blob.size == size
    assert await content(blob_store, blob) == path.read_bytes()
    await blob_store.fetch([blob], lambda key: tmp_path / "back" / key)
    back = tmp_path / "back" / "jobs/a/1/x.bin"
    assert back.read_bytes() == path.read_bytes()
    assert back.stat().st_mtime == path.stat().st_mtime


async def test_any_range_of_a_blob_can_be_read(blob_store: BlobStore, tmp_path: Path) -> None:
    data = os.urandom(LARGE)
    await blob_store.put([("a/x", file(tmp_path, data))])
    blob = await find(blob_store, "a/x")
    chunk = 255 * 1024
    for start, end in [
        (0, 1), (chunk - 1, chunk + 1), (chunk, 2 * chunk), (5, LARGE - 5), (LARGE - 1, LARGE),
        (LARGE - 3, LARGE + 99), (7, 7), (LARGE, LARGE),
    ]:  # fmt: skip
        assert await content(blob_store, blob, start, end) == data[start:end], (start, end)


@pytest.mark.parametrize(
    "name",
    ["Übung 1 #50%.pdf", 'it\'s "so" & more?.txt', ".hidden", "a+b=c;d,e@f", "日本.md", "😀"],
)
async def test_keys_are_stored_unchanged(blob_store: BlobStore, tmp_path: Path, name: str) -> None:
    await blob_store.put([(f"uploads/job-1/{name}", file(tmp_path, b"1"))])
    assert await keys(blob_store, "uploads/job-1/") == [f"uploads/job-1/{name}"]
    assert await content(blob_store, await find(blob_store, f"uploads/job-1/{name}")) == b"1"


async def test_put_replaces_an_existing_blob(blob_store: BlobStore, tmp_path: Path) -> None:
    await blob_store.put([("a/x", file(tmp_path, b"old"))])
    old = await find(blob_store, "a/x")
    await blob_store.put([("a/x", file(tmp_path, b"newer"))])
    new = await find(blob_store, "a/x")
    assert (new.size, new.etag != old.etag) == (5, True)
    assert await content(blob_store, new) == b"newer"
    assert await keys(blob_store, "a/") == ["a/x"]


async def test_many_files_are_stored_and_fetched_in_one_call(
    blob_store: BlobStore, tmp_path: Path
) -> None:
    files = [(f"c/{i}", file(tmp_path, str(i).encode())) for i in range(450)]
    files.append(("c/large", file(tmp_path, os.urandom(600_000))))
    await blob_store.put(files)
    blobs = [blob async for blob in blob_store.list_blobs("c/")]
    await blob_store.fetch(blobs, lambda key: tmp_path / "back" / key)
    assert len(blobs) == 451
    assert all((tmp_path / "back" / key).read_bytes() == path.read_bytes() for key, path in files)


async def test_a_prefix_matches_directories_not_beginnings_of_names(
    blob_store: BlobStore, tmp_path: Path
) -> None:
    names = ["jobs/1/a", "jobs/1/b/c", "jobs/10/a", "jobs/1.x/a", "jobs/2/a"]
    await blob_store.put([(name, file(tmp_path, b"x")) for name in names])
    assert await keys(blob_store, "jobs/1/") == ["jobs/1/a", "jobs/1/b/c"]
    await blob_store.remove("jobs/1/")
    assert await keys(blob_store, "jobs/") == ["jobs/1.x/a", "jobs/10/a", "jobs/2/a"]


@pytest.mark.parametrize("blob_store", ["gridfs"], indirect=True)
@pytest.mark.parametrize("name", ["../../evil", "a/../../../evil", "./a", "a//b", "..", "a\0b"])
async def test_unsafe_keys_are_not_listed(blob_store: BlobStore, tmp_path: Path, name: str) -> None:
    """Other writers may choose any key; S3 rejects unsafe ones itself."""
    content = file(tmp_path, b"evil")
    try:
        await blob_store.put([(f"uploads/job-1/{name}", content)])
    except (StoreUnavailable, ValueError):
        return
    await blob_store.put([("uploads/job-1/good", content)])
    assert await keys(blob_store, "uploads/job-1/") == ["uploads/job-1/good"]


async def test_missing_blobs_are_not_found(blob_store: BlobStore, tmp_path: Path) -> None:
    assert await blob_store.find("a/none") is None
    await blob_store.remove("nothing/here/")
    await blob_store.put([("a/x", file(tmp_path, b"old"))])
    blob = await find(blob_store, "a/x")
    await blob_store.remove("a/")
    with pytest.raises(NotFound):
        await content(blob_store, blob)
    await blob_store.fetch([blob], lambda key: tmp_path / "back" / key)
    assert not (tmp_path / "back" / "a/x").exists()


async def test_one_of_several_concurrent_writes_remains(
    blob_store: BlobStore, tmp_path: Path
) -> None:
    files = [file(tmp_path, bytes([i]) * 1000) for i in range(8)]
    await asyncio.gather(*(blob_store.put([("a/x", path)]) for path in files))
    assert await keys(blob_store, "a/") == ["a/x"]
    whole = await content(blob_store, await find(blob_store, "a/x"))
    assert whole in [path.read_bytes() for path in files]


async def test_an_unreadable_file_stores_nothing(blob_store: BlobStore, tmp_path: Path) -> None:
    with pytest.raises(OSError):
        await blob_store.put([("a/x", tmp_path / "missing")])
    assert await blob_store.find("a/x") is None


class TestGridFs:
    async def test_files_of_interrupted_writes_are_removed(
        self, mongod: Mongod, tmp_path: Path
    ) -> None:
        import pymongo

        name = f"test_{uuid4().hex[:12]}"
        store = MongoStore(mongod.url(name))
        await store.open()
        blob_store = GridFsBlobStore(store)
        await blob_store.put([("a/x", file(tmp_path, b"whole")), ("a/y", file(tmp_path, b"gone"))])
        with pymongo.MongoClient[dict[str, object]](mongod.url(name)) as client:
            files, chunks = client[name]["files.files"], client[name]["files.chunks"]
            day = 25 * 3600 * 1000
            old = {"$set": {"filename": ".unfinished"}}
            files.update_one({"filename": "a/y"}, old)
            await blob_store.remove_incomplete()
            assert chunks.count_documents({}) == 2, "it may still be in use"
            files.update_one(
                {"filename": ".unfinished"},
                [{"$set": {"uploadDate": {"$subtract": ["$uploadDate", day]}}}],
            )
            await blob_store.remove_incomplete()
            assert (files.count_documents({}), chunks.count_documents({})) == (1, 1)
        await store.close()

    async def test_other_programs_can_read_the_files(self, mongod: Mongod, tmp_path: Path) -> None:
        import gridfs
        import pymongo

        name = f"test_{uuid4().hex[:12]}"
        store = MongoStore(mongod.url(name))
        await store.open()
        blob_store = GridFsBlobStore(store)
        data = os.urandom(700_000)
        await blob_store.put([("a/x", file(tmp_path, data)), ("a/y", file(tmp_path, b"small"))])
        with pymongo.MongoClient[dict[str, object]](mongod.url(name)) as client:
            bucket = gridfs.GridFSBucket(client[name], "files")
            assert bucket.open_download_stream_by_name("a/x").read() == data
            assert bucket.open_download_stream_by_name("a/y").read() == b"small"
        await store.close()


async def test_the_doctor_checks_it_and_leaves_nothing_behind(blob_store: BlobStore) -> None:
    finding = await doctor.check_blob_store(blob_store)
    assert (finding.subject, finding.verdict) == ("files", "ok")
    assert await keys(blob_store, "doctor/") == []


async def test_the_doctor_names_an_unreachable_bucket() -> None:
    finding = await doctor.check_blob_store(S3BlobStore("s3://bucket?endpoint=http://127.0.0.1:9"))
    assert finding.verdict == "problem"
    assert "bucket" in finding.fact


async def test_the_doctor_detects_a_blob_store_that_loses_files(tmp_path: Path) -> None:
    class Forgetful(DirectoryBlobStore):
        async def find(self, key: str) -> BlobInfo | None:
            return None

    finding = await doctor.check_blob_store(Forgetful(tmp_path))
    assert finding.verdict == "problem"
    assert "a written file is missing" in finding.fact


async def test_the_error_names_an_unreachable_bucket(tmp_path: Path) -> None:
    blob_store = S3BlobStore("s3://bucket?endpoint=http://127.0.0.1:9")
    with pytest.raises(StoreUnavailable, match="bucket"):
        await blob_store.find("a/x")
