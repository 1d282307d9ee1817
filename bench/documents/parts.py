"""What most kinds of documents are made of."""

from collections.abc import Sequence

from .model import Block, Document, Entry, Listing, Paragraph, Style
from .prose import Prose

LOOKS: tuple[tuple[tuple[float, ...], bool], ...] = (
    ((1.9, 1.4, 1.2), True),
    ((1.7, 1.35, 1.15), True),
    ((1.5, 1.25, 1.1), False),
    ((1.3, 1.15, 1.0), True),
    ((2.4, 1.6, 1.25), False),
)


def styled(prose: Prose, blocks: Sequence[Block], **look: object) -> Document:
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


def paragraphs(prose: Prose, least: int, most: int) -> list[Paragraph]:
    return [Paragraph(prose.paragraph()) for _ in range(prose.random.randint(least, most))]


def listing(prose: Prose, *, depth: int, numbered: bool | None = None) -> Listing:
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


def caption(prose: Prose) -> str:
    return f"{prose.labels.table} {prose.random.randint(1, 9)}: {prose.title()}"
