"""Which files a job may use as its source."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from secretary.core.errors import AddressRefused, DownloadRefused, InvalidParameters
from secretary.storage.sources import SourceFile, Sources, source_url


@dataclass
class Parameters:
    url: str | None = None
    file_path: str | None = None
    file_source: dict[str, Any] | None = None


@pytest.fixture
def data(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    for name in ("uploads/job-1/own.txt", "uploads/job-2/other.txt", "jobs/job-2/1/result.txt"):
        (data / name).parent.mkdir(parents=True)
        (data / name).write_text(name)
    (data / "uploads" / "shared.txt").write_text("shared")
    (data / "secretary.db").write_text("the store")
    return data


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "below").mkdir(parents=True)
    (root / "a.txt").write_text("a")
    (root / "below" / "b.txt").write_text("b")
    (tmp_path / "secret.txt").write_text("secret")
    return root


@pytest.fixture
def sources(data: Path, root: Path) -> Sources:
    return Sources(data, roots=(root,))


async def fetch(sources: Sources, parameters: Parameters) -> SourceFile:
    return await sources.fetch(parameters, job_id="job-1", into=sources.data_directory / "scratch")


async def refused(sources: Sources, **parameters: Any) -> None:
    with pytest.raises((InvalidParameters, DownloadRefused)) as caught:
        await fetch(sources, Parameters(**parameters))
    assert str(sources.data_directory.parent) not in str(caught.value)


def test_source_url_returns_the_url_of_a_web_source() -> None:
    url = "https://example.org/a.mp4"
    assert source_url(Parameters(url=url)) == url
    assert source_url(Parameters(file_source={"type": "url", "value": url})) == url
    assert source_url(Parameters(file_path="a.mp4")) is None
    assert source_url(Parameters(url=url, file_source={"type": "upload", "name": "a.mp4"})) is None


async def test_a_job_finds_its_own_upload(sources: Sources, data: Path) -> None:
    source = {"type": "upload", "name": "own.txt"}
    source_file = await fetch(sources, Parameters(file_source=source))
    assert source_file == SourceFile(data / "uploads/job-1/own.txt", "own.txt")


@pytest.mark.parametrize("path", ["uploads/job-1/own.txt", "job-1/own.txt", "shared.txt"])
async def test_own_uploads_and_shared_files_can_be_named(sources: Sources, path: str) -> None:
    assert (await fetch(sources, Parameters(file_path=path))).path.is_file()


@pytest.mark.parametrize(
    "path",
    [
        "uploads/job-2/other.txt",
        "job-2/other.txt",
        "job-1/../job-2/other.txt",
        "./job-2//other.txt",
        "uploads/uploads/job-2/other.txt",
        "../uploads/job-2/other.txt",
    ],
)
async def test_the_upload_of_another_job_cannot_be_read(sources: Sources, path: str) -> None:
    absolute = str(sources.data_directory / "uploads" / "job-2" / "other.txt")
    for each in (path, absolute):
        await refused(sources, file_path=each)
        for kind in ("file", "path", "upload", None):
            await refused(sources, file_source={"type": kind, "path": each})
            await refused(sources, file_source={"type": kind, "value": each})
    await refused(sources, file_source={"type": "upload", "name": path})
    await refused(sources, file_source={"type": "upload", "name": "other.txt", "path": path})


async def test_the_upload_of_another_job_cannot_be_read_through_a_link(
    sources: Sources, root: Path
) -> None:
    (root / "link").symlink_to(sources.data_directory / "uploads" / "job-2")
    await refused(sources, file_path="link/other.txt")


@pytest.mark.parametrize(("path", "name"), [("a.txt", "a.txt"), ("below/b.txt", "b.txt")])
async def test_a_file_under_a_root_is_found(sources: Sources, path: str, name: str) -> None:
    assert (await fetch(sources, Parameters(file_path=path))).name == name


async def test_an_absolute_path_under_a_root_is_found(sources: Sources, root: Path) -> None:
    assert (await fetch(sources, Parameters(file_path=f"{root}/a.txt"))).path == root / "a.txt"


async def test_a_link_within_a_root_is_followed(sources: Sources, root: Path) -> None:
    (root / "link.txt").symlink_to(root / "below" / "b.txt")
    assert (await fetch(sources, Parameters(file_path="link.txt"))).path == root / "below" / "b.txt"


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "below/../../secret.txt",
        "/etc/passwd",
        "file:///etc/passwd",
        "~/.bashrc",
        "below",
        ".",
        "",
        "/",
        "a.txt/../../secret.txt",
        "nothing.txt",
        "a.txt\x00",
        "\x00",
        "x" * 300,
        "x/" * 3000,
        "..\\secret.txt",
        "%2e%2e/secret.txt",
        "\ud800",
    ],
)
async def test_paths_outside_the_roots_are_refused(sources: Sources, path: str) -> None:
    await refused(sources, file_path=path)
    await refused(sources, file_source={"type": "file", "path": path})


async def test_links_out_of_a_root_are_refused(
    sources: Sources, root: Path, tmp_path: Path
) -> None:
    (root / "file").symlink_to(tmp_path / "secret.txt")
    (root / "directory").symlink_to(tmp_path)
    (root / "relative").symlink_to("../secret.txt")
    for path in ("file", "directory/secret.txt", "relative", "below/../file"):
        await refused(sources, file_path=path)


async def test_a_loop_of_links_is_refused(sources: Sources, root: Path) -> None:
    (root / "one").symlink_to(root / "two")
    (root / "two").symlink_to(root / "one")
    await refused(sources, file_path="one")
    await refused(sources, file_path="one/a.txt")


async def test_only_regular_files_are_accepted(sources: Sources, root: Path) -> None:
    os.mkfifo(root / "pipe")
    await refused(sources, file_path="pipe")


async def test_a_root_around_the_data_directory_does_not_expose_it(
    data: Path, tmp_path: Path, root: Path
) -> None:
    for around in (tmp_path, data):
        sources = Sources(data, roots=(around,))
        for name in ("secretary.db", "jobs/job-2/1/result.txt", "uploads/job-2/other.txt"):
            await refused(sources, file_path=str(data / name))
            await refused(sources, file_path=os.path.relpath(data / name, around))
    assert (await fetch(Sources(data, roots=(tmp_path,)), Parameters(file_path="root/a.txt"))).path


async def test_a_root_inside_the_data_directory_is_readable(data: Path) -> None:
    (data / "sessions").mkdir()
    (data / "sessions" / "a.txt").touch()
    sources = Sources(data, roots=(data / "sessions",))
    assert (await fetch(sources, Parameters(file_path="a.txt"))).name == "a.txt"


async def test_a_private_address_is_refused(sources: Sources) -> None:
    with pytest.raises(AddressRefused):
        await fetch(sources, Parameters(url="http://127.0.0.1/"))
    with pytest.raises(AddressRefused):
        await fetch(sources, Parameters(file_source={"type": "url", "value": "http://[::1]/"}))


@pytest.mark.parametrize("source", [None, {}, {"type": "upload"}, {"type": "url"}])
async def test_a_missing_source_is_an_error(
    sources: Sources, source: dict[str, Any] | None
) -> None:
    with pytest.raises(InvalidParameters, match="needed"):
        await fetch(sources, Parameters(file_source=source))
