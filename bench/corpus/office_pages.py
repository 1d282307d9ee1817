"""Documents as DOCX and PPTX files, for LibreOffice."""

from pathlib import Path
from typing import Any

import docx
import pptx
from docx.enum.text import WD_ALIGN_PARAGRAPH
from docx.shared import Pt

from .model import Block, Code, Document, Entry, Heading, Listing, NewPage, Paragraph, Table, spans


def write_docx(document: Document, target: Path) -> None:
    style, file = document.style, docx.Document()
    section = file.sections[0]
    section.page_width, section.page_height = Pt(style.page[0]), Pt(style.page[1])
    section.left_margin = section.right_margin = Pt(style.margin)
    section.top_margin = section.bottom_margin = Pt(style.margin)
    normal = file.styles["Normal"].font
    normal.name = "Liberation Serif" if style.serif else "Liberation Sans"
    normal.size = Pt(style.size)
    for level, factor in enumerate(style.heads, 1):
        font = file.styles[f"Heading {level}"].font
        font.name, font.size, font.bold = normal.name, Pt(style.size * factor), style.heads_bold
    for block in document.blocks:
        _add_docx_block(file, document, block)
    file.save(str(target))


def _add_docx_block(file: Any, document: Document, block: Block) -> None:
    match block:
        case Heading(level, text):
            file.add_heading(text, level)
        case Paragraph(text=text, small=small):
            _runs(file.add_paragraph(), text, document.style.size * 0.85 if small else None)
        case Listing(entries, numbered):
            _docx_list(file, entries, 1, numbered)
        case Table():
            _docx_table(file, document, block)
        case Code(text):
            for line in text.split("\n"):
                run = file.add_paragraph(style="No Spacing").add_run(line)
                run.font.name, run.font.size = "Liberation Mono", Pt(document.style.size * 0.9)
        case NewPage():
            file.add_page_break()


def _runs(paragraph: Any, text: str, size: float | None = None) -> None:
    for part, bold in spans(text):
        run = paragraph.add_run(part)
        run.bold = bold
        if size:
            run.font.size = Pt(size)


def _docx_list(file: Any, entries: tuple[Entry, ...], level: int, numbered: bool = False) -> None:
    for number, entry in enumerate(entries, 1):
        if numbered:
            # Typed by hand: Word's own numbers would continue from list to list.
            paragraph = file.add_paragraph(f"{number}.\t{entry.text}")
            paragraph.paragraph_format.left_indent = Pt(18)
            paragraph.paragraph_format.first_line_indent = Pt(-18)
        else:
            style = "List Bullet" if level == 1 else f"List Bullet {min(level, 3)}"
            file.add_paragraph(entry.text, style=style)
        _docx_list(file, entry.entries, level + 1)


def _docx_table(file: Any, document: Document, table: Table) -> None:
    look = {"grid": "Table Grid", "lines": "Light List", "zebra": "Light Shading"}
    added = file.add_table(len(table.rows), len(table.rows[0]))
    added.style = look.get(document.style.rules, "Normal Table")
    inner = document.style.page[0] - 2 * document.style.margin
    for number, cells in enumerate(table.rows):
        for column, text in enumerate(cells):
            cell = added.cell(number, column)
            cell.width = Pt(inner * table.shares()[column])
            paragraph = cell.paragraphs[0]
            paragraph.add_run(text).bold = number == 0
            if column in table.figures:
                paragraph.alignment = WD_ALIGN_PARAGRAPH.RIGHT


def write_pptx(document: Document, target: Path) -> None:
    file: Any = pptx.Presentation()
    file.slide_width, file.slide_height = (Pt(length) for length in document.style.page)
    slide: Any = None
    for block in document.blocks:
        match block:
            case NewPage():
                slide = None
            case Heading(_, text):
                slide = file.slides.add_slide(file.slide_layouts[5])
                slide.shapes.title.text = text
                slide.shapes.title.text_frame.paragraphs[0].runs[0].font.size = Pt(28)
            case Paragraph(text=text):
                _text_box(slide, document).text = text
            case Listing(entries, numbered):
                _slide_list(_text_box(slide, document), entries, numbered)
            case Table():
                _slide_table(slide, document, block)
    file.save(str(target))


def _text_box(slide: Any, document: Document) -> Any:
    width, height = document.style.page
    box = slide.shapes.add_textbox(Pt(45), Pt(130), Pt(width - 90), Pt(height - 160))
    box.text_frame.word_wrap = True
    return box.text_frame


def _slide_list(frame: Any, entries: tuple[Entry, ...], numbered: bool, level: int = 0) -> None:
    for number, entry in enumerate(entries, 1):
        first = level == 0 and number == 1
        paragraph = frame.paragraphs[0] if first else frame.add_paragraph()
        mark = f"{number}." if numbered and level == 0 else "•\u2013◦"[level]
        paragraph.text = f"{mark} {entry.text}"
        paragraph.level = level
        paragraph.runs[0].font.size = Pt(14 - level)
        _slide_list(frame, entry.entries, False, level + 1)


def _slide_table(slide: Any, document: Document, table: Table) -> None:
    width = document.style.page[0] - 90
    size = len(table.rows), len(table.rows[0])
    shape = slide.shapes.add_table(*size, Pt(45), Pt(130), Pt(width), Pt(180))
    for number, cells in enumerate(table.rows):
        for column, text in enumerate(cells):
            cell = shape.table.cell(number, column)
            cell.text = text
            for run in cell.text_frame.paragraphs[0].runs:
                run.font.size = Pt(13)
