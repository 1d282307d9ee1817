"""What is in a line, as Markdown."""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from ..escapes import fence_of
from .blocks import PLAIN, Inline, Inlines, NoteMark, Picture, Run, Style

#: Browsers show these; others are linked, as a broken picture helps nobody.
SHOWN = (".png", ".jpg", ".gif", ".webp", ".bmp", ".svg")

_SPECIAL = re.compile(r"[\\*_`\[<&~]")
_ESCAPES = re.compile(
    r"\\(?![^\W_])"  # a backslash that would escape what follows
    r"|(?<!\s)\*|\*(?!\s)"  # not the sign between two numbers
    r"|(?<![^\W_])_|_(?![^\W_])"  # not those inside a name
    r"|`"
    r"|\[(?=[^\[\]]*\][(\[:]|\^)"
    r"|<(?=[A-Za-z/!?])"
    r"|&(?=#?\w+;)"
    r"|~(?=~)|(?<=~)~"
)
_LINE_START = re.compile(r"(?m)^([ \t]*)(#{1,6}(?=\s|$)|>|=+$|(?:[-*_] *){2,}$)")
_BREAK = "  \n"


def markdown_of(content: Inlines, *, is_bold_known: bool = False, begins_line: bool = True) -> str:
    """`is_bold_known`: where all is bold anyhow, as in headings, it is not said again.

    `begins_line`: signs that mean something at the start of a line are escaped there.
    """
    parts: list[str] = []
    for link, runs in groupby(_joined(content, is_bold_known), key=_link):
        text = _emphasised(list(runs))
        parts.append(_linked(text, link) if link else text)
    text = "".join(parts).strip(" \t\n\r")
    if begins_line:
        text = _LINE_START.sub(r"\1\\\2", text)
    if "\n" not in text:
        return text
    return _BREAK.join(line.rstrip(" \t") for line in text.split("\n"))


def escaped(text: str) -> str:
    return _ESCAPES.sub(r"\\\g<0>", text) if _SPECIAL.search(text) else text


def target_of(link: str) -> str:
    """An address as it can stand in parentheses."""
    link = re.sub(r"[\x00-\x20]", lambda found: f"%{ord(found[0]):02X}", link.strip())
    return link.replace("(", "%28").replace(")", "%29").replace("<", "%3C").replace(">", "%3E")


def _link(inline: Inline) -> str | None:
    return inline.style.link if isinstance(inline, Run) else None


def _joined(content: Inlines, is_bold_known: bool) -> Iterator[Inline]:
    """Programs cut text into runs where nothing changes."""
    text, style = "", PLAIN
    for inline in content:
        if isinstance(inline, Run):
            theirs = inline.style._replace(bold=False) if is_bold_known else inline.style
            if theirs == style:
                text += inline.text
                continue
        if text:
            yield Run(text, style)
        text = ""
        if isinstance(inline, Run):
            text, style = inline.text, theirs
        else:
            yield inline
    if text:
        yield Run(text, style)


def _linked(text: str, link: str) -> str:
    core = text.strip()
    if not core:
        return text
    before, after = text[: text.index(core)], text[text.index(core) + len(core) :]
    return f"{before}[{core.replace(chr(10), ' ')}]({target_of(link)}){after}"


class _Piece(NamedTuple):
    """Text without the white space around it, and the marks round the text."""

    before: str
    core: str
    after: str
    marks: tuple[str, ...]


def _emphasised(runs: list[Inline]) -> str:
    """Marks nest and never touch white space: `**a** b`, not `**a **b`."""
    parts: list[str] = []
    open_marks: list[str] = []
    space = ""
    for piece in _apart(runs):
        if not piece.core:
            space += piece.before
            continue
        kept = 0
        while kept < len(open_marks) and open_marks[kept] in piece.marks:
            kept += 1
        parts.extend(reversed(open_marks[kept:]))
        del open_marks[kept:]
        parts.append(space + piece.before)
        opened = [mark for mark in piece.marks if mark not in open_marks]
        parts.extend(opened)
        open_marks += opened
        parts.append(piece.core)
        space = piece.after
    parts.extend(reversed(open_marks))
    return "".join(parts) + space


def _pieces(runs: list[Inline]) -> list[_Piece]:
    """Where two marks meet inside a word, the first holds for both."""
    pieces: list[_Piece] = []
    for run in runs:
        text, marks = _written(run)
        core = text.strip()
        start = text.index(core) if core else len(text)
        piece = _Piece(text[:start], core, text[start + len(core) :], marks)
        last = pieces[-1] if pieces else None
        if last and core and last.marks and marks and not (last.after or piece.before):
            pieces[-1] = last._replace(core=last.core + core, after=piece.after)
        else:
            pieces.append(piece)
    return pieces


def _apart(runs: list[Inline]) -> list[_Piece]:
    """Between a letter and a sign no mark is one (`**a:**b`): such signs go outside."""
    pieces = _pieces(runs)
    for at, piece in enumerate(pieces):
        if not piece.marks or not piece.core or piece.core[0] == "`":
            continue
        before = pieces[at - 1].core[-1:] if at and not _is_parted(pieces[at - 1], piece) else ""
        behind = pieces[at + 1] if at + 1 < len(pieces) else None
        after = behind.core[:1] if behind and not _is_parted(piece, behind) else ""
        if "~~" in piece.marks and (before.isalnum() or after.isalnum()):
            piece = pieces[at] = piece._replace(marks=("~~",))  # inside a word only one works
        core = piece.core
        start, end = 0, len(core)
        while before.isalnum() and start < end and not core[start].isalnum():
            start += 1
        while after.isalnum() and start < end and not core[end - 1].isalnum():
            end -= 1
        if start == end:
            pieces[at] = piece._replace(marks=())
        elif end - start < len(core):
            lead = core[:start]
            if (len(lead) - len(lead.rstrip("\\"))) % 2:
                lead += "\\"  # else it would escape the mark that now follows it
            pieces[at] = _Piece(
                piece.before + lead, core[start:end], core[end:] + piece.after, piece.marks
            )
    return pieces


def _is_parted(one: _Piece, two: _Piece) -> bool:
    return bool(one.after or two.before or one.marks == two.marks)


def _written(inline: Inline) -> tuple[str, tuple[str, ...]]:
    match inline:
        case Picture(alt, file):
            return _picture(alt, file), ()
        case NoteMark(label):
            return f"[^{label}]", ()
        case Run(text, style) if style.math:
            return f"${text.strip()}$", ()
        case Run(text, style) if style.code:
            return _code(text), _marks(style)
        case Run(text, style):
            core = text.strip()  # escaped without the space around it, as it will touch its marks
            return text.replace(core, escaped(core), 1).replace("\t", " "), _marks(style)


def _marks(style: Style) -> tuple[str, ...]:
    if style == PLAIN:
        return ()
    marks = ((style.strike, "~~"), (style.bold, "**"), (style.italic, "*"))
    return tuple(mark for is_set, mark in marks if is_set)


def _picture(alt: str, file: str | None) -> str:
    alt = re.sub(r"\s+", " ", alt).strip()
    if file is None:
        return escaped(alt)
    alt = re.sub(r"[\[\]\\]", r"\\\g<0>", alt)
    return f"![{alt}]({file})" if file.endswith(SHOWN) else f"[{alt or file}]({file})"


def _code(text: str) -> str:
    text = text.replace("\n", " ")
    if not text.strip():
        return text
    fence = fence_of(text, 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"
