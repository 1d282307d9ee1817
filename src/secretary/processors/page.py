"""What a page of a document has come to: a page of a PDF, a slide, a sheet, a picture."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    #: Begins with 1.
    number: int
    #: Plain text in reading order.
    text: str
    #: The same with headings, lists and tables where they can be told.
    markdown: str
    #: Where the text comes from, for instance `native`, `ocr`, `llm`.
    method: str = "native"
    #: Why this method, where it was for us to choose.
    reason: str | None = None
    #: What each method gave, by its name, where more than one was asked.
    texts: Mapping[str, str] = field(default_factory=dict)
    #: Files of the page beside its text, by their names in the document's directory.
    pictures: tuple[str, ...] = ()
    #: What else is known, for instance the confidence of recognised text.
    facts: Mapping[str, Any] = field(default_factory=dict)
