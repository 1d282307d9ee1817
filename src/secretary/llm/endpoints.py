"""The endpoints of language models: connections, repetitions, time limits."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, FiniteFloat, ValidationError

from ..core.errors import (
    ContextExceeded,
    EngineUnavailable,
    JobFailed,
    UpstreamFailed,
    UpstreamRefused,
)
from ..core.http_headers import read_retry_after
from .options import LlmOptions, Model, Provider, Purpose, Usage, Used

if TYPE_CHECKING:
    from openai import APIError, AsyncOpenAI

LONGEST_SENTENCE = 300
#: So much of a key in a word makes that word a secret: endpoints like to show the half of it.
TELLING = 6

#: Asking again later may help; all others below 500 would be answered the same.
PASSING = frozenset({408, 409, 425, 429})
LONGEST_WAIT = timedelta(hours=1)

#: How servers say that a text is too long for the model.
OVERFLOW = re.compile(
    r"context[ _-]?(length|size|window)|maximum context|prompt is too long|too many (input )?tokens"
    r"|token count .{0,20}exceeds|exceeds? the maximum number of tokens",
    re.IGNORECASE,
)


def failure(error: "APIError", model: Model) -> JobFailed:
    from openai import APIStatusError, APITimeoutError

    if isinstance(error, APIStatusError):
        return _by_status(error.status_code, error.body, error.response.headers, model.provider)
    if isinstance(error, APITimeoutError):
        return too_slow(model.provider)
    text = "The endpoint of the language model cannot be reached"
    return UpstreamFailed(f"{text}: see {model.provider.setting}.base_url")


def too_slow(provider: Provider) -> UpstreamFailed:
    return UpstreamFailed(
        f"The language model did not answer in {provider.timeout_sec:g} s:"
        f" see {provider.setting}.timeout_sec"
    )


def _by_status(
    status: int, body: object, headers: Mapping[str, str], provider: Provider
) -> JobFailed:
    if status in (401, 403):  # its words are not repeated: they tend to be about the key
        text = f"The endpoint of the language model does not accept the API key ({status})"
        return EngineUnavailable(f"{text}: see {provider.setting}.api_key", status=status)
    told = sentence(body, provider)
    if status not in PASSING and _is_overflow(body):
        return ContextExceeded(f"The text is too long for the language model{told}", status=status)
    if status < 500 and (status not in PASSING or _is_out_of_money(body)):
        text = f"The endpoint of the language model refuses the request ({status}){told}"
        return UpstreamRefused(text, status=status)
    failed = UpstreamFailed(f"The language model gave no answer ({status}){told}", status=status)
    failed.retry_after = _retry_after(headers)
    return failed


def _is_overflow(body: object) -> bool:
    if not isinstance(body, Mapping):
        return False
    told = (str(body.get(key) or "") for key in ("code", "type", "message"))
    return any(OVERFLOW.search(each) for each in told)


def _is_out_of_money(body: object) -> bool:
    return isinstance(body, Mapping) and body.get("code") == "insufficient_quota"


def sentence(body: Any, provider: Provider) -> str:
    """`: ` and what the endpoint says about it, shortened and without secrets; "" when nothing."""
    said = body.get("message") if isinstance(body, Mapping) else body
    if not isinstance(said, str) or said.lstrip().startswith(("<", "{")):  # a page, a dump
        return ""
    text = " ".join(_masked(word, provider.api_key) for word in re.split(r"[\s\x00-\x1f]+", said))
    if len(text) > LONGEST_SENTENCE:
        text = text[:LONGEST_SENTENCE] + "…"
    return f": {text.strip()}" if text.strip() else ""


def _masked(word: str, secret: str | None) -> str:
    if not secret:
        return word
    parts = (secret[start : start + TELLING] for start in range(max(1, len(secret) - TELLING + 1)))
    return "***" if any(part in word for part in parts) else word


def _retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """What the endpoint asks for, where the wait was too long to be made at once."""
    wait = read_retry_after(headers.get("retry-after"), datetime.now(UTC))
    if wait is None:
        return None
    return min(max(wait, timedelta(seconds=1)), LONGEST_WAIT)


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
        pass  # every command would wait for its models

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
        pass

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
                async with asyncio.timeout(model.provider.timeout_sec):
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

    timeout = Timeout(provider.timeout_sec, connect=CONNECT_SECONDS)
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


UNREADABLE = "The endpoint of the language model gave an answer that cannot be read"

#: Some servers leave what a model thought in front of what it says.
THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


class Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class Choice(BaseModel):
    message: Message
    finish_reason: str | None = None


class Tokens(BaseModel):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: FiniteFloat | None = None


class Completion(BaseModel):
    choices: list[Choice] = []
    usage: Tokens | None = None
    #: Some endpoints answer 200 although they failed.
    error: Any = None

    @property
    def used(self) -> Used:
        told = self.usage or Tokens()
        return Used(
            input_tokens=told.prompt_tokens, output_tokens=told.completion_tokens, cost=told.cost
        )


class Segment(BaseModel):
    """In seconds. Only verbose answers have them."""

    start: FiniteFloat
    end: FiniteFloat
    text: str
    #: The natural logarithm of how likely a word is, in the mean.
    avg_logprob: float | None = None


class SoundUsage(BaseModel):
    """Counted in seconds or in tokens, as the model is paid."""

    input_tokens: int = 0
    output_tokens: int = 0
    seconds: FiniteFloat | None = None
    cost: FiniteFloat | None = None


class Transcription(BaseModel):
    text: str | None = None
    #: A name or a code.
    language: str | None = None
    segments: list[Segment] | None = None
    usage: SoundUsage | None = None
    error: Any = None

    def used(self, seconds: float) -> Used:
        told = self.usage or SoundUsage()
        return Used(
            input_tokens=told.input_tokens,
            output_tokens=told.output_tokens,
            sound_seconds=seconds if told.seconds is None else told.seconds,
            cost=told.cost,
        )


def read_transcription(body: bytes, model: Model) -> Transcription:
    try:
        heard = Transcription.model_validate_json(body)
    except ValidationError:
        raise UpstreamFailed(UNREADABLE) from None
    if heard.text is None and heard.segments is None:
        if heard.error is None:
            raise UpstreamFailed(UNREADABLE)
        told = sentence(heard.error, model.provider)
        raise UpstreamFailed(f"The language model gave no answer{told}")
    return heard


def read_completion(body: bytes) -> Completion:
    try:
        return Completion.model_validate_json(body)
    except ValidationError:
        raise UpstreamFailed(UNREADABLE) from None


def text_of(completion: Completion, model: Model) -> str:
    """What the model said; an error when it said nothing, or not all of it, or would not."""
    if not completion.choices:
        told = sentence(completion.error, model.provider)
        raise UpstreamFailed(f"The language model gave no answer{told}")
    choice = completion.choices[0]
    if choice.message.refusal or choice.finish_reason == "content_filter":
        told = sentence(choice.message.refusal, model.provider)
        raise UpstreamRefused(f"The language model refuses to answer{told}")
    if choice.finish_reason == "length":
        text = "The answer of the language model was cut off: it is longer than it may be"
        raise ContextExceeded(text)
    said = THOUGHTS.sub("", choice.message.content or "").strip()
    if not said:
        raise UpstreamFailed("The language model gave an empty answer")
    return said
