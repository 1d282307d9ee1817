"""`secretary convert` as a new user tries it: without a service or settings."""

import asyncio
import io
import re
import signal
from pathlib import Path

import docx
import pytest
from PIL import Image, ImageDraw, ImageFont

from ..audio_files import speech
from ..llm_server import llm_server, says
from ..minimal_files import pdf
from ..sample_documents import as_file, scan_of
from .program import Program, Result
from .terminal import Terminal


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """In its own directory and home, with the settings of a service present."""
    (tmp_path / "here").mkdir()
    program = Program(tmp_path / "here", MONGODB_URI="mongodb://127.0.0.1:9/none")
    program.env["XDG_CACHE_HOME"] = str(tmp_path / "caches")
    return program


def give(program: Program, name: str, content: bytes) -> str:
    path = program.directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return name


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def leftovers(program: Program) -> list[Path]:
    """The files a run has left in the user's directory, apart from the cache."""
    home = Path(program.env["XDG_CACHE_HOME"]) / "secretary"
    return [path for path in home.glob("*") if path.name != "cache"]


def converted(program: Program, *arguments: str) -> Result:
    result = program.run("convert", *arguments, seconds=60)
    assert (result.code, result.err) == (0, "")
    return result


class TestPdf:
    def test_becomes_markdown_in_this_directory(self, program: Program) -> None:
        result = converted(program, give(program, "sub/report.pdf", pdf("Hello", "World")))
        assert result.out == "report.md\n"
        text = (program.directory / "report.md").read_text()
        assert text.index("Hello") < text.index("World")
        assert files(program.directory) == ["report.md", "sub", "sub/report.pdf"]

    def test_becomes_markdown_in_another_directory(self, program: Program) -> None:
        result = converted(program, give(program, "a.pdf", pdf("Hello")), "-o", "out/deep")
        assert result.out == "out/deep/a.md\n"
        assert "Hello" in (program.directory / "out/deep/a.md").read_text()

    def test_stdout_prints_the_markdown(self, program: Program) -> None:
        result = converted(program, give(program, "a.pdf", pdf("Hello")), "--stdout")
        assert "Hello" in result.out
        assert files(program.directory) == ["a.pdf"]

    def test_a_page_range_is_converted(self, program: Program) -> None:
        name = give(program, "a.pdf", pdf("One", "Two", "Three", "Four"))
        text = converted(program, name, "--stdout", "--pages", "2-3").out
        present = [word in text for word in ("One", "Two", "Three", "Four")]
        assert present == [False, True, True, False]

    def test_it_is_detected_by_its_content(self, program: Program) -> None:
        assert "Hello" in converted(program, give(program, "a.txt", pdf("Hello")), "--stdout").out

    def test_no_other_files_remain(self, program: Program) -> None:
        converted(program, give(program, "a.pdf", pdf("Hello")), "--stdout")
        assert leftovers(program) == []
        assert not program.data_dir.exists()


class TestScan:
    def test_a_scan_is_recognised_automatically(self, program: Program) -> None:
        scan = scan_of(drawn("Invoice number 4711"))
        text = converted(program, give(program, "a.pdf", scan), "--stdout").out
        assert "Invoice number 4711" in text


class TestImage:
    def test_an_image_is_recognised(self, program: Program) -> None:
        picture = as_file(drawn("Invoice number 4711"), "PNG")
        result = converted(program, give(program, "a.png", picture))
        assert result.out == "a.md\n"
        assert "Invoice number 4711" in (program.directory / "a.md").read_text()


class TestOfficeFile:
    def give(self, program: Program) -> str:
        picture, document = io.BytesIO(), io.BytesIO()
        Image.new("RGB", (100, 50), "red").save(picture, "PNG")
        written = docx.Document()
        written.add_heading("Report")
        written.add_paragraph("A paragraph")
        written.add_picture(picture)
        written.save(document)
        return give(program, "my report.docx", document.getvalue())

    def test_becomes_markdown(self, program: Program) -> None:
        text = converted(program, self.give(program), "--stdout").out
        assert text.startswith("# Report\n\nA paragraph\n")

    def test_its_images_are_saved(self, program: Program) -> None:
        assert converted(program, self.give(program), "--images").out == "my report.md\n"
        text = (program.directory / "my report.md").read_text()
        (name,) = re.findall(r"!\[.*?\]\(my%20report_files/(.+?)\)", text)
        with Image.open(program.directory / "my report_files" / name) as picture:
            assert picture.size == (100, 50)


def drawn(text: str) -> Image.Image:
    """A page with a line of text, as an image."""
    picture = Image.new("L", (1240, 1754), "white")
    font = ImageFont.load_default(size=48)
    ImageDraw.Draw(picture).text((100, 100), text, fill="black", font=font)
    return picture


class TestCache:
    def test_a_second_run_uses_the_cache(self, program: Program, tmp_path: Path) -> None:
        name = give(program, "a.pdf", pdf("Hello"))
        first = converted(program, name, "--stdout").out
        (cached,) = (tmp_path / "caches").rglob("document.*.md")
        cached.unlink()  # it may be hard-linked
        cached.write_text(f"{first} from the cache")
        give(program, "b.pdf", pdf("Hello"))
        assert converted(program, "b.pdf", "--stdout").out == f"{first} from the cache\n"


class TestVision:
    async def test_pages_are_read_by_a_vision_model(self, program: Program) -> None:
        name = give(program, "a.pdf", pdf("Hello"))
        async with llm_server(says("# Seen")) as server:
            program.env |= {
                "SECRETARY_LLM__BASE_URL": server.web.url("/v1"),
                "SECRETARY_LLM__MODEL": "scripted",
            }
            arguments = ("convert", name, "--stdout", "--method", "llm")
            result = await asyncio.to_thread(program.run, *arguments)
        assert (result.code, result.out, result.err) == (0, "# Seen\n", "")
        assert len(server.requests) == 1

    def test_a_missing_model_names_the_setting(self, program: Program) -> None:
        result = program.run("convert", give(program, "a.pdf", pdf()), "--method", "llm")
        assert result.code == 1
        assert "set llm.model" in result.err
        assert result.err.endswith("(ENGINE_UNAVAILABLE)\n")


class TestSeveralFiles:
    def test_output_is_in_the_order_of_the_files(self, program: Program) -> None:
        names = [give(program, f"{word}.pdf", pdf(word)) for word in ("b", "c", "a")]
        assert converted(program, *names).out == "b.md\nc.md\na.md\n"

    def test_duplicate_names_are_made_unique(self, program: Program) -> None:
        names = [give(program, f"{name}/a.pdf", pdf(name)) for name in ("one", "two", "three")]
        assert converted(program, *names).out == "a.md\na.pdf.md\na.pdf-2.md\n"
        assert "three" in (program.directory / "a.pdf-2.md").read_text()

    def test_they_are_printed_one_after_the_other(self, program: Program) -> None:
        names = [give(program, f"{word}.pdf", pdf(word.upper())) for word in ("b", "a")]
        text = converted(program, *names, "--stdout").out
        positions = [text.index(word) for word in ("<!-- b.pdf -->", "B", "<!-- a.pdf -->", "A")]
        assert positions == sorted(positions)

    def test_an_input_file_is_never_overwritten(self, program: Program) -> None:
        name = give(program, "a.md", pdf("Hello"))  # whatever its name
        assert converted(program, name).out == "a.md.md\n"
        assert (program.directory / name).read_bytes() == pdf("Hello")


class TestRecordings:
    def test_speech_becomes_text_and_subtitles(self, program: Program) -> None:
        file = give(program, "meeting.wav", speech().read_bytes())
        result = program.run("convert", file, "--subtitles", "--language", "en", seconds=90)
        assert result.code == 0, result.err
        made = {
            ending: (program.directory / f"meeting.{ending}").read_text()
            for ending in ("md", "srt", "vtt")
        }
        assert "best of times" in made["md"]
        assert made["srt"].startswith("1\n00:00:00,")
        assert made["vtt"].startswith("WEBVTT")

    def test_existing_subtitles_are_used_and_kept(self, program: Program) -> None:
        file = give(program, "meeting.wav", speech().read_bytes())
        own = "1\n00:00:00,000 --> 00:00:02,000\nWritten by hand\n"
        give(program, "meeting.srt", own.encode())
        result = program.run("convert", file, "--subtitles", seconds=90)
        assert result.code == 0, result.err
        assert "meeting.srt is there already" in result.err
        assert "Written by hand" in (program.directory / "meeting.md").read_text()
        assert (program.directory / "meeting.srt").read_text() == own


class TestFailures:
    def test_one_failure_does_not_stop_the_others(self, program: Program) -> None:
        broken = give(program, "broken.pdf", b"%PDF-1.4 and no more")
        good = give(program, "good.pdf", pdf("Hello"))
        result = program.run("convert", broken, "missing.pdf", good, ".")
        assert (result.code, result.out) == (1, "good.md\n")
        lines = result.err.splitlines()
        assert len(lines) == 3
        assert lines[0].startswith("broken.pdf: ") and lines[0].endswith("(FILE_CORRUPT)")
        assert lines[1] == "missing.pdf: No such file or directory (VALIDATION_ERROR)"
        assert lines[2] == ".: Is a directory (VALIDATION_ERROR)"
        assert leftovers(program) == []

    def test_unknown_file_types_are_rejected(self, program: Program) -> None:
        result = program.run("convert", give(program, "a.pdf", bytes(range(256))))
        assert result.code == 1
        assert "of a kind that is known (UNSUPPORTED_FILE)" in result.err

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["--pages", "0"], "--pages 0: it must look like"),
            (["--pages", "7-3"], "the last page comes before the first"),
            (["--stdout", "-o", "x"], "it goes without -o"),
            (["--method", "magic"], "magic"),
        ],
    )
    def test_invalid_options_are_rejected_first(
        self, program: Program, arguments: list[str], says: str
    ) -> None:
        result = program.run("convert", give(program, "a.pdf", pdf()), *arguments)
        assert result.code == 2
        assert says in result.err
        assert "Traceback" not in result.err

    def test_unwritable_output_is_reported(self, program: Program) -> None:
        give(program, "out", b"a file")
        result = program.run("convert", give(program, "a.pdf", pdf()), "-o", "out")
        assert result.code == 1
        assert "a.pdf: the result cannot be written: " in result.err

    def test_an_unwritable_cache_is_reported(self, program: Program, tmp_path: Path) -> None:
        (tmp_path / "caches").write_text("a file")
        result = program.run("convert", give(program, "a.pdf", pdf()))
        assert result.code == 2
        assert "Name another place with --data-dir" in result.err
        assert converted(program, "a.pdf", "--data-dir", str(tmp_path / "else")).out == "a.md\n"


def on_a_terminal(program: Program, *arguments: str) -> Terminal:
    """Errors and the progress bar go to stderr; stdout is only for results."""
    return Terminal(program, "convert", *arguments, is_piped=True)


class TestTerminal:
    def test_the_bar_is_not_part_of_the_output(self, program: Program) -> None:
        name = give(program, "a.pdf", pdf(*["Hello"] * 500))
        terminal = on_a_terminal(program, name, "--stdout")
        assert (terminal.end(), terminal.out.count("Hello")) == (0, 500)
        assert "Hello" not in terminal.shown
        assert "a.pdf" in terminal.shown

    def test_failures_are_shown_with_the_bar(self, program: Program) -> None:
        terminal = on_a_terminal(program, give(program, "a.pdf", b"%PDF-1.4"), "missing.pdf")
        assert (terminal.end(), terminal.out) == (1, "")
        assert "a.pdf: " in terminal.shown
        assert "missing.pdf: No such file" in terminal.shown


class TestInterruption:
    def start(self, program: Program) -> Terminal:
        terminal = on_a_terminal(program, give(program, "long.pdf", pdf(*["Hello"] * 10_000)))
        terminal.wait_for(r"long\.pdf.* \d+ %.*pages are done")
        return terminal

    @pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_nothing_remains(self, program: Program, sign: int) -> None:
        terminal = self.start(program)
        terminal.send(sign)
        assert (terminal.end(), terminal.out) == (130, "")
        assert leftovers(program) == []
        assert files(program.directory) == ["long.pdf"]
        with pytest.raises(ProcessLookupError):
            terminal.send(0)

    def test_the_next_run_removes_what_a_killed_one_left(self, program: Program) -> None:
        terminal = self.start(program)
        terminal.send(signal.SIGKILL)
        assert terminal.end() == -signal.SIGKILL
        assert len(leftovers(program)) == 1
        converted(program, give(program, "a.pdf", pdf("Hello")))
        assert leftovers(program) == []
