"""Writes a text that was made: in the format that is wanted, as Markdown, and for the results."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from ..json_bytes import json_bytes
from .assembly import MAX_RESULTS_BYTES, RESULTS_FILE
from .text_formats import as_html, as_text

TargetFormat = Literal["text", "markdown", "html", "json"]

MADE_FILE = "result.md"
FILES: Mapping[TargetFormat, str] = {
    "markdown": MADE_FILE,
    "text": "result.txt",
    "html": "result.html",
    "json": "result.json",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeText:
    shown: str
    markdown: str
    #: None: the text is all there is.
    structured_data: Mapping[str, Any] | None
    target_format: TargetFormat
    #: None: there is none.
    front_matter: Mapping[str, Any] | None = None
    title: str | None = None
    language: str | None = None


def write_made(made: MadeText) -> None:
    """The files, and the long part of the results beside them."""
    text, data = _formatted(made)
    shown = Path(made.shown)
    write_over(shown / MADE_FILE, _whole(made.markdown))
    if made.target_format != "markdown":
        write_over(shown / FILES[made.target_format], _whole(text))
    is_short = len(text) + len(made.markdown) <= MAX_RESULTS_BYTES
    results: dict[str, Any] = {
        "text": text if is_short else None,
        "markdown_content": made.markdown if is_short else None,
        "structured_data": data if is_short or made.structured_data is not None else None,
    }
    if made.front_matter is not None:
        results["metadata"] = {"front_matter": made.front_matter}
    write_over(shown / RESULTS_FILE, json_bytes(results))


def _formatted(made: MadeText) -> tuple[str, Mapping[str, Any] | None]:
    match made.target_format:
        case "html":
            page = as_html(made.markdown, title=made.title, language=made.language)
            return page, made.structured_data
        case "text":
            return as_text(made.markdown), made.structured_data
        case "json":
            data = made.structured_data
            data = {"text": made.markdown} if data is None else data
            return json.dumps(data, ensure_ascii=False, indent=2) + "\n", data
        case _:
            return made.markdown, made.structured_data


def add_made(
    shown: str,
    markdown: str,
    *,
    structured_data: Mapping[str, Any],
    front_matter: Mapping[str, Any],
) -> None:
    """To files and results that are there already: their Markdown is now this one."""
    write_over(Path(shown, MADE_FILE), _whole(markdown))
    path = Path(shown, RESULTS_FILE)
    results = json.loads(path.read_bytes())
    is_short = len(markdown) <= MAX_RESULTS_BYTES
    results |= {
        "markdown_content": markdown if is_short else None,
        "structured_data": structured_data,
        "metadata": {**results.get("metadata", {}), "front_matter": front_matter},
    }
    write_over(path, json_bytes(results))


def _whole(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def write_over(path: Path, content: bytes) -> None:
    """Never into a file that is there: others may have links to it."""
    if not path.exists():
        path.write_bytes(content)
        return
    unfinished = path.with_name(f".{uuid4().hex}")
    unfinished.write_bytes(content)
    unfinished.replace(path)
