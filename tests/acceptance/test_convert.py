"""`secretary convert` as a new user tries it: no service, no settings, a file and a result."""

import os
import pty
import re
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest

from ..documents import MP4, pdf
from .program import COMMAND, Program, Result


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """In a directory of its own, with a home of its own, and a service's settings in the way."""
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
    """What a run has left in the user's directory, apart from the cache."""
    home = Path(program.env["XDG_CACHE_HOME"]) / "secretary"
    return [path for path in home.glob("*") if path.name != "cache"]


def converted(program: Program, *arguments: str) -> Result:
    result = program.run("convert", *arguments, seconds=60)
    assert (result.code, result.err) == (0, "")
    return result


class TestAPdf:
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

    def test_is_printed(self, program: Program) -> None:
        result = converted(program, give(program, "a.pdf", pdf("Hello")), "--stdout")
        assert "Hello" in result.out
        assert files(program.directory) == ["a.pdf"]

    def test_some_of_its_pages(self, program: Program) -> None:
        name = give(program, "a.pdf", pdf("One", "Two", "Three", "Four"))
        text = converted(program, name, "--stdout", "--pages", "2-3").out
        found = [word in text for word in ("One", "Two", "Three", "Four")]
        assert found == [False, True, True, False]

    def test_is_known_by_its_content(self, program: Program) -> None:
        assert "Hello" in converted(program, give(program, "a.txt", pdf("Hello")), "--stdout").out

    def test_leaves_nothing_else_behind(self, program: Program) -> None:
        converted(program, give(program, "a.pdf", pdf("Hello")), "--stdout")
        assert leftovers(program) == []
        assert not program.data_dir.exists()


class TestSeveralFiles:
    def test_are_told_in_their_order(self, program: Program) -> None:
        names = [give(program, f"{word}.pdf", pdf(word)) for word in ("b", "c", "a")]
        assert converted(program, *names).out == "b.md\nc.md\na.md\n"

    def test_of_the_same_name_get_names_of_their_own(self, program: Program) -> None:
        names = [give(program, f"{place}/a.pdf", pdf(place)) for place in ("one", "two", "three")]
        assert converted(program, *names).out == "a.md\na.pdf.md\na.pdf-2.md\n"
        assert "three" in (program.directory / "a.pdf-2.md").read_text()

    def test_are_printed_one_after_the_other(self, program: Program) -> None:
        names = [give(program, f"{word}.pdf", pdf(word.upper())) for word in ("b", "a")]
        text = converted(program, *names, "--stdout").out
        places = [text.index(word) for word in ("<!-- b.pdf -->", "B", "<!-- a.pdf -->", "A")]
        assert places == sorted(places)

    def test_a_source_is_never_written_over(self, program: Program) -> None:
        name = give(program, "a.md", pdf("Hello"))  # whatever it is called
        assert converted(program, name).out == "a.md.md\n"
        assert (program.directory / name).read_bytes() == pdf("Hello")


class TestFailures:
    def test_one_that_fails_does_not_keep_the_others_from_it(self, program: Program) -> None:
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

    def test_a_film_is_no_document(self, program: Program) -> None:
        result = program.run("convert", give(program, "a.pdf", MP4))
        assert result.code == 1
        assert "neither a PDF nor an office file nor a picture (UNSUPPORTED_FILE)" in result.err

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["--pages", "0"], "--pages 0: it must look like"),
            (["--pages", "7-3"], "the last page comes before the first"),
            (["--stdout", "-o", "x"], "it goes without -o"),
            (["--method", "magic"], "magic"),
        ],
    )
    def test_a_wrong_use_is_refused_before_anything_is_done(
        self, program: Program, arguments: list[str], says: str
    ) -> None:
        result = program.run("convert", give(program, "a.pdf", pdf()), *arguments)
        assert result.code == 2
        assert says in result.err
        assert "Traceback" not in result.err

    def test_what_cannot_be_written_is_told(self, program: Program) -> None:
        give(program, "out", b"a file")
        result = program.run("convert", give(program, "a.pdf", pdf()), "-o", "out")
        assert result.code == 1
        assert "a.pdf: what came of it cannot be written: " in result.err

    def test_a_home_that_cannot_be_written_is_told(self, program: Program, tmp_path: Path) -> None:
        (tmp_path / "caches").write_text("a file")
        result = program.run("convert", give(program, "a.pdf", pdf()))
        assert result.code == 2
        assert "Name another place with --data-dir" in result.err
        assert converted(program, "a.pdf", "--data-dir", str(tmp_path / "else")).out == "a.md\n"


class TestWhenItIsStopped:
    def start(self, program: Program) -> tuple[subprocess.Popen[bytes], int]:
        """A long conversion under way, on a terminal; and the terminal."""
        name = give(program, "long.pdf", pdf(*["Hello"] * 10_000))
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [*COMMAND, "convert", name],
            env={**program.env, "TERM": "xterm", "COLUMNS": "120"},
            cwd=program.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        shown, deadline = b"", time.monotonic() + 30
        while not re.search(rb"long\.pdf.* \d+ %.*processing_pages", shown):
            assert time.monotonic() < deadline, shown
            if select.select([ours], [], [], 1)[0]:
                shown += os.read(ours, 65536)
        return process, ours

    def end(self, process: subprocess.Popen[bytes], terminal: int, sign: int) -> int:
        os.killpg(process.pid, sign)
        try:
            while os.read(terminal, 65536):  # or it might wait for someone to read
                pass
        except OSError:
            pass  # nobody writes to it any more
        os.close(terminal)
        return process.wait(20)

    @pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_nothing_is_left(self, program: Program, sign: int) -> None:
        process, terminal = self.start(program)
        assert self.end(process, terminal, sign) == 130
        assert leftovers(program) == []
        assert files(program.directory) == ["long.pdf"]
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)

    def test_what_a_killed_run_left_goes_with_the_next(self, program: Program) -> None:
        process, terminal = self.start(program)
        assert self.end(process, terminal, signal.SIGKILL) == -signal.SIGKILL
        assert len(leftovers(program)) == 1
        converted(program, give(program, "a.pdf", pdf("Hello")))
        assert leftovers(program) == []
