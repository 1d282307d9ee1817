"""Tells from an instruction what a model may answer: a text, a list, a number, an object.

Either the instruction begins with a type and a colon (`list of {name, role}: …`), or with words
that say so by themselves (`Array of …`, `Liste der …`), as templates have long had them.
"""

import re

from .template import TEXT, Kind, Sort

SORTS: dict[str, Sort] = {
    "text": "text", "string": "text",
    "number": "number", "numbers": "number", "zahl": "number", "zahlen": "number",
    "integer": "integer", "integers": "integer", "ganzzahl": "integer", "ganzzahlen": "integer",
    "boolean": "boolean", "booleans": "boolean", "wahrheitswert": "boolean",
    "date": "date", "dates": "date", "datum": "date",
    "texts": "text", "strings": "text", "texte": "text",
}  # fmt: skip

WORD = "|".join(sorted(SORTS, key=len, reverse=True))
LIST = r"(?:list|liste|array)"
OF = r"(?:of|von|aus)"
LEADING_SORT = re.compile(rf"({WORD})\s*:\s*", re.IGNORECASE)
LEADING_LIST = re.compile(rf"{LIST}(?:\s+{OF}\s+({WORD}))?\s*:\s*", re.IGNORECASE)
LEADING_CHOICE = re.compile(
    rf"({LIST}\s+{OF}\s+)?(?:one\s+of|eines\s+von)\s+([^|:\n]+(?:\|[^|:\n]+)+):\s*", re.IGNORECASE
)
LEADING_OBJECT = re.compile(
    rf"(?:optional(?:es)?\s+)?({LIST}\s+{OF}\s+)?(?:(?:object|objekt)\s+)?"
    r"\{([^{}]{1,2000})\}\s*:?\s*",
    re.IGNORECASE,
)
#: How templates without types say it.
SAID_LIST = re.compile(
    r"(?:optional(?:es)?\s+)?(?:array\b|list\s+of\b|liste\s+(?:von|der|aller|mit|aus|an)\b)",
    re.IGNORECASE,
)
SAID_INTEGER = re.compile(r"\b(?:als\s+ganzzahl(?:en)?|as\s+(?:an\s+)?integers?)\b", re.IGNORECASE)
SAID_NUMBER = re.compile(r"\b(?:als\s+zahl(?:en)?|as\s+(?:a\s+)?numbers?)\b", re.IGNORECASE)
SAID_NULL = re.compile(r"\bnull\b")
PART = re.compile(rf"([^\W\d][\w-]{{0,63}})(?:\s*:\s*({LIST}|{WORD}))?", re.IGNORECASE)

#: Long enough for every type; what is behind it is prose.
FAR_ENOUGH = 4000


def kind_of(instruction: str, *, in_front_matter: bool) -> tuple[Kind, str]:
    """The kind, and the instruction without the type in front of it. In the front matter a
    number in so many words is one; in the body it is a part of a sentence."""
    head, rest = instruction[:FAR_ENOUGH], instruction[FAR_ENOUGH:]
    if found := LEADING_CHOICE.match(head):
        choices = tuple(dict.fromkeys(part.strip() for part in found[2].split("|")))
        kind = Kind(sort="choice", is_list=bool(found[1]), choices=choices)
        return kind, head[found.end() :] + rest
    if (found := LEADING_OBJECT.match(head)) and (parts := _parts(found[2])):
        is_list = bool(found[1])
        return Kind(sort="object", is_list=is_list, nullable=not is_list, parts=parts), instruction
    if found := LEADING_LIST.match(head):
        sort = SORTS[(found[1] or "text").lower()]
        return Kind(sort=sort, is_list=True), head[found.end() :] + rest
    if found := LEADING_SORT.match(head):
        return _single(SORTS[found[1].lower()]), head[found.end() :] + rest
    return _said(instruction, head, in_front_matter), instruction


def _said(instruction: str, head: str, in_front_matter: bool) -> Kind:
    sort: Sort = "text"
    if in_front_matter and SAID_INTEGER.search(instruction):
        sort = "integer"
    elif in_front_matter and SAID_NUMBER.search(instruction):
        sort = "number"
    if SAID_LIST.match(head):
        return Kind(sort=sort, is_list=True)
    if sort == "text":
        return Kind(nullable=True) if SAID_NULL.search(instruction) else TEXT
    return _single(sort)


def _single(sort: Sort) -> Kind:
    """A text can be empty; of a number or a date that nobody told only null is true."""
    return Kind(sort=sort, nullable=sort != "text")


def _parts(text: str) -> tuple[tuple[str, Kind], ...]:
    """`name, pages: integer, tags: list`; nothing if that is not what it is."""
    parts: dict[str, Kind] = {}
    for item in text.split(","):
        found = PART.fullmatch(item.strip())
        if found is None:
            return ()
        word = (found[2] or "text").lower()
        parts[found[1]] = _single(SORTS[word]) if word in SORTS else Kind(is_list=True)
    return tuple(parts.items())
