"""Which language model serves which purpose, and where: plain data that may travel."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

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
