"""Documents whose words are drawn one by one, in reading order or out of it."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas

from .model import Document, Entry, Heading, Listing, Paragraph, Table, plain

GAP = 20


@dataclass(frozen=True)
class Word:
    page: int
    x: float
    y: float
    text: str
    font: str
    size: float


Disorder = Callable[[list[Word], random.Random], list[Word]]


def write(document: Document, target: Path, manner: str) -> None:
    words = Setter(document).words
    dice = random.Random(target.stem)
    disorder = dice.choice(DISORDERS)
    width, height = document.style.page
    canvas = Canvas(str(target), pagesize=(width, height), invariant=1)
    for page in range(1 + max(word.page for word in words)):
        placed = [word for word in words if word.page == page]
        if manner == "out of order":
            placed = disorder(placed, dice)
        if manner == "rotated pages":
            _turn(canvas, (width, height), quarter=1 + page % 3)
        for word in placed:
            canvas.setFont(word.font, word.size)
            canvas.drawString(word.x, word.y, word.text)
        canvas.showPage()
    canvas.save()


def _groups(words: list[Word], dice: random.Random) -> list[Word]:
    """As after manual edits: some lines at a time, in any order."""
    groups = [words[start : start + 40] for start in range(0, len(words), 40)]
    dice.shuffle(groups)
    return [word for group in groups for word in group]


def _across(words: list[Word], dice: random.Random) -> list[Word]:
    """Line by line over the whole page, across its columns."""
    return sorted(words, key=lambda word: (-round(word.y), word.x))


def _by_font(words: list[Word], dice: random.Random) -> list[Word]:
    """As programs do that avoid font changes."""
    return sorted(words, key=lambda word: (word.font, word.size))


DISORDERS: tuple[Disorder, ...] = (_groups, _across, _by_font)


def _turn(canvas: Canvas, size: tuple[int, int], quarter: int) -> None:
    """The content is rotated, and the page has the rotation that undoes it."""
    width, height = size
    canvas.setPageRotation(90 * quarter)  # ReportLab swaps width and height itself
    canvas.rotate(90 * quarter)
    canvas.translate(*{1: (0, -height), 2: (-width, -height), 3: (-width, 0)}[quarter])


class Setter:
    """Breaks lines at the column width and fills one column after the other."""

    def __init__(self, document: Document) -> None:
        self._style = style = document.style
        families = ("Times-Roman", "Times-Bold") if style.serif else ("Helvetica", "Helvetica-Bold")
        self._regular, self._bold = families
        inner = style.page[0] - 2 * style.margin
        self._width = (inner - GAP * (style.columns - 1)) / style.columns
        self._page, self._column = 0, 0
        self._y: float = style.page[1] - style.margin
        self.words: list[Word] = []
        for block in document.blocks:
            self._set(block)

    def _set(self, block: object) -> None:
        style, size = self._style, self._style.size
        match block:
            case Heading(level, text):
                large = size * style.heads[level - 1]
                self._skip(large * 0.6)
                self._text(text, self._bold if style.heads_bold else self._regular, large)
                self._skip(large * 0.3)
            case Paragraph(text=text):
                self._text(plain(text), self._regular, size)
                self._skip(size * 0.7)
            case Listing(entries, numbered):
                self._list(entries, numbered, indent=10)
                self._skip(size * 0.5)
            case Table():
                self._table(block)
                self._skip(size)

    def _list(self, entries: tuple[Entry, ...], numbered: bool, indent: float) -> None:
        size = self._style.size
        for number, entry in enumerate(entries, 1):
            self._room(size * 1.3)
            mark = f"{number}." if numbered else "•"
            self._place(indent - 10, self._y - size * 1.3, mark, self._regular, size)
            self._text(entry.text, self._regular, size, indent=indent + 6)
            self._list(entry.entries, False, indent + 16)

    def _table(self, table: Table) -> None:
        size, start = self._style.size * 0.9, 0.0
        edges = []
        for share in table.shares():
            edges.append((start, self._width * share - 10))
            start += self._width * share
        for number, cells in enumerate(table.rows):
            font = self._bold if number == 0 else self._regular
            broken = [
                self._lines(cell, font, size, width)
                for cell, (_, width) in zip(cells, edges, strict=True)
            ]
            tall = size * 1.25 * max(map(len, broken))
            self._room(tall)
            for column, (lines, (left, width)) in enumerate(zip(broken, edges, strict=True)):
                for row, line in enumerate(lines):
                    free = width - stringWidth(line, font, size) if column in table.figures else 0
                    y = self._y - size * (1 + 1.25 * row)
                    self._line(line, left + free, y, font, size)
            self._y -= tall + 4

    def _text(self, text: str, font: str, size: float, indent: float = 0) -> None:
        for line in self._lines(text, font, size, self._width - indent):
            self._room(size * 1.3)
            self._y -= size * 1.3
            self._line(line, indent, self._y, font, size)

    def _lines(self, text: str, font: str, size: float, width: float) -> list[str]:
        lines = [""]
        for word in text.split():
            longer = f"{lines[-1]} {word}".strip()
            if lines[-1] and stringWidth(longer, font, size) > width:
                lines.append(word)
            else:
                lines[-1] = longer
        return lines

    def _line(self, line: str, x: float, y: float, font: str, size: float) -> None:
        for word in line.split():
            self._place(x, y, word, font, size)
            x += stringWidth(word + " ", font, size)

    def _place(self, x: float, y: float, text: str, font: str, size: float) -> None:
        left = self._style.margin + self._column * (self._width + GAP)
        self.words.append(Word(self._page, left + x, y, text, font, size))

    def _skip(self, height: float) -> None:
        self._y -= height

    def _room(self, height: float) -> None:
        if self._y - height >= self._style.margin:
            return
        self._y = self._style.page[1] - self._style.margin
        self._column += 1
        if self._column == self._style.columns:
            self._column, self._page = 0, self._page + 1
