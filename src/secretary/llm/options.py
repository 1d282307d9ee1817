"""Which language model serves which purpose, and where: plain data that may travel."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ..core.job import ResourceCalculator

Purpose = Literal["chat", "vision", "transcription"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """An endpoint that speaks OpenAI's protocol."""

    #: Where in the settings it stands, so that messages can say what to look at.
    setting: str
    base_url: str
    api_key: str | None = field(default=None, repr=False)
    #: For one request with all its repetitions.
    timeout_seconds: float = 300
    max_concurrent: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """In whatever currency the operator counts."""

    #: Of a million tokens.
    input: float = 0
    output: float = 0
    #: Of a minute of sound.
    minute: float = 0


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
    #: What the model for chat holds at once, question and answer.
    context_tokens: int = 16_000


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
