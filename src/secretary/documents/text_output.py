"""Renders Markdown as a self-contained HTML page or as plain text, and writes result files."""

import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..core.json_codec import clean_text, clean_texts, encode_json
from .assembly import MAX_RESULTS_BYTES, RESULTS_FILE
from .pages import write_new

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

#: Links to anything else become text: no scripts, no files, no data.
SAFE_LINK = re.compile(r"(?:https?://|mailto:)[^\s]", re.IGNORECASE)
#: A key or a comment must follow at once; otherwise `---` is a thematic break.
FRONT_MATTER = re.compile(r"\A---[ \t]*\n(?=#|[^\s-][^\n]*:)(?:.*\n)*?---[ \t]*(?:\n|\Z)")
MAX_TITLE_CHARACTERS = 200

#: The content security policy is a second line of defence.
HTML_PAGE = """\
<!DOCTYPE html>
<html{lang}>
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ max-width: 46rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 sans-serif }}
table {{ border-collapse: collapse }}
td, th {{ border: 1px solid #999; padding: .2rem .5rem; text-align: left }}
pre {{ overflow-x: auto }}
</style>
</head>
<body>
{body}</body>
</html>
"""


def render_html(markdown: str, *, title: str | None = None, language: str | None = None) -> str:
    """Return a complete page. HTML in the Markdown is escaped. Images become their alt text, since
    fetching one would reveal that the page was opened."""
    parser = _parser()
    tokens = parser.parse(FRONT_MATTER.sub("", markdown, count=1))
    headings = (
        " ".join(_inline_text(following).split())
        for token, following in pairwise(tokens)
        if token.type == "heading_open"
    )
    title = html.escape((title or next(headings, "") or "Document")[:MAX_TITLE_CHARACTERS])
    lang = f' lang="{html.escape(language)}"' if language else ""
    body = parser.renderer.render(tokens, parser.options, {})
    return HTML_PAGE.format(lang=lang, title=title, body=body)


def render_text(markdown: str) -> str:
    """Return the text without markup: cells separated by tabs, list items with their bullets."""
    parser = _parser()
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    text = "".join(_text_lines(parser.parse(FRONT_MATTER.sub("", markdown, count=1))))
    return re.sub(r"\n{3,}", "\n\n", text.replace("\t\n", "\n")).strip("\n") + "\n"


def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # most jobs do not need it

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.validateLink = lambda url: bool(SAFE_LINK.match(url))  # type: ignore[method-assign]
    parser.add_render_rule("image", lambda _, tokens, at, *__: html.escape(tokens[at].content))
    return parser


def _text_lines(tokens: Sequence["Token"]) -> Iterator[str]:
    open_lists: list[int | None] = []
    in_table = has_bullet = False
    for token in tokens:
        match token.type:
            case "bullet_list_open":
                open_lists.append(None)
            case "ordered_list_open":
                open_lists.append(int(token.attrs.get("start", 1)))
            case "bullet_list_close" | "ordered_list_close":
                open_lists.pop()
                yield "" if open_lists else "\n"
            case "list_item_open":
                has_bullet = True
                number = open_lists[-1]
                marker = "- " if number is None else f"{number}. "
                open_lists[-1] = None if number is None else number + 1
                yield "  " * (len(open_lists) - 1) + marker
            case "paragraph_open" if open_lists and not has_bullet:
                yield "\n" + "  " * len(open_lists)
            case "table_open" | "table_close":
                in_table = token.type == "table_open"
                yield "" if in_table else "\n"
            case "th_close" | "td_close":
                yield "\t"
            case "tr_close":
                yield "\n"
            case "inline":
                text, has_bullet = _inline_text(token), False
                indented = text.replace("\n", "\n" + "  " * len(open_lists))
                yield " ".join(text.split()) if in_table else indented
            case "paragraph_close" | "heading_close":
                yield "\n" if open_lists else "\n\n"
            case "fence" | "code_block":
                code = token.content.replace("\n", "\n" + "  " * len(open_lists))
                yield code.rstrip("\n") + "\n\n"
            case "hr":
                yield "\n"


def _inline_text(token: "Token") -> str:
    target = ""
    link_start = 0
    words: list[str] = []
    for child in token.children or []:
        match child.type:
            case "text" | "code_inline" | "image":
                words.append(child.content)
            case "softbreak" | "hardbreak":
                words.append("\n")
            case "link_open":
                target, link_start = str(child.attrs.get("href", "")), len(words)
            case "link_close":
                # Do not repeat a URL that equals its link text, nor show one without a host.
                link_text = "".join(words[link_start:]).strip()
                if SAFE_LINK.match(target) and target.removeprefix("mailto:") != link_text:
                    words.append(f" ({target})")
                target = ""
    return "".join(words)


TargetFormat = Literal["text", "markdown", "html", "json"]

RESULT_FILE = "result.md"
OUTPUT_FILES: Mapping[TargetFormat, str] = {
    "markdown": RESULT_FILE,
    "text": "result.txt",
    "html": "result.html",
    "json": "result.json",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOutput:
    directory: str
    markdown: str
    #: None if there is only text.
    structured_data: Mapping[str, Any] | None
    target_format: TargetFormat
    #: None if there is no front matter.
    front_matter: Mapping[str, Any] | None = None
    title: str | None = None
    language: str | None = None
    #: `text` of the results, if it is not the result in the target format.
    text: str | None = None


def write_text_output(output: TextOutput) -> None:
    """Write the result files, and `texts.json` with the long part of the results."""
    output = replace(
        output,
        markdown=clean_text(output.markdown),
        structured_data=clean_texts(output.structured_data),
        front_matter=clean_texts(output.front_matter),
        text=clean_texts(output.text),
    )
    text, data = _render(output)
    directory = Path(output.directory)
    write_new(directory / RESULT_FILE, output.markdown.encode("utf-8", "replace"))
    if output.target_format != "markdown":
        name = OUTPUT_FILES[output.target_format]
        write_new(directory / name, text.encode("utf-8", "replace"))
    text = text if output.text is None else output.text
    is_short = len(text) + len(output.markdown) <= MAX_RESULTS_BYTES
    results: dict[str, Any] = {
        "text": text if is_short else None,
        "markdown_content": output.markdown if is_short else None,
        "structured_data": data if is_short or output.structured_data is not None else None,
    }
    if output.front_matter is not None:
        results["metadata"] = {"front_matter": output.front_matter}
    write_new(directory / RESULTS_FILE, encode_json(results))


def _render(output: TextOutput) -> tuple[str, Mapping[str, Any] | None]:
    text, data = output.markdown, output.structured_data
    match output.target_format:
        case "html":
            return render_html(text, title=output.title, language=output.language), data
        case "text":
            return render_text(text), data
        case "json":
            data = {"text": text} if data is None else data
            return json.dumps(data, ensure_ascii=False, indent=2) + "\n", data
        case _:
            return text, data


def update_text_output(
    directory: str,
    markdown: str,
    *,
    structured_data: Mapping[str, Any],
    front_matter: Mapping[str, Any],
) -> None:
    """Replace the Markdown of existing files and results."""
    markdown = clean_text(markdown)
    write_new(Path(directory, RESULT_FILE), markdown.encode("utf-8", "replace"))
    path = Path(directory, RESULTS_FILE)
    results = json.loads(path.read_bytes())
    is_short = len(markdown) <= MAX_RESULTS_BYTES
    results |= {
        "markdown_content": markdown if is_short else None,
        "structured_data": clean_texts(structured_data),
        "metadata": {**results.get("metadata", {}), "front_matter": clean_texts(front_matter)},
    }
    write_new(path, encode_json(results))
