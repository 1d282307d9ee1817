"""The examples in README and docs do what the text says."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from secretary.app import llm_options
from secretary.config import load
from secretary.job import EVENT_NAMES, Delivery, Webhook, utc_now
from secretary.registry import Registry
from secretary.submission import BatchRequest, read
from secretary.templates import Library, parse
from secretary.templates.kinds import SORTS
from secretary.templates.library import GERMAN_NAMES
from secretary.webhooks.headers import headers_for
from tests.acceptance.program import Program, require_curl
from tests.documents import pdf
from tests.schedules import FOSDEM

ROOT = Path(__file__).parents[2]
ADDRESS = "http://127.0.0.1:5000"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"(?s)```{language}\n(.*?)```", (ROOT / page).read_text())


class Terminal:
    """A directory with the program on the path, where lines of a page can be typed."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.program = Program(directory, **settings)
        program = directory / "bin" / "secretary"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m secretary "$@"\n')
        program.chmod(0o755)
        path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**self.program.env, "PATH": path}

    def type(self, lines: str, url: str) -> str:
        """Run the lines of an example, against a service that listens elsewhere."""
        lines = lines.replace(ADDRESS, url).replace("curl ", "curl --fail --silent --show-error ")
        # The example's own path would hide that of the checkout.
        lines = lines.replace("PYTHONPATH=. ", "PYTHONPATH=.:$PYTHONPATH ")
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", lines],
            cwd=self.program.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, f"{lines}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    require_curl()
    return Terminal(tmp_path)


def signed_event() -> tuple[str, dict[str, str], bytes]:
    """A secret, and the headers and body of an event that was signed with it."""
    secret, body = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", b'{"phase": "completed"}'
    hook = Webhook(url="https://example.org/hook", secret=secret)
    return secret, headers_for(hook, message_id="msg_1", at=utc_now(), body=body), body


class TestReadme:
    START, CONVERT, DOCUMENT, BY_HTTP, BY_COMMAND, START_WITH_HANDLERS, SUBMIT = blocks(
        "README.md", "sh"
    )

    def test_make_run_starts_the_service(self) -> None:
        assert self.START == "make run\n"
        assert "$(BIN)/secretary serve" in (ROOT / "Makefile").read_text()

    def test_a_file_is_converted(self, terminal: Terminal) -> None:
        directory = terminal.program.directory
        (directory / "document.pdf").write_bytes(pdf("Hello"))
        terminal.environment["XDG_CACHE_HOME"] = str(directory / "caches")
        terminal.type(self.CONVERT.removeprefix(".venv/bin/"), "")
        assert "Hello" in (directory / "document.md").read_text()

    def test_the_first_document(self, terminal: Terminal) -> None:
        (terminal.program.directory / "document.pdf").write_bytes(pdf("Hello"))
        with terminal.program.serving() as service:
            answers = terminal.type(self.DOCUMENT, service.url)
        assert '"extracted_text":"--- Seite 1 ---\\nHello"' in answers
        assert '"status":"accepted"' in answers

    def test_the_first_job_by_http(self, terminal: Terminal) -> None:
        with terminal.program.serving() as service:
            answers = terminal.type(self.BY_HTTP, service.url)
        assert answers.count('"status":"success"') == 2

    def test_the_first_job_by_the_command_line(self, terminal: Terminal) -> None:
        with terminal.program.serving() as service:
            answers = terminal.type(self.BY_COMMAND, service.url)
        assert re.search(r"status +completed", answers)
        assert re.search(r"workers +ok", answers)

    def test_the_handlers_of_both_forms_work(self, tmp_path: Path) -> None:
        (python,) = (code for code in blocks("README.md", "python") if "def register" in code)
        terminal = Terminal(tmp_path, SECRETARY_HANDLERS="my_handlers:register")
        (tmp_path / "my_handlers.py").write_text(python)
        assert self.START_WITH_HANDLERS.endswith("secretary serve\n")
        assert "SECRETARY_HANDLERS=my_handlers:register" in self.START_WITH_HANDLERS
        terminal.program.env["PYTHONPATH"] += f"{os.pathsep}{tmp_path}"
        with terminal.program.serving() as service:
            answers = terminal.type(self.SUBMIT, service.url)
            assert '"words": 3' in answers
            shout = self.SUBMIT.replace("submit count", "submit shout")
            assert "ONE TWO THREE" in terminal.type(shout, service.url)


class TestTutorial:
    def test_every_step_works(self, terminal: Terminal) -> None:
        start, path, *steps = blocks("docs/tutorial/first-job.md", "sh")
        assert start == "make run\n"
        assert ".venv/bin" in path
        with terminal.program.serving() as service:
            told = [terminal.type(step, service.url) for step in steps]
        assert "My first job" in told[0]
        assert re.search(r"status +completed", told[2])
        assert "UNKNOWN_JOB_TYPE" in told[3]
        assert "Three jobs" in told[4]


class TestReference:
    def test_the_batch_file_is_a_batch(self) -> None:
        (text,) = blocks("docs/reference/cli.md", "yaml")
        assert len(read(BatchRequest, yaml.safe_load(text)).jobs) == 2

    def test_an_event_is_verified_as_the_page_says(self) -> None:
        (code,) = blocks("docs/reference/webhooks.md", "python")
        names: dict[str, Any] = {}
        exec(compile(code, "webhooks.md", "exec"), names)
        names["verify"](*signed_event())
        secret, headers, body = signed_event()
        with pytest.raises(ValueError, match="wrong"):
            names["verify"](secret, headers, body + b" ")
        with pytest.raises(ValueError, match="old"):
            names["verify"](secret, headers | {"webhook-timestamp": "1600000000"}, body)

    def test_an_event_is_verified_with_node_too(self) -> None:
        if shutil.which("node") is None:
            pytest.skip("There is no node")
        (code,) = blocks("docs/reference/webhooks.md", "js")
        secret, headers, body = signed_event()
        for sent, verdict in ((body, 0), (body + b" ", 1)):
            call = f"verify({json.dumps(secret)}, {json.dumps(headers)}, Buffer.from({sent!r}))"
            call = call.replace("Buffer.from(b'", "Buffer.from('")
            done = subprocess.run(["node", "-e", code + call], capture_output=True, timeout=30)
            assert done.returncode == verdict

    def test_the_webhook_of_the_page_is_accepted(self, terminal: Terminal) -> None:
        (request,) = blocks("docs/reference/webhooks.md", "sh")
        with terminal.program.serving("--no-worker") as service:
            assert '"status":"success"' in terminal.type(request, service.url)

    def test_the_page_names_every_field_of_a_webhook_and_of_a_delivery(self) -> None:
        text = (ROOT / "docs/reference/webhooks.md").read_text()
        fields = {field.alias or name for name, field in Webhook.model_fields.items()}
        fields |= Delivery.model_fields.keys() | Delivery.model_computed_fields.keys()
        assert {name for name in fields if f"| `{name}` |" not in text} == set()
        assert {name for name in EVENT_NAMES if f"`{name}`" not in text} == set()

    def test_the_requests_of_an_older_client_work(self, terminal: Terminal) -> None:
        (requests,) = blocks("docs/reference/event-job.md", "sh")
        with terminal.program.serving("--no-worker") as service:
            answers = terminal.type(requests, service.url)
        assert answers.count('"status":"success"') == 2
        assert '"message":"2 of 2 jobs"' in answers

    def test_files_and_urls_are_handed_in_as_shown(self, terminal: Terminal) -> None:
        (requests,) = blocks("docs/reference/ingress.md", "sh")
        (terminal.program.directory / "report.pdf").write_bytes(pdf("Hello"))
        with terminal.program.serving() as service:
            answers = terminal.type(requests, service.url)
        assert answers.count('"status":"accepted"') == 2
        assert '"extracted_text":"--- Seite 1 ---\\nHello"' in answers


class TestHowTo:
    @pytest.mark.parametrize("code", blocks("docs/how-to/write-a-handler.md", "python"))
    def test_the_handlers_can_be_registered(self, code: str) -> None:
        names: dict[str, Any] = {"__name__": "example"}
        exec(compile(code, "write-a-handler.md", "exec"), names)
        if "register" in names:
            registry = Registry()
            names["register"](registry)
            assert len(registry.job_types) == 1


class TestTemplates:
    PAGES = ("docs/reference/templates.md", "docs/how-to/write-a-template.md")

    @pytest.mark.parametrize("page", PAGES)
    def test_the_template_of_the_page_has_no_faults(self, page: str) -> None:
        (text,) = re.findall(r"(?s)```markdown\n(.*?)```", (ROOT / page).read_text())
        template = parse(textwrap.dedent(text))
        assert not template.warnings
        assert template.title != "inline"

    def test_the_check_tells_what_the_page_tells(self, terminal: Terminal) -> None:
        (text,) = re.findall(r"(?s)```markdown\n(.*?)```", (ROOT / self.PAGES[1]).read_text())
        (terminal.program.directory / "Interview.md").write_text(textwrap.dedent(text))
        told = terminal.type("secretary template check Interview.md", "")
        assert told.strip() in (ROOT / self.PAGES[1]).read_text()

    def test_every_type_has_its_line(self) -> None:
        text = (ROOT / self.PAGES[0]).read_text().partition("## Types")[2].partition("\n## ")[0]
        told = {word.lower() for word in re.findall(r"`(\w+)`", text)}
        assert told >= SORTS.keys()

    def test_every_template_has_its_line_with_what_it_wants(self) -> None:
        text = (ROOT / self.PAGES[0]).read_text()
        for one in Library().listed():
            assert one.template is not None
            (line,) = re.findall(rf"(?m)^\| `{one.name[:-3]}` \|(.*)$", text)
            wants = set(re.findall(r"`([a-z_]+)`", line))
            assert wants | {"target_language"} >= set(one.template.keys) >= wants
        assert {name.title() for name in GERMAN_NAMES} <= set(re.findall(r"`(\w+)`", text))


class TestVisionModel:
    @pytest.mark.parametrize("text", blocks("docs/how-to/use-a-vision-model.md", "yaml"))
    def test_the_settings_name_a_model(self, text: str, tmp_path: Path) -> None:
        file = tmp_path / "config.yaml"
        file.write_text(text.replace("…", "1"))
        model = llm_options(load(file, environment={})).models["vision"]
        assert model.name.startswith("qwen")


class TestImportOfAConference:
    def test_every_step_works(self, terminal: Terminal) -> None:
        look, add, elsewhere, by_http = blocks("docs/how-to/import-a-conference.md", "sh")
        elsewhere = elsewhere.replace("https://secretary.example.org", ADDRESS)
        upload = by_http.splitlines()[0]  # the other one asks the world
        (terminal.program.directory / "schedule.xml").write_text(FOSDEM)
        with terminal.program.serving() as service:
            told = [terminal.type(lines, service.url) for lines in (look, add, elsewhere, upload)]
        assert "Gardens of code" in told[0]
        assert told[1].startswith("batch-")
        assert json.loads(told[2])["data"]["batch"]["total_jobs"] == 3
        assert json.loads(told[3])["data"]["batch"]["total_jobs"] == 1
