"""Uploads are stored as they arrive, completely or not at all."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Iterable
from datetime import timedelta
from pathlib import Path

import pytest

from secretary.core.errors import FileTooLarge, NotFound
from secretary.storage.sources import MEBIBYTE, Uploads, stale_job_directories

from ..minimal_files import pdf

NOW = timedelta(seconds=-1)


@pytest.fixture
def uploads(tmp_path: Path) -> Uploads:
    return Uploads(tmp_path, max_bytes=3 * MEBIBYTE)


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def remaining_files(uploads: Uploads) -> list[str]:
    return sorted(str(path.relative_to(uploads.root)) for path in uploads.root.rglob("*"))


async def test_an_upload_has_its_size_hash_and_type(uploads: Uploads) -> None:
    content = pdf("Hello")
    upload = await uploads.receive("job-1", "a.pdf", chunks(content[:100], b"", content[100:]))
    assert (upload.name, upload.size, upload.kind) == ("a.pdf", len(content), "pdf")
    assert upload.sha256 == hashlib.sha256(content).hexdigest()
    assert (uploads.root.parent / upload.path).read_bytes() == content
    assert uploads.path_of("job-1", upload.source()) == uploads.root / "job-1" / "a.pdf"


@pytest.mark.parametrize("size", [997, MEBIBYTE - 1, MEBIBYTE, 3 * MEBIBYTE])
async def test_chunks_of_any_size_make_the_same_file(uploads: Uploads, size: int) -> None:
    content = os.urandom(2 * MEBIBYTE + 17)
    parts = [content[start : start + size] for start in range(0, len(content), size)]
    upload = await uploads.receive("job-1", "x", chunks(*parts))
    assert upload.sha256 == hashlib.sha256(content).hexdigest()
    assert (uploads.root / "job-1" / "x").read_bytes() == content


async def test_the_source_of_the_same_file_is_the_same_for_every_job(uploads: Uploads) -> None:
    one = await uploads.receive("job-1", "a.txt", chunks(b"x"))
    other = await uploads.receive("job-2", "a.txt", chunks(b"x"))
    assert one.source() == other.source()
    assert one.path != other.path


async def test_a_received_file_and_its_directories_are_synced(
    uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def recording_fsync(handle: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", recording_fsync)
    await uploads.receive("job-1", "a.txt", chunks(b"x"))
    directory = uploads.root / "job-1"
    assert synced == [str(path) for path in (directory / "a.txt", directory, uploads.root)]


@pytest.mark.parametrize("over", [0, 1])
async def test_a_file_may_be_exactly_as_large_as_the_limit(uploads: Uploads, over: int) -> None:
    parts = chunks(bytes(MEBIBYTE), bytes(2 * MEBIBYTE), bytes(over))
    if over:
        with pytest.raises(FileTooLarge, match="3 MB"):
            await uploads.receive("job-1", "x", parts)
        assert remaining_files(uploads) == []
    else:
        assert (await uploads.receive("job-1", "x", parts)).size == 3 * MEBIBYTE


async def test_an_endless_file_is_rejected_at_the_limit(uploads: Uploads) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(MEBIBYTE)

    with pytest.raises(FileTooLarge):
        await uploads.receive("job-1", "x", endless())
    assert remaining_files(uploads) == []


@pytest.mark.parametrize("after", range(4))
async def test_a_stalled_upload_that_is_cancelled_leaves_nothing(
    uploads: Uploads, after: int
) -> None:
    waiting = asyncio.Event()

    async def stalling() -> AsyncIterator[bytes]:
        for _ in range(after):
            yield bytes(MEBIBYTE // 2)
        waiting.set()
        await asyncio.Event().wait()

    receiving = asyncio.create_task(uploads.receive("job-1", "x", stalling()))
    await waiting.wait()
    receiving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await receiving
    assert remaining_files(uploads) == []


async def test_an_upload_cancelled_at_any_moment_leaves_nothing(uploads: Uploads) -> None:
    for turns in range(12):
        parts = chunks(*[bytes(MEBIBYTE)] * 2)
        receiving = asyncio.create_task(uploads.receive(f"job-{turns}", "x", parts))
        for _ in range(turns):
            await asyncio.sleep(0)
        receiving.cancel()
        (outcome,) = await asyncio.gather(receiving, return_exceptions=True)
        assert isinstance(outcome, asyncio.CancelledError) == (remaining_files(uploads) == [])
        await uploads.remove(f"job-{turns}")


async def test_a_client_that_disconnects_leaves_nothing(uploads: Uploads) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"x"
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await uploads.receive("job-1", "x", broken())
    assert remaining_files(uploads) == []


async def test_concurrent_uploads_do_not_mix(uploads: Uploads) -> None:
    turn = asyncio.Barrier(2)

    async def alternating(letter: bytes) -> AsyncIterator[bytes]:
        for _ in range(20):
            await turn.wait()
            yield letter * 70_000

    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(uploads.receive(f"job-{letter!r}", "same", alternating(letter)))
            for letter in (b"a", b"b")
        ]
    for letter, task in zip((b"a", b"b"), tasks, strict=True):
        path = uploads.root.parent / task.result().path
        assert path.read_bytes() == letter * 70_000 * 20


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("../../x", "x"),
        ("/etc/passwd", "passwd"),
        ("..", "upload"),
        (".", "upload"),
        ("", "upload"),
        ("\x00", "upload"),
        ("a\x00.pdf", "a.pdf"),
        ("../", "upload"),
        ("C:\\Users\\me\\a.pdf", "a.pdf"),
        ("..\\..\\x", "x"),
        ("\\\\host\\share\\x", "x"),
        (".hidden", "hidden"),
        ("CON:", "CON_"),
        ("a\r\nb.pdf", "ab.pdf"),
        ("\u202efdp.exe", "fdp.exe"),
        ("Prüfung 1.pdf", "Prüfung 1.pdf"),
        ("\ud800.pdf", "pdf"),
    ],
)
async def test_a_hostile_name_stays_in_the_directory(
    uploads: Uploads, name: str, stored: str
) -> None:
    upload = await uploads.receive("job-1", name, chunks(b"x"))
    assert upload.name == stored
    assert remaining_files(uploads) == ["job-1", f"job-1/{stored}"]
    assert uploads.path_of("job-1", upload.source()).is_file()


@pytest.mark.parametrize("letter", ["x", "ü", "💡"])
async def test_a_long_name_is_truncated_and_keeps_its_suffix(uploads: Uploads, letter: str) -> None:
    upload = await uploads.receive("job-1", letter * 300 + ".pdf", chunks(b"x"))
    assert len(upload.name.encode()) <= 200
    assert upload.name.endswith(f"{letter}.pdf")


class TestFinding:
    async def test_the_upload_of_another_job_is_not_found(self, uploads: Uploads) -> None:
        upload = await uploads.receive("job-1", "a.txt", chunks(b"x"))
        for name in ("a.txt", "../job-1/a.txt", f"{uploads.root}/job-1/a.txt"):
            with pytest.raises(NotFound):
                uploads.path_of("job-2", {**upload.source(), "name": name})

    @pytest.mark.parametrize("name", ["", None, "..", 5, "\x00", "x" * 5000, ["a.txt"]])
    async def test_an_invalid_name_is_not_found(self, uploads: Uploads, name: object) -> None:
        await uploads.receive("job-1", "a.txt", chunks(b"x"))
        with pytest.raises(NotFound):
            uploads.path_of("job-1", {"type": "upload", "name": name})


class TestRemoving:
    async def test_only_the_upload_and_its_directory_are_removed(self, uploads: Uploads) -> None:
        for job_id in ("job-1", "job-2"):
            await uploads.receive(job_id, "a.txt", chunks(b"x"))
        await uploads.remove("job-1")
        await uploads.remove("job-1")
        assert remaining_files(uploads) == ["job-2", "job-2/a.txt"]


class TestStaleUploads:
    def aged(self, paths: Iterable[Path], seconds: float = 3600) -> None:
        for path in paths:
            at = path.stat().st_mtime - seconds
            os.utime(path, (at, at))

    async def test_only_old_uploads_are_stale(self, uploads: Uploads) -> None:
        assert stale_job_directories(uploads.root, NOW) == []
        for job_id in ("job-1", "job-2"):
            await uploads.receive(job_id, "a.txt", chunks(b"x"))
        self.aged([uploads.root / "job-1" / "a.txt", uploads.root / "job-1"])
        assert stale_job_directories(uploads.root, timedelta(minutes=1)) == ["job-1"]

    async def test_an_upload_in_progress_is_not_stale(self, uploads: Uploads) -> None:
        await uploads.receive("job-1", "a.txt", chunks(b"x"))
        self.aged([uploads.root / "job-1"])
        assert stale_job_directories(uploads.root, timedelta(minutes=1)) == []

    async def test_other_files_in_the_directory_are_ignored(self, uploads: Uploads) -> None:
        (uploads.root / "shared").mkdir(parents=True)
        (uploads.root / "list.csv").touch()
        assert stale_job_directories(uploads.root, NOW) == []
