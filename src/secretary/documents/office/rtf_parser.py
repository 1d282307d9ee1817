"""The RTF tokenizer, and the assembly of paragraphs and table rows into blocks."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ...core.errors import FileCorrupt
from .blocks import (
    PLAIN,
    Block,
    Cell,
    Code,
    Heading,
    Inline,
    Item,
    Paragraph,
    Quote,
    Run,
    Style,
    Table,
    is_blank,
    refuse_beyond,
    repeated,
    words,
)
from .conventions import code_like, contents_level, counted, heading_level, quote_like

_LABEL = re.compile(r"[\w.()§ -]*\w[\w.()§ -]*")
#: Cell borders closer than this are the same (in twips).
_CLOSE = 60
_MAX_COLUMNS = 500


@dataclass(frozen=True, slots=True)
class ParagraphForm:
    """Paragraph properties."""

    style: str = ""
    outline: int | None = None
    level: int = 0
    #: Nesting depth of tables.
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
        """Collect the label of a list item, which RTF provides as text."""
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
        """Close tables that are deeper, and open those that are missing."""
        while len(self._tables) > depth:
            table = self._tables.pop()
            if table.cells or table.blocks:
                table.rows.append(([*table.cells, table.blocks], []))
            self.put(Table(_grid(table.rows)))
        while len(self._tables) < min(depth, 50):
            self._tables.append(_OpenTable())


class RowForms:
    """The cell definitions of a table row."""

    def __init__(self) -> None:
        self._cells: list[CellForm] = []
        self._next = CellForm()

    def take(self, word: str, number: int | None, flow: RtfFlow, form: ParagraphForm) -> bool:
        """Apply a control word; return whether it concerns tables."""
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
        # Programs repeat the formatting of a style in each run.
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


#: Destinations that are not part of the text.
LEFT_OUT = {
    "colortbl", "header", "headerl", "headerr", "headerf", "footer", "footerl", "footerr",
    "footerf", "ftnsep", "ftnsepc", "aftnsep", "aftnsepc", "nonshppict", "listtable", "xe", "tc",
    "listoverridetable", "nonesttables", "filetbl", "revtbl", "rsidtbl", "bkmkstart", "bkmkend",
    "atnid", "atnref", "atndate", "atntime", "atnparent", "datafield", "objdata", "sp", "txe",
}  # fmt: skip
#: Optional destinations (`\*`) that are read nevertheless.
KNOWN = {
    "shppict", "shptxt", "shpinst", "footnote", "annotation", "atnauthor", "fldinst",
    "nesttableprops", "listtext", "pntext", "ud", "cs", "picprop",
}  # fmt: skip


@dataclass(slots=True)
class Group:
    """The state of a group; a nested group starts with a copy."""

    flow: RtfFlow
    #: What its text is: `text`, the name of a destination, or `ignored`.
    role: str = "text"
    style: Style = PLAIN
    is_hidden: bool = False
    script: str = ""
    font: int = 0
    fallback: int = 1
    form: ParagraphForm = field(default_factory=ParagraphForm)
    #: Collected text for `at_end`, or None.
    text: list[str] | None = None
    is_endnote: bool = False
    at_end: "Callable[[Group], None] | None" = None


def format_paragraph(
    group: Group, word: str, number: int | None, styles: Mapping[int, str]
) -> None:
    form = group.form
    match word:
        case "pard":
            group.form = ParagraphForm()
        case "s":
            group.form = replace(form, style=styles.get(number or 0, ""))
        case "outlinelevel":
            group.form = replace(form, outline=number or 0)
        case "ilvl":
            group.form = replace(form, level=min(max(number or 0, 0), 8))
        case "intbl":
            group.form = replace(form, depth=max(form.depth, 1))
        case "itap":
            group.form = replace(form, depth=max(number or 0, 0))


def format_characters(
    group: Group, word: str, number: int | None, styles: Mapping[int, str]
) -> None:
    """`styles`: character styles have negative numbers."""
    is_on = number != 0
    match word:
        case "b":
            group.style = group.style._replace(bold=is_on)
        case "i":
            group.style = group.style._replace(italic=is_on)
        case "strike" | "striked":
            group.style = group.style._replace(strike=is_on)
        case "v" | "deleted":
            group.is_hidden = is_on
        case "plain":
            group.style, group.script, group.is_hidden = PLAIN, "", False
        case "super" | "sub":
            group.script = word if is_on else ""
        case "up" | "dn":
            group.script = ("super" if word == "up" else "sub") if is_on else ""
        case "nosupersub":
            group.script = ""
        case "cs":
            is_code = code_like(styles.get(-(number or 0), ""))
            group.style = group.style._replace(code=is_code)
        case "uc":
            group.fallback = max(number or 0, 0)
        case "ftnalt" if group.at_end is not None:
            group.is_endnote = True


#: Code pages by a font's character set.
_CHARSETS = {
    77: "mac_roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "gbk", 136: "big5",
    161: "cp1253", 162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257",
    204: "cp1251", 222: "cp874", 238: "cp1250", 255: "cp437",
}  # fmt: skip
_SYMBOL_CHARSET = 2
_PAGES = {"mac": "mac_roman", "pc": "cp437", "pca": "cp850", "ansi": "cp1252"}


@dataclass(slots=True)
class Font:
    name: str = ""
    charset: int = 0
    page: int | None = None

    @property
    def is_symbols(self) -> bool:
        return self.charset == _SYMBOL_CHARSET or self.name.lower().startswith(("wingdings", "webdings"))


@dataclass(slots=True)
class Fonts:
    page: str = "cp1252"
    default: int = 0
    _fonts: dict[int, Font] = field(default_factory=dict)

    def set_page(self, word: str, number: int | None) -> None:
        self.page = _known(f"cp{number}") if word == "ansicpg" else _PAGES[word]

    def define(self, number: int) -> Font:
        return self._fonts.setdefault(number, Font())

    def font(self, number: int) -> Font:
        return self._fonts.get(number) or Font()

    def page_of(self, number: int) -> str:
        font = self.font(number)
        if font.page:
            return _known(f"cp{font.page}")
        return _CHARSETS.get(font.charset, self.page)


def _known(page: str) -> str:
    try:
        "".encode(page)
    except LookupError:
        return "utf-8" if page == "cp65001" else "cp1252"
    return page


_TOKEN = re.compile(
    rb"\\(?P<word>[A-Za-z]{1,40})(?P<number>-?\d{1,10})?[ ]?"
    rb"|\\'(?P<hex>[0-9A-Fa-f]{2})|\\(?P<symbol>[^A-Za-z])"
    rb"|(?P<brace>[{}])|(?P<text>[^\\{}\r\n\0]+)|[\r\n\0]+|\\"
)


class Token(NamedTuple):
    """`kind` is `word`, `symbol`, `hex`, `text`, `binary` or a brace."""

    kind: str
    value: str = ""
    number: int | None = None
    data: bytes = b""


def tokens(data: bytes) -> Iterator[Token]:
    """Yield tokens up to the end of the outermost group; a file without it is truncated."""
    at = depth = 0
    while at < len(data):
        found = _TOKEN.match(data, at)
        if found is None:
            at += 1
            continue
        at = found.end()
        kind = found.lastgroup
        if kind == "brace":
            brace = found["brace"].decode()
            depth += 1 if brace == "{" else -1
            yield Token(brace)
            if not depth:
                return
        elif found["word"] is not None:
            word = found["word"].decode()
            number = int(found["number"]) if found["number"] is not None else None
            if word == "bin":
                size = max(number or 0, 0)
                yield Token("binary", data=data[at : at + size])
                at += size
            else:
                yield Token("word", word, number)
        elif kind == "hex":
            yield Token("hex", data=bytes([int(found["hex"], 16)]))
        elif kind == "symbol":
            yield Token("symbol", found["symbol"].decode("latin-1"))
        elif kind == "text":
            yield Token("text", data=found["text"])
    raise FileCorrupt("The RTF file is truncated")
