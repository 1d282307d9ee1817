"""What an office file has come to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..page import Page
from .blocks import Block
from .markdown import to_markdown
from .pictures import Pictures
from .plain import to_text


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficeDocument:
    pages: list[Page]
    #: Title, author and the like, where the file tells them.
    facts: Mapping[str, Any] = field(default_factory=dict)


def page_of(number: int, blocks: Sequence[Block], pictures: Pictures, **facts: Any) -> Page:
    return Page(
        number=number,
        text=to_text(blocks),
        markdown=to_markdown(blocks),
        pictures=pictures.turn_page(),
        facts=facts,
    )
