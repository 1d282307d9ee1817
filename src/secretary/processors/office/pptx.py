"""PowerPoint presentations (pptx): a page for each slide."""

from collections.abc import Iterator
from dataclasses import dataclass

from ..page import Page
from .archive import Archive
from .blocks import Block, Heading, Paragraph, Run, Table
from .charts import CHART, chart_blocks
from .diagrams import DIAGRAM, diagram_blocks
from .document import OfficeDocument, page_of
from .drawing_text import Bullets, level_bullet, no_bullets, table_rows, text_blocks
from .ooxml import DRAWING as A
from .ooxml import MARKUP, RELATION, Part, alternative, facts_of, main_part
from .pictures import Pictures
from .reading_order import Box, in_reading_order
from .slide_parts import slide_title, spoken_notes
from .xml_parts import Element, integer, is_true

P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_TITLES = {"title", "ctrTitle"}
#: What is on every slide says nothing about this one.
_FURNITURE = {"dt", "ftr", "sldNum", "hdr", "sldImg"}
_SHAPES = {f"{P}{name}" for name in ("sp", "pic", "graphicFrame", "grpSp", "cxnSp")}


def read_pptx(archive: Archive, pictures: Pictures) -> OfficeDocument:
    presentation = main_part(archive, "ppt/presentation.xml")
    pages: list[Page] = []
    layouts: dict[str, Part] = {}
    for entry in presentation.root.iterfind(f"{P}sldIdLst/{P}sldId"):
        part = presentation.by_id(entry.get(f"{RELATION}id"))
        if part is None:
            continue
        is_hidden = part.root.get("show") in ("0", "false")
        blocks = _Slide(part, pictures, layouts).blocks()
        if is_hidden:
            blocks = _marked_hidden(blocks)
        pages.append(page_of(len(pages) + 1, blocks, pictures, is_hidden=is_hidden))
    return OfficeDocument(pages=pages, facts=facts_of(archive))


@dataclass(frozen=True, slots=True)
class _Shape:
    element: Element
    box: Box | None
    #: The kind of placeholder it is: `title`, `body`; None for one that stands for itself.
    place: str | None


class _Slide:
    def __init__(self, part: Part, pictures: Pictures, layouts: dict[str, Part]) -> None:
        """`layouts` are those met so far, with masters: many slides share few of them."""
        self._part = part
        self._pictures = pictures
        self._layout = _shared(part.related("slideLayout"), layouts)
        master = self._layout.related("slideMaster") if self._layout else None
        self._master = _shared(master, layouts)

    def blocks(self) -> list[Block]:
        tree = self._part.root.find(f"{P}cSld/{P}spTree")
        shapes = self._placed(tree) if tree is not None else []
        titles = [shape for shape in shapes if shape.place in _TITLES]
        others = [shape for shape in shapes if shape.place not in _TITLES]
        blocks: list[Block] = []
        for shape in titles:
            blocks += self._title(shape)
        for shape in others:
            blocks += self._shape_blocks(shape)
        return blocks + self._notes()

    def _placed(self, tree: Element) -> list[_Shape]:
        found = [self._shape(element) for element in _shapes(tree)]
        return in_reading_order([(shape.box, shape) for shape in found if shape])

    def _shape(self, element: Element) -> _Shape | None:
        properties = element.find(f"./*/{P}nvPr/{P}ph")
        named = element.find(f"./*/{P}cNvPr")
        if named is not None and is_true(named.get("hidden")):
            return None
        if properties is None:
            return _Shape(element, _box(element), None)
        place = properties.get("type", "body" if properties.get("idx") else "obj")
        if place in _FURNITURE:
            return None
        box = _box(element)
        for theirs in self._inherited(element):
            box = box or _box(theirs)
        return _Shape(element, box, place)

    def _inherited(self, element: Element) -> Iterator[Element]:
        """The same placeholder in the layout, then in the master."""
        own = element.find(f"./*/{P}nvPr/{P}ph")
        for part, by_type in ((self._layout, False), (self._master, True)):
            if part is None or own is None:
                continue
            for other in part.root.iterfind(f"{P}cSld/{P}spTree/{P}sp"):
                theirs = other.find(f"./*/{P}nvPr/{P}ph")
                if theirs is not None and _is_same(own, theirs, by_type):
                    yield other
                    break

    def _title(self, shape: _Shape) -> list[Block]:
        body = shape.element.find(f"{P}txBody")
        return slide_title(text_blocks(body, self._part, Bullets(no_bullets)))

    def _shape_blocks(self, shape: _Shape) -> list[Block]:
        element = shape.element
        match element.tag.removeprefix(P):
            case "grpSp":
                inner = self._placed(element)
                return [block for each in inner for block in self._shape_blocks(each)]
            case "pic":
                return self._picture(element)
            case "graphicFrame":
                return self._frame(element)
            case "sp":
                body = element.find(f"{P}txBody")
                return text_blocks(body, self._part, self._bullets(shape))
            case _:
                return []

    def _bullets(self, shape: _Shape) -> Bullets:
        own = shape.element.find(f"{P}txBody/{A}lstStyle")
        styles = [
            own,
            *(each.find(f"{P}txBody/{A}lstStyle") for each in self._inherited(shape.element)),
        ]
        if shape.place in ("body", "obj") and self._master is not None:
            styles.append(self._master.root.find(f"{P}txStyles/{P}bodyStyle"))

        def inherited(level: int) -> Element | None:
            found = (level_bullet(style, level) for style in styles)
            return next((each for each in found if each is not None), None)

        return Bullets(inherited)

    def _picture(self, element: Element) -> list[Block]:
        picture = self._part.drawn_picture(element, self._pictures)
        return [Paragraph([picture])] if picture.alt or picture.file else []

    def _frame(self, frame: Element) -> list[Block]:
        table = frame.find(f"{A}graphic/{A}graphicData/{A}tbl")
        if table is not None:
            return [Table(table_rows(table, self._part))]
        chart = frame.find(f"{A}graphic/{A}graphicData/{CHART}")
        if chart is not None:
            return chart_blocks(self._part.by_id(chart.get(f"{RELATION}id")))
        diagram = frame.find(f"{A}graphic/{A}graphicData/{DIAGRAM}relIds")
        if diagram is not None:
            return diagram_blocks(self._part.by_id(diagram.get(f"{RELATION}dm")))
        return [block for picture in frame.iter(f"{P}pic") for block in self._picture(picture)]

    def _notes(self) -> list[Block]:
        part = self._part.related("notesSlide")
        if part is None:
            return []
        blocks: list[Block] = []
        for shape in part.root.iter(f"{P}sp"):
            place = shape.find(f"./*/{P}nvPr/{P}ph")
            if place is not None and place.get("type") == "body":
                blocks += text_blocks(shape.find(f"{P}txBody"), part, Bullets(no_bullets))
        return spoken_notes(blocks)


def _shared(part: Part | None, layouts: dict[str, Part]) -> Part | None:
    return layouts.setdefault(part.name, part) if part is not None else None


def _marked_hidden(blocks: list[Block]) -> list[Block]:
    if blocks and isinstance(blocks[0], Heading):
        return [Heading(1, [*blocks[0].content, Run(" (hidden)")]), *blocks[1:]]
    return [Paragraph([Run("(hidden)")]), *blocks]


def _shapes(tree: Element) -> Iterator[Element]:
    for child in tree:
        if child.tag in _SHAPES:
            yield child
        elif child.tag == f"{MARKUP}AlternateContent":
            chosen = alternative(child)
            if chosen is not None:
                yield from _shapes(chosen)


def _is_same(own: Element, theirs: Element, by_type: bool) -> bool:
    mine, other = own.get("type", "obj"), theirs.get("type", "obj")
    if not by_type and own.get("idx"):
        return bool(own.get("idx") == theirs.get("idx"))
    same = {"ctrTitle": "title", "subTitle": "body", "obj": "body"}
    return bool(same.get(mine, mine) == same.get(other, other))


def _box(element: Element) -> Box | None:
    """Inside a group, places are the group's own; they are compared with each other only."""
    place = element.find(f"./{P}xfrm")
    if place is None:
        place = element.find(f"./*/{A}xfrm")
    start = place.find(f"{A}off") if place is not None else None
    size = place.find(f"{A}ext") if place is not None else None
    if start is None or size is None:
        return None
    return Box(
        integer(start.get("x")), integer(start.get("y")),
        integer(size.get("cx")), integer(size.get("cy")),
    )  # fmt: skip
