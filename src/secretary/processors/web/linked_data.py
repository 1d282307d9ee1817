"""What a page tells by schema.org's `Event` and `VideoObject` in JSON-LD."""

import html
import json
from collections.abc import Iterator
from typing import Any

from .facts import Facts, merged
from .links import Link, LinkKind, distinct, link_to
from .markup import Element, markdown_of_html
from .plain_values import LONGEST_TITLE, date_of, language_of, line, names, time_of

MAX_BYTES = 1024 * 1024
MAX_SCRIPTS = 30
MAX_THINGS = 2000

Thing = dict[str, Any]


def facts_of_linked_data(root: Element, heading: str, base: str) -> Facts:
    """`heading` is what the page itself is called: an event of that name, or one inside another,
    is the talk; else it is the conference."""
    things = list(_things(root))
    events = [thing for thing in things if any(kind.endswith("Event") for kind in _kinds(thing))]
    talk = next((event for event in events if _is_talk(event, heading)), None)
    whole = next((event for event in events if not _is_talk(event, heading)), None)
    videos = [thing for thing in things if "VideoObject" in _kinds(thing)]
    return merged(
        [
            *([_talk(talk, base)] if talk else []),
            *([Facts(event=_name(whole))] if whole else []),
            *(Facts(links=tuple(_videos(video, base))) for video in videos),
        ]
    )


def _things(root: Element) -> Iterator[Thing]:
    left = MAX_THINGS
    scripts = root.xpath("//script[@type='application/ld+json']")[:MAX_SCRIPTS]
    for script in scripts:
        text = script.text or ""
        try:
            waiting = [json.loads(text)] if len(text) <= MAX_BYTES else []
        except (ValueError, RecursionError):
            continue
        while waiting and left:
            left -= 1
            value = waiting.pop(0)
            if isinstance(value, dict):
                yield value
                waiting += [one for key, one in value.items() if isinstance(one, dict | list)
                            and key != "superEvent"]  # fmt: skip
            elif isinstance(value, list):
                waiting += value


def _is_talk(event: Thing, heading: str) -> bool:
    name = _name(event).casefold()
    return bool(_first(event.get("superEvent"))) or bool(name and name in heading.casefold())


def _talk(event: Thing, base: str) -> Facts:
    start, end = line(event.get("startDate"), 60), line(event.get("endDate"), 60)
    language = _first(event.get("inLanguage"))
    told = language.get("alternateName") or language.get("name")
    people = [*_listed(event.get("performer")), *_listed(event.get("actor"))]
    return Facts(
        title=_name(event),
        speakers=names(_name(person) for person in people),
        text=markdown_of_html(str(event.get("description") or "")),
        event=_name(_first(event.get("superEvent"))),
        day=date_of(start) or "",
        starttime=time_of(start) or "",
        endtime=time_of(end) or "",
        room=_name(_first(event.get("location"))),
        language=language_of(told) or "",
        links=tuple(_videos(_first(event.get("recordedIn")), base)),
    )


def _videos(video: Thing, base: str) -> list[Link]:
    title = _name(video)
    found = [
        link_to(line(video.get("contentUrl"), 4000), title, base=base, kind=LinkKind.VIDEO),
        link_to(line(video.get("embedUrl"), 4000), title, base=base, kind=LinkKind.VIDEO_PAGE),
    ]
    for caption in _listed(video.get("caption")):
        url = line(_first(caption).get("contentUrl"), 4000)
        found.append(link_to(url, base=base, kind=LinkKind.SUBTITLES) if url else None)
    return distinct(link for link in found if link and link.url != base)


def _kinds(thing: Thing) -> list[str]:
    return [kind for kind in _listed(thing.get("@type")) if isinstance(kind, str)]


def _name(thing: Any) -> str:
    told = thing.get("name") if isinstance(thing, dict) else thing
    return line(html.unescape(told[:4000]), LONGEST_TITLE) if isinstance(told, str) else ""


def _first(value: Any) -> Thing:
    """A thing, the first of several, or one that has only a name."""
    value = next(iter(_listed(value)), None)
    return value if isinstance(value, dict) else {"name": value} if value else {}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
