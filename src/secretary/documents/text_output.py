"""Markdown as a page that is safe to open, and as plain text."""

import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from ..core.json_codec import encode_json
from .assembly import MAX_RESULTS_BYTES, RESULTS_FILE

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

#: A link to anything else is text: no scripts, no files, no data.
SAFE_LINK = re.compile(r"(?:https?://|mailto:)[^\s]", re.IGNORECASE)
#: A key or a comment must follow at once; else it is a rule, and then comes the text.
FRONT_MATTER = re.compile(r"\A---[ \t]*\n(?=#|[^\s-][^\n]*:)(?:.*\n)*?---[ \t]*(?:\n|\Z)")
LONGEST_TITLE = 200

#: The policy is for the case that something got through nevertheless.
PAGE = """\
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
    """A whole page. HTML in the Markdown is shown as the text it is; pictures are told by their
    descriptions, because to fetch one tells somebody that the page was opened."""
    reader = _reader()
    tokens = reader.parse(without_front_matter(markdown))
    named = title or _first_heading(tokens) or "Document"
    lang = f' lang="{html.escape(language)}"' if language else ""
    body = reader.renderer.render(tokens, reader.options, {})
    return PAGE.format(lang=lang, title=html.escape(named[:LONGEST_TITLE]), body=body)


def render_text(markdown: str) -> str:
    """The words without the marks: cells apart by tabs, items behind their bullets."""
    reader = _reader()
    reader.validateLink = lambda url: True  # type: ignore[method-assign]
    text = "".join(_lines(reader.parse(without_front_matter(markdown))))
    return re.sub(r"\n{3,}", "\n\n", text.replace("\t\n", "\n")).strip("\n") + "\n"


def without_front_matter(markdown: str) -> str:
    return FRONT_MATTER.sub("", markdown, count=1)


def _reader() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # most jobs have no need of it

    reader = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    reader.validateLink = lambda url: bool(SAFE_LINK.match(url))  # type: ignore[method-assign]
    reader.add_render_rule("image", _description)
    return reader


def _description(
    renderer: Any, tokens: Sequence["Token"], index: int, options: Any, env: Any
) -> str:
    return html.escape(tokens[index].content)


def _first_heading(tokens: Sequence["Token"]) -> str:
    for token, following in pairwise(tokens):
        if token.type == "heading_open":
            return " ".join(_inline(following).split())
    return ""


def _lines(tokens: Sequence["Token"]) -> Iterator[str]:
    lists: list[int | None] = []
    in_table = has_bullet = False
    for token in tokens:
        match token.type:
            case "bullet_list_open":
                lists.append(None)
            case "ordered_list_open":
                lists.append(int(token.attrs.get("start", 1)))
            case "bullet_list_close" | "ordered_list_close":
                lists.pop()
                yield "" if lists else "\n"
            case "list_item_open":
                has_bullet = True
                yield "  " * (len(lists) - 1) + _bullet(lists)
            case "paragraph_open" if lists and not has_bullet:
                yield "\n" + "  " * len(lists)
            case "table_open" | "table_close":
                in_table = token.type == "table_open"
                yield "" if in_table else "\n"
            case "th_close" | "td_close":
                yield "\t"
            case "tr_close":
                yield "\n"
            case "inline":
                told, has_bullet = _inline(token), False
                yield " ".join(told.split()) if in_table else _indented(told, lists)
            case "paragraph_close" | "heading_close":
                yield "\n" if lists else "\n\n"
            case "fence" | "code_block":
                yield _indented(token.content, lists).rstrip("\n") + "\n\n"
            case "hr":
                yield "\n"


def _bullet(lists: list[int | None]) -> str:
    number = lists[-1]
    if number is None:
        return "- "
    lists[-1] = number + 1
    return f"{number}. "


def _indented(text: str, lists: Sequence[int | None]) -> str:
    return text.replace("\n", "\n" + "  " * len(lists))


def _inline(token: "Token") -> str:
    return "".join(_words(token.children or []))


def _words(children: Sequence["Token"]) -> Iterator[str]:
    target = ""
    said: list[str] = []
    for child in children:
        match child.type:
            case "text" | "code_inline" | "image":
                word = child.content
            case "softbreak" | "hardbreak":
                word = "\n"
            case "link_open":
                target, said, word = str(child.attrs.get("href", "")), [], ""
            case "link_close":
                # An address that is its own name is told once, and one without a host never.
                known = "".join(said).strip()
                is_new = SAFE_LINK.match(target) and target.removeprefix("mailto:") != known
                word = f" ({target})" if is_new else ""
                target = ""
            case _:
                word = ""
        said.append(word)
        yield word


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
    #: None: the text is all there is.
    structured_data: Mapping[str, Any] | None
    target_format: TargetFormat
    #: None: there is none.
    front_matter: Mapping[str, Any] | None = None
    title: str | None = None
    language: str | None = None


def write_text_output(made: TextOutput) -> None:
    """The files, and the long part of the results beside them."""
    text, data = _formatted(made)
    shown = Path(made.directory)
    _replace_file(shown / RESULT_FILE, _whole(made.markdown))
    if made.target_format != "markdown":
        _replace_file(shown / OUTPUT_FILES[made.target_format], _whole(text))
    is_short = len(text) + len(made.markdown) <= MAX_RESULTS_BYTES
    results: dict[str, Any] = {
        "text": text if is_short else None,
        "markdown_content": made.markdown if is_short else None,
        "structured_data": data if is_short or made.structured_data is not None else None,
    }
    if made.front_matter is not None:
        results["metadata"] = {"front_matter": made.front_matter}
    _replace_file(shown / RESULTS_FILE, encode_json(results))


def _formatted(made: TextOutput) -> tuple[str, Mapping[str, Any] | None]:
    match made.target_format:
        case "html":
            page = render_html(made.markdown, title=made.title, language=made.language)
            return page, made.structured_data
        case "text":
            return render_text(made.markdown), made.structured_data
        case "json":
            data = made.structured_data
            data = {"text": made.markdown} if data is None else data
            return json.dumps(data, ensure_ascii=False, indent=2) + "\n", data
        case _:
            return made.markdown, made.structured_data


def update_text_output(
    shown: str,
    markdown: str,
    *,
    structured_data: Mapping[str, Any],
    front_matter: Mapping[str, Any],
) -> None:
    """To files and results that are there already: their Markdown is now this one."""
    _replace_file(Path(shown, RESULT_FILE), _whole(markdown))
    path = Path(shown, RESULTS_FILE)
    results = json.loads(path.read_bytes())
    is_short = len(markdown) <= MAX_RESULTS_BYTES
    results |= {
        "markdown_content": markdown if is_short else None,
        "structured_data": structured_data,
        "metadata": {**results.get("metadata", {}), "front_matter": front_matter},
    }
    _replace_file(path, encode_json(results))


def _whole(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _replace_file(path: Path, content: bytes) -> None:
    """Never into a file that is there: others may have links to it."""
    if not path.exists():
        path.write_bytes(content)
        return
    unfinished = path.with_name(f".{uuid4().hex}")
    unfinished.write_bytes(content)
    unfinished.replace(path)
