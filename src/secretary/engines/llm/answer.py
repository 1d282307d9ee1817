"""What an endpoint says, read with patience: each server speaks the protocol in its own way."""

import re
from typing import Any

from pydantic import BaseModel, FiniteFloat, ValidationError

from ...errors import ContextExceeded, UpstreamFailed, UpstreamRefused
from .failures import sentence
from .options import Model
from .usage import Used

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
