"""The figures of the recordings benchmark as tables."""

import statistics
from collections.abc import Iterable, Sequence

import report
from recordings.decoding import Decoding
from recordings.engines import ALONE, FASTER_WHISPER, WINDOWS, YARDSTICKS
from recordings.hearing import Hearing, Pace, our_name
from recordings.memory import Peak

HEARING_NOTES = """\
{minutes:.1f} minutes, {words:,} words, real and made voices with pauses; medians of {rounds}
round(s); "~": the highest was more than 1.5 times the lowest. All with the same weights (tiny.en,
int8). {faster}: `model.transcribe(file)` with its defaults, cpu_threads=1.
{windows}: up to 29 seconds after the other, cut at pauses.
{alone}: decoded, searched for speech, cut, and four windows heard at once.
These three run in one process that has heard something before. Secretary: from the request to
the stream's word that the job is completed; CPU s with the service. Cores: CPU s over seconds.
Times …: round by round. It is heard in {pieces} piece(s), each by one process: two processes gain
nothing with one piece. Language told: else the beginning is judged, whether it is understood."""
DECODING_NOTES = """\
{minutes:g} minutes as a file, two channels, at 44.1 or 48 kHz; medians of {rounds} round(s). Plain:
`ffmpeg -i FILE -ac 1 -ar 16000 -f s16le OUT` by the same program. Times plain: how many times as
fast ours is, round by round. To look in: what is found out about the file before."""
MEMORY_NOTES = """\
The most at any time, {processes} child processes. Child: the largest that listens. ffmpeg: nothing
where it ended before anybody looked. Together: all at one time, what they share counted once.
Scratch: files of the job on the disk, gone at its end. Speech: its share of the recording; the rest
is quiet noise in which nobody speaks, so that the run takes minutes: decoded and searched for
speech is the whole length, heard is the speech."""

#: By the number of child processes.
AIMS = {1: 0.95, 2: 1.7}


def hearing_table(hearing: Hearing) -> str:
    titles = ["times real time", "s", "CPU s", "cores", "WER %"]
    lines = [["", *titles, *(f"times {tool.name}" for tool in YARDSTICKS)]]
    for pace in hearing.paces.values():
        rate = None if pace.error_rate is None else pace.error_rate * 100
        cores = [cpu / wall for cpu, wall in zip(pace.cpu_s, pace.wall_s, strict=True)]
        figures = map(report.median, (pace.times_real, pace.wall_s, pace.cpu_s, cores))
        lines.append([_name(pace), *figures, report.number(rate), *_times_bare(pace)])
    return report.table(lines)


def _name(pace: Pace) -> str:
    # Of ours the version is a digest.
    return f"{pace.name} {pace.version}" if pace.name == FASTER_WHISPER.name else pace.name


def _times_bare(pace: Pace) -> list[str]:
    return [
        "1"
        if tool.name == pace.name and pace.times_real
        else report.median(pace.times_bare.get(tool.name, []))
        for tool in YARDSTICKS
    ]


def hearing_notes(hearing: Hearing, rounds: int) -> str:
    return HEARING_NOTES.format(
        minutes=hearing.seconds / 60,
        words=hearing.words,
        rounds=rounds,
        pieces=hearing.pieces,
        faster=FASTER_WHISPER.name,
        windows=WINDOWS.name.capitalize(),
        alone=ALONE.name.capitalize(),
    )


def decoding_table(found: Iterable[Decoding]) -> str:
    lines = [["", "ours s", "plain s", "times plain", "ours CPU s", "plain CPU s", "to look in s"]]
    for one in found:
        series = (one.ours_s, one.plain_s, one.times_plain, one.ours_cpu_s, one.plain_cpu_s)
        lines.append([one.kind, *map(report.median, series), report.median(one.look_s)])
    return report.table(lines)


def memory_table(peaks: Iterable[Peak]) -> str:
    titles = ["min", "speech %", "service MB", "child MB", "ffmpeg MB", "together MB"]
    lines = [["recording of", *titles, "scratch MB", "took s"]]
    for peak in peaks:
        figures = (
            peak.seconds / 60,
            peak.length.share_of_speech * 100,
            peak.service_mb,
            peak.child_mb,
            peak.ffmpeg_mb,
            peak.together_mb,
            peak.scratch_mb,
            peak.took_s,
        )
        seen = ["" if figure is None else report.number(figure) for figure in figures]
        lines.append([peak.length.name, *(["failed"] * len(seen) if peak.failure else seen)])
    return report.table(lines)


def aims(hearing: Hearing) -> str:
    """What is aimed at, beside each of the bare engines, and what this run has."""
    lines = [["aim", "wanted", "found", "reached"]]
    for tool in YARDSTICKS:
        for count, aim in AIMS.items():
            for told in (False, True):
                pace = hearing.paces.get(our_name(count, told=told))
                if pace is not None:
                    lines.append(_aim(pace, tool.name, aim))
    return report.table(lines)


def _aim(pace: Pace, bare: str, aim: float) -> list[str]:
    samples = pace.times_bare.get(bare, [])
    value = statistics.median(samples) if samples else None
    reached = "yes" if value is not None and value >= aim else "no"
    return [f"{pace.name}: times {bare}", f">= {aim}", report.number(value), reached]


def failures(
    hearing: Hearing | None, decodings: Sequence[Decoding], peaks: Sequence[Peak]
) -> list[str]:
    paces = hearing.paces.values() if hearing else ()
    said = [f"{pace.name}: {failure}" for pace in paces for failure in pace.failures]
    said += [f"decoding, {one.kind}: {one.failure}" for one in decodings if one.failure]
    said += [f"memory, {peak.length.name}: {peak.failure}" for peak in peaks if peak.failure]
    return said
