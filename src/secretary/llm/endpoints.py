"""Settings of the language models, and the usage of one job."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, FiniteFloat, ValidationError

from ..config import LlmPriceSettings as Price
from ..config import LlmProviderSettings, LlmSettings
from ..core.errors import (
    ContextExceeded,
    EngineUnavailable,
    JobFailed,
    UpstreamFailed,
    UpstreamRefused,
)
from ..core.http_headers import read_retry_after
from ..core.job import ResourceCalculator

if TYPE_CHECKING:
    from openai import APIError, AsyncOpenAI


Purpose = Literal["chat", "vision", "transcription"]


class Provider(LlmProviderSettings):
    """An endpoint with an OpenAI-compatible API."""

    #: The setting that defines it, for error messages.
    setting: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    provider: Provider
    name: str
    #: Sent with each request.
    parameters: Mapping[str, Any] = field(default_factory=dict)
    price: Price | None = None


@dataclass(frozen=True, slots=True)
class LlmOptions:
    models: Mapping[Purpose, Model] = field(default_factory=dict)
    #: Context window of the chat model, prompt and answer.
    context_tokens: int = LlmSettings().context_tokens

    @classmethod
    def from_settings(cls, llm: LlmSettings) -> "LlmOptions":
        chosen: dict[Purpose, tuple[str | None, str | None, dict[str, Any]]] = {
            "chat": (llm.chat_model or llm.model, llm.chat_provider, llm.chat_parameters),
            "vision": (llm.vision_model or llm.model, llm.vision_provider, llm.vision_parameters),
            "transcription": (
                llm.transcription_model,
                llm.transcription_provider,
                llm.transcription_parameters,
            ),
        }
        models: dict[Purpose, Model] = {}
        for purpose, (name, provider_name, parameters) in chosen.items():
            given = llm.providers[provider_name] if provider_name else llm.default_provider
            if not name or given is None:
                continue
            setting = f"llm.providers.{provider_name}" if provider_name else "llm"
            provider = Provider(setting=setting, **given.model_dump())
            price = llm.prices.get(name)
            models[purpose] = Model(
                provider=provider, name=name, parameters=parameters, price=price
            )
        return cls(models, context_tokens=llm.context_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumption:
    """The consumption of one request, as the endpoint reports it."""

    input_tokens: int = 0
    output_tokens: int = 0
    sound_seconds: float | None = None
    #: Reported by some endpoints; for others it is computed from the price in the settings.
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmRequest:
    model: str
    purpose: Purpose
    input_tokens: int
    output_tokens: int
    duration_ms: int
    #: Set for transcriptions only.
    sound_seconds: float | None = None
    cost: float | None = None


class Usage:
    """Counts the requests of one job."""

    def __init__(self, resources: ResourceCalculator) -> None:
        self._resources = resources
        self._requests: list[LlmRequest] = []

    def record(
        self, model: Model, purpose: Purpose, consumption: Consumption, *, seconds: float
    ) -> None:
        request = LlmRequest(
            model=model.name,
            purpose=purpose,
            input_tokens=consumption.input_tokens,
            output_tokens=consumption.output_tokens,
            duration_ms=round(seconds * 1000),
            sound_seconds=consumption.sound_seconds,
            cost=_cost(model, consumption),
        )
        self._requests.append(request)
        self._resources.add("llm_requests", 1)
        self._resources.add("llm_input_tokens", request.input_tokens)
        self._resources.add("llm_output_tokens", request.output_tokens)
        if request.sound_seconds is not None:
            self._resources.add("llm_sound_seconds", request.sound_seconds)
        if request.cost is not None:
            self._resources.add("llm_cost", request.cost)

    def info(self) -> dict[str, Any]:
        """`llm_info` of the results."""
        tokens = sum(each.input_tokens + each.output_tokens for each in self._requests)
        info = {
            "requests": [_request_info(each) for each in self._requests],
            "total_tokens": tokens,
        }
        costs = [each.cost for each in self._requests if each.cost is not None]
        return {**info, "total_cost": round(sum(costs), 9)} if costs else info


def _cost(model: Model, consumption: Consumption) -> float | None:
    price = model.price
    if consumption.cost is not None or price is None:
        return consumption.cost
    tokens = consumption.input_tokens * price.input + consumption.output_tokens * price.output
    return round(tokens / 1e6 + (consumption.sound_seconds or 0) / 60 * price.minute, 9)


def _request_info(request: LlmRequest) -> dict[str, Any]:
    return {name: value for name, value in asdict(request).items() if value is not None}


#: Retries within one request after 429, 5xx or a lost connection, with exponential backoff and
#: jitter. `Retry-After` is respected up to two minutes.
MAX_RETRIES = 3
CONNECT_TIMEOUT = 10.0

Messages = list[dict[str, Any]]


class Endpoints:
    """The clients of all endpoints, shared by the jobs of a process. They connect on first use."""

    def __init__(self, options: LlmOptions | None = None) -> None:
        self.options = options or LlmOptions()
        self._clients: dict[Provider, AsyncOpenAI] = {}
        self._slots: dict[Provider, asyncio.Semaphore] = {}
        self._unsupported: set[tuple[Provider, str, str]] = set()
        self._connecting = asyncio.Lock()

    def model(self, purpose: Purpose) -> Model:
        try:
            return self.options.models[purpose]
        except KeyError:
            # A chat model cannot transcribe, so llm.model is no fallback for that.
            general = "" if purpose == "transcription" else "llm.model or "
            raise EngineUnavailable(
                f"No language model is configured for {purpose}: set {general}llm.{purpose}_model,"
                " and llm.base_url or, for OpenAI, llm.api_key"
            ) from None

    def lacks(self, model: Model, feature: str) -> bool:
        """Whether the endpoint has rejected this feature before."""
        return (model.provider, model.name, feature) in self._unsupported

    def mark_unsupported(self, model: Model, feature: str) -> None:
        self._unsupported.add((model.provider, model.name, feature))

    async def chat(
        self, purpose: Purpose, messages: Messages, usage: Usage, **parameters: Any
    ) -> str:
        """Send messages to the model for `purpose`. Parameters in the settings take precedence."""
        model = self.model(purpose)

        async def send(client: "AsyncOpenAI") -> bytes:
            # Not `completions.create`: it validates the types of the whole request, which takes
            # as long as sending it, but does not validate the response.
            body = {"model": model.name, "messages": messages, **parameters, **model.parameters}
            return await client.post("/chat/completions", cast_to=bytes, body=body)

        response, seconds = await self._send(model, send)
        completion = parse_completion(response)
        # Recorded first: an answer that cannot be used costs as much.
        usage.record(model, purpose, completion.consumption, seconds=seconds)
        return completion_text(completion, model)

    async def transcription(
        self, sound: tuple[str, bytes], form: Mapping[str, Any], usage: Usage, *, seconds: float
    ) -> "TranscriptionResponse":
        """Transcribe a sound file; `seconds` is its length, for endpoints that do not report it."""
        model = self.model("transcription")

        async def send(client: "AsyncOpenAI") -> bytes:
            response = await client.audio.transcriptions.with_raw_response.create(
                model=model.name,
                file=sound,
                extra_body={**form, **model.parameters},
            )
            return response.content

        content, elapsed = await self._send(model, send)
        response = parse_transcription(content, model)
        usage.record(model, "transcription", response.consumption(seconds), seconds=elapsed)
        return response

    async def _send(
        self, model: Model, send: Callable[["AsyncOpenAI"], Awaitable[bytes]]
    ) -> tuple[bytes, float]:
        """The response, and how many seconds it took."""
        async with self._slot(model.provider):
            started = time.monotonic()
            client = await self._client(model.provider)
            from openai import APIError  # loaded with the client

            try:
                async with asyncio.timeout(model.provider.timeout_sec):
                    return await send(client), time.monotonic() - started
            except TimeoutError:
                raise timed_out(model.provider) from None
            except APIError as error:
                # Not chained: the error contains the request with the API key.
                raise as_job_error(error, model) from None

    def _slot(self, provider: Provider) -> asyncio.Semaphore:
        return self._slots.setdefault(provider, asyncio.Semaphore(provider.max_concurrent))

    async def _client(self, provider: Provider) -> "AsyncOpenAI":
        async with self._connecting:
            if provider not in self._clients:
                # In a thread: importing the library takes half a second.
                self._clients[provider] = await asyncio.to_thread(_make_client, provider)
            return self._clients[provider]

    async def close(self) -> None:
        clients, self._clients = self._clients, {}
        for client in clients.values():
            with suppress(RuntimeError):  # it belongs to another event loop, or one that was closed
                await client.close()


def _make_client(provider: Provider) -> "AsyncOpenAI":
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Timeout

    timeout = Timeout(provider.timeout_sec, connect=CONNECT_TIMEOUT)
    client = AsyncOpenAI(
        base_url=provider.base_url,
        api_key=provider.api_key or "none",  # servers without authentication accept any
        max_retries=MAX_RETRIES,
        timeout=timeout,
        # Like all our requests: no proxy from the environment, no redirects with the API key.
        http_client=DefaultAsyncHttpxClient(
            timeout=timeout, trust_env=False, follow_redirects=False
        ),
    )
    _ = client.audio.transcriptions  # imports the rest of the library
    return client


UNREADABLE = "The endpoint of the language model sent a response that cannot be read"

#: Some servers leave the reasoning of the model before its answer.
REASONING = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


class Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class Choice(BaseModel):
    message: Message
    finish_reason: str | None = None


class TokenUsage(BaseModel):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: FiniteFloat | None = None


class Completion(BaseModel):
    choices: list[Choice] = []
    usage: TokenUsage | None = None
    #: Some endpoints respond with 200 although they failed.
    error: Any = None

    @property
    def consumption(self) -> Consumption:
        usage = self.usage or TokenUsage()
        return Consumption(
            input_tokens=usage.prompt_tokens,
            output_tokens=usage.completion_tokens,
            cost=usage.cost,
        )


class Segment(BaseModel):
    """Times in seconds. Only verbose responses have segments."""

    start: FiniteFloat
    end: FiniteFloat
    text: str
    #: Mean log probability of its tokens.
    avg_logprob: float | None = None


class AudioUsage(BaseModel):
    """In seconds or in tokens, depending on how the model is billed."""

    input_tokens: int = 0
    output_tokens: int = 0
    seconds: FiniteFloat | None = None
    cost: FiniteFloat | None = None


class TranscriptionResponse(BaseModel):
    text: str | None = None
    #: An English name or a code.
    language: str | None = None
    segments: list[Segment] | None = None
    usage: AudioUsage | None = None
    error: Any = None

    def consumption(self, seconds: float) -> Consumption:
        usage = self.usage or AudioUsage()
        return Consumption(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            sound_seconds=seconds if usage.seconds is None else usage.seconds,
            cost=usage.cost,
        )


def parse_transcription(content: bytes, model: Model) -> TranscriptionResponse:
    try:
        response = TranscriptionResponse.model_validate_json(content)
    except ValidationError:
        raise UpstreamFailed(UNREADABLE) from None
    if response.text is None and response.segments is None:
        if response.error is None:
            raise UpstreamFailed(UNREADABLE)
        reason = upstream_reason(response.error, model.provider)
        raise UpstreamFailed(f"The language model gave no answer{reason}")
    return response


def parse_completion(content: bytes) -> Completion:
    try:
        return Completion.model_validate_json(content)
    except ValidationError:
        raise UpstreamFailed(UNREADABLE) from None


def completion_text(completion: Completion, model: Model) -> str:
    """The answer of the model. Raises an error if it is empty, cut off or refused."""
    if not completion.choices:
        reason = upstream_reason(completion.error, model.provider)
        raise UpstreamFailed(f"The language model gave no answer{reason}")
    choice = completion.choices[0]
    if choice.message.refusal or choice.finish_reason == "content_filter":
        reason = upstream_reason(choice.message.refusal, model.provider)
        raise UpstreamRefused(f"The language model refuses to answer{reason}")
    if choice.finish_reason == "length":
        text = "The answer of the language model was cut off: it exceeds the maximum length"
        raise ContextExceeded(text)
    answer = REASONING.sub("", choice.message.content or "").strip()
    if not answer:
        raise UpstreamFailed("The language model gave an empty answer")
    return answer


MAX_REASON = 300
#: A word that contains this many characters of the API key is masked: endpoints like to quote
#: half of it.
KEY_FRAGMENT = 6

#: Statuses below 500 after which a retry may succeed.
TRANSIENT = frozenset({408, 409, 425, 429})
MAX_RETRY_AFTER = timedelta(hours=1)

#: How servers say that a request exceeds the context of the model.
OVERFLOW = re.compile(
    r"context[ _-]?(length|size|window)|maximum context|prompt is too long|too many (input )?tokens"
    r"|token count .{0,20}exceeds|exceeds? the maximum number of tokens",
    re.IGNORECASE,
)


def as_job_error(error: "APIError", model: Model) -> JobFailed:
    from openai import APIStatusError, APITimeoutError

    if isinstance(error, APIStatusError):
        return _status_error(error.status_code, error.body, error.response.headers, model.provider)
    if isinstance(error, APITimeoutError):
        return timed_out(model.provider)
    text = "The endpoint of the language model cannot be reached"
    return UpstreamFailed(f"{text}: see {model.provider.setting}.base_url")


def timed_out(provider: Provider) -> UpstreamFailed:
    return UpstreamFailed(
        f"The language model did not answer in {provider.timeout_sec:g} s:"
        f" see {provider.setting}.timeout_sec"
    )


def _status_error(
    status: int, body: object, headers: Mapping[str, str], provider: Provider
) -> JobFailed:
    if status in (401, 403):  # not quoted: the message tends to contain the key
        text = f"The endpoint of the language model does not accept the API key ({status})"
        return EngineUnavailable(f"{text}: see {provider.setting}.api_key", status=status)
    reason = upstream_reason(body, provider)
    if status not in TRANSIENT and _is_overflow(body):
        return ContextExceeded(
            f"The text is too long for the language model{reason}", status=status
        )
    if status < 500 and (status not in TRANSIENT or _is_quota_exhausted(body)):
        text = f"The endpoint of the language model refuses the request ({status}){reason}"
        return UpstreamRefused(text, status=status)
    failed = UpstreamFailed(f"The language model gave no answer ({status}){reason}", status=status)
    failed.retry_after = _retry_after(headers)
    return failed


def _is_overflow(body: object) -> bool:
    if not isinstance(body, Mapping):
        return False
    texts = (str(body.get(key) or "") for key in ("code", "type", "message"))
    return any(OVERFLOW.search(text) for text in texts)


def _is_quota_exhausted(body: object) -> bool:
    return isinstance(body, Mapping) and body.get("code") == "insufficient_quota"


def upstream_reason(body: Any, provider: Provider) -> str:
    """`: ` and the message of the endpoint, shortened and without secrets; "" if there is none."""
    message = body.get("message") if isinstance(body, Mapping) else body
    if not isinstance(message, str) or message.lstrip().startswith(("<", "{")):  # HTML, JSON
        return ""
    words = re.split(r"[\s\x00-\x1f]+", message)
    text = " ".join(_mask(word, provider.api_key) for word in words)
    if len(text) > MAX_REASON:
        text = text[:MAX_REASON] + "…"
    return f": {text.strip()}" if text.strip() else ""


def _mask(word: str, secret: str | None) -> str:
    if not secret:
        return word
    parts = (
        secret[start : start + KEY_FRAGMENT]
        for start in range(max(1, len(secret) - KEY_FRAGMENT + 1))
    )
    return "***" if any(part in word for part in parts) else word


def _retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """The delay that the endpoint asks for, if it was too long to wait within the request."""
    wait = read_retry_after(headers.get("retry-after"), datetime.now(UTC))
    if wait is None:
        return None
    return min(max(wait, timedelta(seconds=1)), MAX_RETRY_AFTER)
