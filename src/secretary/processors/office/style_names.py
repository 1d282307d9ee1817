"""What styles are called, in the languages of the programs that write them."""

import re

_HEADING = re.compile(
    r"(?:heading|überschrift|ueberschrift|titre|título|titolo|titulo|kop|rubrik|overskrift"
    r"|otsikko|nagłówek|nadpis|заголовок|标题|見出し|제목)\s*([1-9])",
    re.IGNORECASE,
)
_TITLE = re.compile(r"title|titel|titre|título|titolo|tytuł|название", re.IGNORECASE)
_CONTENTS = re.compile(r"(?:toc|verzeichnis|contents|table of contents)\s*([1-9])", re.IGNORECASE)
_CODE = re.compile(
    r"(?:.*\b)?(?:code|source ?code|source text|listing|quelltext|quellcode|verbatim.*"
    r"|html preformatted|html vorformatiert|preformatted text|plain text|macro text"
    r"|html (?:code|keyboard|typewriter|sample)|html schreibmaschine)(?: char| zchn| block)?",
    re.IGNORECASE,
)
#: Word tells the levels of these by their indent alone.
_LIST = re.compile(
    r"(?:list (?:bullet|number|continue)|aufzählungszeichen|listennummer|listenfortsetzung)"
    r"\s*([2-5])",
    re.IGNORECASE,
)
_QUOTE = re.compile(
    r"(?:intense |intensives )?(?:quote|quotations?|zitat|citation|cita|block ?text|block quote)",
    re.IGNORECASE,
)


def heading_level(name: str) -> int | None:
    found = _HEADING.fullmatch(name)
    return int(found[1]) if found else 1 if _TITLE.fullmatch(name) else None


def contents_level(name: str) -> int | None:
    """Of a line in a table of contents."""
    found = _CONTENTS.fullmatch(name)
    return int(found[1]) if found else None


def list_depth(name: str) -> int:
    found = _LIST.fullmatch(name)
    return int(found[1]) - 1 if found else 0


def code_like(name: str) -> bool:
    return bool(_CODE.fullmatch(name))


def quote_like(name: str) -> bool:
    return bool(_QUOTE.fullmatch(name))
