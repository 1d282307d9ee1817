"""The kinds of documents that are there for their tables."""

from .model import Block, Document, Heading, Paragraph, Rules
from .parts import caption, paragraphs, styled
from .prose import Prose
from .tables import amounts, dense, invoice_table, long_cells, places_by_year, price_list


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
        places_by_year(prose),
        *paragraphs(prose, 1, 2),
    ]
    return styled(prose, blocks, rules="none", serif=prose.random.random() < 0.5)


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
        Paragraph(caption(prose), small=True),
        Heading(2, prose.title()),
        Paragraph(prose.paragraph(1, 3)),
        amounts(prose, prose.random.randint(4, 8)),
    ]
    rules: Rules = prose.random.choice(("lines", "none", "zebra", "grid"))
    return styled(prose, blocks, page=(842, 595), rules=rules, size=9.5)


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
    rules: Rules = prose.random.choice(("lines", "none", "grid"))
    return styled(prose, blocks, rules=rules, size=prose.random.choice((8, 9)))
