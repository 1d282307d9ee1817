"""Startup errors: each gives a clear message, quickly."""

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from ..minimal_files import pdf
from .program import Program, Result

#: Enough for a machine that is busy with other tests; it takes less than a second.
SECONDS = 15


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def refused(result: Result, code: int, says: str) -> None:
    assert result.code == code, result
    assert says in result.err
    assert "Traceback" not in result.err
    assert result.out == ""


def start(program: Program, *arguments: str, seconds: float = SECONDS) -> Result:
    return program.run("serve", "--port", "0", *arguments, seconds=seconds)


class TestSettings:
    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("server: [", "config.yaml is not YAML"),
            ("server: {prot: 1}", "server.prot: there is no such setting"),
            ("logging: {level: loud}", "logging.level: Input should be"),
            ("handlers: [nowhere:register]", "handlers: 'nowhere:register' cannot be loaded"),
        ],
    )
    def test_a_wrong_config_file(self, program: Program, text: str, says: str) -> None:
        (program.directory / "config").mkdir()
        (program.directory / "config" / "config.yaml").write_text(text)
        refused(start(program), 2, says)
        refused(program.run("worker", seconds=SECONDS), 2, says)

    def test_a_config_file_that_is_not_there(self, program: Program) -> None:
        refused(start(program, "--config", "no.yaml"), 2, "The config file no.yaml cannot be read")

    def test_a_wrong_variable(self, tmp_path: Path) -> None:
        program = Program(tmp_path, SECRETARY_PORT="1")
        refused(
            start(program), 2, "There is no setting for the environment variable SECRETARY_PORT"
        )

    def test_the_cause_is_shown_to_who_debugs(self, tmp_path: Path) -> None:
        program = Program(tmp_path, SECRETARY_LOGGING__LEVEL="debug", SECRETARY_HANDLERS="nowhere")
        result = program.run("submit", "selftest", seconds=SECONDS)
        assert result.code == 2
        assert "Traceback" in result.err
        assert "ModuleNotFoundError" in result.err


class TestAddress:
    def test_a_port_that_is_taken(self, program: Program) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            result = start(program, "--port", str(port))
        refused(result, 2, f"cannot listen on 127.0.0.1:{port}: Address already in use")

    def test_an_open_door_without_a_key(self, program: Program) -> None:
        refused(start(program, "--host", "0.0.0.0"), 2, "so API keys are needed")

    def test_a_host_that_nobody_knows(self, program: Program) -> None:
        refused(start(program, "--host", "nowhere.invalid"), 2, "cannot listen on nowhere.invalid")


class TestStore:
    def test_a_mongodb_that_does_not_answer(self, tmp_path: Path) -> None:
        with socket.socket() as silent:  # bound, so that nothing else responds there
            silent.bind(("127.0.0.1", 0))
            port = silent.getsockname()[1]
            program = Program(tmp_path, MONGODB_URI=f"mongodb://ann:SECRET@127.0.0.1:{port}/x")
            result = start(program, seconds=30)  # the driver retries for a while
        refused(result, 3, f"The MongoDB at 127.0.0.1:{port} cannot be used")
        assert "SECRET" not in result.err

    def test_an_address_that_is_not_mongodbs(self, tmp_path: Path) -> None:
        program = Program(tmp_path, MONGODB_URI="postgres://ann:SECRET@host/x")
        result = start(program)
        refused(result, 2, "storage.mongodb_uri: postgres:// is not a MongoDB address")
        assert "SECRET" not in result.err

    def test_a_database_of_a_newer_version(self, program: Program) -> None:
        assert program.run("submit", "selftest").code == 0
        with apsw.Connection(str(program.data_dir / "secretary.db")) as db:
            db.execute("PRAGMA user_version = 99")
        says = "was written by a newer version of Secretary (schema 99"
        refused(start(program), 3, says)
        refused(program.run("jobs", "list"), 3, says)
        assert "newer version" in program.run("doctor").out

    def test_a_database_that_is_none(self, program: Program) -> None:
        program.data_dir.mkdir()
        (program.data_dir / "secretary.db").write_bytes(b"not a database" * 1000)
        refused(start(program), 3, "it is not a usable SQLite database")


class TestDataDirectory:
    def test_a_file_in_its_place(self, program: Program) -> None:
        program.data_dir.touch()
        refused(start(program), 2, "storage.data_dir: ")
        refused(program.run("worker", seconds=SECONDS), 2, "storage.data_dir: ")
        refused(program.run("submit", "selftest"), 3, "cannot be used")

    def test_one_that_cannot_be_made(self, program: Program) -> None:
        refused(start(program, "--data-dir", "/proc/nothing"), 2, "/proc/nothing cannot be written")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_one_that_cannot_be_written(self, program: Program) -> None:
        program.data_dir.mkdir(mode=0o500)
        refused(start(program), 2, "cannot be written: Permission denied")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MB, which only root can create."""
    point = tmp_path / "disk"
    point.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(point)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("only root can mount file systems")
    yield point
    subprocess.run(["umount", "--lazy", str(point)], check=True)


class TestFullDisk:
    def test_nothing_acknowledged_is_lost_and_work_goes_on_once_there_is_room(
        self, small_disk: Path, tmp_path: Path
    ) -> None:
        program = Program(tmp_path)
        options = ("--data-dir", str(small_disk))
        with program.serving("--no-worker", *options) as service:
            accepted = [service.submit(parameters={"seconds": 0})]
            stuffing = small_disk / "stuffing"
            fill(stuffing)
            refusal = None
            while refusal is None:
                response = service.post("/api/jobs", {"job_type": "selftest", "x": "y" * 5000})
                if response.status_code == 202:
                    accepted.append(response.json()["data"]["job_id"])
                else:
                    refusal = response
            assert refusal.status_code == 503
            assert refusal.json()["error"]["code"] == "UNAVAILABLE"
            assert "there is no space left on its disk" in service.err

            result = program.run("submit", "selftest", "-p", f"x={'y' * 5000}", *options)
            assert result.code == 3
            assert "there is no space left on its disk" in result.err
            assert "Traceback" not in result.err

            stuffing.unlink()
            accepted.append(service.submit())
            listed = service.get("/api/jobs?limit=1000").json()["data"]["jobs"]
            assert sorted(job["job_id"] for job in listed) == sorted(accepted)

    def test_an_upload_is_refused_for_now_and_leaves_nothing(
        self, small_disk: Path, tmp_path: Path
    ) -> None:
        with Program(tmp_path).serving("--no-worker", "--data-dir", str(small_disk)) as service:
            stuffing = small_disk / "stuffing"
            fill(stuffing)
            files = {"file": ("a.pdf", pdf("Hello") + b" " * 100_000)}
            refusal = service.post("/api/pdf/process", files=files)
            assert refusal.status_code == 503
            assert refusal.json()["error"]["code"] == "UNAVAILABLE"
            assert list(small_disk.glob("uploads/*")) == []
            stuffing.unlink()
            assert service.post("/api/pdf/process", files=files).status_code == 202


def fill(file: Path) -> None:
    with file.open("wb", buffering=0) as stuffing:
        try:
            while True:
                stuffing.write(b"x" * 4096)
        except OSError:
            pass
