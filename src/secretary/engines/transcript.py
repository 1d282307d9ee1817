"""Tokens with their times, as words."""

import functools
from collections.abc import Sequence
from typing import NamedTuple

from .speech import Said

#: Where a word begins, in vocabularies made of bytes that are shown as letters.
SPACE = "Ġ"
#: From here on letters are words; and what stands for bytes that are not yet a letter.
IDEOGRAPHS, INCOMPLETE = "\u2e80", "\ufffd"
#: A loop: up to so many tokens, over and over, at least so often and so long.
LOOP_PERIOD, LOOP_TIMES, LOOP_LENGTH = 24, 3, 12


class Token(NamedTuple):
    text: str
    start: float
    end: float


def words(tokens: Sequence[Token]) -> list[Said]:
    """With the space before them. Marks belong to the word before; they have no time."""
    groups: list[list[Token]] = []
    for token in tokens:
        if not groups or token.text.startswith(SPACE) or _is_ideograph(groups[-1], token):
            groups.append([])
        groups[-1].append(token)
    return [_word(group) for group in groups]


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


def _is_ideograph(before: Sequence[Token], token: Token) -> bool:
    """Chinese and Japanese have no spaces: each sign is a word, once all its bytes are there."""
    last = _text(before)[-1:]
    return IDEOGRAPHS <= last < INCOMPLETE and any(map(_is_spoken, _text([token])))


def _is_spoken(letter: str) -> bool:
    return letter.isalnum() or letter == INCOMPLETE


def _word(tokens: Sequence[Token]) -> Said:
    spoken = [token for token in tokens if any(map(_is_spoken, _text([token])))] or tokens
    return Said(spoken[0].start, spoken[-1].end, _text(tokens))


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
