"""Damages good documents at random and hands them to the processors, in a sandbox as a worker does.

By hand, for as long as you like: python -m tests.fuzzing.documents --seconds 60 --seed 7
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from secretary.errors import JobFailed
from secretary.file_kinds import OFFICE, PICTURES, kind_of
from secretary.processors.methods import METHODS
from secretary.processors.office_pages import make_office_pages
from secretary.processors.page_task import PageTask
from secretary.processors.pdf.pages import inspect_pdf, make_pdf_pages
from secretary.processors.picture_pages import inspect_picture, make_picture_pages
from secretary.processors.shelf import Shelf
from secretary.sandbox import Limits, Sandbox
from secretary.sandbox.inside import send

from ..documents import zipped
from ..good_files import GOOD
from ..hostile_office import members

#: What numbers, names and marks are replaced by.
TOKENS = (
    b"",
    b"0",
    b"-1",
    b"1",
    b"65536",
    b"2147483647",
    b"-2147483648",
    b"99999999999999999999",
    b"1e308",
    b"nan",
    b"\0",
    b"\xff",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"<",
    b">",
    b"/",
    b"<<",
    b">>",
    b"[",
    b"]",
    b"(",
    b")",
    b" 0 R",
    b"stream\n",
    b"endobj",
    b"&#0;",
    b"&x;",
    b"}",
    b"{",
    b"\\",
    b"\xed\xa0\x80",
    b"\xe2\x80\xae",
    b"PK\x03\x04",
    b"null",
)
LIMITS = Limits(wall_time=timedelta(seconds=20), memory_bytes=1024 * 1024 * 1024)
MAX_PIXELS = 4_000_000
LANES = 2

Batch = Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Defect:
    """What is neither a result nor an error with a name; the number makes it again."""

    name: str
    seed: int
    fault: str


def damaged(name: str, seed: int) -> bytes:
    """Always the same for the same seed."""
    chance = random.Random(f"{name} {seed}")
    content = GOOD[name]()
    if not content.startswith(b"PK") or chance.random() < 0.2:
        hurt = bytes(_hurt(bytearray(content), chance))
        return _with_checksums(hurt) if name.endswith(".png") else hurt
    parts = members(content)
    victim = chance.choice(sorted(parts))
    return zipped(parts | {victim: bytes(_hurt(bytearray(parts[victim]), chance))})


def _hurt(content: bytearray, chance: random.Random) -> bytearray:
    for _ in range(chance.choice((1, 1, 2, 3, 8, 30))):
        at = chance.randrange(len(content) + 1)
        match chance.randrange(7):
            case 0 | 1 if at < len(content):
                content[at] ^= 1 << chance.randrange(8)
            case 2:
                content[at : at + chance.randrange(8)] = chance.choice(TOKENS)
            case 3:
                start = chance.randrange(len(content) + 1)
                content[at:at] = content[start : start + chance.randrange(200)]
            case 4:
                del content[at : at + chance.randrange(100)]
            case 5:
                _change_number(content, at, chance)
            case _ if chance.random() < 0.1:
                del content[at:]
    return content


def _change_number(content: bytearray, at: int, chance: random.Random) -> None:
    digits = b"0123456789"
    while at < len(content) and content[at] not in digits:
        at += 1
    end = at
    while end < len(content) and content[end] in digits:
        end += 1
    content[at:end] = chance.choice(TOKENS[:10])


def _with_checksums(content: bytes) -> bytes:
    """A PNG whose chunks are believed: else no reader would look at the damage."""
    mended, at = bytearray(content), 8
    while at + 12 <= len(mended):
        end = at + 8 + int.from_bytes(mended[at : at + 4], "big")
        if end + 4 > len(mended):
            break
        mended[end : end + 4] = zlib.crc32(mended[at + 4 : end]).to_bytes(4, "big")
        at = end + 4
    return bytes(mended)


def try_all(cases: Batch) -> list[Defect]:
    """Runs in the sandbox."""
    found = []
    for name, seed in cases:
        send((name, seed))
        fault = _fault(name, seed)
        if fault:
            found.append(Defect(name, seed, fault))
    return found


def _fault(name: str, seed: int) -> str | None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, name)
        path.write_bytes(damaged(name, seed))
        try:
            _process(path, Path(directory))
        except (JobFailed, MemoryError):  # the worker has a name for this one too
            return None
        except Exception:  # what this is to find
            return traceback.format_exc()
    return None


def _process(path: Path, directory: Path) -> None:
    kind = kind_of(path)
    shelf = Shelf(str(directory / "kept"), str(directory / "shown"))
    for each in (shelf.directory, shelf.shown):
        Path(each).mkdir()
    if kind in OFFICE:
        make_office_pages(str(path), kind or "", path.name, shelf, str(directory), True)
    elif kind == "pdf" or kind in PICTURES:
        _make_pages(path, kind, shelf, directory)


def _make_pages(path: Path, kind: str, shelf: Shelf, directory: Path) -> None:
    method = "preview_and_native" if kind == "pdf" else "preview"
    task = PageTask(
        path=str(path),
        method=METHODS[method],
        method_name=method,
        shelf=shelf,
        scratch=str(directory),
        max_pixels=MAX_PIXELS,
    )
    if kind == "pdf":
        pages = inspect_pdf(str(path), None)["page_count"]
        make_pdf_pages(task, range(1, min(pages, 3) + 1))
    else:
        inspect_picture(str(path), MAX_PIXELS)
        make_picture_pages(task, [1])


def cases(seed: int) -> Iterator[tuple[str, int]]:
    while True:
        for name in GOOD:
            yield name, seed
        seed += 1


@dataclass(slots=True)
class Survey:
    tried: int = 0
    #: Neither a result nor an error with a name.
    defects: list[Defect] = field(default_factory=list)
    #: Their process met a limit, or died; the worker would say so.
    ended: list[Defect] = field(default_factory=list)

    async def run(self, batches: Iterator[Batch]) -> None:
        sandbox = Sandbox(LANES, limits=LIMITS)
        await sandbox.open()
        try:
            await asyncio.gather(*(self._lane(sandbox, batches) for _ in range(LANES)))
        finally:
            await sandbox.close()

    async def _lane(self, sandbox: Sandbox, batches: Iterator[Batch]) -> None:
        for batch in batches:
            begun = [batch[0]]
            try:
                self.defects += await sandbox.run(try_all, batch, on_message=begun.append)
            except JobFailed as error:
                self.ended.append(Defect(*begun[-1], f"{error.code}: {error.message}"))
            self.tried += len(batch)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.seconds
    every = (case for case in cases(arguments.seed) if arguments.only in case[0])

    def batches() -> Iterator[Batch]:
        while time.monotonic() < deadline:
            yield [next(every) for _ in range(20)]

    survey = Survey()
    asyncio.run(survey.run(batches()))
    for defect in (*survey.defects, *survey.ended):
        print(f"--- {defect.name} {defect.seed}\n{defect.fault}")
    defects, ended = len(survey.defects), len(survey.ended)
    print(f"{survey.tried} tried, {defects} without a name, {ended} ended their process")
    sys.exit(bool(survey.defects))


if __name__ == "__main__":
    # By its own name: what is called in the sandbox has to be found there.
    from tests.fuzzing import documents

    documents.main()
