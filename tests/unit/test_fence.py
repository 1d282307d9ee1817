"""A process that a hostile document has taken over is confined to the files of its job."""

import os
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from secretary.app import Application
from secretary.config import Settings
from secretary.core import fence
from secretary.core.errors import InvalidSettings
from secretary.core.processes import clean_environment
from secretary.worker.sandbox import Access, Sandbox

from .. import hostile_child
from .. import sandbox_functions as functions

pytestmark = pytest.mark.skipif(
    bool(fence.missing_features()), reason="this kernel cannot confine all of it"
)


@dataclass
class Installation:
    sandbox: Sandbox
    directory: Path

    def file(self, name: str) -> str:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("secret")
        return str(path)

    def access(self, job: str) -> Access:
        own = self.directory / "data" / "jobs" / job
        own.mkdir(parents=True, exist_ok=True)
        source = self.file(f"data/uploads/{job}/source")
        return Access(
            job, reads=frozenset({source}), writes=frozenset({str(own)}), scratch=str(own)
        )


@pytest.fixture
async def installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Installation]:
    monkeypatch.setenv("SECRETARY_LLM__API_KEY", "sk-secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    settings = Settings.model_validate({"storage": {"data_dir": tmp_path / "data"}})
    sandbox = Sandbox(1, fence=Application(settings).fence)
    await sandbox.open()
    yield Installation(sandbox, tmp_path)
    await sandbox.close()


async def test_a_hostile_process_can_do_nothing_outside_of_its_job(
    installation: Installation,
) -> None:
    access = installation.access("job-1")
    targets = [
        installation.file("data/secretary.db"),
        installation.file("config/config.yaml"),
        installation.file("data/jobs/job-2/result.md"),
    ]
    [own] = access.writes
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0hostile-child")
        server.listen()
        outcomes = await installation.sandbox.run(
            hostile_child.attack, *targets, own, os.getpid(), access=access
        )
    assert [name for name, outcome in outcomes.items() if outcome == "done"] == []


async def test_it_can_do_its_work(installation: Installation) -> None:
    access = installation.access("job-1")
    [own], [source] = access.writes, access.reads
    run = installation.sandbox.run
    assert await run(hostile_child.allowed, own, source, access=access) == "secret"
    assert Path(own, "result").read_text() == "secret"


async def test_it_has_no_keys_in_its_environment(installation: Installation) -> None:
    names = await installation.sandbox.run(hostile_child.secrets)
    assert "PATH" in names
    unexpected = set(names) - set(clean_environment(os.environ))
    assert not {name for name in unexpected if name.startswith(("SECRETARY_LLM", "AWS"))}
    assert unexpected <= {
        "", "SECRETARY_SANDBOX", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LC_CTYPE",
    }  # fmt: skip


async def test_a_handler_of_the_operator_keeps_its_environment_and_its_files(
    installation: Installation,
) -> None:
    access = Access("job-1", has_environment=True, is_trusted=True)
    run = installation.sandbox.run
    assert "AWS_SECRET_ACCESS_KEY" in await run(hostile_child.secrets, access=access)
    secret = installation.file("data/secretary.db")
    assert await run(Path.read_text, Path(secret), access=access) == "secret"
    assert "AWS_SECRET_ACCESS_KEY" not in await run(hostile_child.secrets)


async def test_calls_of_one_job_share_a_process_and_no_other_job_gets_it(
    installation: Installation,
) -> None:
    run = installation.sandbox.run
    first, second = installation.access("job-1"), installation.access("job-2")
    pids = [await run(functions.own_pid, access=access) for access in (first, first, second)]
    assert pids[0] == pids[1] != pids[2]
    installation.sandbox.end_access("job-2")
    assert await run(functions.own_pid, access=second) != pids[2]
    assert not Path(f"/proc/{pids[2]}").exists()


async def test_a_confined_process_that_crashes_is_replaced(installation: Installation) -> None:
    from secretary.core.errors import OutOfMemory, WorkerCrashed

    access = installation.access("job-1")
    run = installation.sandbox.run
    with pytest.raises(WorkerCrashed, match="SIGSEGV"):
        await run(functions.segfault, access=access)
    with pytest.raises(WorkerCrashed, match="code 7"):
        await run(functions.exit_at_once, 7, access=access)
    with pytest.raises(OutOfMemory):
        await run(functions.raise_memory_error, access=access)
    assert await run(functions.add, 1, 2, access=access) == 3


def test_private_paths_are_cut_out_of_the_system(tmp_path: Path) -> None:
    for name in ("lib/a", "data/secret", "etc/config.yaml", "etc/fonts"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    private = [str(tmp_path / "data"), str(tmp_path / "etc/config.yaml")]
    expected = {str(tmp_path / "lib"), str(tmp_path / "etc/fonts")}
    assert set(fence.without_private([str(tmp_path)], private)) == expected


def test_a_system_that_cannot_confine_is_refused_if_it_must(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("secretary.app.missing_features", lambda: ["files"])

    def application(mode: str) -> Application:
        group = {"storage": {"data_dir": tmp_path}, "generic_worker": {"fence": mode}}
        return Application(Settings.model_validate(group))

    with pytest.raises(InvalidSettings, match=r"generic_worker.fence: .* cannot confine files"):
        _ = application("required").fence
    assert application("auto").fence is not None
    assert application("off").fence is None


async def test_modules_that_a_job_has_loaded_are_there_for_the_next_one(
    installation: Installation,
) -> None:
    run = installation.sandbox.run
    module = "secretary.media.subtitles"
    assert await run(functions.load_module, module, access=installation.access("job-1"))
    assert not await run(functions.load_module, module, access=installation.access("job-2"))
    assert await run(functions.load_module, "this", access=installation.access("job-3"))
    assert await run(functions.load_module, "this", access=installation.access("job-4"))
