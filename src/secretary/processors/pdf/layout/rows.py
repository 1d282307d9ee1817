"""Rows: what stands on one line of a column, from left to right."""

import re
from dataclasses import dataclass

from .runs import HOLE, Run

RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")


@dataclass(slots=True)
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
        return " ".join([run.text for run in self.runs])

    @property
    def weight(self) -> int:
        return sum([len(run.text) for run in self.runs])


def pieces_of(runs: list[Run]) -> list[Piece]:
    pieces: list[Piece] = []
    before: Run | None = None
    for run in runs:
        if before is not None and _goes_on(before, run):
            _append(pieces[-1], run)
        else:
            pieces.append(Piece([run], run.left, run.right, run.base, run.style.size))
        before = run
    return pieces


def _goes_on(before: Run, run: Run) -> bool:
    if before.line != run.line:
        return False
    size = max(before.style.size, run.style.size)
    gap = run.left - before.right
    if gap < -size and RIGHT_TO_LEFT.search(run.text):
        gap = before.left - run.right
    return -size < gap < HOLE * size and abs(before.base - run.base) < 0.6 * size


def _append(piece: Piece, run: Run) -> None:
    # The greatest of the runs says where the line is: marks above and below it do not.
    if run.style.size > piece.size:
        piece.size, piece.base = run.style.size, run.base
    piece.runs.append(run)
    piece.left, piece.right = min(piece.left, run.left), max(piece.right, run.right)


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
    for row in rows:
        row.sort(key=lambda piece: piece.left)
        if any(RIGHT_TO_LEFT.search(run.text) for piece in row for run in piece.runs):
            row.reverse()
    return rows


def _beside(head: Piece, row: list[Piece], piece: Piece) -> bool:
    size = max(head.size, piece.size)
    if abs(head.base - piece.base) > 0.35 * size:
        return False
    slack = 0.3 * min(head.size, piece.size)
    # The latest are enough to see an overlap; a row of thousands must not be gone through.
    return all(
        piece.left > other.right - slack or piece.right < other.left + slack for other in row[-40:]
    )
