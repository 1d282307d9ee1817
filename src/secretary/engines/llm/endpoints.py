"""The endpoints of language models: connections, repetitions, time limits."""

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...errors import EngineUnavailable
from .failures import failure, too_slow
from .options import LlmOptions, Model, Provider, Purpose
from .usage import LlmRequest, Usage

if TYPE_CHECKING:
    from openai import AsyncOpenAI

#: Further tries within one request, for what passes: 429, 5xx, a lost connection. The client
#: waits longer each time, never the same, and as long as `Retry-After` says up to two minutes.
RETRIES = 3
CONNECT_SECONDS = 10.0

Messages = list[dict[str, Any]]


class Endpoints:
    """Shared by all jobs of a process. Connects when it is first asked; `close` ends that."""

    def __init__(self, options: LlmOptions | None = None) -> None:
        self.options = options or LlmOptions()
        self._clients: dict[Provider, AsyncOpenAI] = {}
        self._slots: dict[Provider, asyncio.Semaphore] = {}
        self._connecting = asyncio.Lock()

    def model(self, purpose: Purpose) -> Model:
        try:
            return self.options.models[purpose]
        except KeyError:
            raise EngineUnavailable(
                f"No language model is set for {purpose}: set llm.model or llm.{purpose}_model,"
                " and llm.base_url or, for OpenAI, llm.api_key"
            ) from None

    async def chat(self, purpose: Purpose, messages: Messages, usage: Usage) -> str:
        """What the model for `purpose` answers."""
        model = self.model(purpose)
        from .answer import read_completion, text_of  # every command would wait for its models

        async with self._slot(model.provider):
            started = time.monotonic()
            completion = read_completion(await self._post(model, messages))
            seconds = time.monotonic() - started
        # Also when it is of no use it has cost something.
        tokens = completion.usage
        usage.record(
            LlmRequest(
                model=model.name,
                purpose=purpose,
                input_tokens=tokens.prompt_tokens if tokens else 0,
                output_tokens=tokens.completion_tokens if tokens else 0,
                duration_ms=round(seconds * 1000),
            )
        )
        return text_of(completion, model)

    async def _post(self, model: Model, messages: Messages) -> bytes:
        client = await self._client(model.provider)
        from openai import APIError  # loaded by now

        try:
            async with asyncio.timeout(model.provider.timeout_seconds):
                # Raw, because the client would take any answer for one that fits.
                answer = await client.chat.completions.with_raw_response.create(
                    model=model.name,
                    messages=messages,  # type: ignore[arg-type]  # a union of a dozen mappings
                    extra_body=dict(model.parameters),
                )
                return answer.content
        except TimeoutError:
            raise too_slow(model.provider) from None
        except APIError as error:
            # Not chained: the error holds the request, and that the key.
            raise failure(error, model) from None

    def _slot(self, provider: Provider) -> asyncio.Semaphore:
        return self._slots.setdefault(provider, asyncio.Semaphore(provider.max_concurrent))

    async def _client(self, provider: Provider) -> "AsyncOpenAI":
        async with self._connecting:
            if provider not in self._clients:
                # In a thread: loading the library takes half a second.
                self._clients[provider] = await asyncio.to_thread(_make_client, provider)
            return self._clients[provider]

    async def close(self) -> None:
        clients, self._clients = self._clients, {}
        for client in clients.values():
            with suppress(RuntimeError):  # its loop is another one, or has ended
                await client.close()


def _make_client(provider: Provider) -> "AsyncOpenAI":
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Timeout

    timeout = Timeout(provider.timeout_seconds, connect=CONNECT_SECONDS)
    client = AsyncOpenAI(
        base_url=provider.base_url,
        api_key=provider.api_key or "none",  # servers without keys take any
        max_retries=RETRIES,
        timeout=timeout,
        # Like all our requests: no proxies of the environment, no redirects with a key in hand.
        http_client=DefaultAsyncHttpxClient(
            timeout=timeout, trust_env=False, follow_redirects=False
        ),
    )
    _ = client.chat.completions  # loads the rest of the library
    return client
