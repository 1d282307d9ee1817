"""Stores finished pages on disk, each readable as soon as it is saved."""

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import orjson

from ..core.files import atomic_write
from ..storage import append_log
from ..storage.append_log import RecordRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The text of one page. The page log stores the fields under their names."""

    #: Starts at 1.
    number: int
    #: Plain text in reading order.
    text: str
    #: The same text with headings, lists and tables, as far as they were detected.
    markdown: str
    #: How the text was extracted, for example `native`, `ocr` or `llm`.
    method: str = "native"
    #: Why this method was chosen, if it was chosen automatically.
    reason: str | None = None
    #: The text of each method, if several were used.
    texts: Mapping[str, str] = field(default_factory=dict)
    #: Names of the page's image files in the store.
    pictures: tuple[str, ...] = ()
    #: Further metadata, such as the OCR confidence.
    facts: Mapping[str, Any] = field(default_factory=dict)


_FIELDS = tuple(field.name for field in fields(Page))


@dataclass(frozen=True, slots=True)
class PageStore:
    """Pages in `directory`, shared by all jobs for the same file, with links in `job_directory`
    to what one job may show. A file never changes once it has its name, because other jobs may
    have linked it."""

    directory: str
    job_directory: str
    #: Saved pages never claim to be older than this.
    made_after: float = 0.0

    def save(self, page: Page) -> None:
        """Write the record last: a page with a record is complete."""
        if page.text:
            self.write(page_text_file(page.number), page.text.encode("utf-8", "replace"))
        record = _encode(page)
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
        """Yield a temporary path that is renamed to `name` on success."""
        with atomic_write(Path(self.directory, name)) as temporary:
            yield str(temporary)

    def link(self, name: str, link_name: str | None = None) -> None:
        """Link a stored file into the job's directory, replacing a file of that name."""
        source, target = f"{self.directory}/{name}", f"{self.job_directory}/{link_name or name}"
        try:
            os.link(source, target)
        except FileExistsError:
            os.unlink(target)
            self.link(name, link_name)
        except OSError:  # another file system, or one without hard links
            shutil.copyfile(source, target)

    def find_pages(self, *, made_after: float = 0.0) -> dict[int, RecordRef]:
        """Return the latest version of each stored page, by page number."""
        return append_log.index(self.directory, made_after=made_after)

    def link_page(self, page: Page) -> None:
        """Link the files of a page that are not in the job's directory yet."""
        texts = (page_text_file(page.number),) if page.text else ()
        for name in (*page.pictures, *texts):
            if not os.path.exists(f"{self.job_directory}/{name}"):
                self.link(name)


def link_pages(page_store: PageStore, refs: Iterable[RecordRef]) -> None:
    """Link the files of pages that an earlier job or attempt has stored."""
    for page in load_pages(refs):
        page_store.link_page(page)


def load_pages(refs: Iterable[RecordRef]) -> Iterator[Page]:
    return map(_decode, append_log.read(refs))


def page_text_file(number: int) -> str:
    return f"page_{number:03d}.txt"


def _encode(page: Page) -> bytes:
    record = {name: getattr(page, name) for name in _FIELDS}
    try:
        return orjson.dumps(record)
    except TypeError:  # a lone surrogate, which could not be decoded again
        return json.dumps(record, ensure_ascii=False).encode("utf-8", "replace")


def _decode(line: bytes) -> Page:
    record = orjson.loads(line)
    return Page(**{**record, "pictures": tuple(record["pictures"])})
