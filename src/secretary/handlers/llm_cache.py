"""What the model for chat answers about a text: kept at once, so that it is asked only once."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ..core.json_codec import encode_json
from ..jobs.handler import JobContext
from ..storage import append_log
from ..storage.append_log import RecordRef
from ..storage.cache import CacheEntry
from ..version import __version__
from .cache_policy import made_after

T = TypeVar("T")

Messages = Sequence[Mapping[str, Any]]


@dataclass(slots=True)
class LlmCache:
    """Of one text. A job that was killed finds all that was answered before."""

    ctx: JobContext[Any]
    entry: CacheEntry
    known: dict[int, RecordRef]
    #: How many questions the model was asked, this time.
    asked: int = 0

    @property
    def context_tokens(self) -> int:
        return self.ctx.llm.options.context_tokens

    @property
    def lanes(self) -> int:
        """More questions at a time than this would only wait."""
        return self.ctx.llm.options.models["chat"].provider.max_concurrent

    async def write(self, messages: Messages) -> str:
        return await self._kept(["write", messages], lambda: self.ctx.llm.write(messages))

    async def fill(self, messages: Messages, schema: Mapping[str, Any]) -> dict[str, Any]:
        return await self._kept(
            ["fill", messages, schema], lambda: self.ctx.llm.fill(messages, schema)
        )

    async def translate(
        self, texts: Sequence[str], *, source: str | None, target: str, instructions: str | None
    ) -> list[str]:
        return await self._kept(
            ["translate", texts, source, target, instructions],
            lambda: self.ctx.llm.translate(
                texts, source=source, target=target, instructions=instructions
            ),
        )

    async def _kept(self, question: Any, ask: Callable[[], Awaitable[T]]) -> T:
        number = int.from_bytes(hashlib.sha256(encode_json(question)).digest()[:8])
        place = self.known.get(number)
        if place is not None:
            found: list[T] = await asyncio.to_thread(_load, place)
            if found:
                return found[0]
        answer = await ask()
        self.asked += 1
        await asyncio.to_thread(self._keep, number, answer)
        return answer

    def _keep(self, number: int, answer: Any) -> None:
        append_log.append(str(self.entry.directory), number, encode_json(answer))
        self.entry.touch()


async def answers_about(ctx: JobContext[Any], text: str) -> LlmCache:
    """EngineUnavailable when there is no model to give any."""
    model = ctx.llm.model("chat")
    digest = await asyncio.to_thread(_digest, text)
    parameters = ctx.llm.options.models["chat"].parameters
    version = f"secretary {__version__}"
    # Another version asks otherwise. With that in its name, the place needs no note about it.
    options = {"model": model, "parameters": dict(parameters), "made_with": version}
    entry = await ctx.entry("text", digest, "answers", options=options, version=version)
    since = made_after(ctx)
    known = await asyncio.to_thread(append_log.index, str(entry.directory), made_after=since)
    return LlmCache(ctx, entry, known)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _load(place: RecordRef) -> list[Any]:
    try:
        return [json.loads(line) for line in append_log.read([place])]
    except OSError:  # the cache was emptied meanwhile
        return []
