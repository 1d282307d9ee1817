"""Flat OpenDocument texts: columns, running heads, footnotes, nested lists, tables."""

from html import escape

from .model import Block, Code, Document, Entry, Heading, Listing, NewPage, Paragraph, Table, spans

BULLETS = "•\u2013◦▪"
SPACES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{path}:1.0"'
    for name, path in {
        "office": "office",
        "style": "style",
        "text": "text",
        "table": "table",
        "fo": "xsl-fo-compatible",
    }.items()
)


def text_document(document: Document) -> str:
    style, blocks = document.style, list(document.blocks)
    if style.columns > 1:
        head = "".join(_block(document, block) for block in blocks[:2])
        rest = "".join(_block(document, block) for block in blocks[2:])
        body = f'{head}<text:section text:style-name="Columns" text:name="s">{rest}</text:section>'
    else:
        body = "".join(_block(document, block) for block in blocks)
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><office:document {SPACES} office:version="1.2" '
        'office:mimetype="application/vnd.oasis.opendocument.text">'
        f"<office:styles>{_styles(document)}</office:styles>"
        f"<office:automatic-styles>{_automatic(document)}</office:automatic-styles>"
        f"<office:master-styles>{_master(document)}</office:master-styles>"
        f"<office:body><office:text>{body}</office:text></office:body></office:document>"
    )


def _styles(document: Document) -> str:
    style = document.style
    font = "Liberation Serif" if style.serif else "DejaVu Sans"
    align = "justify" if style.justified else "start"
    country = {"de": "DE", "en": "GB"}[document.language]
    parts = [
        _paragraph_style(
            "Standard",
            f'fo:margin-bottom="6pt" fo:text-align="{align}" fo:line-height="120%"',
            f'fo:font-family="{font}" fo:font-size="{style.size}pt" '
            f'fo:language="{document.language}" fo:country="{country}" '
            f'fo:hyphenate="{"true" if style.justified else "false"}"',
        ),
        _paragraph_style("Small", "", f'fo:font-size="{style.size * 0.85}pt"', "Standard"),
        _paragraph_style(
            "Boxed", 'fo:border="0.7pt solid #666666" fo:padding="5pt"', "", "Standard"
        ),
        _paragraph_style(
            "Code",
            'fo:margin-bottom="0pt" fo:text-align="start"',
            f'fo:font-family="Liberation Mono" fo:font-size="{style.size * 0.9}pt"',
            "Standard",
        ),
        _paragraph_style("Figure", 'fo:text-align="end" fo:margin-bottom="0pt"', "", "Standard"),
        _paragraph_style("Cell", 'fo:text-align="start" fo:margin-bottom="0pt"', "", "Standard"),
        _paragraph_style("Break", 'fo:break-before="page"', "", "Standard"),
    ]
    for level, factor in enumerate(style.heads, 1):
        weight = "bold" if style.heads_bold else "normal"
        parts.append(
            _paragraph_style(
                f"Head{level}",
                'fo:margin-top="10pt" fo:margin-bottom="5pt" fo:text-align="'
                f'{"center" if style.heads_centred else "start"}" '
                'fo:keep-with-next="always"',
                f'fo:font-size="{style.size * factor:.1f}pt" fo:font-weight="{weight}"',
                "Standard",
            )
        )
    return "".join(parts)


def _paragraph_style(name: str, paragraph: str, text: str, parent: str = "") -> str:
    above = f'style:parent-style-name="{parent}"' if parent else ""
    return (
        f'<style:style style:name="{name}" style:family="paragraph" {above}>'
        f"<style:paragraph-properties {paragraph}/><style:text-properties {text}/></style:style>"
    )


def _automatic(document: Document) -> str:
    style = document.style
    width, height = style.page
    border = {
        "grid": 'fo:border="0.6pt solid #000000"',
        "lines": 'fo:border-bottom="0.5pt solid #555555"',
    }.get(style.rules, "")
    shade = 'fo:background-color="#e4e4e4"' if style.rules == "zebra" else ""
    return (
        '<style:style style:name="Bold" style:family="text">'
        '<style:text-properties fo:font-weight="bold"/></style:style>'
        '<style:style style:name="Columns" style:family="section"><style:section-properties>'
        f'<style:columns fo:column-count="{style.columns}" fo:column-gap="16pt"/>'
        "</style:section-properties></style:style>"
        f'<style:style style:name="Plain" style:family="table-cell">'
        f'<style:table-cell-properties fo:padding="3pt" {border}/></style:style>'
        f'<style:style style:name="Shaded" style:family="table-cell">'
        f'<style:table-cell-properties fo:padding="3pt" {border} {shade}/></style:style>'
        + "".join(
            f'<style:style style:name="Width{n}" style:family="table-column">'
            f'<style:table-column-properties style:rel-column-width="{n}*"/></style:style>'
            for n in range(1, 8)
        )
        + f'<style:page-layout style:name="Layout"><style:page-layout-properties '
        f'fo:page-width="{width}pt" fo:page-height="{height}pt" fo:margin="{style.margin}pt" '
        f'style:print-orientation="{"landscape" if width > height else "portrait"}"/>'
        '<style:header-style><style:header-footer-properties fo:margin-bottom="8pt" '
        'fo:min-height="14pt"/></style:header-style>'
        '<style:footer-style><style:header-footer-properties fo:margin-top="8pt" '
        'fo:min-height="14pt"/></style:footer-style></style:page-layout>'
        + "".join(_list_style(name, numbered) for name, numbered in (("Dots", 0), ("Numbers", 1)))
    )


def _list_style(name: str, numbered: int) -> str:
    levels = []
    for level in range(1, 5):
        place = (
            "<style:list-level-properties text:list-level-position-and-space-mode="
            '"label-alignment"><style:list-level-label-alignment text:label-followed-by="listtab" '
            f'fo:text-indent="-14pt" fo:margin-left="{level * 18}pt"/>'
            "</style:list-level-properties>"
        )
        if numbered and level == 1:
            levels.append(
                f'<text:list-level-style-number text:level="{level}" style:num-format="1" '
                f'style:num-suffix=".">{place}</text:list-level-style-number>'
            )
        else:
            levels.append(
                f'<text:list-level-style-bullet text:level="{level}" text:bullet-char='
                f'"{BULLETS[level - 1]}">{place}</text:list-level-style-bullet>'
            )
    return f'<text:list-style style:name="{name}">{"".join(levels)}</text:list-style>'


def _master(document: Document) -> str:
    style, parts = document.style, ""
    if style.running_head:
        head = escape(style.running_head)
        parts += f'<style:header><text:p text:style-name="Small">{head}</text:p></style:header>'
    if style.page_numbers:
        before, behind = style.number_marks
        parts += (
            f'<style:footer><text:p text:style-name="Small">{before}<text:page-number/>{behind}'
            "</text:p></style:footer>"
        )
    named = 'style:name="Standard" style:page-layout-name="Layout"'
    return f"<style:master-page {named}>{parts}</style:master-page>"


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
    return (
        '<text:note text:note-class="footnote"><text:note-citation/><text:note-body>'
        f'<text:p text:style-name="Small">{escape(text)}</text:p></text:note-body></text:note>'
    )


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
        f'<text:span text:style-name="Bold">{escape(piece)}</text:span>' if bold else escape(piece)
        for piece, bold in spans(text)
    )
