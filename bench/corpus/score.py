"""How close the output of a tool is to the expected Markdown.

words     F1 of the words as a bag; case, punctuation and markup do not count.
order     Twice the longest common subsequence of the words, over the words of both.
headings  F1 of the headings by their text, whatever their level.
levels    The same, where the level has to agree, too; levels are ranked first, so that a tool that
          starts with ## loses nothing.
cells     F1 of the pairs of neighbouring cells (right and below) in matching tables; empty cells
          are skipped, as in the ICDAR 2013 competition.

A document without headings or tables has no figure for them, unless the tool finds some: then 0.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from html import unescape
from itertools import pairwise
from statistics import mean
from typing import Any

Grid = tuple[tuple[str, ...], ...]
FENCE = re.compile(r"^\s*(```|~~~)")
RULE = re.compile(r"^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$")
#: Also inside a list item.
HEADING = re.compile(r"^\s{0,3}(?:(?:[-*+>]|\d+[.)])\s+)*(#{1,6})\s+(.*?)\s*#*\s*$")
UNDERLINE = re.compile(r"^\s{0,3}(=+|-+)\s*$")
CELL = re.compile(r"(?<!\\)\|")
HTML_TABLE = re.compile(r"<table\b.*?</table>", re.DOTALL | re.IGNORECASE)
HTML_ROW = re.compile(r"<tr\b.*?</tr>", re.DOTALL | re.IGNORECASE)
HTML_CELL = re.compile(r"<t[dh]\b[^>]*>(.*?)</t[dh]>", re.DOTALL | re.IGNORECASE)
HTML_HEADING = re.compile(r"<h([1-6])\b[^>]*>(.*?)</h\1>", re.DOTALL | re.IGNORECASE)
WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Score:
    words: float
    order: float
    headings: float | None
    levels: float | None
    cells: float | None


@dataclass(frozen=True)
class Parsed:
    words: list[str]
    #: Level and text.
    headings: list[tuple[int, str]]
    tables: list[Grid]


MEASURES = tuple(field.name for field in fields(Score))


def score(truth: str, given: str) -> Score:
    expected, seen = parsed(truth), parsed(given)
    return Score(
        words=_f1(Counter(expected.words), Counter(seen.words)) or 0.0,
        order=_order(expected.words, seen.words),
        headings=_f1(_ranked(expected, levels=False), _ranked(seen, levels=False)),
        levels=_f1(_ranked(expected, levels=True), _ranked(seen, levels=True)),
        cells=_cell_score(expected.tables, seen.tables),
    )


def average(scores: Iterable[Score]) -> Mapping[str, float | None]:
    """The mean of each measure over the documents that have it."""
    scores = list(scores)
    averages: dict[str, float | None] = {}
    for name in MEASURES:
        values = [value for one in scores if (value := getattr(one, name)) is not None]
        averages[name] = mean(values) if values else None
    return averages


def parsed(markdown: str) -> Parsed:
    return Parsed(_words(markdown), _headings(markdown), _tables(markdown))


def _f1(expected: Counter[Any], seen: Counter[Any]) -> float | None:
    if not expected and not seen:
        return None
    return 2 * (expected & seen).total() / (expected.total() + seen.total())


def _order(expected: Sequence[str], seen: Sequence[str]) -> float:
    if not expected or not seen:
        return 0.0
    return 2 * _common(expected, seen) / (len(expected) + len(seen))


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    """Length of the longest common subsequence, with one bit per word."""
    positions: dict[str, int] = {}
    for position, word in enumerate(first):
        positions[word] = positions.get(word, 0) | 1 << position
    everything = (1 << len(first)) - 1
    row = everything
    for word in second:
        hits = row & positions.get(word, 0)
        row = ((row + hits) | (row - hits)) & everything
    return len(first) - row.bit_count()


def _ranked(text: Parsed, *, levels: bool) -> Counter[tuple[int, str]]:
    ranks = {level: rank for rank, level in enumerate(sorted({n for n, _ in text.headings}))}
    return Counter((ranks[level] if levels else 0, key) for level, key in text.headings)


def _cell_score(expected: Sequence[Grid], seen: Sequence[Grid]) -> float | None:
    if not expected and not seen:
        return None
    theirs = [_neighbours(table) for table in seen]
    hits, free = 0, list(range(len(theirs)))
    ours = [_neighbours(table) for table in expected]
    for pairs in sorted(ours, key=lambda pairs: -pairs.total()):
        # A table that a page break cut in two matches one of ours, in parts.
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


def _words(markdown: str) -> list[str]:
    lines = [
        line for line in markdown.splitlines() if not FENCE.match(line) and not RULE.match(line)
    ]
    return WORD.findall(_bare("\n".join(lines)))


def _headings(markdown: str) -> list[tuple[int, str]]:
    headings = [(int(level), _key(text)) for level, text in HTML_HEADING.findall(markdown)]
    inside, before = False, ""
    for line in markdown.splitlines():
        if FENCE.match(line):
            inside = not inside
        elif not inside and (match := HEADING.match(line)):
            headings.append((len(match[1]), _key(match[2])))
        elif not inside and (match := UNDERLINE.match(line)) and before and "|" not in before:
            headings.append((1 if match[1][0] == "=" else 2, _key(before)))
        before = line.strip()
    return [(level, text) for level, text in headings if text]


def _tables(markdown: str) -> list[Grid]:
    tables = []
    for text in HTML_TABLE.findall(markdown):
        rows = [HTML_CELL.findall(row) for row in HTML_ROW.findall(text)]
        tables.append(_grid(rows))
    lines = markdown.splitlines()
    position = 0
    while position + 1 < len(lines):
        if (
            "|" in lines[position]
            and "|" in lines[position + 1]
            and RULE.match(lines[position + 1])
        ):
            rows = [_cells(lines[position])]
            position += 2
            while position < len(lines) and "|" in lines[position]:
                rows.append(_cells(lines[position]))
                position += 1
            tables.append(_grid(rows))
        else:
            position += 1
    return [table for table in tables if any(any(row) for row in table)]


def _cells(line: str) -> list[str]:
    return CELL.split(line.strip().removeprefix("|").removesuffix("|"))


def _grid(rows: list[list[str]]) -> Grid:
    """Without empty rows and columns, which are a matter of form."""
    width = max((len(row) for row in rows), default=0)
    keyed = [[_key(cell) for cell in row] + [""] * (width - len(row)) for row in rows]
    columns = [n for n in range(width) if any(row[n] for row in keyed)]
    return tuple(tuple(row[n] for n in columns) for row in keyed if any(row))


def _key(text: str) -> str:
    """Letters and digits only."""
    return "".join(WORD.findall(_bare(text)))


def _bare(text: str) -> str:
    """Without markup, ligatures resolved, in lower case."""
    text = re.sub(r"<!--.*?-->", " ", text, flags=re.DOTALL)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", " ", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"</?[a-zA-Z][^>]*>", " ", text)
    text = re.sub(r"\\([^\w\s])", r"\1", unescape(text)).replace("*", "").replace("`", "")
    return unicodedata.normalize("NFKC", text.replace("\u00ad", "")).lower()


def character_error_rate(truth: str, given: str) -> float:
    """Edits per expected character; line breaks count as spaces."""
    expected, seen = _normalized(truth), _normalized(given)
    return _distance(expected, seen) / max(len(expected), 1)


def _normalized(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).split())


def _distance(first: str, second: str) -> int:
    """Levenshtein distance, with one bit per character of the first text (Myers, 1999)."""
    if not first:
        return len(second)
    positions: dict[str, int] = {}
    for position, character in enumerate(first):
        positions[character] = positions.get(character, 0) | 1 << position
    everything, last = (1 << len(first)) - 1, 1 << (len(first) - 1)
    more, less, distance = everything, 0, len(first)
    for character in second:
        same = positions.get(character, 0)
        down = same | less
        across = (((same & more) + more) ^ more) | same
        rise, fall = less | (~(across | more) & everything), more & across
        distance += bool(rise & last) - bool(fall & last)
        rise, fall = (rise << 1 | 1) & everything, (fall << 1) & everything
        more, less = fall | (~(down | rise) & everything), rise & down
    return distance
