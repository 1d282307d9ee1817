"""Tokens with their times, as lines of text."""

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .speech import Said

#: Where a word begins, in vocabularies made of bytes that are shown as letters.
SPACE = "Ġ"
SENTENCE_ENDS = (".", "?", "!", "…", "\N{IDEOGRAPHIC FULL STOP}")
CLAUSE_ENDS = (*SENTENCE_ENDS, ",", ";", ":", "\N{IDEOGRAPHIC COMMA}")
CLOSING = "\"')]}”»"
#: Seconds: a line ends at a pause, with its sentence, and if that is long with a part of it.
PAUSE, LONG_LINE, LONGEST_LINE = 1.5, 7.0, 12.0
#: A loop: up to so many tokens, over and over, at least so often and so long.
LOOP_PERIOD, LOOP_TIMES, LOOP_LENGTH = 24, 3, 12


class Token(NamedTuple):
    text: str
    start: float
    end: float


class Word(NamedTuple):
    text: str
    start: float
    end: float


def lines(tokens: Sequence[Token]) -> list[Said]:
    """In seconds from the beginning of the sound."""
    said: list[Said] = []
    line: list[Word] = []
    for word in _words(tokens):
        if line and _ends(line, word):
            said.append(_line(line))
            line = []
        line.append(word)
    return [one for one in [*said, *([_line(line)] if line else [])] if _is_text(one.text)]


def is_loop(tokens: Sequence[int]) -> bool:
    return len(unlooped(tokens)) < len(tokens)


def unlooped(tokens: Sequence[int]) -> tuple[int, ...]:
    """With what comes over and over only once."""
    kept: list[int] = []
    place = 0
    while place < len(tokens):
        period, times = _loop_at(tokens, place)
        kept += tokens[place : place + period]
        place += period * times
    return tuple(kept)


def _loop_at(tokens: Sequence[int], place: int) -> tuple[int, int]:
    for period in range(1, LOOP_PERIOD + 1):
        unit = tokens[place : place + period]
        times = 1
        while tokens[place + times * period : place + (times + 1) * period] == unit:
            times += 1
        if times >= LOOP_TIMES and times * period >= LOOP_LENGTH:
            return period, times
    return 1, 1


def _words(tokens: Sequence[Token]) -> Iterator[Word]:
    """Marks belong to the word before; they have no time of their own."""
    group: list[Token] = []
    for token in tokens:
        if group and token.text.startswith(SPACE):
            yield _word(group)
            group = []
        group.append(token)
    if group:
        yield _word(group)


def _word(tokens: Sequence[Token]) -> Word:
    spoken = [token for token in tokens if any(map(str.isalnum, _text([token])))] or tokens
    return Word(_text(tokens), spoken[0].start, spoken[-1].end)


def _text(tokens: Sequence[Token]) -> str:
    letters = "".join(token.text for token in tokens)
    return bytes(_byte_of().get(letter, ord("?")) for letter in letters).decode("utf-8", "replace")


@functools.cache
def _byte_of() -> dict[str, int]:
    """Bytes that are no letters are shown as letters that follow the first 256."""
    shown = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {
        chr(256 + n): byte for n, byte in enumerate(hidden)
    }


def _ends(line: Sequence[Word], following: Word) -> bool:
    last = line[-1].text.rstrip(CLOSING)
    length = line[-1].end - line[0].start
    return (
        last.endswith(SENTENCE_ENDS)
        or following.start - line[-1].end >= PAUSE
        or (length >= LONG_LINE and last.endswith(CLAUSE_ENDS))
        or length >= LONGEST_LINE
    )


def _line(words: Sequence[Word]) -> Said:
    text = "".join(word.text for word in words).strip()
    return Said(round(words[0].start, 2), round(words[-1].end, 2), text)


def _is_text(text: str) -> bool:
    return any(map(str.isalnum, text))
