"""Running heads and feet: lines that come back at the edges of page after page."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

#: Blocks at either edge of a page among which they are looked for.
DEPTH = 2
#: Pages on which a line stands at the same edge, at least.
FEWEST = 3
LONGEST = 140
DIGITS = re.compile(r"\d+")
#: Tables, code and items of lists are never running lines.
OTHER = re.compile(r"\||```|- |\d+\. ")

#: Which edge, and the line with its numbers left open.
Key = tuple[str, str]


def running_lines(pages: Iterable[str]) -> frozenset[Key]:
    """Of the Markdown of all pages: what comes back at their heads or feet."""
    counts: Counter[Key] = Counter()
    for page in pages:
        counts.update({key for _, key in _edges(page.split("\n\n"))})
    return frozenset(key for key, count in counts.items() if count >= FEWEST)


def without_running_lines(page: str, lines: frozenset[Key]) -> str:
    if not lines:
        return page
    blocks = page.split("\n\n")
    gone = {place for place, key in _edges(blocks) if key in lines}
    if not gone:
        return page
    return "\n\n".join(block for place, block in enumerate(blocks) if place not in gone)


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
