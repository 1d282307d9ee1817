"""Word documents (docx), as one page: where their pages end is known only once they are set."""

from collections.abc import Iterator
from typing import NamedTuple

from .archive import Archive
from .blocks import (
    Block,
    Cell,
    Code,
    Heading,
    Inline,
    Item,
    Note,
    Paragraph,
    Quote,
    Run,
    Table,
    is_blank,
    signed,
    words,
)
from .charts import chart_blocks
from .diagrams import DIAGRAM, diagram_blocks
from .document import OfficeDocument, page_of
from .docx_numbering import Label, Numbering
from .docx_styles import Meaning, Styles, W, heading_of, value
from .docx_text import NOTES, TextReader
from .ooxml import MARKUP, RELATION, Part, alternative, facts_of, main_part
from .pictures import Pictures
from .spans import refuse_beyond, repeated
from .xml_parts import Element, integer

_WRAPPERS = {
    f"{W}{name}"
    for name in ("sdt", "sdtContent", "ins", "moveTo", "customXml", "smartTag", "txbxContent")
}
_NOTE_PARTS = {
    "footnoteReference": ("footnotes", "footnote"),
    "endnoteReference": ("endnotes", "endnote"),
    "commentReference": ("comments", "comment"),
}


def read_docx(archive: Archive, pictures: Pictures) -> OfficeDocument:
    part = main_part(archive, "word/document.xml")
    reader = _Reader(part, pictures)
    body = part.root.find(f"{W}body")
    blocks = reader.blocks(body if body is not None else part.root)
    return OfficeDocument(pages=[page_of(1, blocks, pictures)], facts=facts_of(archive))


class _Context(NamedTuple):
    """What the parts of a document (body, notes) have in common."""

    styles: Styles
    numbering: Numbering
    notes: "_Notes"
    pictures: Pictures


class _Reader:
    def __init__(self, part: Part, pictures: Pictures, context: _Context | None = None) -> None:
        if context is None:
            styles = Styles(_root(part.related("styles")))
            numbering = Numbering(_root(part.related("numbering")))
            context = _Context(styles, numbering, _Notes(part), pictures)
        self._part = part
        self._context = context
        self._text = TextReader(part, context.styles, pictures, context.notes.label)
        #: Text before a paragraph mark that was deleted: it goes on in the next paragraph.
        self._unfinished: list[Inline] = []

    def blocks(self, container: Element) -> list[Block]:
        return list(self._blocks(container))

    def _blocks(self, container: Element) -> Iterator[Block]:
        for child in container:
            if child.tag == f"{W}p":
                yield from self._paragraph(child)
            elif child.tag == f"{W}tbl":
                yield Table(self._rows(child))
                yield from self._context.notes.take(self._context)
            elif child.tag == f"{MARKUP}AlternateContent":
                chosen = alternative(child)
                if chosen is not None:
                    yield from self._blocks(chosen)
            elif child.tag in _WRAPPERS:
                yield from self._blocks(child)

    def _paragraph(self, paragraph: Element) -> Iterator[Block]:
        properties = paragraph.find(f"{W}pPr")
        meaning = self._context.styles.meaning(value(properties, "pStyle"))
        content = self._unfinished + self._text.read(paragraph)
        boxes, self._text.boxes = self._text.boxes, []
        if properties is not None and properties.find(f"{W}rPr/{W}del") is not None:
            self._unfinished = content
        else:
            self._unfinished = []
            if content:
                yield self._block(properties, meaning, content)
        for box in boxes:
            if box.tag == f"{W}txbxContent":
                yield from self._blocks(box)
            elif box.tag == f"{DIAGRAM}relIds":
                yield from diagram_blocks(self._part.by_id(box.get(f"{RELATION}dm")))
            else:
                yield from chart_blocks(self._part.by_id(box.get(f"{RELATION}id")))
        yield from self._context.notes.take(self._context)

    def _block(self, properties: Element | None, meaning: Meaning, content: list[Inline]) -> Block:
        level = _heading(properties, meaning)
        if is_blank(content):
            return Paragraph(())
        label, depth = self._label(properties, meaning)
        if level is not None:
            prefix = [Run(f"{label.text} ")] if label and label.text else []
            return Heading(level, [*prefix, *content])
        if meaning.contents:
            return Item(meaning.contents - 1, "-", content)
        if label is not None:
            is_shown = label.text and label.marker == "-"
            prefix = [Run(f"{label.text} ")] if is_shown else []
            return Item(depth, label.marker, [*prefix, *content])
        if meaning.is_code:
            return Code(words(content))
        if meaning.is_quote:
            return Quote([Paragraph(content)])
        return Paragraph(content)

    def _label(self, properties: Element | None, meaning: Meaning) -> tuple[Label | None, int]:
        numbered = properties.find(f"{W}numPr") if properties is not None else None
        number, level = meaning.numbering or ("0", 0)
        if numbered is not None:
            number = value(numbered, "numId") or number
            level = integer(value(numbered, "ilvl"), level)
        return self._context.numbering.label(number, level), level + meaning.depth

    def _rows(self, table: Element) -> list[list[Cell]]:
        rows: list[list[Cell]] = []
        above: list[Cell] = []
        count = 0
        for row in _children(table, f"{W}tr"):
            properties = row.find(f"{W}trPr")
            if properties is not None and properties.find(f"{W}del") is not None:
                continue
            skipped = integer(value(properties, "gridBefore"))
            line: list[Cell] = [()] * min(skipped, 100)
            for cell in _children(row, f"{W}tc"):
                line += self._cells(cell, above[len(line) :])
            count += len(line)
            refuse_beyond(count)
            rows.append(line)
            above = line
        return rows

    def _cells(self, cell: Element, above: list[Cell]) -> list[Cell]:
        properties = cell.find(f"{W}tcPr")
        span = min(max(integer(value(properties, "gridSpan"), 1), 1), 100)
        merge = properties.find(f"{W}vMerge") if properties is not None else None
        content: Cell = self.blocks(cell)
        if merge is not None and merge.get(f"{W}val", "continue") == "continue":
            content = repeated(above[0]) if above else ()
        return [content, *[()] * (span - 1)]


def _heading(properties: Element | None, meaning: Meaning) -> int | None:
    outline = value(properties, "outlineLvl")
    return meaning.heading if outline is None else heading_of(outline)


def _children(element: Element, tag: str) -> Iterator[Element]:
    """Rows and cells, also those in content controls and insertions."""
    for child in element:
        if child.tag == tag:
            yield child
        elif child.tag in _WRAPPERS:
            yield from _children(child, tag)


def _root(part: Part | None) -> Element | None:
    return part.root if part is not None else None


class _Notes:
    """Footnotes, endnotes and comments; each is told once, after the block that marks it."""

    def __init__(self, document: Part) -> None:
        self._parts = {
            name: document.related(relation) for name, (relation, _) in _NOTE_PARTS.items()
        }
        self._elements: dict[str, dict[str, Element]] = {}
        self._labels: dict[tuple[str, str], str] = {}
        self._waiting: list[tuple[str, str, Element]] = []
        self._counts = dict.fromkeys(NOTES, 0)

    def label(self, name: str, identity: str) -> str | None:
        if (name, identity) not in self._labels:
            element = self._found(name).get(identity)
            if element is None or element.get(f"{W}type") in ("separator", "continuationSeparator"):
                return None
            self._counts[name] += 1
            label = f"{NOTES[name]}{self._counts[name]}"
            self._labels[name, identity] = label
            self._waiting.append((name, label, element))
        return self._labels[name, identity]

    def take(self, context: _Context) -> Iterator[Block]:
        waiting, self._waiting = self._waiting, []
        for name, label, element in waiting:
            part = self._parts[name]
            if part is not None:
                blocks = _Reader(part, context.pictures, context).blocks(element)
                yield Note(label, signed(blocks, element.get(f"{W}author")))

    def _found(self, name: str) -> dict[str, Element]:
        if name not in self._elements:
            root = _root(self._parts[name])
            children = root.iterchildren(f"{W}{_NOTE_PARTS[name][1]}") if root is not None else ()
            self._elements[name] = {each.get(f"{W}id", ""): each for each in children}
        return self._elements[name]
