"""What is in a line, as Markdown."""

import re
from collections.abc import Iterator
from itertools import groupby

from .blocks import PLAIN, Inline, Inlines, NoteMark, Picture, Run, Style

#: Browsers show these; others are linked, as a broken picture helps nobody.
SHOWN = (".png", ".jpg", ".gif", ".webp", ".bmp", ".svg")

_SPECIAL = re.compile(r"[\\*_`\[<&~]")
_ESCAPES = re.compile(
    r"\\(?=[!-/:-@\[-`{-~])"  # a backslash that would escape what follows
    r"|(?<=\S)\*|\*(?=\S)"  # not the sign between two numbers
    r"|(?<!\w)_|_(?!\w)"  # not those inside a name
    r"|`"
    r"|\[(?=[^\[\]]*\][(\[:]|\^)"
    r"|<(?=[A-Za-z/!?])"
    r"|&(?=#?\w+;)"
    r"|~(?=~)"
)
_LINE_START = re.compile(r"(?m)^(\s*)(#{1,6}(?=\s|$)|>|=+$|-{2,}$|~{3})")
_BREAK = "  \n"


def markdown_of(content: Inlines, *, is_bold_known: bool = False) -> str:
    """`is_bold_known`: where all is bold anyhow, as in headings, it is not said again."""
    parts: list[str] = []
    for link, runs in groupby(_joined(content, is_bold_known), key=_link):
        text = _emphasised(list(runs))
        parts.append(_linked(text, link) if link else text)
    text = "".join(parts).strip(" \t\n\r")
    text = _LINE_START.sub(r"\1\\\2", text)
    return re.sub(r"[ \t]*\n", _BREAK, text) if "\n" in text else text


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


def _emphasised(runs: list[Inline]) -> str:
    """Marks nest and never touch white space: `**a** b`, not `**a **b`."""
    parts: list[str] = []
    open_marks: list[str] = []
    space = ""
    for run in runs:
        text, wanted = _written(run)
        core = text.strip()
        if not core:
            space += text
            continue
        start = text.index(core)
        kept = 0
        while kept < len(open_marks) and open_marks[kept] in wanted:
            kept += 1
        parts.extend(reversed(open_marks[kept:]))
        del open_marks[kept:]
        parts.append(space + text[:start])
        opened = [mark for mark in wanted if mark not in open_marks]
        parts.extend(opened)
        open_marks += opened
        parts.append(core)
        space = text[start + len(core) :]
    parts.extend(reversed(open_marks))
    return "".join(parts) + space


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
            return escaped(text).replace("\t", " "), _marks(style)


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
    fence = "`"
    while fence in text:
        fence += "`"
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"
