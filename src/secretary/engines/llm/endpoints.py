"""The endpoints of language models: connections, repetitions, time limits."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...errors import EngineUnavailable
from .failures import failure, too_slow
from .options import LlmOptions, Model, Provider, Purpose
from .usage import Usage

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from .answer import Transcription

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
        self._lacking: set[tuple[Provider, str, str]] = set()
        self._connecting = asyncio.Lock()

    def model(self, purpose: Purpose) -> Model:
        try:
            return self.options.models[purpose]
        except KeyError:
            # A model that talks cannot listen, so that purpose has no other one to fall back on.
            general = "" if purpose == "transcription" else "llm.model or "
            raise EngineUnavailable(
                f"No language model is set for {purpose}: set {general}llm.{purpose}_model,"
                " and llm.base_url or, for OpenAI, llm.api_key"
            ) from None

    def lacks(self, model: Model, ability: str) -> bool:
        """Has the endpoint shown that it cannot do this?"""
        return (model.provider, model.name, ability) in self._lacking

    def learn_lack(self, model: Model, ability: str) -> None:
        self._lacking.add((model.provider, model.name, ability))

    async def chat(
        self, purpose: Purpose, messages: Messages, usage: Usage, **parameters: Any
    ) -> str:
        """What the model for `purpose` answers; the settings' parameters win over these."""
        model = self.model(purpose)
        from .answer import read_completion, text_of  # every command would wait for its models

        async def send(client: "AsyncOpenAI") -> bytes:
            # Not `completions.create`: that looks at every word of the question by its types,
            # which takes as long as to send it, and takes any answer for one that fits.
            asked = {"model": model.name, "messages": messages, **parameters, **model.parameters}
            return await client.post("/chat/completions", cast_to=bytes, body=asked)

        body, seconds = await self._asked(model, send)
        completion = read_completion(body)
        # Also when it is of no use it has cost something.
        usage.record(model, purpose, completion.used, seconds=seconds)
        return text_of(completion, model)

    async def transcription(
        self, sound: tuple[str, bytes], form: Mapping[str, Any], usage: Usage, *, seconds: float
    ) -> "Transcription":
        """What is heard in a file; `seconds` is how long it is, where the endpoint does not say."""
        model = self.model("transcription")
        from .answer import read_transcription

        async def send(client: "AsyncOpenAI") -> bytes:
            answer = await client.audio.transcriptions.with_raw_response.create(
                model=model.name,
                file=sound,
                extra_body={**form, **model.parameters},
            )
            return answer.content

        body, took = await self._asked(model, send)
        heard = read_transcription(body, model)
        usage.record(model, "transcription", heard.used(seconds), seconds=took)
        return heard

    async def _asked(
        self, model: Model, send: Callable[["AsyncOpenAI"], Awaitable[bytes]]
    ) -> tuple[bytes, float]:
        """The answer, and how many seconds it took."""
        async with self._slot(model.provider):
            started = time.monotonic()
            client = await self._client(model.provider)
            from openai import APIError  # loaded by now

            try:
                async with asyncio.timeout(model.provider.timeout_seconds):
                    return await send(client), time.monotonic() - started
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
    _ = client.audio.transcriptions  # loads the rest of the library
    return client
