"""Markdown as HTML that is safe to open, and as plain text."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from secretary.documents.text_output import (
    TextOutput,
    render_html,
    render_text,
    update_text_output,
    write_text_output,
)

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "[a](javascript:alert(1))",
    "[a](JaVaScRiPt:alert(1))",
    "[a](java&#115;cript:alert(1))",
    "[a](&#x6A;avascript&colon;alert(1))",
    "[a](\x01javascript:alert(1))",
    "[a](vbscript:x)",
    "[a](data:text/html;base64,PHNjcmlwdD4=)",
    "[a](file:///etc/passwd)",
    "<javascript:alert(1)>",
    "![a](javascript:alert(1))",
    "![a](https://tracker.test/x.png)",
    '[a](https://x.test "\\" onmouseover=alert(1) \\"")',
    "[a]: javascript:alert(1)\n\n[a]",
    '```"><script>alert(1)</script>\nx\n```',
    "<!--\n-->\n<base href=//evil.test>",
    "| a |\n|---|\n| <iframe src=x> |",
    "<a href='https://x.test' onclick=alert(1)>x</a>",
]
PIECES = st.sampled_from(
    [*HOSTILE, "a", " ", "\n", "\n\n", "# ", "- ", "> ", "`", "**", "[", "](", ")", "<"]
)


@pytest.mark.parametrize("markdown", HOSTILE)
def test_nothing_runs_in_a_page(markdown: str) -> None:
    require_harmless(render_html(f"{markdown}\n\n# {markdown}\n"))


@settings(max_examples=50)
@given(st.lists(PIECES, max_size=12).map("".join))
def test_nothing_runs_in_a_page_however_it_is_put_together(markdown: str) -> None:
    require_harmless(render_html(markdown, title=markdown))
    assert render_text(markdown).endswith("\n")


def require_harmless(page: str) -> None:
    assert page.startswith("<!DOCTYPE html>") and page.endswith("</html>\n")
    root = etree.fromstring(page.encode(), etree.HTMLParser(encoding="utf-8"))
    assert {element.tag for element in root.iter()} <= {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "h4", "h5", "h6", "p",
        "a", "em", "strong", "s", "code", "pre", "ul", "ol", "li", "blockquote", "table", "thead",
        "tbody", "tr", "th", "td", "br", "hr",
    }  # fmt: skip
    for element in root.find("body").iter():
        assert set(element.keys()) <= {"href", "title", "class", "start", "style"}
        assert (
            element.get("href", "https://x").lower().startswith(("http://", "https://", "mailto:"))
        )
        assert element.get("style", "text-align:left").startswith("text-align:")


def test_a_page_has_its_title_and_language_and_no_front_matter() -> None:
    page = render_html("---\ntitle: A\nsecret: 1\n---\n\n# A & *B*\n\nc\n", language="de")
    assert '<html lang="de">' in page and "<title>A &amp; B</title>" in page
    assert "secret" not in page and "<h1>A &amp; <em>B</em></h1>" in page
    assert "<title>T</title>" in render_html("x", title="T")


def test_a_thematic_break_at_the_start_is_not_front_matter() -> None:
    assert render_text("---\n\nFirst\n\n---\n\nSecond\n") == "First\n\nSecond\n"


def test_plain_text_has_no_markup() -> None:
    markdown = (
        "# Head *line*\n\nA [link](https://a.test/x), <https://b.test> and [page](b.md).\n"
        "`code` ![Picture](x.png)\n\n- one\n  1. two\n  2. three\n- four\n\n  five\n\n"
        "| a | b |\n|---|---|\n| 1 | **2** |\n\n```\nx = 1\n```\n\n> said\n"
    )
    assert render_text(markdown) == (
        "Head line\n\nA link (https://a.test/x), https://b.test and page.\ncode Picture\n\n"
        "- one\n  1. two\n  2. three\n- four\n\n  five\n\na\tb\n1\t2\n\nx = 1\n\nsaid\n"
    )


def test_a_result_that_is_too_long_is_only_in_the_files(tmp_path: Path) -> None:
    long = "x" * (5 * 1024 * 1024)
    write_text_output(
        TextOutput(
            directory=str(tmp_path), markdown=long, structured_data=None, target_format="markdown"
        )
    )
    texts = json.loads((tmp_path / "texts.json").read_text())
    assert texts == {"text": None, "markdown_content": None, "structured_data": None}
    assert (tmp_path / "result.md").read_text() == long


def test_linked_files_are_replaced_rather_than_overwritten(tmp_path: Path) -> None:
    stored, shown = tmp_path / "kept", tmp_path / "shown"
    shown.mkdir()
    stored.write_text('{"extracted_text": "x", "markdown_content": "y"}')
    (shown / "texts.json").hardlink_to(stored)
    update_text_output(str(shown), "# New", structured_data={"a": 1}, front_matter={"b": 2})
    assert json.loads((shown / "texts.json").read_text()) == {
        "extracted_text": "x",
        "markdown_content": "# New",
        "structured_data": {"a": 1},
        "metadata": {"front_matter": {"b": 2}},
    }
    assert json.loads(stored.read_text())["markdown_content"] == "y"
