"""The kinds of documents: what each says and how it looks, drawn from a seed."""

from collections.abc import Callable

from .model import (
    A4,
    A5,
    LETTER,
    SLIDE,
    Block,
    Code,
    Document,
    Heading,
    NewPage,
    Paragraph,
    Rules,
)
from .parts import caption, listing, paragraphs, styled
from .prose import Prose
from .table_kinds import borderless, dense_tables, figures, invoice, long_table, table_over_pages
from .tables import small_table


def report(prose: Prose) -> Document:
    chance = prose.random
    blocks: list[Block] = [Heading(1, prose.title())]
    for number in range(1, chance.randint(4, 6)):
        blocks += [Heading(2, f"{number}. {prose.title()}"), *paragraphs(prose, 1, 3)]
        if chance.random() < 0.5:
            blocks += [Heading(3, f"{number}.1 {prose.title()}"), *paragraphs(prose, 1, 2)]
        if chance.random() < 0.4:
            blocks.append(listing(prose, depth=1))
        if chance.random() < 0.3:
            blocks.append(Paragraph(prose.paragraph(1, 2), boxed=True))
    blocks += [
        small_table(prose),
        Paragraph(caption(prose), small=True),
        *paragraphs(prose, 1, 1),
    ]
    rules: Rules = chance.choice(("grid", "lines"))
    return styled(prose, blocks, page_numbers=chance.random() < 0.5, rules=rules)


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
    return styled(prose, blocks, serif=True, justified=True, margin=56, **look)


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
            blocks.append(listing(prose, depth=chance.choice((0, 1))))
    heads = {"heads": (1.6, 1.3, 1.1), "heads_bold": chance.random() < 0.5}
    return styled(prose, blocks, page=SLIDE, margin=45, size=16, page_numbers=True, **heads)


def lists(prose: Prose) -> Document:
    chance = prose.random
    blocks: list[Block] = [Heading(1, f"{prose.labels.list}: {prose.title()}")]
    for _ in range(chance.randint(3, 5)):
        blocks += [Heading(2, prose.title()), *paragraphs(prose, 0, 1)]
        blocks.append(listing(prose, depth=2, numbered=chance.random() < 0.5))
    return styled(prose, blocks, serif=chance.random() < 0.5)


def headings(prose: Prose) -> Document:
    chance = prose.random
    blocks: list[Block] = [Heading(1, prose.long_title()), *paragraphs(prose, 1, 1)]
    for number in range(1, 5):
        long = chance.random() < 0.5
        blocks.append(Heading(2, f"{number} {prose.long_title() if long else prose.title()}"))
        for part in range(1, chance.randint(2, 4)):
            blocks.append(Heading(3, f"{number}.{part} {prose.title()}"))
            start = f"**{prose.title()}.** " if chance.random() < 0.4 else ""
            blocks.append(Paragraph(start + prose.paragraph(2, 4).replace("**", "")))
    return styled(prose, blocks, page_numbers=True, justified=chance.random() < 0.5)


def plain_headings(prose: Prose) -> Document:
    """Told by their weight or place alone; bold words at the start of paragraphs are not."""
    chance = prose.random
    capitals, centred = chance.random() < 0.5, chance.random() < 0.5

    def title() -> str:
        return prose.title().upper() if capitals else prose.title()

    blocks: list[Block] = [Heading(1, title()), *paragraphs(prose, 1, 2)]
    for _ in range(chance.randint(4, 6)):
        blocks.append(Heading(1, title()))
        for _ in range(chance.randint(1, 3)):
            start = f"**{prose.title()}.** " if chance.random() < 0.4 else ""
            blocks.append(Paragraph(start + prose.paragraph(2, 5).replace("**", "")))
    look = {"heads": (1.0, 1.0, 1.0), "heads_bold": True, "heads_centred": centred}
    return styled(prose, blocks, serif=True, page_numbers=True, **look)


def contents(prose: Prose) -> Document:
    """The entries of a table of contents have the words of headings and are none."""
    chance = prose.random
    titles = [f"{number}. {prose.title()}" for number in range(1, chance.randint(6, 9))]
    blocks: list[Block] = [Heading(1, "Inhalt" if prose.language == "de" else "Contents")]
    blocks += [Paragraph(f"{title} {'.' * 40} {2 + n}") for n, title in enumerate(titles)]
    for title in titles:
        blocks += [NewPage()] if chance.random() < 0.4 else []
        blocks += [Heading(1, title), *paragraphs(prose, 2, 4)]
    name = f"{prose.labels.page} "
    marks = chance.choice(((name, ""), ("- ", " -"), ("", "")))
    look = {"running_head": chance.choice(titles), "page_numbers": True, "number_marks": marks}
    return styled(prose, blocks, **look)


def listings(prose: Prose) -> Document:
    blocks: list[Block] = [Heading(1, prose.title())]
    for number in range(1, prose.random.randint(3, 5)):
        blocks += [Heading(2, prose.title()), *paragraphs(prose, 1, 2)]
        blocks += [Code(prose.program()), Paragraph(f"{prose.labels.listing} {number}", small=True)]
    return styled(prose, blocks, page=LETTER)


def mixed(prose: Prose) -> Document:
    """A bit of everything, for the ways of drawing that hide it."""
    blocks: list[Block] = [
        Heading(1, prose.title()),
        *paragraphs(prose, 2, 3),
        Heading(2, prose.title()),
        listing(prose, depth=0),
        small_table(prose),
        Heading(2, prose.title()),
        *paragraphs(prose, 2, 4),
    ]
    return styled(prose, blocks, columns=prose.random.choice((1, 2)))


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
    "plain headings": plain_headings,
    "contents": contents,
    "table over pages": table_over_pages,
    "dense table": dense_tables,
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
        blocks += [Heading(2, f"{mark}{prose.title()}"), *paragraphs(prose, 2, 4)]
        if number == 2:
            blocks += [small_table(prose, columns=3), Paragraph(caption(prose), small=True)]
        elif chance.random() < 0.3:
            blocks.append(listing(prose, depth=0))
    look = {"columns": columns, "page": page, "size": size, "margin": 48}
    rules: Rules = chance.choice(("lines", "grid"))
    numbers = chance.random() < 0.7
    return styled(prose, blocks, justified=True, page_numbers=numbers, rules=rules, **look)
