"""Finished pages on disk: each is kept, and can be read, as soon as it is done."""

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from typing import Any
from uuid import uuid4

import orjson

from ..storage import append_log
from ..storage.append_log import RecordRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    #: Begins with 1.
    number: int
    #: Plain text in reading order.
    text: str
    #: The same with headings, lists and tables where they can be told.
    markdown: str
    #: Where the text comes from, for instance `native`, `ocr`, `llm`.
    method: str = "native"
    #: Why this method, where it was for us to choose.
    reason: str | None = None
    #: What each method gave, by its name, where more than one was asked.
    texts: Mapping[str, str] = field(default_factory=dict)
    #: Files of the page beside its text, by their names in the document's directory.
    pictures: tuple[str, ...] = ()
    #: What else is known, for instance the confidence of recognised text.
    facts: Mapping[str, Any] = field(default_factory=dict)


TEXT = ".txt"
_FIELDS = tuple(field.name for field in fields(Page))


@dataclass(frozen=True, slots=True)
class PageStore:
    """`directory` keeps the pages, for whoever has the same file; `shown` has links to what one
    job may show. A file is never written to once it has its name: others may have links to it."""

    directory: str
    job_directory: str
    #: Pages that were made before are not wanted; none that is saved says that it was.
    made_after: float = 0.0

    def save(self, page: Page) -> None:
        """The record comes last: a page that has one is whole."""
        if page.text:
            self.write(page_text_file(page.number), page.text.encode("utf-8", "replace"))
        record = _record(page)
        append_log.append(self.directory, page.number, record, not_before=self.made_after)

    def write(self, name: str, content: bytes) -> None:
        try:
            with open(f"{self.directory}/{name}", "xb") as file:
                file.write(content)
        except FileExistsError:
            with self.atomic_write(name) as path, open(path, "xb") as file:
                file.write(content)
        self.link(name)

    @contextmanager
    def atomic_write(self, name: str) -> Iterator[str]:
        """The path of a file that gets its name when it is whole."""
        unfinished = f"{self.directory}/.{uuid4().hex}"
        try:
            yield unfinished
            os.replace(unfinished, f"{self.directory}/{name}")
        except BaseException:
            with suppress(OSError):  # it was not begun
                os.unlink(unfinished)
            raise

    def link(self, name: str, shown_as: str | None = None) -> None:
        """Link it, instead of what may be there under that name."""
        source, target = f"{self.directory}/{name}", f"{self.job_directory}/{shown_as or name}"
        try:
            os.link(source, target)
        except FileExistsError:
            os.unlink(target)
            self.link(name, shown_as)
        except OSError:  # another disk, or one without links
            shutil.copyfile(source, target)

    def find_pages(self, *, made_after: float = 0.0) -> dict[int, RecordRef]:
        """The pages that are there, each as it was made last."""
        return append_log.index(self.directory, made_after=made_after)

    def link_page(self, page: Page) -> None:
        """Unless it is shown already: who makes a page shows it."""
        texts = (page_text_file(page.number),) if page.text else ()
        for name in (*page.pictures, *texts):
            if not os.path.exists(f"{self.job_directory}/{name}"):
                self.link(name)


def link_pages(page_store: PageStore, places: Iterable[RecordRef]) -> None:
    """Pages that an earlier job, or an earlier attempt, has made."""
    for page in load_pages(places):
        page_store.link_page(page)


def load_pages(places: Iterable[RecordRef]) -> Iterator[Page]:
    return map(_page, append_log.read(places))


def _record(page: Page) -> bytes:
    record = {name: getattr(page, name) for name in _FIELDS}
    try:
        return orjson.dumps(record)
    except TypeError:  # half of a surrogate pair, which nobody could read again
        return json.dumps(record, ensure_ascii=False).encode("utf-8", "replace")


def _page(line: bytes) -> Page:
    record = orjson.loads(line)
    return Page(**{**record, "pictures": tuple(record["pictures"])})


def page_text_file(number: int) -> str:
    return f"page_{number:03d}{TEXT}"
