"""Pieces of text strewn over a picture, as lines in the order they are read."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from .ocr import Line, Word

Point = tuple[float, float]

#: The letter `x`, and where letters stand, as shares of the height of a piece.
LETTER_SHARE, BASE_SHARE = 0.45, 0.2
#: Columns are parted by a gap of so many heights from top to bottom, and hold so many lines of
#: so many heights' length. What is narrower or shorter are the cells of a table.
MIN_GUTTER, MIN_LINES, MIN_LENGTH = 0.6, 3, 8.0
#: Two pieces stand in one line if their middles differ by less than this share of their height.
SAME_LINE = 0.5


@dataclass(frozen=True, slots=True)
class Piece:
    """What an engine found in one place: a line, or a part of it."""

    text: str
    #: 0 to 100.
    confidence: float
    #: Seen upright: top left, top right, bottom right, bottom left.
    corners: tuple[Point, Point, Point, Point]
    #: Each with the places where it begins and ends, as shares of the piece.
    words: tuple[tuple[str, float, float], ...]


@dataclass(frozen=True, slots=True)
class _Strip:
    """A piece in the picture as if it were level."""

    piece: Piece
    left: float
    right: float
    top: float
    bottom: float

    @property
    def height(self) -> float:
        return self.bottom - self.top

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2


def in_reading_order(pieces: Sequence[Piece]) -> list[Line]:
    """Column after column; pieces beside each other in one line. Places are those in the picture
    once its lines are level."""
    if not pieces:
        return []
    turn = _turn(pieces)
    strips = [_levelled(piece, turn) for piece in pieces]
    lines: list[Line] = []
    for number, block in enumerate(_blocks(strips), 1):
        lines += [_line(row, number) for row in _rows(block)]
    return lines


def _turn(pieces: Sequence[Piece]) -> float:
    """The direction that most letters run in, in radians. Long pieces tell it best."""
    angles = []
    for piece in pieces:
        (x0, y0), (x1, y1) = piece.corners[:2]
        angles.append((math.atan2(y1 - y0, x1 - x0), math.hypot(x1 - x0, y1 - y0)))
    angles.sort()
    half, seen = sum(length for _, length in angles) / 2, 0.0
    for angle, length in angles:
        seen += length
        if seen >= half:
            return angle
    return 0.0


def _levelled(piece: Piece, turn: float) -> _Strip:
    cosine, sine = math.cos(turn), math.sin(turn)
    points = [(x * cosine + y * sine, y * cosine - x * sine) for x, y in piece.corners]
    top_left, top_right, bottom_right, bottom_left = points
    return _Strip(
        piece=piece,
        left=(top_left[0] + bottom_left[0]) / 2,
        right=(top_right[0] + bottom_right[0]) / 2,
        top=(top_left[1] + top_right[1]) / 2,
        bottom=(bottom_left[1] + bottom_right[1]) / 2,
    )


def _blocks(strips: Sequence[_Strip]) -> Iterator[list[_Strip]]:
    """Parts of the page that are read one after the other."""
    gutter = _gutter(strips)
    if gutter is not None:
        yield from _blocks([strip for strip in strips if strip.right <= gutter])
        yield from _blocks([strip for strip in strips if strip.right > gutter])
        return
    plain: list[_Strip] = []
    for band, has_columns in _bands(strips):
        if not has_columns:
            plain += band
            continue
        if plain:
            yield plain
        plain = []
        yield from _blocks(band)
    if plain:
        yield plain


def _bands(strips: Sequence[_Strip]) -> Iterator[tuple[list[_Strip], bool]]:
    """The page from top to bottom: as much as has columns in common, or what stands alone."""
    levels = _levels(strips)
    start = 0
    while start < len(levels):
        end = start + 1
        band = best = levels[start]
        best_end = end if _gutter(band) is not None else start
        while end < len(levels):
            band = band + levels[end]
            end += 1
            if not _gaps(band):
                break
            if _gutter(band) is not None:
                best, best_end = band, end
        has_columns = best_end > start
        yield best, has_columns
        start = best_end if has_columns else start + 1


def _levels(strips: Sequence[_Strip]) -> list[list[_Strip]]:
    """Pieces that overlap from top to bottom, be it through others, are on one level."""
    levels: list[list[_Strip]] = []
    lowest = -math.inf
    for strip in sorted(strips, key=lambda strip: (strip.top, strip.left)):
        # Boxes are drawn a little larger than their letters, so that lines may touch.
        if strip.top + 0.2 * strip.height < lowest:
            levels[-1].append(strip)
        else:
            levels.append([strip])
        lowest = max(lowest, strip.bottom - 0.2 * strip.height)
    return levels


def _gutter(strips: Sequence[_Strip]) -> float | None:
    """Where to part two columns of text, if there are any."""
    for _, left, right in sorted(_gaps(strips), reverse=True):
        middle = (left + right) / 2
        before = [strip for strip in strips if strip.right <= middle]
        after = [strip for strip in strips if strip.right > middle]
        if _is_text(before) and _is_text(after):
            return middle
    return None


def _gaps(strips: Sequence[_Strip]) -> list[tuple[float, float, float]]:
    """Width, left and right of what no piece reaches into, though there are some on both sides."""
    least = MIN_GUTTER * median(strip.height for strip in strips)
    gaps = []
    reached = math.inf
    for strip in sorted(strips, key=lambda strip: strip.left):
        if strip.left - reached >= least:
            gaps.append((strip.left - reached, reached, strip.left))
        reached = strip.right if reached == math.inf else max(reached, strip.right)
    return gaps


def _is_text(strips: Sequence[_Strip]) -> bool:
    """Lines long enough to be a column of text."""
    if len(strips) < MIN_LINES:
        return False
    return median((strip.right - strip.left) / strip.height for strip in strips) >= MIN_LENGTH


def _rows(strips: Sequence[_Strip]) -> Iterator[list[_Strip]]:
    row: list[_Strip] = []
    for strip in sorted(strips, key=lambda strip: strip.middle):
        if row and not _is_beside(strip, row):
            yield sorted(row, key=lambda strip: strip.left)
            row = []
        row.append(strip)
    if row:
        yield sorted(row, key=lambda strip: strip.left)


def _is_beside(strip: _Strip, row: Sequence[_Strip]) -> bool:
    height = min(strip.height, row[0].height)
    return strip.middle - row[0].middle < SAME_LINE * height and not any(
        min(strip.right, other.right) - max(strip.left, other.left) > height for other in row
    )


def _line(row: Sequence[_Strip], block: int) -> Line:
    # A bullet or a dash has a box of its own height: the longest piece tells that of the line.
    longest = max(row, key=lambda strip: strip.right - strip.left)
    letters = sum(len(strip.piece.text) for strip in row)
    return Line(
        text=" ".join(strip.piece.text for strip in row),
        words=tuple(word for strip in row for word in _words(strip)),
        confidence=sum(s.piece.confidence * len(s.piece.text) for s in row) / letters,
        box=(
            round(row[0].left),
            round(min(strip.top for strip in row)),
            round(max(strip.right for strip in row)),
            round(max(strip.bottom for strip in row)),
        ),
        baseline=longest.bottom - BASE_SHARE * longest.height,
        height=LETTER_SHARE * longest.height,
        block=block,
    )


def _words(strip: _Strip) -> Iterator[Word]:
    width = strip.right - strip.left
    for text, begin, end in strip.piece.words:
        yield Word(text, round(strip.left + begin * width), round(strip.left + end * width))
