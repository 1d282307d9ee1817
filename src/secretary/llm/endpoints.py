"""The HTTP client of language models: options, requests, time limits, responses, errors, usage."""

import asyncio
import base64
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, Field, FiniteFloat, ValidationError

from ..config import LlmPriceSettings as Price
from ..config import LlmProviderSettings, LlmSettings
from ..core import errors
from ..core.http_headers import read_retry_after
from ..core.job import ResourceCalculator
from ..documents.mistral_ocr import OcrPage, OcrResponse

if TYPE_CHECKING:
    from openai import APIError, AsyncOpenAI

#: Retries within one request after 429, 5xx or a lost connection, with exponential backoff and
#: jitter. `Retry-After` is respected up to two minutes.
MAX_RETRIES = 3
CONNECT_TIMEOUT = 10.0

Purpose = Literal["chat", "vision", "transcription", "ocr", "embedding", "image"]
#: Purposes for which `llm.model` is the default: a chat model can do nothing else.
GENERAL: frozenset[Purpose] = frozenset({"chat", "vision"})
#: Other names of parameters, for models that reject the usual one.
RENAMED = {"max_tokens": "max_completion_tokens"}

Messages = list[dict[str, Any]]
Response = TypeVar("Response", bound=BaseModel)


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
    #: By name, for requests that choose one.
    providers: Mapping[str, Provider] = field(default_factory=dict)
    prices: Mapping[str, Price] = field(default_factory=dict)

    @classmethod
    def from_settings(cls, llm: LlmSettings) -> "LlmOptions":
        models: dict[Purpose, Model] = {}
        for purpose in get_args(Purpose):
            general = llm.model if purpose in GENERAL else None
            name = getattr(llm, f"{purpose}_model") or general
            provider_name = getattr(llm, f"{purpose}_provider")
            given = llm.providers[provider_name] if provider_name else llm.default_provider
            if not name or given is None:
                continue
            setting = f"llm.providers.{provider_name}" if provider_name else "llm"
            models[purpose] = Model(
                provider=Provider(setting=setting, **given.model_dump()),
                name=name,
                parameters=getattr(llm, f"{purpose}_parameters"),
                price=llm.prices.get(name),
            )
        providers = {
            name: Provider(setting=f"llm.providers.{name}", **given.model_dump())
            for name, given in llm.providers.items()
        }
        return cls(models, llm.context_tokens, providers, llm.prices)

    def model(self, purpose: Purpose) -> Model:
        try:
            return self.models[purpose]
        except KeyError:
            general = "llm.model or " if purpose in GENERAL else ""
            raise errors.EngineUnavailable(
                f"No language model is configured for {purpose}: set {general}llm.{purpose}_model,"
                " and llm.base_url or, for OpenAI, llm.api_key"
            ) from None

    def override(
        self, purpose: Purpose, name: str | None, provider: str | None = None
    ) -> "LlmOptions":
        """The options with the model that a request names. An unknown provider is ignored. Without
        a configured model, there is none to replace."""
        model = self.models.get(purpose)
        if model is None:
            return self
        name = name or model.name
        changed = replace(
            model,
            name=name,
            provider=self.providers.get(provider or "", model.provider),
            price=self.prices.get(name),
        )
        return replace(self, models={**self.models, purpose: changed})


class TokenUsage(BaseModel):
    """What a chat request consumed, as the endpoint reports it."""

    input_tokens: int = Field(default=0, validation_alias="prompt_tokens")
    output_tokens: int = Field(default=0, validation_alias="completion_tokens")
    #: Reported by some endpoints; for others it is computed from the price in the settings.
    cost: FiniteFloat | None = None


class AudioUsage(BaseModel):
    """In seconds or in tokens, depending on how the model is billed."""

    input_tokens: int = 0
    output_tokens: int = 0
    seconds: FiniteFloat | None = None
    cost: FiniteFloat | None = None


class Usage:
    """Counts the requests of one job."""

    def __init__(self, resources: ResourceCalculator) -> None:
        self._resources = resources
        self._requests: list[dict[str, Any]] = []
        self._tokens = 0
        self._costs: list[float] = []

    def record(
        self,
        model: Model,
        purpose: Purpose,
        usage: TokenUsage | AudioUsage,
        *,
        seconds: float,
        sound_seconds: float | None = None,
        images: int = 0,
    ) -> None:
        """Count a request that took `seconds`; `sound_seconds` is set for transcriptions only."""
        tokens, cost = (usage.input_tokens, usage.output_tokens), usage.cost
        if cost is None and (price := model.price) is not None:
            of_tokens = (tokens[0] * price.input + tokens[1] * price.output) / 1e6
            of_sound, of_images = (sound_seconds or 0) / 60 * price.minute, images * price.image
            cost = round(of_tokens + of_sound + of_images, 9)
        request = {
            "model": model.name,
            "purpose": purpose,
            "input_tokens": tokens[0],
            "output_tokens": tokens[1],
            "tokens": sum(tokens),
            "duration_ms": round(seconds * 1000),
            "sound_seconds": sound_seconds,
            "cost": cost,
        }
        self._requests.append({key: value for key, value in request.items() if value is not None})
        self._tokens += sum(tokens)
        self._resources.add("llm_requests", 1)
        self._resources.add("llm_input_tokens", tokens[0])
        self._resources.add("llm_output_tokens", tokens[1])
        if sound_seconds is not None:
            self._resources.add("llm_sound_seconds", sound_seconds)
        if cost is not None:
            self._costs.append(cost)
            self._resources.add("llm_cost", cost)

    def info(self) -> dict[str, Any]:
        """`llm_info` of the results."""
        info = {"requests": [*self._requests], "total_tokens": self._tokens}
        return {**info, "total_cost": round(sum(self._costs), 9)} if self._costs else info


class Endpoints:
    """The clients of all endpoints, shared by the jobs of a process. They connect on first use."""

    def __init__(self, options: LlmOptions | None = None) -> None:
        self.options = options or LlmOptions()
        self._clients: dict[Provider, AsyncOpenAI] = {}
        self._slots: dict[Provider, asyncio.Semaphore] = {}
        self._unsupported: set[tuple[Provider, str, str]] = set()
        self._connecting = asyncio.Lock()

    def lacks(self, model: Model, feature: str) -> bool:
        """Whether the endpoint has rejected this feature before."""
        return (model.provider, model.name, feature) in self._unsupported

    def mark_unsupported(self, model: Model, feature: str) -> None:
        self._unsupported.add((model.provider, model.name, feature))

    async def send(
        self, model: Model, send: Callable[["AsyncOpenAI"], Awaitable[bytes]]
    ) -> tuple[bytes, float]:
        """The response, and how many seconds it took."""
        provider = model.provider
        slots = self._slots.setdefault(provider, asyncio.Semaphore(provider.max_concurrent))
        async with slots:
            started = time.monotonic()
            async with self._connecting:
                if provider not in self._clients:
                    # In a thread: importing the library takes half a second.
                    self._clients[provider] = await asyncio.to_thread(_make_client, provider)
            from openai import APIError  # loaded with the client

            try:
                async with asyncio.timeout(provider.timeout_sec):
                    return await send(self._clients[provider]), time.monotonic() - started
            except TimeoutError:
                raise _timed_out(provider) from None
            except APIError as error:
                # Not chained: the error contains the request with the API key.
                raise _as_job_error(error, provider) from None

    async def close(self) -> None:
        clients, self._clients = self._clients, {}
        for client in clients.values():
            with suppress(RuntimeError):  # it belongs to another event loop, or one that was closed
                await client.close()


class CountedEndpoints:
    """The endpoints as one job uses them, and the usage of that job."""

    def __init__(
        self, endpoints: Endpoints | None = None, resources: ResourceCalculator | None = None
    ) -> None:
        self.endpoints = endpoints or Endpoints()
        self.usage = Usage(resources or ResourceCalculator())
        self.options = self.endpoints.options

    async def chat(
        self,
        purpose: Purpose,
        messages: Messages,
        *,
        optional: Mapping[str, Any] | None = None,
        **parameters: Any,
    ) -> str:
        """Send messages to the model for `purpose`. Parameters in the settings take precedence;
        `optional` ones are left out if the model rejects them."""
        model = self.options.model(purpose)
        body = {"messages": messages, **parameters}
        content, seconds = await self._post(model, "/chat/completions", body, optional or {})
        completion = _parse(Completion, content)
        # Recorded first: an answer that cannot be used costs as much.
        self.usage.record(model, purpose, completion.usage or TokenUsage(), seconds=seconds)
        return _completion_text(completion, model.provider)

    async def transcription(
        self, sound: tuple[str, bytes], form: Mapping[str, Any], *, seconds: float
    ) -> "TranscriptionResponse":
        """Transcribe a sound file; `seconds` is its length, for endpoints that do not report it."""
        model = self.options.model("transcription")

        async def send(client: "AsyncOpenAI") -> bytes:
            response = await client.audio.transcriptions.with_raw_response.create(
                model=model.name, file=sound, extra_body={**form, **model.parameters}
            )
            return response.content

        content, elapsed = await self.endpoints.send(model, send)
        response = _parse(TranscriptionResponse, content)
        if response.text is None and response.segments is None:
            if response.error is None:
                raise errors.UpstreamFailed(UNREADABLE)
            reason = _reason(response.error, model.provider)
            raise errors.UpstreamFailed(f"The language model gave no answer{reason}")
        used = response.usage or AudioUsage()
        billed = seconds if used.seconds is None else used.seconds
        self.usage.record(model, "transcription", used, seconds=elapsed, sound_seconds=billed)
        return response

    async def ocr(self, pdf: bytes, *, pages: Sequence[int], with_images: bool) -> list[OcrPage]:
        """Read pages of a PDF, by their indexes from 0, with the Mistral OCR API."""
        model = self.options.model("ocr")
        encoded = await asyncio.to_thread(base64.b64encode, pdf)
        document = {
            "type": "document_url",
            "document_url": f"data:application/pdf;base64,{encoded.decode('ascii')}",
        }

        async def send(client: "AsyncOpenAI") -> bytes:
            body = {
                "model": model.name,
                "document": document,
                "pages": [*pages],
                "include_image_base64": with_images,
                **model.parameters,
            }
            return await client.post("/ocr", cast_to=bytes, body=body)

        content, seconds = await self.endpoints.send(model, send)
        response = await asyncio.to_thread(_parse, OcrResponse, content)
        self.usage.record(model, "ocr", TokenUsage(), seconds=seconds)
        return response.pages

    async def embeddings(
        self, texts: Sequence[str], *, dimensions: int | None = None
    ) -> list[list[float]]:
        """The vector of each text. Raises an error unless all have `dimensions` finite values."""
        model = self.options.model("embedding")
        optional = {} if dimensions is None else {"dimensions": dimensions}
        body = {"input": list(texts)}
        content, seconds = await self._post(model, "/embeddings", body, optional)
        try:
            response = await asyncio.to_thread(_parse, EmbeddingResponse, content)
        except errors.UpstreamFailed:
            text = "The embedding model did not return vectors of finite numbers"
            raise errors.UpstreamRefused(text) from None
        used = response.usage or TokenUsage()
        self.usage.record(model, "embedding", used, seconds=seconds)
        if response.data is None:
            reason = _reason(response.error, model.provider)
            raise errors.UpstreamFailed(f"The language model gave no answer{reason}")
        return _vectors_in_order(response.data, len(texts), dimensions)

    async def image(self, prompt: str, size: str, **optional: Any) -> "GeneratedImage":
        """Generate an image. Optional parameters that the model rejects are left out, and listed
        in the result."""
        model = self.options.model("image")
        # Some models return a URL unless asked; others reject the parameter.
        optional = {"response_format": "b64_json", **optional}
        body = {"prompt": prompt, "size": size}
        content, seconds = await self._post(model, "/images/generations", body, optional)
        response = await asyncio.to_thread(_parse, ImageResponse, content)
        used = response.usage or AudioUsage()
        self.usage.record(model, "image", used, seconds=seconds, images=len(response.data or ()))
        if not response.data:
            reason = _reason(response.error, model.provider)
            raise errors.UpstreamFailed(f"The model generated no image{reason}")
        rejected = frozenset(name for name in optional if self.endpoints.lacks(model, name))
        return GeneratedImage(response.data[0].b64_json, response.data[0].url, rejected)

    async def _post(
        self, model: Model, path: str, body: Mapping[str, Any], optional: Mapping[str, Any]
    ) -> tuple[bytes, float]:
        """The response and how many seconds it took. The request is repeated without the optional
        parameters that the model rejects by name; they are not sent to it again."""
        dropped = {name for name in optional if self.endpoints.lacks(model, name)}
        while True:
            parameters = {name: value for name, value in optional.items() if name not in dropped}
            parameters |= {RENAMED[name]: optional[name] for name in dropped & RENAMED.keys()}
            complete = {"model": model.name, **body, **parameters, **model.parameters}

            async def send(client: "AsyncOpenAI", body: Mapping[str, Any] = complete) -> bytes:
                # Not `completions.create` and the like: they validate the types of the whole
                # request, which takes as long as sending it, but do not validate the response.
                return await client.post(path, cast_to=bytes, body=body)

            try:
                response = await self.endpoints.send(model, send)
            except errors.UpstreamRefused as error:
                rejected = _rejected_parameters(error, optional.keys() - dropped)
                if isinstance(error, errors.ContextExceeded) or not rejected:
                    raise
                dropped |= rejected
                continue
            for name in dropped:
                self.endpoints.mark_unsupported(model, name)
            return response


def _rejected_parameters(error: errors.UpstreamRefused, names: Iterable[str]) -> set[str]:
    text = f"{error.message} {error.details.get('param', '')}"
    return {name for name in names if re.search(rf"\b{name}\b", text)}


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


class Completion(BaseModel):
    choices: list[Choice] = []
    usage: TokenUsage | None = None
    #: Some endpoints respond with 200 although they failed.
    error: Any = None


class Segment(BaseModel):
    """Times in seconds. Only verbose responses have segments."""

    start: FiniteFloat
    end: FiniteFloat
    text: str
    #: Mean log probability of its tokens.
    avg_logprob: float | None = None


class Embedding(BaseModel):
    index: int | None = None
    embedding: list[Annotated[float, Field(strict=True, allow_inf_nan=False)]]


class EmbeddingResponse(BaseModel):
    data: list[Embedding] | None = None
    usage: TokenUsage | None = None
    error: Any = None


class ImageData(BaseModel):
    b64_json: str | None = None
    url: str | None = None


class ImageResponse(BaseModel):
    data: list[ImageData] | None = None
    usage: AudioUsage | None = None
    error: Any = None


@dataclass(frozen=True, slots=True)
class GeneratedImage:
    """The image as base64 or as a URL, and the names of parameters that the model rejected."""

    base64: str | None
    url: str | None
    rejected: frozenset[str]


class TranscriptionResponse(BaseModel):
    text: str | None = None
    #: An English name or a code.
    language: str | None = None
    segments: list[Segment] | None = None
    usage: AudioUsage | None = None
    error: Any = None


def _parse(kind: type[Response], content: bytes) -> Response:
    try:
        return kind.model_validate_json(content)
    except ValidationError:
        raise errors.UpstreamFailed(UNREADABLE) from None


def _vectors_in_order(
    embeddings: Sequence[Embedding], count: int, dimensions: int | None
) -> list[list[float]]:
    by_index = {
        position if one.index is None else one.index: one.embedding
        for position, one in enumerate(embeddings)
    }
    if len(embeddings) != count or by_index.keys() != set(range(count)):
        raise errors.UpstreamRefused(
            f"The embedding model returned {len(embeddings)} vectors for {count} texts"
        )
    lengths = {len(vector) for vector in by_index.values()}
    wanted = {dimensions} if dimensions is not None else lengths
    if lengths != wanted or len(lengths) != 1 or 0 in lengths:
        actual = ", ".join(map(str, sorted(lengths)))
        expected = f"; {dimensions} were requested" if dimensions is not None else ""
        raise errors.UpstreamRefused(
            f"The embedding model returned vectors with {actual} dimensions{expected}"
        )
    return [by_index[number] for number in range(count)]


def _completion_text(completion: Completion, provider: Provider) -> str:
    """The answer of the model. Raises an error if it is empty, cut off or refused."""
    if not completion.choices:
        reason = _reason(completion.error, provider)
        raise errors.UpstreamFailed(f"The language model gave no answer{reason}")
    choice = completion.choices[0]
    if choice.message.refusal or choice.finish_reason == "content_filter":
        reason = _reason(choice.message.refusal, provider)
        raise errors.UpstreamRefused(f"The language model refuses to answer{reason}")
    if choice.finish_reason == "length":
        text = "The answer of the language model was cut off: it exceeds the maximum length"
        raise errors.AnswerCutOff(text, partial=_without_reasoning(choice.message.content))
    answer = _without_reasoning(choice.message.content)
    if not answer:
        raise errors.UpstreamFailed("The language model gave an empty answer")
    return answer


def _without_reasoning(content: str | None) -> str:
    return REASONING.sub("", content or "").strip()


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


def _as_job_error(error: "APIError", provider: Provider) -> errors.JobFailed:
    from openai import APIStatusError, APITimeoutError

    if isinstance(error, APITimeoutError):
        return _timed_out(provider)
    if not isinstance(error, APIStatusError):
        text = "The endpoint of the language model cannot be reached"
        return errors.UpstreamFailed(f"{text}: see {provider.setting}.base_url")
    status = error.status_code
    if status in (401, 403):  # not quoted: the message tends to contain the key
        text = f"The endpoint of the language model does not accept the API key ({status})"
        return errors.EngineUnavailable(f"{text}: see {provider.setting}.api_key", status=status)
    reason = _reason(error.body, provider)
    body: Mapping[str, Any] = error.body if isinstance(error.body, Mapping) else {}
    texts = [str(body.get(key) or "") for key in ("code", "type", "message")]
    if status not in TRANSIENT and any(OVERFLOW.search(text) for text in texts):
        text = f"The text is too long for the language model{reason}"
        return errors.ContextExceeded(text, status=status)
    if status < 500 and (status not in TRANSIENT or body.get("code") == "insufficient_quota"):
        text = f"The endpoint of the language model refuses the request ({status}){reason}"
        details = {"param": param} if isinstance(param := body.get("param"), str) else {}
        return errors.UpstreamRefused(text, status=status, **details)
    failed = errors.UpstreamFailed(
        f"The language model gave no answer ({status}){reason}", status=status
    )
    # Only if it was too long to wait within the request.
    wait = read_retry_after(error.response.headers.get("retry-after"), datetime.now(UTC))
    if wait is not None:
        failed.retry_after = min(max(wait, timedelta(seconds=1)), MAX_RETRY_AFTER)
    return failed


def _timed_out(provider: Provider) -> errors.UpstreamFailed:
    return errors.UpstreamFailed(
        f"The language model did not answer in {provider.timeout_sec:g} s:"
        f" see {provider.setting}.timeout_sec"
    )


def _reason(body: Any, provider: Provider) -> str:
    """`: ` and the message of the endpoint, shortened and without secrets; "" if there is none."""
    message = body.get("message") if isinstance(body, Mapping) else body
    if not isinstance(message, str) or message.lstrip().startswith(("<", "{")):  # HTML, JSON
        return ""
    key = provider.api_key or ""
    starts = range(max(1, len(key) - KEY_FRAGMENT + 1)) if key else ()
    fragments = [key[start : start + KEY_FRAGMENT] for start in starts]
    words = (
        "***" if any(fragment in word for fragment in fragments) else word
        for word in re.split(r"[\s\x00-\x1f]+", message)
    )
    text = " ".join(words)
    if len(text) > MAX_REASON:
        text = text[:MAX_REASON] + "…"
    return f": {text.strip()}" if text.strip() else ""
