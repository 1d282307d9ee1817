"""Text of DrawingML: what is in shapes and in cells of tables on slides."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .blocks import Block, Cell, Inline, Item, Paragraph, Run, Style, is_blank
from .equations import M, latex
from .numerals import numeral
from .ooxml import DRAWING as A
from .ooxml import MARKUP, RELATION, Part, alternative
from .scripts import lowered, raised
from .spans import Spanning, laid_out
from .xml_parts import Element, integer, is_true

_NUMBERED = {
    "alphaLc": "lowerLetter",
    "alphaUc": "upperLetter",
    "romanLc": "lowerRoman",
    "romanUc": "upperRoman",
}
#: The format has nine levels; what says it is deeper would be indented for ever.
_DEEPEST = 8
_MATH_2010 = "{http://schemas.microsoft.com/office/drawing/2010/main}m"


@dataclass(slots=True)
class Bullets:
    """How paragraphs of each level begin if they do not say it themselves."""

    inherited: Callable[[int], Element | None]

    def of(self, properties: Element | None, level: int) -> Element | None:
        own = _bullet(properties)
        return own if own is not None else self.inherited(level)


def no_bullets(level: int) -> Element | None:
    return None


def text_blocks(body: Element | None, part: Part, bullets: Bullets) -> list[Block]:
    return list(_blocks(body, part, bullets)) if body is not None else []


def _blocks(body: Element, part: Part, bullets: Bullets) -> Iterator[Block]:
    counts: dict[int, tuple[str, int]] = {}
    for paragraph in body.iterchildren(f"{A}p"):
        properties = paragraph.find(f"{A}pPr")
        level = integer(properties.get("lvl")) if properties is not None else 0
        level = min(max(level, 0), _DEEPEST)
        content = inlines(paragraph, part)
        if not content:
            continue
        bullet = bullets.of(properties, level)
        name = bullet.tag.removeprefix(A) if bullet is not None else "buNone"
        for deeper in [each for each in counts if each > level]:
            del counts[deeper]
        if name == "buNone":
            counts.pop(level, None)
            yield Item(level - 1, "", content) if level else Paragraph(content)
        elif name == "buAutoNum" and bullet is not None:
            marker, label = _number(bullet, level, counts)
            yield Item(level, marker, [*([Run(label)] if label else []), *content])
        else:
            counts.pop(level, None)
            yield Item(level, "-", content)


def _number(bullet: Element, level: int, counts: dict[int, tuple[str, int]]) -> tuple[str, str]:
    form = bullet.get("type", "arabicPeriod")
    before, count = counts.get(level, ("", 0))
    count = count + 1 if before == form else integer(bullet.get("startAt"), 1)
    counts[level] = (form, count)
    kind = re.sub(r"(Period|ParenR|ParenBoth|Plain|Minus)$", "", form)
    if kind not in _NUMBERED:
        return f"{count}.", ""
    end = "." if form.endswith("Period") else ")" if "Paren" in form else ""
    return "-", f"{numeral(count, _NUMBERED[kind])}{end} "


def inlines(paragraph: Element, part: Part) -> list[Inline]:
    found: list[Inline] = []
    for child in paragraph:
        if child.tag in (f"{A}r", f"{A}fld"):
            text = child.findtext(f"{A}t") or ""
            properties = child.find(f"{A}rPr")
            if text:
                found.append(_run(text, properties, part))
        elif child.tag == f"{A}br":
            found.append(Run("\n"))
        elif child.tag == f"{MARKUP}AlternateContent":
            chosen = alternative(child)
            if chosen is not None:
                found += inlines(chosen, part)
        elif child.tag == _MATH_2010 or child.tag.startswith(M):
            found.append(Run(latex(child), Style(math=True)))
    return [] if is_blank(found) else found


def _run(text: str, properties: Element | None, part: Part) -> Run:
    text = text.replace("\v", "\n")
    if properties is None:
        return Run(text)
    position = integer(properties.get("baseline"))
    if position:
        text = raised(text) if position > 0 else lowered(text)
    link = properties.find(f"{A}hlinkClick")
    style = Style(
        bold=is_true(properties.get("b")),
        italic=is_true(properties.get("i")),
        strike=properties.get("strike", "noStrike") != "noStrike",
        link=part.link(link.get(f"{RELATION}id")) if link is not None else None,
    )
    return Run(text, style)


def _bullet(properties: Element | None) -> Element | None:
    if properties is None:
        return None
    for name in ("buNone", "buAutoNum", "buChar", "buBlip"):
        found = properties.find(f"{A}{name}")
        if found is not None:
            return found
    return None


def level_bullet(styles: Element | None, level: int) -> Element | None:
    """What a list style says about a level."""
    return _bullet(styles.find(f"{A}lvl{level + 1}pPr")) if styles is not None else None


def table_rows(table: Element, part: Part) -> list[list[Cell]]:
    return laid_out(
        [
            _spanning(cell, part)
            for cell in row.iterchildren(f"{A}tc")
            if not (is_true(cell.get("hMerge")) or is_true(cell.get("vMerge")))
        ]
        for row in table.iterchildren(f"{A}tr")
    )


def _spanning(cell: Element, part: Part) -> Spanning:
    blocks = text_blocks(cell.find(f"{A}txBody"), part, Bullets(no_bullets))
    return Spanning(blocks, integer(cell.get("gridSpan"), 1), integer(cell.get("rowSpan"), 1))
