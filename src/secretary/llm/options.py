"""Which language model serves which purpose, and where: plain data that may travel."""

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
    #: Sent with each request as they are.
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
class Used:
    """What an endpoint says that a request took."""

    input_tokens: int = 0
    output_tokens: int = 0
    sound_seconds: float | None = None
    #: Some endpoints tell it; the others have a price in the settings, or none that is known.
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmRequest:
    model: str
    purpose: Purpose
    input_tokens: int
    output_tokens: int
    duration_ms: int
    #: Of transcriptions only.
    sound_seconds: float | None = None
    #: Where it is known.
    cost: float | None = None


class Usage:
    """Every request of one job, also for `llm_info` in its results."""

    def __init__(self, resources: ResourceCalculator) -> None:
        self._resources = resources
        self._requests: list[LlmRequest] = []

    def record(self, model: Model, purpose: Purpose, used: Used, *, seconds: float) -> None:
        request = LlmRequest(
            model=model.name,
            purpose=purpose,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            duration_ms=round(seconds * 1000),
            sound_seconds=used.sound_seconds,
            cost=_cost(model, used),
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
        """As the answers of the API show it."""
        tokens = sum(each.input_tokens + each.output_tokens for each in self._requests)
        info = {"requests": [_told(each) for each in self._requests], "total_tokens": tokens}
        costs = [each.cost for each in self._requests if each.cost is not None]
        return {**info, "total_cost": round(sum(costs), 9)} if costs else info


def _cost(model: Model, used: Used) -> float | None:
    if used.cost is not None or model.price is None:
        return used.cost
    tokens = used.input_tokens * model.price.input + used.output_tokens * model.price.output
    return round(tokens / 1e6 + (used.sound_seconds or 0) / 60 * model.price.minute, 9)


def _told(request: LlmRequest) -> dict[str, Any]:
    return {name: value for name, value in asdict(request).items() if value is not None}
