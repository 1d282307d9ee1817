"""Number formats of spreadsheets, taken apart: `#,##0.00 "€";[Red]-0` and the like."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"?|\\(?P<escaped>.)|_.|\*.'
    r"|\[\$(?P<currency>[^\]-]*)(?:-(?P<locale>[^\]]*))?\]"
    r"|\[(?P<elapsed>h+|m+|s+)\]|\[(?P<condition>[<>=]+-?[\d.]+)\]|\[[^\]]*\]"
    r"|(?P<general>General|Standard)"
    r"|(?P<half>AM/PM|A/P)|(?P<fraction>\.0+(?=$|[^0#?]))"
    r"|(?P<exponent>E[+-](?=[0#?]))|(?P<date>y+|m+|d+|h+|s+)"
    r"|(?P<digit>[0#?])|(?P<point>\.)|(?P<comma>,)|(?P<percent>%)|(?P<slash>/)|(?P<text>@)"
    r"|(?P<literal>.)",
    re.IGNORECASE | re.DOTALL,
)
_CONDITION = re.compile(r"([<>=]+)(-?[\d.]+)")


class Token(NamedTuple):
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Section:
    tokens: tuple[Token, ...]
    is_date: bool
    is_general: bool
    #: For instance `>=` and 100.
    condition: tuple[str, float] | None
    is_german: bool


@lru_cache(maxsize=4096)
def sections(code: str) -> tuple[Section, ...]:
    """The parts for positive numbers, negative ones, zero and text."""
    parts: list[list[re.Match[str]]] = [[]]
    for found in _TOKEN.finditer(code[:1000]):
        if found["literal"] == ";":
            parts.append([])
        else:
            parts[-1].append(found)
    return tuple(_section(part) for part in parts[:4])


def _section(matches: list[re.Match[str]]) -> Section:
    tokens: list[Token] = []
    condition = None
    is_german = False
    for found in matches:
        kind = found.lastgroup
        if found["locale"] is not None:
            is_german |= found["locale"].lower().endswith(("407", "de-de", "c07", "807"))
        if kind in ("currency", "locale"):
            tokens.append(Token("literal", found["currency"]))
        elif kind == "condition" and (parts := _CONDITION.fullmatch(found["condition"])):
            condition = (parts[1], float(parts[2]))
        elif kind in ("quoted", "escaped", "literal"):
            tokens.append(Token("literal", found[kind]))
        elif kind is not None and kind != "condition":
            tokens.append(Token(kind, found[kind]))
    is_date = any(token.kind in ("date", "elapsed", "half") for token in tokens)
    if not is_date:
        tokens = [plain for token in tokens for plain in _without_fraction(token)]
    is_general = any(token.kind == "general" for token in tokens)
    return Section(tuple(tokens), is_date, is_general, condition, is_german)


def _without_fraction(token: Token) -> list[Token]:
    """`.00` belongs to seconds in times only; in numbers it is a point and digits."""
    if token.kind != "fraction":
        return [token]
    return [Token("point", "."), *(Token("digit", sign) for sign in token.text[1:])]
