"""Summaries, and texts made into others by an instruction."""

from functools import partial

from ..processors.text_parts import tokens_of
from .answers import Answers
from .long_texts import HALF, SMALLEST, asked_of_all, in_parts
from .prompts import DetailLevel, rewriting_messages, summary_messages
from .steps import Steps

AIM = "Write a summary of it."


async def summarised(
    answers: Answers,
    text: str,
    *,
    level: DetailLevel,
    language: str | None,
    instructions: str | None,
    steps: Steps,
) -> str:
    """In the language of the text, where no other is asked for. Of a text that is too long for
    the model, its parts are summed up first."""
    messages = partial(summary_messages, level=level, language=language, instructions=instructions)

    async def ask(short: str) -> str:
        return await answers.write(messages(short))

    overhead = tokens_of(messages("")[0]["content"])
    aim = f"{AIM} {instructions}" if instructions else AIM
    made = await asked_of_all(answers, text, ask, overhead=overhead, aim=aim, steps=steps)
    return made.strip() + "\n"


async def rewritten(answers: Answers, text: str, *, instructions: str, steps: Steps) -> str:
    """As the instructions say; a long text part by part."""

    async def ask(part: str) -> str:
        return await answers.write(rewriting_messages(part, instructions=instructions))

    most = round(answers.context_tokens * HALF) - tokens_of(instructions)
    parts = await in_parts(answers, text, max(most, SMALLEST), ask, steps)
    return "\n\n".join(part.strip() for part in parts) + "\n"
