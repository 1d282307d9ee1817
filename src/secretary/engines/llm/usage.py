"""What a job has asked of language models, and what that took."""

from dataclasses import asdict, dataclass
from typing import Any

from ...resources import ResourceCalculator
from .options import Purpose


@dataclass(frozen=True, slots=True)
class LlmRequest:
    model: str
    purpose: Purpose
    input_tokens: int
    output_tokens: int
    duration_ms: int


class Usage:
    """Every request of one job, also for `llm_info` in its results."""

    def __init__(self, resources: ResourceCalculator) -> None:
        self._resources = resources
        self._requests: list[LlmRequest] = []

    def record(self, request: LlmRequest) -> None:
        self._requests.append(request)
        self._resources.add("llm_requests", 1)
        self._resources.add("llm_input_tokens", request.input_tokens)
        self._resources.add("llm_output_tokens", request.output_tokens)

    def info(self) -> dict[str, Any]:
        """As the answers of the API show it."""
        tokens = sum(each.input_tokens + each.output_tokens for each in self._requests)
        return {"requests": [asdict(each) for each in self._requests], "total_tokens": tokens}
