"""What is in a paragraph of a Word document: text, fields, links, notes, pictures."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from .blocks import PLAIN, Inline, NoteMark, Run, Style
from .charts import CHART
from .diagrams import DIAGRAM
from .docx_styles import Styles, W, is_on, styled, value
from .equations import M, latex
from .fields import link_of, text_of
from .ooxml import MARKUP, RELATION, Part, alternative
from .pictures import Pictures
from .scripts import lowered, raised
from .symbols import symbol
from .xml_parts import Element, integer, is_true

_PICTURE = "{http://schemas.openxmlformats.org/drawingml/2006/picture}"
_PLACED = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
_VECTOR = "{urn:schemas-microsoft-com:vml}"
_WORD_2010 = "{http://schemas.microsoft.com/office/word/2010/wordml}"
#: What is longer is of no kind that we know.
_INSTRUCTION = 10_000
_TICKED, _UNTICKED = "☒", "☐"
#: Notes by how they are marked: the prefix of their labels.
NOTES = {"footnoteReference": "", "endnoteReference": "e", "commentReference": "c"}
_BOXES = {f"{W}txbxContent", CHART, f"{DIAGRAM}relIds"}
_SHAPES = {f"{W}drawing", f"{W}pict", f"{W}object"}
_LEFT_OUT = {
    f"{W}{name}" for name in ("pPr", "rPr", "del", "moveFrom", "delText", "rt", "sdtPr", "sdtEndPr")
}


@dataclass(slots=True)
class _Field:
    instruction: str = ""
    is_result: bool = False
    link: str | None = None


@dataclass(slots=True)
class TextReader:
    part: Part
    styles: Styles
    pictures: Pictures
    #: The label of a note, by what marks it and its id.
    label_of: Callable[[str, str], str | None]
    #: Text boxes, charts and diagrams met in the paragraph; they follow it.
    boxes: list[Element] = field(default_factory=list)
    _fields: list[_Field] = field(default_factory=list)

    def read(self, paragraph: Element) -> list[Inline]:
        found: list[Inline] = []
        self._read(paragraph, found, None)
        return found

    def _read(self, element: Element, found: list[Inline], link: str | None) -> None:
        for child in element:
            tag = child.tag
            if tag == f"{W}r":
                self._read_run(child, found, link)
            elif tag in _LEFT_OUT:
                continue
            elif tag == f"{W}hyperlink":
                self._read(child, found, self.part.link(child.get(f"{RELATION}id")) or link)
            elif tag == f"{W}fldSimple":
                self._read(child, found, link_of(child.get(f"{W}instr", "")) or link)
            elif tag in (f"{M}oMath", f"{M}oMathPara"):
                found.append(Run(latex(child), Style(math=True)))
            elif tag == f"{MARKUP}AlternateContent":
                chosen = alternative(child)
                if chosen is not None:
                    self._read(chosen, found, link)
            elif tag == f"{W}sdt" and (tick := _tick(child)):
                found.append(Run(tick))
            elif tag in _SHAPES:
                self._read_shapes(child, found)
            else:
                self._read(child, found, link)

    def _read_run(self, run: Element, found: list[Inline], link: str | None) -> None:
        properties = run.find(f"{W}rPr")
        style = self._style(properties)
        if style is None:
            return
        position = _position(properties)
        for child in run:
            name = child.tag.rpartition("}")[2]
            if name in ("fldChar", "instrText"):
                self._follow_field(child, name, found)
            elif self._is_instruction:
                continue
            elif (text := _text(child, name)) is not None:
                if position in ("superscript", "subscript"):
                    text = (raised if position == "superscript" else lowered)(text)
                target = link or self._field_link
                found.append(Run(text, style._replace(link=target) if target else style))
            elif name in NOTES:
                label = self.label_of(name, child.get(f"{W}id", ""))
                if label is not None:
                    found.append(NoteMark(label))
            elif child.tag in _SHAPES or child.tag == f"{MARKUP}AlternateContent":
                self._read_shapes(child, found)
            elif name == "ruby":
                self._read(child, found, link)

    def _style(self, properties: Element | None) -> Style | None:
        """None for text that is not shown."""
        if properties is None:
            return PLAIN
        if is_on(properties, "vanish") or properties.find(f"{W}del") is not None:
            return None
        named = value(properties, "rStyle")
        return styled(properties, self.styles.character(named) if named else PLAIN)

    def _follow_field(self, child: Element, name: str, found: list[Inline]) -> None:
        if name == "instrText":
            if self._fields and len(self._fields[-1].instruction) < _INSTRUCTION:
                self._fields[-1].instruction += child.text or ""
            return
        match child.get(f"{W}fldCharType"):
            case "begin":
                self._fields.append(_Field())
                box = child.find(f"{W}ffData/{W}checkBox")
                if box is not None:
                    is_ticked = is_on(box, "checked", is_on(box, "default"))
                    found.append(Run(_TICKED if is_ticked else _UNTICKED))
            case "separate" if self._fields:
                self._fields[-1].is_result = True
                self._fields[-1].link = link_of(self._fields[-1].instruction)
            case "end" if self._fields:
                ended = self._fields.pop()
                text = None if ended.is_result else text_of(ended.instruction)
                if text and not self._is_instruction:
                    found.append(Run(text))

    @property
    def _is_instruction(self) -> bool:
        return any(not each.is_result for each in self._fields)

    @property
    def _field_link(self) -> str | None:
        return next((each.link for each in reversed(self._fields) if each.link), None)

    def _read_shapes(self, shape: Element, found: list[Inline]) -> None:
        alt = _alt(shape)
        for element in _outside_boxes(shape):
            if element.tag in _BOXES:
                self.boxes.append(element)
            elif element.tag == f"{_PICTURE}pic":
                found.append(self.part.drawn_picture(element, self.pictures, alt))
            elif element.tag == f"{_VECTOR}imagedata":
                identity = element.get(f"{RELATION}id")
                found.append(self.part.picture(identity, alt, self.pictures))


def _position(properties: Element | None) -> str | None:
    """Raised or lowered by name, or by a distance."""
    named = value(properties, "vertAlign")
    distance = integer(value(properties, "position"))
    if named or not distance:
        return named
    return "superscript" if distance > 0 else "subscript"


def _outside_boxes(shape: Element) -> Iterator[Element]:
    """All that is in a shape; what is in a text box is the box's affair."""
    if shape.tag == f"{MARKUP}AlternateContent":
        shape = alternative(shape)
        if shape is None:
            return
    for child in shape:
        yield child
        if child.tag not in _BOXES:
            yield from _outside_boxes(child)


def _alt(shape: Element) -> str | None:
    for element in shape.iter(f"{_PLACED}docPr", f"{_VECTOR}shape"):
        text = element.get("descr") or element.get("alt") or element.get("title")
        if text:
            return str(text)
    return None


def _text(child: Element, name: str) -> str | None:
    match name:
        case "t":
            return child.text or ""
        case "tab" | "ptab":
            return "\t"
        case "br":
            return "" if child.get(f"{W}type") in ("page", "column") else "\n"
        case "cr":
            return "\n"
        case "noBreakHyphen":
            return "-"
        case "softHyphen":
            return ""
        case "sym":
            code = int(child.get(f"{W}char", "0"), 16)
            return symbol(child.get(f"{W}font", ""), code)
        case _:
            return None


def _tick(control: Element) -> str | None:
    box = control.find(f"{W}sdtPr/{_WORD_2010}checkbox")
    if box is None:
        return None
    checked = box.find(f"{_WORD_2010}checked")
    is_ticked = checked is not None and is_true(checked.get(f"{_WORD_2010}val"))
    return _TICKED if is_ticked else _UNTICKED
