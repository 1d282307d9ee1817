"""Markdown as a page that is safe to open, and as plain text."""

import html
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

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


def as_html(markdown: str, *, title: str | None = None, language: str | None = None) -> str:
    """A whole page. HTML in the Markdown is shown as the text it is; pictures are told by their
    descriptions, because to fetch one tells somebody that the page was opened."""
    reader = _reader()
    tokens = reader.parse(without_front_matter(markdown))
    named = title or _first_heading(tokens) or "Document"
    lang = f' lang="{html.escape(language)}"' if language else ""
    body = reader.renderer.render(tokens, reader.options, {})
    return PAGE.format(lang=lang, title=html.escape(named[:LONGEST_TITLE]), body=body)


def as_text(markdown: str) -> str:
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
