"""What a job has asked of language models, and what that took."""

from dataclasses import asdict, dataclass
from typing import Any

from ...resources import ResourceCalculator
from .options import Model, Purpose


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
