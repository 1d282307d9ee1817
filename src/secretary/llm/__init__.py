"""Language models behind any endpoint with OpenAI's API."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..config import LlmPriceSettings as Price
from ..core.errors import UpstreamFailed
from ..core.job import ResourceCalculator
from ..media.speech.engines import Transcription
from .endpoints import Endpoints
from .options import LlmOptions, Model, Provider, Purpose, Usage
from .structured import fill
from .transcription import AudioClip, transcribe
from .translation import translate
from .vision import image_messages, page_markdown, without_fence

__all__ = ["Endpoints", "Llm", "LlmOptions", "Model", "Price", "Provider", "Purpose"]


class Llm:
    """The language models as one job uses them. Its requests are counted for `llm_info`."""

    def __init__(
        self, endpoints: Endpoints | None = None, resources: ResourceCalculator | None = None
    ) -> None:
        self._endpoints = endpoints or Endpoints()
        self._usage = Usage(resources or ResourceCalculator())

    @property
    def options(self) -> LlmOptions:
        return self._endpoints.options

    def model(self, purpose: Purpose) -> str:
        """The name of the model. Raises `EngineUnavailable` if none is configured."""
        return self._endpoints.model(purpose).name

    async def read_picture(
        self, jpeg: bytes, *, language: str | None = None, context: str | None = None
    ) -> str:
        """Read the page in an image as Markdown; "" for a blank page."""
        messages = image_messages(jpeg, language=language, context=context)
        return page_markdown(await self._endpoints.chat("vision", messages, self._usage))

    async def transcribe(
        self,
        sound: bytes,
        *,
        file_name: str,
        seconds: float,
        language: str | None = None,
        prompt: str | None = None,
    ) -> Transcription:
        """Transcribe a sound file that is `seconds` long. Its name tells the format, such as
        `chunk.wav`; `prompt` is the preceding text, or names that occur."""
        clip = AudioClip(file_name=file_name, sound=sound, seconds=seconds)
        return await transcribe(
            self._endpoints, self._usage, clip, language=language, prompt=prompt
        )

    async def complete(self, messages: Sequence[Mapping[str, Any]], **parameters: Any) -> str:
        """Send messages to the chat model. `parameters`, such as `max_tokens`, are sent along."""
        copies = [dict(message) for message in messages]
        return await self._endpoints.chat("chat", copies, self._usage, **parameters)

    async def write(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """Markdown by the chat model, without the code fence that some models put around it."""
        markdown = without_fence(await self.complete(messages)).strip()
        if not markdown:
            raise UpstreamFailed("The language model gave an empty answer")
        return markdown

    async def fill(
        self, messages: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Have the chat model answer with an object that matches the JSON Schema."""
        return await fill(self._endpoints, self._usage, messages, schema)

    async def translate(
        self,
        texts: Sequence[str],
        *,
        source: str | None,
        target: str,
        instructions: str | None = None,
    ) -> list[str]:
        """Translate texts with the chat model, in order. Without `source` the model detects the
        language. `instructions` are the client's, such as how to address the reader."""
        return await translate(
            self._endpoints,
            self._usage,
            texts,
            source=source,
            target=target,
            instructions=instructions,
        )

    def info(self) -> dict[str, Any]:
        """`llm_info` of the results: the requests so far and their tokens."""
        return self._usage.info()
