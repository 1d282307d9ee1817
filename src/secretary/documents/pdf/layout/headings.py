"""Detects headings by size, weight and numbering relative to the body text."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from .blocks import Block, BlockKind, ends_sentence

#: Font size relative to the body text: larger.
LARGER_SIZE = 1.07
#: Larger beyond doubt.
MUCH_LARGER_SIZE = 1.15
#: A heading even if the structure tree says otherwise.
TITLE_SIZE = 1.45
MAX_CHARACTERS = 160
MAX_SENTENCE_CHARACTERS = 80
MAX_LINES = 6
NUMBERED = re.compile(
    r"(?:(?:chapter|section|appendix|part|kapitel|abschnitt|anhang|teil)\s+)?"
    r"(?:\d{1,2}(?:\.\d{1,2}){0,4}[.:]?|[A-Z](?:\.\d{1,2})*\.?|[IVX]{1,5}[.:]|§\s?\d+)\s+\S",
    re.IGNORECASE,
)
#: Common titles of unnumbered sections.
SECTION_NAMES = frozenset(
    {"abstract", "introduction", "conclusion", "conclusions", "references", "bibliography"}
    | {"acknowledgment", "acknowledgments", "acknowledgement", "acknowledgements", "contents"}
    | {"appendix", "summary", "discussion", "results", "methods", "table of contents"}
    | {"zusammenfassung", "einleitung", "literatur", "literaturverzeichnis", "danksagung"}
    | {"inhaltsverzeichnis", "inhalt", "anhang", "fazit", "quellen", "list of figures"}
    | {"list of tables", "abbildungsverzeichnis", "tabellenverzeichnis", "glossary", "index"}
)
RUN_IN = re.compile(r"(?:\d{1,2}(?:\.\d{1,2}){1,4}\.?|[A-Z]\.\d{1,2}\.?)\s+\S")
SUBSECTION = re.compile(r"\d{1,2}(?:\.\d{1,2}){1,5}\.?\s+[^\W\d_]{2}")
MAX_RUN_IN_CHARACTERS = 90
DEPTH = re.compile(r"(\d{1,2}(?:\.\d{1,2}){0,4})\.?\s")
CAPTION = re.compile(
    r"(?:table|figure|fig\.|tab\.|tabelle|abbildung|abb\.|listing)\s*\d|(?:source|quelle)\s*:",
    re.IGNORECASE,
)
WORDS = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True, slots=True)
class FontSizes:
    """The font sizes of a document: the body text, and the headings above it."""

    body: float
    #: Heading sizes, the largest first.
    sizes: tuple[float, ...] = ()

    def level(self, size: float) -> int:
        larger = sum(size < other - 0.25 for other in self.sizes)
        return min(larger + 1, 6)


def page_font_sizes(blocks: Sequence[Block]) -> FontSizes:
    """Estimate the font sizes from a single page."""
    weights: Counter[float] = Counter()
    for line in (line for block in blocks for line in block.lines):
        weights[round(line.size * 2) / 2] += len(line.text)
    body = max(weights, key=weights.__getitem__, default=10.0)
    sizes = {round(block.lines[0].size * 2) / 2 for block in blocks if _is_heading(block, body)}
    larger = sorted((size for size in sizes if size >= LARGER_SIZE * body), reverse=True)
    return FontSizes(body, tuple(larger))


def split_run_in_headings(blocks: Sequence[Block]) -> list[Block]:
    """Split off numbered headings that run into their paragraphs."""
    result: list[Block] = []
    for block in blocks:
        first = block.lines[0] if block.lines else None
        head = rest = ""
        if first is not None and block.kind in (BlockKind.PARAGRAPH, BlockKind.ITEM):
            head = first.text[: first.bold_prefix].strip()
            rest = first.text[first.bold_prefix :].strip()
        is_run_in = rest and len(head) < MAX_RUN_IN_CHARACTERS and RUN_IN.match(head)
        if first is None or not is_run_in or not WORDS.search(head):
            result.append(block)
            continue
        above = replace(first, text=head.rstrip(". "), bold=True, bold_prefix=0, hyphenated=False)
        below = replace(first, text=rest, bold_prefix=0)
        result.append(Block(BlockKind.PARAGRAPH, [above]))
        result.append(Block(BlockKind.PARAGRAPH, [below, *block.lines[1:]]))
    return result


def mark_tagged_headings(blocks: Sequence[Block], scale: FontSizes | None) -> None:
    for block in blocks:
        if block.kind is BlockKind.TABLE:
            continue
        size = block.lines[0].size
        if block.tag is not None and block.tag.kind == "H":
            block.kind, block.level = BlockKind.HEADING, block.tag.level
        # Titles are often tagged as paragraphs.
        elif scale and size >= TITLE_SIZE * scale.body and _is_heading(block, scale.body):
            block.kind, block.level = BlockKind.HEADING, scale.level(size)


def mark_headings(blocks: Sequence[Block], scale: FontSizes) -> None:
    candidates = []
    for number, block in enumerate(blocks):
        if not (_is_heading(block, scale.body) and _introduces_text(blocks, number, scale.body)):
            continue
        size = block.lines[0].size
        is_small = size < MUCH_LARGER_SIZE * scale.body
        is_certain = size >= TITLE_SIZE * scale.body or RUN_IN.match(block.text)
        if not (is_certain or block is blocks[-1]) and (
            _is_note_title(blocks, number)
            or (is_small and (_is_term(blocks, number) or _is_example(blocks, number)))
        ):
            block.strong = True
        else:
            candidates.append(number)
    for number in _drop_crowded(blocks, candidates):
        block = blocks[number]
        size = block.lines[0].size
        block.kind = BlockKind.HEADING
        if size >= LARGER_SIZE * scale.body:
            block.level = scale.level(size)
        else:  # below all larger ones
            match = DEPTH.match(block.text)
            depth = match[1].count(".") if match else 0
            block.level = min(max(len(scale.sizes) + 1, 2) + depth, 6)


def _is_heading(block: Block, body: float) -> bool:
    is_text = block.kind in (BlockKind.PARAGRAPH, BlockKind.ITEM, BlockKind.CODE)
    if not is_text or len(block.lines) > MAX_LINES:
        return False
    first, last = block.lines[0], block.lines[-1]
    if block.kind is BlockKind.CODE and (first.size < MUCH_LARGER_SIZE * body or first is not last):
        return False
    text = block.text
    if len(text) > MAX_CHARACTERS or last.is_tabular:
        return False
    if not WORDS.search(text) or CAPTION.match(text):
        return False
    named = DEPTH.sub("", text, count=1) if DEPTH.match(text) else text
    if "=" in text or 2 * sum(map(str.isalpha, named)) < len(named.replace(" ", "")):
        # A formula, or a row of numbers.
        return False
    numbered = NUMBERED.match(text) is not None
    if block.kind is BlockKind.ITEM and not numbered:
        return False
    # Headings in manuals can be questions of any length.
    subsection = first.bold and SUBSECTION.match(text) is not None
    if first.size >= MUCH_LARGER_SIZE * body:
        if ends_sentence(last) and len(text) > MAX_SENTENCE_CHARACTERS and not subsection:
            return False
        return len(block.lines) <= 3 or first.size >= 1.3 * body
    if first.size < 0.9 * body or len(block.lines) > 2 or (len(text) > 100 and not subsection):
        return False
    if text.lower().strip(" .:") in SECTION_NAMES:
        return True
    if (ends_sentence(last) and not (numbered and first.bold)) or text.endswith((",", ";", "-")):
        return False
    is_capitals = text.upper() == text and sum(map(str.isupper, text)) > 3
    is_styled = first.bold or (numbered and (first.italic or is_capitals))
    return is_styled or first.size >= LARGER_SIZE * body


def _introduces_text(blocks: Sequence[Block], number: int, body: float) -> bool:
    """Return whether something subordinate follows, if the block is hardly larger than the body."""
    first = blocks[number].lines[0]
    # What follows a numbered subsection may be on the next page.
    is_subsection = first.bold and SUBSECTION.match(blocks[number].text)
    if first.size >= MUCH_LARGER_SIZE * body or is_subsection:
        return True
    if number + 1 >= len(blocks):
        return False
    after = blocks[number + 1]
    if after.kind is BlockKind.TABLE:
        return True
    follower = after.lines[0]
    if first.bold and not follower.bold:
        return True
    return follower.size < 0.97 * first.size or (first.bold and first.size > follower.size)


def _drop_crowded(blocks: Sequence[Block], candidates: Sequence[int]) -> list[int]:
    """Drop crowded candidates: on a title page, names and dates are large too."""
    headings: list[int] = []
    for _, group in groupby(enumerate(candidates), key=lambda pair: pair[1] - pair[0]):
        crowd = [number for _, number in group]
        if len(crowd) > 2:
            largest = max(blocks[number].lines[0].size for number in crowd)
            crowd = [
                number
                for number in crowd
                if blocks[number].lines[0].size == largest
                or NUMBERED.match(blocks[number].text)
                or blocks[number].text.lower().strip(" .:") in SECTION_NAMES
            ]
        headings += crowd
    return headings


#: Titles of admonitions, which are often set large or in boxes.
NOTE_TITLES = frozenset(
    {"note", "tip", "hint", "warning", "caution", "important", "attention", "danger"}
    | {"anmerkung", "hinweis", "tipp", "warnung", "vorsicht", "achtung", "wichtig", "gefahr"}
)
#: Indentation in ems, for several lines and for a single one, which may begin a paragraph.
INDENT, SINGLE_LINE_INDENT = 0.8, 2.2
#: Distance in ems between a line and the one directly below it.
MAX_STEP = 2.2
#: Characters from which a single line is body text.
TEXT_CHARACTERS = 70
#: How many blocks before and after a term are inspected.
TERM_CONTEXT = 30
#: How many terms make a page of nothing but terms.
MIN_TERMS = 3
#: How many blocks before and after a note tell where the surrounding text is aligned.
NOTE_CONTEXT = 3


def _is_note_title(blocks: Sequence[Block], number: int) -> bool:
    """Return whether it is named like a note, or indented with its note amid unindented text."""
    title, after = blocks[number], blocks[number + 1]
    if title.text.lower().strip(" .:!") in NOTE_TITLES:
        return True
    first = title.lines[0]
    if not first.bold or not after.lines or _left(after) < first.left - 0.3 * first.size:
        return False
    before = [b for b in blocks[max(number - NOTE_CONTEXT, 0) : number] if _is_text(b)]
    behind = [b for b in blocks[number + 2 : number + 2 + NOTE_CONTEXT] if _is_text(b)]
    return any(_protrudes(b, title) for b in before) and any(_protrudes(b, title) for b in behind)


def _is_term(blocks: Sequence[Block], number: int) -> bool:
    """Return whether a block is the term of a definition list: its definition is indented below it,
    and it is aligned with the text or its definition is indented deeper than the text. A heading
    whose whole section is indented protrudes instead."""
    if not _has_definition(blocks, number):
        return False
    first, definition = blocks[number].lines[0], _left(blocks[number + 1])
    em = first.size
    near = range(max(number - TERM_CONTEXT, 0), min(number + TERM_CONTEXT, len(blocks)))
    page = [blocks[n] for n in near if blocks[n].lines]
    texts = [_left(b) for b in page if _is_text(b) and not _left(b) < _right(b) < first.left]
    if any(left < definition - INDENT * em or abs(left - first.left) < 0.5 * em for left in texts):
        return True
    # On a page of nothing but terms, section titles or the header protrude to the left.
    if not any(_left(b) < first.left - SINGLE_LINE_INDENT * em for b in page):
        return False
    aligned = (n for n in near if blocks[n].lines and abs(_left(blocks[n]) - first.left) < 0.5 * em)
    return sum(_has_definition(blocks, n) for n in aligned) >= MIN_TERMS


def _has_definition(blocks: Sequence[Block], number: int) -> bool:
    """Return whether something is indented directly below the block."""
    if number + 1 == len(blocks) or blocks[number + 1].kind is not BlockKind.PARAGRAPH:
        return False
    after = blocks[number + 1]
    first, follower = blocks[number].lines[0], after.lines[0]
    step = first.baseline - follower.baseline
    if not first.bold or follower.bold or not 0 < step < MAX_STEP * first.size:
        return False
    near = blocks[max(number - TERM_CONTEXT, 0) : number + TERM_CONTEXT]
    # Of paragraphs, not only the first line is indented.
    is_indented_block = any(
        len(block.lines) > 1 and abs(_left(block) - follower.left) < 0.5 * block.lines[0].size
        for block in near
    )
    indent = INDENT if is_indented_block else SINGLE_LINE_INDENT
    return _left(after) - first.left >= indent * first.size


def _is_example(blocks: Sequence[Block], number: int) -> bool:
    """Return whether the block is indented although the text below is not: no heading is."""
    example, after = blocks[number], blocks[number + 1]
    first = example.lines[0]
    around = [block for block in (after, *blocks[max(number - 1, 0) : number]) if _is_text(block)]
    is_paragraph = after.kind is BlockKind.PARAGRAPH
    is_indented = is_paragraph and _left(after) < first.left - first.size
    if not is_indented or not any(_protrudes(b, example) for b in around):
        return False
    # A block that is centred over the widest text around it is no example.
    near = blocks[max(number - NOTE_CONTEXT, 0) : number + NOTE_CONTEXT + 2]
    spans = [(_left(b), _right(b)) for b in near if _is_text(b)]
    left, right = max(spans, key=lambda span: span[1] - span[0], default=(0.0, 0.0))
    return abs((left + right) - (first.left + first.right)) >= 4 * first.size


def _protrudes(text: Block, title: Block) -> bool:
    """Return whether the text protrudes from the title's column."""
    first = title.lines[0]
    return _left(text) < first.left - first.size and _right(text) > first.right


def _is_text(block: Block) -> bool:
    if block.kind is not BlockKind.PARAGRAPH or block.lines[0].bold:
        return False
    # Plain pages have all lines of a paragraph in one.
    return len(block.lines) > 1 or len(block.lines[0].text) > TEXT_CHARACTERS


def _right(block: Block) -> float:
    return max(line.right for line in block.lines)


def _left(block: Block) -> float:
    return min(line.left for line in block.lines)
