"""Damages files that consist of chunks and corrects sizes and checksums, so that the parser reaches
the damage instead of stopping before it."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from .damage import Damage, damage_bytes


@dataclass(slots=True)
class Chunk:
    """A chunk has a name and contents: bytes, followed by other chunks."""

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
    # Deep lists as often as long ones: the long ones are audio and image data.
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
            siblings[at].content = damage_bytes(siblings[at].content, chance)


def _nest(siblings: list[Chunk], at: int, depth: int) -> None:
    """Nests a chunk in chunks of the same name."""
    outer = Chunk(siblings[at].name, siblings[at].content)
    inner = siblings[at]
    for _ in range(depth):
        inner = Chunk(outer.name, b"", [inner])
    siblings[at] = inner


def _lists(chunks: list[Chunk]) -> Iterator[list[Chunk]]:
    yield chunks
    for chunk in chunks:
        yield from _lists(chunk.inside)
