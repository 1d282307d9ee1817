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
    siblings = chance.choice(lists)
    at = chance.randrange(len(siblings))
    match chance.randrange(9):
        case 0:
            del siblings[at]
        case 1:
            siblings.insert(chance.randrange(len(siblings) + 1), siblings[at].copy())
        case 2:
            other = chance.randrange(len(siblings))
            siblings[at], siblings[other] = siblings[other], siblings[at]
        case 3:
            siblings[at].name = chance.choice([one.name for some in lists for one in some])
        case 4:
            chance.choice(lists).append(siblings[at].copy())
        case 5:
            _nest(siblings, at, chance.choice((3, 30, 300)))
        case _:
            siblings[at].content = hurt(siblings[at].content, chance)


def _nest(siblings: list[Chunk], at: int, depth: int) -> None:
    """Puts a chunk into others of its name."""
    outer = Chunk(siblings[at].name, siblings[at].content)
    inner = siblings[at]
    for _ in range(depth):
        inner = Chunk(outer.name, b"", [inner])
    siblings[at] = inner


def _lists(chunks: list[Chunk]) -> Iterator[list[Chunk]]:
    yield chunks
    for chunk in chunks:
        yield from _lists(chunk.inside)
