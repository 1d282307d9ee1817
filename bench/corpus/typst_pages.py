"""Documents typeset by Typst."""

import json
from pathlib import Path

import typst

from .model import Block, Code, Document, Entry, Heading, Listing, NewPage, Paragraph, Table, spans

SERIF, SANS = "Libertinus Serif", "DejaVu Sans"


def write(document: Document, target: Path) -> None:
    source = target.with_suffix(".typ")
    source.write_text(_source(document), encoding="utf-8")
    try:
        typst.compile(source, output=target)
    finally:
        source.unlink()


def _source(document: Document) -> str:
    style, blocks = document.style, list(document.blocks)
    lines = [_page(document), _text(document), "#show raw: set text(size: 0.9em)"]
    for level, factor in enumerate(style.heads, 1):
        weight = "bold" if style.heads_bold else "regular"
        look = f"size: {factor * style.size}pt, weight: {json.dumps(weight)}"
        lines.append(f"#show heading.where(level: {level}): set text({look})")
    if style.heads_centred:
        lines.append("#show heading: set align(center)")
    if style.columns > 1:
        spanning = "\n".join(_block(document, block) for block in blocks[:2])
        lines.append(f'#place(top, scope: "parent", float: true)[\n{spanning}\n]')
        blocks = blocks[2:]
    return "\n".join([*lines, *(_block(document, block) for block in blocks)])


def _page(document: Document) -> str:
    style = document.style
    width, height = style.page
    given = [f"width: {width}pt, height: {height}pt, margin: {style.margin}pt"]
    given.append(f"columns: {style.columns}")
    if style.page_numbers:
        before, behind = map(_string, style.number_marks)
        number = f"{before}#context counter(page).display(){behind}"
        given.append(f"footer: [#align(center)[{number}]]")
    if style.running_head:
        head = _string(style.running_head)
        given.append(f'header: [#text(size: 0.8em, style: "italic")[{head} #h(1fr) ]]')
    return f"#set page({', '.join(given)})"


def _text(document: Document) -> str:
    style = document.style
    font = json.dumps(SERIF if style.serif else SANS)
    # Wider than the default, so that pages do not all look the same.
    leading = 0.65 if style.serif else 0.8
    return (
        f"#set text(font: {font}, size: {style.size}pt, lang: {json.dumps(document.language)}, "
        f"hyphenate: {_truth(style.justified)})\n"
        f"#set par(justify: {_truth(style.justified)}, leading: {leading}em)"
    )


def _block(document: Document, block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"#heading(level: {level})[{_string(text)}]\n"
        case Paragraph(text, boxed, small, footnote):
            body = _inline(text) + (f"#footnote[{_string(footnote)}]" if footnote else "")
            if small:
                body = f"#text(size: 0.85em)[{body}]"
            return f"#block(stroke: 0.7pt, inset: 8pt)[{body}]\n" if boxed else f"{body}\n\n"
        case Listing(entries, numbered):
            return _list(entries, numbered) + "\n"
        case Table():
            return _table(document, block)
        case Code(text):
            return f"#raw(block: true, {json.dumps(text, ensure_ascii=False)})\n"
        case NewPage():
            return "#pagebreak()"


def _table(document: Document, table: Table) -> str:
    rules = document.style.rules
    stroke = {"grid": "0.6pt", "lines": "(x: none, y: 0.5pt)"}.get(rules, "none")
    fill = "(x, y) => if calc.odd(y) { luma(230) }" if rules == "zebra" else "none"
    count = len(table.rows[0])
    align = ", ".join("right" if n in table.figures else "left" for n in range(count))
    widths = ", ".join(f"{share * 100:.1f}fr" for share in table.shares())
    head = [f"[#strong({_quoted(cell)})]" for cell in table.rows[0]]
    cells = [f"table.header({', '.join(head)})"] if document.style.heads_again else head
    cells += [f"[{_string(cell)}]" for row in table.rows[1:] for cell in row]
    return (
        f"#table(columns: ({widths}), align: ({align}), stroke: {stroke}, fill: {fill}, "
        f"{', '.join(cells)})\n"
    )


def _list(entries: tuple[Entry, ...], numbered: bool) -> str:
    items = [
        f"[{_string(entry.text)} {_list(entry.entries, False) if entry.entries else ''}]"
        for entry in entries
    ]
    return f"#{'enum' if numbered else 'list'}({', '.join(items)})"


def _inline(text: str) -> str:
    return "".join(
        f"#strong({_quoted(part)})" if bold else _string(part) for part, bold in spans(text)
    )


def _string(text: str) -> str:
    return f"#{_quoted(text)};"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _truth(value: bool) -> str:
    return "true" if value else "false"
