"""Lays out recognised lines: as plain text that keeps them, and as Markdown that reflows."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from ..markdown import escape_inline, escape_line_start, pipe_table
from .engines import OcrLine

#: Lines this much higher than the body text are headings, and their levels.
HEADINGS = ((1.8, 1), (1.4, 2), (1.22, 3))
HEADING_CHARACTERS = 120
#: Bullets, and characters that engines mistake bullets for.
BULLET = re.compile("[•·●▪■◦‣∙*+»«°¢\N{EN DASH}\N{EM DASH}-]\\s+(?=\\S)")
MISTAKEN_BULLET = re.compile(r"([eo®©])\s+(?=[A-ZÄÖÜ0-9])")
NUMBER = re.compile(r"(\d{1,3}|[a-z])([.)])\s+(?=\S)")
#: After a hyphen at a line end these do not continue the word: `Ein- und Ausgang`.
CONJUNCTIONS = {"und", "oder", "bzw", "sowie", "bis", "and", "or", "to", "et", "ou"}
#: Paragraphs are separated by more than this multiple of the usual line pitch.
WIDE_PITCH = 1.3
ENDS = (".", "!", "?", ":", ".)", '."')
HYPHENS = ("-", "\N{HYPHEN}", "\N{SOFT HYPHEN}")


def as_text(lines: Sequence[OcrLine]) -> str:
    groups = _paragraphs(lines, _body_height(lines))
    return "\n\n".join("\n".join(line.text for line in group) for group in groups)


def as_markdown(lines: Sequence[OcrLine]) -> str:
    body_height = _body_height(lines)
    parts: list[tuple[str, bool]] = []
    for part in _split_tables(lines):
        if isinstance(part, Table):
            parts.append((part.markdown(), False))
            continue
        for group in _paragraphs(part, body_height):
            level = _heading_level(group, body_height)
            if level:
                parts.append((f"{'#' * level} {escape_inline(_joined(group))}", False))
            else:
                parts += _items(group)
    output = [parts[0][0]] if parts else []
    for (_, was_item), (part_text, is_item) in pairwise(parts):
        output += ["\n" if was_item and is_item else "\n\n", part_text]
    return "".join(output)


def _body_height(lines: Sequence[OcrLine]) -> float:
    """Return the weighted median of the line heights: the x-height of the body text."""
    letters = sum(len(line.text) for line in lines)
    letters_so_far = 0
    for line in sorted(lines, key=lambda line: line.height):
        letters_so_far += len(line.text)
        if letters_so_far * 2 >= letters:
            return line.height
    return 0.0


def _paragraphs(lines: Sequence[OcrLine], body_height: float) -> Iterator[list[OcrLine]]:
    page_pitch = _line_pitch(lines)
    for _, group in groupby(lines, key=lambda line: line.block):
        block = list(group)
        pitch = _line_pitch(block) if len(block) > 3 else page_pitch
        right = max(line.box[2] for line in block)
        current = block[:1]
        for above, line in pairwise(block):
            if (
                line.baseline - above.baseline > WIDE_PITCH * pitch
                or _size(above, body_height) != _size(line, body_height)
                or _is_indented(line, above)
                or _is_last(above, line, right)
            ):
                yield current
                current = []
            current.append(line)
        yield current


def _line_pitch(lines: Sequence[OcrLine]) -> float:
    """Return the usual distance between baselines, or infinity if there is none."""
    pitches = sorted(
        below.baseline - above.baseline
        for above, below in pairwise(lines)
        if above.block == below.block and below.baseline > above.baseline
    )
    return pitches[(len(pitches) - 1) // 3] if pitches else float("inf")


def _is_indented(line: OcrLine, above: OcrLine) -> bool:
    return line.height < line.box[0] - above.box[0] < 8 * line.height


def _is_last(above: OcrLine, line: OcrLine, right: int) -> bool:
    """Return whether a paragraph ends here: a full stop, and room left for the next word."""
    letter = (line.box[2] - line.box[0]) / max(1, len(line.text))
    following = len(line.text.split()[0]) + 2
    return above.text.endswith(ENDS) and above.box[2] + 2 * letter * following < right


def _size(line: OcrLine, body_height: float) -> int:
    """Return the heading level by size alone, 0 for body text and for lines without letters."""
    if not body_height or not any(character.isalpha() for character in line.text):
        return 0
    return next((level for ratio, level in HEADINGS if line.height >= ratio * body_height), 0)


def _heading_level(group: Sequence[OcrLine], body_height: float) -> int:
    text = " ".join(line.text for line in group)
    if len(group) > 3 or len(text) > HEADING_CHARACTERS or text.endswith((".", ",", ";")):
        return 0
    return _size(group[0], body_height)


def _items(group: Sequence[OcrLine]) -> list[tuple[str, bool]]:
    """Return the Markdown of a paragraph, or of each of its list items, and whether it is one."""
    starts = [_item_start(line.text) for line in group]
    mistaken = [MISTAKEN_BULLET.match(line.text) for line in group]
    if sum(match is not None for match in mistaken) > 1:
        starts = [
            start or (("- ", match.end()) if match else None)
            for start, match in zip(starts, mistaken, strict=True)
        ]
    if starts[0] is None and sum(start is not None for start in starts) < 2:
        return [(_escaped(_joined(group)), False)]
    items: list[tuple[str, bool]] = []
    current: list[OcrLine] = []
    for line, start in zip(group, starts, strict=True):
        if start is not None and current:
            items.append(_item(current, allow_mistaken=any(mistaken)))
            current = []
        current.append(line)
    items.append(_item(current, allow_mistaken=any(mistaken)))
    return items


def _item_start(text: str) -> tuple[str, int] | None:
    if match := BULLET.match(text):
        return "- ", match.end()
    if match := NUMBER.match(text):
        return f"{match[1]}{match[2]} ", match.end()
    return None


def _item(group: Sequence[OcrLine], *, allow_mistaken: bool) -> tuple[str, bool]:
    text = _joined(group)
    start = _item_start(text)
    if start is None and allow_mistaken and (match := MISTAKEN_BULLET.match(text)):
        start = "- ", match.end()
    if start is None:
        return _escaped(text), False
    mark, end = start
    return mark + _escaped(text[end:]), True


def _joined(group: Sequence[OcrLine]) -> str:
    text = group[0].text
    for line in group[1:]:
        text = _continued(text, line.text)
    return text


def _continued(text: str, following: str) -> str:
    word = re.match(r"[^\W\d_]*", following)
    if (
        not text.endswith(HYPHENS)
        or not text[-2:-1].isalnum()
        or (word and word[0] in CONJUNCTIONS)
    ):
        return f"{text} {following}"
    is_split = text[-2].isalpha() and following[:1].islower()
    return (text[:-1] if is_split else text) + following


def _escaped(text: str) -> str:
    """Escape what would be Markdown markup."""
    return escape_line_start(escape_inline(text))


#: A gap between words of this many x-heights separates two table cells.
WIDE_GAP = 2.2
MIN_ROWS = 3
#: Longer cells are text columns, not table cells.
MAX_CELL_CHARACTERS = 60
LIST_MARK = re.compile(r"[^\w\s]|(\d{1,3}|[A-Za-z])[.)]|[eo]")


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class Table:
    #: Rows of equal length; the first is the header.
    rows: list[list[str]]

    def markdown(self) -> str:
        return pipe_table(
            [[escape_inline(text).replace("|", "\\|") for text in row] for row in self.rows]
        )


def _split_tables(lines: Sequence[OcrLine]) -> Iterator[list[OcrLine] | Table]:
    """Yield groups of lines in order, with tables in place of the lines that are their rows."""
    plain: list[OcrLine] = []
    for _, block in groupby(lines, key=lambda line: line.block):
        for has_cells, group in groupby(block, key=lambda line: len(_cells(line)) > 1):
            rows = list(group)
            table = _table(rows) if has_cells else None
            if table is None:
                plain += rows
                continue
            if plain:
                yield plain
            yield table
            plain = []
    if plain:
        yield plain


def _table(lines: Sequence[OcrLine]) -> Table | None:
    rows = [_cells(line) for line in lines]
    columns = _columns(rows)
    if len(rows) < MIN_ROWS or len(columns) < 2:
        return None
    column_numbers = [[_column_of(cell, columns) for cell in row] for row in rows]
    if any(first == second for row in column_numbers for first, second in pairwise(row)):
        return None  # two cells of a row in one column: the gaps are accidental
    if any(len(cell.text) > MAX_CELL_CHARACTERS for row in rows for cell in row):
        return None
    if len(columns) == 2 and all(LIST_MARK.fullmatch(row[0].text) for row in rows):
        return None  # a list with wide gaps behind its bullets
    return Table(
        [
            _fill_row(row, numbers, len(columns))
            for row, numbers in zip(rows, column_numbers, strict=True)
        ]
    )


def _cells(line: OcrLine) -> list[Cell]:
    cells: list[Cell] = []
    for word in line.words:
        if cells and word.left - cells[-1].right <= WIDE_GAP * line.height:
            last = cells.pop()
            word_left, text = last.left, f"{last.text} {word.text}"
        else:
            word_left, text = word.left, word.text
        cells.append(Cell(text, word_left, word.right))
    return cells


def _columns(rows: Sequence[Sequence[Cell]]) -> list[tuple[int, int]]:
    """Return the horizontal extents of the columns: overlapping cells share one."""
    columns: list[tuple[int, int]] = []
    for left, right in sorted((cell.left, cell.right) for row in rows for cell in row):
        if columns and left < columns[-1][1]:
            columns[-1] = (columns[-1][0], max(right, columns[-1][1]))
        else:
            columns.append((left, right))
    return columns


def _column_of(cell: Cell, columns: Sequence[tuple[int, int]]) -> int:
    return next(index for index, (_, right) in enumerate(columns) if cell.right <= right)


def _fill_row(row: Sequence[Cell], numbers: Sequence[int], count: int) -> list[str]:
    texts = [""] * count
    for cell, column in zip(row, numbers, strict=True):
        texts[column] = cell.text
    return texts
