"""The command line over HTTP: errors, uploads to the service and downloads from it."""

import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import docx
import pytest
from PIL import Image

from ..minimal_files import pdf
from .program import Program, Running
from .terminal import Terminal

KEY, BOUND = "key-of-the-operator", "key-of-ann"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    keys = f"{KEY},{BOUND}:ann"
    with Program(tmp_path_factory.mktemp("cli"), SECRETARY_API_KEYS=keys).serving() as running:
        yield running


@pytest.fixture
def remote(service: Running, tmp_path: Path) -> Program:
    """A machine that has the service's URL and API key."""
    return Program(tmp_path, SECRETARY_URL=service.url, SECRETARY_API_KEY=KEY)


class TestApiKey:
    def test_comes_from_the_environment(self, remote: Program) -> None:
        assert remote.run("jobs", "list").code == 0

    def test_comes_from_a_file(self, remote: Program) -> None:
        (remote.directory / "key").write_text(f"{KEY}\n")
        remote.env["SECRETARY_API_KEY"] = "wrong"
        assert remote.run("jobs", "list", "--api-key", "@key").code == 0
        remote.env["SECRETARY_API_KEY"] = "@key"
        assert remote.run("jobs", "list").code == 0

    def test_a_missing_key_file_is_reported(self, remote: Program) -> None:
        result = remote.run("jobs", "list", "--api-key", "@nowhere")
        assert (result.code, result.err) == (
            2,
            "--api-key @nowhere: No such file or directory\n",
        )

    @pytest.mark.parametrize("key", ["wrong", ""])
    def test_a_wrong_key_gives_exit_code_5(self, remote: Program, key: str) -> None:
        remote.env["SECRETARY_API_KEY"] = key
        result = remote.run("jobs", "list")
        assert result.code == 5
        assert "Give its key in SECRETARY_API_KEY, or from a file: --api-key @FILE" in result.err
        assert "Traceback" not in result.err

    def test_missing_permissions_give_exit_code_5(self, remote: Program) -> None:
        job = remote.json("submit", "selftest", "-p", "seconds=0", "--user", "bob")
        remote.env["SECRETARY_API_KEY"] = BOUND
        assert remote.run("jobs", "show", job["job_id"]).code == 4  # it belongs to bob
        result = remote.run("submit", "selftest", "--user", "bob")
        assert (result.code, "does not allow this" in result.err) == (5, True)


class TestService:
    def test_an_unreachable_service_gives_exit_code_3(self, remote: Program) -> None:
        result = remote.run("jobs", "list", "--url", "http://127.0.0.1:1")
        assert result.code == 3
        assert "Nothing answers at http://127.0.0.1:1" in result.err
        assert "It is started with: secretary serve" in result.err
        assert "Traceback" not in result.err

    @pytest.mark.parametrize("url", ["localhost:5000", "ftp://localhost", "http://", "x"])
    def test_the_url_must_be_http(self, remote: Program, url: str) -> None:
        result = remote.run("jobs", "list", "--url", url)
        assert result.code == 2
        assert f"--url {url}: it must be the address of a service" in result.err

    def test_data_dir_takes_precedence_over_the_environment(self, remote: Program) -> None:
        assert "there are no jobs in" in remote.run("jobs", "list", "--data-dir", "x").err
        result = remote.run("jobs", "list", "--data-dir", "x", "--url", "http://127.0.0.1:1")
        assert (result.code, "it goes without --data-dir" in result.err) == (2, True)

    @pytest.mark.parametrize("command", ["serve", "worker"])
    def test_serve_and_worker_reject_a_url(self, remote: Program, command: str) -> None:
        result = remote.run(command, "--url", "http://127.0.0.1:1")
        assert result.code == 2
        assert "starts something on this machine" in result.err

    def test_doctor_reports_a_service_without_workers(self, tmp_path: Path) -> None:
        program = Program(tmp_path)
        with program.serving("--no-worker") as service:
            service.submit()
            report = program.json("doctor", "--url", service.url)
        assert report["verdict"] == "warning"
        (workers,) = [one for one in report["findings"] if one["subject"] == "workers"]
        assert (workers["fact"], workers["remedy"]) == (
            "none is alive; 1 jobs wait, 0 run",
            "Start one there: secretary worker",
        )


class TestOtherServers:
    def test_another_web_server_gives_exit_code_3(self, tmp_path: Path) -> None:
        program = Program(tmp_path)
        server = subprocess.Popen(
            [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert server.stdout is not None
            match = re.search(r"http://\S+:\d+", server.stdout.readline())
            assert match is not None
            result = program.run("jobs", "list", "--url", match[0])
        finally:
            server.terminate()
            server.communicate()
        assert result.code == 3
        assert "is not Secretary" in result.err


class TestConvert:
    def test_files_are_converted_by_the_service(self, remote: Program) -> None:
        (remote.directory / "a.pdf").write_bytes(pdf("Hello", "World"))
        (remote.directory / "b.pdf").write_bytes(pdf("Again"))
        result = remote.run("convert", "a.pdf", "b.pdf", "-o", "out")
        assert (result.code, result.out, result.err) == (0, "out/a.md\nout/b.md\n", "")
        text = (remote.directory / "out" / "a.md").read_text()
        assert text == "Hello\n\nWorld\n"
        assert sorted(os.listdir(remote.directory / "out")) == ["a.md", "b.md"]

    def test_images_are_downloaded(self, remote: Program) -> None:
        picture, document = io.BytesIO(), docx.Document()
        Image.new("RGB", (100, 50), "red").save(picture, "PNG")
        document.add_heading("Report")
        document.add_picture(picture)
        document.save(str(remote.directory / "my report.docx"))
        assert remote.run("convert", "my report.docx", "--images").out == "my report.md\n"
        text = (remote.directory / "my report.md").read_text()
        (name,) = re.findall(r"!\[.*?\]\(my%20report_files/(.+?)\)", text)
        with Image.open(remote.directory / "my report_files" / name) as made:
            assert made.size == (100, 50)

    def test_failures_are_reported_by_file_name(self, remote: Program) -> None:
        (remote.directory / "broken.pdf").write_bytes(b"%PDF-1.4 and no more")
        (remote.directory / "good.pdf").write_bytes(pdf("Hello"))
        result = remote.run("convert", "broken.pdf", "missing.pdf", "good.pdf")
        assert (result.code, result.out) == (1, "good.md\n")
        assert re.search(r"(?m)^broken\.pdf: .* \(FILE_CORRUPT\)$", result.err)
        assert "missing.pdf: No such file or directory (VALIDATION_ERROR)" in result.err

    def test_ctrl_c_cancels_the_remote_job(self, remote: Program, service: Running) -> None:
        (remote.directory / "long.pdf").write_bytes(pdf(*["Hello"] * 10_000))
        terminal = Terminal(remote, "convert", "long.pdf")
        terminal.wait_for(r"long\.pdf.* \d+ %.* left: .*pages are done")
        terminal.send(signal.SIGINT)
        assert terminal.end() == 130
        (job,) = remote.json("jobs", "list", "--limit", "1")["jobs"]
        ended = remote.run("jobs", "watch", job["job_id"])
        assert (ended.code, "cancelled" in ended.out) == (1, True)
        assert os.listdir(remote.directory) == ["long.pdf"]


class TestTerminal:
    def test_a_bar_shows_the_progress(self, remote: Program) -> None:
        terminal = Terminal(remote, "submit", "selftest", "-p", "seconds=2", "--wait")
        assert terminal.end() == 0
        shown = re.findall(r"selftest .* (\d+) % \d:\d\d:\d\d left: \S+ step:", terminal.shown)
        numbers = [int(each) for each in shown]
        assert numbers == sorted(numbers) and len(set(numbers)) > 3
        assert re.search(r"left: 00:0\d step", terminal.shown)
        assert re.search(r"status +completed", terminal.shown)

    def test_ctrl_c_while_waiting_prints_how_to_follow_the_job(self, remote: Program) -> None:
        terminal = Terminal(remote, "submit", "selftest", "-p", "seconds=3", "--wait")
        job_id = terminal.wait_for(r"(job-\S+) submitted")
        terminal.wait_for(r"selftest .* 10 %")
        terminal.send(signal.SIGINT)
        assert terminal.end() == 130
        assert f"Follow: secretary jobs watch {job_id}" in terminal.shown
        assert f"Stop:   secretary jobs cancel {job_id}" in terminal.shown
        assert "Traceback" not in terminal.shown
        assert remote.run("jobs", "watch", job_id).code == 0

    @pytest.mark.parametrize("columns", [80, 140])
    def test_watch_shows_a_live_table_with_full_ids(self, remote: Program, columns: int) -> None:
        job = remote.json("submit", "selftest", "-p", "seconds=60", "--name", "Mine")
        terminal = Terminal(remote, "jobs", "watch", job["job_id"], columns=columns)
        terminal.wait_for(rf"{job['job_id']} .*processing .*\d+ % .* s .*Mine: step:")
        remote.run("jobs", "cancel", job["job_id"])
        assert terminal.end() == 1
        assert re.search(rf"{job['job_id']} .*cancelled", terminal.shown)


class TestCompletion:
    def completed(self, program: Program, line: str) -> list[str]:
        """The completions that bash would offer at the end of the line."""
        path = program.directory / "bin" / "secretary"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/sh\nexec {sys.executable} -m secretary "$@"\n')
        path.chmod(0o755)
        words = line.split(" ")
        script = (
            'eval "$(secretary completion bash)"\n'
            f"COMP_WORDS=({' '.join(map(repr, words))}) COMP_CWORD={len(words) - 1}\n"
            f"COMP_LINE={line!r} COMP_POINT={len(line)}\n"
            "function=$(complete -p secretary | sed 's/.* -F \\([^ ]*\\) .*/\\1/')\n"
            '$function secretary\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
        )
        done = subprocess.run(
            ["bash", "-c", script],
            env={**program.env, "PATH": f"{path.parent}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.split()

    def test_bash_completes_commands_options_and_job_types(self, tmp_path: Path) -> None:
        program = Program(tmp_path)
        assert self.completed(program, "secretary comp") == ["completion"]
        assert self.completed(program, "secretary jobs wa") == ["watch"]
        assert self.completed(program, "secretary submit --max") == ["--max-attempts"]
        assert self.completed(program, "secretary submit imageo") == ["imageocr"]
        assert self.completed(program, "secretary jobs list --type se") == ["selftest", "session"]

    def test_job_types_come_from_the_service(self, remote: Program, tmp_path: Path) -> None:
        assert "pdf" in self.completed(remote, "secretary submit ")
        remote.env["SECRETARY_URL"] = "http://127.0.0.1:1"
        assert self.completed(remote, "secretary submit pd") == []

    @pytest.mark.parametrize("shell", ["zsh", "fish"])
    def test_other_shells_have_completion_scripts(self, tmp_path: Path, shell: str) -> None:
        result = Program(tmp_path).run("completion", shell)
        assert (result.code, f"_SECRETARY_COMPLETE=complete_{shell}" in result.out) == (0, True)

    def test_an_unknown_shell_is_rejected(self, tmp_path: Path) -> None:
        assert Program(tmp_path).run("completion", "tcsh").code == 2
