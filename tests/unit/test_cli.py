"""Parts of the command line; the commands themselves are in tests/acceptance."""

import inspect
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from secretary.app import Application
from secretary.cli import app
from secretary.cli.backend import FINAL, WAITING, JobProgress, Status, linked_file_name
from secretary.cli.batches import _read_document
from secretary.cli.local import LocalBackend
from secretary.cli.options import Target
from secretary.cli.output import ExitCode, console, exit_code, job_table, line_key, remaining_time
from secretary.cli.remote import RemoteBackend, local_error
from secretary.cli.submit import read_parameters
from secretary.client.errors import ApiError, NotFound
from secretary.config import Settings
from secretary.core import job as jobs
from secretary.core.errors import InvalidParameters, JobFailed
from secretary.core.job import Job, JobStatus, Progress, utc_now
from secretary.jobs.handler import Registry
from secretary.jobs.service import JobService
from secretary.storage.artifacts import JobFiles
from secretary.storage.blob_store import DirectoryBlobStore


def running(**more: Any) -> dict[str, Any]:
    started = utc_now() - timedelta(seconds=30)
    state = {"status": JobStatus.PROCESSING, "processing_started_at": started, **more}
    return Job(job_type="pdf", **state).document()


class TestBackends:
    def test_status_has_the_states_of_jobs(self) -> None:
        assert [status.value for status in Status] == [status.value for status in JobStatus]
        assert {status.value for status in FINAL} == {
            status.value for status in jobs.FINAL_STATUSES
        }

    def test_the_backends_have_the_same_methods(self) -> None:
        methods = inspect.getmembers(LocalBackend, inspect.iscoroutinefunction)
        public = [(name, method) for name, method in methods if not name.startswith("_")]
        assert len(public) > 10
        for name, method in public:
            remote = inspect.signature(getattr(RemoteBackend, name)).parameters
            assert list(remote) == list(inspect.signature(method).parameters), name

    @pytest.mark.parametrize(
        ("link", "name"),
        [
            ("/api/files/job-1/document.md", "document.md"),
            ("/api/pdf/text-content/job-1/page%20001.txt", "page 001.txt"),
            ("/api/files/job-1/frames/1.jpg", "frames/1.jpg"),
            ("/api/files/job-2/document.md", None),
            ("/api/jobs/job-1/download-archive", None),
            ("/api/files/job-1/../../x", None),
            ("/api/files/job-1/%2e%2e/x", None),
            ("/api/files/job-1//etc/passwd", None),
            ("https://elsewhere/api/files/job-1/x", None),
            (None, None),
        ],
    )
    def test_only_links_to_files_of_the_job_have_a_name(
        self, link: str | None, name: str | None
    ) -> None:
        assert linked_file_name("job-1", link) == name

    async def test_a_file_in_remote_storage_is_fetched(self, tmp_path: Path) -> None:
        blob_store = DirectoryBlobStore(tmp_path / "elsewhere")
        blob = blob_store.path_of("jobs/job-1/1/frames/1.jpg")
        blob.parent.mkdir(parents=True)
        blob.write_bytes(b"a picture")
        job_service = JobService(None, Registry(), JobFiles(tmp_path, blob_store=blob_store))  # type: ignore[arg-type]  # not used
        backend, job = (
            LocalBackend(Application(Settings()), job_service),
            Job(job_id="job-1", attempt=1).document(),
        )
        path = await backend.fetch_file(job, "/api/files/job-1/frames/1.jpg", tmp_path)
        assert path == tmp_path / "1.jpg"
        assert path.read_bytes() == b"a picture"
        assert await backend.fetch_file(job, "/api/files/job-1/frames/2.jpg", tmp_path) is None


class TestTarget:
    @pytest.fixture(autouse=True)
    def environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SECRETARY_URL", "http://there")
        monkeypatch.setenv("SECRETARY_API_KEY", "key")

    def test_options_take_precedence_over_the_environment(self) -> None:
        assert Target().service_url == "http://there"
        assert Target(url="http://else").service_url == "http://else"
        assert Target(data_dir=Path("x")).service_url is None
        assert Target(config=Path("x")).service_url is None

    def test_url_and_data_dir_are_mutually_exclusive(self) -> None:
        with pytest.raises(InvalidParameters, match="goes without --data-dir"):
            _ = Target(url="http://else", data_dir=Path("x")).service_url

    def test_the_api_key_can_be_read_from_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "key").write_text(" secret\n")
        assert Target().key == "key"
        assert Target(api_key=f"@{tmp_path}/key").key == "secret"

    def test_mcp_reads_the_api_key_from_a_file(self, tmp_path: Path) -> None:
        result = CliRunner().invoke(app, ["mcp", "--api-key", f"@{tmp_path}/none"])
        assert isinstance(result.exception, InvalidParameters)

    def test_suggested_options_do_not_contain_the_key(self) -> None:
        assert Target(url="http://else", api_key="secret").as_options == " --url http://else"


@pytest.mark.parametrize(
    ("status", "code", "exit_with"),
    [
        (400, "VALIDATION_ERROR", ExitCode.USAGE),
        (401, "UNAUTHORIZED", ExitCode.REFUSED),
        (403, "FORBIDDEN", ExitCode.REFUSED),
        (404, "NOT_FOUND", ExitCode.NOT_FOUND),
        (404, "HTTP_404", ExitCode.UNREACHABLE),
        (200, "NO_JSON", ExitCode.UNREACHABLE),
        (409, "CONFLICT", ExitCode.FAILED),
        (413, "PAYLOAD_TOO_LARGE", ExitCode.FAILED),
        (415, "UNSUPPORTED_FILE", ExitCode.FAILED),
        (429, "RATE_LIMITED", ExitCode.REFUSED),
        (500, "INTERNAL_ERROR", ExitCode.UNREACHABLE),
        (503, "UNAVAILABLE", ExitCode.UNREACHABLE),
    ],
)
def test_api_errors_map_to_exit_codes(status: int, code: str, exit_with: ExitCode) -> None:
    kind = NotFound if status == 404 else ApiError
    error = local_error(kind(status, code, "Why"), "http://there")
    assert exit_code(error) == exit_with
    assert status == 401 or "Why" in str(error)
    if isinstance(error, JobFailed):
        assert error.code == code


class TestProgress:
    def test_a_pending_job_is_shown_as_waiting(self) -> None:
        assert JobProgress.of(Job().document()) == JobProgress(0, WAITING)

    def test_the_message_is_preferred_to_the_step(self) -> None:
        progress = Progress(step="pages", percent=40, message="2 of 5 pages")
        assert JobProgress.of(running(progress=progress)) == JobProgress(40, "2 of 5 pages")

    def test_no_line_is_printed_for_each_page(self) -> None:
        assert line_key(JobProgress(41, "Page 2 of 90")) == line_key(
            JobProgress(49, "Page 13 of 90")
        )
        assert line_key(JobProgress(41, "Page 2")) != line_key(JobProgress(50, "Page 2"))
        assert line_key(JobProgress(41, "Page 2")) != line_key(JobProgress(41, "Writing"))

    def test_the_remaining_time_is_extrapolated(self) -> None:
        job = running(progress=Progress(step="x", percent=25))
        assert remaining_time(job) == "90 s"
        assert remaining_time(Job().document()) == ""

    @pytest.mark.parametrize("width", [80, 100, 140])
    def test_ids_are_never_truncated(self, width: int) -> None:
        message = "[bold]A very long message about what is being done just now, and why it is so"
        job = running(job_name="[red]Name", progress=Progress(percent=5, message=message))
        screen = console()
        screen.width = width
        with screen.capture() as shown:
            screen.print(job_table([job], width))
        _, row = shown.get().splitlines()
        assert row.startswith(f"{job['job_id']} ")
        assert "[red]Na" in row and len(row) <= width


class TestDocuments:
    """A typo gets a message and no traceback."""

    @pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"{", b"[]", b"[" * 100_000])
    def test_invalid_parameter_files_are_rejected(self, tmp_path: Path, content: bytes) -> None:
        file = tmp_path / "parameters.json"
        file.write_bytes(content)
        with pytest.raises(InvalidParameters, match="--parameters"):
            read_parameters([], f"@{file}")

    @pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"{", b"2030-02-31", b"[" * 100_000])
    def test_invalid_batch_files_are_rejected(self, tmp_path: Path, content: bytes) -> None:
        file = tmp_path / "batch.yaml"
        file.write_bytes(content)
        with pytest.raises(InvalidParameters, match="neither JSON nor YAML"):
            _read_document(str(file))
