"""The type of a field: written at the beginning of its instruction, or hinted at anywhere in it."""

import re
from dataclasses import replace

from .template import BaseType, FieldType

TYPE_NAMES: dict[str, BaseType] = {
    "text": "text", "string": "text",
    "number": "number", "numbers": "number", "zahl": "number", "zahlen": "number",
    "integer": "integer", "integers": "integer", "ganzzahl": "integer", "ganzzahlen": "integer",
    "boolean": "boolean", "booleans": "boolean", "wahrheitswert": "boolean",
    "date": "date", "dates": "date", "datum": "date",
    "texts": "text", "strings": "text", "texte": "text",
}  # fmt: skip

WORD = "|".join(sorted(TYPE_NAMES, key=len, reverse=True))
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
PART = re.compile(rf"([^\W\d][\w-]{{0,63}})(?:\s*:\s*({LIST}|{WORD}))?", re.IGNORECASE)

#: A type is looked for in this many characters; the rest is prose.
MAX_TYPE_PREFIX = 4000

#: "(optional)", "optionales Array".
OPTIONAL = re.compile(r"\boptional(?:e[nrs]?)?\b", re.IGNORECASE)


def field_type_of(instruction: str, *, in_front_matter: bool) -> tuple[FieldType, str]:
    """The type, and the instruction without it. A hint such as "as a number" sets the type in the
    front matter only; in the body the value is part of a sentence."""
    head, rest = instruction[:MAX_TYPE_PREFIX], instruction[MAX_TYPE_PREFIX:]
    field_type, begin = _declared_type(head) or (_hinted_type(head, in_front_matter), 0)
    if OPTIONAL.search(head):
        field_type = replace(field_type, optional=True)
    return field_type, head[begin:] + rest


def _declared_type(head: str) -> tuple[FieldType, int] | None:
    """A type before a colon, and where the instruction begins."""
    if match := LEADING_CHOICE.match(head):
        choices = tuple(dict.fromkeys(part.strip() for part in match[2].split("|")))
        return FieldType(base="choice", is_list=bool(match[1]), choices=choices), match.end()
    if (match := LEADING_OBJECT.match(head)) and (properties := _properties(match[2])):
        is_list = bool(match[1])
        field_type = FieldType(
            base="object", is_list=is_list, nullable=not is_list, properties=properties
        )
        return field_type, 0
    if match := LEADING_LIST.match(head):
        return FieldType(base=TYPE_NAMES[(match[1] or "text").lower()], is_list=True), match.end()
    if match := LEADING_SORT.match(head):
        return _single(TYPE_NAMES[match[1].lower()]), match.end()
    return None


def _single(base: BaseType) -> FieldType:
    """A text can be empty; an unknown number or date must be null."""
    return FieldType(base=base, nullable=base != "text")


def _properties(text: str) -> tuple[tuple[str, FieldType], ...]:
    """Parse `name, pages: integer, tags: list`; empty if the text is something else."""
    properties: dict[str, FieldType] = {}
    for item in text.split(","):
        match = PART.fullmatch(item.strip())
        if match is None:
            return ()
        word = (match[2] or "text").lower()
        is_list = word not in TYPE_NAMES
        properties[match[1]] = FieldType(is_list=True) if is_list else _single(TYPE_NAMES[word])
    return tuple(properties.items())


# Hints: how templates that know no types describe the form of a value ---------------------------

#: "Array", "(Array von Strings)", "als JSON-Array"; not "kein Array".
ARRAY = re.compile(r"(?<!kein )(?<!keine )(?<!not an )(?<!no )\barrays?\b", re.IGNORECASE)
PHRASE_LIST = re.compile(
    r"(?:^|\()\s*(?:optional(?:e[nrs]?)?\s+)?"
    r"(?:list\s+of\b|liste\s+(?:von|der|aller|mit|aus|an)\b)",
    re.IGNORECASE,
)
COMMA_SEPARATED = re.compile(
    r"\bkommagetrennt|\bkomma-getrennt|\bcomma[- ]separated|\bdurch\s+kommas?\s+getrennt"
    r"|\bseparated\s+by\s+commas\b",
    re.IGNORECASE,
)
INTEGER = re.compile(
    r"\b(?:als\s+ganzzahl(?:en)?|as\s+(?:an\s+)?integers?)\b|(?:^|[(,;:]\s*)(?:ganzzahl|integer)\b"
    r"|\b(?:yyyy|jjjj)\s+(?:oder|or)\s+null\b",
    re.IGNORECASE,
)
NUMBER = re.compile(
    r"\b(?:als\s+zahl(?:en)?|as\s+(?:a\s+)?numbers?)\b|(?:^|[(,;:]\s*)(?:eine\s+)?zahl\b"
    r"|(?:^|[(,;:]\s*)number\b(?!\s+of\s+the)|\b(?:zahl|number)\s*(?:oder|or|\|)\s*null\b",
    re.IGNORECASE,
)
BOOLEAN = re.compile(r"\bboolean\b|\btrue\s*(?:/|\||oder|or)\s*false\b", re.IGNORECASE)
NULL = re.compile(r"\bnull\b")
OBJECTS = re.compile(r"\b(?:objekte?n?|objects?)\b|\[\s*\{", re.IGNORECASE)
BRACES = re.compile(r"\{([^{}]{1,2000})\}")
#: What follows "Array von Objekten mit", up to the end of the sentence.
LISTED_PROPERTIES = re.compile(
    r"\b(?:objekten?|objects?)\s*(?:mit|with|:)?\s*(?:(?:den|the)\s+\w+\s*)?:?\s*([^.\n]{1,2000})",
    re.IGNORECASE,
)
PROPERTY = re.compile(
    r"[`\"']?([^\W\d]\w{0,63})[`\"']?(\?)?(?:\s*(?::\s*|\(\s*|\s)([^\n]{0,300}?)\)?)?"
)
TOP_LEVEL_COMMA = re.compile(r"[,;]\s*(?![^()\[\]]*[)\]])|\s+(?:und|and)\s+(?=\w+(?:\s*\(|\s*$))")
RANGE = re.compile(r"\s*\d{1,6}\s*(?:-|\u2013|bis|to)\s*\d{1,6}\b.*")


def _hinted_type(head: str, in_front_matter: bool) -> FieldType:
    base: BaseType = "text"
    if in_front_matter and BOOLEAN.search(head):
        base = "boolean"
    elif in_front_matter and INTEGER.search(head):
        base = "integer"
    elif in_front_matter and NUMBER.search(head):
        base = "number"
    array = ARRAY.search(head)
    if array or (PHRASE_LIST.search(head) and not COMMA_SEPARATED.search(head)):
        if array and (OBJECTS.search(head) or BRACES.search(head, array.end())):
            properties = _described_properties(head[array.start() :])
            return FieldType(base="object", is_list=True, properties=properties)
        return FieldType(base="text" if base == "boolean" else base, is_list=True)
    if base != "text":
        return _single(base)
    nullable = bool(NULL.search(head))
    if choices := _hinted_choices(head):
        # "" as well: a hint is no promise that one of them always fits.
        return FieldType(base="choice", choices=(*choices, ""), nullable=nullable)
    return FieldType(nullable=nullable)


def _described_properties(text: str) -> tuple[tuple[str, FieldType], ...]:
    """The properties in `{title, page?: number}` or "Objekten mit title, page (Zahl oder null)";
    empty, so that any are allowed, if the text lists them in another way."""
    match = BRACES.search(text) or LISTED_PROPERTIES.search(text)
    properties: dict[str, FieldType] = {}
    for item in TOP_LEVEL_COMMA.split(match[1].strip().rstrip(")")) if match else ():
        part = PROPERTY.fullmatch(item.strip())
        if part is None or (part[3] or "").count(" ") > 12:
            return ()
        properties[part[1]] = _property_type(part[3] or "", is_optional=bool(part[2]))
    return tuple(properties.items()) if len(properties) > 1 else ()


def _property_type(hint: str, *, is_optional: bool) -> FieldType:
    is_optional = is_optional or bool(OPTIONAL.search(hint))
    word = hint.strip().lower().rstrip("s")
    if ARRAY.search(hint) or "[]" in hint or word in ("list", "liste"):
        return FieldType(is_list=True, optional=is_optional)
    is_integer = INTEGER.search(hint) or RANGE.fullmatch(hint) or word == "int"
    base: BaseType = "integer" if is_integer else "number" if NUMBER.search(hint) else "text"
    base = "boolean" if BOOLEAN.search(hint) else base
    nullable = base != "text" or bool(NULL.search(hint))
    return FieldType(base=base, nullable=nullable and not is_optional, optional=is_optional)


MAX_CHOICE, MAX_CHOICE_WORDS = 60, 5
CHOICE_LIST = re.compile(
    r"\b(?:eine[rs]?\s+(?:aus|von)|one\s+of|auswahl(?:\s+aus)?)\s*:\s*([^.;)\n]{3,2000})",
    re.IGNORECASE,
)
CHOICE_END = re.compile(r"[).;,\n]|\s(?:oder|or)\s+null\b")
OR = re.compile(r",\s*(?:oder\s+|or\s+)?|\s+(?:oder|or)\s+|\s*/\s*")
QUOTES = " \t`\"'\u201e\u201c\u201d\u201a\u2018\u2019"
#: `string | null` is a type and no choice.
NO_CHOICES = frozenset({*TYPE_NAMES, "null", "undefined", "array", "object", "true", "false"})


def _hinted_choices(head: str) -> tuple[str, ...]:
    """The choices of "Eine aus: a, b, c" and of `a | b | c` anywhere; empty if there are none."""
    if match := CHOICE_LIST.search(head):
        region = match[1]
        parts = region.split("|") if "|" in region else OR.split(region)
    elif "|" in head:
        first, *parts = head.split("|")
        begin = re.split(r"[:(=\n]", first)[-1].strip()
        if begin == first.strip():  # nothing separates the choices from the sentence before them
            begin = begin.split()[-1] if begin else ""
        parts = [begin, *parts[:-1], CHOICE_END.split(parts[-1])[0]]
    else:
        return ()
    choices = [part.strip(QUOTES) for part in parts]
    if choices and choices[-1].lower() in ("null", ""):
        choices.pop()
    is_usable = len(choices) > 1 and all(
        choice
        and len(choice) <= MAX_CHOICE
        and len(choice.split()) <= MAX_CHOICE_WORDS
        and "\n" not in choice
        and choice.lower() not in NO_CHOICES
        for choice in choices
    )
    return tuple(dict.fromkeys(choices)) if is_usable else ()
