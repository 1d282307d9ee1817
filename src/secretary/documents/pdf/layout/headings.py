"""Headings, told by their size, weight and numbers beside the body of the text."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from .blocks import Block, Kind, ends
from .rows import Line

#: Titles of notes: set large by some, in boxes by others.
NOTES = frozenset(
    {"note", "tip", "hint", "warning", "caution", "important", "attention", "danger"}
    | {"anmerkung", "hinweis", "tipp", "warnung", "vorsicht", "achtung", "wichtig", "gefahr"}
)
#: In ems: set in, in more lines than one; a single line may be the first of a paragraph.
SET_IN, LINE_SET_IN = 0.8, 2.2
#: In ems: from a line to what stands directly below it.
BELOW = 2.2
#: Characters of a line that is text by itself.
LONG = 70
#: How many blocks before and behind a term are looked at: most pages have fewer.
FAR = 30
#: Terms on a page of nothing but terms.
SOME = 3
#: How many blocks before and behind a note say where the text around it stands.
AROUND = 3


def is_term(blocks: Sequence[Block], number: int) -> bool:
    """What it means is set in below it, and it stands where text stands, or its meaning is set in
    deeper than text is; a heading whose whole text is set in stands out."""
    if not _has_meaning(blocks, number):
        return False
    first, meaning = blocks[number].lines[0], _left(blocks[number + 1])
    em = first.size
    near = range(max(number - FAR, 0), min(number + FAR, len(blocks)))
    page = [blocks[n] for n in near if blocks[n].lines]
    texts = [_left(b) for b in page if _is_text(b) and not _left(b) < _right(b) < first.left]
    if any(left < meaning - SET_IN * em or abs(left - first.left) < 0.5 * em for left in texts):
        return True
    # On a page of nothing but terms, sections or the head of the page stand to the left of them.
    if not any(_left(b) < first.left - LINE_SET_IN * em for b in page):
        return False
    like = (n for n in near if blocks[n].lines and abs(_left(blocks[n]) - first.left) < 0.5 * em)
    return sum(_has_meaning(blocks, n) for n in like) >= SOME


def _has_meaning(blocks: Sequence[Block], number: int) -> bool:
    """Something is set in directly below it."""
    term, after = blocks[number], _block(blocks, number + 1)
    if after is None or after.kind is not Kind.PARAGRAPH or not term.lines[0].bold:
        return False
    first, follower = term.lines[0], after.lines[0]
    if follower.bold or not 0 < first.base - follower.base < BELOW * first.size:
        return False
    near = blocks[max(number - FAR, 0) : number + FAR]
    indent = SET_IN if any(_begins_all(b, follower.left) for b in near) else LINE_SET_IN
    return _left(after) - first.left >= indent * first.size


def _begins_all(block: Block, left: float) -> bool:
    """Not just the first line of a paragraph is set in there."""
    return len(block.lines) > 1 and abs(_left(block) - left) < 0.5 * block.lines[0].size


def is_example(blocks: Sequence[Block], number: int) -> bool:
    """No heading is set in where the text below it is not."""
    example, after = blocks[number], _block(blocks, number + 1)
    if after is None or after.kind is not Kind.PARAGRAPH:
        return False
    around = [block for block in (after, *blocks[max(number - 1, 0) : number]) if _is_text(block)]
    set_in = _left(after) < example.lines[0].left - example.lines[0].size
    return set_in and any(_stands_out(b, example) for b in around) and not _centred(blocks, number)


def is_note_title(blocks: Sequence[Block], number: int) -> bool:
    """Named so, or set in with its note, where the text before and behind is not."""
    title, after = blocks[number], _block(blocks, number + 1)
    if after is None:
        return False
    if title.text.lower().strip(" .:!") in NOTES:
        return True
    first = title.lines[0]
    if not first.bold or not after.lines or _left(after) < first.left - 0.3 * first.size:
        return False
    before = [b for b in blocks[max(number - AROUND, 0) : number] if _is_text(b)]
    behind = [b for b in blocks[number + 2 : number + 2 + AROUND] if _is_text(b)]
    return any(_stands_out(b, title) for b in before) and any(_stands_out(b, title) for b in behind)


def _stands_out(text: Block, title: Block) -> bool:
    """In the same column."""
    first = title.lines[0]
    return _left(text) < first.left - first.size and _right(text) > first.right


def _centred(blocks: Sequence[Block], number: int) -> bool:
    """In the middle of the widest text around it."""
    first = blocks[number].lines[0]
    near = blocks[max(number - AROUND, 0) : number + AROUND + 2]
    spans = [(_left(b), _right(b)) for b in near if _is_text(b)]
    left, right = max(spans, key=lambda span: span[1] - span[0], default=(0.0, 0.0))
    return abs((left + right) - (first.left + first.right)) < 4 * first.size


def _is_text(block: Block) -> bool:
    if block.kind is not Kind.PARAGRAPH or block.lines[0].bold:
        return False
    # A plain page has the lines of a paragraph in one.
    return len(block.lines) > 1 or len(block.lines[0].text) > LONG


def _block(blocks: Sequence[Block], number: int) -> Block | None:
    return blocks[number] if number < len(blocks) else None


def _right(block: Block) -> float:
    return max(line.right for line in block.lines)


def _left(block: Block) -> float:
    return min(line.left for line in block.lines)


#: Beside the body: from here on a line is larger.
LARGER = 1.07
#: From here on it is so without a second look.
MUCH_LARGER = 1.15
#: From here on it is one whatever the file says about itself.
TITLE = 1.45
LONGEST = 160
LONGEST_SENTENCE = 80
MOST_LINES = 6
NUMBERED = re.compile(
    r"(?:(?:chapter|section|appendix|part|kapitel|abschnitt|anhang|teil)\s+)?"
    r"(?:\d{1,2}(?:\.\d{1,2}){0,4}[.:]?|[A-Z](?:\.\d{1,2})*\.?|[IVX]{1,5}[.:]|§\s?\d+)\s+\S",
    re.IGNORECASE,
)
#: Sections that have no number, as a rule.
NAMES = frozenset(
    {"abstract", "introduction", "conclusion", "conclusions", "references", "bibliography"}
    | {"acknowledgment", "acknowledgments", "acknowledgement", "acknowledgements", "contents"}
    | {"appendix", "summary", "discussion", "results", "methods", "table of contents"}
    | {"zusammenfassung", "einleitung", "literatur", "literaturverzeichnis", "danksagung"}
    | {"inhaltsverzeichnis", "inhalt", "anhang", "fazit", "quellen", "list of figures"}
    | {"list of tables", "abbildungsverzeichnis", "tabellenverzeichnis", "glossary", "index"}
)
RUN_IN = re.compile(r"(?:\d{1,2}(?:\.\d{1,2}){1,4}\.?|[A-Z]\.\d{1,2}\.?)\s+\S")
SUBSECTION = re.compile(r"\d{1,2}(?:\.\d{1,2}){1,5}\.?\s+[^\W\d_]{2}")
LONGEST_RUN_IN = 90
DEPTH = re.compile(r"(\d{1,2}(?:\.\d{1,2}){0,4})\.?\s")
CAPTION = re.compile(
    r"(?:table|figure|fig\.|tab\.|tabelle|abbildung|abb\.|listing)\s*\d|(?:source|quelle)\s*:",
    re.IGNORECASE,
)
WORDS = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True, slots=True)
class FontSizes:
    """The sizes of a text: its body, and what is above it."""

    body: float
    #: Sizes of headings, the greatest first.
    sizes: tuple[float, ...] = ()

    def level(self, size: float) -> int:
        for number, other in enumerate(self.sizes, 1):
            if size >= other - 0.25:
                return min(number, 6)
        return min(len(self.sizes) + 1, 6)


def body_size(lines: Iterable[Line]) -> float:
    weights: dict[float, int] = {}
    for line in lines:
        size = round(line.size * 2) / 2
        weights[size] = weights.get(size, 0) + len(line.text)
    return max(weights, key=lambda size: weights[size], default=10.0)


def heading_sizes(blocks: Sequence[Block], body: float) -> list[float]:
    return [block.lines[0].size for block in blocks if is_heading(block, body)]


def is_heading(block: Block, body: float) -> bool:
    if block.kind not in (Kind.PARAGRAPH, Kind.ITEM, Kind.CODE) or len(block.lines) > MOST_LINES:
        return False
    first, last = block.lines[0], block.lines[-1]
    if block.kind is Kind.CODE and (first.size < MUCH_LARGER * body or first is not last):
        return False
    text = block.text
    if len(text) > LONGEST or not WORDS.search(text) or CAPTION.match(text) or last.entry:
        return False
    named = DEPTH.sub("", text, count=1) if DEPTH.match(text) else text
    if "=" in text or 2 * sum(map(str.isalpha, named)) < len(named.replace(" ", "")):
        # A formula, or a row of numbers.
        return False
    numbered = NUMBERED.match(text) is not None
    if block.kind is Kind.ITEM and not numbered:
        return False
    # Manuals ask questions in their headings, of any length.
    subsection = first.bold and SUBSECTION.match(text) is not None
    if first.size >= MUCH_LARGER * body:
        if ends(last) and len(text) > LONGEST_SENTENCE and not subsection:
            return False
        return len(block.lines) <= 3 or first.size >= 1.3 * body
    if first.size < 0.9 * body or len(block.lines) > 2 or (len(text) > 100 and not subsection):
        return False
    if text.lower().strip(" .:") in NAMES:
        return True
    if (ends(last) and not (numbered and first.bold)) or text.endswith((",", ";", "-")):
        return False
    return (
        first.bold
        or first.size >= LARGER * body
        or (numbered and (first.italic or _is_capitals(text)))
    )


def _is_capitals(text: str) -> bool:
    return text.upper() == text and sum(map(str.isupper, text)) > 3


def mark_headings(blocks: Sequence[Block], scale: FontSizes) -> None:
    found = [
        number
        for number, block in enumerate(blocks)
        if is_heading(block, scale.body) and _heads(blocks, number, scale.body)
    ]
    asides = {number for number in found if _is_aside(blocks, number, scale.body)}
    for number in asides:
        blocks[number].strong = True
    for number in _without_crowds(blocks, [n for n in found if n not in asides]):
        block = blocks[number]
        size = block.lines[0].size
        block.kind = Kind.HEADING
        larger = size >= LARGER * scale.body
        block.level = scale.level(size) if larger else _small_level(block, scale)


def _is_aside(blocks: Sequence[Block], number: int, body: float) -> bool:
    block = blocks[number]
    size = block.lines[0].size
    if size >= TITLE * body or RUN_IN.match(block.text):
        return False
    if is_note_title(blocks, number):
        return True
    small = size < MUCH_LARGER * body
    return small and (is_term(blocks, number) or is_example(blocks, number))


def parted_headings(blocks: Sequence[Block]) -> list[Block]:
    """Numbered headings that stand at the beginning of their paragraphs, on lines of their own."""
    parted: list[Block] = []
    for block in blocks:
        first = block.lines[0] if block.lines else None
        if first is None or not first.bold_start or block.kind not in (Kind.PARAGRAPH, Kind.ITEM):
            parted.append(block)
            continue
        head, rest = first.text[: first.bold_start].strip(), first.text[first.bold_start :].strip()
        if not (RUN_IN.match(head) and WORDS.search(head) and rest and len(head) < LONGEST_RUN_IN):
            parted.append(block)
            continue
        above = replace(first, text=head.rstrip(". "), bold=True, bold_start=0, cut=False)
        below = replace(first, text=rest, bold_start=0)
        parted.append(Block(Kind.PARAGRAPH, [above]))
        parted.append(Block(Kind.PARAGRAPH, [below, *block.lines[1:]]))
    return parted


def mark_tagged_headings(blocks: Sequence[Block], scale: FontSizes | None) -> None:
    for block in blocks:
        if block.kind is Kind.TABLE:
            continue
        if block.tag is not None and block.tag.kind == "H":
            block.kind, block.level = Kind.HEADING, block.tag.level
        elif scale and block.lines[0].size >= TITLE * scale.body and is_heading(block, scale.body):
            # Titles are often tagged as paragraphs.
            block.kind, block.level = Kind.HEADING, scale.level(block.lines[0].size)


def _heads(blocks: Sequence[Block], number: int, body: float) -> bool:
    """What is hardly larger than the body, or just bold, heads something that is not."""
    first = blocks[number].lines[0]
    if first.size >= MUCH_LARGER * body:
        return True
    if first.bold and SUBSECTION.match(blocks[number].text):
        # Whatever follows it, if only on the next page.
        return True
    if number + 1 >= len(blocks):
        return False
    after = blocks[number + 1]
    if after.kind is Kind.TABLE:
        return True
    follower = after.lines[0]
    if first.bold and not follower.bold:
        return True
    return follower.size < 0.97 * first.size or (first.bold and first.size > follower.size)


def _without_crowds(blocks: Sequence[Block], found: Sequence[int]) -> list[int]:
    """On the front of a document much is large: its names and dates are no headings."""
    kept: list[int] = []
    for _, group in groupby(enumerate(found), key=lambda pair: pair[1] - pair[0]):
        crowd = [number for _, number in group]
        if len(crowd) > 2:
            largest = max(blocks[number].lines[0].size for number in crowd)
            crowd = [
                number
                for number in crowd
                if blocks[number].lines[0].size == largest or _is_named(blocks[number])
            ]
        kept += crowd
    return kept


def _is_named(block: Block) -> bool:
    text = block.text
    return NUMBERED.match(text) is not None or text.lower().strip(" .:") in NAMES


def _small_level(block: Block, scale: FontSizes) -> int:
    """Of a heading no larger than the body: below all that are."""
    match = DEPTH.match(block.text)
    depth = match.group(1).count(".") if match else 0
    return min(max(len(scale.sizes) + 1, 2) + depth, 6)
