"""A Markdown parser reads from converted office files what the files say."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from secretary.documents.office.blocks import (
    Block,
    Code,
    Heading,
    Item,
    Paragraph,
    Run,
    Style,
    Table,
)
from secretary.documents.office.markdown import to_markdown

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
#: Characters with a meaning in Markdown, among letters.
TEXTS = st.text(alphabet="ab1 \\*_`[]()<>&;#~|!:^.-+=/\"'\u00e4", min_size=1, max_size=30).filter(
    lambda text: (
        text.strip()
        # What starts like a list item is one: lists typed by hand are lists too.
        and not re.match(r"\s*([-+*]|\d+[.)])(\s|$)", text)
    )
)
MARKS = st.tuples(st.booleans(), st.booleans(), st.booleans())
STYLES = MARKS.map(lambda marks: Style(*marks))


def shown(tokens: list[Token]) -> str:
    parts = []
    for token in tokens:
        if token.type in ("text", "code_inline", "fence", "code_block", "html_inline"):
            parts.append(token.content)
        elif token.type in ("softbreak", "hardbreak"):
            parts.append(" ")
        elif token.children:
            parts.append(shown(token.children))
    return "".join(parts)


def markdown_of(*blocks: Block) -> str:
    return " ".join(shown(READER.parse(to_markdown(blocks))).split())


def plain(text: str) -> str:
    return " ".join(text.split())


@given(TEXTS)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_a_text_stays_what_it_is(text: str) -> None:
    assert markdown_of(Paragraph([Run(text)])) == plain(text)
    assert markdown_of(Item(0, "-", [Run(text)])) == plain(text)
    assert markdown_of(Heading(2, [Run(text)])) == plain(text)


@given(TEXTS, TEXTS)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_cell_stays_what_it_is(one: str, two: str) -> None:
    table = Table([[[Paragraph([Run("h")])], [Paragraph([Run("h")])]],
                   [[Paragraph([Run(one)])], [Paragraph([Run(two)])]]])  # fmt: skip
    tokens = READER.parse(to_markdown([table]))
    cells = [plain(shown(each.children or [])) for each in tokens if each.type == "inline"]
    assert cells[2:] == [plain(one), plain(two)]


@given(st.lists(st.tuples(st.text("ab :(.*_\\", min_size=1, max_size=6), STYLES), max_size=6))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_marks_leave_the_text_alone(runs: list[tuple[str, Style]]) -> None:
    text = "".join(text for text, _ in runs)
    assert markdown_of(Paragraph([Run("x"), *(Run(*run) for run in runs)])) == plain("x" + text)


@pytest.mark.parametrize("text", ["a ` b", "``", "` `a", "a\\"])
def test_code_keeps_its_signs(text: str) -> None:
    assert markdown_of(Paragraph([Run(text, Style(code=True))])) == plain(text)
    assert markdown_of(Code(f"{text}\n```\nb")) == plain(f"{text} ``` b")
