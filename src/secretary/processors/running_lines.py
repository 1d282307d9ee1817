"""Running heads and feet: lines that come back at the edges of page after page."""

import re
from collections.abc import Iterable, Iterator

#: Blocks at either edge of a page among which they are looked for.
DEPTH = 2
#: Pages that follow each other on which a line stands at the same edge, at least.
FEWEST = 3
#: A left page has another head than a right one.
EVERY = 2
LONGEST = 140
DIGITS = re.compile(r"\d+")
#: Tables, code and items of lists are never running lines.
OTHER = re.compile(r"\||```|- |\d+\. ")

#: Which edge, and the line with its numbers left open.
Key = tuple[str, str]
NONE: frozenset[Key] = frozenset()


def running_lines(pages: Iterable[str]) -> frozenset[Key]:
    """Of the Markdown of all pages: what comes back at their heads or feet."""
    series: dict[Key, Series] = {}
    count = 0
    for count, page in enumerate(pages, 1):
        for key in {key for _, key in _edges(page.split("\n\n"))}:
            series.setdefault(key, Series()).note(count)
    return frozenset(key for key, found in series.items() if _is_running(key, found, count))


class Series:
    """On how many pages a line stands, and how many of them follow each other."""

    def __init__(self) -> None:
        self.pages = self.longest = self._current = self._last = 0

    def note(self, page: int) -> None:
        self.pages += 1
        self._current = self._current + 1 if page - self._last <= EVERY else 1
        self._last = page
        self.longest = max(self.longest, self._current)


def _is_running(key: Key, found: Series, pages: int) -> bool:
    # Slides on one matter have one heading: that alone is no reason to drop it.
    is_heading = key[1].startswith("#")
    return found.longest >= FEWEST and (not is_heading or 2 * found.pages > pages)


def without_running_lines(page: str, lines: frozenset[Key]) -> str:
    if not lines:
        return page
    blocks = page.split("\n\n")
    gone = {place for place, key in _edges(blocks) if key in lines}
    left = "\n\n".join(block for place, block in enumerate(blocks) if place not in gone)
    # Pages that are all alike, say of labels or forms, have no running lines: that is their text.
    return left if 2 * len(left) > len(page) else page


def _edges(blocks: list[str]) -> Iterator[tuple[int, Key]]:
    count = len(blocks)
    for place in range(min(DEPTH, count)):
        if key := _key(blocks[place]):
            yield place, ("head", key)
    for place in range(max(count - DEPTH, DEPTH), count):
        if key := _key(blocks[place]):
            yield place, ("foot", key)


def _key(block: str) -> str | None:
    if not block or "\n" in block or len(block) > LONGEST or OTHER.match(block):
        return None
    # Chapters are numbered: headings are the same only if their numbers are.
    return block if block.startswith("#") else DIGITS.sub("0", block)
