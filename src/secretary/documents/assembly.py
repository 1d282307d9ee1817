"""Assembles finished pages into one text, one Markdown file and image archives."""

import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from ..core.errors import FileCorrupt
from ..core.json_codec import encode_json
from .mistral_ocr import FIGURES_ARCHIVE, RAW_FILE, FigureNames, RawDocument, RawWriter
from .pages import Page, PageStore, load_pages, page_text_file

MARKDOWN_FILE = "document.md"
TEXT_FILE = "document.txt"
#: Results too large for the job document. The job refers to this file, and the API merges its
#: content into the results.
RESULTS_FILE = "texts.json"
#: The Markdown of each page, for viewers that show pages beside their text.
PAGES_FILE = "pages.json"
#: Up to this size, texts are part of the results. Longer ones are only in the files, to bound the
#: memory of clients and workers.
MAX_RESULTS_BYTES = 8 * 1024 * 1024
_INDEX_FILE = "assembled.json"


@dataclass(slots=True)
class AssembledDocument:
    """Names of the files of a job, and whether there is any text. Cached as JSON."""

    page_texts: list[str] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    #: Pictures that have another name in the page store.
    figures: dict[str, str] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    has_text: bool = False
    #: False if the text layer of every page is unusable.
    has_text_layer: bool = False


#: The form of `extracted_text`. `pages`: the text of each page below a line `--- Seite N ---`;
#: `plain`: the same, but without that line if there is only one page; `markdown`: the Markdown;
#: `markdown_pages`: the Markdown of each page below such a line.
TextForm = Literal["pages", "plain", "markdown", "markdown_pages"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """What to assemble. The result is cached for the next job that needs the same pages."""

    page_store: PageStore
    numbers: range
    #: The name of each zip archive, and the prefixes of the images it contains.
    archives: Mapping[str, str | tuple[str, ...]]
    text_form: TextForm = "pages"
    #: Set if the document is to be written in the form of the Mistral OCR API, too.
    raw: RawDocument | None = None
    #: Printed pages have headers and footers; slides and sheets do not.
    is_print: bool = False
    #: Ignore pages older than this.
    made_after: float = 0.0
    may_reuse: bool = False

    def cached_name(self, name: str) -> str:
        return _cached_name(name, self.numbers)


def is_assembled(page_store: PageStore, numbers: range) -> bool:
    """Return whether these pages were assembled before, so that all of them exist."""
    return Path(page_store.directory, _cached_name(_INDEX_FILE, numbers)).exists()


def _cached_name(name: str, numbers: range) -> str:
    """Return the name in the page store: `document.md` of pages 1 to 20 is `document.1-20.md`."""
    stem, _, extension = name.partition(".")
    return f"{stem}.{numbers[0]}-{numbers[-1]}.{extension}"


def assemble(assembly: Assembly) -> AssembledDocument:
    page_store = assembly.page_store
    cached = _load_cached(assembly) if assembly.may_reuse else None
    if cached is not None:
        for name in (*cached.page_texts, *cached.pictures):
            page_store.link(cached.figures.get(name, name), name)
        for name in cached.files:
            page_store.link(assembly.cached_name(name), name)
        return cached
    document = _assemble_pages(assembly)
    for name, prefix in assembly.archives.items():
        pictures = [picture for picture in document.pictures if picture.startswith(prefix)]
        _write_archive(assembly, document, name, pictures)
    _write_archive(assembly, document, FIGURES_ARCHIVE, list(document.figures))
    with page_store.atomic_write(assembly.cached_name(_INDEX_FILE)) as path:
        Path(path).write_text(json.dumps(asdict(document)))
    return document


def _write_archive(
    assembly: Assembly, document: AssembledDocument, name: str, pictures: Iterable[str]
) -> None:
    """Clients expect no archive that is empty."""
    page_store, pictures = assembly.page_store, list(dict.fromkeys(pictures))
    if not pictures:
        return
    with (
        page_store.atomic_write(assembly.cached_name(name)) as path,
        zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive,
    ):
        for picture in pictures:
            archive.write(f"{page_store.job_directory}/{picture}", picture)
    page_store.link(assembly.cached_name(name), name)
    document.files.append(name)


def _load_cached(assembly: Assembly) -> AssembledDocument | None:
    path = Path(assembly.page_store.directory, assembly.cached_name(_INDEX_FILE))
    try:
        return AssembledDocument(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):  # missing, or truncated by a power failure
        return None


def _assemble_pages(assembly: Assembly) -> AssembledDocument:
    page_store, document, results = assembly.page_store, AssembledDocument(), _TextResults()
    figure_names = FigureNames()
    with (
        page_store.atomic_write(assembly.cached_name(TEXT_FILE)) as text_path,
        page_store.atomic_write(assembly.cached_name(MARKDOWN_FILE)) as markdown_path,
        open(text_path, "w", encoding="utf-8", errors="replace") as text_file,
        open(markdown_path, "w", encoding="utf-8", errors="replace") as markdown_file,
        ExitStack() as stack,
    ):
        raw = _open_raw(assembly, assembly.raw, stack) if assembly.raw else None
        pages = _Pages(assembly)
        markdowns = (page.markdown for page in pages) if assembly.is_print else ()
        headers_footers = find_headers_footers(markdowns)
        for page in pages:
            markdown = strip_headers_footers(page.markdown.strip(), headers_footers)
            markdown, names = figure_names.rename(page, markdown)
            content = page.text if assembly.text_form in ("pages", "plain") else markdown
            text = _page_text(assembly, page, markdown, is_first=not document.has_text)
            text_file.write(text)
            markdown_file.write(f"{markdown}\n\n" if markdown else "")
            results.add(page, text, markdown, content)
            if raw:
                raw.add(page, markdown, names)
            for name, file in ((new, old) for old, new in names.items()):
                page_store.link(file, name)
            document.pictures += [*page.pictures, *names.values()]
            document.page_texts += [page_text_file(page.number)] if page.text else []
            document.has_text |= bool(page.text.strip() or page.figures)
            document.has_text_layer |= "text_layer" not in page.facts
        if raw:
            raw.close()
    document.figures = figure_names.files
    with page_store.atomic_write(assembly.cached_name(RESULTS_FILE)) as path:
        Path(path).write_bytes(encode_json(results.as_json(document, assembly.text_form)))
    document.files = [RESULTS_FILE, *([TEXT_FILE, MARKDOWN_FILE] if document.has_text else [])]
    document.files += [RAW_FILE] if raw else []
    if (page_markdowns := results.page_markdowns()) and document.has_text:
        with page_store.atomic_write(assembly.cached_name(PAGES_FILE)) as path:
            Path(path).write_bytes(encode_json(page_markdowns))
        document.files.append(PAGES_FILE)
    for name in document.files:
        page_store.link(assembly.cached_name(name), name)
    return document


def _open_raw(assembly: Assembly, document: RawDocument, stack: ExitStack) -> RawWriter:
    name = assembly.cached_name(RAW_FILE)
    path = stack.enter_context(assembly.page_store.atomic_write(name))
    return RawWriter(stack.enter_context(open(path, "wb")), document)


def _page_text(assembly: Assembly, page: Page, markdown: str, *, is_first: bool) -> str:
    """A page as part of `extracted_text`; `is_first` if there is no text before it."""
    marker = f"--- Seite {page.number} ---\n"
    match assembly.text_form:
        case "pages":
            return f"{marker}{page.text}\n"
        case "plain":
            return f"{marker if len(assembly.numbers) > 1 else ''}{page.text}\n"
        case "markdown_pages":
            return f"{marker}\n{markdown}\n\n"
        case "markdown":
            markdown = without_front_matter(markdown) if is_first else markdown
            return f"{markdown}\n\n" if markdown else ""


_LEADING_RULES = re.compile(r"\A(?:---+[ \t]*(?:\n\s*|\Z))+")
#: A key or a comment must follow at once; otherwise `---` is a thematic break.
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n((?=#|[^\s-][^\n]*:)(?:.*\n)*?)---[ \t]*(?:\n|\Z)")


def without_front_matter(markdown: str) -> str:
    """Show the front matter of a text file as code, and drop rules at the start: clients remove
    everything up to a second `---`."""
    if match := _FRONT_MATTER.match(markdown):
        return f"```yaml\n{match[1]}```\n\n{markdown[match.end() :].lstrip()}".rstrip("\n")
    return _LEADING_RULES.sub("", markdown)


class _Pages:
    """The stored pages. Can be iterated repeatedly; small documents are read only once."""

    def __init__(self, assembly: Assembly) -> None:
        refs = assembly.page_store.find_pages(made_after=assembly.made_after)
        for number in assembly.numbers:
            if number not in refs:
                text = f"The text of page {number} is no longer cached; retry"
                raise FileCorrupt(text, page=number)
        self._refs = [refs[number] for number in assembly.numbers]
        self._store = assembly.page_store
        size = sum(ref.size for ref in self._refs)
        self._pages = list(self._read()) if size <= MAX_RESULTS_BYTES else None

    def __iter__(self) -> Iterator[Page]:
        return iter(self._pages) if self._pages is not None else self._read()

    def _read(self) -> Iterator[Page]:
        for page in load_pages(self._refs):
            self._store.link_page(page)
            yield page


class _TextResults:
    """The texts that become part of the results, unless they are too long."""

    def __init__(self) -> None:
        self._size = 0
        self._texts: list[str] = []
        self._markdowns: list[str] = []
        self._contents: list[dict[str, Any]] = []

    def add(self, page: Page, text: str, markdown: str, content: str) -> None:
        """`text` is the part of `extracted_text`, `content` the text of the page alone."""
        self._size += len(text) + len(markdown)
        entry: dict[str, Any] = {"page": page.number, "content": None, "method": page.method}
        if page.reason:
            entry["reason"] = page.reason
        if self._fits:
            self._texts.append(text)
            self._markdowns.append(markdown)
            entry |= {"content": content, **({"texts": page.texts} if page.texts else {})}
        self._contents.append(entry | dict(page.facts))

    @property
    def _fits(self) -> bool:
        return self._size <= MAX_RESULTS_BYTES

    def page_markdowns(self) -> list[dict[str, Any]]:
        if not self._fits:
            return []
        pairs = zip(self._contents, self._markdowns, strict=True)
        return [{"page": content["page"], "markdown": markdown} for content, markdown in pairs]

    def as_json(self, document: AssembledDocument, form: TextForm) -> dict[str, Any]:
        results: dict[str, Any] = {"metadata": {"text_contents": self._contents}}
        if self._fits:
            markdown = "\n\n".join(filter(None, self._markdowns))
            results["markdown_content"] = f"{markdown}\n" if document.has_text else None
            text = "".join(self._texts)
            is_text = form in ("pages", "plain")
            results["extracted_text"] = text.removesuffix("\n") if is_text else text.rstrip("\n")
        else:
            for content in self._contents:
                content.pop("texts", None)
                content["content"] = None
        return results


#: How many blocks at the top and at the bottom of a page can be headers or footers.
EDGE_BLOCKS = 2
#: On how many consecutive pages a header or footer must repeat.
MIN_REPEATS = 3
#: Left and right pages may have different headers, so a header may skip a page.
MAX_PAGE_STEP = 2
MAX_HEADER_CHARACTERS = 140
_DIGITS = re.compile(r"\d+")
#: Tables, code, list items and images are never headers or footers.
_NOT_A_HEADER = re.compile(r"\||```|- |\d+\. |!\[")

#: The edge (`head` or `foot`), and the text with its numbers replaced.
HeaderKey = tuple[str, str]


def find_headers_footers(pages: Iterable[str]) -> frozenset[HeaderKey]:
    """Return the headers and footers that repeat in the Markdown of these pages."""
    numbers_by_key: dict[HeaderKey, list[int]] = {}
    count = 0
    for count, page in enumerate(pages, 1):
        for key in {key for _, key in _edge_blocks(page.split("\n\n"))}:
            numbers_by_key.setdefault(key, []).append(count)
    headers = set()
    for key, numbers in numbers_by_key.items():
        longest = repeats = 1
        for before, number in pairwise(numbers):
            repeats = repeats + 1 if number - before <= MAX_PAGE_STEP else 1
            longest = max(longest, repeats)
        # Several slides on one topic share a heading, which has to stay.
        is_kept_heading = key[1].startswith("#") and 2 * len(numbers) <= count
        if longest >= MIN_REPEATS and not is_kept_heading:
            headers.add(key)
    return frozenset(headers)


def strip_headers_footers(page: str, headers_footers: frozenset[HeaderKey]) -> str:
    if not headers_footers:
        return page
    blocks = page.split("\n\n")
    removed = {number for number, key in _edge_blocks(blocks) if key in headers_footers}
    rest = "\n\n".join(block for number, block in enumerate(blocks) if number not in removed)
    # On pages that are all alike, such as labels or forms, the repeated text is the content.
    return rest if 2 * len(rest) > len(page) else page


def _edge_blocks(blocks: list[str]) -> Iterator[tuple[int, HeaderKey]]:
    for number, block in enumerate(blocks):
        is_head = number < EDGE_BLOCKS
        if not is_head and number < len(blocks) - EDGE_BLOCKS:
            continue
        is_line = block and "\n" not in block and len(block) <= MAX_HEADER_CHARACTERS
        if is_line and not _NOT_A_HEADER.match(block):
            # Chapters are numbered: headings are equal only if their numbers are.
            text = block if block.startswith("#") else _DIGITS.sub("0", block)
            yield number, ("head" if is_head else "foot", text)
