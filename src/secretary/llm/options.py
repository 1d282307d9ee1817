"""Settings of the language models, and the usage of one job."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ..config import LlmPriceSettings as Price
from ..config import LlmProviderSettings, LlmSettings
from ..core.job import ResourceCalculator

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
