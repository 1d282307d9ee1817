"""The permissions of the data directory."""

import stat
from pathlib import Path

import pytest

from secretary.cli.local import ephemeral_runtime, run_directory
from secretary.config import Settings, StorageSettings
from secretary.core.errors import StoreUnavailable
from secretary.serve import require_writable
from secretary.store import open_store


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


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
