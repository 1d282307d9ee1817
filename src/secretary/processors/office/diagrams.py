"""The texts of a SmartArt."""

from .blocks import Block, Item, Paragraph, words
from .drawing_text import Bullets, no_bullets, text_blocks
from .ooxml import Part

DIAGRAM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"


def diagram_blocks(part: Part | None) -> list[Block]:
    """One item for each, in the order of the file."""
    if part is None:
        return []
    blocks: list[Block] = []
    for point in part.root.iter(f"{DIAGRAM}pt"):
        lines = text_blocks(point.find(f"{DIAGRAM}t"), part, Bullets(no_bullets))
        content = [each for line in lines if isinstance(line, Paragraph) for each in line.content]
        if words(content).strip():
            blocks.append(Item(0, "-", content))
    return blocks
