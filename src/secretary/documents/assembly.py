"""Puts finished pages together: one text, one Markdown file, archives."""

import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..core.errors import FileCorrupt
from ..core.json_codec import encode_json
from .page_store import Page, PageStore, load_pages, page_text_file

#: Blocks at either edge of a page among which they are looked for.
DEPTH = 2
#: Pages that follow each other on which a line stands at the same edge, at least.
FEWEST = 3
#: A left page has another head than a right one.
EVERY = 2
LONGEST = 140
DIGITS = re.compile(r"\d+")
#: Tables, code and items of lists are never running lines.
OTHER = re.compile(r"\||```|- |\d+\. ")

#: Which edge, and the line with its numbers left open.
Key = tuple[str, str]
NONE: frozenset[Key] = frozenset()


def find_headers_footers(pages: Iterable[str]) -> frozenset[Key]:
    """Of the Markdown of all pages: what comes back at their heads or feet."""
    series: dict[Key, Series] = {}
    count = 0
    for count, page in enumerate(pages, 1):
        for key in {key for _, key in _edges(page.split("\n\n"))}:
            series.setdefault(key, Series()).note(count)
    return frozenset(key for key, found in series.items() if _is_running(key, found, count))


class Series:
    """On how many pages a line stands, and how many of them follow each other."""

    def __init__(self) -> None:
        self.pages = self.longest = self._current = self._last = 0

    def note(self, page: int) -> None:
        self.pages += 1
        self._current = self._current + 1 if page - self._last <= EVERY else 1
        self._last = page
        self.longest = max(self.longest, self._current)


def _is_running(key: Key, found: Series, pages: int) -> bool:
    # Slides on one matter have one heading: that alone is no reason to drop it.
    is_heading = key[1].startswith("#")
    return found.longest >= FEWEST and (not is_heading or 2 * found.pages > pages)


def strip_headers_footers(page: str, lines: frozenset[Key]) -> str:
    if not lines:
        return page
    blocks = page.split("\n\n")
    gone = {place for place, key in _edges(blocks) if key in lines}
    left = "\n\n".join(block for place, block in enumerate(blocks) if place not in gone)
    # Pages that are all alike, say of labels or forms, have no running lines: that is their text.
    return left if 2 * len(left) > len(page) else page


def _edges(blocks: list[str]) -> Iterator[tuple[int, Key]]:
    count = len(blocks)
    for place in range(min(DEPTH, count)):
        if key := _key(blocks[place]):
            yield place, ("head", key)
    for place in range(max(count - DEPTH, DEPTH), count):
        if key := _key(blocks[place]):
            yield place, ("foot", key)


def _key(block: str) -> str | None:
    if not block or "\n" in block or len(block) > LONGEST or OTHER.match(block):
        return None
    # Chapters are numbered: headings are the same only if their numbers are.
    return block if block.startswith("#") else DIGITS.sub("0", block)


MARKDOWN_FILE = "document.md"
TEXT_FILE = "document.txt"
#: What is too long for a job's document: the job refers to this file, and who reads the job gets
#: what is in it.
RESULTS_FILE = "texts.json"
#: The Markdown of each page for itself, for who shows pages beside their text.
PAGES_FILE = "pages.json"
#: Texts up to this size are part of the results; longer ones are in the files only, so that no
#: answer takes all the memory of a client, or ours.
MAX_RESULTS_BYTES = 8 * 1024 * 1024
#: What a job shows as `document.md` is kept as `document.1-20.md`, if it is that of these pages.
KEPT = "assembled.json"


@dataclass(slots=True)
class AssembledDocument:
    """Names of files that the job shows, and whether there is any text."""

    page_texts: list[str] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    has_text: bool = False
    #: False when something is wrong with the text layer of every page.
    has_text_layer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """What to put together. It is kept for the next job that wants the same pages."""

    page_store: PageStore
    numbers: range
    #: The name of each zip, and how the names of its pictures begin.
    archives: Mapping[str, str]
    #: Pages of print have running heads, slides and sheets have not.
    is_print: bool = False
    #: Pages made earlier than this are not taken.
    made_after: float = 0.0
    may_reuse: bool = False

    def kept_as(self, name: str) -> str:
        return _kept_as(name, self.numbers)


def is_assembled(page_store: PageStore, numbers: range) -> bool:
    """Whether these pages were put together before: then all of them are there."""
    return Path(page_store.directory, _kept_as(KEPT, numbers)).exists()


def _kept_as(name: str, numbers: range) -> str:
    stem, _, ending = name.partition(".")
    return f"{stem}.{numbers[0]}-{numbers[-1]}.{ending}"


def assemble(assembly: Assembly) -> AssembledDocument:
    known = _known(assembly) if assembly.may_reuse else None
    if known is not None:
        for name in (*known.page_texts, *known.pictures):
            assembly.page_store.link(name)
        for name in known.files:
            assembly.page_store.link(assembly.kept_as(name), name)
        return known
    done = _put_together(assembly)
    for name, beginning in assembly.archives.items():
        members = [picture for picture in done.pictures if picture.startswith(beginning)]
        _pack(assembly, name, members)
        done.files.append(name)
    with assembly.page_store.atomic_write(assembly.kept_as(KEPT)) as path:
        Path(path).write_text(json.dumps(asdict(done)))
    return done


def _known(assembly: Assembly) -> AssembledDocument | None:
    path = Path(assembly.page_store.directory, assembly.kept_as(KEPT))
    try:
        return AssembledDocument(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):  # there is none, or the power failed
        return None


def _put_together(assembly: Assembly) -> AssembledDocument:
    page_store, done, told = assembly.page_store, AssembledDocument(), _Told()
    with (
        page_store.atomic_write(assembly.kept_as(TEXT_FILE)) as text_path,
        page_store.atomic_write(assembly.kept_as(MARKDOWN_FILE)) as markdown_path,
        open(text_path, "w", encoding="utf-8", errors="replace") as text_file,
        open(markdown_path, "w", encoding="utf-8", errors="replace") as markdown_file,
    ):
        pages = _Pages(assembly)
        running = (
            find_headers_footers(page.markdown for page in pages) if assembly.is_print else NONE
        )
        for page in pages:
            text = f"--- Seite {page.number} ---\n{page.text}\n"
            markdown = strip_headers_footers(page.markdown.strip(), running)
            text_file.write(text)
            markdown_file.write(f"{markdown}\n\n" if markdown else "")
            told.add(page, text, markdown)
            _add(done, page)
    with page_store.atomic_write(assembly.kept_as(RESULTS_FILE)) as path:
        Path(path).write_bytes(encode_json(told.results(done)))
    done.files = [RESULTS_FILE, *([TEXT_FILE, MARKDOWN_FILE] if done.has_text else [])]
    if (pages_told := told.pages()) and done.has_text:
        with page_store.atomic_write(assembly.kept_as(PAGES_FILE)) as path:
            Path(path).write_bytes(encode_json(pages_told))
        done.files.append(PAGES_FILE)
    for name in done.files:
        page_store.link(assembly.kept_as(name), name)
    return done


class _Pages:
    """The pages, as often as they are wanted; few of them are read only once."""

    def __init__(self, assembly: Assembly) -> None:
        places = assembly.page_store.find_pages(made_after=assembly.made_after)
        for number in assembly.numbers:
            if number not in places:
                text = f"What was made of page {number} is gone; try again"
                raise FileCorrupt(text, page=number)
        self._places = [places[number] for number in assembly.numbers]
        self._shelf = assembly.page_store
        size = sum(place.size for place in self._places)
        self._known = list(self._read()) if size <= MAX_RESULTS_BYTES else None

    def __iter__(self) -> Iterator[Page]:
        return iter(self._known) if self._known is not None else self._read()

    def _read(self) -> Iterator[Page]:
        for page in load_pages(self._places):
            self._shelf.link_page(page)
            yield page


def _add(done: AssembledDocument, page: Page) -> None:
    done.pictures.extend(page.pictures)
    if page.text:
        done.page_texts.append(page_text_file(page.number))
    done.has_text = done.has_text or bool(page.text.strip())
    done.has_text_layer = done.has_text_layer or "text_layer" not in page.facts


class _Told:
    """The part of the results that is long, as long as it is not too long."""

    def __init__(self) -> None:
        self._size = 0
        self._texts: list[str] = []
        self._markdowns: list[str] = []
        self._contents: list[dict[str, Any]] = []

    def add(self, page: Page, text: str, markdown: str) -> None:
        self._size += len(text) + len(markdown)
        content: dict[str, Any] = {"page": page.number, "content": None, "method": page.method}
        if page.reason:
            content["reason"] = page.reason
        if self._fits:
            self._texts.append(text)
            self._markdowns.append(markdown)
            content |= {"content": page.text, **({"texts": page.texts} if page.texts else {})}
        self._contents.append(content | dict(page.facts))

    @property
    def _fits(self) -> bool:
        return self._size <= MAX_RESULTS_BYTES

    def pages(self) -> list[dict[str, Any]]:
        if not self._fits:
            return []
        numbers = (content["page"] for content in self._contents)
        pairs = zip(numbers, self._markdowns, strict=True)
        return [{"page": number, "markdown": markdown} for number, markdown in pairs]

    def results(self, done: AssembledDocument) -> dict[str, Any]:
        results: dict[str, Any] = {"metadata": {"text_contents": self._contents}}
        if self._fits:
            markdown = "\n\n".join(filter(None, self._markdowns))
            results["markdown_content"] = f"{markdown}\n" if done.has_text else None
            results["extracted_text"] = "".join(self._texts).removesuffix("\n")
        else:
            for content in self._contents:
                content.pop("texts", None)
                content["content"] = None
        return results


def _pack(assembly: Assembly, name: str, pictures: Sequence[str]) -> None:
    page_store = assembly.page_store
    with (
        page_store.atomic_write(assembly.kept_as(name)) as path,
        zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive,
    ):
        for picture in pictures:
            archive.write(f"{page_store.job_directory}/{picture}", picture)
    page_store.link(assembly.kept_as(name), name)
