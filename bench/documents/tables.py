"""Tables of made documents: short, long, with sums, with cells of several lines."""

from .model import Table
from .prose import Prose


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
        amounts = prose.money(cents), prose.money(quantity * cents)
        rows.append((str(number), good, str(quantity), *amounts))
    tax = round(total * 0.19)
    rows.append(("", f"{labels.tax} 19 %", "", "", prose.money(tax)))
    rows.append(("", labels.sum, "", "", prose.money(total + tax)))
    return Table(tuple(rows), frozenset({2, 3, 4}), (1, 4, 1, 2, 2))


def price_list(prose: Prose, count: int) -> Table:
    labels = prose.labels
    head = (labels.item, labels.text, labels.place, labels.price)
    towns = prose.several("towns", count)
    rows = [
        (
            f"{prose.random.choice('ABKZ')}-{prose.random.randint(100, 999)}",
            good,
            town,
            _price(prose),
        )
        for good, town in zip(prose.several("goods", count), towns, strict=True)
    ]
    return Table((head, *rows), frozenset({3}), (2, 4, 3, 2))


def places_by_year(prose: Prose) -> Table:
    first = prose.random.randint(1990, 2015)
    head = (prose.labels.place, *(str(first + more) for more in range(5)))
    rows = [
        (town, *(_figure(prose) if prose.random.random() < 0.9 else "\u2013" for _ in range(5)))
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
    for name, town in zip(
        prose.several("names", count), prose.several("towns", count), strict=True
    ):
        quantity, cents = prose.random.randint(1, 900), prose.random.randint(50, 9_999)
        sums = str(quantity), prose.money(cents), prose.money(quantity * cents)
        rows.append((name, town, prose.date(), *sums))
    return Table((head, *rows), frozenset({3, 4, 5}), (3, 3, 4, 2, 2, 3))


def dense(prose: Prose) -> Table:
    """Eight narrow columns, heads of two lines, cells that are empty."""
    labels = prose.labels
    first = prose.random.randint(1, 6)
    months = [f"{month[:3]} {labels.quantity}" for month in prose.vocabulary.months[first:][:5]]
    head = (labels.place, labels.text, *months, labels.sum)
    rows = []
    for town, good in zip(prose.several("towns", 9), prose.several("goods", 9), strict=True):
        counts = [prose.random.choice((0, 0, 7, 31, 450, 1208)) for _ in months]
        rows.append((town, good, *(str(n) if n else "" for n in counts), str(sum(counts))))
    return Table((head, *rows), frozenset(range(2, 8)), (4, 5, 2, 2, 2, 2, 2, 3))


def _figure(prose: Prose) -> str:
    value = prose.random.choice((1, 10, 100)) * prose.random.uniform(1, 99)
    text = f"{value:,.1f}"
    if prose.language == "en":
        return text
    return text.replace(",", " ").replace(".", ",").replace(" ", ".")


def _price(prose: Prose) -> str:
    sign = "€" if prose.language == "de" else "£"
    amount = prose.money(prose.random.randint(50, 250_000))
    return f"{amount} {sign}" if prose.language == "de" else f"{sign}{amount}"
