"""The examples of README and docs, and a shell to run them in."""

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.program import Program, Running

ROOT = Path(__file__).parents[2]
ADDRESS = "http://127.0.0.1:5000"
#: A line that starts a long-running process.
STAYS = re.compile(
    r"^(?:[A-Z_]+=\S+ |[A-Z_]+=\"[^\"]*\" )*(?:\.venv/bin/)?secretary (serve|worker)\b"
)
FENCE = re.compile(r"(?ms)^(?P<margin> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=margin)```$")


@dataclass(frozen=True)
class Example:
    """A code block on a page."""

    page: str
    language: str
    text: str

    def is_at(self, page: str, start: str) -> bool:
        """The key in lists of exceptions: the page, and how the block begins."""
        return self.page == page and self.text.startswith(start)

    def __str__(self) -> str:
        return f"{self.page}: {self.text.splitlines()[0][:50]}"


def pages() -> Iterator[Path]:
    yield ROOT / "README.md"
    yield from sorted((ROOT / "docs").rglob("*.md"))


def examples() -> Iterator[Example]:
    for page in pages():
        for match in FENCE.finditer(page.read_text()):
            name = str(page.relative_to(ROOT))
            yield Example(name, match["language"], textwrap.dedent(match["text"]))


def blocks(page: str, language: str) -> list[str]:
    return [one.text for one in examples() if (one.page, one.language) == (page, language)]


class Terminal:
    """A directory with the program on the path, to run the commands of a page."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.program = Program(directory, **settings)
        self._started: dict[str, str] = {}
        self.environment = self.program.env
        programs = directory / ".venv" / "bin"
        programs.mkdir(parents=True)
        program = programs / "secretary"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m secretary "$@"\n')
        program.chmod(0o755)
        self.environment["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
        self.environment["XDG_CACHE_HOME"] = str(directory / "caches")
        self.environment["HOME"] = str(directory)
        (directory / ".config" / "fish" / "completions").mkdir(parents=True)

    def type(self, lines: str, url: str = "") -> str:
        """Run the commands of an example against a service at this URL."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self._adapted(lines, url)],
            cwd=self.program.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, f"{lines}\n{done.stdout}{done.stderr}"
        return done.stdout

    def start(self, line: str) -> str:
        """Start a long-running process, stop it once it is ready, and return its output."""
        if line not in self._started:  # several pages contain the same
            self._started[line] = self._start(line)
        return self._started[line]

    def _start(self, line: str) -> str:
        port = " --port 0" if "secretary serve" in line else ""
        command = ["bash", "-c", f"exec env {self._adapted(line, '')}{port}"]
        running = Running(command, self.environment, self.program.directory)
        try:
            running.wait_for("listens on|takes jobs")
            return running.out + running.err
        finally:
            running.end()

    def run_python(self, code: str, url: str) -> str:
        """Run an example as a separate program."""
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code.replace(ADDRESS, url)],
            cwd=self.program.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}{done.stderr}"
        assert not done.stderr
        return done.stdout

    def _adapted(self, lines: str, url: str) -> str:
        lines = lines.replace(ADDRESS, url).replace("https://secretary.example.org", url)
        lines = lines.replace("curl ", "curl --fail --silent --show-error ")
        # Endless streams are read for a moment.
        lines = re.sub(r"(?m)^(curl .* -N .*)$", r"\1 --max-time 2 || test $? = 28", lines)
        # The example's path would hide that of the checkout.
        return lines.replace("PYTHONPATH=. ", "PYTHONPATH=.:$PYTHONPATH ")
