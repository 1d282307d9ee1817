"""Reads Rich Text Format (rtf) as one page."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ...core.errors import FileCorrupt
from . import conventions
from .blocks import (
    PLAIN,
    Block,
    Cell,
    Heading,
    Inline,
    Item,
    Note,
    NoteReference,
    OfficeDocument,
    Picture,
    Pictures,
    Run,
    Style,
    Table,
    check_cell_count,
    is_blank,
    repeatable_cell,
    with_author,
)
from .containers import MIB
from .markdown import build_page
from .text import read_limited

MAX_RTF_BYTES = 256 * MIB
_SIGNS = {
    "tab": "\t", "line": "\n", "emdash": "—", "endash": "\u2013", "bullet": "•",
    "lquote": "\u2018", "rquote": "\u2019", "ldblquote": "“", "rdblquote": "”",
    "emspace": " ", "enspace": " ", "qmspace": " ", "lbr": "\n",
}  # fmt: skip
_SYMBOLS = {"~": "\u00a0", "_": "-", "\\": "\\", "{": "{", "}": "}"}
_MARKS = {"b": "bold", "i": "italic", "strike": "strike", "striked": "strike"}
_METADATA = {"title", "author", "subject", "keywords"}
_EQUATION = re.compile(r"m[A-Za-z]+")
_EQUATION_PROPERTIES = re.compile(r"m[A-Za-z]+Pr")
#: Destinations that are not part of the text.
_SKIPPED_DESTINATIONS = {
    "colortbl", "header", "headerl", "headerr", "headerf", "footer", "footerl", "footerr",
    "footerf", "ftnsep", "ftnsepc", "aftnsep", "aftnsepc", "nonshppict", "listtable", "xe", "tc",
    "listoverridetable", "nonesttables", "filetbl", "revtbl", "rsidtbl", "bkmkstart", "bkmkend",
    "atnid", "atnref", "atndate", "atntime", "atnparent", "datafield", "objdata", "sp", "txe",
}  # fmt: skip
#: Optional destinations (`\*`) that are read nevertheless.
_OPTIONAL_DESTINATIONS = {
    "shppict", "shptxt", "shpinst", "footnote", "annotation", "atnauthor", "fldinst",
    "nesttableprops", "listtext", "pntext", "ud", "cs", "picprop",
}  # fmt: skip
#: Code pages by a font's character set.
_CHARSETS = {
    77: "mac_roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "gbk", 136: "big5",
    161: "cp1253", 162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257",
    204: "cp1251", 222: "cp874", 238: "cp1250", 255: "cp437",
}  # fmt: skip
_SYMBOL_CHARSET = 2
_CODE_PAGES = {"mac": "mac_roman", "pc": "cp437", "pca": "cp850", "ansi": "cp1252"}
_LABEL = re.compile(r"[\w.()§ -]*\w[\w.()§ -]*")
#: Cell borders closer than this are the same (in twips).
_BORDER_TOLERANCE = 60
_MAX_COLUMNS = 500
_TOKEN = re.compile(
    rb"\\(?P<word>[A-Za-z]{1,40})(?P<number>-?\d{1,10})?[ ]?"
    rb"|\\'(?P<hex>[0-9A-Fa-f]{2})|\\(?P<symbol>[^A-Za-z])"
    rb"|(?P<brace>[{}])|(?P<text>[^\\{}\r\n\0]+)|[\r\n\0]+|\\"
)


def read_rtf(path: str, pictures: Pictures) -> OfficeDocument:
    reader = _Reader(pictures)
    reader.read(read_limited(path, MAX_RTF_BYTES, noun="RTF file"))
    blocks = reader.flow.blocks()
    return OfficeDocument(pages=[build_page(1, blocks, pictures)], facts=reader.metadata)


@dataclass(slots=True)
class _Font:
    name: str = ""
    charset: int = 0
    page: int | None = None

    @property
    def is_symbols(self) -> bool:
        has_symbol_name = self.name.lower().startswith(("wingdings", "webdings"))
        return has_symbol_name or self.charset == _SYMBOL_CHARSET


def _codec_or_default(page: str) -> str:
    try:
        "".encode(page)
    except LookupError:
        return "utf-8" if page == "cp65001" else "cp1252"
    return page


@dataclass(frozen=True, slots=True)
class _ParagraphFormat:
    """Paragraph properties."""

    style: str = ""
    outline: int | None = None
    level: int = 0
    #: Nesting depth of tables.
    depth: int = 0


@dataclass(slots=True)
class _CellFormat:
    right: int = 0
    is_covered: bool = False
    continues_above: bool = False


@dataclass(slots=True)
class _OpenTable:
    rows: list[tuple[list[list[Block]], list[_CellFormat]]] = field(default_factory=list)
    cells: list[list[Block]] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)


class _BlockBuilder:
    """Collects inline content into paragraphs and table cells."""

    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._line: list[Inline] = []
        self._label = ""
        self._tables: list[_OpenTable] = []

    def add(self, inline: Inline) -> None:
        self._line.append(inline)

    def label(self, text: str) -> None:
        """Collect the label of a list item, which RTF provides as text."""
        self._label += text

    def end_paragraph(self, form: _ParagraphFormat) -> None:
        line, self._line = self._line, []
        label, self._label = self._label.strip(), ""
        self._set_table_depth(form.depth)
        if not is_blank(line):
            self.put(_block(line, label, form))

    def put(self, block: Block) -> None:
        (self._tables[-1].blocks if self._tables else self._blocks).append(block)

    def end_cell(self, form: _ParagraphFormat) -> None:
        self.end_paragraph(replace(form, depth=max(form.depth, 1)))
        table = self._tables[-1]
        table.cells.append(table.blocks)
        table.blocks = []

    def end_row(self, depth: int, cells: list[_CellFormat]) -> None:
        self._set_table_depth(max(depth, 1))
        table = self._tables[-1]
        table.rows.append((table.cells, list(cells)))
        table.cells, table.blocks = [], []

    def blocks(self) -> list[Block]:
        self.end_paragraph(_ParagraphFormat())
        return self._blocks

    def _set_table_depth(self, depth: int) -> None:
        """Close tables that are deeper, and open those that are missing."""
        while len(self._tables) > depth:
            table = self._tables.pop()
            if table.cells or table.blocks:
                table.rows.append(([*table.cells, table.blocks], []))
            self.put(Table(_grid(table.rows)))
        while len(self._tables) < min(depth, 50):
            self._tables.append(_OpenTable())


def _block(line: list[Inline], label: str, form: _ParagraphFormat) -> Block:
    level = conventions.heading_level(form.style)
    if form.outline is not None and form.outline < 9:
        level = form.outline + 1
    labelled = [Run(f"{label} "), *line] if _LABEL.fullmatch(label) else line
    if level is not None:
        return Heading(level, labelled)
    if contents := conventions.toc_level(form.style):
        return Item(contents - 1, "-", line)
    if label:
        marker = conventions.decimal_marker(label)
        return Item(form.level, marker or "-", line if marker else labelled)
    if conventions.is_quote_style(form.style):
        # Programs repeat the formatting of a style in each run.
        for number, inline in enumerate(line):
            if isinstance(inline, Run):
                line[number] = inline._replace(style=inline.style._replace(italic=False))
    return conventions.styled_paragraph([form.style], line)


def _grid(rows: list[tuple[list[list[Block]], list[_CellFormat]]]) -> list[list[Cell]]:
    borders: list[int] = []
    for right in sorted({form.right for _, forms in rows for form in forms}):
        if not borders or right - borders[-1] > _BORDER_TOLERANCE:
            borders.append(right)
    borders = borders[:_MAX_COLUMNS] or [0]
    grid: list[list[Cell]] = []
    count = 0
    for cells, forms in rows:
        line: list[Cell] = []
        for at, cell in enumerate(cells):
            form = forms[at] if at < len(forms) else _CellFormat()
            content: Cell = () if form.is_covered else cell
            if form.continues_above and grid and len(line) < len(grid[-1]):
                content = repeatable_cell(grid[-1][len(line)])
            line.append(content)
            if form.right:
                reached = min(range(len(borders)), key=lambda b: abs(borders[b] - form.right)) + 1
                line.extend([()] * (reached - len(line)))
        count += len(line)
        check_cell_count(count)
        grid.append(line)
    return grid


@dataclass(slots=True)
class _Group:
    """The state of a group; a nested group starts with a copy."""

    flow: _BlockBuilder
    #: What its text is: `text`, the name of a destination, or `ignored`.
    role: str = "text"
    style: Style = PLAIN
    is_hidden: bool = False
    script: str = ""
    font: int = 0
    fallback: int = 1
    form: _ParagraphFormat = field(default_factory=_ParagraphFormat)
    #: Collected text for `on_end`, or None.
    text: list[str] | None = None
    is_endnote: bool = False
    on_end: "Callable[[_Group], None] | None" = None


class _Reader:
    """Interprets control words and keeps the state of nested groups."""

    def __init__(self, pictures: Pictures) -> None:
        self.flow = _BlockBuilder()
        self.metadata: dict[str, str] = {}
        self._pictures = pictures
        self._code_page = "cp1252"
        self._default_font = 0
        self._fonts: dict[int, _Font] = {}
        #: Names of the styles; those of characters have negative numbers.
        self._styles: dict[int, str] = {}
        self._groups = [_Group(self.flow)]
        #: The cell definitions of the table row.
        self._cells: list[_CellFormat] = []
        self._next_cell = _CellFormat()
        self._bytes: list[bytes] = []
        self._skipped = 0
        self._high = 0
        self._is_optional = False
        self._link: str | None = None
        self._author = ""
        self._counts = {"": 0, "e": 0, "c": 0}

    @property
    def _group(self) -> _Group:
        return self._groups[-1]

    def read(self, data: bytes) -> None:
        """Read up to the end of the outermost group; a file without it is truncated."""
        position = 0
        while match := _TOKEN.match(data, position):
            position = match.end()
            if text := match["text"]:
                self._add_bytes(text)
                continue
            if digits := match["hex"]:
                self._add_bytes(bytes.fromhex(digits.decode()))
                continue
            if match.lastgroup is not None:
                self._flush()
            if word := match["word"]:
                number = int(match["number"]) if match["number"] else None
                if word == b"bin":
                    size = max(number or 0, 0)
                    self._add_picture_data(data[position : position + size].hex())
                    position += size
                else:
                    self._word(word.decode(), number)
            elif symbol := match["symbol"]:
                self._symbol(symbol.decode("latin-1"))
            elif match["brace"] == b"{":
                self._groups.append(replace(self._group, on_end=None))
            elif match["brace"]:
                group = self._groups.pop()
                if group.on_end is not None:
                    group.on_end(group)
                if len(self._groups) == 1:
                    return
        raise FileCorrupt("The RTF file is truncated")

    def _symbol(self, symbol: str) -> None:
        if symbol == "*":
            self._is_optional = True
        elif symbol in "\n\r":
            self._end_paragraph()
        elif symbol in _SYMBOLS:
            self._write(_SYMBOLS[symbol])

    def _add_bytes(self, data: bytes) -> None:
        text = data[self._skipped :]
        self._skipped = max(self._skipped - len(data), 0)
        if self._group.role == "pict":
            self._add_picture_data(text.decode("latin-1"))
        elif self._group.role != "ignored":
            self._bytes.append(text)

    def _flush(self) -> None:
        """Decode the collected bytes at once: characters may have two."""
        if not self._bytes:
            return
        data, self._bytes = b"".join(self._bytes), []
        font = self._fonts.get(self._group.font) or _Font()
        if font.is_symbols and self._group.role != "fonttbl":
            self._write(
                "".join(conventions.symbol_character(font.name or "symbol", byte) for byte in data)
            )
        elif font.page:
            self._write(data.decode(_codec_or_default(f"cp{font.page}"), "replace"))
        else:
            self._write(data.decode(_CHARSETS.get(font.charset, self._code_page), "replace"))

    def _write(self, text: str) -> None:
        group = self._group
        if group.text is not None:
            group.text.append(text)
        elif group.role == "label":
            group.flow.label(text)
        elif group.role == "text" and not group.is_hidden:
            style = group.style._replace(link=self._link) if self._link else group.style
            group.flow.add(Run(conventions.set_script(text, group.script), style))

    def _word(self, word: str, number: int | None) -> None:
        is_optional, self._is_optional = self._is_optional, False
        if self._group.role == "ignored":
            return
        is_unknown = (
            is_optional and word not in _OPTIONAL_DESTINATIONS and not _EQUATION.fullmatch(word)
        )
        if is_unknown or word in _SKIPPED_DESTINATIONS or _EQUATION_PROPERTIES.fullmatch(word):
            self._group.role = "ignored"
        elif word == "u":
            self._unicode(number or 0)
        elif word in _SIGNS:
            self._write(_SIGNS[word])
        elif not (self._destination(word, number or 0) or self._table(word, number or 0)):
            self._format(word, number)

    def _unicode(self, number: int) -> None:
        code = number % 65536
        self._skipped = self._group.fallback
        if 0xD800 <= code < 0xDC00:
            self._high = code
            return
        if 0xDC00 <= code < 0xE000 and self._high:
            code = 0x10000 + ((self._high - 0xD800) << 10) + code - 0xDC00
        self._high = 0
        if 0xF000 <= code <= 0xF0FF:
            font = self._fonts.get(self._group.font) or _Font()
            # In a list label, any unknown symbol is a bullet.
            unknown = "•" if self._group.role == "label" else ""
            name = font.name if font.is_symbols else "symbol"
            self._write(conventions.symbol_character(name, code) or unknown)
        elif not 0xD800 <= code < 0xE000:
            self._write(chr(code))

    def _destination(self, word: str, number: int) -> bool:
        """Handle the start of a destination or the end of a paragraph; return whether it is one."""
        group = self._group
        match word:
            case "fonttbl" | "stylesheet" | "info":
                group.role = word
            case "listtext" | "pntext":
                group.role = "label"
            case "pict":
                group.role = "pict"
                self._collect_text(self._add_picture)
            case "fldinst":
                self._collect_text(self._add_field)
            case "field":
                before = self._link
                group.on_end = lambda _: setattr(self, "_link", before)
            case "footnote" | "annotation" | "shptxt":
                self._open_aside(word)
            case "atnauthor":
                self._collect_text(lambda text: setattr(self, "_author", text))
            case "s" | "cs" if group.role == "stylesheet":
                self._collect_text(lambda text: self._name_style(text, number, word))
            case "par" | "sect" | "page":
                self._end_paragraph()
            case _ if word in _METADATA and group.role == "info":
                self._collect_text(
                    lambda text: self.metadata.update({word: text.strip()} if text.strip() else {})
                )
            case _:
                return False
        return True

    def _collect_text(self, use: Callable[[str], None]) -> None:
        """Call `use` with the text of the group when it ends."""
        self._group.text = []
        self._group.on_end = lambda group: use("".join(group.text or ()))

    def _name_style(self, text: str, number: int, word: str) -> None:
        name = text.strip().rstrip(";").split(",")[0].strip()
        self._styles[-number if word == "cs" else number] = name

    def _add_field(self, instruction: str) -> None:
        self._link = conventions.hyperlink_target(instruction) or self._link
        if text := conventions.button_text(instruction):
            self._write(text)

    def _open_aside(self, word: str) -> None:
        """Start a note or a text box, which has paragraphs of its own."""
        group = self._group
        outer, group.flow = group.flow, _BlockBuilder()
        group.style, group.form = PLAIN, _ParagraphFormat()

        def end(ended: _Group) -> None:
            blocks = ended.flow.blocks()
            if word == "shptxt":
                for block in blocks:
                    outer.put(block)
                return
            prefix = "c" if word == "annotation" else "e" if ended.is_endnote else ""
            self._counts[prefix] += 1
            label = f"{prefix}{self._counts[prefix]}"
            outer.add(NoteReference(label))
            outer.put(Note(label, with_author(blocks, self._author) if prefix == "c" else blocks))

        group.on_end = end

    def _add_picture_data(self, digits: str) -> None:
        if self._group.role == "pict" and self._group.text is not None:
            self._group.text.append(digits)

    def _add_picture(self, text: str) -> None:
        if not self._pictures.are_saved:
            return
        digits = re.sub(r"[^0-9A-Fa-f]", "", text)
        name = self._pictures.save(bytes.fromhex(digits[: len(digits) // 2 * 2]))
        if name is not None:
            self._group.flow.add(Picture("", name))

    def _end_paragraph(self) -> None:
        if self._group.role == "text" and self._group.text is None:
            self._group.flow.end_paragraph(self._group.form)
        else:
            self._write(" ")

    def _table(self, word: str, number: int) -> bool:
        """Apply a control word; return whether it concerns tables."""
        flow, form = self._group.flow, self._group.form
        match word:
            case "trowd":
                self._cells, self._next_cell = [], _CellFormat()
            case "cellx":
                self._next_cell.right = number
                self._cells.append(self._next_cell)
                self._next_cell = _CellFormat()
            case "clmrg":
                self._next_cell.is_covered = True
            case "clvmrg":
                self._next_cell.continues_above = True
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

    def _format(self, word: str, parameter: int | None) -> None:
        """Apply paragraph and character properties, fonts and encodings."""
        group, form, style = self._group, self._group.form, self._group.style
        number, is_on = parameter or 0, parameter != 0
        match word:
            case "pard":
                group.form = _ParagraphFormat()
            case "s":
                group.form = replace(form, style=self._styles.get(number, ""))
            case "outlinelevel":
                group.form = replace(form, outline=number)
            case "ilvl":
                group.form = replace(form, level=min(max(number, 0), 8))
            case "intbl":
                group.form = replace(form, depth=max(form.depth, 1))
            case "itap":
                group.form = replace(form, depth=max(number, 0))
            case "b" | "i" | "strike" | "striked":
                marks: dict[str, Any] = {_MARKS[word]: is_on}
                group.style = style._replace(**marks)
            case "cs":
                group.style = style._replace(
                    code=conventions.is_code_style(self._styles.get(-number, ""))
                )
            case "v" | "deleted":
                group.is_hidden = is_on
            case "plain":
                group.style, group.script, group.is_hidden = PLAIN, "", False
                group.font = self._default_font
            case "super" | "sub" | "up" | "dn" | "nosupersub":
                script = {"up": "super", "dn": "sub", "nosupersub": ""}.get(word, word)
                group.script = script if is_on else ""
            case "uc":
                group.fallback = max(number, 0)
            case "ftnalt" if group.on_end is not None:
                group.is_endnote = True
            case "deff":
                self._default_font = group.font = number
            case "f":
                group.font = number
                if group.role == "fonttbl":
                    font = self._fonts.setdefault(number, _Font())
                    self._collect_text(lambda text: setattr(font, "name", text.strip().rstrip(";")))
            case "fcharset" if group.role == "fonttbl":
                self._fonts.setdefault(group.font, _Font()).charset = number
            case "cpg" if group.role == "fonttbl":
                self._fonts.setdefault(group.font, _Font()).page = parameter
            case "ansicpg":
                self._code_page = _codec_or_default(f"cp{parameter}")
            case "mac" | "pc" | "pca" | "ansi":
                self._code_page = _CODE_PAGES[word]
