"""Rows: what stands on one line of a column, from left to right."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .runs import Run

RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")


#: In ems: a gap that is no space between two words; one that most often is none.
HOLE, LIKELY_HOLE = 1.0, 0.55
#: Beside letters of a fixed pitch spaces are wider.
MONO = 1.3
SPACE = 0.12
#: Of the rows, and of a row: so much in letters of a fixed pitch is a listing.
LISTED = 0.8


@dataclass(slots=True, eq=False)
class Piece:
    """Runs that belong together without a doubt: a part of a line without holes."""

    runs: list[Run]
    left: float
    right: float
    base: float
    size: float

    @property
    def top(self) -> float:
        return self.base + 0.75 * self.size

    @property
    def bottom(self) -> float:
        return self.base - 0.25 * self.size

    @property
    def text(self) -> str:
        if len(self.runs) == 1:
            return self.runs[0].text
        return joined_runs(self.runs)

    @property
    def weight(self) -> int:
        return sum([len(run.text) for run in self.runs])


def joined_runs(runs: Sequence[Run]) -> str:
    """PDFium parts runs of the same line at spaces only; those of other lines may be one word."""
    parts = [runs[0].text]
    for before, run in pairwise(runs):
        if before.line == run.line or _is_space(before, run):
            parts.append(" ")
        parts.append(run.text)
    return "".join(parts)


def _is_space(before: Run, run: Run) -> bool:
    gap = max(run.left - before.right, before.left - run.right)
    return abs(gap) > SPACE * min(before.style.size, run.style.size) or before.cut


def pieces_of(runs: Iterable[Run], hole: float = LIKELY_HOLE) -> list[Piece]:
    pieces: list[Piece] = []
    before: Run | None = None
    for run in runs:
        if before is not None and _goes_on(before, run, hole):
            _append(pieces[-1], run)
        else:
            pieces.append(Piece([run], run.left, run.right, run.base, run.style.size))
        before = run
    return pieces


def _goes_on(before: Run, run: Run, hole: float) -> bool:
    if before.line != run.line:
        return False
    size = max(before.style.size, run.style.size)
    gap = run.left - before.right
    if run.style.mono:
        hole = max(hole, MONO)
    if gap < -size and not run.text.isascii() and RIGHT_TO_LEFT.search(run.text):
        gap = before.left - run.right
    return -size < gap < hole * size and abs(before.base - run.base) < 0.6 * size


def _append(piece: Piece, run: Run) -> None:
    # The greatest of the runs says where the line is: marks above and below it do not.
    if run.style.size > piece.size:
        piece.size, piece.base = run.style.size, run.base
    piece.runs.append(run)
    piece.left, piece.right = min(piece.left, run.left), max(piece.right, run.right)


def mended(pieces: list[Piece]) -> list[Piece]:
    """Where each letter came as a line of its own, words again."""
    letters = sum(piece.weight for piece in pieces)
    if len(pieces) < 8 or letters > 4 * len(pieces):
        return pieces
    return [piece for row in rows_of(pieces) for piece in row]


def rows_of(pieces: list[Piece]) -> list[list[Piece]]:
    """From the top down, each from left to right."""
    rows: list[list[Piece]] = []
    heads: list[Piece] = []
    for piece in sorted(pieces, key=lambda piece: (-piece.base, piece.left)):
        for number in range(len(rows) - 1, max(len(rows) - 4, -1), -1):
            if _beside(heads[number], rows[number], piece):
                rows[number].append(piece)
                if piece.size > heads[number].size:
                    heads[number] = piece
                break
        else:
            rows.append([piece])
            heads.append(piece)
    return [_read(row) if len(row) > 1 else row for row in rows]


def _read(row: list[Piece]) -> list[Piece]:
    """In the direction of reading; what was drawn apart but stands together is one piece."""
    row.sort(key=lambda piece: piece.left)
    if any(
        not run.text.isascii() and RIGHT_TO_LEFT.search(run.text)
        for piece in row
        for run in piece.runs
    ):
        return row[::-1]
    pieces = row[:1]
    for piece in row[1:]:
        last = pieces[-1]
        mono = piece.runs[0].style.mono
        hole = MONO if mono else LIKELY_HOLE
        if piece.left - last.right < hole * min(last.size, piece.size):
            pieces[-1] = _both(last, piece)
        else:
            pieces.append(piece)
    return pieces


def _both(first: Piece, second: Piece) -> Piece:
    main = max(first, second, key=lambda piece: piece.size)
    right = max(first.right, second.right)
    return Piece(first.runs + second.runs, first.left, right, main.base, main.size)


def _beside(head: Piece, row: list[Piece], piece: Piece) -> bool:
    size = max(head.size, piece.size)
    # Marks above and below the line are smaller than what stands on it.
    alike = min(head.size, piece.size) > 0.8 * size
    if abs(head.base - piece.base) > (0.35 if alike else 0.6) * size:
        return False
    slack = 0.3 * min(head.size, piece.size)
    # The latest are enough to see an overlap; a row of thousands must not be gone through.
    return all(
        piece.left > other.right - slack or piece.right < other.left + slack for other in row[-40:]
    )


def is_listing(rows: Sequence[Sequence[Piece]]) -> bool:
    """Letters of a fixed pitch stand in columns by themselves; the names of columns would not
    be set in them. The numbers of lines may be set in anything."""
    mono = [_is_mono(row) for row in rows if len(row) > 1]
    return bool(mono) and mono[0] and sum(mono) >= LISTED * len(mono)


def _is_mono(row: Sequence[Piece]) -> bool:
    runs = [run for piece in row for run in piece.runs]
    if runs[0].text.isdigit() and len(runs) > 1:
        runs = runs[1:]
    mono = sum(len(run.text) for run in runs if run.style.mono)
    return mono >= LISTED * sum(len(run.text) for run in runs)


#: Dots that lead the eye to a page number.
LEADERS = re.compile(r"\s*(?:[.·…_]\s?){5,}")
NUMBER = re.compile(r"\d{1,4}|[ivxlc]{1,6}")
#: Of the characters: so many set alike make the line so.
NEARLY_ALL = 0.9
#: Of a listing: what stands farther to the right, or seems to, is not padded.
LAST_COLUMN = 200


@dataclass(slots=True)
class Line:
    text: str
    left: float
    right: float
    base: float
    size: float
    bold: bool
    italic: bool
    mono: bool
    #: Its last word goes on in the next line.
    cut: bool
    mark: int = -1
    #: In pieces, or ends with a number that stands apart: of a table, or a table of contents.
    entry: bool = False
    #: Characters at its beginning that are bold, where the others are not.
    bold_start: int = 0
    #: Where its second part begins, if it is in two: a term, and what it means.
    hang: float | None = None


def line_of(row: Sequence[Piece]) -> Line:
    runs = [run for piece in row for run in piece.runs]
    whole = sum(len(run.text) for run in runs)
    sizes: dict[float, int] = {}
    bold = italic = mono = plain_code = 0
    for run in runs:
        count, style = len(run.text), run.style
        sizes[style.size] = sizes.get(style.size, 0) + count
        bold += count * style.bold
        plain_code += count * (style.mono and not style.bold)
        italic += count * style.italic
        mono += count * style.mono
    if not runs[0].style.mono and runs[0].text.isdigit() and mono == whole - len(runs[0].text) > 0:
        # The number of a line of a listing.
        mono = whole
    enough = NEARLY_ALL * whole
    text = (
        " ".join([piece.text for piece in row])
        if len(row) < 2 or mono < enough
        else _in_columns(row)
    )
    entry = len(row) > 2 or (len(row) > 1 and NUMBER.fullmatch(row[-1].text) is not None)
    if "..." in text or ". . ." in text or "…" in text or "___" in text:
        text, count = LEADERS.subn(" ", text)
        entry = entry or count > 0
    left, right = min(piece.left for piece in row), max(piece.right for piece in row)
    main = max(row, key=lambda piece: piece.weight)
    mark = max(runs, key=lambda run: len(run.text)).mark
    if 2 * bold > whole:
        # A name from a listing, in a heading: there is no bold for it.
        bold += plain_code
    bold_start = _bold_start(runs) if 0 < bold < enough else 0
    size = max(sizes, key=lambda size: sizes[size])
    return Line(
        text, left, right, main.base, size, bold >= enough, italic >= enough, mono >= enough,
        runs[-1].cut, mark, entry, bold_start, row[1].left if len(row) == 2 else None,
    )  # fmt: skip


def _in_columns(row: Sequence[Piece]) -> str:
    """Letters of a fixed pitch, each part in the column it begins in."""
    runs = [run for piece in row for run in piece.runs]
    longest = max(runs, key=lambda run: len(run.text))
    # The last letter does not fill its place.
    pitch = (longest.right - longest.left + 0.1 * longest.style.size) / len(longest.text)
    text = row[0].text
    for piece in row[1:]:
        column = min(round((piece.left - row[0].left) / pitch), LAST_COLUMN)
        text = f"{text} ".ljust(column) + piece.text
    return text


def _bold_start(runs: Sequence[Run]) -> int:
    length = 0
    for number, run in enumerate(runs):
        if not run.style.bold:
            return length
        length += len(run.text) + (number > 0)
    return length
