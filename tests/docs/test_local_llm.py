"""The page about local language models, tested with a real one."""

import json
from pathlib import Path

import yaml

from tests.model_server import ModelServer
from tests.requirements import needed

from .examples import Terminal, blocks

PAGE = "docs/how-to/connect-a-local-llm.md"


def test_a_local_model_answers_as_the_page_says(tmp_path: Path, model_server: ModelServer) -> None:
    needed("curl")
    (settings,) = (yaml.safe_load(text) for text in blocks(PAGE, "yaml"))
    settings["llm"]["base_url"] = f"{model_server.address}/v1"
    settings["llm"]["context_tokens"] = 2000
    # Limited: very small models do not know when to stop.
    settings["llm"]["chat_parameters"] |= {"max_tokens": 200, "repeat_penalty": 1.1}
    file = tmp_path / "config" / "config.yaml"
    file.parent.mkdir()
    file.write_text(yaml.safe_dump(settings))
    terminal = Terminal(tmp_path)
    *_, look, ask = blocks(PAGE, "sh")
    assert f"qwen3:8b at {model_server.address}/v1" in terminal.type(look).replace("\n", " ")
    with terminal.program.serving() as service:
        answer = json.loads(terminal.type(ask, service.url))
    assert answer["status"] == "success"
    assert answer["data"]["text"].strip()
    assert answer["process"]["llm_info"]["total_tokens"] > 0
