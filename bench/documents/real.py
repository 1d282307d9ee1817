"""Pieces of manuals that others wrote and set, with the Markdown of their web pages beside them."""

import gzip
import hashlib
import random
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pypdfium2

from .alignment import borders, words
from .corpus import Corpus, Sample, Split, corpus
from .manual_text import markdown_of
from .manuals import MANUALS, Manual, files
from .packages import Unavailable

#: The code that has a say in what the pieces are.
SOURCES = ("real.py", "alignment.py", "manual_text.py", "manuals.py", "plain_blocks.lua")
PIECES = 4
FEWEST_PAGES, MOST_PAGES = 3, 8
#: What the file holds and what the web pages hold are the same but for heads, feet and notes.
LEAST_ALIKE = 0.9
#: No words of the text: tags, characters by name, the lines around code.
MARKUP = re.compile(r"<[^>]*>|&\w+;|^\s*(?:```|~~~).*$", re.MULTILINE)
FENCE = re.compile(r"^\s*(?:```|~~~)", re.MULTILINE)
#: Web pages and print number differently, or one of them not at all.
NUMBER = re.compile(
    r"^(\s{0,3}#{1,6}\s+)(?:\W*(?:chapter|kapitel|appendix|anhang|part|teil|section|abschnitt)\s+)?"
    r"[*_]*(?:\d+|[A-Z](?=\.))(?:\\?\.\d+)*\\?[.:)]?\s+(?=\S)",
    re.IGNORECASE | re.MULTILINE,
)
CLOSED = re.compile(r"^\s*(?:\||#)")


@dataclass(frozen=True)
class Piece:
    first: int
    #: The page after the last.
    end: int
    markdown: str


def documents(work: Path, split: Split | None) -> Corpus:
    return real(work) if split == "real" else corpus(work, split)


def real(work: Path) -> Corpus:
    """Fetches and cuts what is not there yet: some minutes the first time."""
    directory = work / f"real-{_fingerprint()}"
    missing = []
    for manual in MANUALS:
        if not (directory / manual.name).exists():
            try:
                _cut(manual, directory, work)
            except Unavailable as gone:
                missing.append(f"{manual.producer} ({gone})")
    samples = [sample for manual in MANUALS for sample in _samples(manual, directory)]
    return Corpus(tuple(samples), tuple(missing))


def unnumbered(markdown: str) -> str:
    """With headings that do not begin with their numbers."""
    return NUMBER.sub(r"\1", markdown)


def _samples(manual: Manual, directory: Path) -> Iterator[Sample]:
    for pdf in sorted((directory / manual.name).glob("*.pdf")):
        text = pdf.with_suffix(".md")
        yield Sample(manual.name, manual.producer, manual.language, "real", pdf, text)


def _cut(manual: Manual, directory: Path, work: Path) -> None:
    print(f"cutting {manual.name} …", file=sys.stderr)
    file, web_pages = files(manual, work)
    content = file.read_bytes()
    markdown = markdown_of(web_pages, work)
    half = directory / f"{manual.name}.half"
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    packed = file.suffix == ".gz"
    with pypdfium2.PdfDocument(gzip.decompress(content) if packed else content) as whole:
        for number, piece in enumerate(_pieces(manual.name, _texts(whole), markdown)):
            stem = f"real-{manual.name}-{number}".replace(" ", "_")
            (half / f"{stem}.md").write_text(piece.markdown, encoding="utf-8")
            with pypdfium2.PdfDocument.new() as part:
                part.import_pages(whole, list(range(piece.first, piece.end)))
                part.save(half / f"{stem}.pdf")
    half.rename(directory / manual.name)


def _texts(document: pypdfium2.PdfDocument) -> list[list[str]]:
    texts = []
    for page in document:
        text = page.get_textpage().get_text_range()
        texts.append(words(text.replace("\ufffe", "")).keys)
    return texts


def _pieces(seed: str, pages: Sequence[Sequence[str]], markdown: str) -> list[Piece]:
    """Some that do not overlap, in the order of the text; which ones, the seed says."""
    blanked = MARKUP.sub(lambda match: " " * len(match[0]), markdown)
    text = words(blanked)
    cuts = {
        page: place
        for page, number in borders(pages, text.keys).items()
        if (place := _line_or_word(markdown, text.places[number])) is not None
    }
    cuts |= {0: 0, len(pages): len(markdown)}
    spans = [(a, b) for a in cuts for b in cuts if FEWEST_PAGES <= b - a <= MOST_PAGES]
    random.Random(seed).shuffle(spans)
    chosen: list[Piece] = []
    for first, end in spans:
        apart = all(end <= piece.first or piece.end <= first for piece in chosen)
        if len(chosen) < PIECES and apart:
            there = markdown[cuts[first] : cuts[end]].strip() + "\n"
            here = list(chain.from_iterable(pages[first:end]))
            if _alike(here, words(MARKUP.sub(" ", there)).keys) >= LEAST_ALIKE:
                chosen.append(Piece(first, end, there))
    return sorted(chosen, key=lambda piece: piece.first)


def _alike(here: Sequence[str], there: Sequence[str]) -> float:
    common = (Counter(here) & Counter(there)).total()
    return 2 * common / max(len(here) + len(there), 1)


def _line_or_word(markdown: str, place: int) -> int | None:
    """Where the text can be cut before this word; nowhere in code, tables and headings."""
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


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update((Path(__file__).parent / name).read_bytes())
    return digest.hexdigest()[:12]
