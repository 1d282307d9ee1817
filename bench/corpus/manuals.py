"""Excerpts of real manuals, which Debian ships both as PDF and as web pages.

The expected Markdown is made of the web pages by pandoc. `manuals.json` lists the manuals with the
checksums of their packages, which are unpacked but never installed.
"""

import gzip
import hashlib
import json
import random
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath

import harness
import pypdfium2
from harness import Failed, log, output
from lxml import html
from lxml.html import HtmlElement

from .alignment import page_starts, words
from .corpus import Corpus, Sample, Split, corpus, fingerprint
from .prose import Language

SOURCES = Path(__file__).with_name("manuals.json")
FILTER = Path(__file__).with_name("plain_blocks.lua")
FETCH_LIMIT_S = 120
#: A wheel with the pandoc program.
PANDOC = ("pypandoc_binary==1.17",)
FIND = "import pypandoc; print(pypandoc.get_pandoc_path())"
READS = "html-native_divs-native_spans"
PANDOC_LIMIT_S = 300
#: Parts of the web page that are not text: navigation, contents, heading links.
FURNITURE = {
    "navheader", "navfooter", "toc", "list-of-tables", "list-of-figures", "sphinxsidebar",
    "related", "headerlink", "header", "nav-panel", "footer", "contents", "element-contents",
    "menu", "mini-toc", "copiable-link", "copiable-anchor", "index", "shortcontents",
}  # fmt: skip
FURNITURE_TAGS = {"script", "style", "nav", "head", "img", "object", "noscript"}
FURNITURE_IDS = {"toc", "header", "footer"}
#: Their headings come from the stylesheet: "Note".
ADMONITIONS = {"note", "tip", "warning", "caution", "important"}
TABLE_TAGS = ("table", "tr", "td", "th", "tbody", "thead", "colgroup")
HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
EXCERPTS = 4
FEWEST_PAGES, MOST_PAGES = 3, 8
#: Share of words that file and web pages must have in common.
MIN_SIMILARITY = 0.9
#: Not words of the text: tags, entities, code fences.
MARKUP = re.compile(r"<[^>]*>|&\w+;|^\s*(?:```|~~~).*$", re.MULTILINE)
FENCE = re.compile(r"^\s*(?:```|~~~)", re.MULTILINE)
#: Web pages and print number headings differently.
NUMBER = re.compile(
    r"^(\s{0,3}#{1,6}\s+)(?:\W*(?:chapter|kapitel|appendix|anhang|part|teil|section|abschnitt)\s+)?"
    r"[*_]*(?:\d+|[A-Z](?=\.))(?:\\?\.\d+)*\\?[.:)]?\s+(?=\S)",
    re.IGNORECASE | re.MULTILINE,
)
CLOSED = re.compile(r"^\s*(?:\||#)")


class Unavailable(Exception):
    """The package cannot be fetched; the message says why."""


@dataclass(frozen=True)
class Manual:
    name: str
    #: The program that typeset the PDF.
    producer: str
    language: Language
    #: Path in Debian's pool.
    package: str
    sha256: str
    pdf: str
    #: In the order of the text; patterns stand for names in their order.
    pages: tuple[str, ...]
    #: If the web pages are in another package.
    pages_package: str = ""
    pages_sha256: str = ""


MANUALS = tuple(Manual(**manual) for manual in json.loads(SOURCES.read_text()))


@dataclass(frozen=True)
class Excerpt:
    first: int
    #: The page after the last.
    end: int
    markdown: str


def documents(work: Path, split: Split | None) -> Corpus:
    return real(work) if split == "real" else corpus(work, split)


def real(work: Path) -> Corpus:
    """Takes some minutes the first time."""
    sources = [SOURCES, Path(__file__), Path(__file__).with_name("alignment.py"), FILTER]
    directory = work / f"real-{fingerprint(sources)}"
    missing = []
    for manual in MANUALS:
        if not (directory / manual.name).exists():
            try:
                _cut(manual, directory, work)
            except Unavailable as gone:
                missing.append(f"{manual.producer} ({gone})")
    samples = [sample for manual in MANUALS for sample in _samples(manual, directory)]
    return Corpus(tuple(samples), tuple(missing))


def without_numbers(markdown: str) -> str:
    """With headings that do not start with their numbers."""
    return NUMBER.sub(r"\1", markdown)


def _samples(manual: Manual, directory: Path) -> Iterator[Sample]:
    for pdf in sorted((directory / manual.name).glob("*.pdf")):
        text = pdf.with_suffix(".md")
        yield Sample(manual.name, manual.producer, manual.language, "real", pdf, text)


def _cut(manual: Manual, directory: Path, work: Path) -> None:
    log(f"cutting {manual.name}")
    file, web_pages = _files(manual, work)
    content = file.read_bytes()
    markdown = _markdown(web_pages)
    partial = directory / f"{manual.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    packed = file.suffix == ".gz"
    with pypdfium2.PdfDocument(gzip.decompress(content) if packed else content) as whole:
        for number, excerpt in enumerate(_excerpts(manual.name, _texts(whole), markdown)):
            stem = f"real-{manual.name}-{number}".replace(" ", "_")
            (partial / f"{stem}.md").write_text(excerpt.markdown, encoding="utf-8")
            with pypdfium2.PdfDocument.new() as part:
                part.import_pages(whole, list(range(excerpt.first, excerpt.end)))
                part.save(partial / f"{stem}.pdf")
    partial.rename(directory / manual.name)


def _texts(document: pypdfium2.PdfDocument) -> list[list[str]]:
    texts = []
    for page in document:
        text = page.get_textpage().get_text_range()
        texts.append(words(text.replace("\ufffe", "")).keys)
    return texts


def _excerpts(seed: str, pages: Sequence[Sequence[str]], markdown: str) -> list[Excerpt]:
    """Some that do not overlap, chosen by the seed, in the order of the text."""
    blanked = MARKUP.sub(lambda match: " " * len(match[0]), markdown)
    text = words(blanked)
    cuts = {
        page: place
        for page, number in page_starts(pages, text.keys).items()
        if (place := _cut_position(markdown, text.offsets[number])) is not None
    }
    cuts |= {0: 0, len(pages): len(markdown)}
    spans = [(a, b) for a in cuts for b in cuts if FEWEST_PAGES <= b - a <= MOST_PAGES]
    random.Random(seed).shuffle(spans)
    chosen: list[Excerpt] = []
    for first, end in spans:
        apart = all(end <= excerpt.first or excerpt.end <= first for excerpt in chosen)
        if len(chosen) < EXCERPTS and apart:
            there = markdown[cuts[first] : cuts[end]].strip() + "\n"
            here = list(chain.from_iterable(pages[first:end]))
            if _similarity(here, words(MARKUP.sub(" ", there)).keys) >= MIN_SIMILARITY:
                chosen.append(Excerpt(first, end, there))
    return sorted(chosen, key=lambda excerpt: excerpt.first)


def _similarity(here: Sequence[str], there: Sequence[str]) -> float:
    common = (Counter(here) & Counter(there)).total()
    return 2 * common / max(len(here) + len(there), 1)


def _cut_position(markdown: str, place: int) -> int | None:
    """Where the text can be cut before this word, if it is not in code, a table or a heading."""
    start = markdown.rfind("\n", 0, place) + 1
    if not re.search(r"[^\W_]", markdown[start:place]):
        place = start
    before = markdown[:place]
    if len(FENCE.findall(before)) % 2:
        opening = list(FENCE.finditer(before))[-1].start()
        only = not markdown[opening:place].strip().strip("`~")
        return opening if only else None
    if before.count("<table") > before.count("</table>"):
        opening = before.rfind("<table")
        only = not re.sub(r"<[^>]*>|\s", "", markdown[opening:place] + ">")
        return opening if only else None
    if CLOSED.match(markdown[start:]):
        above = markdown[:start].rstrip("\n").rsplit("\n", 1)[-1]
        inside = place > start or ("|" in above and markdown[start] == "|")
        return None if inside else start
    return place


def _files(manual: Manual, work: Path) -> tuple[Path, Sequence[Path]]:
    """The PDF and the web pages; either may be compressed."""
    directory = pages_directory = _unpacked(manual.package, manual.sha256, work)
    if manual.pages_package:
        pages_directory = _unpacked(manual.pages_package, manual.pages_sha256, work)
    pages = [page for pattern in manual.pages for page in _matching(pages_directory, pattern)]
    pdf = _matching(directory, manual.pdf)
    if not pdf or not pages:
        raise Unavailable(f"{manual.package} does not contain the manual")
    return pdf[0], pages


def _matching(directory: Path, pattern: str) -> list[Path]:
    return sorted(directory.glob(pattern)) or sorted(directory.glob(f"{pattern}.gz"))


def _unpacked(package: str, sha256: str, work: Path) -> Path:
    name = PurePosixPath(package).name.split("_")[0]
    directory = work / f"package-{name}-{sha256[:12]}"
    if directory.exists():
        return directory
    log(f"fetching {name}")
    with tempfile.TemporaryDirectory(dir=work) as scratch:
        unpacked = Path(scratch) / "unpacked"
        try:
            fetch = ("apt-get", "download", "--quiet", name)
            output("apt-get", fetch, limit_s=FETCH_LIMIT_S, cwd=Path(scratch))
            (file,) = Path(scratch).glob("*.deb")
            if hashlib.sha256(file.read_bytes()).hexdigest() != sha256:
                raise Unavailable(f"{name} is available in another version only")
            output("dpkg-deb", ("dpkg-deb", "--extract", file, unpacked), limit_s=FETCH_LIMIT_S)
        except (OSError, Failed):
            raise Unavailable(f"cannot fetch {name}; try 'apt-get update'") from None
        unpacked.rename(directory)
    return directory


def _markdown(pages: Sequence[Path]) -> str:
    python = harness.environment("pandoc", PANDOC)
    program = output("pypandoc", (python, "-c", FIND), limit_s=PANDOC_LIMIT_S).strip()
    command = (program, "--from", READS, "--to", "gfm", "--wrap", "none", "--lua-filter", FILTER)
    given = "\n".join(_body(page) for page in pages)
    return output("pandoc", command, limit_s=PANDOC_LIMIT_S, text=given)


def _body(page: Path) -> str:
    content = page.read_bytes()
    if page.suffix == ".gz":
        content = gzip.decompress(content)
    declared = re.search(rb"charset=[\"']?([\w-]+)", content[:2000])
    text = content.decode(declared[1].decode() if declared else "utf-8", errors="replace")
    root = html.document_fromstring(re.sub(r"^\s*<\?xml[^>]*\?>", "", text))
    for element in list(root.iter()):
        furniture = not isinstance(element.tag, str) or _furniture(element)
        if furniture and element.getparent() is not None:
            element.drop_tree()
    _place_footnotes(root)
    for table in reversed(list(root.iter("table"))):
        for part in table.iter(*TABLE_TAGS) if _is_layout(table) else ():
            part.tag = "div"
    for heading in root.iter(*HEADINGS):
        if _classes(heading.getparent()) & ADMONITIONS:
            heading.tag = "p"
    body = root.find("body")
    return str(html.tostring(root if body is None else body, encoding="unicode"))


def _place_footnotes(root: HtmlElement) -> None:
    """After the paragraph that refers to them, as in print."""
    divisions = [one for one in root.iter("div") if "footnote" in _classes(one) and one.get("id")]
    notes = {f"#{note.get('id')}": note for note in divisions}
    for link in list(root.iter("a")):
        note = notes.pop(link.get("href") or "", None)
        blocks = (block for block in link.iterancestors("p", "td", "dt", "li", "div", *HEADINGS))
        block = next(blocks, None)
        if note is not None and block is not None and note not in link.iterancestors():
            # Inside a cell; after it would be another cell.
            if block.tag in ("td", "li", "div"):
                block.append(note)
            else:
                block.addnext(note)


def _furniture(element: HtmlElement) -> bool:
    named = (element.get("id") or "").lower() in FURNITURE_IDS and element.tag == "div"
    marked = bool(_classes(element) & FURNITURE) and element.tag not in ("body", "section", "tr")
    return element.tag in FURNITURE_TAGS or named or marked


def _classes(element: HtmlElement | None) -> set[str]:
    return set() if element is None else set((element.get("class") or "").lower().split())


def _is_layout(table: HtmlElement) -> bool:
    """Layout tables: one row or column, around other tables, or a box around a note."""
    rows = [row for row in table.iter("tr") if row.getparent() is not None]
    width = max((len(row) for row in rows), default=0)
    note = _classes(table.getparent()) & ADMONITIONS
    return bool(note) or len(rows) < 2 or width < 2 or len(list(table.iter("table"))) > 1
