"""Tags and chapters in the form ffmpeg writes them; whoever made the file chose the words."""

import re
from collections.abc import Iterator

from .recording import Chapter

_MAX_TAGS = 100
_MAX_CHAPTERS = 5000
_MAX_KEY = 100
_MAX_VALUE = 20_000
_MAX_TITLE = 500
#: They say how the file was packed, not what it is about.
_OF_THE_CONTAINER = {"major_brand", "minor_version", "compatible_brands", "encoder"}
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_SECTION = re.compile(r"\[[A-Z]+\]")
_NUMBER = re.compile(r"-?\d{1,18}")
_LONGEST_S = 1e9


def read_metadata(text: str) -> tuple[dict[str, str], tuple[Chapter, ...]]:
    """The file's own tags, and its chapters in their order."""
    tags: dict[str, str] = {}
    chapters: list[Chapter] = []
    for section, pairs in _sections(text):
        if section == "":
            tags = _tags(pairs)
        elif section == "[CHAPTER]" and len(chapters) < _MAX_CHAPTERS:
            chapter = _chapter(dict(pairs))
            if chapter is not None:
                chapters.append(chapter)
    return tags, tuple(sorted(chapters, key=lambda each: (each.start, each.end)))


def one_line(text: str, limit: int = _MAX_TITLE) -> str:
    """Without what would change how the text around it looks."""
    return " ".join(_CONTROL.sub(" ", text).split())[:limit].strip()


def _sections(text: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    section, pairs = "", list[tuple[str, str]]()
    for line in _lines(text):
        if _SECTION.fullmatch(line):
            yield section, pairs
            section, pairs = line, []
        elif not line.startswith((";", "#")):
            key, value = _parted(line)
            if key:
                pairs.append((key, value))
    yield section, pairs


def _lines(text: str) -> Iterator[str]:
    """A line that ends with a backslash (and not with two) goes on in the next one."""
    begun: list[str] = []
    for line in text.split("\n"):
        begun.append(line)
        if (len(line) - len(line.rstrip("\\"))) % 2 == 0:
            yield "\n".join(begun)
            begun = []
    if begun:
        yield "\n".join(begun)


def _parted(line: str) -> tuple[str, str]:
    """At the first equals sign that is not escaped."""
    found = re.match(r"((?:[^\\=]|\\.)*)=(.*)", line, re.DOTALL)
    if found is None:
        return "", ""
    key, value = (re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL) for part in found.groups())
    return key, value


def _tags(pairs: list[tuple[str, str]]) -> dict[str, str]:
    tags: dict[str, str] = {}
    for key, value in pairs:
        name = one_line(key, _MAX_KEY).lower()
        text = _CONTROL.sub("", value.replace("\r\n", "\n").replace("\r", "\n")).strip()
        if name and text and name not in _OF_THE_CONTAINER and len(tags) < _MAX_TAGS:
            tags.setdefault(name, text[:_MAX_VALUE])
    return tags


def _chapter(pairs: dict[str, str]) -> Chapter | None:
    base, _, parts = pairs.get("TIMEBASE", "1/1000000000").partition("/")
    numbers = (base, parts, pairs.get("START", ""), pairs.get("END", ""))
    if not all(_NUMBER.fullmatch(number) for number in numbers) or int(parts) <= 0:
        return None
    start, end = (int(number) * int(base) / int(parts) for number in numbers[2:])
    if not 0 <= start <= end <= _LONGEST_S:
        return None
    return Chapter(start=start, end=end, title=one_line(pairs.get("title", "")))
