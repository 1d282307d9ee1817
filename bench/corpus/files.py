"""Files for the speed benchmarks: plain pages, mixed pages, and scans."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import pypdfium2
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from .model import Block, Document, Heading, NewPage, Paragraph, Style, plain
from .prose import Language, Prose
from .reportlab_pages import write

#: Longer files repeat these pages.
DIFFERENT = 200
PARAGRAPHS = 7
#: JPEG quality, as scanners use it.
QUALITY = 85


@dataclass(frozen=True)
class Scan:
    language: Language
    dpi: int
    pdf: Path
    #: The images in the PDF, as files, and the text on each.
    images: tuple[Path, ...]
    texts: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.language}, {self.dpi} dpi"

    @property
    def tesseract_language(self) -> str:
        return {"de": "deu", "en": "eng"}[self.language]


def plain_pages(directory: Path, count: int) -> Path:
    """A file with this many pages of about 350 words."""
    target = directory / f"plain-{count}.pdf"
    if target.exists():
        return target
    different = min(count, DIFFERENT)
    made = target.with_suffix(".part")
    write(_document(Prose(f"plain {different}", "en"), different), made)
    if count > different:
        with pypdfium2.PdfDocument(made.read_bytes()) as once, pypdfium2.PdfDocument.new() as all_:
            for start in range(0, count, different):
                all_.import_pages(once, pages=list(range(min(different, count - start))))
            all_.save(made)
    made.replace(target)
    return target


def mixed_pages(directory: Path, count: int, documents: Sequence[Path]) -> Path:
    """A file with this many pages, taken from these documents in turn."""
    target = directory / f"mixed-{count}.pdf"
    with pypdfium2.PdfDocument.new() as mixed:
        for index in range(count):
            with pypdfium2.PdfDocument(documents[index % len(documents)]) as document:
                number = index // len(documents) % len(document)
                mixed.import_pages(document, pages=[number])
        mixed.save(target)
    return target


def variant(file: Path, directory: Path, mark: str) -> Path:
    """The same pages with another digest, so that they are not in the cache."""
    name = hashlib.sha256(mark.encode()).hexdigest()[:8]
    target = directory / f"{file.stem}-{name}.pdf"
    target.write_bytes(file.read_bytes() + f"\n% {mark}\n".encode())
    return target


def scan(directory: Path, language: Language, dpi: int, count: int, different: int = 8) -> Scan:
    """A PDF of page images without a text layer, repeating `different` pages."""
    different = min(different, count)
    prose = Prose(f"scan {language} {dpi}", language)
    document = _document(prose, different)
    drawn = directory / f"drawn-{language}-{different}.pdf"
    write(document, drawn)
    images = []
    with pypdfium2.PdfDocument(drawn) as pages:
        for number in range(different):
            image = pages[number].render(scale=dpi / 72, grayscale=True).to_pil()
            path = directory / f"scan-{language}-{dpi}-{number}.jpg"
            image.save(path, quality=QUALITY, dpi=(dpi, dpi))
            images.append(path)
    target = directory / f"scan-{language}-{dpi}-{count}.pdf"
    canvas = Canvas(str(target), pagesize=document.style.page, invariant=1)
    readers = [ImageReader(BytesIO(path.read_bytes())) for path in images]
    for number in range(count):
        canvas.drawImage(readers[number % different], 0, 0, *document.style.page)
        canvas.showPage()
    canvas.save()
    drawn.unlink()
    return Scan(language, dpi, target, tuple(images), tuple(_texts(document)))


def _document(prose: Prose, pages: int) -> Document:
    blocks: list[Block] = []
    for number in range(pages):
        blocks += [NewPage()] if number else []
        blocks.append(Heading(1, prose.title()))
        for _ in range(PARAGRAPHS):
            blocks.append(Paragraph(plain(prose.paragraph(3, 4))))
    return Document(prose.language, tuple(blocks), Style(size=11, serif=True))


def _texts(document: Document) -> list[str]:
    texts = [""]
    for block in document.blocks:
        match block:
            case NewPage():
                texts.append("")
            case Heading(text=text) | Paragraph(text=text):
                texts[-1] += f"{text}\n"
    return texts
