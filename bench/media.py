"""Recordings: how fast they are heard, beside the bare engines, in one run on one machine.

    make bench-media ARGS="[--quick] [--only speed,decoding,memory] [--minutes 10] [--json FILE]"

Engines and services are measured in turn, round after round, there and back again, so that noise
hits all alike. Ours is measured through whole jobs: handed in by HTTP, queued, decoded and heard in
child processes, results written, the end told by the stream. What is compared is told in
`recordings/hearing.py`, `recordings/decoding.py` and `recordings/memory.py`.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import media_report
import program
from arena import noting_failure
from program import WORK, say
from recordings import memory
from recordings.decoding import CODERS, Decoding, measure_decoding
from recordings.hearing import Hearing, measure_hearing
from recordings.memory import Length, Peak

PARTS = ("speed", "decoding", "memory")


@dataclass(frozen=True)
class Plan:
    minutes: float = 10
    #: So much that both child processes have something to hear.
    warm_up_s: float = 150
    #: Even, for each second one goes backwards.
    rounds: int = 4
    decoded_minutes: float = 20
    decoding_rounds: int = 4
    kinds: tuple[str, ...] = tuple(CODERS)
    #: The longest has as much speech as the one before.
    lengths: tuple[Length, ...] = (
        Length("1 minute", 60),
        Length("1 hour", 300, times=12),
        Length("6 hours", 120, quiet_s=600, times=30),
    )


QUICK = Plan(
    minutes=0.7,
    warm_up_s=5,
    rounds=1,
    decoded_minutes=2,
    decoding_rounds=2,
    lengths=(Length("some seconds", 20), Length("1 hour", 20, quiet_s=580, times=6)),
)


@dataclass
class Run:
    hearing: Hearing | None = None
    decoding: list[Decoding] = field(default_factory=list)
    memory: list[Peak] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def all_failures(self) -> list[str]:
        parts = media_report.failures(self.hearing, self.decoding, self.memory)
        return [*self.failures, *parts]


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    plan = QUICK if options.quick else Plan()
    if options.minutes:
        plan = replace(plan, minutes=options.minutes)
    run = Run()
    with program.workplace() as place:
        for part in options.only:
            say(part)
            with noting_failure(run.failures, part):
                _measure(part, run, plan, place.root)
        machine = place.machine()
    text = _text(run, plan, machine)
    print(text)
    if options.markdown:
        options.markdown.write_text(text + "\n")
    program.keep(options.json, machine, plan, **asdict(run))
    return 1 if run.all_failures() else 0


def _measure(part: str, run: Run, plan: Plan, root: Path) -> None:
    match part:
        case "speed":
            run.hearing = measure_hearing(
                WORK,
                root,
                seconds=plan.minutes * 60,
                warm_up_s=plan.warm_up_s,
                rounds=plan.rounds,
            )
        case "decoding":
            minutes, rounds = plan.decoded_minutes, plan.decoding_rounds
            run.decoding = measure_decoding(root, minutes=minutes, rounds=rounds, kinds=plan.kinds)
        case "memory":
            run.memory = memory.measure_memory(root, plan.lengths)


def _text(run: Run, plan: Plan, machine: str) -> str:
    parts = []
    if run.hearing:
        parts += [
            media_report.hearing_table(run.hearing),
            media_report.hearing_notes(run.hearing, plan.rounds),
            media_report.aims(run.hearing),
        ]
    if run.decoding:
        notes = {"minutes": plan.decoded_minutes, "rounds": plan.decoding_rounds}
        parts.append(media_report.decoding_table(run.decoding))
        parts.append(media_report.DECODING_NOTES.format(**notes))
    if run.memory:
        parts.append(media_report.memory_table(run.memory))
        parts.append(media_report.MEMORY_NOTES.format(processes=memory.PROCESSES))
    if failures := run.all_failures():
        parts.append("Failed:\n" + "\n".join(failures))
    return "\n\n".join([*parts, machine])


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = program.parser("media.py", __doc__)
    parser.add_argument("--only", type=program.some_of(PARTS), default=PARTS, help=program.ONLY)
    parser.add_argument("--minutes", type=float, help="of the talk by which speed is measured")
    parser.add_argument("--markdown", type=Path, help="file for the tables")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    program.run(main)
