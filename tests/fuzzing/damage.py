"""Damages bytes at random; the same random generator does the same damage."""

import random
import re
from collections.abc import Callable

#: Turns a valid file and a random generator into a damaged file.
Damage = Callable[[bytes, random.Random], bytes]

#: Replacements for numbers, names and markers.
TOKENS = (
    b"",
    b"0",
    b"-1",
    b"1",
    b"65536",
    b"2147483647",
    b"-2147483648",
    b"99999999999999999999",
    b"1e308",
    b"nan",
    b"\0",
    b"\xff",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"<",
    b">",
    b"/",
    b"<<",
    b">>",
    b"[",
    b"]",
    b"(",
    b")",
    b" 0 R",
    b"stream\n",
    b"endobj",
    b"&#0;",
    b"&x;",
    b"}",
    b"{",
    b"\\",
    b"\xed\xa0\x80",
    b"\xe2\x80\xae",
    b"PK\x03\x04",
    b"null",
)
#: The numeric ones.
NUMBERS = TOKENS[:10]
#: One defect followed by valid data finds as many bugs as many defects.
HOW_MANY = (1, 1, 2, 3, 8, 30)
DIGITS = re.compile(rb"[0-9]+")


def damage_bytes(content: bytes, chance: random.Random) -> bytes:
    """Flips bits, inserts tokens, repeats, removes and truncates parts, changes numbers."""
    damaged = bytearray(content)
    for _ in range(chance.choice(HOW_MANY)):
        _damage_once(damaged, chance)
    return bytes(damaged)


def _damage_once(content: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(content) + 1)
    match chance.randrange(7):
        case 0 | 1 if at < len(content):
            content[at] ^= 1 << chance.randrange(8)
        case 2:
            content[at : at + chance.randrange(8)] = chance.choice(TOKENS)
        case 3:
            start = chance.randrange(len(content) + 1)
            content[at:at] = content[start : start + chance.randrange(200)]
        case 4:
            del content[at : at + chance.randrange(100)]
        case 5:
            if number := DIGITS.search(content, at):
                content[number.start() : number.end()] = chance.choice(NUMBERS)
        case _ if chance.random() < 0.1:
            del content[at:]
