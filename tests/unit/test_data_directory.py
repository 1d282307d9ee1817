"""The permissions of the data directory."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from secretary.cli.local import ephemeral_runtime, run_directory
from secretary.config import Settings, StorageSettings
from secretary.core.errors import StoreUnavailable
from secretary.serve import prepare_data_directory, require_writable
from secretary.store import open_store


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A data directory with the modes of an older version."""
    umask = os.umask(0o022)
    for name in OWN:
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    yield tmp_path / "data"
    os.umask(umask)


OWN = (
    "secretary.db",
    "secretary.db-wal",
    "jobs/job-1/1/page.txt",
    "cache/pdf/abc/native/page_001.txt",
    "uploads/job-2/scan.pdf",
    "sessions/Fair/en/Fruit/Apples.md",
)


def prepare(data: Path) -> None:
    prepare_data_directory(Settings(storage=StorageSettings(data_dir=data)))


def readable(data: Path) -> list[str]:
    """What other accounts may read or enter."""
    return sorted(str(path.relative_to(data)) for path in data.rglob("*") if mode(path) & 0o077)


def test_files_of_older_versions_become_private(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.link(data / "jobs/job-1/1/page.txt", data / "cache/pdf/abc/native/page_002.txt")
    prepare(data)
    assert readable(data) == []
    assert mode(data / "secretary.db") == 0o600
    assert mode(data / "jobs/job-1") == 0o700
    assert "changed the modes of 19 files and directories" in caplog.text
    caplog.clear()
    prepare(data)
    assert caplog.text == ""


def test_new_files_are_private(data: Path) -> None:
    prepare(data)
    (data / "jobs/job-3").mkdir()
    (data / "jobs/job-3/a.txt").touch()
    assert mode(data / "jobs/job-3") == 0o700
    assert mode(data / "jobs/job-3/a.txt") == 0o600


def test_files_of_others_keep_their_modes(data: Path) -> None:
    outside = data.parent / "outside"
    (outside / "recordings").mkdir(parents=True)
    (outside / "talk.mp3").touch()
    (data / "uploads/scanned").mkdir()
    (data / "uploads/scanned/a.pdf").touch()
    (data / "notes.txt").touch()
    (data / "secretary.db.backup").touch()
    (data / "jobs/job-1/1/linked").symlink_to(outside)
    os.link(outside / "talk.mp3", data / "jobs/job-1/1/recording.mp3")
    prepare(data)
    theirs = ["notes.txt", "secretary.db.backup", "uploads", "uploads/scanned"]
    linked = ["jobs/job-1/1/linked", "jobs/job-1/1/recording.mp3"]
    assert readable(data) == sorted([*theirs, "uploads/scanned/a.pdf", *linked])
    assert mode(outside) == mode(outside / "recordings") == 0o755
    assert mode(outside / "talk.mp3") == 0o644


async def test_who_shares_the_machine_cannot_look_into_it(tmp_path: Path) -> None:
    require_writable(tmp_path / "new" / "data")
    assert mode(tmp_path / "new" / "data") == 0o700
    store = open_store(f"sqlite://{tmp_path}/other/jobs.db")
    await store.open()
    await store.close()
    assert mode(tmp_path / "other") == 0o700
    with run_directory(tmp_path / "convert") as directory:
        assert (mode(tmp_path / "convert"), mode(directory)) == (0o700, 0o700)


@pytest.mark.parametrize("chosen", [0o755, 0o2770])
def test_one_that_is_there_stays_as_its_owner_made_it(tmp_path: Path, chosen: int) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    directory.chmod(chosen)
    require_writable(directory)
    assert mode(directory) == chosen


async def test_a_database_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    (tmp_path / "secretary.db").mkdir()
    settings = Settings(storage=StorageSettings(data_dir=tmp_path))
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        async with ephemeral_runtime(settings, slots=1):
            pass
