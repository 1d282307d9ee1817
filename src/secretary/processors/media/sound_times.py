"""When each sample of a track is to be heard, and the file in which it stands at that place."""

import math
import os
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

SAMPLE_BYTES = 2
_CHUNK_BYTES = 1024 * 1024
#: In seconds. Times are often a little off; nobody hears it, and it must not tear words apart.
_TOLERATED = 0.1
#: So close to second 0 it need not be moved there.
_AT_ONCE = 0.01
#: A change of the times that does not hold for so long is a mistake in them, not a gap.
_HOLDS = 0.5
#: Sound that goes back further is not the same sound again: times that begin anew.
_OVERLAP = 1.0
#: A line of ffmpeg's is far shorter.
_MAX_LINE = 1000


class Piece(NamedTuple):
    """From this sample of the raw file on, the sound stands at this place; both in samples."""

    raw: int
    place: int


class Timeline:
    """Reads the lines in which ffmpeg's framecrc tells of frames: stream, dts, pts, duration,
    bytes, checksum. `start`, in seconds, is the time that becomes second 0; where times jump
    further than the longest gap, they begin anew."""

    def __init__(self, rate: int, *, start: float = 0.0, longest_gap: float = math.inf) -> None:
        self._rate = rate
        self._start = round(start * rate)
        self._longest_gap = longest_gap
        self._rest = b""
        self._heard = 0
        self._pieces: list[Piece] = []
        #: What is added to times that began anew.
        self._correction = 0
        self._doubted: Piece | None = None

    @property
    def samples(self) -> int:
        """How many have come, without gaps."""
        return self._heard

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return tuple(self._pieces)

    @property
    def seconds(self) -> float:
        """From second 0 to the end of the last sample."""
        if not self._pieces:
            return 0.0
        last = self._pieces[-1]
        return max(last.place + self._heard - last.raw, 0) / self._rate

    @property
    def gaps(self) -> float:
        """In seconds; that before the first sample is none."""
        total = 0
        for before, after in pairwise(self._pieces):
            total += max(after.place - before.place - (after.raw - before.raw), 0)
        return total / self._rate

    def take(self, chunk: bytes) -> None:
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()[-_MAX_LINE:]
        for line in lines:
            fields = line.split(b",")
            if len(fields) == 6 and not line.startswith(b"#"):
                self._frame(int(fields[2]), int(fields[4]) // SAMPLE_BYTES)

    def _frame(self, time: int, count: int) -> None:
        if not self._pieces:
            place = time - self._start
            self._pieces.append(Piece(0, 0 if abs(place) < _AT_ONCE * self._rate else place))
        else:
            self._follow(time - self._start)
        self._heard += count

    def _follow(self, time: int) -> None:
        last = self._pieces[-1]
        place = time + self._correction
        if self._continues(last, place):
            self._doubted = None
            return
        doubted = self._doubted
        if doubted is None or not self._continues(doubted, place):
            self._doubted = Piece(self._heard, place)
        elif self._heard - doubted.raw >= _HOLDS * self._rate:
            self._begin(doubted, last)

    def _continues(self, piece: Piece, place: int) -> bool:
        expected = piece.place + self._heard - piece.raw
        return abs(place - expected) <= _TOLERATED * self._rate

    def _begin(self, piece: Piece, last: Piece) -> None:
        self._doubted = None
        end = last.place + piece.raw - last.raw
        if not -_OVERLAP * self._rate <= piece.place - end <= self._longest_gap * self._rate:
            self._correction += end - piece.place
        else:
            self._pieces.append(piece)


def laid_out(raw: Path, timeline: Timeline, whole: Path) -> Path:
    """The file in which all stands where it belongs: `raw` itself when it does already. Gaps are
    holes in the file, and take no room on most disks."""
    pieces = timeline.pieces
    if pieces == (Piece(0, 0),):
        return raw
    with raw.open("rb", buffering=0) as source, whole.open("wb", buffering=0) as target:
        for number, piece in enumerate(pieces):
            is_last = number == len(pieces) - 1
            end = timeline.samples if is_last else pieces[number + 1].raw
            skipped = max(-piece.place, 0)
            source.seek((piece.raw + skipped) * SAMPLE_BYTES)
            target.seek(max(piece.place, 0) * SAMPLE_BYTES)
            _copy(source.fileno(), target.fileno(), (end - piece.raw - skipped) * SAMPLE_BYTES)
    return whole


def _copy(source: int, target: int, size: int) -> None:
    while size > 0:
        chunk = os.read(source, min(size, _CHUNK_BYTES))
        if not chunk:
            return
        size -= len(chunk)
        while chunk:
            chunk = chunk[os.write(target, chunk) :]
