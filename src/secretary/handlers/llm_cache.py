"""Cached answers of the chat model about one text, so that no request is sent twice."""

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
from .parameters import SourceParameters, reusable_since

T = TypeVar("T")

Messages = Sequence[Mapping[str, Any]]


async def open_llm_cache(ctx: JobContext[SourceParameters], text: str) -> "LlmCache":
    """The answers about this text. Raises `EngineUnavailable` if no chat model is configured."""
    model = ctx.llm.model("chat")
    digest = await asyncio.to_thread(_digest, text)
    parameters = ctx.llm.options.models["chat"].parameters
    version = f"secretary {__version__}"
    # Another version has other prompts. As part of the key, the version needs no note.
    options = {"model": model, "parameters": dict(parameters), "made_with": version}
    entry = await ctx.entry("text", digest, "answers", options=options, version=version)
    since = reusable_since(ctx)
    cached = await asyncio.to_thread(append_log.index, str(entry.directory), made_after=since)
    return LlmCache(ctx, entry, cached)


@dataclass(slots=True)
class LlmCache:
    """Asks the chat model. Each answer is stored at once, so a job that was killed finds it."""

    ctx: JobContext[SourceParameters]
    entry: CacheEntry
    cached: dict[int, RecordRef]
    #: Requests that were not in the cache.
    requests_sent: int = 0

    @property
    def context_tokens(self) -> int:
        return self.ctx.llm.options.context_tokens

    @property
    def concurrency(self) -> int:
        """How many requests the provider takes at a time."""
        return self.ctx.llm.options.models["chat"].provider.max_concurrent

    async def write(self, messages: Messages) -> str:
        return await self._ask(["write", messages], lambda: self.ctx.llm.write(messages))

    async def fill(self, messages: Messages, schema: Mapping[str, Any]) -> dict[str, Any]:
        return await self._ask(
            ["fill", messages, schema], lambda: self.ctx.llm.fill(messages, schema)
        )

    async def translate(
        self, texts: Sequence[str], *, source: str | None, target: str, instructions: str | None
    ) -> list[str]:
        return await self._ask(
            ["translate", texts, source, target, instructions],
            lambda: self.ctx.llm.translate(
                texts, source=source, target=target, instructions=instructions
            ),
        )

    async def _ask(self, request: Any, send: Callable[[], Awaitable[T]]) -> T:
        number = int.from_bytes(hashlib.sha256(encode_json(request)).digest()[:8])
        if number in self.cached:
            answers: list[T] = await asyncio.to_thread(_load, self.cached[number])
            if answers:
                return answers[0]
        answer = await send()
        self.requests_sent += 1
        await asyncio.to_thread(self._store, number, answer)
        return answer

    def _store(self, number: int, answer: Any) -> None:
        append_log.append(str(self.entry.directory), number, encode_json(answer))
        self.entry.touch()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _load(record: RecordRef) -> list[Any]:
    try:
        return [json.loads(line) for line in append_log.read([record])]
    except OSError:  # the cache was emptied in the meantime
        return []
