"""Reads OpenDocument texts, spreadsheets and presentations (odt, ods, odp)."""

import base64
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple
from urllib.parse import unquote

from lxml import etree

from ...core.errors import FileCorrupt, FileEncrypted
from . import conventions
from .blocks import (
    PLAIN,
    Block,
    Heading,
    Inline,
    Item,
    Note,
    NoteReference,
    OfficeDocument,
    Paragraph,
    Picture,
    Pictures,
    Run,
    SpannedCell,
    Style,
    Table,
    check_cell_count,
    is_blank,
    lay_out_cells,
    plain_text,
    with_author,
)
from .containers import Archive
from .markdown import build_page
from .pptx import Box, slide_title, sort_by_position, speaker_notes
from .xlsx import SheetGrid
from .xml_parser import DUBLIN, Element, child_texts, parse_int, parse_xml

_URN = "urn:oasis:names:tc:opendocument:xmlns"
OFFICE, TEXT, STYLE, TABLE, DRAW, SVG, FORMAT, _MANIFEST, _META, _PRESENTATION = (
    f"{{{_URN}:{name}:1.0}}"
    for name in (
        "office", "text", "style", "table", "drawing", "svg-compatible", "xsl-fo-compatible",
        "manifest", "meta", "presentation",
    )
)  # fmt: skip
LINK = "{http://www.w3.org/1999/xlink}href"
_MATH = "{http://www.w3.org/1998/Math/MathML}"
_CLASS = f"{_PRESENTATION}class"
_PROPERTIES = {
    f"{DUBLIN}title": "title",
    f"{DUBLIN}subject": "subject",
    f"{_META}initial-creator": "author",
    f"{DUBLIN}language": "language",
    f"{_META}keyword": "keywords",
    f"{_META}creation-date": "created_at",
    f"{DUBLIN}date": "modified_at",
}
_NAME = f"{STYLE}name"
_NUMBER_FORMATS = {**conventions.NUMBER_FORMATS, "1": "decimal"}
_MAX_PARENTS = 20
#: The limits of a sheet; larger counts are invalid.
_MAX_ROWS, _MAX_COLUMNS = 1_048_576, 16_384
_GROUPS = {f"{TABLE}{name}" for name in ("table-header-rows", "table-rows", "table-row-group")}
_SPACE = re.compile(r"[ \t\n\r]+")
_CHARACTERS = {f"{TEXT}tab": "\t", f"{TEXT}line-break": "\n"}
_SKIPPED = {
    f"{TEXT}tracked-changes", f"{TEXT}hidden-text", f"{TEXT}hidden-paragraph", f"{TEXT}ruby-text",
    f"{OFFICE}forms", f"{TEXT}sequence-decls", f"{TEXT}variable-decls", f"{OFFICE}annotation-end",
    f"{TEXT}note-citation", f"{SVG}title", f"{SVG}desc",
}  # fmt: skip
_CONTAINERS = {
    f"{TEXT}{name}" for name in (
        "section", "index-body", "index-title", "table-of-content", "illustration-index",
        "table-index", "object-index", "user-index", "alphabetical-index", "bibliography",
        "numbered-paragraph", "note-body",
    )
}  # fmt: skip
#: The title, and placeholders that are repeated on every slide.
_TITLE_AND_REPEATED_PLACEHOLDERS = {"title", "header", "footer", "date-time", "page-number", "page"}
_CENTIMETRES = {"cm": 1.0, "mm": 0.1, "in": 2.54, "pt": 2.54 / 72, "pc": 2.54 / 6, "px": 2.54 / 96}
_LENGTH = re.compile(r"(-?[\d.]+)([a-z]+)")
#: Attributes with the value of a cell whose text is missing.
_VALUES = tuple(
    f"{OFFICE}{name}"
    for name in ("string-value", "date-value", "time-value", "boolean-value", "value")
)


def read_odt(archive: Archive, pictures: Pictures) -> OfficeDocument:
    body, text = _opened(archive, pictures, "text")
    page = build_page(1, list(text.blocks(body)), pictures)
    return OfficeDocument(pages=[page], facts=_metadata(archive))


def read_odp(archive: Archive, pictures: Pictures) -> OfficeDocument:
    body, text = _opened(archive, pictures, "presentation")
    pages = []
    for number, slide in enumerate(body.iterchildren(f"{DRAW}page"), 1):
        style = slide.get(f"{DRAW}style-name")
        visibility = text.styles.property("drawing-page", style, f"{_PRESENTATION}visibility")
        is_hidden = visibility == "hidden"
        blocks = _slide_blocks(slide, text, is_hidden=is_hidden)
        pages.append(build_page(number, blocks, pictures, is_hidden=is_hidden))
    return OfficeDocument(pages=pages, facts=_metadata(archive))


def read_ods(archive: Archive, pictures: Pictures, max_cells: int) -> OfficeDocument:
    body, text = _opened(archive, pictures, "spreadsheet")
    pages = []
    for number, table in enumerate(body.iterchildren(f"{TABLE}table"), 1):
        name = table.get(f"{TABLE}name") or f"Sheet {number}"
        style = table.get(f"{TABLE}style-name")
        is_hidden = text.styles.property("table", style, f"{TABLE}display") == "false"
        blocks: list[Block] = [Heading(1, [Run(name + (" (hidden)" if is_hidden else ""))])]
        if (grid := _read_sheet(table, archive, max_cells).grid()) is not None:
            blocks.append(grid)
        for frame in table.iter(f"{DRAW}frame"):
            blocks += text.shape(frame)
        pages.append(build_page(number, blocks, pictures, name=name, is_hidden=is_hidden))
    return OfficeDocument(pages=pages, facts=_metadata(archive))


def reject_encrypted_odf(archive: Archive) -> None:
    try:
        _reject_encrypted(archive)
    except (etree.LxmlError, ValueError) as error:
        raise FileCorrupt("The document is damaged: its manifest is not valid XML") from error


def _reject_encrypted(archive: Archive) -> None:
    if "META-INF/manifest.xml" not in archive:
        return
    manifest = parse_xml(archive.read("META-INF/manifest.xml"))
    if next(manifest.iter(f"{_MANIFEST}encryption-data"), None) is not None:
        raise FileEncrypted("The document is protected by a password")


def _part(archive: Archive, name: str) -> Element | None:
    return parse_xml(archive.read(name)) if name in archive else None


def _metadata(archive: Archive) -> dict[str, str]:
    meta = _part(archive, "meta.xml")
    holder = meta.find(f"{OFFICE}meta") if meta is not None else None
    return child_texts(holder, _PROPERTIES) if holder is not None else {}


class _ListLevel(NamedTuple):
    #: OOXML name of the number format, or `bullet`; empty if no number is displayed.
    form: str = "bullet"
    prefix: str = ""
    suffix: str = ""
    start: int = 1

    def marker(self, count: int) -> tuple[str, str]:
        """Return the marker in Markdown, and a label that is part of the text."""
        if not self.form or self.form == "bullet":
            return "-" if self.form else "", ""
        if self.form == "decimal" and not self.prefix and self.suffix in (".", ")", ""):
            return f"{count}.", ""
        return "-", f"{self.prefix}{conventions.format_number(count, self.form)}{self.suffix} "


class _Styles:
    """Resolves paragraph, character and list styles with their parents."""

    def __init__(self, roots: Iterable[Element]) -> None:
        self._styles: dict[tuple[str, str], Element] = {}
        self._lists: dict[str, dict[int, _ListLevel]] = {}
        for element in chain.from_iterable(root.iterfind("*/*") for root in roots):
            name = element.get(_NAME, "")
            if element.tag == f"{STYLE}style":
                self._styles.setdefault((element.get(f"{STYLE}family", ""), name), element)
            elif element.tag == f"{TEXT}list-style":
                levels = {
                    parse_int(each.get(f"{TEXT}level"), 1) - 1: _level(each) for each in element
                }
                self._lists.setdefault(name, levels)
        self._characters: dict[str | None, tuple[Style, str]] = {}

    def character(self, name: str | None) -> tuple[Style, str]:
        """Return the style, and whether it is raised (`super`) or lowered (`sub`)."""
        if name not in self._characters:
            style, position = PLAIN, ""
            for element in reversed(self._with_parents("text", name)):
                style, position = _styled(element, style, position)
            self._characters[name] = (style, position)
        return self._characters[name]

    def paragraph_names(self, name: str | None) -> list[str]:
        """Return the display names of a paragraph style and its parents."""
        chain = self._with_parents("paragraph", name)
        names = [each.get(f"{STYLE}display-name") or each.get(_NAME, "") for each in chain]
        # The last parent may be a built-in style that is not part of the file.
        last = chain[-1].get(f"{STYLE}parent-style-name") if chain else name
        return [_decode_name(each) for each in (*names, last or "")]

    def property(self, family: str, name: str | None, attribute: str) -> str | None:
        for element in self._with_parents(family, name):
            for properties in element:
                value = properties.get(attribute)
                if value is not None:
                    return str(value)
        return None

    def list_level(self, name: str | None, level: int) -> _ListLevel:
        return self._lists.get(name or "", {}).get(level, _ListLevel())

    def _with_parents(self, family: str, name: str | None) -> list[Element]:
        chain: list[Element] = []
        while name and (family, name) in self._styles and len(chain) < _MAX_PARENTS:
            chain.append(self._styles[family, name])
            name = chain[-1].get(f"{STYLE}parent-style-name")
        return chain


def _styled(element: Element, style: Style, position: str) -> tuple[Style, str]:
    if conventions.is_code_style(
        _decode_name(element.get(f"{STYLE}display-name") or element.get(_NAME, ""))
    ):
        style = style._replace(code=True)
    properties = element.find(f"{STYLE}text-properties")
    if properties is None:
        return style, position
    weight = properties.get(f"{FORMAT}font-weight")
    slant = properties.get(f"{FORMAT}font-style")
    line = properties.get(f"{STYLE}text-line-through-style")
    text_position = properties.get(f"{STYLE}text-position")
    if text_position is not None:
        # `super 58%`, or a relative position: `-33% 58%`.
        position = text_position.partition(" ")[0]
        if position not in ("super", "sub"):
            raised_by = parse_int(position.removesuffix("%"))
            position = "super" if raised_by > 0 else "sub" if raised_by < 0 else ""
    return style._replace(
        bold=style.bold if weight is None else weight in ("bold", "600", "700", "800", "900"),
        italic=style.italic if slant is None else slant in ("italic", "oblique"),
        strike=style.strike if line is None else line != "none",
    ), position


def _level(element: Element) -> _ListLevel:
    if not element.tag.endswith("-number"):
        return _ListLevel()
    return _ListLevel(
        _NUMBER_FORMATS.get(element.get(f"{STYLE}num-format", ""), ""),
        element.get(f"{STYLE}num-prefix", ""),
        element.get(f"{STYLE}num-suffix", ""),
        parse_int(element.get(f"{TEXT}start-value"), 1),
    )


def _decode_name(name: str) -> str:
    """Decode a style name: `Preformatted_20_Text` contains a space."""
    return re.sub(r"_([0-9a-f]{2})_", lambda match: chr(int(match[1], 16)), name)


def _rows(table: Element) -> Iterator[tuple[Element, int]]:
    """Yield each row and how often it is repeated."""
    for child in table:
        if child.tag == f"{TABLE}table-row":
            yield child, _repeat_count(child, "number-rows-repeated", _MAX_ROWS)
        elif child.tag in _GROUPS:
            yield from _rows(child)


def _row_cells(row: Element) -> Iterator[tuple[Element, int, bool]]:
    """Yield each cell, how often it is repeated, and whether another cell covers it."""
    for cell in row.iterchildren(f"{TABLE}table-cell", f"{TABLE}covered-table-cell"):
        count = _repeat_count(cell, "number-columns-repeated", _MAX_COLUMNS)
        yield cell, count, cell.tag == f"{TABLE}covered-table-cell"


def _spanned_cells(table: Element, archive: Archive) -> Iterator[list[tuple[Element, int, int]]]:
    """Yield the visible cells of each row with their column and row spans, for small tables."""
    for row, times in _rows(table):
        cells: list[tuple[Element, int, int]] = []
        for cell, count, is_covered in _row_cells(row):
            if not is_covered:
                across = _repeat_count(cell, "number-columns-spanned")
                down = _repeat_count(cell, "number-rows-spanned")
                cells += [(cell, across, down)] * count
                check_cell_count(len(cells))
                archive.count_cell_text(sum(map(len, cell.itertext())) * count * times)
        for _ in range(times):
            yield cells


def _repeat_count(element: Element, name: str, largest: int = 1000) -> int:
    return min(max(parse_int(element.get(f"{TABLE}{name}"), 1), 1), largest)


@dataclass(slots=True)
class _TextReader:
    """Reads the text of a document, a slide or a sheet into blocks."""

    archive: Archive
    styles: _Styles
    pictures: Pictures
    #: Blocks anchored in a paragraph, such as text boxes and tables; they follow it.
    _anchored: list[Block] = field(default_factory=list)
    _notes: list[Note] = field(default_factory=list)
    _counts: dict[str, int] = field(default_factory=dict)
    #: The last number of each list, by its style, for lists that continue.
    _numbers: dict[str, int] = field(default_factory=dict)

    def blocks(self, container: Element) -> Iterator[Block]:
        for child in container:
            if child.tag in (f"{TEXT}p", f"{TEXT}h"):
                if content := self.inlines(child):
                    yield self._block(child, child.get(f"{TEXT}style-name"), content)
                yield from self._pop_pending()
            elif child.tag == f"{TEXT}list":
                yield from self._list(child, 0, None)
            elif child.tag == f"{TABLE}table":
                yield self.table(child)
                yield from self._pop_pending()
            elif child.tag in _CONTAINERS:
                yield from self.blocks(child)
            elif child.tag.startswith(DRAW):
                yield from self.shape(child)

    def _block(self, element: Element, name: str | None, content: list[Inline]) -> Block:
        if element.tag == f"{TEXT}h":
            return Heading(parse_int(element.get(f"{TEXT}outline-level"), 1), content)
        names = self.styles.paragraph_names(name)
        level = next(filter(None, map(conventions.heading_level, names)), None)
        if level is not None:
            return Heading(level, content)
        return conventions.styled_paragraph(names, content)

    def _pop_pending(self) -> list[Block]:
        pending, self._anchored, self._notes = [*self._anchored, *self._notes], [], []
        return pending

    def _list(self, element: Element, level: int, style: str | None) -> Iterator[Block]:
        style = element.get(f"{TEXT}style-name") or style
        form = self.styles.list_level(style, level)
        key = f"{style}/{level}"
        count = form.start - 1
        is_continued = element.get(f"{TEXT}continue-list") is not None
        if is_continued or element.get(f"{TEXT}continue-numbering") == "true":
            count = self._numbers.get(key, count)
        for item in element.iterchildren(f"{TEXT}list-item", f"{TEXT}list-header"):
            marker, label = "", ""
            if item.tag == f"{TEXT}list-item":
                if any(child.tag != f"{TEXT}list" for child in item):
                    count = parse_int(item.get(f"{TEXT}start-value"), count + 1)
                marker, label = form.marker(count)
            yield from self._item(item, level, style, marker, label)
        self._numbers[key] = count

    def _item(
        self, item: Element, level: int, style: str | None, marker: str, label: str
    ) -> Iterator[Block]:
        for child in item:
            if child.tag == f"{TEXT}list":
                yield from self._list(child, level + 1, style)
                continue
            if child.tag not in (f"{TEXT}p", f"{TEXT}h"):
                continue
            content = self.inlines(child)
            if content and child.tag == f"{TEXT}h":
                yield self._block(child, None, content)
            elif content and not marker and not label:
                yield Item(level, "", content) if level else Paragraph(content)
            elif content:
                yield Item(level, marker, [*([Run(label)] if label else []), *content])
                marker = label = ""
            yield from self._pop_pending()

    def table(self, element: Element) -> Table:
        rows = ([SpannedCell(list(self.blocks(cell)), across, down) for cell, across, down in row]
                for row in _spanned_cells(element, self.archive))  # fmt: skip
        return Table(lay_out_cells(rows))

    def inlines(self, element: Element) -> list[Inline]:
        inlines: list[Inline] = []
        self._read(element, PLAIN, "", inlines)
        return [] if is_blank(inlines) else inlines

    def _read(self, element: Element, style: Style, position: str, inlines: list[Inline]) -> None:
        self._add(element.text, style, position, inlines)
        for child in element:
            tag = child.tag
            if tag == f"{TEXT}span":
                span_style, span_position = self.styles.character(child.get(f"{TEXT}style-name"))
                self._read(child, style.with_marks(span_style), span_position or position, inlines)
            elif tag == f"{TEXT}a":
                target = child.get(LINK, "")
                is_outside = re.match(r"(https?|mailto|ftp|tel):", target, re.IGNORECASE)
                linked = style._replace(link=target) if is_outside else style
                self._read(child, linked, position, inlines)
            elif tag == f"{TEXT}s":
                inlines.append(Run(" " * min(parse_int(child.get(f"{TEXT}c"), 1), 100), style))
            elif tag in _CHARACTERS:
                inlines.append(Run(_CHARACTERS[tag], style))
            elif tag in (f"{TEXT}note", f"{OFFICE}annotation"):
                inlines.append(self._note(child))
            elif tag.startswith(DRAW):
                self._read_anchored(child, inlines)
            elif tag not in _SKIPPED:
                self._read(child, style, position, inlines)
            self._add(child.tail, style, position, inlines)

    def _add(self, text: str | None, style: Style, position: str, inlines: list[Inline]) -> None:
        if text:
            inlines.append(Run(conventions.set_script(_SPACE.sub(" ", text), position), style))

    def _note(self, element: Element) -> NoteReference:
        if element.tag == f"{OFFICE}annotation":
            prefix, blocks = "c", self._nested(element)
            blocks = with_author(blocks, element.findtext(f"{DUBLIN}creator"))
        else:
            prefix = "e" if element.get(f"{TEXT}note-class") == "endnote" else ""
            body = element.find(f"{TEXT}note-body")
            blocks = self._nested(body) if body is not None else []
        self._counts[prefix] = self._counts.get(prefix, 0) + 1
        label = f"{prefix}{self._counts[prefix]}"
        self._notes.append(Note(label, blocks))
        return NoteReference(label)

    def _nested(self, container: Element) -> list[Block]:
        """Read blocks inside a paragraph without emitting what has to follow that paragraph."""
        anchored, self._anchored = self._anchored, []
        notes, self._notes = self._notes, []
        blocks = list(self.blocks(container))
        self._anchored, self._notes = anchored, notes
        return blocks

    def _read_anchored(self, element: Element, inlines: list[Inline]) -> None:
        if element.tag == f"{DRAW}a":
            for child in element:
                self._read_anchored(child, inlines)
            return
        anchored, self._anchored = self._anchored, []
        blocks = self.shape(element)
        self._anchored = anchored
        for block in blocks:
            if isinstance(block, Paragraph) and not plain_text(block.content):
                inlines.extend(block.content)  # a picture, which belongs into the line
            else:
                self._anchored.append(block)

    def shape(self, element: Element) -> list[Block]:
        """Return the content of a frame, a group or any other shape."""
        if element.tag == f"{DRAW}g":
            return [block for child in element for block in self.shape(child)]
        if element.tag != f"{DRAW}frame":
            return list(self.blocks(element)) if element.tag.startswith(DRAW) else []
        for child in element:
            if child.tag == f"{DRAW}text-box":
                return list(self.blocks(child))
            if child.tag == f"{TABLE}table":
                return [self.table(child)]
            if child.tag == f"{DRAW}object" and (blocks := self._object(child)):
                return blocks
            if child.tag == f"{DRAW}image":
                texts = (element.findtext(f"{SVG}{name}", "").strip() for name in ("desc", "title"))
                picture = self._picture(child, next(filter(None, texts), ""))
                return [Paragraph([picture])] if picture.alt or picture.file else []
        return []

    def _picture(self, image: Element, alt: str) -> Picture:
        if not self.pictures.are_saved:
            return Picture(alt)
        name = posixpath.normpath(unquote(image.get(LINK) or ""))
        data = image.findtext(f"{OFFICE}binary-data")
        if name in self.archive:
            return Picture(alt, self.pictures.save(self.archive.read(name)))
        try:
            return Picture(alt, self.pictures.save(base64.b64decode(data or "")))
        except ValueError:
            return Picture(alt)

    def _object(self, element: Element) -> list[Block]:
        """Return a formula, or the data table of a chart."""
        name = posixpath.normpath(posixpath.join(unquote(element.get(LINK) or ""), "content.xml"))
        root = _part(self.archive, name)
        if root is None:
            return []
        if root.tag == f"{_MATH}math":
            text = root.findtext(f".//{_MATH}annotation") or "".join(root.itertext())
            return [Paragraph([Run(" ".join(text.split()), Style(code=True))])]
        table = root.find(f".//{TABLE}table")
        return [self.table(table)] if table is not None else []


def _opened(archive: Archive, pictures: Pictures, family: str) -> tuple[Element, _TextReader]:
    _reject_encrypted(archive)
    content, styles = _part(archive, "content.xml"), _part(archive, "styles.xml")
    if content is None:
        raise FileCorrupt("The document has no content")
    body = content.find(f"{OFFICE}body/{OFFICE}{family}")
    # Without a body, the root serves as an empty one.
    body = content if body is None else body
    roots = [content] if styles is None else [content, styles]
    return body, _TextReader(archive, _Styles(roots), pictures)


def _slide_blocks(slide: Element, text: _TextReader, *, is_hidden: bool) -> list[Block]:
    shapes = [shape for shape in slide if shape.tag.startswith(DRAW)]
    blocks: list[Block] = []
    for shape in shapes:
        if shape.get(_CLASS) == "title":
            blocks += slide_title(text.shape(shape))
    if is_hidden:
        blocks.append(Paragraph([Run("(hidden)")]))
    others = [each for each in shapes if each.get(_CLASS) not in _TITLE_AND_REPEATED_PLACEHOLDERS]
    for shape in sort_by_position([(_box(shape), shape) for shape in others]):
        blocks += text.shape(shape)
    frames = slide.iterfind(f"{_PRESENTATION}notes/*[@{_CLASS}='notes']")
    return [*blocks, *speaker_notes([block for frame in frames for block in text.shape(frame)])]


def _box(shape: Element) -> Box | None:
    left, top, width, height = (
        float(match[1]) * _CENTIMETRES.get(match[2], 1.0) if match else None
        for name in ("x", "y", "width", "height")
        for match in [_LENGTH.fullmatch(shape.get(f"{SVG}{name}", ""))]
    )
    return None if left is None or top is None else Box(left, top, width or 0, height or 0)


def _read_sheet(table: Element, archive: Archive, max_cells: int) -> SheetGrid:
    grid = SheetGrid(archive, max_cells)
    at = 0
    for row, times in _rows(table):
        column = 0
        for cell, count, is_covered in _row_cells(row):
            lines = ["".join(_characters(each)) for each in cell.iterchildren(f"{TEXT}p")]
            values = map(cell.get, () if lines else _VALUES)
            text = "\n".join(lines).strip() if lines else next(filter(None, values), "")
            if text and not is_covered:
                link = next((each.get(LINK) for each in cell.iter(f"{TEXT}a")), None)
                height = _repeat_count(cell, "number-rows-spanned", _MAX_ROWS)
                for y in range(at, at + times):
                    for x in range(column, column + count):
                        grid.put(y, x, text)
                        grid.merge(y, x, y + height - 1)
                        if link and re.match("https?:", link):
                            grid.link(y, x, link)
            column += count
        at += times
    return grid


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
