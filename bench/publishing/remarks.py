"""What is written by hand of a part, and kept beside its results: `bench/remarks/<part>.md`.

The first line is the title, the text below it says what is measured, and the chapters that follow
stand behind the figures: where we are behind and why, what was tried. Links are those of the page,
which is `docs/benchmarks.md`."""

import re
from dataclasses import dataclass
from pathlib import Path

CHAPTER = re.compile(r"(?m)^## ")


@dataclass(frozen=True)
class Remarks:
    title: str
    measured: str
    chapters: str


def read(directory: Path, part: str) -> Remarks:
    text = (directory / f"{part}.md").read_text(encoding="utf-8")
    title, _, rest = text.partition("\n")
    begin = found.start() if (found := CHAPTER.search(rest)) else len(rest)
    return Remarks(
        title=title.removeprefix("# ").strip(),
        measured=rest[:begin].strip(),
        # One level below the part's own heading.
        chapters=CHAPTER.sub("### ", rest[begin:]).strip(),
    )
