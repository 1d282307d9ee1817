"""The corpus of generated documents, made once and kept until the code changes."""

import hashlib
import shutil
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pypdfium2
from harness import log

from . import markup_pages, office_pages, placed_pages, reportlab_pages
from .kinds import KINDS
from .model import Document
from .prose import Language, Prose

#: The last are real documents (`manuals.py`).
Split = Literal["dev", "test", "real"]
SPLITS: tuple[Split, ...] = ("dev", "test")
STANDARD = ("typst", "reportlab", "fodt", "chromium")
WITH_DOCX = ("typst", "reportlab", "docx", "chromium")
PLACED = ("placed",) * 3
#: The producers of each split; the splits have different seeds.
PRODUCERS: dict[str, tuple[str, ...]] = dict.fromkeys(KINDS, STANDARD) | {
    "report": ("typst", "reportlab", "docx", "fodt", "chromium"),
    "book": ("typst", "reportlab", "fodt"),
    "slides": ("typst", "reportlab", "pptx"),
    "invoice": WITH_DOCX,
    "long cells": WITH_DOCX,
    "nested lists": WITH_DOCX,
    "word by word": PLACED,
    "out of order": PLACED,
    "rotated pages": PLACED,
}
TAGGED = ("typst", "chromium")
PROGRAMS = {"chromium": "chromium", "docx": "soffice", "fodt": "soffice", "pptx": "soffice"}


@dataclass(frozen=True)
class Sample:
    kind: str
    producer: str
    language: Language
    split: Split
    pdf: Path
    markdown: Path

    @property
    def name(self) -> str:
        return self.pdf.stem


@dataclass(frozen=True)
class Corpus:
    samples: tuple[Sample, ...]
    #: Producers that are not installed, and how many documents are missing for it.
    missing: tuple[str, ...]


def corpus(work: Path, split: Split | None = None) -> Corpus:
    """Takes a minute the first time."""
    code = Path(__file__).parent
    files = [*code.iterdir(), *code.glob("templates/*")]
    sources = [path for path in files if path.stem not in ("manuals", "score")]
    directory = work / f"corpus-{fingerprint(path for path in sources if path.is_file())}"
    samples = [sample for name in SPLITS for sample in _samples(directory, name)]
    lacking = {producer for producer, program in PROGRAMS.items() if not shutil.which(program)}
    here = [sample for sample in samples if sample.producer not in lacking]
    if not all(sample.pdf.exists() and sample.markdown.exists() for sample in here):
        for old in work.glob("corpus-*"):
            shutil.rmtree(old)
        directory.mkdir(parents=True)
        _make(here, directory)
    chosen = [sample for sample in here if split in (None, sample.split)]
    gone = [sample for sample in samples if sample.producer in lacking]
    named = (f"{p} ({sum(s.producer == p for s in gone)} documents)" for p in sorted(lacking))
    return Corpus(tuple(chosen), tuple(named))


def _samples(directory: Path, split: Split) -> list[Sample]:
    samples = []
    for kind, producers in PRODUCERS.items():
        for number, producer in enumerate(producers):
            # Splits also differ in which producer gets which language.
            german = (number + len(kind) + SPLITS.index(split)) % 2 == 0
            name = f"{split}-{kind}-{number}-{producer}".replace(" ", "_").replace(",", "")
            pdf = directory / f"{name}.pdf"
            language: Language = "de" if german else "en"
            samples.append(Sample(kind, producer, language, split, pdf, pdf.with_suffix(".md")))
    return samples


def document_of(sample: Sample) -> Document:
    return KINDS[sample.kind](Prose(sample.name, sample.language))


def _make(samples: Sequence[Sample], directory: Path) -> None:
    log(f"generating {len(samples)} documents")
    by_producer: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_producer[sample.producer].append(sample)
    for producer, these in by_producer.items():
        # An interrupted run must not leave incomplete files.
        with tempfile.TemporaryDirectory(prefix="making-", dir=directory) as scratch:
            made = {Path(scratch) / sample.pdf.name: sample for sample in these}
            _write(producer, made)
            for written, sample in made.items():
                sample.markdown.write_text(document_of(sample).markdown(), encoding="utf-8")
                if producer in TAGGED and zlib.crc32(sample.name.encode()) % 3:
                    _remove_tags(written)
                written.replace(sample.pdf)


def _remove_tags(file: Path) -> None:
    """Most PDFs are untagged; all of these two producers would be tagged."""
    with pypdfium2.PdfDocument(file.read_bytes()) as tagged, pypdfium2.PdfDocument.new() as bare:
        bare.import_pages(tagged)
        bare.save(file)


def _write(producer: str, made: Mapping[Path, Sample]) -> None:
    sources = []
    for target, sample in made.items():
        document, office = document_of(sample), target.with_suffix(f".{producer}")
        match producer:
            case "chromium":
                markup_pages.write_chromium(document, target)
            case "typst":
                markup_pages.write_typst(document, target)
            case "reportlab":
                reportlab_pages.write(document, target)
            case "placed":
                placed_pages.write(document, target, sample.kind)
            case "fodt":
                office.write_text(markup_pages.source(document, "fodt"), encoding="utf-8")
            case "docx":
                office_pages.write_docx(document, office)
            case _:
                office_pages.write_pptx(document, office)
        sources += [office] if office.exists() else []
    if sources:
        markup_pages.convert_office(sources, list(made))


def fingerprint(files: Iterable[Path]) -> str:
    """Of the code and data that determine a corpus."""
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]
