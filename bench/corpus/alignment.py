"""Which part of a long text is on which page, found by word sequences that occur only once."""

import bisect
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

WORD = re.compile(r"[^\W_]+")
RUN = 4
#: Running heads, page numbers and footnotes between two pages.
FURNITURE_WORDS = 40
#: A hyphenated word at the page's end, or the number of a heading.
LOST_WORDS = 2


@dataclass(frozen=True)
class Words:
    keys: list[str]
    #: Offsets in the text.
    offsets: list[int]


def words(text: str) -> Words:
    matches = [(_key(match[0]), match.start()) for match in WORD.finditer(text)]
    return Words([key for key, _ in matches], [offset for _, offset in matches])


def page_starts(pages: Sequence[Sequence[str]], text: Sequence[str]) -> dict[int, int]:
    """The pages whose first word in the text is known, and its number.

    The page before must end right there, so that nothing is missing or repeated.
    """
    seen = [word for page in pages for word in page]
    anchors = _anchors(seen, text)
    starts = [seen_at for seen_at, _ in anchors]
    first_words: dict[int, int] = {}
    begin = 0
    for number, page in enumerate(pages):
        after = bisect.bisect_left(starts, begin)
        # A sequence across the boundary does not tell where it is.
        before = bisect.bisect_right(starts, begin - RUN) - 1
        if page and after < len(anchors) and before >= 0:
            first = _extend_back(seen, text, anchors[after], begin)
            last = _extend_forward(seen, text, anchors[before], begin)
            near = first[0] - begin <= FURNITURE_WORDS and begin - last[0] <= FURNITURE_WORDS
            if near and 0 <= first[1] - last[1] <= LOST_WORDS:
                first_words[number] = first[1]
        begin += len(page)
    return first_words


def _extend_back(
    seen: Sequence[str], text: Sequence[str], anchor: tuple[int, int], begin: int
) -> tuple[int, int]:
    seen_at, text_at = anchor
    while seen_at > begin and text_at > 0 and seen[seen_at - 1] == text[text_at - 1]:
        seen_at, text_at = seen_at - 1, text_at - 1
    return seen_at, text_at


def _extend_forward(
    seen: Sequence[str], text: Sequence[str], anchor: tuple[int, int], end: int
) -> tuple[int, int]:
    """Where the sequence that starts here ends."""
    seen_at, text_at = anchor[0] + RUN, anchor[1] + RUN
    while seen_at < end and text_at < len(text) and seen[seen_at] == text[text_at]:
        seen_at, text_at = seen_at + 1, text_at + 1
    return seen_at, text_at


def _anchors(seen: Sequence[str], text: Sequence[str]) -> list[tuple[int, int]]:
    """Positions of the sequences that occur once in each, in the same order."""
    once, in_text = _once(seen), _once(text)
    pairs = sorted((at, in_text[run]) for run, at in once.items() if run in in_text)
    return _longest_increasing(pairs)


def _once(sequence: Sequence[str]) -> dict[tuple[str, ...], int]:
    positions: dict[tuple[str, ...], int] = {}
    again = set()
    for position in range(len(sequence) - RUN + 1):
        run = tuple(sequence[position : position + RUN])
        if run in positions:
            again.add(run)
        positions[run] = position
    return {run: position for run, position in positions.items() if run not in again}


def _longest_increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest chain of pairs in which both increase."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int | None] = []
    for number, (_, text_at) in enumerate(pairs):
        position = bisect.bisect_left(tails, text_at)
        before.append(ends[position - 1] if position else None)
        tails[position : position + 1] = [text_at]
        ends[position : position + 1] = [number]
    chain = []
    at = ends[-1] if ends else None
    while at is not None:
        chain.append(pairs[at])
        at = before[at]
    return chain[::-1]


def _key(word: str) -> str:
    return unicodedata.normalize("NFKC", word).lower()
