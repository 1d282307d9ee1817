"""Decodes an audio track to raw PCM in a file, aligned with the timeline of the recording.

Signed 16-bit little-endian samples, 16 kHz, mono: 115 MB per hour on disk, and no memory. Second 0
is the start of the first track of the recording, even if that is a video track.
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

from ..core import errors
from ..core.files import share_between_frames
from .ffmpeg import FfmpegResult, input_arguments, run_ffmpeg
from .probe import AudioTrack, Recording
from .speech.engines import SAMPLE_RATE

if TYPE_CHECKING:
    import numpy as np

SAMPLE_BYTES = 2
#: ffmpeg's filters take no more.
MAX_CHANNELS = 64
#: Samples per frame that ffmpeg reports: the precision of the timeline.
_FRAME_SAMPLES = SAMPLE_RATE // 20
#: Missing audio, in seconds and as a share, that is not worth a warning.
_TOLERATED_S = 1.0
_TOLERATED_SHARE = 0.01
#: A track may exceed the duration limit by its last frame, or by a still image at the end.
_LIMIT_MARGIN_S = 5
#: Containers whose duration is the difference of the first and last timestamp, which may restart.
_DURATION_FROM_TIMESTAMPS = {"mpeg", "mpegts"}
_MAX_TRANSPORT_GAP_S = 60.0
_NO_DECODER = re.compile(r"no decoder found|decoder \(.*\) not found", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedAudio:
    seconds: float
    #: Seconds of gaps between the first and the last sample; they are silent in the PCM file.
    gaps: float
    #: Seconds missing at the end compared with the declared duration; 0 if the track is complete.
    missing: float
    #: Whether anything could not be decoded, however short.
    is_damaged: bool

    def warnings(self) -> tuple[str, ...]:
        """Messages for the job log."""
        warnings = []
        if self.missing:
            warnings.append(f"The audio is {self.missing:.0f} s shorter than the file declares")
        elif self.is_damaged:
            warnings.append("The audio is damaged in a few places")
        if self.gaps > _TOLERATED_S:
            warnings.append(f"The audio has gaps of {self.gaps:.0f} s in total")
        return tuple(warnings)


def select_audio_track(
    tracks: Iterable[AudioTrack], language: str | None = None
) -> AudioTrack | None:
    """Return the track in this language, else the one that players select."""
    return min(
        tracks,
        key=lambda track: (
            language is None or track.language != language,
            not track.is_default,
            track.stream,
        ),
        default=None,
    )


def decode_audio(
    path: str,
    target: str,
    *,
    recording: Recording,
    track: AudioTrack,
    max_seconds: float,
    timeout_s: float,
    program: str | None = None,
) -> DecodedAudio:
    """Write the track as PCM to the file `target`; `decoded_seconds(target)` shows the progress. A
    track that breaks off early is kept up to there, and the result says so."""
    if not recording.is_estimated and recording.format not in _DURATION_FROM_TIMESTAMPS:
        _check_duration(recording.duration, max_seconds)
    if track.channels > MAX_CHANNELS:
        text = f"The audio has {track.channels} channels; at most {MAX_CHANNELS} can be mixed"
        raise errors.UnsupportedFile(text, channels=track.channels, limit=MAX_CHANNELS)
    work = _work_directory(target)
    shutil.rmtree(work, ignore_errors=True)
    try:
        work.mkdir(parents=True)
        raw = work / "raw"
        has_restarts = recording.format in _DURATION_FROM_TIMESTAMPS
        max_gap = _MAX_TRANSPORT_GAP_S if has_restarts else math.inf
        timeline = Timeline(SAMPLE_RATE, start=recording.start, max_gap=max_gap)

        def check_duration() -> None:
            _check_duration(max(_pcm_seconds(raw), timeline.seconds), max_seconds)

        result = run_ffmpeg(
            ["-copyts", *input_arguments(path), *_output_arguments(track)],
            timeout_s=timeout_s,
            program=program,
            directory=str(work),
            on_output=timeline.feed,
            on_tick=check_duration,
        )
        check_duration()
        is_damaged = _check_result(path, recording, result, timeline)
        decoded = _summarise(path, recording, timeline, is_damaged=is_damaged)
        os.replace(apply_timeline(raw, timeline, work / "whole"), target)
        return decoded
    except OSError as error:
        if error.errno in errors.DISK_FULL_ERRNOS:
            raise errors.DiskFull(
                "There is no space left on the disk for the decoded audio"
            ) from None
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def decoded_seconds(target: str) -> float:
    """Return how much of a track has been decoded so far."""
    path = Path(target)
    return _pcm_seconds(path) if path.exists() else _pcm_seconds(_work_directory(target) / "raw")


def read_samples(path: str, start: float, end: float) -> "np.ndarray":
    """Return the samples between two seconds as floats from -1 to 1; fewer at the end."""
    import numpy as np

    return np.frombuffer(_read_pcm(path, start, end), dtype="<i2").astype(np.float32) / 32768


def read_wav(path: str, start: float, end: float) -> bytes:
    """Return the samples between two seconds as a WAV file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setnchannels(1)
        wav.setsampwidth(SAMPLE_BYTES)
        wav.setframerate(SAMPLE_RATE)
        wav.writeframes(_read_pcm(path, start, end))
    return file.getvalue()


def _read_pcm(path: str, start: float, end: float) -> bytes:
    first = max(round(start * SAMPLE_RATE), 0)
    count = max(round(end * SAMPLE_RATE) - first, 0)
    with open(path, "rb") as file:
        file.seek(first * SAMPLE_BYTES)
        available = max(os.fstat(file.fileno()).st_size // SAMPLE_BYTES - first, 0)
        return file.read(min(count, available) * SAMPLE_BYTES)


def _work_directory(target: str) -> Path:
    return Path(f"{target}.part")


def _pcm_seconds(raw: Path) -> float:
    try:
        return raw.stat().st_size / SAMPLE_BYTES / SAMPLE_RATE
    except OSError:
        return 0.0


def _output_arguments(track: AudioTrack) -> list[str]:
    """Write samples to a file, and the timestamp of each frame to standard output."""
    mix = []
    if track.layout.endswith("channels") and track.channels > 2:
        # With an unknown layout every channel counts the same.
        mix = ["pan=mono|c0<" + "+".join(f"c{number}" for number in range(track.channels))]
    filters = [*mix, "aformat=channel_layouts=mono", f"aresample={SAMPLE_RATE}"]
    return [
        "-map", f"0:{track.stream}",
        "-af", ",".join((*filters, f"asetnsamples=n={_FRAME_SAMPLES}:p=0")),
        "-map_metadata", "-1", "-map_chapters", "-1",
        "-c:a", "pcm_s16le", "-fflags", "+bitexact",
        "-f", "tee", r"[f=s16le:onfail=abort]file\:raw|[f=framecrc:onfail=abort]pipe\:1",
    ]  # fmt: skip


def _check_duration(seconds: float | None, max_seconds: float) -> None:
    if seconds is not None and seconds > max_seconds + _LIMIT_MARGIN_S:
        text = f"The recording is longer than the limit of {max_seconds:g} s"
        raise errors.FileTooLarge(text, limit_s=max_seconds)


def _check_result(
    path: str, recording: Recording, result: FfmpegResult, timeline: "Timeline"
) -> bool:
    """Return whether the audio is damaged; raise if it is useless."""
    if "No space left on device" in result.stderr:
        raise OSError(errno.ENOSPC, "ffmpeg cannot write")
    if _NO_DECODER.search(result.stderr):
        raise errors.UnsupportedFile("ffmpeg has no decoder for the audio in the file")
    is_useless = result.exit_code or timeline.seconds <= 0
    # ffmpeg sometimes decodes encrypted audio to noise and only logs errors.
    has_errors = is_useless or result.stderr.strip()
    if recording.format == "mp4" and has_errors and is_drm_protected(path):
        raise errors.FileEncrypted("The audio in the file is encrypted (DRM)")
    if is_useless:
        raise errors.FileCorrupt("The audio in the file is damaged and cannot be decoded")
    # Errors in video do not count: a clip cut out of a longer one starts with a broken frame.
    video = tuple(f"[{track.codec} @" for track in recording.video_tracks)
    ignored = (*video, "[vist#", "Last message repeated")
    lines = (line.strip() for line in result.stderr.splitlines())
    return any(line and not line.startswith(ignored) for line in lines)


#: MP4 sample entries of encrypted audio, by MPEG and by Apple. A `frma` box with the original
#: format follows within a few bytes; without it the four letters occur by chance.
_ENCRYPTED = [re.compile(rb"(?s)%b.{0,4088}?frma" % entry) for entry in (b"enca", b"drms")]


def is_drm_protected(path: str) -> bool:
    """Whether the audio of an MP4 file is encrypted."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return any(pattern.search(content) for pattern in _ENCRYPTED)


def _summarise(
    path: str, recording: Recording, timeline: "Timeline", *, is_damaged: bool
) -> DecodedAudio:
    """Raise if too much is lost in the middle. A few broken frames or a missing end are accepted
    and reported."""
    declared = 0.0 if recording.is_estimated else recording.duration or 0.0
    # A video may go on without audio, so its duration counts only if the audio is damaged.
    is_counted = is_damaged or not recording.video_tracks
    missing = max(declared - timeline.seconds, 0.0) if is_counted else 0.0
    lost = timeline.gaps if is_damaged else 0.0
    if recording.format == "ogg":
        # The duration comes from the last page, so anything missing is before that.
        lost, missing = lost + missing, 0.0
    elif is_damaged and recording.format in ("aac", "mp3"):
        share = share_between_frames(path, recording.format)
        lost = max(lost, timeline.seconds * share / (1 - share))
    tolerated = max(_TOLERATED_S, _TOLERATED_SHARE * timeline.seconds)
    if lost > tolerated:
        text = f"The file is damaged: about {lost:.0f} s of its audio cannot be decoded"
        raise errors.FileCorrupt(text, missing_s=round(lost, 1))
    return DecodedAudio(
        seconds=timeline.seconds,
        gaps=timeline.gaps,
        missing=missing if missing > tolerated else 0.0,
        is_damaged=is_damaged,
    )


# The timeline -----------------------------------------------------------------------------------

_COPY_BYTES = 1024 * 1024
#: Seconds. Timestamps are often slightly off; following them exactly would tear words apart.
_JITTER = 0.1
#: Audio that starts this close to second 0 is not moved: the start that WebM declares may include
#: the 6.5 to 20 ms of padding that decoders drop.
_START_TOLERANCE = 0.025
#: A jump of the timestamps that does not last this long is an error in them, not a gap.
_MIN_JUMP = 0.5
#: Timestamps that go back further than this were restarted; the audio is not a repetition.
_MAX_OVERLAP = 1.0
#: ffmpeg's lines are far shorter.
_MAX_LINE = 1000


class TimelineAnchor(NamedTuple):
    """From sample `raw` of the decoded file on, audio belongs at sample `position`."""

    raw: int
    position: int


class Timeline:
    """Collects frame timestamps from the output of ffmpeg's framecrc muxer: stream, dts, pts,
    duration, bytes, checksum. `start`, in seconds, becomes second 0. A jump by more than `max_gap`
    seconds means that the timestamps were restarted."""

    def __init__(self, rate: int, *, start: float = 0.0, max_gap: float = math.inf) -> None:
        self._rate = rate
        self._start = round(start * rate)
        self._max_gap = max_gap
        self._partial_line = b""
        #: The number of decoded samples, without gaps.
        self.samples = 0
        self.anchors: tuple[TimelineAnchor, ...] = ()
        #: Added to timestamps after a restart.
        self._offset = 0
        self._candidate: TimelineAnchor | None = None

    @property
    def seconds(self) -> float:
        """From second 0 to the end of the last sample."""
        if not self.anchors:
            return 0.0
        last = self.anchors[-1]
        return max(last.position + self.samples - last.raw, 0) / self._rate

    @property
    def gaps(self) -> float:
        """Seconds without audio after the first sample."""
        gaps = (
            after.position - before.position - (after.raw - before.raw)
            for before, after in pairwise(self.anchors)
        )
        return sum(max(gap, 0) for gap in gaps) / self._rate

    def feed(self, data: bytes) -> None:
        lines = (self._partial_line + data).split(b"\n")
        self._partial_line = lines.pop()[-_MAX_LINE:]
        for line in lines:
            fields = line.split(b",")
            if len(fields) != 6 or line.startswith(b"#"):
                continue
            position = int(fields[2]) - self._start
            if self.anchors:
                self._check_for_jump(position + self._offset)
            else:
                starts_at_zero = abs(position) < _START_TOLERANCE * self._rate
                self.anchors = (TimelineAnchor(0, 0 if starts_at_zero else position),)
            self.samples += int(fields[4]) // SAMPLE_BYTES

    def _check_for_jump(self, position: int) -> None:
        last = self.anchors[-1]
        if self._continues(last, position):
            self._candidate = None
            return
        candidate = self._candidate
        if candidate is None or not self._continues(candidate, position):
            self._candidate = TimelineAnchor(self.samples, position)
        elif self.samples - candidate.raw >= _MIN_JUMP * self._rate:
            self._candidate = None
            jump = candidate.position - (last.position + candidate.raw - last.raw)
            if -_MAX_OVERLAP * self._rate <= jump <= self._max_gap * self._rate:
                self.anchors += (candidate,)
            else:
                self._offset -= jump

    def _continues(self, anchor: TimelineAnchor, position: int) -> bool:
        expected = anchor.position + self.samples - anchor.raw
        return abs(position - expected) <= _JITTER * self._rate


def apply_timeline(raw: Path, timeline: Timeline, target: Path) -> Path:
    """Return a file with all samples at their positions: `raw` itself if nothing has to move. Gaps
    become holes in the file, which most file systems store without using space."""
    anchors = timeline.anchors
    if anchors == (TimelineAnchor(0, 0),):
        return raw
    ends = [anchor.raw for anchor in anchors[1:]] + [timeline.samples]
    with raw.open("rb") as source, target.open("wb") as output:
        for anchor, end in zip(anchors, ends, strict=False):
            skipped = max(-anchor.position, 0)
            source.seek((anchor.raw + skipped) * SAMPLE_BYTES)
            output.seek(max(anchor.position, 0) * SAMPLE_BYTES)
            size = (end - anchor.raw - skipped) * SAMPLE_BYTES
            while size > 0 and (data := source.read(min(size, _COPY_BYTES))):
                size -= output.write(data)
    return target
