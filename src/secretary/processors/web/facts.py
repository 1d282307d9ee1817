"""What one part of a page tells about its talk."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from .links import Link, distinct


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Empty is what is not told. `text` is Markdown, everything else is plain text."""

    title: str = ""
    speakers: tuple[str, ...] = ()
    text: str = ""
    event: str = ""
    track: str = ""
    day: str = ""
    starttime: str = ""
    endtime: str = ""
    room: str = ""
    language: str = ""
    links: tuple[Link, ...] = ()


NOTHING = Facts()


def merged(sources: Iterable[Facts]) -> Facts:
    """Of each fact what the first source tells; the links of all."""
    sources = list(sources)
    told: dict[str, Any] = {
        field.name: next(filter(None, (getattr(one, field.name) for one in sources)), field.default)
        for field in fields(Facts)
    }
    links = tuple(distinct(link for one in sources for link in one.links))
    return Facts(**{**told, "links": links})
