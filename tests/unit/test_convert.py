"""How `secretary convert` interprets its arguments; the command itself is in tests/acceptance."""

import os
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from secretary.app import Application
from secretary.cli.convert import (
    ConvertOptions,
    Method,
    OutputWriter,
    collect_output,
    page_range,
    request_for,
)
from secretary.cli.local import LocalBackend, run_directory, user_cache
from secretary.config import Settings
from secretary.core.errors import InvalidParameters, UnsupportedFile
from secretary.core.job import Job
from secretary.handlers.pdf import PdfParameters
from secretary.jobs.handler import Registry
from secretary.jobs.service import JobService
from secretary.storage.artifacts import JobFiles

from ..minimal_files import MP4, PNG, office, pdf

PLAIN = ConvertOptions("auto", (None, None), None, None, False)


@pytest.mark.parametrize(
    ("text", "pages"),
    [
        (None, (None, None)),
        ("3-7", (3, 7)),
        (" 3 - 7 ", (3, 7)),
        ("5", (5, 5)),
        ("3-", (3, None)),
        ("-7", (None, 7)),
    ],
)
def test_page_ranges_are_parsed(text: str | None, pages: tuple[int | None, int | None]) -> None:
    assert page_range(text) == pages


@pytest.mark.parametrize("text", ["", "-", "0", "0-3", "a", "7-3", "1-2-3", "1,2", "-1-2", "²"])
def test_invalid_page_ranges_are_rejected(text: str) -> None:
    with pytest.raises(InvalidParameters, match="--pages"):
        page_range(text)


class TestJobRequest:
    def request(
        self, file: Path, content: bytes, options: ConvertOptions = PLAIN
    ) -> tuple[str, dict[str, object]]:
        file.write_bytes(content)
        request = request_for(file, options)
        return request["job_type"], request["parameters"]

    def test_a_pdf_job_has_all_options(self, tmp_path: Path) -> None:
        options = ConvertOptions("both", (2, None), "deu", "secret", True)
        job_type, parameters = self.request(tmp_path / "a.docx", pdf(), options)
        assert job_type == "pdf"
        assert parameters == {
            "extraction_method": "both", "page_start": 2, "password": "secret",
            "ocr_language": "deu", "include_images": True,
        }  # fmt: skip

    def test_an_image_becomes_an_ocr_job(self, tmp_path: Path) -> None:
        job_type, parameters = self.request(tmp_path / "a.pdf", PNG)
        assert (job_type, parameters["extraction_method"]) == ("imageocr", "auto")

    def test_an_office_file_becomes_an_office_job(self, tmp_path: Path) -> None:
        job_type, parameters = self.request(tmp_path / "a.pdf", office("word"))
        assert (job_type, parameters) == ("office", {"include_images": False})

    def test_an_office_file_with_pages_is_converted_to_pdf(self, tmp_path: Path) -> None:
        options = ConvertOptions("auto", (2, 3), None, None, False)
        job_type, parameters = self.request(tmp_path / "a.pdf", office("word"), options)
        assert (job_type, parameters["via_pdf"], parameters["page_end"]) == ("office", True, 3)

    def test_a_legacy_office_file_is_converted_to_pdf(self, tmp_path: Path) -> None:
        ole = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(512)
        assert self.request(tmp_path / "a.doc", ole)[1]["via_pdf"] is True

    def test_a_video_is_a_video_job_only_with_images(self, tmp_path: Path) -> None:
        spoken, film = replace(PLAIN, language="en"), replace(PLAIN, images=True)
        job_type, parameters = self.request(tmp_path / "a.pdf", MP4, spoken)
        assert (job_type, parameters["source_language"]) == ("audio", "en")
        job_type, parameters = self.request(tmp_path / "a.pdf", MP4, film)
        assert (job_type, parameters["include_slide_text"]) == ("video", True)

    def test_unknown_content_is_rejected(self, tmp_path: Path) -> None:
        with pytest.raises(UnsupportedFile):
            self.request(tmp_path / "a.pdf", bytes(range(256)))


class TestOutput:
    async def output_of(self, data: Path, **results: object) -> tuple[str, list[Path], list[Path]]:
        job_service = JobService(None, Registry(), JobFiles(data))  # type: ignore[arg-type]  # not used
        job = Job(job_id="job-1", attempt=1, results=results).document()
        backend = LocalBackend(Application(Settings()), job_service)
        return await collect_output(backend, job, data / "unused")

    async def test_images_are_saved_and_linked(self, tmp_path: Path) -> None:
        made = tmp_path / "data" / "jobs" / "job-1" / "1"
        made.mkdir(parents=True)
        (made / "image_1.png").write_bytes(PNG)
        (made / "document.md").write_text("# A\n\n![x](image_1.png) ![y](image_2.png)\n\n")
        file = tmp_path / "my notes.docx"
        output = await self.output_of(
            tmp_path / "data",
            markdown_file="/api/files/job-1/document.md",
            assets=["/api/files/job-1/image_1.png", "/api/files/job-1/../../../x"],
        )
        OutputWriter(tmp_path / "out", [file]).write(file, *output)
        text = (tmp_path / "out" / "my notes.md").read_text()
        assert text == "# A\n\n![x](my%20notes_files/image_1.png) ![y](image_2.png)\n"
        assert os.listdir(tmp_path / "out" / "my notes_files") == ["image_1.png"]

    async def test_markdown_in_the_results_is_used_without_a_file(self, tmp_path: Path) -> None:
        file = tmp_path / "a.pdf"
        output = await self.output_of(tmp_path, markdown_content="Text")
        OutputWriter(tmp_path, [file]).write(file, *output)
        assert (tmp_path / "a.md").read_text() == "Text\n"

    async def test_images_without_text_are_linked(self, tmp_path: Path) -> None:
        made = tmp_path / "data" / "jobs" / "job-1" / "1"
        made.mkdir(parents=True)
        (made / "preview_001.jpg").write_bytes(b"x")
        url, file = "/api/files/job-1/preview_001.jpg", tmp_path / "a.pdf"
        output = await self.output_of(tmp_path / "data", assets=[url])
        OutputWriter(tmp_path, [file]).write(file, *output)
        assert (tmp_path / "a.md").read_text().strip() == "![](a_files/preview_001.jpg)"

    @pytest.mark.parametrize("directory", [None, Path()])
    async def test_empty_output_is_an_error(self, tmp_path: Path, directory: Path | None) -> None:
        file = tmp_path / "a.pdf"
        output = await self.output_of(tmp_path, markdown_content=" \n")
        with pytest.raises(UnsupportedFile, match="There is no text in it"):
            OutputWriter(directory, [file]).write(file, *output)


class TestRunDirectory:
    def test_it_is_removed_after_the_run(self, tmp_path: Path) -> None:
        with run_directory(tmp_path / "home") as directory:
            (directory / "file").write_text("x")
        assert os.listdir(tmp_path / "home") == []

    def test_directories_of_other_runs_are_kept(self, tmp_path: Path) -> None:
        with run_directory(tmp_path) as one, run_directory(tmp_path) as two:
            assert one.exists() and two.exists()

    def test_the_cache_directory_follows_the_environment(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sys.platform", "linux")
        monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
        assert user_cache() == Path("/caches/secretary")
        monkeypatch.setenv("XDG_CACHE_HOME", "")
        monkeypatch.setenv("HOME", "/home/ann")
        assert user_cache() == Path("/home/ann/.cache/secretary")


def test_the_methods_match_the_job_type() -> None:
    methods = get_args(PdfParameters.model_fields["extraction_method"].annotation)
    assert {*get_args(Method), "tesseract_ocr"} == set(methods)
