"""Facts that a page tells as pairs: `Room: Janson`, in lists, tables and paragraphs."""

from .facts import Facts
from .markup import Element, text_of
from .plain_values import date_of, ending, language_of, line, time_of

_LABELS = {
    "track": "track", "spur": "track", "topic": "track", "themenbereich": "track",
    "room": "room", "raum": "room", "saal": "room", "location": "room", "ort": "room",
    "day": "day", "date": "day", "tag": "day", "datum": "day",
    "start": "start", "start time": "start", "starts": "start", "beginn": "start",
    "startzeit": "start", "begin": "start",
    "end": "end", "end time": "end", "ends": "end", "ende": "end",
    "duration": "duration", "dauer": "duration",
    "language": "language", "sprache": "language", "language used for presentation": "language",
}  # fmt: skip
_MARKS = ("strong", "b", "th", "dt")
LONGEST = 200


def labelled(root: Element) -> dict[str, str]:
    """What stands behind each label that is known; the first of a kind counts."""
    found: dict[str, str] = {}
    for element in root.iter(*_MARKS):
        name = _LABELS.get(text_of(element, 40).rstrip(": ").casefold())
        if name and name not in found:
            value = _behind(element).lstrip(": ").strip()
            if value:
                found[name] = value
    return found


def facts_of_labels(root: Element) -> Facts:
    told = labelled(root)
    start = time_of(told.get("start")) or ""
    end = time_of(told.get("end")) or ending(start, told.get("duration")) or ""
    day = told.get("day", "")
    return Facts(
        track=told.get("track", ""),
        room=told.get("room", ""),
        day=date_of(day) or day,
        starttime=start,
        endtime=end,
        language=language_of(told.get("language")) or "",
    )


def _behind(element: Element) -> str:
    if element.tag in ("th", "dt"):
        other = element.getnext()
        return text_of(other, LONGEST) if other is not None and other.tag in ("td", "dd") else ""
    parts = [element.tail or ""]
    other = element.getnext()
    if other is None and element.getparent().tag == "td":
        return text_of(element.getparent().getnext(), LONGEST)
    while other is not None and other.tag not in (*_MARKS, "br", "ul", "table"):
        parts += [text_of(other, LONGEST), other.tail or ""]
        other = other.getnext()
    return line(" ".join(parts), LONGEST)
