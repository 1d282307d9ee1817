"""The schedule of a conference as session jobs."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from ...errors import FileTooLarge, UnsupportedFile
from .choice import Choice
from .paths import NO_NAME, key_of, title_stem, unique_stems
from .plain_values import line
from .schedule_json import read_json
from .schedule_xml import read_xml
from .talk import Entry, Talk, talk_of

MAX_BYTES = 32 * 1024 * 1024
#: The largest conferences have some two thousand.
MAX_TALKS = 20_000
ALL = Choice()

#: Of the data and the address it came from: the name of the conference, and its talks.
Reader = Callable[[bytes, str], tuple[str, Iterator[Entry]]]


def read_schedule(
    data: bytes, *, url: str = "", event: str | None = None, choice: Choice = ALL
) -> list[Talk]:
    """The chosen talks of `schedule.xml` or `schedule.json`. `url` is where it came from, for the
    links in it; `event` is what the conference is to be called, if not as it says itself."""
    if len(data) > MAX_BYTES:
        raise FileTooLarge("The schedule is larger than allowed", limit_bytes=MAX_BYTES)
    told, talks = _reader_of(data)(data, url)
    entries = [entry for entry in islice(talks, MAX_TALKS + 1) if entry.title]
    if len(entries) > MAX_TALKS:
        raise FileTooLarge(f"A schedule may have {MAX_TALKS:,} talks at the most")
    event = line(event) or line(told) or None
    # Of all talks, so that one is called the same whichever others are chosen with it.
    stems = dict(zip(map(id, entries), _stems(entries), strict=True))
    return [talk_of(entry, event=event, stem=stems[id(entry)]) for entry in choice.chosen(entries)]


def _reader_of(data: bytes) -> Reader:
    begin = data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    if begin.startswith((b"<", b"\xff\xfe", b"\xfe\xff")):  # those begin XML in UTF-16
        return read_xml
    if begin.startswith(b"{"):
        return read_json
    raise UnsupportedFile("The schedule is neither XML nor JSON")


def _stems(entries: Sequence[Entry]) -> list[str]:
    """Talks of one title are told apart by what the schedule calls them: a number would change
    when one is added before them."""
    plain = [title_stem(entry.title) or title_stem(entry.name) or NO_NAME for entry in entries]
    times = Counter(map(key_of, plain))
    return unique_stems(
        title_stem(f"{stem}-{entry.name}") if times[key_of(stem)] > 1 else stem
        for stem, entry in zip(plain, entries, strict=True)
    )


def session_parameters(
    data: bytes,
    url: str,
    event: str | None,
    tracks: tuple[str, ...],
    days: tuple[str, ...],
    titles: tuple[str, ...],
) -> list[dict[str, Any]]:
    """The same in plain values, for those who know no processors."""
    choice = Choice(tracks=tracks, days=days, titles=titles)
    talks = read_schedule(data, url=url, event=event, choice=choice)
    return [talk.parameters() for talk in talks]
