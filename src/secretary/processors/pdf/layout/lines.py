"""Lines of a column, read from left to right."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .rows import Piece
from .runs import Run

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
