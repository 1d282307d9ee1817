"""Recognised lines put together: as text that keeps them, and as Markdown that flows."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from ..engines.ocr import Line

#: A line so much higher than most of the text is a heading, of the level given.
HEADINGS = ((1.8, 1), (1.4, 2), (1.22, 3))
HEADING_CHARACTERS = 120
#: What stands before an item: bullets, and letters that bullets are mistaken for.
BULLET = re.compile("[•·●▪■◦‣∙*+»«°¢\N{EN DASH}\N{EM DASH}-]\\s+(?=\\S)")
MISTAKEN_BULLET = re.compile(r"([eo®©])\s+(?=[A-ZÄÖÜ0-9])")
NUMBER = re.compile(r"(\d{1,3}|[a-z])([.)])\s+(?=\S)")
#: After a hyphen at the end of a line these begin no second half: `Ein- und Ausgang`.
CONJUNCTIONS = {"und", "oder", "bzw", "sowie", "bis", "and", "or", "to", "et", "ou"}
HYPHENS = ("-", "\N{HYPHEN}", "\N{SOFT HYPHEN}")


def as_text(lines: Sequence[Line]) -> str:
    paragraphs = groupby(lines, key=lambda line: line.paragraph)
    return "\n\n".join("\n".join(line.text for line in group) for _, group in paragraphs)


def as_markdown(lines: Sequence[Line]) -> str:
    usual = _usual_height(lines)
    parts: list[tuple[str, bool]] = []
    for group in _paragraphs(lines, usual):
        level = _heading_level(group, usual)
        if level:
            parts.append(("#" * level + " " + _escaped(_joined(group)), False))
        else:
            parts += _items(group)
    pieces = [parts[0][0]] if parts else []
    for (_, was_item), (part, is_item) in pairwise(parts):
        pieces += ["\n" if was_item and is_item else "\n\n", part]
    return "".join(pieces)


def _usual_height(lines: Sequence[Line]) -> float:
    """That of most letters: half of all stand in lines that are no higher."""
    letters = sum(len(line.text) for line in lines)
    seen = 0
    for line in sorted(lines, key=lambda line: line.height):
        seen += len(line.text)
        if seen * 2 >= letters:
            return line.height
    return 0.0


def _paragraphs(lines: Sequence[Line], usual: float) -> Iterator[list[Line]]:
    """Those of the engine, cut where the print changes its size."""
    for _, group in groupby(lines, key=lambda line: line.paragraph):
        current: list[Line] = []
        for line in group:
            if current and _size(current[-1], usual) != _size(line, usual):
                yield current
                current = []
            current.append(line)
        yield current


def _size(line: Line, usual: float) -> int:
    """Its level if it were a heading, 0 for ordinary text and for what has no letters."""
    if not usual or not any(character.isalpha() for character in line.text):
        return 0
    return next((level for ratio, level in HEADINGS if line.height >= ratio * usual), 0)


def _heading_level(group: Sequence[Line], usual: float) -> int:
    text = " ".join(line.text for line in group)
    if len(group) > 3 or len(text) > HEADING_CHARACTERS or text.endswith((".", ",", ";")):
        return 0
    return _size(group[0], usual)


def _items(group: Sequence[Line]) -> list[tuple[str, bool]]:
    """The Markdown of a paragraph, or of each item in it, and whether it is one."""
    starts = [_item_start(line.text) for line in group]
    mistaken = [MISTAKEN_BULLET.match(line.text) for line in group]
    if sum(match is not None for match in mistaken) > 1:
        starts = [
            start or (("- ", match.end()) if match else None)
            for start, match in zip(starts, mistaken, strict=True)
        ]
    if starts[0] is None and sum(start is not None for start in starts) < 2:
        return [(_escaped(_joined(group)), False)]
    items: list[tuple[str, bool]] = []
    current: list[Line] = []
    for line, start in zip(group, starts, strict=True):
        if start is not None and current:
            items.append(_item(current, mistaken_too=any(mistaken)))
            current = []
        current.append(line)
    items.append(_item(current, mistaken_too=any(mistaken)))
    return items


def _item_start(text: str) -> tuple[str, int] | None:
    if match := BULLET.match(text):
        return "- ", match.end()
    if match := NUMBER.match(text):
        return f"{match[1]}{match[2]} ", match.end()
    return None


def _item(group: Sequence[Line], *, mistaken_too: bool) -> tuple[str, bool]:
    text = _joined(group)
    start = _item_start(text)
    if start is None and mistaken_too and (match := MISTAKEN_BULLET.match(text)):
        start = "- ", match.end()
    if start is None:
        return _escaped(text), False
    mark, end = start
    return mark + _escaped(text[end:]), True


def _joined(group: Sequence[Line]) -> str:
    text = group[0].text
    for line in group[1:]:
        text = _continued(text, line.text)
    return text


def _continued(text: str, following: str) -> str:
    word = re.match(r"[^\W\d_]*", following)
    is_half = (
        text.endswith(HYPHENS)
        and text[-2:-1].isalpha()
        and following[:1].islower()
        and (word is None or word[0] not in CONJUNCTIONS)
    )
    return text[:-1] + following if is_half else f"{text} {following}"


def _escaped(text: str) -> str:
    """What would be markup, but was print."""
    text = re.sub(r"([\\`*]|<(?=[A-Za-z/!?])|(?<!\w)_|_(?!\w))", r"\\\1", text)
    text = re.sub(r"^(#{1,6}(?=\s)|>|[+-](?=\s)|={3,}$|-{3,}$)", r"\\\1", text)
    return text
