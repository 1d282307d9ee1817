"""A transcript in another language, by a language model: its sentences keep their times."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..core.callables import map_limited
from ..core.errors import ContextExceeded, InvalidParameters
from ..core.languages import COMMON_WORDS, detect_language, is_same_language, language_code
from ..documents.text_chunking import TextChunk, split_blocks
from ..jobs.handler import JobContext
from ..media.speech.engines import Transcription, Word
from ..storage import append_log
from .llm_cache import LlmCache, answers_about
from .subjobs import Steps

if TYPE_CHECKING:
    from ..media.transcript import Spoken

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
    from ..media.transcript import Spoken

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
        heard = Transcription(
            language=code,
            confidence=1.0,
            said=tuple(
                Word(one.start, one.end, text) for one, text in zip(portion, texts, strict=True)
            ),
        )
        await asyncio.to_thread(_keep, str(directory), number, heard)
        done = f"{number + 1}/{len(portions)}"
        await ctx.progress(f"translating:{done}", 90, f"{done} parts are translated")
    return Spoken(directory=str(directory), pieces=len(portions), language=code)


def _keep(directory: str, number: int, heard: Transcription) -> None:
    from ..media.transcript import record_of

    append_log.append(directory, number, record_of(heard))


def _portions(said: Sequence[Word]) -> Iterator[list[Word]]:
    portion: list[Word] = []
    letters = 0
    for one in said:
        portion.append(one)
        letters += len(one.text)
        if letters >= PORTION:
            yield portion
            portion, letters = [], 0
    if portion:
        yield portion


#: Tokens of a piece at the most, and of those that are translated and kept together.
PIECE, TEXT_TRANSLATION_PORTION = 800, 2500
#: No piece is made smaller than this.
SMALLEST = 50
#: Letters from which the language is told; it takes no more.
ENOUGH = 5000
WORD = re.compile(r"[^\W\d_]{2}")
EDGES = re.compile(r"(\s*)(.*?)(\s*)", re.DOTALL)


def language_of_text(text: str) -> str | None:
    """Two letters; None where it cannot be told."""
    found = detect_language(text[:ENOUGH], tuple(COMMON_WORDS))
    return language_code(found) if found else None


async def translated_text(
    answers: LlmCache,
    text: str,
    *,
    source: str | None,
    target: str,
    instructions: str | None,
    steps: Steps,
) -> str:
    """Markdown in the language `target`. Code and front matter stay as they are."""
    translation = _Translation(answers, source, language_code(target) or target, instructions)
    pieces = await asyncio.to_thread(lambda: list(split_blocks(text, PIECE)))
    portions = list(_text_translation_portions(pieces))
    steps.expect(len(portions))

    async def done(portion: Sequence[TextChunk]) -> str:
        result = await translation.of(portion)
        await steps.advance()
        return result

    return "".join(await map_limited(portions, answers.lanes, done))


def _text_translation_portions(pieces: Sequence[TextChunk]) -> Iterator[list[TextChunk]]:
    portion: list[TextChunk] = []
    size = 0
    for piece in pieces:
        if portion and size + piece.tokens > TEXT_TRANSLATION_PORTION:
            yield portion
            portion, size = [], 0
        portion.append(piece)
        size += piece.tokens
    if portion:
        yield portion


@dataclass(frozen=True, slots=True)
class _Translation:
    answers: LlmCache
    source: str | None
    target: str
    instructions: str | None

    async def of(self, pieces: Sequence[TextChunk]) -> str:
        wordy = [place for place, piece in enumerate(pieces) if _has_words(piece)]
        texts = [piece.text for piece in pieces]
        if not wordy:
            return "".join(texts)
        edges = {place: EDGES.fullmatch(texts[place]) for place in wordy}
        cores = [found[2] for found in edges.values() if found]
        try:
            done = await self.answers.translate(
                cores, source=self.source, target=self.target, instructions=self.instructions
            )
        except ContextExceeded:
            return await self._smaller(pieces)
        for (place, found), core in zip(edges.items(), done, strict=True):
            if found:
                texts[place] = f"{found[1]}{core.strip()}{found[3]}"
        return "".join(texts)

    async def _smaller(self, pieces: Sequence[TextChunk]) -> str:
        most = max(piece.tokens for piece in pieces) // 2
        if most < SMALLEST:
            raise ContextExceeded("Not even a sentence fits into the language model")
        return "".join(
            [
                await self.of([part])
                for piece in pieces
                for part in ([piece] if piece.is_code else split_blocks(piece.text, most))
            ]
        )


def _has_words(piece: TextChunk) -> bool:
    return not piece.is_code and bool(WORD.search(piece.text))
