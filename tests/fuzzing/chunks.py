"""Damages files that are made of chunks, so that sizes and checksums are right again: what reads
them then comes to the damage instead of stopping before it."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from .damage import Damage, hurt


@dataclass(slots=True)
class Chunk:
    """What it is called, and what it holds: bytes, and behind them other chunks."""

    name: bytes
    content: bytes = b""
    inside: list["Chunk"] = field(default_factory=list)

    def copy(self) -> "Chunk":
        return replace(self, inside=[chunk.copy() for chunk in self.inside])


Reader = Callable[[bytes], list[Chunk]]
Writer = Callable[[list[Chunk]], bytes]


def damage_of(read: Reader, write: Writer) -> Damage:
    def damaged(content: bytes, chance: random.Random) -> bytes:
        chunks = read(content)
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            _damage(chunks, chance)
        return write(chunks)

    return damaged


def _damage(chunks: list[Chunk], chance: random.Random) -> None:
    lists = [one for one in _lists(chunks) if one]
    if not lists:
        return
    # As often in a deep list as in a long one: the long ones are sound and pictures.
    place = chance.choice(lists)
    at = chance.randrange(len(place))
    match chance.randrange(9):
        case 0:
            del place[at]
        case 1:
            place.insert(chance.randrange(len(place) + 1), place[at].copy())
        case 2:
            other = chance.randrange(len(place))
            place[at], place[other] = place[other], place[at]
        case 3:
            place[at].name = chance.choice([one.name for some in lists for one in some])
        case 4:
            chance.choice(lists).append(place[at].copy())
        case 5:
            _nest(place, at, chance.choice((3, 30, 300)))
        case _:
            place[at].content = hurt(place[at].content, chance)


def _nest(place: list[Chunk], at: int, depth: int) -> None:
    """Puts a chunk into others of its name."""
    outer = Chunk(place[at].name, place[at].content)
    inner = place[at]
    for _ in range(depth):
        inner = Chunk(outer.name, b"", [inner])
    place[at] = inner


def _lists(chunks: list[Chunk]) -> Iterator[list[Chunk]]:
    yield chunks
    for chunk in chunks:
        yield from _lists(chunk.inside)
