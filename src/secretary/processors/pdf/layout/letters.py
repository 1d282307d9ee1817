"""Text made clean: no ligatures, no soft hyphens, no control characters."""

import re

ODD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xa0\xad\u2000-\u200b\u2028\u2029\u202f\u2060\ufeff\uf02d\uf06e\uf071\uf076\uf0a7\uf0a8\uf0b7\uf0d8\uf0fc\ufb00-\ufb06\ufffe\uffff]"
)
#: Those of them that ASCII has.
CONTROLS = bytes({*range(32), 127} - set(b"\r\n\t"))
INSTEAD = {
    "\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl",
    "\ufb05": "st", "\ufb06": "st", "\r": "", "\ufffe": "-",
    **dict.fromkeys("\xa0\u2000\u2001\u2002\u2003\u2004\u2005", " "),
    **dict.fromkeys("\u2006\u2007\u2008\u2009\u200a\u202f", " "),
    # Symbol fonts have no letters of their own.
    "\uf02d": "-", "\uf0fc": "\u2713",
    **dict.fromkeys("\uf06e\uf071\uf076\uf0a7\uf0a8\uf0b7\uf0d8", "\u2022"),
    **dict.fromkeys("\x0b\x0c\x85\u2028\u2029", "\n"),
}  # fmt: skip
#: Before these a hyphen at the end of a line is most often meant.
COMPOUND = frozenset(
    {"self", "non", "well", "half", "cross", "co", "ex", "all", "anti", "pre", "post", "semi"}
    | {"multi", "high", "low", "long", "short", "state", "twenty", "thirty", "forty", "fifty"}
    | {"sixty", "seventy", "eighty", "ninety", "one", "two", "three", "four", "five", "six"}
    | {"seven", "eight", "nine", "ten"}
)


def is_clean(text: str) -> bool:
    if text.isascii():
        letters = text.encode("ascii")
        return len(letters.translate(None, CONTROLS)) == len(letters)
    return ODD.search(text.replace("\r\n", "")) is None


def clean(text: str) -> str:
    return ODD.sub(_instead, text)


def _instead(match: re.Match[str]) -> str:
    return INSTEAD.get(match.group(), "")


LAST_PART = re.compile(r"[^\W\d_]+$")
FIRST_PART = re.compile(r"[^\W\d_]+")
#: Written without spaces.
IDEOGRAPH = re.compile("[\u3000-\u30ff\u3400-\u9fff\uff00-\uff65]")
#: Of the web, broken where lines end.
ADDRESS = re.compile(r"(?:://|\bwww\.)\S*$")
ADDRESS_BREAKS = frozenset("/.-_=&?%#")
LETTER_HYPHEN = re.compile(r"[^\W\d_][-\u2010\xad]$")


def ends_cut(text: str) -> bool:
    return LETTER_HYPHEN.search(text) is not None


def joined_lines(before: str, after: str, cut: bool) -> str:
    """Two lines of a paragraph; `cut`: PDFium saw a hyphen between them and left it out."""
    if not cut and before[-1:] in ADDRESS_BREAKS and ADDRESS.search(before):
        return before + after
    if not cut and ends_cut(before):
        before, cut = before[:-1], True
    if not cut:
        ideographs = IDEOGRAPH.match(before[-1:]) and IDEOGRAPH.match(after)
        return before + after if ideographs else f"{before} {after}"
    last, first = LAST_PART.search(before), FIRST_PART.match(after)
    if last is None or first is None or not first.group()[0].islower():
        return f"{before}-{after}"
    compound = "-" in before[max(last.start() - 1, 0) : last.start()]
    if compound or last.group().lower() in COMPOUND:
        return f"{before}-{after}"
    return before + after
