"""Reads Excel workbooks (xlsx): one page per sheet, with cells as displayed."""

import re
from bisect import bisect_right
from collections.abc import Iterator

from ...core.errors import FileTooLarge, UnsupportedFile
from .blocks import (
    REPEATED_CHARACTERS,
    Block,
    Grid,
    Heading,
    OfficeDocument,
    Paragraph,
    Pictures,
    Run,
)
from .containers import Archive
from .markdown import build_page
from .number_formats import BUILT_IN, format_general, format_value
from .ooxml import CHART, DRAWING, RELATIONSHIP, Part, chart_blocks, core_properties, main_part
from .xml_parser import Element, iter_elements, parse_bool, parse_int

S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_SHEET_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing}"
_REFERENCE = re.compile(r"\$?([A-Z]{1,3})\$?(\d{1,7})")
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_SHORT_NUMBER = 15
_PLAIN_NUMBER = re.compile(r"-?\d+(\.\d+)?")


def read_xlsx(archive: Archive, pictures: Pictures, max_cells: int) -> OfficeDocument:
    workbook = main_part(archive, "xl/workbook.xml")
    if workbook.name.endswith(".bin"):
        raise UnsupportedFile("Binary workbooks (xlsb) can only be read as a PDF: use via_pdf")
    book = _Book(workbook)
    pages = []
    for number, sheet in enumerate(workbook.root.iterfind(f"{S}sheets/{S}sheet"), 1):
        name = sheet.get("name", f"Sheet {number}")
        is_hidden = sheet.get("state", "visible") != "visible"
        blocks: list[Block] = [Heading(1, [Run(name + (" (hidden)" if is_hidden else ""))])]
        part = workbook.by_id(sheet.get(f"{RELATIONSHIP}id"))
        if part is not None:
            blocks += _sheet_blocks(part, book, pictures, max_cells)
        pages.append(build_page(number, blocks, pictures, name=name, is_hidden=is_hidden))
    return OfficeDocument(pages=pages, facts=core_properties(archive))


class SheetGrid:
    """The cells of a sheet. Rows and columns start at 0; only cells with text count."""

    def __init__(self, max_cells: int) -> None:
        self._rows: dict[int, dict[int, str]] = {}
        self._links: dict[tuple[int, int], str] = {}
        self._merged: list[tuple[int, int, int]] = []
        self._remaining = max_cells
        self._max_cells = max_cells

    def put(self, row: int, column: int, text: str) -> None:
        self._count(1)
        cells = self._rows.get(row)
        if cells is None:
            cells = self._rows[row] = {}
        cells[column] = text

    def merge(self, row: int, column: int, last_row: int) -> None:
        """Record that a cell spans down to a row: its text is repeated there."""
        if last_row > row:
            self._merged.append((row, column, last_row))

    def link(self, row: int, column: int, target: str) -> None:
        self._links[row, column] = target

    def grid(self) -> Grid | None:
        """Return the table without empty columns; adjacent empty rows are collapsed into one."""
        if not self._rows:
            return None
        rows = sorted(self._rows)
        self._repeat(rows)
        columns = sorted({column for cells in self._rows.values() for column in cells})
        self._remaining = self._max_cells
        self._count(len(rows) * len(columns))
        column_numbers = {column: number for number, column in enumerate(columns)}
        lines: list[list[str]] = []
        links: dict[tuple[int, int], str] = {}
        before = rows[0]
        for row in rows:
            if row > before + 1:
                lines.append([])
            before = row
            line = [""] * len(columns)
            for column, text in self._rows[row].items():
                line[column_numbers[column]] = text
                if self._links and (row, column) in self._links:
                    links[len(lines), column_numbers[column]] = self._links[row, column]
            lines.append(line)
        return Grid(lines, links)

    def _repeat(self, rows: list[int]) -> None:
        for row, column, last in self._merged:
            text = self._rows.get(row, {}).get(column)
            if not text or len(text) > REPEATED_CHARACTERS:
                continue
            # Rows without other cells are skipped: the merged cell was just tall.
            for other in rows[bisect_right(rows, row) : bisect_right(rows, last)]:
                self._count(1)
                self._rows[other].setdefault(column, text)

    def _count(self, cells: int) -> None:
        self._remaining -= cells
        if self._remaining < 0:
            raise FileTooLarge(
                f"A sheet has more than {self._max_cells:,} cells", limit=self._max_cells
            )


class _Book:
    """What the sheets of a workbook share."""

    def __init__(self, workbook: Part) -> None:
        properties = workbook.root.find(f"{S}workbookPr")
        self.is_1904 = properties is not None and parse_bool(properties.get("date1904"))
        self.strings = _strings(workbook.related("sharedStrings"))
        self._codes = _number_formats(workbook.related("styles"))
        self._numbers: dict[tuple[str, str], str] = {}

    def number(self, text: str, style: str | None) -> str:
        try:
            return self._number(text, style)
        except ValueError:
            return text  # not a number: keep it as it is

    def _number(self, text: str, style: str | None) -> str:
        code = self._codes.get(style or "0")
        if code is None:
            if len(text) <= _SHORT_NUMBER and _PLAIN_NUMBER.fullmatch(text):
                return text
            return format_general(float(text))
        # A few numbers are repeated all over most sheets.
        key = (text, code)
        formatted = self._numbers.get(key)
        if formatted is None:
            formatted = format_value(float(text), code, is_1904=self.is_1904)
            if len(self._numbers) < 100_000:
                self._numbers[key] = formatted
        return formatted


def _strings(part: Part | None) -> list[str]:
    if part is None:
        return []
    with part.archive.stream(part.name) as stream:
        return [_rich_text(element) for element in iter_elements(stream, [f"{S}si"])]


def _rich_text(element: Element) -> str:
    """Join the runs of a string, without its phonetic guide (rPh)."""
    parts = []
    for child in element:
        if child.tag == f"{S}t":
            parts.append(child.text or "")
        elif child.tag == f"{S}r":
            parts.append(child.findtext(f"{S}t") or "")
    text = "".join(parts)
    return _ESCAPED.sub(_unescaped, text) if "_x" in text else text


def _unescaped(match: re.Match[str]) -> str:
    char = chr(int(match[1], 16))
    return char if char.isprintable() or char in "\n\t" else ""


def _number_formats(part: Part | None) -> dict[str, str]:
    """Return the number format of each cell style; those that need no formatting are omitted."""
    if part is None:
        return {}
    own = {
        parse_int(each.get("numFmtId")): each.get("formatCode", "")
        for each in part.root.iterfind(f"{S}numFmts/{S}numFmt")
    }
    formats = {}
    for index, style in enumerate(part.root.iterfind(f"{S}cellXfs/{S}xf")):
        number = parse_int(style.get("numFmtId"))
        code = own.get(number) or BUILT_IN.get(number)
        if code and code.lower() != "general":
            formats[str(index)] = code
    return formats


def _sheet_blocks(part: Part, book: _Book, pictures: Pictures, max_cells: int) -> Iterator[Block]:
    cells = SheetGrid(max_cells)
    row = -1
    drawings = []
    tags = [f"{S}{name}" for name in ("row", "mergeCell", "hyperlink", "drawing", "chartsheet")]
    is_chart = False
    with part.archive.stream(part.name) as stream:
        for element in iter_elements(stream, tags):
            match element.tag.removeprefix(S):
                case "row":
                    row = parse_int(element.get("r"), row + 2) - 1
                    _read_row(element, row, book, cells)
                case "mergeCell":
                    _merge(element.get("ref", ""), cells)
                case "hyperlink":
                    _link(element, part, cells)
                case "drawing":
                    drawings.append(element.get(f"{RELATIONSHIP}id"))
                case "chartsheet":
                    is_chart = True
    grid = cells.grid()
    if grid is not None:
        yield grid
    for identity in drawings:
        yield from _read_drawing(part.by_id(identity), pictures, has_charts=is_chart)


def _read_row(row: Element, number: int, book: _Book, cells: SheetGrid) -> None:
    column = -1
    for cell in row:
        if cell.tag != f"{S}c":
            continue
        reference = cell.get("r")
        column = _column(reference) if reference else column + 1
        text = _cell_text(cell, book)
        if text:
            cells.put(number, column, text)


def _column(reference: str) -> int:
    number = 0
    for char in reference:
        if "A" <= char <= "Z":
            number = number * 26 + ord(char) - 64
        elif char != "$":
            break
    return number - 1


def _cell_text(cell: Element, book: _Book) -> str:
    value = formula = inline = None
    for child in cell:
        if child.tag == f"{S}v":
            value = child.text
        elif child.tag == f"{S}f":
            formula = child.text
        elif child.tag == f"{S}is":
            inline = child
    kind = cell.get("t")
    if inline is not None:
        return _rich_text(inline)
    if not value:
        # Programs that do not calculate store the formula only.
        return f"={formula}" if formula and kind != "str" else ""
    match kind:
        case "s":
            return book.strings[int(value)]
        case "b":
            return "TRUE" if value == "1" else "FALSE"
        case None | "n":
            return book.number(value, cell.get("s"))
        case "d":
            return str(value).replace("T00:00:00", "").replace("T", " ")
        case _:
            return str(value)


def _merge(reference: str, cells: SheetGrid) -> None:
    first, _, last = reference.partition(":")
    start, end = _REFERENCE.fullmatch(first), _REFERENCE.fullmatch(last)
    if start and end:
        cells.merge(int(start[2]) - 1, _column(start[1]), int(end[2]) - 1)


def _link(element: Element, part: Part, cells: SheetGrid) -> None:
    target = part.link(element.get(f"{RELATIONSHIP}id"))
    reference = _REFERENCE.match(element.get("ref", ""))
    if target and reference:
        cells.link(int(reference[2]) - 1, _column(reference[1]), target)


def _read_drawing(part: Part | None, pictures: Pictures, *, has_charts: bool) -> Iterator[Block]:
    """Yield pictures and text boxes, and the data of a chart sheet."""
    if part is None:
        return
    for element in part.root.iter(f"{_SHEET_DRAWING}pic", f"{_SHEET_DRAWING}txBody", CHART):
        if element.tag == f"{_SHEET_DRAWING}pic":
            yield Paragraph([part.drawn_picture(element, pictures)])
        elif element.tag == CHART:
            if has_charts:
                yield from chart_blocks(part.by_id(element.get(f"{RELATIONSHIP}id")))
        else:
            for paragraph in element.iterchildren(f"{DRAWING}p"):
                text = "".join(each.text or "" for each in paragraph.iter(f"{DRAWING}t"))
                yield Paragraph([Run(text)])
