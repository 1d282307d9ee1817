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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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

from ..good_files import GOOD

#: What numbers, names and marks are replaced by.
TOKENS = (
    b"", b"0", b"-1", b"1", b"65536", b"2147483647", b"-2147483648", b"99999999999999999999",
    b"1e308", b"nan", b"\0", b"\xff", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"<", b">", b"/",
    b"<<", b">>", b"[", b"]", b"(", b")", b" 0 R", b"stream\n", b"endobj", b"&#0;", b"&x;", b"}",
    b"{", b"\\", b"\xed\xa0\x80", b"\xe2\x80\xae", b"PK\x03\x04", b"null",
)  # fmt: skip
LIMITS = Limits(wall_time=timedelta(seconds=20), memory_bytes=1024 * 1024 * 1024)
MAX_PIXELS = 4_000_000


@dataclass(frozen=True, slots=True)
class Defect:
    """What is neither a result nor an error with a name; the number makes it again."""

    name: str
    seed: int
    fault: str


def damaged(name: str, seed: int) -> bytes:
    """Always the same for the same seed."""
    chance = random.Random(f"{name} {seed}")
    content = bytearray(GOOD[name]())
    parts = (
        _members(bytes(content)) if content.startswith(b"PK") and chance.random() < 0.8 else None
    )
    if parts is None:
        return bytes(_hurt(content, chance))
    victim = chance.choice(sorted(parts))
    parts[victim] = bytes(_hurt(bytearray(parts[victim]), chance))
    return _packed(parts)


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


def _members(content: bytes) -> dict[str, bytes]:
    import io
    import zipfile

    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _packed(parts: dict[str, bytes]) -> bytes:
    from ..documents import zipped

    return zipped(parts)


def try_all(cases: Sequence[tuple[str, int]]) -> list[Defect]:
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
        except JobFailed:
            return None
        except MemoryError:
            return None
        except Exception:
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
        path=str(path), method=METHODS[method], method_name=method, shelf=shelf,
        scratch=str(directory), max_pixels=MAX_PIXELS,
    )  # fmt: skip
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


async def survey(batches: Iterator[Sequence[tuple[str, int]]]) -> tuple[int, list[Defect], list[Defect]]:  # fmt: skip
    """How many were tried, what no name was found for, and what its process was ended for."""
    tried, defects, ended = 0, [], []
    sandbox = Sandbox(2, limits=LIMITS)
    await sandbox.open()
    lock = asyncio.Lock()

    async def lane() -> None:
        nonlocal tried
        for batch in batches:
            last = [batch[0]]
            try:
                defects.extend(
                    await sandbox.run(try_all, batch, on_message=lambda m: last.__setitem__(0, m))
                )
            except JobFailed as error:
                ended.append(Defect(*last[0], f"{error.code}: {error.message}"))
            async with lock:
                tried += len(batch)

    try:
        await asyncio.gather(lane(), lane())
    finally:
        await sandbox.close()
    return tried, defects, ended


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.seconds
    every = (case for case in cases(arguments.seed) if arguments.only in case[0])

    def batches() -> Iterator[list[tuple[str, int]]]:
        while time.monotonic() < deadline:
            yield [next(every) for _ in range(20)]

    tried, defects, ended = asyncio.run(survey(batches()))
    for defect in (*defects, *ended):
        print(f"--- {defect.name} {defect.seed}\n{defect.fault}")
    print(f"{tried} tried, {len(defects)} without a name, {len(ended)} ended their process")
    sys.exit(bool(defects))


if __name__ == "__main__":
    main()
