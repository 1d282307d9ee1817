"""Documents typeset by LibreOffice from flat ODT, DOCX and PPTX files."""

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import docx
import pptx
from docx.enum.text import WD_ALIGN_PARAGRAPH
from docx.shared import Pt
from pptx.util import Pt as SlidePt

from .model import Block, Code, Document, Entry, Heading, Listing, NewPage, Paragraph, Table, spans

LIMIT_S = 240
#: A flat OpenDocument text with its styles.
TEMPLATE = "".join(Path(__file__).with_name("template.fodt").read_text("utf-8").split("\n"))


def write_all(documents: Sequence[tuple[Document, Path]], form: str) -> None:
    """All of one format in one call, as each call has to start LibreOffice."""
    program = shutil.which("soffice") or "soffice"
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        sources = []
        for number, (document, _) in enumerate(documents):
            source = Path(directory) / f"{number}.{form}"
            WRITERS[form](document, source)
            sources.append(source)
        profile = f"-env:UserInstallation=file://{directory}/profile"
        command = [program, profile, "--headless", "--convert-to", "pdf", "--outdir", directory]
        subprocess.run(
            [*command, *map(str, sources)], check=True, capture_output=True, timeout=LIMIT_S
        )
        for source, (_, target) in zip(sources, documents, strict=True):
            shutil.move(source.with_suffix(".pdf"), target)


def write_fodt(document: Document, target: Path) -> None:
    target.write_text(text_document(document), encoding="utf-8")


def text_document(document: Document) -> str:
    style, blocks = document.style, list(document.blocks)
    if style.columns > 1:
        head = "".join(_block(document, block) for block in blocks[:2])
        rest = "".join(_block(document, block) for block in blocks[2:])
        body = f'{head}<text:section text:style-name="Columns" text:name="s">{rest}</text:section>'
    else:
        body = "".join(_block(document, block) for block in blocks)
    border = {
        "grid": 'fo:border="0.6pt solid #000000"',
        "lines": 'fo:border-bottom="0.5pt solid #555555"',
    }.get(style.rules, "")
    header = footer = ""
    if style.running_head:
        header = f"<style:header>{_small(escape(style.running_head))}</style:header>"
    if style.page_numbers:
        footer = (
            f"<style:footer>{_small('<text:page-number/>'.join(style.number_marks))}</style:footer>"
        )
    width, height = style.page
    return TEMPLATE.format(
        font="Liberation Serif" if style.serif else "DejaVu Sans",
        size=style.size,
        small=style.size * 0.85,
        code=style.size * 0.9,
        heads=[f"{style.size * factor:.1f}" for factor in style.heads],
        head_align="center" if style.heads_centred else "start",
        head_weight="bold" if style.heads_bold else "normal",
        align="justify" if style.justified else "start",
        hyphenate="true" if style.justified else "false",
        language=document.language,
        country={"de": "DE", "en": "GB"}[document.language],
        columns=style.columns,
        border=border,
        shade='fo:background-color="#e4e4e4"' if style.rules == "zebra" else "",
        width=width,
        height=height,
        margin=style.margin,
        orientation="landscape" if width > height else "portrait",
        header=header,
        footer=footer,
        body=body,
    )


def _small(text: str) -> str:
    return f'<text:p text:style-name="Small">{text}</text:p>'


def _block(document: Document, block: Block) -> str:
    match block:
        case Heading(level, text):
            name = f'text:style-name="Head{level}" text:outline-level="{level}"'
            return f"<text:h {name}>{escape(text)}</text:h>"
        case Paragraph(text, boxed, small, footnote):
            name = "Boxed" if boxed else "Small" if small else "Standard"
            return f'<text:p text:style-name="{name}">{_inline(text)}{_note(footnote)}</text:p>'
        case Listing(entries, numbered):
            return _list(entries, "Numbers" if numbered else "Dots")
        case Table():
            return _table(block, document.style.heads_again)
        case Code(text):
            return "".join(
                f'<text:p text:style-name="Code">{_code(line)}</text:p>'
                for line in text.split("\n")
            )
        case NewPage():
            return '<text:p text:style-name="Break"/>'


def _code(line: str) -> str:
    indent = len(line) - len(line.lstrip())
    return f'<text:s text:c="{indent}"/>{escape(line.lstrip())}'


def _note(text: str | None) -> str:
    if not text:
        return ""
    citation, body = (
        "<text:note-citation/>",
        f"<text:note-body>{_small(escape(text))}</text:note-body>",
    )
    return f'<text:note text:note-class="footnote">{citation}{body}</text:note>'


def _table(table: Table, heads_again: bool) -> str:
    widths = table.widths or (1,) * len(table.rows[0])
    columns = "".join(f'<table:table-column table:style-name="Width{n}"/>' for n in widths)
    rows = ""
    for number, cells in enumerate(table.rows):
        look = "Shaded" if number % 2 else "Plain"
        rows += "<table:table-row>"
        for column, cell in enumerate(cells):
            text = f"**{cell}**" if number == 0 and cell else cell
            name = "Figure" if column in table.figures else "Cell"
            rows += (
                f'<table:table-cell table:style-name="{look}">'
                f'<text:p text:style-name="{name}">{_inline(text)}</text:p></table:table-cell>'
            )
        rows += "</table:table-row>"
        if number == 0 and heads_again:
            rows = f"<table:table-header-rows>{rows}</table:table-header-rows>"
    return f"<table:table>{columns}{rows}</table:table>"


def _list(entries: tuple[Entry, ...], name: str) -> str:
    named = f' text:style-name="{name}"' if name else ""
    items = [
        f"<text:list-item><text:p>{escape(entry.text)}</text:p>"
        f"{_list(entry.entries, '') if entry.entries else ''}</text:list-item>"
        for entry in entries
    ]
    return f"<text:list{named}>{''.join(items)}</text:list>"


def _inline(text: str) -> str:
    return "".join(
        f'<text:span text:style-name="Bold">{escape(part)}</text:span>' if bold else escape(part)
        for part, bold in spans(text)
    )


def write_docx(document: Document, target: Path) -> None:
    style, file = document.style, docx.Document()
    section = file.sections[0]
    section.page_width, section.page_height = Pt(style.page[0]), Pt(style.page[1])
    section.left_margin = section.right_margin = Pt(style.margin)
    section.top_margin = section.bottom_margin = Pt(style.margin)
    normal = file.styles["Normal"].font
    normal.name, normal.size = (
        "Liberation Serif" if style.serif else "Liberation Sans",
        Pt(style.size),
    )
    for level, factor in enumerate(style.heads, 1):
        font = file.styles[f"Heading {level}"].font
        font.name, font.size, font.bold = normal.name, Pt(style.size * factor), style.heads_bold
    for block in document.blocks:
        _add_docx_block(file, document, block)
    file.save(str(target))


def _add_docx_block(file: Any, document: Document, block: object) -> None:
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
    file = pptx.Presentation()
    file.slide_width, file.slide_height = (SlidePt(length) for length in document.style.page)
    slide: Any = None
    for block in document.blocks:
        match block:
            case NewPage():
                slide = None
            case Heading(_, text):
                slide = file.slides.add_slide(file.slide_layouts[5])
                slide.shapes.title.text = text
                slide.shapes.title.text_frame.paragraphs[0].runs[0].font.size = SlidePt(28)
            case Paragraph(text=text):
                _text_box(slide, document).text = text
            case Listing(entries, numbered):
                _slide_list(_text_box(slide, document), entries, numbered)
            case Table():
                _slide_table(slide, document, block)
    file.save(str(target))


def _text_box(slide: Any, document: Document) -> Any:
    width, height = document.style.page
    box = slide.shapes.add_textbox(
        SlidePt(45), SlidePt(130), SlidePt(width - 90), SlidePt(height - 160)
    )
    box.text_frame.word_wrap = True
    return box.text_frame


def _slide_list(frame: Any, entries: tuple[Entry, ...], numbered: bool, level: int = 0) -> None:
    for number, entry in enumerate(entries, 1):
        first = level == 0 and number == 1
        paragraph = frame.paragraphs[0] if first else frame.add_paragraph()
        mark = f"{number}." if numbered and level == 0 else "•\u2013◦"[level]
        paragraph.text = f"{mark} {entry.text}"
        paragraph.level = level
        paragraph.runs[0].font.size = SlidePt(14 - level)
        _slide_list(frame, entry.entries, False, level + 1)


def _slide_table(slide: Any, document: Document, table: Table) -> None:
    width = document.style.page[0] - 90
    size = len(table.rows), len(table.rows[0])
    shape = slide.shapes.add_table(*size, SlidePt(45), SlidePt(130), SlidePt(width), SlidePt(180))
    for number, cells in enumerate(table.rows):
        for column, text in enumerate(cells):
            cell = shape.table.cell(number, column)
            cell.text = text
            for run in cell.text_frame.paragraphs[0].runs:
                run.font.size = SlidePt(13)


WRITERS = {"fodt": write_fodt, "docx": write_docx, "pptx": write_pptx}
