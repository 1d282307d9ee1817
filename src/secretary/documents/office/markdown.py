"""Renders blocks as Markdown and as plain text."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, takewhile
from typing import Any, NamedTuple

from ..markdown import code_fence, pipe_table
from ..pages import Page
from .blocks import (
    Block,
    Cell,
    Code,
    Grid,
    Heading,
    Inline,
    Inlines,
    Item,
    Note,
    NoteReference,
    Paragraph,
    Picture,
    Pictures,
    Quote,
    Rule,
    Run,
    Style,
    Table,
)

#: Browsers display these; other formats are linked, since a broken image helps nobody.
_DISPLAYED_FORMATS = (".png", ".jpg", ".gif", ".webp", ".bmp", ".svg")
LINE_BREAK = "<br>"
#: A closing sequence at the end of a heading.
_CLOSING = re.compile(r"(?<!\S)#+$")
_SPECIAL = re.compile(r"[\\*_`\[<&~]")
_ESCAPES = re.compile(
    r"\\(?![^\W_])"  # a backslash that would escape what follows
    r"|(?<!\s)\*|\*(?!\s)"  # not a multiplication sign
    r"|(?<![^\W_])_|_(?![^\W_])"  # not inside an identifier
    r"|`"
    r"|\[(?=[^\[\]]*\][(\[:]|\^)"
    r"|<(?=[A-Za-z/!?])"
    r"|&(?=#?\w+;)"
    r"|~(?=~)|(?<=~)~"
)
_LINE_START = re.compile(r"(?m)^([ \t]*)(#{1,6}(?=\s|$)|>|=+$|(?:[-*_] *){2,}$)")
_BREAK = "  \n"


def build_page(number: int, blocks: Sequence[Block], pictures: Pictures, **facts: Any) -> Page:
    return Page(
        number=number,
        text=to_text(blocks),
        markdown=to_markdown(blocks),
        pictures=pictures.end_page(),
        facts=facts,
    )


def to_markdown(blocks: Iterable[Block]) -> str:
    """Render blocks; notes come last."""
    notes: list[Note] = []
    text = _join_blocks(_merge_code(blocks), notes)
    for note in notes:  # grows meanwhile: a note may refer to notes
        inner = _join_blocks(_merge_code(note.blocks), notes).replace("\n", "\n    ")
        text += f"\n\n[^{note.label}]: {inner}"
    return re.sub(r"(?m)^ +$", "", text).strip("\n") + "\n" if text.strip() else ""


def _join_blocks(blocks: Iterable[Block], notes: list[Note]) -> str:
    parts: list[str] = []
    # Level and width of the marker of each list item around the next one.
    open_items: list[tuple[int, int]] = []
    before: Block | None = None
    for block in blocks:
        if isinstance(block, Note):
            notes.append(block)
            continue
        is_next = isinstance(block, Item) and isinstance(before, Item) and block.marker
        if isinstance(block, Item):
            text = _item(block, open_items)
        elif text := _block_markdown(block, notes):
            open_items.clear()
        if not text:
            continue
        parts.append(("\n" if is_next else "\n\n") + text)
        before = block
    return "".join(parts).strip("\n")


def _item(item: Item, open_items: list[tuple[int, int]]) -> str:
    text = _inline_markdown(item.content)
    if not text:
        return ""
    is_further = not item.marker
    while open_items and open_items[-1][0] >= item.level + is_further:
        open_items.pop()
    indent = " " * sum(width for _, width in open_items)
    text = text.replace("\n", "\n" + indent + " " * (len(item.marker) + 1))
    if is_further:
        return indent + text
    open_items.append((item.level, len(item.marker) + 1))
    return f"{indent}{item.marker} {text}"


def _merge_code(blocks: Iterable[Block]) -> Iterator[Block]:
    """Merge adjacent code paragraphs into one code block."""
    for is_code, group in groupby(
        blocks, lambda each: isinstance(each, Code) and not each.language
    ):
        if is_code:
            yield Code("\n".join(block.text for block in group if isinstance(block, Code)))
        else:
            yield from group


def _block_markdown(block: Block, notes: list[Note]) -> str:
    match block:
        case Heading(level, content):
            text = _inline_markdown(content, is_bold_known=True, begins_line=False)
            text = " ".join(line.rstrip() for line in text.split("\n"))
            text = _CLOSING.sub(r"\\\g<0>", text)
            return f"{'#' * min(max(level, 1), 6)} {text}" if text else ""
        case Paragraph(content):
            return _inline_markdown(content)
        case Code(text, language):
            return fenced_code(text, language)
        case Quote(blocks):
            inner = _join_blocks(_merge_code(blocks), notes)
            return "> " + inner.replace("\n", "\n> ").replace("> \n", ">\n") if inner else ""
        case Table([[cell]]):
            return _join_blocks(_merge_code(cell), notes)  # a box, not a table
        case Table(rows):
            written = [
                [_table_cell(cell, notes, is_head=not number) for cell in row]
                for number, row in enumerate(rows)
            ]
            return pipe_table(written) if any(any(row) for row in written) else ""
        case Grid():
            return _grid_table(block)
        case Rule():
            return "---"
        case _:
            return ""


def fenced_code(text: str, language: str) -> str:
    fence = code_fence(text, 3)
    return f"{fence}{language}\n{text.strip(chr(10))}\n{fence}" if text.strip() else ""


def _table_cell(cell: Cell, notes: list[Note], *, is_head: bool = False) -> str:
    lines = [line for block in cell for line in _cell_lines(block, notes, is_head)]
    text = LINE_BREAK.join(line for line in lines if line)
    text = LINE_BREAK.join(line.rstrip(" ") for line in text.split("\n"))
    return text.replace("|", "\\|")


def _cell_lines(block: Block, notes: list[Note], is_head: bool) -> Iterator[str]:
    match block:
        case Heading(_, content):
            yield _inline_markdown(content, is_bold_known=True, begins_line=False)
        case Paragraph(content):
            yield _inline_markdown(content, is_bold_known=is_head, begins_line=False)
        case Item(level, marker, content):
            text = _inline_markdown(content, begins_line=False)
            yield "&nbsp;" * 2 * level + f"{marker} {text}".strip()
        case Code(text):
            yield from (f"`{line}`" for line in text.split("\n") if line.strip())
        case Quote(blocks):
            for inner in blocks:
                yield from _cell_lines(inner, notes, is_head)
        case Table(rows):
            for row in rows:
                yield " | ".join(_table_cell(cell, notes).replace("\\|", "|") for cell in row)
        case Grid(grid):
            yield from (" | ".join(texts) for texts in grid)
        case Note():
            notes.append(block)


def _grid_table(grid: Grid) -> str:
    rows = [[_grid_cell(text) for text in row] for row in grid.rows]
    for (row, column), link in grid.links.items():
        if rows[row][column]:
            target = _encode_url(link).replace("|", "%7C")
            rows[row][column] = f"[{rows[row][column]}]({target})"
    return pipe_table(rows)


def _grid_cell(text: str) -> str:
    text = _escape(text.strip())
    if "\n" in text or "\r" in text:
        text = LINE_BREAK.join(line.strip() for line in re.split("[\r\n]+", text))
    return text.replace("|", "\\|").replace("\t", " ")


def _inline_markdown(
    content: Inlines, *, is_bold_known: bool = False, begins_line: bool = True
) -> str:
    """Render inline content.

    `is_bold_known`: all of it is bold anyway, as in headings, so bold is not marked.
    `begins_line`: escape characters that are markup at the start of a line.
    """
    parts: list[str] = []
    inlines = _merge_runs(content, is_bold_known)
    for link, runs in groupby(inlines, lambda each: isinstance(each, Run) and each.style.link):
        text = _add_emphasis(list(runs))
        if link and (core := text.strip()):
            linked = f"[{core.replace(chr(10), ' ')}]({_encode_url(link)})"
            start = text.index(core)
            text = text[:start] + linked + text[start + len(core) :]
        parts.append(text)
    text = "".join(parts).strip(" \t\n\r")
    if begins_line:
        text = _LINE_START.sub(r"\1\\\2", text)
    if "\n" not in text:
        return text
    return _BREAK.join(line.rstrip(" \t") for line in text.split("\n"))


def _escape(text: str) -> str:
    return _ESCAPES.sub(r"\\\g<0>", text) if _SPECIAL.search(text) else text


def _encode_url(link: str) -> str:
    """Encode a URL for use in parentheses."""
    link = re.sub(r"[\x00-\x20]", lambda match: f"%{ord(match[0]):02X}", link.strip())
    return link.replace("(", "%28").replace(")", "%29").replace("<", "%3C").replace(">", "%3E")


def _merge_runs(content: Inlines, is_bold_known: bool) -> Iterator[Inline]:
    """Join adjacent runs of the same style: programs split them arbitrarily."""

    def style_of(inline: Inline) -> Style | None:
        if not isinstance(inline, Run):
            return None
        return inline.style._replace(bold=False) if is_bold_known else inline.style

    for style, group in groupby(content, style_of):
        if style is None:
            yield from group
        elif text := "".join(run.text for run in group if isinstance(run, Run)):
            yield Run(text, style)


class _EmphasisSpan(NamedTuple):
    """Text without surrounding white space, and the emphasis marks around it."""

    before: str
    core: str
    after: str
    marks: tuple[str, ...]


def _add_emphasis(runs: list[Inline]) -> str:
    """Nest the marks so that they never touch white space: `**a** b`, not `**a **b`."""
    parts: list[str] = []
    open_marks: list[str] = []
    space = ""
    for span in _move_punctuation_out(runs):
        if not span.core:
            space += span.before
            continue
        kept = list(takewhile(span.marks.__contains__, open_marks))
        opened = [mark for mark in span.marks if mark not in kept]
        parts += [*reversed(open_marks[len(kept) :]), space, span.before, *opened, span.core]
        open_marks = kept + opened
        space = span.after
    return "".join([*parts, *reversed(open_marks), space])


def _move_punctuation_out(runs: list[Inline]) -> list[_EmphasisSpan]:
    """Move punctuation outside of marks that would not be recognised otherwise (`**a:**b`)."""
    spans = _split_spans(runs)
    for index, span in enumerate(spans):
        if not span.marks or not span.core or span.core[0] == "`":
            continue
        before = after = ""
        if index and not span.before and not spans[index - 1].after:
            before = spans[index - 1].core[-1:] if spans[index - 1].marks != span.marks else ""
        if index + 1 < len(spans) and not span.after and not spans[index + 1].before:
            after = spans[index + 1].core[:1] if spans[index + 1].marks != span.marks else ""
        if "~~" in span.marks and (before.isalnum() or after.isalnum()):
            span = spans[index] = span._replace(marks=("~~",))  # only one mark works in a word
        core = span.core
        start, end = 0, len(core)
        while before.isalnum() and start < end and not core[start].isalnum():
            start += 1
        while after.isalnum() and start < end and not core[end - 1].isalnum():
            end -= 1
        if start == end:
            spans[index] = span._replace(marks=())
        elif end - start < len(core):
            lead = core[:start]
            if (len(lead) - len(lead.rstrip("\\"))) % 2:
                lead += "\\"  # otherwise it would escape the following mark
            spans[index] = _EmphasisSpan(
                span.before + lead, core[start:end], core[end:] + span.after, span.marks
            )
    return spans


def _split_spans(runs: list[Inline]) -> list[_EmphasisSpan]:
    """Split runs; where two marks meet inside a word, the first applies to both."""
    spans: list[_EmphasisSpan] = []
    for run in runs:
        text, marks = _inline_parts(run)
        core = text.strip()
        start = text.index(core) if core else len(text)
        span = _EmphasisSpan(text[:start], core, text[start + len(core) :], marks)
        last = spans[-1] if spans else None
        if last and core and last.marks and marks and not (last.after or span.before):
            spans[-1] = last._replace(core=last.core + core, after=span.after)
        else:
            spans.append(span)
    return spans


def _inline_parts(inline: Inline) -> tuple[str, tuple[str, ...]]:
    """Return the Markdown of a run without its emphasis, and the marks of its emphasis."""
    match inline:
        case Picture(alt, file):
            alt = re.sub(r"\s+", " ", alt).strip()
            if file is None:
                return _escape(alt), ()
            alt = re.sub(r"[\[\]\\]", r"\\\g<0>", alt)
            is_displayed = file.endswith(_DISPLAYED_FORMATS)
            return f"![{alt}]({file})" if is_displayed else f"[{alt or file}]({file})", ()
        case NoteReference(label):
            return f"[^{label}]", ()
        case Run(text, style) if style.math:
            return f"${text.strip()}$", ()
        case Run(text, style):
            marks = ((style.strike, "~~"), (style.bold, "**"), (style.italic, "*"))
            core = text.strip()
            if not style.code:  # escaped without white space, as it will touch its marks
                text = text.replace(core, _escape(core), 1).replace("\t", " ")
            else:
                text = text.replace("\n", " ")
            if style.code and core:
                fence = code_fence(text, 1)
                pad = " " if text.startswith("`") or text.endswith("`") else ""
                text = f"{fence}{pad}{text}{pad}{fence}"
            return text, tuple(mark for is_set, mark in marks if is_set)


def to_text(blocks: Iterable[Block]) -> str:
    notes: list[Note] = []
    lines = [line for block in blocks for line in _text_lines(block, notes)]
    for note in notes:
        inner = [line for block in note.blocks for line in _text_lines(block, notes)]
        lines.append(f"[{note.label}] " + "\n".join(inner))
    text = "\n".join(line for line in lines if line.strip())
    return text + "\n" if text else ""


def _text_lines(block: Block, notes: list[Note]) -> Iterator[str]:
    match block:
        case Heading(_, content) | Paragraph(content):
            yield _inline_text(content)
        case Item(level, marker, content):
            yield "  " * level + f"{marker} {_inline_text(content)}".strip()
        case Code(text):
            yield text.strip("\n")
        case Quote(inner):
            for each in inner:
                yield from _text_lines(each, notes)
        case Table(rows):
            for row in rows:
                texts = (
                    " ".join(line for block in cell for line in _text_lines(block, notes))
                    for cell in row
                )
                yield "\t".join(map(_on_one_line, texts))
        case Grid(grid):
            yield from ("\t".join(map(_on_one_line, texts)) for texts in grid)
        case Note():
            notes.append(block)


def _on_one_line(text: str) -> str:
    if "\n" in text or "\t" in text or "\r" in text:
        text = " ".join(part.strip() for part in re.split(r"[\t\n\r]+", text))
    return text.strip()


def _inline_text(content: Inlines) -> str:
    parts = []
    for inline in content:
        match inline:
            case Run(text, _) | Picture(text, _):
                parts.append(text)
            case NoteReference(label):
                parts.append(f"[{label}]")
    return "".join(parts).strip()
