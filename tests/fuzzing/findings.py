"""Reports what a campaign has found and stores what is needed to reproduce it."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from .cases import Case

#: The default directory for findings.
DIRECTORY = Path("fuzz-finds")


@dataclass(frozen=True, slots=True)
class Find:
    case: Case
    fault: str

    @property
    def command(self) -> str:
        return f'make fuzz ARGS="--case {self.case}"'

    def __str__(self) -> str:
        return f"--- {self.case}\n{self.fault}\nAgain: {self.command}"

    def keep(self, directory: Path = DIRECTORY) -> Path:
        """The file as it was submitted, with the outcome beside it."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{self.case.kind}-{self.case.seed}-{self.case.name}"
        path.write_bytes(self.case.content)
        path.with_name(f"{path.name}.txt").write_text(f"{self.fault}\n\nAgain: {self.command}\n")
        return path


@dataclass(slots=True)
class Report:
    tried: int = 0
    #: How many were read, and how many failed with which code.
    ends: Counter[str] = field(default_factory=Counter)
    #: Neither a result nor an error with a code, or something was left behind.
    defects: list[Find] = field(default_factory=list)
    #: The engine crashed or hit a limit in its sandbox, and the job reports it.
    deaths: list[Find] = field(default_factory=list)

    def __str__(self) -> str:
        ends = ", ".join(f"{end} {count}" for end, count in self.ends.most_common())
        summary = f"{len(self.defects)} defects, {len(self.deaths)} deaths of an engine"
        return f"{self.tried} tried ({ends}): {summary}"

    def keep(self, directory: Path = DIRECTORY) -> None:
        for find in (*self.defects, *self.deaths):
            print(find)
            print(f"Stored as {find.keep(directory)}")
        print(self)
