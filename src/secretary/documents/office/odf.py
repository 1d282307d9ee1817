"""Reads OpenDocument texts, spreadsheets and presentations (odt, ods, odp)."""

import re

from .blocks import Block, Heading, Paragraph, Run
from .containers import Archive, Element
from .document import OfficeDocument, Pictures, page_of
from .odf_text import (
    DRAW,
    LINK,
    OFFICE,
    SVG,
    TABLE,
    TEXT,
    OdfStyles,
    OdfText,
    cells_of,
    content_of,
    facts_of,
    part_of,
    repeats,
    rows_of,
)
from .slides import Box, in_reading_order, slide_title, spoken_notes
from .xlsx import SheetGrid

_PRESENTATION = "{urn:oasis:names:tc:opendocument:xmlns:presentation:1.0}"
_CLASS = f"{_PRESENTATION}class"
#: Placeholders that are repeated on every slide.
_FURNITURE = {"header", "footer", "date-time", "page-number", "page"}
_CENTIMETRES = {"cm": 1.0, "mm": 0.1, "in": 2.54, "pt": 2.54 / 72, "pc": 2.54 / 6, "px": 2.54 / 96}
_LENGTH = re.compile(r"(-?[\d.]+)([a-z]+)")
#: Attributes with the value of a cell whose text is missing.
_VALUES = ("string-value", "date-value", "time-value", "boolean-value", "value")


def read_odt(archive: Archive, pictures: Pictures) -> OfficeDocument:
    body, text = _opened(archive, pictures, "text")
    blocks = text.blocks(body) if body is not None else []
    return OfficeDocument(pages=[page_of(1, blocks, pictures)], facts=facts_of(archive))


def read_odp(archive: Archive, pictures: Pictures) -> OfficeDocument:
    body, text = _opened(archive, pictures, "presentation")
    slides = body.iterchildren(f"{DRAW}page") if body is not None else ()
    pages = []
    for number, slide in enumerate(slides, 1):
        style = slide.get(f"{DRAW}style-name")
        visibility = text.styles.property("drawing-page", style, f"{_PRESENTATION}visibility")
        is_hidden = visibility == "hidden"
        blocks = _slide_blocks(slide, text, is_hidden=is_hidden)
        pages.append(page_of(number, blocks, pictures, is_hidden=is_hidden))
    return OfficeDocument(pages=pages, facts=facts_of(archive))


def read_ods(archive: Archive, pictures: Pictures, max_cells: int) -> OfficeDocument:
    body, text = _opened(archive, pictures, "spreadsheet")
    tables = body.iterchildren(f"{TABLE}table") if body is not None else ()
    pages = []
    for number, table in enumerate(tables, 1):
        name = table.get(f"{TABLE}name") or f"Sheet {number}"
        style = table.get(f"{TABLE}style-name")
        is_hidden = text.styles.property("table", style, f"{TABLE}display") == "false"
        blocks: list[Block] = [Heading(1, [Run(name + (" (hidden)" if is_hidden else ""))])]
        grid = _cells(table, max_cells).grid()
        if grid is not None:
            blocks.append(grid)
        for frame in table.iter(f"{DRAW}frame"):
            blocks += text.shape(frame)
        pages.append(page_of(number, blocks, pictures, name=name, is_hidden=is_hidden))
    return OfficeDocument(pages=pages, facts=facts_of(archive))


def _opened(archive: Archive, pictures: Pictures, family: str) -> tuple[Element | None, OdfText]:
    content = content_of(archive)
    styles = OdfStyles(content, part_of(archive, "styles.xml"))
    body = content.find(f"{OFFICE}body/{OFFICE}{family}")
    return body, OdfText(archive, styles, pictures)


def _slide_blocks(slide: Element, text: OdfText, *, is_hidden: bool) -> list[Block]:
    shapes = [
        each for each in slide if each.tag.startswith(DRAW) and each.get(_CLASS) not in _FURNITURE
    ]
    title: list[Block] = []
    for shape in shapes:
        if shape.get(_CLASS) == "title":
            title += slide_title(text.shape(shape))
    others = [shape for shape in shapes if shape.get(_CLASS) != "title"]
    blocks: list[Block] = [*title]
    if is_hidden:
        blocks.append(Paragraph([Run("(hidden)")]))
    for shape in in_reading_order([(_box(shape), shape) for shape in others]):
        blocks += text.shape(shape)
    notes = slide.find(f"{_PRESENTATION}notes")
    spoken = [
        block
        for frame in (notes if notes is not None else ())
        if frame.get(_CLASS) == "notes"
        for block in text.shape(frame)
    ]
    return [*blocks, *spoken_notes(spoken)]


def _box(shape: Element) -> Box | None:
    left, top = _length(shape.get(f"{SVG}x")), _length(shape.get(f"{SVG}y"))
    if left is None or top is None:
        return None
    width, height = _length(shape.get(f"{SVG}width")), _length(shape.get(f"{SVG}height"))
    return Box(left, top, width or 0, height or 0)


def _length(text: str | None) -> float | None:
    found = _LENGTH.fullmatch(text or "")
    return float(found[1]) * _CENTIMETRES.get(found[2], 1.0) if found else None


def _cells(table: Element, max_cells: int) -> SheetGrid:
    grid = SheetGrid(max_cells)
    at = 0
    for row, times in rows_of(table):
        column = 0
        for cell, count, is_covered in cells_of(row):
            text = "" if is_covered else _shown(cell)
            if text:
                _put(grid, cell, text, range(at, at + times), range(column, column + count))
            column += count
        at += times
    return grid


def _put(grid: SheetGrid, cell: Element, text: str, rows: range, columns: range) -> None:
    link = next((each.get(LINK) for each in cell.iter(f"{TEXT}a")), None)
    height = repeats(cell, "number-rows-spanned", 1_048_576)
    for row in rows:
        for column in columns:
            grid.put(row, column, text)
            grid.merge(row, column, row + height - 1)
            if link and re.match("https?:", link):
                grid.link(row, column, link)


def _shown(cell: Element) -> str:
    lines = ["".join(_characters(each)) for each in cell.iterchildren(f"{TEXT}p")]
    if lines:
        return "\n".join(lines).strip()
    return next((value for name in _VALUES if (value := cell.get(f"{OFFICE}{name}"))), "")


def _characters(element: Element) -> list[str]:
    parts = [re.sub(r"\s+", " ", element.text or "")]
    for child in element:
        if child.tag in (f"{TEXT}s", f"{TEXT}tab"):
            parts.append(" ")
        elif child.tag == f"{TEXT}line-break":
            parts.append("\n")
        elif child.tag.startswith(TEXT):
            parts += _characters(child)
        parts.append(re.sub(r"\s+", " ", child.tail or ""))
    return parts
