"""Times real time: the bare engines in a process each, ours through whole jobs, in turn."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from arena import Failed, noting_failure
from documents.reading import read
from documents.service import Service, serving
from documents.tools import Tool

from tests.speech import word_error_rate

from .engines import YARDSTICKS
from .sounds import Talk, count_pieces, marked, talk, write_wav

TOLD = "language told"
#: Heard by a bare engine before it is measured.
FIRST_S = 5


@dataclass(frozen=True)
class Sample:
    wall_s: float
    cpu_s: float
    text: str


@dataclass
class Pace:
    """Of one engine, or of one service, a sample for each round."""

    name: str
    version: str = ""
    wall_s: list[float] = field(default_factory=list)
    times_real: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    #: Of the last round, for each word said.
    error_rate: float | None = None
    #: The pace over that of a bare engine in the same round, by its name.
    times_bare: dict[str, list[float]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


@dataclass
class Hearing:
    seconds: float
    words: int
    #: Of the sound; each is heard by one process.
    pieces: int
    paces: dict[str, Pace]


#: Hears the sound in the round of this number.
Ear = Callable[[int], Sample]


def our_name(processes: int, *, told: bool = False) -> str:
    name = f"secretary, {processes} process{'es' if processes > 1 else ''}"
    return f"{name}, {TOLD}" if told else name


def measure_hearing(
    work: Path, root: Path, *, seconds: float, warm_up_s: float, rounds: int
) -> Hearing:
    said = talk(seconds)
    file = write_wav(said.sound, root / "talk.wav")
    first = write_wav(talk(FIRST_S).sound, root / "first.wav")
    warm_up = write_wav(talk(warm_up_s).sound, root / "warm-up.wav")
    with ExitStack() as stack:
        ears: dict[str, Ear] = {}
        paces = {tool.name: Pace(tool.name) for tool in YARDSTICKS}
        for tool in YARDSTICKS:
            ears[tool.name] = _bare(tool, paces[tool.name], first, file, work)
        for count in (1, 2):
            service = stack.enter_context(serving(root, root, processes=count))
            service.read(warm_up, job_type="audio", source_language="en")
            for told in (False, True) if count > 1 else (False,):
                name = our_name(count, told=told)
                ears[name], paces[name] = _ours(service, file, name, told), Pace(name)
        pieces = count_pieces(said, root)
        hearing = Hearing(said.seconds, len(said.words.split()), pieces, paces)
        for number in range(rounds):
            # There and back again: what a machine does over time hits all alike.
            order = list(ears) if number % 2 == 0 else list(reversed(ears))
            _measure_round(hearing, {name: ears[name] for name in order}, number, said)
    return hearing


def _measure_round(hearing: Hearing, ears: dict[str, Ear], number: int, said: Talk) -> None:
    speeds: dict[str, float] = {}
    for name, ear in ears.items():
        pace = hearing.paces[name]
        if pace.failures:
            continue  # what has failed once would cost its time each round
        with noting_failure(pace.failures):
            sample = ear(number)
            speeds[name] = said.seconds / sample.wall_s
            pace.times_real.append(speeds[name])
            pace.wall_s.append(sample.wall_s)
            pace.cpu_s.append(sample.cpu_s)
            pace.error_rate = word_error_rate(said.words, sample.text)
    for name, times_bare in ratios(speeds, [tool.name for tool in YARDSTICKS]).items():
        for bare, ratio in times_bare.items():
            hearing.paces[name].times_bare.setdefault(bare, []).append(ratio)


def ratios(speeds: dict[str, float], bare: Sequence[str]) -> dict[str, dict[str, float]]:
    """Of each speed to each bare one that was measured in the same round."""
    return {
        name: {other: speed / speeds[other] for other in bare if other in speeds}
        for name, speed in speeds.items()
    }


def _bare(tool: Tool, pace: Pace, first: Path, file: Path, work: Path) -> Ear:
    """In a process that has heard something before, as ours have."""

    def hear(number: int) -> Sample:
        readings = read(tool, [first, file], work)
        pace.version = readings.version
        if error := readings.failures.get(file.stem):
            raise Failed(error)
        name = file.stem
        return Sample(readings.wall_s[name], readings.cpu_s[name], readings.texts[name])

    return hear


def _ours(service: Service, file: Path, name: str, told: bool) -> Ear:
    options = {"source_language": "en"} if told else {}

    def hear(number: int) -> Sample:
        fresh = marked(file, f"{name} {number}")
        before = service.tree.cpu_seconds()
        done = service.read(fresh, job_type="audio", **options)
        cpu_s = service.tree.cpu_seconds() - before
        fresh.unlink()
        if done.from_cache:
            raise Failed("the recording was known already")
        return Sample(done.client_s, cpu_s, done.job["results"]["transcription"]["text"])

    return hear
