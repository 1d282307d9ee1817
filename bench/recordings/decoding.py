"""From a file to raw sound: ours beside the plain ffmpeg command, in turn."""

import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from arena import Failed

from secretary.core.errors import JobFailed
from secretary.media.pcm import decode_audio, select_audio_track
from secretary.media.probe import probe
from secretary.media.recording import Recording

from .sounds import ffmpeg, talk, write_wav

BLOCK_S = 60
LIMIT_S = 24 * 60 * 60
#: As most recordings come: two channels, at a rate that has to be changed.
CODERS: dict[str, tuple[str, ...]] = {
    "mp3": ("-ac", "2", "-ar", "44100", "-c:a", "libmp3lame", "-b:a", "128k"),
    "m4a": ("-ac", "2", "-ar", "44100", "-c:a", "aac", "-b:a", "128k"),
    "opus": ("-ac", "2", "-ar", "48000", "-c:a", "libopus", "-b:a", "64k"),
    "mp4": ("-ac", "2", "-ar", "48000", "-c:a", "aac", "-b:a", "128k"),
}
PICTURES = ("-f", "lavfi", "-i", "testsrc2=size=640x360:rate=10")
#: Seconds that the two may differ, by what coders put before the beginning.
SAME = 0.2


@dataclass
class Decoding:
    kind: str
    seconds: float
    ours_s: list[float] = field(default_factory=list)
    ours_cpu_s: list[float] = field(default_factory=list)
    plain_s: list[float] = field(default_factory=list)
    plain_cpu_s: list[float] = field(default_factory=list)
    #: To find out what is in the file, before it is decoded.
    look_s: list[float] = field(default_factory=list)
    #: Our pace over that of the plain command in the same round.
    times_plain: list[float] = field(default_factory=list)
    failure: str | None = None


def measure_decoding(
    root: Path, *, minutes: float, rounds: int, kinds: Sequence[str]
) -> list[Decoding]:
    block = write_wav(talk(BLOCK_S).sound, root / "block.wav")
    found = []
    for kind in kinds:
        decoding = Decoding(kind, minutes * 60)
        found.append(decoding)
        try:
            file = _made(block, kind, minutes * 60)
            for number in range(rounds):
                _measure(decoding, file, ours_first=number % 2 == 0)
            file.unlink()
        except (Failed, JobFailed) as failure:
            decoding.failure = str(failure)
    return found


def _made(block: Path, kind: str, seconds: float) -> Path:
    target = block.with_name(f"decoding.{kind}")
    pictures = (*PICTURES, "-c:v", "mpeg4") if kind == "mp4" else ()
    # Options of the output come behind all inputs.
    inputs = ("-stream_loop", -1, "-i", block, *pictures[: len(PICTURES)])
    ffmpeg(*inputs, *pictures[len(PICTURES) :], *CODERS[kind], "-t", seconds, target)
    return target


def _measure(decoding: Decoding, file: Path, *, ours_first: bool) -> None:
    ours, plain = file.with_name("ours.raw"), file.with_name("plain.raw")
    started = time.perf_counter()
    recording = probe(str(file))
    decoding.look_s.append(time.perf_counter() - started)

    def by_us() -> None:
        _ours(file, ours, recording)

    def by_command() -> None:
        ffmpeg("-i", file, "-ac", 1, "-ar", 16000, "-f", "s16le", plain)

    if ours_first:
        our_time, plain_time = _timed(by_us), _timed(by_command)
    else:
        plain_time, our_time = _timed(by_command), _timed(by_us)
    lengths = [path.stat().st_size / 32000 for path in (ours, plain)]
    for path in (ours, plain):
        path.unlink()
    if abs(lengths[0] - lengths[1]) > SAME:
        raise Failed(f"ours is {lengths[0]:.2f} s long and that of ffmpeg {lengths[1]:.2f} s")
    for times, cpu_times, (wall_s, cpu_s) in (
        (decoding.ours_s, decoding.ours_cpu_s, our_time),
        (decoding.plain_s, decoding.plain_cpu_s, plain_time),
    ):
        times.append(wall_s)
        cpu_times.append(cpu_s)
    decoding.times_plain.append(plain_time[0] / our_time[0])


def _ours(file: Path, target: Path, recording: Recording) -> None:
    track = select_audio_track(recording.audio_tracks)
    if track is None:
        raise Failed("no sound is found in the file")
    decode_audio(
        str(file),
        str(target),
        recording=recording,
        track=track,
        max_seconds=LIMIT_S,
        timeout_s=LIMIT_S,
    )


def _timed(work: Callable[[], None]) -> tuple[float, float]:
    """Seconds, and those of the processor, with those of programs that were started for it."""
    before, started = _cpu_seconds(), time.perf_counter()
    work()
    return time.perf_counter() - started, _cpu_seconds() - before


def _cpu_seconds() -> float:
    both = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return sum(sum(resource.getrusage(who)[:2]) for who in both)
