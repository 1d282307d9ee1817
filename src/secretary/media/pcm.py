"""A sound track as raw samples in a file, where every second has its place.

Signed 16-bit little-endian numbers, 16,000 a second, one channel: 115 MB an hour on disk, and no
memory. Second 0 is where the first track of the recording begins, be it a picture.
"""

import errno
import io
import math
import mmap
import os
import re
import shutil
import wave
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..core.errors import (
    DISK_FULL_ERRNOS,
    DiskFull,
    FileCorrupt,
    FileEncrypted,
    FileTooLarge,
    UnsupportedFile,
)
from ..core.file_types import share_between_frames
from .ffmpeg import Ended, opening, run
from .recording import Recording, SoundTrack
from .speech.engines import RATE

if TYPE_CHECKING:
    import numpy as np

#: Sound of an unnamed form, by MPEG and by Apple; what form it has stands a little behind it.
_ENCRYPTED = (b"enca", b"drms")
_FORM = b"frma"
_WITHIN = 4096


def is_protected(path: str) -> bool:
    """Whether the sound of an MP4 is encrypted."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for mark in _ENCRYPTED:
            at = content.find(mark)
            while at != -1:
                # Four letters alone may stand anywhere by chance.
                if content.find(_FORM, at, at + _WITHIN) != -1:
                    return True
                at = content.find(mark, at + 1)
    return False


SAMPLE_BYTES = 2
_CHUNK_BYTES = 1024 * 1024
#: In seconds. Times are often a little off; nobody hears it, and it must not tear words apart.
_sound_times_TOLERATED = 0.1
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
        return abs(place - expected) <= _sound_times_TOLERATED * self._rate

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


#: More of them no filter takes.
MAX_CHANNELS = 64
#: In samples: a place in the sound is known as exactly as this.
_FRAME = RATE // 20
#: What may be missing, in seconds and as a share, before it is spoken of.
_TOLERATED_S = 1.0
_TOLERATED = 0.01
#: What a length may be too long by: that of the last frame, or of a picture that stays.
_MARGIN_S = 5
#: Their length is what lies between the first and the last time in them, and times may begin anew.
_TOLD_BY_TIMES = {"mpeg", "mpegts"}
_LONGEST_GAP_S = 60.0
_NO_DECODER = re.compile(r"no decoder found|decoder \(.*\) not found", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    seconds: float
    samples: int
    #: Seconds without sound between its first and its last sample, where the file says there is
    #: a gap; in the samples they are silence.
    gaps: float
    #: What is not there of the length that the file declares, in seconds; 0 when it is whole.
    missing: float
    #: Whether anything could not be decoded, be it a fraction of a second.
    is_damaged: bool

    def warnings(self) -> tuple[str, ...]:
        """For the job's log, a sentence each."""
        found = []
        if self.missing:
            found.append(f"The sound is {self.missing:.0f} s shorter than the file says it is")
        elif self.is_damaged:
            found.append("The sound is damaged in a few places")
        if self.gaps > _TOLERATED_S:
            found.append(f"For {self.gaps:.0f} s in the middle there is no sound in the file")
        return tuple(found)


def chosen_track(sounds: Iterable[SoundTrack], language: str | None = None) -> SoundTrack | None:
    """In the language that is wanted, else the one that players choose; None without any."""
    return min(
        sounds,
        key=lambda each: (
            language is None or each.language != language,
            not each.is_default,
            each.stream,
        ),
        default=None,
    )


def decode(
    path: str,
    into: str,
    *,
    recording: Recording,
    track: SoundTrack,
    max_seconds: float,
    timeout_s: float,
    program: str | None = None,
) -> Decoded:
    """Writes the track to the file `into`. While it runs, `decoded_seconds(into)` tells how far it
    has got. A track that breaks off early is kept as far as it goes, and its result says so."""
    if not recording.is_estimated and recording.format not in _TOLD_BY_TIMES:
        _refuse_longer(recording.duration, max_seconds)
    if track.channels > MAX_CHANNELS:
        text = f"The sound has {track.channels} channels; no more than {MAX_CHANNELS} can be mixed"
        raise UnsupportedFile(text, channels=track.channels, limit=MAX_CHANNELS)
    work = _work(into)
    shutil.rmtree(work, ignore_errors=True)
    try:
        work.mkdir(parents=True)
        raw, timeline = work / "raw", _timeline(recording)
        ended = run(
            ["-copyts", *opening(path), *_output(track)],
            timeout_s=timeout_s,
            program=program,
            directory=str(work),
            take=timeline.take,
            look=lambda: _refuse_longer(max(_length(raw), timeline.seconds), max_seconds),
        )
        _refuse_longer(max(_length(raw), timeline.seconds), max_seconds)
        _check_end(path, recording, ended, timeline)
        decoded = _judged(path, recording, timeline, is_damaged=_complains(ended, recording))
        os.replace(laid_out(raw, timeline, work / "whole"), into)
        return decoded
    except OSError as error:
        raise _named(error) from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def decoded_seconds(into: str) -> float:
    """How much of a track has been decoded so far."""
    path = Path(into)
    return _length(path) if path.exists() else _length(_work(into) / "raw")


def samples(path: str, start: float, end: float) -> "np.ndarray":
    """The sound between two seconds, as numbers from -1 to 1; shorter where the file ends."""
    import numpy as np

    return np.frombuffer(_content(path, start, end), dtype="<i2").astype(np.float32) / 32768


def as_wav(path: str, start: float, end: float) -> bytes:
    """The same as a file, for those who want one."""
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setnchannels(1)
        wav.setsampwidth(SAMPLE_BYTES)
        wav.setframerate(RATE)
        wav.writeframes(_content(path, start, end))
    return file.getvalue()


def _content(path: str, start: float, end: float) -> bytes:
    first = max(round(start * RATE), 0)
    count = max(round(end * RATE) - first, 0)
    with open(path, "rb") as file:
        file.seek(first * SAMPLE_BYTES)
        there = max(os.fstat(file.fileno()).st_size // SAMPLE_BYTES - first, 0)
        return file.read(min(count, there) * SAMPLE_BYTES)


def _work(into: str) -> Path:
    return Path(f"{into}.part")


def _timeline(recording: Recording) -> Timeline:
    if recording.format in _TOLD_BY_TIMES:
        return Timeline(RATE, start=recording.start, longest_gap=_LONGEST_GAP_S)
    return Timeline(RATE, start=recording.start)


def _length(raw: Path) -> float:
    try:
        return raw.stat().st_size / SAMPLE_BYTES / RATE
    except OSError:
        return 0.0


def _output(track: SoundTrack) -> list[str]:
    """Raw samples to a file, and to standard output when each frame of them is to be heard."""
    mixed = []
    if track.layout.endswith("channels") and track.channels > 2:
        # Nobody knows what they are, so each counts the same.
        mixed = ["pan=mono|c0<" + "+".join(f"c{number}" for number in range(track.channels))]
    filters = [*mixed, "aformat=channel_layouts=mono", f"aresample={RATE}"]
    return [
        "-map", f"0:{track.stream}",
        "-af", ",".join((*filters, f"asetnsamples=n={_FRAME}:p=0")),
        "-map_metadata", "-1", "-map_chapters", "-1",
        "-c:a", "pcm_s16le", "-fflags", "+bitexact",
        "-f", "tee", r"[f=s16le:onfail=abort]file\:raw|[f=framecrc:onfail=abort]pipe\:1",
    ]  # fmt: skip


def _refuse_longer(seconds: float | None, max_seconds: float) -> None:
    if seconds is not None and seconds > max_seconds + _MARGIN_S:
        text = f"The recording is longer than the {max_seconds:g} s that are allowed"
        raise FileTooLarge(text, limit_s=max_seconds)


def _check_end(path: str, recording: Recording, ended: Ended, timeline: Timeline) -> None:
    if "No space left on device" in ended.said:
        raise OSError(errno.ENOSPC, "ffmpeg cannot write")
    if _NO_DECODER.search(ended.said):
        raise UnsupportedFile("ffmpeg has no decoder for the sound in the file")
    is_useless = ended.code or timeline.seconds <= 0
    # Now and then ffmpeg makes something of what is encrypted, and only complains.
    if recording.format == "mp4" and (is_useless or ended.said.strip()) and is_protected(path):
        raise FileEncrypted("The sound in the file is encrypted: only its shop can play it")
    if is_useless:
        raise FileCorrupt("The sound in the file cannot be decoded: it is damaged")


def _complains(ended: Ended, recording: Recording) -> bool:
    """Not of pictures: those of a film that was cut out of a longer one begin with a broken one."""
    of_pictures = tuple(f"[{picture.codec} @" for picture in recording.pictures)
    lines = [line.strip() for line in ended.said.splitlines()]
    return any(
        line and not line.startswith((*of_pictures, "[vist#", "Last message repeated"))
        for line in lines
    )


def _judged(path: str, recording: Recording, timeline: Timeline, *, is_damaged: bool) -> Decoded:
    """A few broken frames do no harm, and neither does an end that is missing: it is told."""
    missing = _missing(timeline.seconds, recording, is_damaged=is_damaged)
    lost = timeline.gaps if is_damaged else 0.0
    if recording.format == "ogg":
        # Its length stands at its very end: what is missing is before that.
        lost, missing = lost + missing, 0.0
    elif is_damaged and recording.format in ("aac", "mp3"):
        share = share_between_frames(path, recording.format)
        lost = max(lost, timeline.seconds * share / (1 - share))
    tolerated = max(_TOLERATED_S, _TOLERATED * timeline.seconds)
    if lost > tolerated:
        text = f"The file is damaged: about {lost:.0f} s of its sound cannot be decoded"
        raise FileCorrupt(text, missing_s=round(lost, 1))
    return Decoded(
        seconds=timeline.seconds,
        samples=round(timeline.seconds * RATE),
        gaps=timeline.gaps,
        missing=missing if missing > tolerated else 0.0,
        is_damaged=is_damaged,
    )


def _missing(seconds: float, recording: Recording, *, is_damaged: bool) -> float:
    """At the end, in seconds. A film may go on without sound."""
    if recording.duration is None or recording.is_estimated:
        return 0.0
    if recording.pictures and not is_damaged:
        return 0.0
    return max(recording.duration - seconds, 0.0)


def _named(error: OSError) -> Exception:
    if error.errno not in DISK_FULL_ERRNOS:
        return error
    return DiskFull("There is no room on the disk for the sound of the recording")
