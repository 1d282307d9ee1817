"""The groups of an RTF file: what holds inside of each, and the words that change it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from .blocks import PLAIN, Style
from .rtf_flow import ParagraphForm, RtfFlow
from .style_names import code_like

#: Groups that are no part of the text.
LEFT_OUT = {
    "colortbl", "header", "headerl", "headerr", "headerf", "footer", "footerl", "footerr",
    "footerf", "ftnsep", "ftnsepc", "aftnsep", "aftnsepc", "nonshppict", "listtable", "xe", "tc",
    "listoverridetable", "nonesttables", "filetbl", "revtbl", "rsidtbl", "bkmkstart", "bkmkend",
    "atnid", "atnref", "atndate", "atntime", "atnparent", "datafield", "objdata", "sp", "txe",
}  # fmt: skip
#: Groups that a reader may pass over, but we do not.
KNOWN = {
    "shppict", "shptxt", "shpinst", "footnote", "annotation", "atnauthor", "fldinst",
    "nesttableprops", "listtext", "pntext", "ud", "cs", "picprop",
}  # fmt: skip


@dataclass(slots=True)
class Group:
    """What holds up to the end of a group; an inner group begins with a copy."""

    flow: RtfFlow
    #: What its text is: `text`, the name of a table, a fact, or `ignored`.
    role: str = "text"
    style: Style = PLAIN
    is_hidden: bool = False
    script: str = ""
    font: int = 0
    fallback: int = 1
    form: ParagraphForm = field(default_factory=ParagraphForm)
    #: What is to be done with all its text when it ends.
    text: list[str] | None = None
    is_endnote: bool = False
    at_end: "Callable[[Group], None] | None" = None


def format_paragraph(
    group: Group, word: str, number: int | None, styles: Mapping[int, str]
) -> None:
    form = group.form
    match word:
        case "pard":
            group.form = ParagraphForm()
        case "s":
            group.form = replace(form, style=styles.get(number or 0, ""))
        case "outlinelevel":
            group.form = replace(form, outline=number or 0)
        case "ilvl":
            group.form = replace(form, level=min(max(number or 0, 0), 8))
        case "intbl":
            group.form = replace(form, depth=max(form.depth, 1))
        case "itap":
            group.form = replace(form, depth=max(number or 0, 0))


def format_characters(
    group: Group, word: str, number: int | None, styles: Mapping[int, str]
) -> None:
    """`styles` of characters are those with negative numbers."""
    is_on = number != 0
    match word:
        case "b":
            group.style = group.style._replace(bold=is_on)
        case "i":
            group.style = group.style._replace(italic=is_on)
        case "strike" | "striked":
            group.style = group.style._replace(strike=is_on)
        case "v" | "deleted":
            group.is_hidden = is_on
        case "plain":
            group.style, group.script, group.is_hidden = PLAIN, "", False
        case "super" | "sub":
            group.script = word if is_on else ""
        case "up" | "dn":
            group.script = ("super" if word == "up" else "sub") if is_on else ""
        case "nosupersub":
            group.script = ""
        case "cs":
            is_code = code_like(styles.get(-(number or 0), ""))
            group.style = group.style._replace(code=is_code)
        case "uc":
            group.fallback = max(number or 0, 0)
        case "ftnalt" if group.at_end is not None:
            group.is_endnote = True
