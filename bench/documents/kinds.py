"""The kinds of documents: what each says and how it looks, drawn from a seed."""

from collections.abc import Callable, Sequence

from .model import (
    A4,
    A5,
    LETTER,
    SLIDE,
    Block,
    Code,
    Document,
    Entry,
    Heading,
    Listing,
    NewPage,
    Paragraph,
    Rules,
    Style,
)
from .prose import Prose
from .tables import amounts, invoice_table, long_cells, places_by_year, price_list, small_table

LOOKS: tuple[tuple[tuple[float, ...], bool], ...] = (
    ((1.9, 1.4, 1.2), True),
    ((1.7, 1.35, 1.15), True),
    ((1.5, 1.25, 1.1), False),
    ((1.3, 1.15, 1.0), True),
    ((2.4, 1.6, 1.25), False),
)


def report(prose: Prose) -> Document:
    chance = prose.random
    blocks: list[Block] = [Heading(1, prose.title())]
    for number in range(1, chance.randint(4, 6)):
        blocks += [Heading(2, f"{number}. {prose.title()}"), *_paragraphs(prose, 1, 3)]
        if chance.random() < 0.5:
            blocks += [Heading(3, f"{number}.1 {prose.title()}"), *_paragraphs(prose, 1, 2)]
        if chance.random() < 0.4:
            blocks.append(_list(prose, depth=1))
        if chance.random() < 0.3:
            blocks.append(Paragraph(prose.paragraph(1, 2), boxed=True))
    blocks += [
        small_table(prose),
        Paragraph(_caption(prose), small=True),
        *_paragraphs(prose, 1, 1),
    ]
    rules: Rules = chance.choice(("grid", "lines"))
    return _document(prose, blocks, page_numbers=chance.random() < 0.5, rules=rules)


def two_columns(prose: Prose) -> Document:
    return _paper(prose, columns=2, page=A4, size=prose.random.choice((9, 9.5, 10)))


def three_columns(prose: Prose) -> Document:
    return _paper(prose, columns=3, page=prose.random.choice((A4, (842, 595))), size=8.5)


def book(prose: Prose) -> Document:
    chance, title = prose.random, prose.title()
    blocks: list[Block] = []
    for number in range(1, 4):
        name = "Kapitel" if prose.language == "de" else "Chapter"
        blocks += [NewPage()] if blocks else []
        blocks.append(Heading(1, f"{name} {number}: {prose.title()}"))
        for _ in range(chance.randint(6, 9)):
            note = prose.sentence() if chance.random() < 0.25 else None
            blocks.append(Paragraph(prose.paragraph(3, 7), footnote=note))
            if chance.random() < 0.2:
                blocks.append(Heading(2, prose.title()))
                blocks.append(Paragraph(prose.paragraph(3, 6)))
    page = chance.choice((A5, A4))
    look = {"page": page, "running_head": title, "page_numbers": True}
    return _document(prose, blocks, serif=True, justified=True, margin=56, **look)


def slides(prose: Prose) -> Document:
    chance = prose.random
    blocks: list[Block] = [
        Heading(1, prose.title()),
        Paragraph(f"{prose.pick('names')}, {prose.date()}"),
    ]
    for number in range(chance.randint(4, 6)):
        blocks += [NewPage(), Heading(1, prose.title())]
        if number == 2:
            blocks.append(small_table(prose))
        else:
            blocks.append(_list(prose, depth=chance.choice((0, 1))))
    heads = {"heads": (1.6, 1.3, 1.1), "heads_bold": chance.random() < 0.5}
    return _document(prose, blocks, page=SLIDE, margin=45, size=16, page_numbers=True, **heads)


def invoice(prose: Prose) -> Document:
    labels, number = prose.labels, prose.random.randint(10_000, 99_999)
    blocks: list[Block] = [
        Paragraph(f"{prose.pick('names')}, {prose.pick('towns')}"),
        Paragraph(f"{labels.date}: {prose.date()}"),
        Heading(1, f"{labels.invoice} {number}"),
        Paragraph(prose.paragraph(1, 2)),
        invoice_table(prose, prose.random.randint(5, 12)),
        Paragraph(prose.paragraph(1, 3)),
        Paragraph(f"IBAN XX00 {number} 1234 · {prose.pick('towns')}", small=True),
    ]
    return _document(prose, blocks, rules=prose.random.choice(("grid", "lines", "zebra")))


def borderless(prose: Prose) -> Document:
    blocks: list[Block] = [
        Heading(1, prose.title()),
        *_paragraphs(prose, 1, 2),
        price_list(prose, prose.random.randint(12, 40)),
        Heading(2, prose.title()),
        *_paragraphs(prose, 1, 1),
        places_by_year(prose),
        *_paragraphs(prose, 1, 2),
    ]
    return _document(prose, blocks, rules="none", serif=prose.random.random() < 0.5)


def long_table(prose: Prose) -> Document:
    blocks: list[Block] = [
        Heading(1, prose.title()),
        *_paragraphs(prose, 1, 2),
        long_cells(prose, prose.random.randint(5, 9)),
        *_paragraphs(prose, 1, 1),
    ]
    return _document(prose, blocks, rules=prose.random.choice(("grid", "lines", "none")))


def figures(prose: Prose) -> Document:
    blocks: list[Block] = [
        Heading(1, prose.long_title()),
        Paragraph(prose.paragraph(1, 2)),
        amounts(prose, prose.random.randint(8, 16)),
        Paragraph(_caption(prose), small=True),
        Heading(2, prose.title()),
        Paragraph(prose.paragraph(1, 3)),
        amounts(prose, prose.random.randint(4, 8)),
    ]
    rules: Rules = prose.random.choice(("lines", "none", "zebra", "grid"))
    return _document(prose, blocks, page=(842, 595), rules=rules, size=9.5)


def lists(prose: Prose) -> Document:
    chance = prose.random
    blocks: list[Block] = [Heading(1, f"{prose.labels.list}: {prose.title()}")]
    for _ in range(chance.randint(3, 5)):
        blocks += [Heading(2, prose.title()), *_paragraphs(prose, 0, 1)]
        blocks.append(_list(prose, depth=2, numbered=chance.random() < 0.5))
    return _document(prose, blocks, serif=chance.random() < 0.5)


def headings(prose: Prose) -> Document:
    chance = prose.random
    blocks: list[Block] = [Heading(1, prose.long_title()), *_paragraphs(prose, 1, 1)]
    for number in range(1, 5):
        long = chance.random() < 0.5
        blocks.append(Heading(2, f"{number} {prose.long_title() if long else prose.title()}"))
        for part in range(1, chance.randint(2, 4)):
            blocks.append(Heading(3, f"{number}.{part} {prose.title()}"))
            start = f"**{prose.title()}.** " if chance.random() < 0.4 else ""
            blocks.append(Paragraph(start + prose.paragraph(2, 4).replace("**", "")))
    return _document(prose, blocks, page_numbers=True, justified=chance.random() < 0.5)


def listings(prose: Prose) -> Document:
    blocks: list[Block] = [Heading(1, prose.title())]
    for number in range(1, prose.random.randint(3, 5)):
        blocks += [Heading(2, prose.title()), *_paragraphs(prose, 1, 2)]
        blocks += [Code(prose.program()), Paragraph(f"{prose.labels.listing} {number}", small=True)]
    return _document(prose, blocks, page=LETTER)


def mixed(prose: Prose) -> Document:
    """A bit of everything, for the ways of drawing that hide it."""
    blocks: list[Block] = [
        Heading(1, prose.title()),
        *_paragraphs(prose, 2, 3),
        Heading(2, prose.title()),
        _list(prose, depth=0),
        small_table(prose),
        Heading(2, prose.title()),
        *_paragraphs(prose, 2, 4),
    ]
    return _document(prose, blocks, columns=prose.random.choice((1, 2)))


KINDS: dict[str, Callable[[Prose], Document]] = {
    "report": report,
    "two columns": two_columns,
    "three columns": three_columns,
    "book": book,
    "slides": slides,
    "invoice": invoice,
    "borderless table": borderless,
    "long cells": long_table,
    "figures, landscape": figures,
    "nested lists": lists,
    "long headings": headings,
    "code": listings,
    "word by word": mixed,
    "out of order": mixed,
    "rotated pages": mixed,
}


def _paper(prose: Prose, *, columns: int, page: tuple[int, int], size: float) -> Document:
    chance = prose.random
    blocks: list[Block] = [
        Heading(1, prose.title()),
        Paragraph(f"{prose.pick('names')}, {prose.pick('towns')}"),
    ]
    for number in range(1, chance.randint(5, 7)):
        mark = f"{number} " if columns == 2 else ""
        blocks += [Heading(2, f"{mark}{prose.title()}"), *_paragraphs(prose, 2, 4)]
        if number == 2:
            blocks += [small_table(prose, columns=3), Paragraph(_caption(prose), small=True)]
        elif chance.random() < 0.3:
            blocks.append(_list(prose, depth=0))
    look = {"columns": columns, "page": page, "size": size, "margin": 48}
    rules: Rules = chance.choice(("lines", "grid"))
    numbers = chance.random() < 0.7
    return _document(prose, blocks, justified=True, page_numbers=numbers, rules=rules, **look)


def _document(prose: Prose, blocks: Sequence[Block], **look: object) -> Document:
    heads, bold = prose.random.choice(LOOKS)
    given: dict[str, object] = {
        "heads": heads,
        "heads_bold": bold,
        "serif": prose.random.random() < 0.5,
        "size": prose.random.choice((9.5, 10, 10.5, 11, 12)),
        "margin": prose.random.choice((50, 60, 72)),
        "justified": prose.random.random() < 0.3,
    }
    return Document(prose.language, tuple(blocks), Style(**(given | look)))  # type: ignore[arg-type]  # names of fields


def _paragraphs(prose: Prose, least: int, most: int) -> list[Paragraph]:
    return [Paragraph(prose.paragraph()) for _ in range(prose.random.randint(least, most))]


def _list(prose: Prose, *, depth: int, numbered: bool | None = None) -> Listing:
    numbered = prose.random.random() < 0.3 if numbered is None else numbered
    return Listing(_entries(prose, depth, prose.random.randint(3, 6)), numbered)


def _entries(prose: Prose, depth: int, count: int) -> tuple[Entry, ...]:
    def inner() -> tuple[Entry, ...]:
        if depth == 0 or prose.random.random() < 0.5:
            return ()
        return _entries(prose, depth - 1, prose.random.randint(2, 3))

    def text() -> str:
        return prose.sentence() if prose.random.random() < 0.4 else prose.phrase()

    return tuple(Entry(text(), inner()) for _ in range(count))


def _caption(prose: Prose) -> str:
    return f"{prose.labels.table} {prose.random.randint(1, 9)}: {prose.title()}"
