"""What an endpoint says, read with patience: each server speaks the protocol in its own way."""

import re
from typing import Any

from pydantic import BaseModel, ValidationError

from ...errors import UpstreamFailed, UpstreamRefused
from .failures import sentence
from .options import Model

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


class Completion(BaseModel):
    choices: list[Choice] = []
    usage: Tokens | None = None
    #: Some endpoints answer 200 although they failed.
    error: Any = None


def read_completion(body: bytes) -> Completion:
    try:
        return Completion.model_validate_json(body)
    except ValidationError:
        text = "The endpoint of the language model gave an answer that cannot be read"
        raise UpstreamFailed(text) from None


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
        raise UpstreamRefused(text)
    said = THOUGHTS.sub("", choice.message.content or "").strip()
    if not said:
        raise UpstreamFailed("The language model gave an empty answer")
    return said
