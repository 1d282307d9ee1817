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
