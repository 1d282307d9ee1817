"""How near what a tool gave is to the Markdown that was set.

words     F1 of the words as a bag: case, marks and Markdown's signs do not count.
order     Twice the longest common subsequence of the words, over the words of both.
headings  F1 of the headings by their text, whatever their level.
levels    The same, where the level has to agree as well; the levels of both are ranked first, so
          that a tool that begins with ## loses nothing.
cells     F1 of the pairs of neighbouring cells (right and below) in tables that belong together;
          empty cells are passed over, as in the competition of ICDAR 2013.

A document without headings or tables has no figure for them, unless the tool found some: then 0.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from statistics import mean
from typing import Any

from .found import Found, Grid, found


@dataclass(frozen=True)
class Score:
    words: float
    order: float
    headings: float | None
    levels: float | None
    cells: float | None


MEASURES = tuple(field.name for field in fields(Score))


def score(truth: str, given: str) -> Score:
    expected, seen = found(truth), found(given)
    return Score(
        words=_f1(Counter(expected.words), Counter(seen.words)) or 0.0,
        order=_order(expected.words, seen.words),
        headings=_f1(_headings(expected, levels=False), _headings(seen, levels=False)),
        levels=_f1(_headings(expected, levels=True), _headings(seen, levels=True)),
        cells=_cells(expected.tables, seen.tables),
    )


def average(scores: Iterable[Score]) -> Mapping[str, float | None]:
    """Of each measure, over the documents that have it."""
    scores = list(scores)
    averages: dict[str, float | None] = {}
    for name in MEASURES:
        values = [value for one in scores if (value := getattr(one, name)) is not None]
        averages[name] = mean(values) if values else None
    return averages


def _f1(expected: Counter[Any], seen: Counter[Any]) -> float | None:
    if not expected and not seen:
        return None
    return 2 * (expected & seen).total() / (expected.total() + seen.total())


def _order(expected: Sequence[str], seen: Sequence[str]) -> float:
    if not expected or not seen:
        return 0.0
    return 2 * _common(expected, seen) / (len(expected) + len(seen))


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest common subsequence; a bit for each word, so that it is quick."""
    places: dict[str, int] = {}
    for place, word in enumerate(first):
        places[word] = places.get(word, 0) | 1 << place
    everything = (1 << len(first)) - 1
    row = everything
    for word in second:
        hits = row & places.get(word, 0)
        row = ((row + hits) | (row - hits)) & everything
    return len(first) - row.bit_count()


def _headings(text: Found, *, levels: bool) -> Counter[tuple[int, str]]:
    ranks = {level: rank for rank, level in enumerate(sorted({n for n, _ in text.headings}))}
    return Counter((ranks[level] if levels else 0, key) for level, key in text.headings)


def _cells(expected: Sequence[Grid], seen: Sequence[Grid]) -> float | None:
    if not expected and not seen:
        return None
    theirs = [_neighbours(table) for table in seen]
    hits, free = 0, list(range(len(theirs)))
    ours = [_neighbours(table) for table in expected]
    for pairs in sorted(ours, key=lambda pairs: -pairs.total()):
        # A table that a page break cut in two belongs to one of ours, in parts.
        taken = [n for n in free if (pairs & theirs[n]).total() * 2 > theirs[n].total()]
        best = max(free, key=lambda n: (pairs & theirs[n]).total(), default=None)
        taken = taken or ([best] if best is not None and (pairs & theirs[best]) else [])
        hits += (pairs & sum((theirs[n] for n in taken), Counter())).total()
        free = [n for n in free if n not in taken]
    total = sum(pairs.total() for pairs in [*ours, *theirs])
    return 2 * hits / total if total else 0.0


def _neighbours(table: Grid) -> Counter[tuple[str, str, str]]:
    return Counter([*_pairs(table, "right"), *_pairs(tuple(zip(*table, strict=True)), "below")])


def _pairs(lines: Grid, direction: str) -> Iterator[tuple[str, str, str]]:
    for line in lines:
        texts = [text for text in line if text]
        for left, right in pairwise(texts):
            yield direction, left, right
