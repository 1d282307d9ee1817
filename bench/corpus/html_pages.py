"""Documents typeset by Chromium: HTML, printed."""

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path

from .model import Block, Code, Document, Entry, Heading, Listing, NewPage, Paragraph, Table, spans

LIMIT_S = 60
CHROMIUM = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-pdf-header-footer",
)


def write_all(documents: Sequence[tuple[Document, Path]]) -> None:
    program = shutil.which("chromium") or "chromium"
    for document, target in documents:
        with tempfile.TemporaryDirectory(prefix="bench-") as directory:
            page = Path(directory) / "page.html"
            page.write_text(html(document), encoding="utf-8")
            given = [f"--user-data-dir={directory}/profile", f"--print-to-pdf={target}"]
            command = [program, *CHROMIUM, *given, page.as_uri()]
            subprocess.run(command, check=True, capture_output=True, timeout=LIMIT_S)


def html(document: Document) -> str:
    style, blocks = document.style, list(document.blocks)
    body = ""
    if style.columns > 1:
        body = "".join(_block(document, block) for block in blocks[:2])
        blocks = blocks[2:]
    body += f"<div class=columns>{''.join(_block(document, block) for block in blocks)}</div>"
    return (
        f"<!doctype html><html lang={document.language}><meta charset=utf-8>"
        f"<style>{_css(document)}</style><body>{body}</body></html>"
    )


def _css(document: Document) -> str:
    style = document.style
    width, height = style.page
    font = "'Liberation Serif', serif" if style.serif else "'Liberation Sans', sans-serif"
    number = ""
    if style.page_numbers:
        before, behind = style.number_marks
        content = f'"{before}" counter(page) "{behind}"'
        number = f"@bottom-center {{ content: {content}; font-size: 8pt }}"
    head = ""
    if style.running_head:
        head = f'@top-left {{ content: "{style.running_head}"; font-size: 8pt }}'
    align = "justify" if style.justified else "left"
    lines = [
        f"@page {{ size: {width}pt {height}pt; margin: {style.margin}pt; {number} {head} }}",
        f"body {{ font: {style.size}pt/1.4 {font}; text-align: {align}; margin: 0;"
        f" hyphens: {'auto' if style.justified else 'manual'} }}",
        f".columns {{ column-count: {style.columns}; column-gap: 18pt }}",
        "table { width: 100%; border-collapse: collapse; margin: 8pt 0; text-align: left }",
        "td, th { padding: 3pt 5pt; vertical-align: top }",
        ".figure { text-align: right }",
        ".small { font-size: 85% } .boxed { border: 1px solid #666; padding: 6pt }",
        "pre { font: 85% 'DejaVu Sans Mono', monospace; background: #eee; padding: 6pt }",
        ".break { break-before: page }",
        {
            "grid": "td, th { border: 0.7pt solid #333 }",
            "lines": "tr { border-bottom: 0.6pt solid #555 }",
            "zebra": "tr:nth-child(even) { background: #e4e4e4 }",
            "none": "",
        }[style.rules],
    ]
    for level, factor in enumerate(style.heads, 1):
        weight = "bold" if style.heads_bold else "normal"
        align = "center" if style.heads_centred else "left"
        lines.append(
            f"h{level} {{ font-size: {factor}em; font-weight: {weight}; text-align: {align} }}"
        )
    return "\n".join(lines)


def _block(document: Document, block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"<h{level}>{escape(text)}</h{level}>"
        case Paragraph(text, boxed, small, _):
            classes = " ".join(name for name, on in (("boxed", boxed), ("small", small)) if on)
            return f"<p class='{classes}'>{_inline(text)}</p>"
        case Listing(entries, numbered):
            return _list(entries, numbered)
        case Table():
            return _table(block, "thead" if document.style.heads_again else "tbody")
        case Code(text):
            return f"<pre>{escape(text)}</pre>"
        case NewPage():
            return "<div class=break></div>"


def _table(table: Table, head_tag: str) -> str:
    def row(cells: tuple[str, ...], tag: str) -> str:
        parts = []
        for number, cell in enumerate(cells):
            kind = " class=figure" if number in table.figures else ""
            share = f" style='width: {table.shares()[number] * 100:.0f}%'" if tag == "th" else ""
            parts.append(f"<{tag}{kind}{share}>{escape(cell)}</{tag}>")
        return f"<tr>{''.join(parts)}</tr>"

    head, *others = table.rows
    rows = "".join(row(cells, "td") for cells in others)
    return f"<table><{head_tag}>{row(head, 'th')}</{head_tag}><tbody>{rows}</tbody></table>"


def _list(entries: tuple[Entry, ...], numbered: bool) -> str:
    tag = "ol" if numbered else "ul"
    items = [
        f"<li>{escape(entry.text)}{_list(entry.entries, False) if entry.entries else ''}</li>"
        for entry in entries
    ]
    return f"<{tag}>{''.join(items)}</{tag}>"


def _inline(text: str) -> str:
    return "".join(f"<b>{escape(part)}</b>" if bold else escape(part) for part, bold in spans(text))
