"""The examples in README and docs do what the text says."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from secretary.config import load
from secretary.core.job import EVENT_NAMES, Delivery, Webhook, utc_now
from secretary.jobs.handler import Registry
from secretary.jobs.submission import BatchRequest, parse_request
from secretary.llm import LlmOptions
from secretary.llm.templates import Library, parse
from secretary.llm.templates.field_types import TYPE_NAMES
from secretary.llm.templates.library import GERMAN_NAMES
from secretary.webhooks.request import headers_for
from tests.requirements import needed

from .examples import ROOT, Terminal, blocks


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    needed("curl")
    return Terminal(tmp_path)


def signed_event() -> tuple[str, dict[str, str], bytes]:
    """A secret, and the headers and body of an event signed with it."""
    secret, body = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", b'{"phase": "completed"}'
    hook = Webhook(url="https://example.org/hook", secret=secret)
    return secret, headers_for(hook, message_id="msg_1", at=utc_now(), body=body), body


class TestReadme:
    def test_make_run_starts_the_service(self) -> None:
        assert "$(BIN)/secretary serve" in (ROOT / "Makefile").read_text()

    def test_the_first_screen_has_all_of_it(self) -> None:
        screen = "".join((ROOT / "README.md").read_text().splitlines(keepends=True)[:45])
        for part in ("make run", "secretary convert", "curl -F", "@handles", "docs/img/"):
            assert part in screen


class TestReference:
    def test_the_batch_file_is_a_batch(self) -> None:
        (text,) = blocks("docs/reference/cli.md", "yaml")
        assert len(parse_request(BatchRequest, yaml.safe_load(text)).jobs) == 2

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
            pytest.skip("node is not installed")
        (code,) = blocks("docs/reference/webhooks.md", "js")
        secret, headers, body = signed_event()
        for sent, verdict in ((body, 0), (body + b" ", 1)):
            call = f"verify({json.dumps(secret)}, {json.dumps(headers)}, Buffer.from({sent!r}))"
            call = call.replace("Buffer.from(b'", "Buffer.from('")
            done = subprocess.run(["node", "-e", code + call], capture_output=True, timeout=30)
            assert done.returncode == verdict

    def test_the_page_names_every_field_of_a_webhook_and_of_a_delivery(self) -> None:
        text = (ROOT / "docs/reference/webhooks.md").read_text()
        fields = {field.alias or name for name, field in Webhook.model_fields.items()}
        fields |= Delivery.model_fields.keys() | Delivery.model_computed_fields.keys()
        assert {name for name in fields if f"| `{name}` |" not in text} == set()
        assert {name for name in EVENT_NAMES if f"`{name}`" not in text} == set()


class TestHowTo:
    @pytest.mark.parametrize("code", blocks("docs/how-to/write-a-handler.md", "python"))
    def test_the_handlers_can_be_registered(self, code: str) -> None:
        names: dict[str, Any] = {"__name__": "example"}
        exec(compile(code, "write-a-handler.md", "exec"), names)
        if "register" in names:
            registry = Registry()
            names["register"](registry)
            assert len(registry.job_types) == 1

    def test_a_handler_is_plugged_in_as_shown(self, terminal: Terminal) -> None:
        code, *_ = blocks("docs/how-to/write-a-handler.md", "python")
        (terminal.program.directory / "my_handlers.py").write_text(code)
        (start,) = blocks("docs/how-to/write-a-handler.md", "sh")
        assert "listens on" in terminal.start(start.strip())


class TestTemplates:
    PAGES = ("docs/reference/templates.md", "docs/how-to/write-a-template.md")

    @pytest.mark.parametrize("page", PAGES)
    def test_the_template_of_the_page_has_no_faults(self, page: str) -> None:
        (text,) = blocks(page, "markdown")
        template = parse(text)
        assert not template.warnings
        assert template.title != "inline"

    def test_the_check_prints_what_the_page_shows(self, terminal: Terminal) -> None:
        (text,) = blocks(self.PAGES[1], "markdown")
        (terminal.program.directory / "Interview.md").write_text(text)
        output = terminal.type("secretary template check Interview.md", "")
        assert output.strip() and output.strip() in (ROOT / self.PAGES[1]).read_text()

    def test_every_type_is_documented(self) -> None:
        text = (ROOT / self.PAGES[0]).read_text().partition("## Types")[2].partition("\n## ")[0]
        documented = {word.lower() for word in re.findall(r"`(\w+)`", text)}
        assert documented >= TYPE_NAMES.keys()

    def test_every_template_is_documented_with_its_values(self) -> None:
        text = (ROOT / self.PAGES[0]).read_text()
        for one in Library().listed():
            assert one.template is not None
            name = one.name[:-3] if one.name.endswith(("_de", "_en")) else one.name
            (line,) = re.findall(rf"(?m)^\| `{name}` \|(.*)$", text)
            wants = set(re.findall(r"`([a-z_]+)`", line.partition("Wants")[2]))
            assert wants | {"target_language"} >= set(one.template.context_keys) >= wants
        assert {name.title() for name in GERMAN_NAMES} <= set(re.findall(r"`(\w+)`", text))


class TestVisionModel:
    @pytest.mark.parametrize("text", blocks("docs/how-to/use-a-vision-model.md", "yaml"))
    def test_the_settings_name_a_model(self, text: str, tmp_path: Path) -> None:
        file = tmp_path / "config.yaml"
        file.write_text(text.replace("…", "1"))
        model = LlmOptions.from_settings(load(file, environment={}).llm).models["vision"]
        assert model.name.startswith("qwen")
