"""What a slide has in every format: a title, and notes for who speaks."""

from collections.abc import Sequence

from .blocks import Block, Heading, Item, Paragraph, Run, words


def slide_title(blocks: Sequence[Block]) -> list[Block]:
    """Its lines as one heading, if there are words in them."""
    lines = [block for block in blocks if isinstance(block, Paragraph | Item)]
    content = [inline for line in lines for inline in (*line.content, Run(" "))]
    return [Heading(1, content[:-1])] if words(content).strip() else []


def spoken_notes(blocks: Sequence[Block]) -> list[Block]:
    return [Heading(2, [Run("Notes")]), *blocks] if blocks else []
