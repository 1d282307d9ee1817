"""Cleanup of letters and words."""

import pytest

from secretary.documents.pdf.layout.rows import parse_list_marker
from secretary.documents.pdf.layout.runs import clean_text, is_clean, join_lines


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("of\ufb01ce", "office"),
        ("Wort\u00adende", "Wortende"),
        ("a\u00a0b\u2009c", "a b c"),
        ("a\x00b\x07c", "abc"),
        ("\uf0b7 item", "\u2022 item"),
    ],
)
def test_what_no_one_typed_is_replaced(text: str, cleaned: str) -> None:
    assert not is_clean(text)
    assert clean_text(text) == cleaned


@pytest.mark.parametrize(
    "text", ["plain", "Größe", "שלום עולם", "مرحبا", "漢字かな", "two\r\nlines"]
)
def test_what_was_typed_stays(text: str) -> None:
    assert is_clean(text)


@pytest.mark.parametrize(
    ("before", "after", "hyphenated", "whole"),
    [
        ("a word", "and another", False, "a word and another"),
        ("impor", "tance", True, "importance"),
        ("impor-", "tance", False, "importance"),
        ("well", "known", True, "well-known"),
        ("Baden", "Baden", True, "Baden-Baden"),
        ("mother-in", "law", True, "mother-in-law"),
        ("1990", "1995", True, "1990-1995"),
        ("see https://example.org/", "path/to", False, "see https://example.org/path/to"),
        ("漢字", "かな", False, "漢字かな"),
    ],
)
def test_lines_are_joined_to_words(before: str, after: str, hyphenated: bool, whole: str) -> None:
    assert join_lines(before, after, hyphenated) == whole


@pytest.mark.parametrize(
    ("text", "marker"),
    [
        ("\u2022 apples", ("-", "apples")),
        ("\u2013 apples", ("-", "apples")),
        ("3. apples", ("3.", "apples")),
        ("12) apples", ("12.", "apples")),
        ("(b) apples", ("- (b)", "apples")),
        ("A. Miller", None),
        ("1990 was dry", None),
        ("3.5 tons", None),
        ("plain", None),
    ],
)
def test_list_items_are_detected_by_their_markers(
    text: str, marker: tuple[str, str] | None
) -> None:
    assert parse_list_marker(text) == marker
