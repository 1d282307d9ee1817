"""Language models behind any endpoint that speaks OpenAI's protocol."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..config import LlmPriceSettings as Price
from ..core.errors import UpstreamFailed
from ..core.job import ResourceCalculator
from ..media.speech.engines import Transcription
from .endpoints import Endpoints
from .options import LlmOptions, Model, Provider, Purpose, Usage
from .structured import fill
from .transcription import Piece, transcribe
from .translation import translate
from .vision import page_markdown, picture_messages, without_fence

__all__ = ["Endpoints", "Llm", "LlmOptions", "Model", "Price", "Provider", "Purpose"]


class Llm:
    """What one job asks of language models: each request is counted for it."""

    def __init__(
        self, endpoints: Endpoints | None = None, resources: ResourceCalculator | None = None
    ) -> None:
        self._endpoints = endpoints or Endpoints()
        self._usage = Usage(resources or ResourceCalculator())

    @property
    def options(self) -> LlmOptions:
        return self._endpoints.options

    def model(self, purpose: Purpose) -> str:
        """The name of the model; EngineUnavailable, before any work, when none is set."""
        return self._endpoints.model(purpose).name

    async def read_picture(
        self, jpeg: bytes, *, language: str | None = None, context: str | None = None
    ) -> str:
        """The page in a picture as Markdown; "" when nothing is on it."""
        messages = picture_messages(jpeg, language=language, context=context)
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
        """What is said in a file of sound that is `seconds` long; nothing, where nothing is.
        The name tells its format, like `piece.wav`; `prompt` is what was said before, or names."""
        piece = Piece(file_name=file_name, sound=sound, seconds=seconds)
        return await transcribe(
            self._endpoints, self._usage, piece, language=language, prompt=prompt
        )

    async def complete(self, messages: Sequence[Mapping[str, Any]], **parameters: Any) -> str:
        """What the model for chat answers; `parameters` are sent along, like `max_tokens`."""
        asked = [dict(message) for message in messages]
        return await self._endpoints.chat("chat", asked, self._usage, **parameters)

    async def write(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """Markdown by the model for chat, without the fence that some put round it."""
        written = without_fence(await self.complete(messages)).strip()
        if not written:
            raise UpstreamFailed("The language model gave an empty answer")
        return written

    async def fill(
        self, messages: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]
    ) -> dict[str, Any]:
        """An object that fits the JSON Schema, by the model for chat; never a half of one."""
        return await fill(self._endpoints, self._usage, messages, schema)

    async def translate(
        self,
        texts: Sequence[str],
        *,
        source: str | None,
        target: str,
        instructions: str | None = None,
    ) -> list[str]:
        """Each text in the language `target`, in their order, by the model for chat; from any
        language where no `source` is given, and without a request where both are the same.
        `instructions` are the client's own, like how to address the reader."""
        return await translate(
            self._endpoints,
            self._usage,
            texts,
            source=source,
            target=target,
            instructions=instructions,
        )

    def info(self) -> dict[str, Any]:
        """For `llm_info` of the results: the requests so far and their tokens."""
        return self._usage.info()
