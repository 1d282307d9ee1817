"""Paragraphs and rows of an RTF file, put together to blocks."""

import re
from dataclasses import dataclass, field, replace

from .blocks import (
    Block,
    Cell,
    Code,
    Heading,
    Inline,
    Item,
    Paragraph,
    Quote,
    Run,
    Table,
    is_blank,
    words,
)
from .numerals import counted
from .spans import refuse_beyond, repeated
from .style_names import code_like, contents_level, heading_level, quote_like

_LABEL = re.compile(r"[\w.()§ -]*\w[\w.()§ -]*")
#: Borders of cells that are so close are the same (in twentieths of a point).
_CLOSE = 60
_MAX_COLUMNS = 500


@dataclass(frozen=True, slots=True)
class ParagraphForm:
    """What is said about a paragraph before it ends."""

    style: str = ""
    outline: int | None = None
    level: int = 0
    #: How many tables it is in.
    depth: int = 0


@dataclass(slots=True)
class CellForm:
    right: int = 0
    is_covered: bool = False
    goes_on: bool = False


@dataclass(slots=True)
class _OpenTable:
    rows: list[tuple[list[list[Block]], list[CellForm]]] = field(default_factory=list)
    cells: list[list[Block]] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)


class RtfFlow:
    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._line: list[Inline] = []
        self._label = ""
        self._tables: list[_OpenTable] = []

    def add(self, inline: Inline) -> None:
        self._line.append(inline)

    def label(self, text: str) -> None:
        """What stands before an item, as a program without lists would show it."""
        self._label += text

    def end_paragraph(self, form: ParagraphForm) -> None:
        line, self._line = self._line, []
        label, self._label = self._label.strip(), ""
        self._stay_in(form.depth)
        if not is_blank(line):
            self.put(_block(line, label, form))

    def put(self, block: Block) -> None:
        (self._tables[-1].blocks if self._tables else self._blocks).append(block)

    def end_cell(self, form: ParagraphForm) -> None:
        self.end_paragraph(replace(form, depth=max(form.depth, 1)))
        table = self._tables[-1]
        table.cells.append(table.blocks)
        table.blocks = []

    def end_row(self, depth: int, cells: list[CellForm]) -> None:
        self._stay_in(max(depth, 1))
        table = self._tables[-1]
        table.rows.append((table.cells, list(cells)))
        table.cells, table.blocks = [], []

    def blocks(self) -> list[Block]:
        self.end_paragraph(ParagraphForm())
        return self._blocks

    def _stay_in(self, depth: int) -> None:
        """Ends tables that are deeper, begins those that are missing."""
        while len(self._tables) > depth:
            table = self._tables.pop()
            if table.cells or table.blocks:
                table.rows.append(([*table.cells, table.blocks], []))
            self.put(Table(_grid(table.rows)))
        while len(self._tables) < min(depth, 50):
            self._tables.append(_OpenTable())


class RowForms:
    """What is said about the cells of a row, before or after them."""

    def __init__(self) -> None:
        self._cells: list[CellForm] = []
        self._next = CellForm()

    def take(self, word: str, number: int | None, flow: RtfFlow, form: ParagraphForm) -> bool:
        """Whether it was a word of tables."""
        match word:
            case "trowd":
                self._cells, self._next = [], CellForm()
            case "cellx":
                self._next.right = number or 0
                self._cells.append(self._next)
                self._next = CellForm()
            case "clmrg":
                self._next.is_covered = True
            case "clvmrg":
                self._next.goes_on = True
            case "cell":
                flow.end_cell(replace(form, depth=1))
            case "nestcell":
                flow.end_cell(form)
            case "row":
                flow.end_row(1, self._cells)
            case "nestrow":
                flow.end_row(max(form.depth, 2), self._cells)
            case _:
                return False
        return True


def _block(line: list[Inline], label: str, form: ParagraphForm) -> Block:
    level = heading_level(form.style)
    if form.outline is not None and form.outline < 9:
        level = form.outline + 1
    has_label = bool(_LABEL.fullmatch(label))
    if level is not None:
        return Heading(level, [Run(f"{label} "), *line] if has_label else line)
    if contents := contents_level(form.style):
        return Item(contents - 1, "-", line)
    if label:
        if marker := counted(label):
            return Item(form.level, marker, line)
        return Item(form.level, "-", [Run(f"{label} "), *line] if has_label else line)
    if code_like(form.style):
        return Code(words(line))
    if quote_like(form.style):
        # Programs write the look of a style into each run.
        return Quote([Paragraph([_upright(inline) for inline in line])])
    return Paragraph(line)


def _upright(inline: Inline) -> Inline:
    return (
        inline._replace(style=inline.style._replace(italic=False))
        if isinstance(inline, Run)
        else inline
    )


def _grid(rows: list[tuple[list[list[Block]], list[CellForm]]]) -> list[list[Cell]]:
    borders = _borders([form.right for _, forms in rows for form in forms])
    grid: list[list[Cell]] = []
    count = 0
    for cells, forms in rows:
        line: list[Cell] = []
        for at, cell in enumerate(cells):
            form = forms[at] if at < len(forms) else CellForm()
            content: Cell = () if form.is_covered else cell
            if form.goes_on and grid and len(line) < len(grid[-1]):
                content = repeated(grid[-1][len(line)])
            line.append(content)
            if form.right:
                reached = min(range(len(borders)), key=lambda b: abs(borders[b] - form.right)) + 1
                line.extend([()] * (reached - len(line)))
        count += len(line)
        refuse_beyond(count)
        grid.append(line)
    return grid


def _borders(rights: list[int]) -> list[int]:
    borders: list[int] = []
    for right in sorted(set(rights)):
        if not borders or right - borders[-1] > _CLOSE:
            borders.append(right)
    return borders[:_MAX_COLUMNS] or [0]
