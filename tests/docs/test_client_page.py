"""The pages about the client and webhooks do what they say, and document everything."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from secretary import client
from secretary.client import AsyncBatch, AsyncClient, AsyncJob, Batch, Client, Job
from secretary.config import load
from tests.http_servers import answering
from tests.polling import wait_until

from .examples import ROOT, Terminal, blocks

PAGE = "docs/reference/client.md"
HOW_TO = "docs/how-to/receive-webhooks.md"


class TestReceivingWebhooks:
    def test_an_event_arrives_as_the_page_shows(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        submit_file, receive = blocks(HOW_TO, "python")
        names: dict[str, Any] = {"__name__": "receiver"}
        exec(compile(receive, "receive-webhooks.md", "exec"), names)
        names["Receiver"].log_message = lambda *args: None
        with answering(names["Receiver"]) as url:
            host = url.removeprefix("http://")
            terminal = Terminal(tmp_path, SECRETARY_NETWORK__ALLOW_HOSTS=f'["{host}"]')
            with terminal.program.serving() as service:
                terminal.run_python(submit_file.replace("127.0.0.1:8000", host), service.url)
                wait_until(lambda: names["seen"])
        assert re.match(r"job-\S+ completed ", capsys.readouterr().out)

    def test_the_setting_opens_the_host(self, tmp_path: Path) -> None:
        (text,) = blocks(HOW_TO, "yaml")
        file = tmp_path / "config.yaml"
        file.write_text(text)
        assert "127.0.0.1:8000" in str(load(file, environment={}).network.allow_hosts)


class TestClientPage:
    TEXT = (ROOT / PAGE).read_text()

    @pytest.mark.parametrize("kind", [Client, Job, Batch])
    def test_every_method_is_named(self, kind: type) -> None:
        missing = {name for name in public(kind) if not re.search(rf"`{name}[`(]", self.TEXT)}
        assert missing - {"label"} == set()

    @pytest.mark.parametrize("method", [Client.__init__, Client.submit, Client.jobs, Client.batch])
    def test_every_argument_is_named(self, method: Any) -> None:
        names = set(inspect.signature(method).parameters) - {"self", "parameters", "jobs"}
        assert {name for name in names if f"`{name}`" not in self.TEXT} - {"job_type"} == set()

    def test_every_error_is_documented(self) -> None:
        kinds = [kind for kind in vars(client).values() if isinstance(kind, type)]
        errors = {kind.__name__ for kind in kinds if issubclass(kind, client.ClientError)}
        documented = set(re.findall(r"(?m)^\| `(\w+)` \|", self.TEXT.partition("## Errors")[2]))
        assert documented == errors - {"ClientError"}

    @pytest.mark.parametrize(
        ("ordinary", "asynchronous"), [(Client, AsyncClient), (Job, AsyncJob), (Batch, AsyncBatch)]
    )
    def test_both_clients_have_the_same_methods(self, ordinary: type, asynchronous: type) -> None:
        assert public(ordinary) == public(asynchronous) - {"path"}
        for name in public(ordinary):
            method, other = getattr(ordinary, name), getattr(asynchronous, name, None)
            if callable(method) and callable(other):
                ours, theirs = inspect.signature(method), inspect.signature(other)
                assert ours.parameters == theirs.parameters, name


def public(kind: type) -> set[str]:
    names = {name for name in dir(kind) if not name.startswith("_")}
    return names | ({"job_ids"} if issubclass(kind, AsyncBatch) else set())
