"""Documents typeset by ReportLab's flowing layout."""

from html import escape
from pathlib import Path
from typing import Any

from reportlab.lib import colors
from reportlab.lib.enums import TA_CENTER, TA_JUSTIFY, TA_LEFT, TA_RIGHT
from reportlab.lib.styles import ParagraphStyle
from reportlab.platypus import (
    BaseDocTemplate,
    Flowable,
    Frame,
    FrameBreak,
    ListFlowable,
    ListItem,
    NextPageTemplate,
    PageBreak,
    PageTemplate,
    Preformatted,
    Spacer,
)
from reportlab.platypus import Paragraph as Set
from reportlab.platypus import Table as SetTable

from .model import Block, Code, Document, Entry, Heading, Listing, NewPage, Paragraph, Table, spans

GAP = 16


def write(document: Document, target: Path) -> None:
    style = document.style
    pages = BaseDocTemplate(str(target), pagesize=style.page, title="", invariant=1)
    blocks, story = list(document.blocks), []
    if style.columns > 1:
        pages.addPageTemplates([_first_page(document), _page(document, "later")])
        story = [NextPageTemplate("later"), *_flowables(document, blocks[:2]), FrameBreak()]
        blocks = blocks[2:]
    else:
        pages.addPageTemplates([_page(document, "later")])
    pages.build([*story, *_flowables(document, blocks)])


def _page(document: Document, name: str, head: float = 0) -> PageTemplate:
    """`head`: height at the top that is left for what spans all columns."""
    style = document.style
    width, height = style.page
    inner = width - 2 * style.margin
    column = (inner - GAP * (style.columns - 1)) / style.columns
    frames = [
        Frame(
            style.margin + number * (column + GAP),
            style.margin,
            column,
            height - 2 * style.margin - head,
            leftPadding=0,
            rightPadding=0,
        )
        for number in range(style.columns)
    ]
    return PageTemplate(name, frames, onPage=lambda canvas, _: _furniture(canvas, document))


def _first_page(document: Document) -> PageTemplate:
    style = document.style
    width, height = style.page
    tall = 90.0
    page = _page(document, "first", tall)
    top = Frame(style.margin, height - style.margin - tall, width - 2 * style.margin, tall)
    page.frames.insert(0, top)
    return page


def _furniture(canvas: Any, document: Document) -> None:
    style = document.style
    width, height = style.page
    canvas.setFont("Helvetica", 8)
    if style.page_numbers:
        number = str(canvas.getPageNumber()).join(style.number_marks)
        canvas.drawCentredString(width / 2, style.margin / 2, number)
    if style.running_head:
        canvas.drawString(style.margin, height - style.margin / 2 - 4, style.running_head)
        canvas.line(
            style.margin, height - style.margin + 8, width - style.margin, height - style.margin + 8
        )


def _flowables(document: Document, blocks: list[Block]) -> list[Flowable]:
    return [flowable for block in blocks for flowable in _flowable(document, block)]


def _flowable(document: Document, block: Block) -> list[Flowable]:
    size = document.style.size
    match block:
        case Heading(level, text):
            return [Set(escape(text), _heading(document, level))]
        case Paragraph(text, boxed, small, footnote):
            look = _look(document, size * 0.85 if small else size)
            if boxed:
                look = ParagraphStyle(
                    "boxed", look, borderWidth=0.7, borderPadding=5, borderColor=colors.grey
                )
            notes = [Set(escape(footnote), _look(document, size * 0.8))] if footnote else []
            return [Set(_inline(text), look), *notes, *([Spacer(1, 8)] if boxed else [])]
        case Listing(entries, numbered):
            return [_list(document, entries, numbered), Spacer(1, size / 2)]
        case Table():
            return [_table(document, block), Spacer(1, size)]
        case Code(text):
            look = ParagraphStyle(
                "code", fontName="Courier", fontSize=size * 0.9, leading=size * 1.1
            )
            return [Preformatted(text, look), Spacer(1, size)]
        case NewPage():
            return [PageBreak()]


def _fonts(document: Document) -> tuple[str, str]:
    return (
        ("Times-Roman", "Times-Bold") if document.style.serif else ("Helvetica", "Helvetica-Bold")
    )


def _look(document: Document, size: float, **more: Any) -> ParagraphStyle:
    style, (regular, _) = document.style, _fonts(document)
    given = {
        "fontName": regular,
        "fontSize": size,
        "leading": size * 1.3,
        "spaceAfter": size * 0.6,
        "alignment": TA_JUSTIFY if style.justified else TA_LEFT,
    }
    return ParagraphStyle("text", **(given | more))


def _heading(document: Document, level: int) -> ParagraphStyle:
    style, (regular, bold) = document.style, _fonts(document)
    size = style.size * style.heads[level - 1]
    more = {"fontName": bold if style.heads_bold else regular, "spaceBefore": size * 0.6}
    alignment = TA_CENTER if style.heads_centred else TA_LEFT
    return _look(document, size, alignment=alignment, keepWithNext=1, **more)


def _table(document: Document, table: Table) -> SetTable:
    style, (_, bold) = document.style, _fonts(document)
    inner = style.page[0] - 2 * style.margin
    width = (inner - GAP * (style.columns - 1)) / style.columns - 12
    rows = []
    for number, cells in enumerate(table.rows):
        rows.append(
            [
                _cell(document, cell, column in table.figures, bold if number == 0 else None)
                for column, cell in enumerate(cells)
            ]
        )
    look: list[tuple[Any, ...]] = [("VALIGN", (0, 0), (-1, -1), "TOP")]
    match style.rules:
        case "grid":
            look.append(("GRID", (0, 0), (-1, -1), 0.6, colors.black))
        case "lines":
            look.append(("LINEBELOW", (0, 0), (-1, -1), 0.5, colors.grey))
        case "zebra":
            look.append(("ROWBACKGROUNDS", (0, 1), (-1, -1), [colors.whitesmoke, colors.lightgrey]))
    widths = [width * share for share in table.shares()]
    return SetTable(rows, colWidths=widths, style=look, repeatRows=1 if style.heads_again else 0)


def _cell(document: Document, text: str, figure: bool, font: str | None) -> Set:
    size = document.style.size * 0.9
    more: dict[str, Any] = {"alignment": TA_RIGHT if figure else TA_LEFT, "spaceAfter": 0}
    return Set(escape(text), _look(document, size, **(more | ({"fontName": font} if font else {}))))


def _list(document: Document, entries: tuple[Entry, ...], numbered: bool) -> ListFlowable:
    look = _look(document, document.style.size, spaceAfter=2)
    items = []
    for entry in entries:
        parts: list[Flowable] = [Set(escape(entry.text), look)]
        if entry.entries:
            parts.append(_list(document, entry.entries, False))
        items.append(ListItem(parts))
    kind = (
        {"bulletType": "1", "bulletFormat": "%s."}
        if numbered
        else {"bulletType": "bullet", "start": "•"}
    )
    return ListFlowable(items, leftIndent=16, bulletFontSize=document.style.size, **kind)


def _inline(text: str) -> str:
    return "".join(f"<b>{escape(part)}</b>" if bold else escape(part) for part, bold in spans(text))
