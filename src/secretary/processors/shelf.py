"""Finished pages on disk: each is kept, and can be read, as soon as it is done."""

import functools
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields
from typing import BinaryIO
from uuid import uuid4

import orjson

from .page import Page

TEXT = ".txt"
#: Each process writes its pages to a file of its own: a line for each, with its number and when
#: it was made in front. To append is twenty times as fast as to make a file.
RECORDS = "records-"
_FIELDS = tuple(field.name for field in fields(Page))


@dataclass(frozen=True, slots=True)
class Place:
    """Where the record of a page is."""

    file: str
    start: int
    size: int
    made_at: float


@dataclass(frozen=True, slots=True)
class Shelf:
    """`directory` keeps the pages, for whoever has the same file; `shown` has links to what one
    job may show. A file is never written to once it has its name: others may have links to it."""

    directory: str
    shown: str

    def save(self, page: Page) -> None:
        """The record comes last: a page that has one is whole."""
        if page.text:
            self.write(page_file(page.number), page.text.encode("utf-8", "replace"))
        line = b"%d %f %b\n" % (page.number, time.time(), _record(page))
        with open(f"{self.directory}/{_own_records(os.getpid())}", "ab", buffering=0) as file:
            file.write(line)

    def write(self, name: str, content: bytes) -> None:
        try:
            with open(f"{self.directory}/{name}", "xb") as file:
                file.write(content)
        except FileExistsError:
            with self.writing(name) as path, open(path, "xb") as file:
                file.write(content)
        self.show(name)

    @contextmanager
    def writing(self, name: str) -> Iterator[str]:
        """The path of a file that gets its name when it is whole."""
        unfinished = f"{self.directory}/.{uuid4().hex}"
        try:
            yield unfinished
            os.replace(unfinished, f"{self.directory}/{name}")
        except BaseException:
            with suppress(OSError):  # it was not begun
                os.unlink(unfinished)
            raise

    def show(self, name: str, shown_as: str | None = None) -> None:
        """Link it, instead of what may be there under that name."""
        source, target = f"{self.directory}/{name}", f"{self.shown}/{shown_as or name}"
        try:
            os.link(source, target)
        except FileExistsError:
            os.unlink(target)
            self.show(name, shown_as)
        except OSError:  # another disk, or one without links
            shutil.copyfile(source, target)

    def places(self, *, made_after: float = 0.0) -> dict[int, Place]:
        """The pages that are there, each as it was made last."""
        found: dict[int, Place] = {}
        for place, number in self._all_places():
            known = found.get(number)
            if place.made_at >= made_after and (not known or known.made_at <= place.made_at):
                found[number] = place
        return found

    def _all_places(self) -> Iterator[tuple[Place, int]]:
        with os.scandir(self.directory) as entries:
            files = [entry.path for entry in entries if entry.name.startswith(RECORDS)]
        for file in files:
            start = 0
            with open(file, "rb") as lines:
                for line in lines:
                    if line.endswith(b"\n"):  # else the process died while it wrote
                        number, made_at, _ = line.split(b" ", 2)
                        yield Place(file, start, len(line), float(made_at)), int(number)
                    start += len(line)

    def show_page(self, page: Page) -> None:
        """Unless it is shown already: who makes a page shows it."""
        texts = (page_file(page.number),) if page.text else ()
        for name in (*page.pictures, *texts):
            if not os.path.exists(f"{self.shown}/{name}"):
                self.show(name)


def show_known(shelf: Shelf, places: Iterable[Place]) -> None:
    """Pages that an earlier job, or an earlier attempt, has made."""
    for page in load_all(places):
        shelf.show_page(page)


def load_all(places: Iterable[Place]) -> Iterator[Page]:
    with ExitStack() as stack:
        files: dict[str, BinaryIO] = {}
        for place in places:
            if place.file not in files:
                files[place.file] = stack.enter_context(open(place.file, "rb"))
            files[place.file].seek(place.start)
            yield _page(files[place.file].read(place.size))


def _record(page: Page) -> bytes:
    record = {name: getattr(page, name) for name in _FIELDS}
    try:
        return orjson.dumps(record)
    except TypeError:  # half of a surrogate pair, which nobody could read again
        return json.dumps(record, ensure_ascii=False).encode("utf-8", "replace")


def _page(line: bytes) -> Page:
    record = orjson.loads(line.split(b" ", 2)[2])
    return Page(**{**record, "pictures": tuple(record["pictures"])})


def page_file(number: int) -> str:
    return f"page_{number:03d}{TEXT}"


@functools.cache
def _own_records(pid: int) -> str:
    """Not by the process id alone: another machine, or another day, may have the same."""
    return f"{RECORDS}{pid}-{uuid4().hex[:12]}.jsonl"
