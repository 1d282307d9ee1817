"""What strangers write, as plain values: one line, names, a day, a time, a language."""

import re
import unicodedata
from datetime import date
from typing import Any

from ...engines.language_names import language_code

#: As long as the parameters of a session job may be.
LONGEST_NAME = 500
LONGEST_TITLE = 1000
MOST_SPEAKERS = 100

_TIME = re.compile(r"(?:^|[T\s])([01]?\d|2[0-3]):([0-5]\d)")
_DURATION = re.compile(r"(\d{1,3}):([0-5]\d)(?::[0-5]\d)?")
_CODE = re.compile(r"([A-Za-z]{2,3})(?:[-_][A-Za-z0-9]{1,8})*")


def line(text: object, longest: int = LONGEST_NAME) -> str:
    """A text as one line without controls; empty for what is no text."""
    if not isinstance(text, str):
        return ""
    kept = (char if char.isprintable() else " " for char in text[: 4 * longest])
    return " ".join("".join(kept).split())[:longest].strip()


def names(found: Any) -> tuple[str, ...]:
    """Each name once, in order."""
    told = (unicodedata.normalize("NFC", line(name, 300)) for name in found)
    return tuple(dict.fromkeys(name for name in told if name))[:MOST_SPEAKERS]


def time_of(text: str | None) -> str | None:
    """`9:30`, `09:30:00` or `2025-02-01T09:30:00+01:00` -> `09:30`."""
    found = _TIME.search(text or "")
    return f"{int(found[1]):02}:{found[2]}" if found else None


def date_of(text: str | None) -> str | None:
    """The date that an ISO time begins with."""
    try:
        return date.fromisoformat((text or "").strip()[:10]).isoformat()
    except ValueError:
        return None


def ending(starttime: str | None, duration: str | None) -> str | None:
    length = _DURATION.fullmatch((duration or "").strip())
    if not starttime or not length:
        return None
    lasts = int(length[1]) * 60 + int(length[2])
    hours, minutes = map(int, starttime.split(":"))
    end = hours * 60 + minutes + lasts
    return f"{end // 60 % 24:02}:{end % 60:02}" if lasts else None


def language_of(text: str | None) -> str | None:
    """`de-formal`, `de_DE` and `German` are all `de`."""
    told = line(text, 60)
    if found := _CODE.fullmatch(told):
        return found[1].lower()
    word = told.partition(" ")[0]
    return language_code(word) if len(word) > 3 else None  # `no preference` is not Norwegian
