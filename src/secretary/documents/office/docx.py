"""Reads Word documents (docx) as one page: page breaks depend on rendering."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from . import conventions, ooxml
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
    Paragraph,
    Pictures,
    Run,
    Style,
    Table,
    check_cell_count,
    is_blank,
    repeatable_cell,
    with_author,
)
from .containers import Archive
from .markdown import build_page
from .pptx import DIAGRAM, diagram_blocks
from .xml_parser import Element, parse_bool, parse_int

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_VALUE = f"{W}val"
_PICTURE = "{http://schemas.openxmlformats.org/drawingml/2006/picture}"
_WORD_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
_VECTOR = "{urn:schemas-microsoft-com:vml}"
_WORD_2010 = "{http://schemas.microsoft.com/office/word/2010/wordml}"
_CHECKBOX = f"{W}sdtPr/{_WORD_2010}checkbox"
#: The outline level of body text.
_BODY_TEXT = 9
_MAX_BASES = 50
_MAX_LEVELS = 9
#: Longer field instructions are of no known type.
_MAX_INSTRUCTION = 10_000
_TICKED, _UNTICKED = "☒", "☐"
#: The element that refers to a note: prefix of the label, relationship, element of the note.
_NOTES = {
    "footnoteReference": ("", "footnotes", "footnote"),
    "endnoteReference": ("e", "endnotes", "endnote"),
    "commentReference": ("c", "comments", "comment"),
}
_CHARACTERS = {"tab": "\t", "ptab": "\t", "cr": "\n", "noBreakHyphen": "-", "softHyphen": ""}
_BOXES = {f"{W}txbxContent", ooxml.CHART, f"{DIAGRAM}relIds"}
_SHAPES = {f"{W}drawing", f"{W}pict", f"{W}object"}
_SKIPPED = {
    f"{W}{name}" for name in ("pPr", "rPr", "del", "moveFrom", "delText", "rt", "sdtPr", "sdtEndPr")
}
_WRAPPERS = {
    f"{W}{name}"
    for name in ("sdt", "sdtContent", "ins", "moveTo", "customXml", "smartTag", "txbxContent")
}


def read_docx(archive: Archive, pictures: Pictures) -> OfficeDocument:
    part = ooxml.main_part(archive, "word/document.xml")
    body = part.root.find(f"{W}body")
    reader = _Reader(part, _Document(part, pictures))
    blocks = list(reader.blocks(body if body is not None else part.root))
    return OfficeDocument(
        pages=[build_page(1, blocks, pictures)], facts=ooxml.core_properties(archive)
    )


@dataclass(frozen=True, slots=True)
class _ParagraphStyle:
    """What a paragraph style means."""

    #: Of the style and its base styles.
    names: list[str]
    heading: int | None
    contents: int | None
    #: The list id, and the level in it.
    numbering: tuple[str, int] | None
    #: The nesting depth that the name of a list style implies.
    depth: int


class _Styles:
    """Resolves paragraph and character styles with their base styles."""

    def __init__(self, part: ooxml.Part | None) -> None:
        elements = part.root.iterchildren(f"{W}style") if part else ()
        self._styles = {style.get(f"{W}styleId", ""): style for style in elements}
        self._default: str | None = None
        for key, style in self._styles.items():
            if style.get(f"{W}type") == "paragraph" and parse_bool(style.get(f"{W}default")):
                self._default = key
        self._paragraph_styles: dict[str | None, _ParagraphStyle] = {}
        self._characters: dict[str, Style] = {}

    def paragraph_style(self, identity: str | None) -> _ParagraphStyle:
        identity = identity or self._default
        if identity not in self._paragraph_styles:
            self._paragraph_styles[identity] = _paragraph_style(self._with_bases(identity))
        return self._paragraph_styles[identity]

    def character(self, identity: str) -> Style:
        if identity not in self._characters:
            style = Style()
            for element in reversed(self._with_bases(identity)):
                style = _apply_properties(element.find(f"{W}rPr"), style)
                style = style._replace(code=style.code or conventions.is_code_style(_name(element)))
            self._characters[identity] = style
        return self._characters[identity]

    def _with_bases(self, identity: str | None) -> list[Element]:
        """Return the style followed by the styles it is based on."""
        chain: list[Element] = []
        while identity in self._styles and len(chain) < _MAX_BASES:
            element = self._styles[identity]
            chain.append(element)
            identity = _property(element, "basedOn")
        return chain


def _paragraph_style(chain: list[Element]) -> _ParagraphStyle:
    names = [_name(element) for element in chain]
    contents = next(filter(None, map(conventions.toc_level, names)), None)
    heading = None
    for element, name in zip(chain, names, strict=True):
        outline = _property(element.find(f"{W}pPr"), "outlineLvl")
        heading = conventions.heading_level(name) if outline is None else _outline_heading(outline)
        if heading or outline is not None:
            break
    return _ParagraphStyle(
        names=names,
        heading=None if contents else heading,
        contents=contents,
        numbering=_numbering(chain),
        depth=max(map(conventions.list_style_depth, names), default=0),
    )


def _outline_heading(outline: str) -> int | None:
    """Return the heading level of an outline level, None for body text."""
    level = parse_int(outline, _BODY_TEXT)
    return level + 1 if level < _BODY_TEXT else None


def _numbering(chain: list[Element]) -> tuple[str, int] | None:
    """Return list and level: often the list comes from a base style, the level from its child."""
    level = None
    for element in chain:
        numbering_properties = element.find(f"{W}pPr/{W}numPr")
        level = level or _property(numbering_properties, "ilvl")
        identity = _property(numbering_properties, "numId")
        if identity is not None:
            return identity, parse_int(level)
    return None


def _name(style: Element) -> str:
    return (_property(style, "name") or "").strip()


def _property(element: Element | None, name: str) -> str | None:
    """Return the value of a property, None if it is not set."""
    child = element.find(f"{W}{name}") if element is not None else None
    return child.get(_VALUE) if child is not None else None


def _is_on(element: Element | None, name: str, inherited: bool = False) -> bool:
    child = element.find(f"{W}{name}") if element is not None else None
    return inherited if child is None else child.get(_VALUE) not in ("0", "false", "off", "none")


def _apply_properties(properties: Element | None, style: Style) -> Style:
    if properties is None or not len(properties):
        return style
    return style._replace(
        bold=_is_on(properties, "b", style.bold),
        italic=_is_on(properties, "i", style.italic),
        strike=_is_on(properties, "strike", style.strike) or _is_on(properties, "dstrike"),
    )


@dataclass(slots=True)
class _List:
    levels: dict[int, Element]
    counts: list[int | None] = field(default_factory=lambda: [None] * _MAX_LEVELS)

    def form(self, level: int) -> str:
        return _property(self.levels.get(level), "numFmt") or "decimal"

    def number(self, level: int) -> int:
        """Return the current number of a level, or its first if it has not been used."""
        count = self.counts[level]
        return parse_int(_property(self.levels.get(level), "start"), 1) if count is None else count


class _Numbering:
    """Counts the items of numbered lists."""

    def __init__(self, part: ooxml.Part | None) -> None:
        #: List number -> its list, and the levels that restart when it is first used.
        self._numbers: dict[str, tuple[_List, dict[int, int]]] = {}
        if part is None:
            return
        lists: dict[str, _List] = {}
        by_style: dict[str, str] = {}
        linked: dict[str, str] = {}
        for element in part.root.iterchildren(f"{W}abstractNum"):
            key = element.get(f"{W}abstractNumId", "")
            levels = element.iterchildren(f"{W}lvl")
            lists[key] = _List({parse_int(level.get(f"{W}ilvl")): level for level in levels})
            if style := _property(element, "styleLink"):
                by_style[style] = key
            if style := _property(element, "numStyleLink"):
                linked[key] = style
        for element in part.root.iterchildren(f"{W}num"):
            key = _property(element, "abstractNumId") or ""
            key = by_style.get(linked.get(key, ""), key)
            if key in lists:
                restarts = {
                    parse_int(override.get(f"{W}ilvl")): parse_int(start)
                    for override in element.iterchildren(f"{W}lvlOverride")
                    if (start := _property(override, "startOverride")) is not None
                }
                self._numbers[element.get(f"{W}numId", "")] = (lists[key], restarts)

    def label(self, number: str, level: int) -> tuple[str, str] | None:
        """Return the next label of a list, as Markdown and as Word displays it, except bullets;
        None if the paragraph is not in a list."""
        if number not in self._numbers:
            return None
        list_, restarts = self._numbers[number]
        level = min(max(level, 0), _MAX_LEVELS - 1)
        if level in restarts:
            list_.counts[level] = restarts.pop(level) - 1
        form = list_.form(level)
        if form == "bullet":
            return "-", ""
        count = list_.number(level) + (list_.counts[level] is not None)
        list_.counts[level:] = [count, *[None] * (_MAX_LEVELS - level - 1)]
        text = _label_text(list_, level)
        return (
            None if form == "none" and not text else (conventions.decimal_marker(text) or "-", text)
        )


def _label_text(list_: _List, level: int) -> str:
    element = list_.levels.get(level)
    pattern = _property(element, "lvlText")
    if pattern is None:
        pattern = f"%{level + 1}."
    is_legal = element is not None and element.find(f"{W}isLgl") is not None

    def expand(match: re.Match[str]) -> str:
        other_level = int(match[1]) - 1
        form = "decimal" if is_legal else list_.form(other_level)
        return conventions.format_number(list_.number(other_level), form)

    return re.sub(r"%([1-9])", expand, pattern).strip()


@dataclass(slots=True)
class _Field:
    instruction: str = ""
    is_result: bool = False
    link: str | None = None


class _Reader:
    """Reads the blocks of one part: the body, a footnote or a comment."""

    def __init__(self, part: ooxml.Part, document: "_Document") -> None:
        self._part = part
        self._document = document
        self._fields: list[_Field] = []
        #: Text boxes, charts and diagrams found in the paragraph; they follow it.
        self._boxes: list[Element] = []
        #: Text before a deleted paragraph mark: it continues in the next paragraph.
        self._carried_over: list[Inline] = []

    def blocks(self, container: Element) -> Iterator[Block]:
        for child in ooxml.chosen_elements(container):
            if child.tag == f"{W}p":
                yield from self._paragraph(child)
            elif child.tag == f"{W}tbl":
                yield Table(self._rows(child))
                yield from self._document.pop_notes()
            elif child.tag in _WRAPPERS:
                yield from self.blocks(child)

    def _paragraph(self, paragraph: Element) -> Iterator[Block]:
        properties = paragraph.find(f"{W}pPr")
        paragraph_style = self._document.styles.paragraph_style(_property(properties, "pStyle"))
        content, self._carried_over = self._carried_over, []
        self._read(paragraph, content, None)
        boxes, self._boxes = self._boxes, []
        if paragraph.find(f"{W}pPr/{W}rPr/{W}del") is not None:
            self._carried_over = content
        elif content:
            yield self._block(properties, paragraph_style, content)
        for box in boxes:
            if box.tag == f"{W}txbxContent":
                yield from self.blocks(box)
            elif box.tag == f"{DIAGRAM}relIds":
                yield from diagram_blocks(self._part.by_id(box.get(f"{ooxml.RELATIONSHIP}dm")))
            else:
                yield from ooxml.chart_blocks(self._part.by_id(box.get(f"{ooxml.RELATIONSHIP}id")))
        yield from self._document.pop_notes()

    def _block(
        self, properties: Element | None, paragraph_style: _ParagraphStyle, content: list[Inline]
    ) -> Block:
        if is_blank(content):
            return Paragraph(())
        numbering = properties.find(f"{W}numPr") if properties is not None else None
        number, depth = paragraph_style.numbering or ("0", 0)
        number = _property(numbering, "numId") or number
        depth = parse_int(_property(numbering, "ilvl"), depth)
        label = self._document.numbering.label(number, depth)
        marker, label_text = label or ("", "")
        prefix = [Run(f"{label_text} ")] if label_text else []
        outline = _property(properties, "outlineLvl")
        level = paragraph_style.heading if outline is None else _outline_heading(outline)
        if level is not None:
            return Heading(level, [*prefix, *content])
        if paragraph_style.contents:
            return Item(paragraph_style.contents - 1, "-", content)
        if label is not None:
            content = [*prefix, *content] if marker == "-" else content
            return Item(depth + paragraph_style.depth, marker, content)
        return conventions.styled_paragraph(paragraph_style.names, content)

    def _rows(self, table: Element) -> list[list[Cell]]:
        rows: list[list[Cell]] = []
        above: list[Cell] = []
        count = 0
        for row in _children(table, f"{W}tr"):
            if row.find(f"{W}trPr/{W}del") is not None:
                continue
            skipped = parse_int(_property(row.find(f"{W}trPr"), "gridBefore"))
            line: list[Cell] = [()] * min(skipped, 100)
            for cell in _children(row, f"{W}tc"):
                line += self._cells(cell, above[len(line) :])
            count += len(line)
            check_cell_count(count)
            rows.append(line)
            above = line
        return rows

    def _cells(self, cell: Element, above: list[Cell]) -> list[Cell]:
        properties = cell.find(f"{W}tcPr")
        span = min(max(parse_int(_property(properties, "gridSpan"), 1), 1), 100)
        merge = properties.find(f"{W}vMerge") if properties is not None else None
        content: Cell = list(self.blocks(cell))
        if merge is not None and merge.get(f"{W}val", "continue") == "continue":
            content = repeatable_cell(above[0]) if above else ()
        return [content, *[()] * (span - 1)]

    def _read(self, element: Element, inlines: list[Inline], link: str | None) -> None:
        for child in ooxml.chosen_elements(element):
            tag = child.tag
            if tag == f"{W}r":
                self._read_run(child, inlines, link)
            elif tag in _SKIPPED:
                continue
            elif tag == f"{W}hyperlink":
                self._read(
                    child, inlines, self._part.link(child.get(f"{ooxml.RELATIONSHIP}id")) or link
                )
            elif tag == f"{W}fldSimple":
                self._read(
                    child, inlines, conventions.hyperlink_target(child.get(f"{W}instr", "")) or link
                )
            elif tag in (f"{ooxml.M}oMath", f"{ooxml.M}oMathPara"):
                inlines.append(Run(ooxml.to_latex(child), Style(math=True)))
            elif tag == f"{W}sdt" and child.find(_CHECKBOX) is not None:
                checked = child.find(f"{_CHECKBOX}/{_WORD_2010}checked")
                is_ticked = checked is not None and parse_bool(checked.get(f"{_WORD_2010}val"))
                inlines.append(Run(_TICKED if is_ticked else _UNTICKED))
            elif tag in _SHAPES:
                self._read_shapes(child, inlines)
            else:
                self._read(child, inlines, link)

    def _read_run(self, run: Element, inlines: list[Inline], link: str | None) -> None:
        properties = run.find(f"{W}rPr")
        style = self._style(properties)
        if style is None:
            return
        # Raised or lowered by name or by distance.
        position = _property(properties, "vertAlign") or ""
        if not position and (distance := parse_int(_property(properties, "position"))):
            position = "superscript" if distance > 0 else "subscript"
        for child in run:
            name = child.tag.rpartition("}")[2]
            if name in ("fldChar", "instrText"):
                self._follow_field(child, name, inlines)
            elif self._is_instruction:
                continue
            elif (text := _text(child, name)) is not None:
                field_links = (each.link for each in reversed(self._fields) if each.link)
                target = link or next(field_links, None)
                run_style = style._replace(link=target) if target else style
                inlines.append(Run(conventions.set_script(text, position), run_style))
            elif name in _NOTES:
                label = self._document.note_label(name, child.get(f"{W}id", ""))
                if label is not None:
                    inlines.append(NoteReference(label))
            elif child.tag in _SHAPES or child.tag == ooxml.ALTERNATIVES:
                self._read_shapes(child, inlines)
            elif name == "ruby":
                self._read(child, inlines, link)

    def _style(self, properties: Element | None) -> Style | None:
        """Return None for hidden text."""
        if properties is None:
            return PLAIN
        if _is_on(properties, "vanish") or properties.find(f"{W}del") is not None:
            return None
        named = _property(properties, "rStyle")
        style = self._document.styles.character(named) if named else PLAIN
        return _apply_properties(properties, style)

    def _follow_field(self, child: Element, name: str, inlines: list[Inline]) -> None:
        if name == "instrText":
            if self._fields and len(self._fields[-1].instruction) < _MAX_INSTRUCTION:
                self._fields[-1].instruction += child.text or ""
            return
        match child.get(f"{W}fldCharType"):
            case "begin":
                self._fields.append(_Field())
                box = child.find(f"{W}ffData/{W}checkBox")
                if box is not None:
                    is_ticked = _is_on(box, "checked", _is_on(box, "default"))
                    inlines.append(Run(_TICKED if is_ticked else _UNTICKED))
            case "separate" if self._fields:
                self._fields[-1].is_result = True
                self._fields[-1].link = conventions.hyperlink_target(self._fields[-1].instruction)
            case "end" if self._fields:
                ended = self._fields.pop()
                text = None if ended.is_result else conventions.button_text(ended.instruction)
                if text and not self._is_instruction:
                    inlines.append(Run(text))

    @property
    def _is_instruction(self) -> bool:
        return any(not each.is_result for each in self._fields)

    def _read_shapes(self, shape: Element, inlines: list[Inline]) -> None:
        alt = _alt(shape)
        for element in _outside_boxes([shape]):
            if element.tag in _BOXES:
                self._boxes.append(element)
            elif element.tag == f"{_PICTURE}pic":
                inlines.append(self._part.drawn_picture(element, self._document.pictures, alt))
            elif element.tag == f"{_VECTOR}imagedata":
                identity = element.get(f"{ooxml.RELATIONSHIP}id")
                inlines.append(self._part.picture(identity, alt, self._document.pictures))


def _outside_boxes(elements: Iterable[Element]) -> Iterator[Element]:
    """Yield all elements of shapes, except the content of text boxes."""
    for element in ooxml.chosen_elements(elements):
        yield element
        if element.tag not in _BOXES:
            yield from _outside_boxes(element)


def _alt(shape: Element) -> str | None:
    named = shape.iter(f"{_WORD_DRAWING}docPr", f"{_VECTOR}shape")
    texts = (each.get("descr") or each.get("alt") or each.get("title") for each in named)
    return next(filter(None, texts), None)


def _text(child: Element, name: str) -> str | None:
    match name:
        case "t":
            return child.text or ""
        case "br":
            return "" if child.get(f"{W}type") in ("page", "column") else "\n"
        case "sym":
            code = int(child.get(f"{W}char", "0"), 16)
            return conventions.symbol_character(child.get(f"{W}font", ""), code)
        case _:
            return _CHARACTERS.get(name)


def _children(element: Element, tag: str) -> Iterator[Element]:
    """Yield rows or cells, including those in content controls and insertions."""
    for child in element:
        if child.tag == tag:
            yield child
        elif child.tag in _WRAPPERS:
            yield from _children(child, tag)


class _Document:
    """What the parts of a document share. Footnotes, endnotes and comments are emitted once, after
    the block that refers to them."""

    def __init__(self, part: ooxml.Part, pictures: Pictures) -> None:
        self.styles = _Styles(part.related("styles"))
        self.numbering = _Numbering(part.related("numbering"))
        self.pictures = pictures
        self._part = part
        #: Part and elements of the notes, by the element that refers to them.
        self._notes: dict[str, tuple[ooxml.Part, dict[str, Element]]] = {}
        self._labels: dict[tuple[str, str], str] = {}
        self._pending: list[tuple[ooxml.Part, str, Element]] = []
        self._counts = dict.fromkeys(_NOTES, 0)

    def note_label(self, name: str, identity: str) -> str | None:
        if (name, identity) in self._labels:
            return self._labels[name, identity]
        prefix, relation, tag = _NOTES[name]
        if name not in self._notes:
            part = self._part.related(relation)
            if part is None:
                return None
            elements = part.root.iterchildren(f"{W}{tag}")
            self._notes[name] = part, {each.get(f"{W}id", ""): each for each in elements}
        part, notes = self._notes[name]
        element = notes.get(identity)
        if element is None or element.get(f"{W}type") in ("separator", "continuationSeparator"):
            return None
        self._counts[name] += 1
        label = self._labels[name, identity] = f"{prefix}{self._counts[name]}"
        self._pending.append((part, label, element))
        return label

    def pop_notes(self) -> Iterator[Block]:
        pending, self._pending = self._pending, []
        for part, label, element in pending:
            blocks = list(_Reader(part, self).blocks(element))
            yield Note(label, with_author(blocks, element.get(f"{W}author")))
