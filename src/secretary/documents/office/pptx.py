"""Reads PowerPoint presentations (pptx): one page per slide."""

import re
from collections.abc import Iterator, Sequence
from math import inf
from typing import NamedTuple, TypeVar

from ..pages import Page
from . import ooxml
from .blocks import (
    Block,
    Cell,
    Heading,
    Inline,
    Item,
    OfficeDocument,
    Paragraph,
    Pictures,
    Run,
    SpannedCell,
    Style,
    Table,
    is_blank,
    lay_out_cells,
    plain_text,
)
from .containers import Archive
from .conventions import format_number, set_script
from .markdown import build_page
from .ooxml import DRAWING as A
from .xml_parser import Element, parse_bool, parse_int

P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
DIAGRAM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
_MATH_2010 = "{http://schemas.microsoft.com/office/drawing/2010/main}m"
_TITLES = {"title", "ctrTitle"}
#: Placeholders that are repeated on every slide.
_REPEATED_PLACEHOLDERS = {"dt", "ftr", "sldNum", "hdr", "sldImg"}
_SHAPES = {f"{P}{name}" for name in ("sp", "pic", "graphicFrame", "grpSp", "cxnSp")}
_NUMBER_FORMATS = {
    "alphaLc": "lowerLetter",
    "alphaUc": "upperLetter",
    "romanLc": "lowerRoman",
    "romanUc": "upperRoman",
}
_BULLETS = [f"{A}{name}" for name in ("buNone", "buAutoNum", "buChar", "buBlip")]
#: The format has nine levels; deeper claims would indent forever.
_MAX_LEVEL = 8
#: Slides with more shapes are sorted by position only.
_MAX_SORTED_SHAPES = 2000
T = TypeVar("T")


def read_pptx(archive: Archive, pictures: Pictures) -> OfficeDocument:
    presentation = ooxml.main_part(archive, "ppt/presentation.xml")
    pages: list[Page] = []
    layouts: dict[str, ooxml.Part] = {}
    for entry in presentation.root.iterfind(f"{P}sldIdLst/{P}sldId"):
        part = presentation.by_id(entry.get(f"{ooxml.RELATIONSHIP}id"))
        if part is None:
            continue
        is_hidden = part.root.get("show") in ("0", "false")
        blocks = _Slide(part, pictures, layouts).blocks()
        if is_hidden and blocks and isinstance(blocks[0], Heading):
            blocks[0] = Heading(1, [*blocks[0].content, Run(" (hidden)")])
        elif is_hidden:
            blocks.insert(0, Paragraph([Run("(hidden)")]))
        pages.append(build_page(len(pages) + 1, blocks, pictures, is_hidden=is_hidden))
    return OfficeDocument(pages=pages, facts=ooxml.core_properties(archive))


def diagram_blocks(part: ooxml.Part | None) -> list[Block]:
    """Return one list item per point of a SmartArt diagram, in file order."""
    if part is None:
        return []
    blocks: list[Block] = []
    for point in part.root.iter(f"{DIAGRAM}pt"):
        lines = _text_blocks(point.find(f"{DIAGRAM}t"), part)
        content = [each for line in lines if isinstance(line, Paragraph) for each in line.content]
        if plain_text(content).strip():
            blocks.append(Item(0, "-", content))
    return blocks


def slide_title(blocks: Sequence[Block]) -> list[Block]:
    """Return the lines of a title as one heading, if they contain text."""
    lines = [block for block in blocks if isinstance(block, Paragraph | Item)]
    content = [inline for line in lines for inline in (*line.content, Run(" "))]
    return [Heading(1, content[:-1])] if plain_text(content).strip() else []


def speaker_notes(blocks: Sequence[Block]) -> list[Block]:
    return [Heading(2, [Run("Notes")]), *blocks] if blocks else []


class Box(NamedTuple):
    left: float
    top: float
    width: float = 0
    height: float = 0


def sort_by_position(shapes: Sequence[tuple[Box | None, T]]) -> list[T]:
    """Sort shapes from top to bottom, and from left to right within a row.

    Columns are read one after the other only if a vertical gap separates them. A shape without a
    position follows its predecessor in the file.
    """
    if len(shapes) > _MAX_SORTED_SHAPES:
        corners = [(box.top, box.left) if box else (0.0, 0.0) for box, _ in shapes]
        return [shapes[number][1] for number in sorted(range(len(shapes)), key=corners.__getitem__)]
    positioned = [(box, number) for number, (box, _) in enumerate(shapes) if box is not None]
    order = _ordered(positioned)
    for number, (box, _) in enumerate(shapes):
        if box is None:
            order.insert(order.index(number - 1) + 1 if number else 0, number)
    return [shapes[number][1] for number in order]


def _ordered(boxes: list[tuple[Box, int]]) -> list[int]:
    for horizontal in (False, True):
        groups = _split_at_gaps(boxes, horizontal=horizontal)
        if len(groups) > 1:
            return [number for group in groups for number in _ordered(group)]
    boxes = sorted(boxes, key=lambda each: (each[0].top, each[0].left))
    return [number for _, number in boxes]


def _split_at_gaps(
    boxes: list[tuple[Box, int]], *, horizontal: bool
) -> list[list[tuple[Box, int]]]:
    """Group boxes separated by a gap; a slight overlap is tolerated."""

    def span(box: Box) -> tuple[float, float]:
        start, size = (box.left, box.width) if horizontal else (box.top, box.height)
        return start + size * 0.1, start + size * 0.9

    groups: list[list[tuple[Box, int]]] = []
    end = -inf
    for each in sorted(boxes, key=lambda each: span(each[0])[0]):
        start, stop = span(each[0])
        if start >= end:
            groups.append([])
        groups[-1].append(each)
        end = max(end, stop)
    return groups


class _Shape(NamedTuple):
    element: Element
    box: Box | None
    #: The placeholder type, such as `title` or `body`; None for other shapes.
    placeholder: str | None


class _Slide:
    def __init__(
        self, part: ooxml.Part, pictures: Pictures, layouts: dict[str, ooxml.Part]
    ) -> None:
        """`layouts`: those read so far, with masters, since many slides share a few of them."""
        self._part = part
        self._pictures = pictures
        layout = part.related("slideLayout")
        self._layout = layouts.setdefault(layout.name, layout) if layout else None
        master = self._layout.related("slideMaster") if self._layout else None
        self._master = layouts.setdefault(master.name, master) if master else None

    def blocks(self) -> list[Block]:
        tree = self._part.root.find(f"{P}cSld/{P}spTree")
        shapes = self._sorted_shapes(tree) if tree is not None else []
        blocks: list[Block] = []
        for shape in sorted(shapes, key=lambda each: each.placeholder not in _TITLES):
            if shape.placeholder in _TITLES:
                blocks += slide_title(_text_blocks(shape.element.find(f"{P}txBody"), self._part))
            else:
                blocks += self._shape_blocks(shape)
        return blocks + self._notes()

    def _sorted_shapes(self, tree: Element) -> list[_Shape]:
        elements = (each for each in ooxml.chosen_elements(tree) if each.tag in _SHAPES)
        shapes = [self._shape(element) for element in elements]
        return sort_by_position([(shape.box, shape) for shape in shapes if shape])

    def _shape(self, element: Element) -> _Shape | None:
        properties = element.find(f"./*/{P}nvPr/{P}ph")
        named = element.find(f"./*/{P}cNvPr")
        if named is not None and parse_bool(named.get("hidden")):
            return None
        placeholder = None
        if properties is not None:
            placeholder = properties.get("type", "body" if properties.get("idx") else "obj")
        if placeholder in _REPEATED_PLACEHOLDERS:
            return None
        boxes = map(_box, (element, *self._inherited(element)))
        return _Shape(element, next(filter(None, boxes), None), placeholder)

    def _inherited(self, element: Element) -> Iterator[Element]:
        """Yield the same placeholder in the layout, then in the master."""
        own = element.find(f"./*/{P}nvPr/{P}ph")
        for part, by_type in ((self._layout, False), (self._master, True)):
            if part is None or own is None:
                continue
            for other in part.root.iterfind(f"{P}cSld/{P}spTree/{P}sp"):
                inherited_shape = other.find(f"./*/{P}nvPr/{P}ph")
                if inherited_shape is not None and _is_same(own, inherited_shape, by_type):
                    yield other
                    break

    def _shape_blocks(self, shape: _Shape) -> list[Block]:
        element = shape.element
        match element.tag.removeprefix(P):
            case "grpSp":
                inner = self._sorted_shapes(element)
                return [block for each in inner for block in self._shape_blocks(each)]
            case "pic":
                picture = self._part.drawn_picture(element, self._pictures)
                return [Paragraph([picture])] if picture.alt or picture.file else []
            case "graphicFrame":
                return self._frame(element)
            case "sp":
                shapes = (element, *self._inherited(element))
                styles = [each.find(f"{P}txBody/{A}lstStyle") for each in shapes]
                if shape.placeholder in ("body", "obj") and self._master is not None:
                    styles.append(self._master.root.find(f"{P}txStyles/{P}bodyStyle"))
                styles = [style for style in styles if style is not None]
                return _text_blocks(element.find(f"{P}txBody"), self._part, styles)
            case _:
                return []

    def _frame(self, frame: Element) -> list[Block]:
        for content in frame.iterfind(f"{A}graphic/{A}graphicData/*"):
            if content.tag == f"{A}tbl":
                return [Table(_table_rows(content, self._part))]
            if content.tag == ooxml.CHART:
                return ooxml.chart_blocks(self._part.by_id(content.get(f"{ooxml.RELATIONSHIP}id")))
            if content.tag == f"{DIAGRAM}relIds":
                return diagram_blocks(self._part.by_id(content.get(f"{ooxml.RELATIONSHIP}dm")))
        pictures = (_Shape(picture, None, None) for picture in frame.iter(f"{P}pic"))
        return [block for picture in pictures for block in self._shape_blocks(picture)]

    def _notes(self) -> list[Block]:
        part = self._part.related("notesSlide")
        if part is None:
            return []
        blocks: list[Block] = []
        for shape in part.root.iter(f"{P}sp"):
            placeholder = shape.find(f"./*/{P}nvPr/{P}ph")
            if placeholder is not None and placeholder.get("type") == "body":
                blocks += _text_blocks(shape.find(f"{P}txBody"), part)
        return speaker_notes(blocks)


def _is_same(own: Element, inherited_shape: Element, by_type: bool) -> bool:
    mine, other = own.get("type", "obj"), inherited_shape.get("type", "obj")
    if not by_type and own.get("idx"):
        return bool(own.get("idx") == inherited_shape.get("idx"))
    same = {"ctrTitle": "title", "subTitle": "body", "obj": "body"}
    return bool(same.get(mine, mine) == same.get(other, other))


def _box(element: Element) -> Box | None:
    """Inside a group, coordinates are relative to it; they are only compared with each other."""
    placeholder = element.find(f"./{P}xfrm")
    if placeholder is None:
        placeholder = element.find(f"./*/{A}xfrm")
    start = placeholder.find(f"{A}off") if placeholder is not None else None
    size = placeholder.find(f"{A}ext") if placeholder is not None else None
    if start is None or size is None:
        return None
    return Box(
        parse_int(start.get("x")), parse_int(start.get("y")),
        parse_int(size.get("cx")), parse_int(size.get("cy")),
    )  # fmt: skip


def _text_blocks(
    body: Element | None, part: ooxml.Part, styles: Sequence[Element] = ()
) -> list[Block]:
    """`styles`: the list styles for paragraphs without a bullet of their own."""
    blocks: list[Block] = []
    counts: dict[int, tuple[str, int]] = {}
    for paragraph in body.iterchildren(f"{A}p") if body is not None else ():
        properties = paragraph.find(f"{A}pPr")
        level = parse_int(properties.get("lvl")) if properties is not None else 0
        level = min(max(level, 0), _MAX_LEVEL)
        content = _inlines(paragraph, part)
        if not content:
            continue
        inherited = (style.find(f"{A}lvl{level + 1}pPr") for style in styles)
        holders = (each for each in (properties, *inherited) if each is not None)
        bullet = next((each for holder in holders for each in holder.iterchildren(*_BULLETS)), None)
        name = bullet.tag.removeprefix(A) if bullet is not None else "buNone"
        for deeper in [each for each in counts if each > level]:
            del counts[deeper]
        if name == "buAutoNum":
            marker, label = _number(bullet, level, counts)
            blocks.append(Item(level, marker, [*([Run(label)] if label else []), *content]))
            continue
        counts.pop(level, None)
        if name != "buNone":
            blocks.append(Item(level, "-", content))
        else:
            blocks.append(Item(level - 1, "", content) if level else Paragraph(content))
    return blocks


def _number(bullet: Element, level: int, counts: dict[int, tuple[str, int]]) -> tuple[str, str]:
    form = bullet.get("type", "arabicPeriod")
    before, count = counts.get(level, ("", 0))
    count = count + 1 if before == form else parse_int(bullet.get("startAt"), 1)
    counts[level] = (form, count)
    kind = re.sub(r"(Period|ParenR|ParenBoth|Plain|Minus)$", "", form)
    if kind not in _NUMBER_FORMATS:
        return f"{count}.", ""
    end = "." if form.endswith("Period") else ")" if "Paren" in form else ""
    return "-", f"{format_number(count, _NUMBER_FORMATS[kind])}{end} "


def _inlines(paragraph: Element, part: ooxml.Part) -> list[Inline]:
    inlines: list[Inline] = []
    for child in ooxml.chosen_elements(paragraph):
        if child.tag in (f"{A}r", f"{A}fld"):
            if text := child.findtext(f"{A}t"):
                inlines.append(_run(text, child.find(f"{A}rPr"), part))
        elif child.tag == f"{A}br":
            inlines.append(Run("\n"))
        elif child.tag == _MATH_2010 or child.tag.startswith(ooxml.M):
            inlines.append(Run(ooxml.to_latex(child), Style(math=True)))
    return [] if is_blank(inlines) else inlines


def _run(text: str, properties: Element | None, part: ooxml.Part) -> Run:
    text = text.replace("\v", "\n")
    if properties is None:
        return Run(text)
    if position := parse_int(properties.get("baseline")):
        text = set_script(text, "super" if position > 0 else "sub")
    link = properties.find(f"{A}hlinkClick")
    style = Style(
        bold=parse_bool(properties.get("b")),
        italic=parse_bool(properties.get("i")),
        strike=properties.get("strike", "noStrike") != "noStrike",
        link=part.link(link.get(f"{ooxml.RELATIONSHIP}id")) if link is not None else None,
    )
    return Run(text, style)


def _table_rows(table: Element, part: ooxml.Part) -> list[list[Cell]]:
    return lay_out_cells(
        [
            SpannedCell(
                _text_blocks(cell.find(f"{A}txBody"), part),
                parse_int(cell.get("gridSpan"), 1),
                parse_int(cell.get("rowSpan"), 1),
            )
            for cell in row.iterchildren(f"{A}tc")
            if not (parse_bool(cell.get("hMerge")) or parse_bool(cell.get("vMerge")))
        ]
        for row in table.iterchildren(f"{A}tr")
    )
