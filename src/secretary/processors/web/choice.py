"""Which talks of a schedule are wanted."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase

from ...errors import InvalidParameters
from .talk import Entry

_WEEKDAYS = (
    ("monday", "montag"), ("tuesday", "dienstag"), ("wednesday", "mittwoch"),
    ("thursday", "donnerstag"), ("friday", "freitag"), ("saturday", "samstag", "sonnabend"),
    ("sunday", "sonntag"),
)  # fmt: skip
#: So many names are told when nothing fits.
_NAMED = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Any of several; without one, all. A track is named whole (`*` stands for anything), a day
    by its date, its number or as a weekday, a title by a part of it."""

    tracks: tuple[str, ...] = ()
    days: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()

    def chosen(self, entries: Sequence[Entry]) -> list[Entry]:
        found = [entry for entry in entries if self._fits(entry)]
        if not found:
            raise _nothing(entries)
        return found

    def _fits(self, entry: Entry) -> bool:
        return (
            _any(self.tracks, lambda name: _alike(entry.track or "", name))
            and _any(self.days, lambda day: _is_day(entry, day))
            and _any(self.titles, lambda part: part.casefold() in entry.title.casefold())
        )


def _any(wanted: Sequence[str], fits: Callable[[str], bool]) -> bool:
    return not wanted or any(fits(" ".join(one.split())) for one in wanted)


def _alike(name: str, pattern: str) -> bool:
    name, pattern = name.casefold(), pattern.casefold()
    return name == pattern or ("*" in pattern and fnmatchcase(name, pattern.replace("[", "[[]")))


def _is_day(entry: Entry, wanted: str) -> bool:
    wanted = wanted.casefold()
    if wanted in (str(entry.day_number), entry.day):
        return True
    if entry.day is None:
        return False
    names = _WEEKDAYS[date.fromisoformat(entry.day).weekday()]
    return wanted in names or wanted == names[0][:3]


def _nothing(entries: Sequence[Entry]) -> InvalidParameters:
    if not entries:
        return InvalidParameters("The schedule has no talks")
    tracks = _distinct(entry.track for entry in entries)
    days = _distinct(entry.day for entry in entries)
    told = f"Its tracks: {', '.join(tracks) or 'none'}. Its days: {', '.join(days) or 'none'}."
    return InvalidParameters(
        f"No talk of the schedule fits. {told}", tracks=tracks, days=days, talks=len(entries)
    )


def _distinct(names: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name))[:_NAMED]
