"""The artifacts of jobs can be found by name, and no other files."""

import json
import zipfile
from pathlib import Path

import pytest

from secretary.core.errors import NotFound
from secretary.core.job import Job, JobStatus
from secretary.storage.artifacts import JobFiles, with_urls


@pytest.fixture
def files(tmp_path: Path) -> JobFiles:
    return JobFiles(tmp_path / "data")


@pytest.fixture
def job(files: JobFiles, tmp_path: Path) -> Job:
    """The second attempt of a job, beside its first one and another job."""
    job, other = Job(job_type="pdf", attempt=2), Job(job_type="pdf", attempt=1)
    for each, attempt in ((job, 1), (job, 2), (other, 1)):
        directory = files.root / each.job_id / str(attempt)
        (directory / "pages").mkdir(parents=True)
        (directory / "pages" / "1.txt").write_text(f"{each.job_id} {attempt}")
    (files.root / "other").symlink_to(files.root / other.job_id)
    scratch = files.root / job.job_id / "2.scratch"
    scratch.mkdir()
    (scratch / "x.txt").touch()
    (tmp_path / "secret.txt").touch()
    return job


def test_a_file_of_the_last_attempt_is_found(files: JobFiles, job: Job) -> None:
    assert files.locate(job, "pages/1.txt").read_text() == f"{job.job_id} 2"


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "/",
        "pages",
        "pages/",
        "nothing",
        "../1/pages/1.txt",
        "../2/pages/1.txt",
        "pages/../pages/1.txt",
        "../2.scratch/x.txt",
        "../../other/1/pages/1.txt",
        "../../../../secret.txt",
        "../../../../../../../../../../etc/passwd",
        "/etc/passwd",
        "//etc/passwd",
        "%2e%2e/1/pages/1.txt",
        "..\\1\\pages\\1.txt",
        "pages\\1.txt",
        "pages/1.txt\x00",
        "\x00",
        "x" * 300,
        "x/" * 5000,
        "\ud800",
    ],
)
def test_no_other_file_is_found(files: JobFiles, job: Job, name: str) -> None:
    with pytest.raises(NotFound):
        files.locate(job, name)
    with pytest.raises(NotFound):
        files.locate(job, f"{files.root}/{job.job_id}/2/{name}")


def test_links_are_not_followed(files: JobFiles, job: Job, tmp_path: Path) -> None:
    directory = Path(files.attempt_directory(job))
    (directory / "out").symlink_to(tmp_path / "secret.txt")
    (directory / "away").symlink_to(tmp_path)
    (directory / "inside").symlink_to(directory / "pages" / "1.txt")
    (directory / "loop").symlink_to(directory / "loop")
    for name in ("out", "away/secret.txt", "inside", "loop"):
        with pytest.raises(NotFound):
            files.locate(job, name)


def test_a_data_directory_behind_a_link_works(tmp_path: Path, files: JobFiles, job: Job) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "data")
    assert JobFiles(tmp_path / "link").locate(job, "pages/1.txt").is_file()


async def test_after_completion_only_the_last_attempt_remains(files: JobFiles, job: Job) -> None:
    await files.remove_superseded(job)
    assert [path.name for path in (files.root / job.job_id).iterdir()] == ["2"]


async def test_the_next_attempt_of_a_restarted_job_remains(files: JobFiles, job: Job) -> None:
    (files.root / job.job_id / "3").mkdir()
    await files.remove_superseded(job)
    assert sorted(path.name for path in (files.root / job.job_id).iterdir()) == ["2", "3"]


async def test_discarding_an_attempt_leaves_earlier_ones_and_the_upload(
    files: JobFiles, job: Job
) -> None:
    upload = files.uploads.root / job.job_id / "a.pdf"
    upload.parent.mkdir(parents=True)
    upload.touch()
    await files.discard_attempt(job)
    assert [path.name for path in (files.root / job.job_id).iterdir()] == ["1"]
    assert upload.exists()


async def test_removing_a_dead_attempt_leaves_the_others_and_the_upload(
    files: JobFiles, job: Job
) -> None:
    (files.root / job.job_id / "1.scratch").mkdir()
    upload = files.uploads.root / job.job_id / "a.pdf"
    upload.parent.mkdir(parents=True)
    upload.touch()
    await files.remove_attempt(job.job_id, 1)
    assert all(path.name.startswith("2") for path in (files.root / job.job_id).iterdir())
    assert upload.exists()


async def test_a_removed_job_leaves_neither_files_nor_upload(files: JobFiles, job: Job) -> None:
    upload = files.uploads.root / job.job_id / "a.pdf"
    upload.parent.mkdir(parents=True)
    upload.touch()
    await files.remove(job.job_id)
    assert not upload.parent.exists()
    assert not (files.root / job.job_id).exists()


def completed(job: Job, **results: object) -> Job:
    return job.model_copy(update={"status": JobStatus.COMPLETED, "results": results})


class TestArchive:
    async def test_it_is_created_on_the_first_request(self, files: JobFiles, job: Job) -> None:
        directory = files.root / job.job_id / "2"
        (directory / "texts.json").write_text("{}")
        (directory / "images.zip").write_bytes(b"some of the same")
        done = completed(job, archive_filename="a.zip", more_in="texts.json")
        archive = await files.archive(done)
        assert archive.path == directory / "a.zip"
        assert zipfile.ZipFile(archive.path).namelist() == ["pages/1.txt"]
        assert await files.archive(done) == archive
        assert sorted(path.name for path in directory.iterdir()) == [
            "a.zip", "images.zip", "pages", "texts.json",
        ]  # fmt: skip

    async def test_an_archive_made_by_the_job_is_returned_unchanged(
        self, files: JobFiles, job: Job
    ) -> None:
        (files.root / job.job_id / "2" / "own.zip").write_bytes(b"own")
        archive = await files.archive(completed(job, archive_filename="own.zip"))
        assert await files.read(archive) == b"own"

    @pytest.mark.parametrize("name", [None, 7, "", "../x.zip", "/x.zip", "pages/x.zip", ".."])
    async def test_a_name_outside_the_job_is_not_found(
        self, files: JobFiles, job: Job, name: object
    ) -> None:
        with pytest.raises(NotFound):
            await files.archive(completed(job, archive_filename=name, more_in="texts.json"))
        assert list(files.root.rglob("x.zip")) == []

    async def test_an_archive_that_does_not_exist_is_not_found(
        self, files: JobFiles, job: Job
    ) -> None:
        with pytest.raises(NotFound):
            await files.archive(completed(job, archive_filename="own.zip"))

    async def test_an_incomplete_job_has_no_archive(self, files: JobFiles, job: Job) -> None:
        failed = job.model_copy(update={"results": {"archive_filename": "a.zip"}})
        with pytest.raises(NotFound):
            await files.archive(failed)


class TestUrls:
    def test_names_in_results_become_urls_that_serve_the_files(self, job: Job) -> None:
        job = job.model_copy(update={"job_type": "pdf"})
        stored = {
            "markdown_file": "a b.md",
            "page_texts": ["page_1.txt"],
            "assets": ["images/1.png"],
            "images_archive": "images.zip",
            "previews_archive": None,
            "archive_filename": "all.zip",
            "subtitles": {"srt": "a.srt", "vtt": "a.vtt"},
            "frames": [{"time": 1.0, "file": "slide.jpg"}],
            "recording": {"file": "recording.mp4", "file_size": 7},
        }
        files = f"/api/files/{job.job_id}"
        assert with_urls(job, stored) == {
            "markdown_file": f"{files}/a%20b.md",
            "page_texts": [f"/api/pdf/text-content/{job.job_id}/page_1.txt"],
            "assets": [f"{files}/images/1.png"],
            "images_archive_url": f"{files}/images.zip",
            "previews_archive_url": None,
            "archive_filename": "all.zip",
            "archive_url": f"/api/jobs/{job.job_id}/download-archive",
            "subtitles": {"srt": f"{files}/a.srt", "vtt": f"{files}/a.vtt"},
            "frames": [{"time": 1.0, "file": "slide.jpg", "url": f"{files}/slide.jpg"}],
            "recording": {"url": f"{files}/recording.mp4", "file_size": 7},
        }

    def test_results_of_older_versions_stay_as_they_are(self, job: Job) -> None:
        old = {
            "markdown_file": "/api/files/job-1/a.md",
            "assets": ["/api/files/job-1/1.png"],
            "images_archive_url": "/api/files/job-1/images.zip",
            "recording": {"url": "/api/files/job-1/recording.mp4"},
        }
        assert with_urls(job, old) == old


class TestLongResults:
    async def test_they_are_merged_into_the_results(self, files: JobFiles, job: Job) -> None:
        more = {"extracted_text": "long", "metadata": {"text_contents": [1]}}
        (files.root / job.job_id / "2" / "texts.json").write_text(json.dumps(more))
        short = {"extracted_text": None, "metadata": {"page_count": 1}, "more_in": "texts.json"}
        done = await files.load_results(completed(job, **short))
        assert done.results == {
            "extracted_text": "long",
            "metadata": {"page_count": 1, "text_contents": [1]},
        }

    @pytest.mark.parametrize("name", ["gone.json", "pages/1.txt", "../x", 7])
    async def test_a_missing_or_invalid_results_file_is_ignored(
        self, files: JobFiles, job: Job, name: object
    ) -> None:
        done = completed(job, extracted_text=None, more_in=name)
        assert (await files.load_results(done)).results == {"extracted_text": None, "metadata": {}}

    async def test_jobs_without_a_results_file_are_unchanged(
        self, files: JobFiles, job: Job
    ) -> None:
        assert await files.load_results(job) is job


async def test_the_artifacts_of_a_running_attempt_are_listed(files: JobFiles, job: Job) -> None:
    directory = files.root / job.job_id / "2"
    (directory / "a.txt").write_text("four")
    (directory / ".unfinished").touch()
    (directory / "texts.json").touch()
    (directory / "link.txt").symlink_to(directory / "a.txt")
    job = job.model_copy(update={"results": {"more_in": "texts.json"}})
    page = f"{job.job_id} 2"
    assert await files.list_artifacts(job) == [("a.txt", 4), ("pages/1.txt", len(page))]
    assert await files.list_artifacts(Job(job_type="pdf", attempt=1)) == []


async def test_an_artifact_may_be_named_None(files: JobFiles, job: Job) -> None:
    (files.root / job.job_id / "2" / "None").touch()
    assert ("None", 0) in await files.list_artifacts(job)


async def test_a_directory_that_cannot_be_cleared_raises_no_error(
    files: JobFiles,
) -> None:
    files.root.mkdir(parents=True)
    job = Job(attempt=1)
    (files.root / job.job_id).touch()
    await files.clear_scratch(job)
    await files.remove_superseded(job)
    await files.discard_attempt(job)
