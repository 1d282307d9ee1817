"""A transcript in another language, by a language model: its sentences keep their times."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..cache import Entry
from ..engines.language_names import is_same_language, language_code
from ..engines.speech import Heard, Said
from ..errors import InvalidParameters
from ..handler import JobContext
from ..processors import records
from ..version import __version__
from .documents import Document, made_after

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


async def translated(
    ctx: JobContext[Any], document: Document, spoken: "Spoken", target: str
) -> "Spoken":
    """The same sentences in another language. What is done is kept, portion by portion."""
    from ..processors.transcript_files import Spoken

    code = language_code(target) or target
    entry = await _entry(ctx, document, spoken, code)
    since = made_after(ctx)
    said = await asyncio.to_thread(lambda: list(spoken.said()))
    portions = list(_portions(said))
    known = await asyncio.to_thread(records.places, str(entry.directory), made_after=since)
    for number, portion in enumerate(portions):
        if number in known:
            continue
        texts = await ctx.llm.translate(
            [one.text for one in portion], source=spoken.language, target=code
        )
        heard = Heard(
            language=code,
            confidence=1.0,
            said=tuple(
                Said(one.start, one.end, text) for one, text in zip(portion, texts, strict=True)
            ),
        )
        await asyncio.to_thread(_keep, entry, number, heard)
        done = f"{number + 1}/{len(portions)}"
        await ctx.progress(f"translating:{done}", 90, f"{done} parts are translated")
    return Spoken(
        directory=str(entry.directory), pieces=len(portions), language=code, made_after=since
    )


async def _entry(ctx: JobContext[Any], document: Document, spoken: "Spoken", target: str) -> Entry:
    model = ctx.llm.model("chat")
    entry = await asyncio.to_thread(
        ctx.cache.entry,
        "translation",
        document.sha256,
        target,
        options={"model": model, "of": spoken.directory.rpartition("/")[2]},
        version=f"secretary {__version__}",
    )
    entry.note({})
    return entry


def _keep(entry: Entry, number: int, heard: Heard) -> None:
    from ..processors.transcript_files import record_of

    records.append(str(entry.directory), number, record_of(heard))
    entry.touch()


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
