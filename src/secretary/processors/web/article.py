"""Any web page, as it was downloaded: its title and what it is about."""

import html
from dataclasses import dataclass

from ...errors import FileCorrupt
from .main_text import main_text
from .markup import markdown_of, markdown_of_html, page_at, parsed_page, without_scripts
from .page_tags import description_of, heading_of, title_of
from .plain_values import language_of


@dataclass(frozen=True, slots=True)
class Article:
    """`text` is Markdown, with the title above it."""

    title: str
    language: str | None
    text: str


def read_article(path: str, url: str) -> Article:
    """Runs in a sandbox: the page is a stranger's. Nothing is fetched, no script is run."""
    root = parsed_page(page_at(path), url)
    title = heading_of(root) or title_of(root)
    language = language_of(root.get("lang"))
    description = description_of(root)
    without_scripts(root)
    text = main_text(root) or markdown_of([root])
    text = text or markdown_of_html(html.escape(description))
    if not text.strip():
        raise FileCorrupt("There is no text on the page")
    if title and not text.startswith("# "):
        text = f"{markdown_of_html(f'<h1>{html.escape(title)}</h1>').strip()}\n\n{text}"
    return Article(title=title, language=language or None, text=text)
