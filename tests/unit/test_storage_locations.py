from pathlib import Path

import pytest

from secretary.config import Settings, StorageSettings
from secretary.core.errors import InvalidParameters
from secretary.migration.copy import StoreAddress, check_exists, parse_address

MONGODB = "mongodb://ann:SECRET@db1,db2/jobs?replicaSet=rs0"


def test_a_directory_is_its_database_and_its_files(tmp_path: Path) -> None:
    address = parse_address(str(tmp_path), None, Settings())
    assert address == StoreAddress(f"sqlite://{tmp_path}/secretary.db", str(tmp_path))


@pytest.mark.parametrize("form", ["{}/other.db", "sqlite://{}/other.db"])
def test_a_database_has_its_files_beside_it(tmp_path: Path, form: str) -> None:
    address = parse_address(form.format(tmp_path), None, Settings())
    assert address == StoreAddress(f"sqlite://{tmp_path}/other.db", str(tmp_path))


def test_a_mongodb_has_its_files_inside() -> None:
    assert parse_address(MONGODB, None, Settings()) == StoreAddress(MONGODB, "gridfs")


def test_files_may_be_elsewhere() -> None:
    assert parse_address(MONGODB, "s3://bucket", Settings()).files == "s3://bucket"
    assert parse_address(MONGODB, "none", Settings()).files == "none"


@pytest.mark.parametrize(
    ("storage", "files"),
    [
        (StorageSettings(mongodb_uri=MONGODB), "gridfs"),
        (StorageSettings(mongodb_uri=MONGODB, data_dir=Path("/data"), files="directory"), "/data"),
        (StorageSettings(mongodb_uri=MONGODB, files="s3://bucket"), "s3://bucket"),
        (StorageSettings(data_dir=Path("/data")), "/data"),
    ],
)
def test_the_settings_name_a_store_and_its_files(storage: StorageSettings, files: str) -> None:
    settings = Settings(storage=storage)
    assert parse_address("settings", None, settings) == StoreAddress(settings.store_url, files)


def test_an_address_of_something_else_is_refused() -> None:
    with pytest.raises(InvalidParameters, match="redis:// names no store"):
        parse_address("redis://SECRET@host", None, Settings())


def test_a_directory_without_jobs_is_noticed_and_not_filled(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameters, match="no jobs in"):
        check_exists(parse_address(str(tmp_path / "typo"), None, Settings()))
    assert not (tmp_path / "typo").exists()
