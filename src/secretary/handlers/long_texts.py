"""Texts that are longer than a model holds: in parts, all at once, and made shorter."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..errors import ContextExceeded
from ..lanes import in_lanes
from ..processors.text_parts import parts_of, tokens_of
from .answers import Answers
from .prompts import notes_messages
from .steps import Steps

T = TypeVar("T")

#: No part is made smaller than this: what a model cannot take then, it cannot take at all.
SMALLEST = 200
#: Of what the model holds: the text of a question that has a short answer, the answer to one, and
#: the text of a question whose answer is as long as the text.
QUESTION, ANSWER, HALF = 0.55, 0.25, 0.35
#: Notes that are hardly shorter than the text would never come to an end.
SHORTER = 0.9
WORDS_PER_TOKEN = 0.5


async def in_parts(
    answers: Answers, text: str, most: int, ask: Callable[[str], Awaitable[str]], steps: Steps
) -> list[str]:
    """What is answered to each part of a text, in their order. A part that is too much for the
    model after all is asked in smaller ones."""
    parts = [part for part in await _parts(text, most) if part.strip()]
    steps.expect(len(parts))

    async def asked(part: str) -> str:
        answer = await _asked(part, most)
        await steps.advance()
        return answer

    async def _asked(part: str, most: int) -> str:
        try:
            return await ask(part)
        except ContextExceeded:
            smaller = min(most, tokens_of(part)) // 2
            if smaller < SMALLEST:
                raise
            halves = [each for each in await _parts(part, smaller) if each.strip()]
            return "\n\n".join([(await _asked(half, smaller)).strip() for half in halves])

    return await in_lanes(parts, answers.lanes, asked)


async def _parts(text: str, most: int) -> list[str]:
    return await asyncio.to_thread(parts_of, text, most)


async def asked_of_all(
    answers: Answers,
    text: str,
    ask: Callable[[str], Awaitable[T]],
    *,
    overhead: int,
    aim: str,
    steps: Steps,
) -> T:
    """What is answered to the text, or where it is too long to notes of it. `overhead` are the
    tokens of the question beside the text; `aim` says what for the notes are."""
    context = answers.context_tokens
    room = max(SMALLEST, round(context * (1 - ANSWER)) - overhead)
    while True:
        short = await _condensed(answers, text, room, aim, steps)
        try:
            return await ask(short)
        except ContextExceeded:  # a token has fewer letters than we thought
            room = min(room, tokens_of(short)) // 2
            if room < SMALLEST:
                raise


async def _condensed(answers: Answers, text: str, room: int, aim: str, steps: Steps) -> str:
    """The text itself if there is room for it, else notes."""
    most = max(SMALLEST, min(round(answers.context_tokens * QUESTION), room))
    while (size := tokens_of(text)) > room:
        count = max(2, -(-size // most))
        words = max(50, round(min(room / count, most * ANSWER) * WORDS_PER_TOKEN))

        async def condense(part: str, words: int = words) -> str:
            return await answers.write(notes_messages(part, aim=aim, words=words))

        notes = await in_parts(answers, text, min(most, -(-size // 2)), condense, steps)
        text = "\n\n".join(note.strip() for note in notes)
        if tokens_of(text) > size * SHORTER:
            raise ContextExceeded(
                f"The text is too long for the language model ({size:,} tokens), and the notes it"
                " makes of it are not shorter: see llm.context_tokens"
            )
    return text
