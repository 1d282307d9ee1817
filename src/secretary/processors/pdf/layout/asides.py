"""Bold lines that head nothing but what is set in below them: terms, and the titles of notes."""

from collections.abc import Sequence

from .blocks import Block, Kind

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
