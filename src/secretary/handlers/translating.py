"""A transcript in another language, by a language model: its sentences keep their times."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..engines.language_names import is_same_language, language_code
from ..engines.speech import Heard, Said
from ..errors import InvalidParameters
from ..handler import JobContext
from ..processors import records
from .answers import answers_about

if TYPE_CHECKING:
    from ..processors.transcript_files import Spoken

#: Letters that are translated together, and kept together.
PORTION = 20_000


def check_translation(ctx: JobContext[Any]) -> None:
    """Before any work: is the language known, and is there a model for it?"""
    target = ctx.parameters.target_language
    if target is None:
        return
    if language_code(target) is None:
        raise InvalidParameters(f"target_language: {target!r} is no language that is known")
    if not is_same_language(ctx.parameters.source_language, target):
        ctx.llm.model("chat")


async def translated(ctx: JobContext[Any], spoken: "Spoken", target: str) -> "Spoken":
    """The same sentences in another language. What is answered is kept, portion by portion."""
    from ..processors.transcript_files import Spoken

    code = language_code(target) or target
    said = await asyncio.to_thread(lambda: list(spoken.said()))
    answers = await answers_about(ctx, "\n".join(one.text for one in said))
    directory = ctx.scratch / "translated"
    directory.mkdir(exist_ok=True)
    portions = list(_portions(said))
    for number, portion in enumerate(portions):
        texts = await answers.translate(
            [one.text for one in portion], source=spoken.language, target=code, instructions=None
        )
        heard = Heard(
            language=code,
            confidence=1.0,
            said=tuple(
                Said(one.start, one.end, text) for one, text in zip(portion, texts, strict=True)
            ),
        )
        await asyncio.to_thread(_keep, str(directory), number, heard)
        done = f"{number + 1}/{len(portions)}"
        await ctx.progress(f"translating:{done}", 90, f"{done} parts are translated")
    return Spoken(directory=str(directory), pieces=len(portions), language=code)


def _keep(directory: str, number: int, heard: Heard) -> None:
    from ..processors.transcript_files import record_of

    records.append(directory, number, record_of(heard))


def _portions(said: Sequence[Said]) -> Iterator[list[Said]]:
    portion: list[Said] = []
    letters = 0
    for one in said:
        portion.append(one)
        letters += len(one.text)
        if letters >= PORTION:
            yield portion
            portion, letters = [], 0
    if portion:
        yield portion
