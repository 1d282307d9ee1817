"""The kinds of generated documents: their content and style, drawn from a seed."""

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
    Style,
    Table,
)  # fmt: skip
from .prose import Prose

#: Sizes of headings by level, and whether they are bold.
LOOKS: tuple[tuple[tuple[float, ...], bool], ...] = (
    ((1.9, 1.4, 1.2), True),
    ((1.7, 1.35, 1.15), True),
    ((1.5, 1.25, 1.1), False),
    ((1.3, 1.15, 1.0), True),
    ((2.4, 1.6, 1.25), False),
)
LANDSCAPE = (842, 595)


def report(prose: Prose) -> Document:
    blocks: list[Block] = [Heading(1, prose.title())]
    for number in range(1, prose.random.randint(4, 6)):
        blocks += [Heading(2, f"{number}. {prose.title()}"), *paragraphs(prose, 1, 3)]
        if prose.chance(0.5):
            blocks += [Heading(3, f"{number}.1 {prose.title()}"), *paragraphs(prose, 1, 2)]
        if prose.chance(0.4):
            blocks.append(listing(prose, depth=1))
        if prose.chance(0.3):
            blocks.append(Paragraph(prose.paragraph(1, 2), boxed=True))
    blocks += [small_table(prose), caption(prose), *paragraphs(prose, 1, 1)]
    rules = prose.random.choice(("grid", "lines"))
    return styled(prose, blocks, page_numbers=prose.chance(0.5), rules=rules)


def two_columns(prose: Prose) -> Document:
    return _paper(prose, columns=2, page=A4, size=prose.random.choice((9, 9.5, 10)))


def three_columns(prose: Prose) -> Document:
    return _paper(prose, columns=3, page=prose.random.choice((A4, LANDSCAPE)), size=8.5)


def _paper(prose: Prose, *, columns: int, **look: object) -> Document:
    blocks: list[Block] = [
        Heading(1, prose.title()),
        Paragraph(f"{prose.pick('names')}, {prose.pick('towns')}"),
    ]
    for number in range(1, prose.random.randint(5, 7)):
        mark = f"{number} " if columns == 2 else ""
        blocks += [Heading(2, f"{mark}{prose.title()}"), *paragraphs(prose, 2, 4)]
        if number == 2:
            blocks += [small_table(prose, columns=3), caption(prose)]
        elif prose.chance(0.3):
            blocks.append(listing(prose, depth=0))
    rules, numbers = prose.random.choice(("lines", "grid")), prose.chance(0.7)
    look |= {"columns": columns, "margin": 48, "justified": True, "rules": rules}
    return styled(prose, blocks, page_numbers=numbers, **look)


def book(prose: Prose) -> Document:
    title = prose.title()
    blocks: list[Block] = []
    for number in range(1, 4):
        name = "Kapitel" if prose.language == "de" else "Chapter"
        blocks += [NewPage()] if blocks else []
        blocks.append(Heading(1, f"{name} {number}: {prose.title()}"))
        for _ in range(prose.random.randint(6, 9)):
            note = prose.sentence() if prose.chance(0.25) else None
            blocks.append(Paragraph(prose.paragraph(3, 7), footnote=note))
            if prose.chance(0.2):
                blocks += [Heading(2, prose.title()), Paragraph(prose.paragraph(3, 6))]
    look = {"page": prose.random.choice((A5, A4)), "running_head": title, "page_numbers": True}
    return styled(prose, blocks, serif=True, justified=True, margin=56, **look)


def slides(prose: Prose) -> Document:
    blocks: list[Block] = [
        Heading(1, prose.title()),
        Paragraph(f"{prose.pick('names')}, {prose.date()}"),
    ]
    for number in range(prose.random.randint(4, 6)):
        blocks += [NewPage(), Heading(1, prose.title())]
        if number == 2:
            blocks.append(small_table(prose))
        else:
            blocks.append(listing(prose, depth=prose.random.choice((0, 1))))
    heads = {"heads": (1.6, 1.3, 1.1), "heads_bold": prose.chance(0.5)}
    return styled(prose, blocks, page=SLIDE, margin=45, size=16, page_numbers=True, **heads)


def lists(prose: Prose) -> Document:
    blocks: list[Block] = [Heading(1, f"{prose.labels.list}: {prose.title()}")]
    for _ in range(prose.random.randint(3, 5)):
        blocks += [Heading(2, prose.title()), *paragraphs(prose, 0, 1)]
        blocks.append(listing(prose, depth=2, numbered=prose.chance(0.5)))
    return styled(prose, blocks, serif=prose.chance(0.5))


def headings(prose: Prose) -> Document:
    blocks: list[Block] = [Heading(1, prose.long_title()), *paragraphs(prose, 1, 1)]
    for number in range(1, 5):
        title = prose.long_title if prose.chance(0.5) else prose.title
        blocks.append(Heading(2, f"{number} {title()}"))
        for part in range(1, prose.random.randint(2, 4)):
            blocks.append(Heading(3, f"{number}.{part} {prose.title()}"))
            blocks.append(_bold_start(prose, 2, 4))
    return styled(prose, blocks, page_numbers=True, justified=prose.chance(0.5))


def plain_headings(prose: Prose) -> Document:
    """Recognizable by weight or position alone, unlike bold words at the start of paragraphs."""
    capitals, centred = prose.chance(0.5), prose.chance(0.5)

    def title() -> Heading:
        return Heading(1, prose.title().upper() if capitals else prose.title())

    blocks: list[Block] = [title(), *paragraphs(prose, 1, 2)]
    for _ in range(prose.random.randint(4, 6)):
        blocks.append(title())
        blocks += [_bold_start(prose, 2, 5) for _ in range(prose.random.randint(1, 3))]
    look = {"heads": (1.0, 1.0, 1.0), "heads_bold": True, "heads_centred": centred}
    return styled(prose, blocks, serif=True, page_numbers=True, **look)


def _bold_start(prose: Prose, least: int, most: int) -> Paragraph:
    start = f"**{prose.title()}.** " if prose.chance(0.4) else ""
    return Paragraph(start + prose.paragraph(least, most).replace("**", ""))


def contents(prose: Prose) -> Document:
    """The entries of a table of contents have the words of headings but are none."""
    titles = [f"{number}. {prose.title()}" for number in range(1, prose.random.randint(6, 9))]
    blocks: list[Block] = [Heading(1, "Inhalt" if prose.language == "de" else "Contents")]
    blocks += [Paragraph(f"{title} {'.' * 40} {2 + n}") for n, title in enumerate(titles)]
    for title in titles:
        blocks += [NewPage()] if prose.chance(0.4) else []
        blocks += [Heading(1, title), *paragraphs(prose, 2, 4)]
    marks = prose.random.choice(((f"{prose.labels.page} ", ""), ("- ", " -"), ("", "")))
    head = prose.random.choice(titles)
    return styled(prose, blocks, running_head=head, page_numbers=True, number_marks=marks)


def code(prose: Prose) -> Document:
    blocks: list[Block] = [Heading(1, prose.title())]
    for number in range(1, prose.random.randint(3, 5)):
        blocks += [Heading(2, prose.title()), *paragraphs(prose, 1, 2)]
        blocks += [Code(prose.program()), Paragraph(f"{prose.labels.listing} {number}", small=True)]
    return styled(prose, blocks, page=LETTER)


def mixed(prose: Prose) -> Document:
    """A bit of everything, for layouts that hide the structure."""
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
    return styled(prose, blocks, rules=prose.random.choice(("grid", "lines", "zebra")))


def borderless(prose: Prose) -> Document:
    blocks: list[Block] = [
        Heading(1, prose.title()),
        *paragraphs(prose, 1, 2),
        price_list(prose, prose.random.randint(12, 40)),
        Heading(2, prose.title()),
        *paragraphs(prose, 1, 1),
        towns_by_year(prose),
        *paragraphs(prose, 1, 2),
    ]
    return styled(prose, blocks, rules="none", serif=prose.chance(0.5))


def long_table(prose: Prose) -> Document:
    blocks: list[Block] = [
        Heading(1, prose.title()),
        *paragraphs(prose, 1, 2),
        long_cells(prose, prose.random.randint(5, 9)),
        *paragraphs(prose, 1, 1),
    ]
    return styled(prose, blocks, rules=prose.random.choice(("grid", "lines", "none")))


def figures(prose: Prose) -> Document:
    blocks: list[Block] = [
        Heading(1, prose.long_title()),
        Paragraph(prose.paragraph(1, 2)),
        amounts(prose, prose.random.randint(8, 16)),
        caption(prose),
        Heading(2, prose.title()),
        Paragraph(prose.paragraph(1, 3)),
        amounts(prose, prose.random.randint(4, 8)),
    ]
    rules = prose.random.choice(("lines", "none", "zebra", "grid"))
    return styled(prose, blocks, page=LANDSCAPE, rules=rules, size=9.5)


def table_over_pages(prose: Prose) -> Document:
    blocks: list[Block] = [
        Heading(1, prose.title()),
        Paragraph(prose.paragraph(1, 2)),
        price_list(prose, prose.random.randint(60, 90)),
        Paragraph(prose.paragraph(1, 2)),
    ]
    look = {"page_numbers": True, "running_head": prose.title(), "heads_again": True}
    return styled(prose, blocks, rules=prose.random.choice(("grid", "lines", "none")), **look)


def dense_tables(prose: Prose) -> Document:
    blocks: list[Block] = [Heading(1, prose.title())]
    for _ in range(prose.random.randint(2, 3)):
        blocks += [Heading(2, prose.title()), Paragraph(prose.paragraph(1, 2)), dense(prose)]
    blocks.append(Paragraph(prose.paragraph(2, 3)))
    rules = prose.random.choice(("lines", "none", "grid"))
    return styled(prose, blocks, rules=rules, size=prose.random.choice((8, 9)))


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
    "code": code,
    "word by word": mixed,
    "out of order": mixed,
    "rotated pages": mixed,
}


def styled(prose: Prose, blocks: Sequence[Block], **look: object) -> Document:
    heads, bold = prose.random.choice(LOOKS)
    drawn: dict[str, object] = {
        "heads": heads,
        "heads_bold": bold,
        "serif": prose.chance(0.5),
        "size": prose.random.choice((9.5, 10, 10.5, 11, 12)),
        "margin": prose.random.choice((50, 60, 72)),
        "justified": prose.chance(0.3),
    }
    return Document(prose.language, tuple(blocks), Style(**(drawn | look)))  # type: ignore[arg-type]  # names of fields


def paragraphs(prose: Prose, least: int, most: int) -> list[Paragraph]:
    return [Paragraph(prose.paragraph()) for _ in range(prose.random.randint(least, most))]


def caption(prose: Prose) -> Paragraph:
    number = prose.random.randint(1, 9)
    return Paragraph(f"{prose.labels.table} {number}: {prose.title()}", small=True)


def listing(prose: Prose, *, depth: int, numbered: bool | None = None) -> Listing:
    numbered = prose.chance(0.3) if numbered is None else numbered
    return Listing(_entries(prose, depth, prose.random.randint(3, 6)), numbered)


def _entries(prose: Prose, depth: int, count: int) -> tuple[Entry, ...]:
    def inner() -> tuple[Entry, ...]:
        if depth == 0 or prose.chance(0.5):
            return ()
        return _entries(prose, depth - 1, prose.random.randint(2, 3))

    def text() -> str:
        return prose.sentence() if prose.chance(0.4) else prose.phrase()

    return tuple(Entry(text(), inner()) for _ in range(count))


def small_table(prose: Prose, columns: int = 4) -> Table:
    labels = prose.labels
    head = (labels.place, labels.year, labels.total, labels.person)[:columns]
    rows = [
        (town, str(prose.random.randint(1950, 2026)), _figure(prose), name)[:columns]
        for town, name in zip(prose.several("towns", 5), prose.several("names", 5), strict=True)
    ]
    return Table((head, *rows), frozenset({1, 2}), (3, 2, 2, 3)[:columns])


def invoice_table(prose: Prose, count: int) -> Table:
    labels, total = prose.labels, 0
    rows = [(labels.item, labels.text, labels.quantity, labels.price, labels.total)]
    for number, good in enumerate(prose.several("goods", count), 1):
        quantity, cents = prose.random.randint(1, 60), prose.random.randint(99, 90_000)
        total += quantity * cents
        prices = prose.money(cents), prose.money(quantity * cents)
        rows.append((str(number), good, str(quantity), *prices))
    tax = round(total * 0.19)
    rows.append(("", f"{labels.tax} 19 %", "", "", prose.money(tax)))
    rows.append(("", labels.sum, "", "", prose.money(total + tax)))
    return Table(tuple(rows), frozenset({2, 3, 4}), (1, 4, 1, 2, 2))


def price_list(prose: Prose, count: int) -> Table:
    labels = prose.labels
    rows = [(labels.item, labels.text, labels.place, labels.price)]
    towns = prose.several("towns", count)
    for good, town in zip(prose.several("goods", count), towns, strict=True):
        number = f"{prose.random.choice('ABKZ')}-{prose.random.randint(100, 999)}"
        amount = prose.money(prose.random.randint(50, 250_000))
        price = f"{amount} €" if prose.language == "de" else f"£{amount}"
        rows.append((number, good, town, price))
    return Table(tuple(rows), frozenset({3}), (2, 4, 3, 2))


def towns_by_year(prose: Prose) -> Table:
    first = prose.random.randint(1990, 2015)
    head = (prose.labels.place, *(str(first + more) for more in range(5)))
    rows = [
        (town, *(_figure(prose) if prose.chance(0.9) else "\u2013" for _ in range(5)))
        for town in prose.several("towns", 7)
    ]
    return Table((head, *rows), frozenset(range(1, 6)), (3, 2, 2, 2, 2, 2))


def long_cells(prose: Prose, count: int) -> Table:
    labels = prose.labels
    head = (labels.item, labels.text, labels.note, labels.date)
    rows = [
        (str(number), prose.title(), prose.paragraph(1, 2).replace("**", ""), prose.date())
        for number in range(1, count + 1)
    ]
    return Table((head, *rows), frozenset({0}), (1, 3, 5, 2))


def amounts(prose: Prose, count: int) -> Table:
    labels = prose.labels
    head = (labels.customer, labels.place, labels.date, labels.quantity, labels.price, labels.total)
    rows = []
    names = prose.several("names", count)
    for name, town in zip(names, prose.several("towns", count), strict=True):
        quantity, cents = prose.random.randint(1, 900), prose.random.randint(50, 9_999)
        sums = str(quantity), prose.money(cents), prose.money(quantity * cents)
        rows.append((name, town, prose.date(), *sums))
    return Table((head, *rows), frozenset({3, 4, 5}), (3, 3, 4, 2, 2, 3))


def dense(prose: Prose) -> Table:
    """Eight narrow columns, headers of two lines, empty cells."""
    labels, first = prose.labels, prose.random.randint(1, 6)
    months = [f"{month[:3]} {labels.quantity}" for month in prose.words["months"][first:][:5]]
    head = (labels.place, labels.text, *months, labels.sum)
    rows = []
    for town, good in zip(prose.several("towns", 9), prose.several("goods", 9), strict=True):
        counts = [prose.random.choice((0, 0, 7, 31, 450, 1208)) for _ in months]
        rows.append((town, good, *(str(n) if n else "" for n in counts), str(sum(counts))))
    return Table((head, *rows), frozenset(range(2, 8)), (4, 5, 2, 2, 2, 2, 2, 3))


def _figure(prose: Prose) -> str:
    value = prose.random.choice((1, 10, 100)) * prose.random.uniform(1, 99)
    return prose.decimal(f"{value:,.1f}")
