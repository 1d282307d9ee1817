"""A text in another language: paragraph by paragraph, so that none is lost and its form stays."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..engines.language_names import language_code
from ..errors import ContextExceeded
from ..lanes import in_lanes
from ..processors.language import COMMON_WORDS, detect_language
from ..processors.text_parts import Piece, pieces_of
from .answers import Answers
from .steps import Steps

#: Tokens of a piece at the most, and of those that are translated and kept together.
PIECE, PORTION = 800, 2500
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
    answers: Answers,
    text: str,
    *,
    source: str | None,
    target: str,
    instructions: str | None,
    steps: Steps,
) -> str:
    """Markdown in the language `target`. Code and front matter stay as they are."""
    translation = _Translation(answers, source, language_code(target) or target, instructions)
    pieces = await asyncio.to_thread(lambda: list(pieces_of(text, PIECE)))
    portions = list(_portions(pieces))
    steps.expect(len(portions))

    async def done(portion: Sequence[Piece]) -> str:
        result = await translation.of(portion)
        await steps.advance()
        return result

    return "".join(await in_lanes(portions, answers.lanes, done))


def _portions(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    portion: list[Piece] = []
    size = 0
    for piece in pieces:
        if portion and size + piece.tokens > PORTION:
            yield portion
            portion, size = [], 0
        portion.append(piece)
        size += piece.tokens
    if portion:
        yield portion


@dataclass(frozen=True, slots=True)
class _Translation:
    answers: Answers
    source: str | None
    target: str
    instructions: str | None

    async def of(self, pieces: Sequence[Piece]) -> str:
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

    async def _smaller(self, pieces: Sequence[Piece]) -> str:
        most = max(piece.tokens for piece in pieces) // 2
        if most < SMALLEST:
            raise ContextExceeded("Not even a sentence fits into the language model")
        return "".join(
            [
                await self.of([part])
                for piece in pieces
                for part in ([piece] if piece.is_code else pieces_of(piece.text, most))
            ]
        )


def _has_words(piece: Piece) -> bool:
    return not piece.is_code and bool(WORD.search(piece.text))
