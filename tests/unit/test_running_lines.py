"""Lines that come back at the edges of pages."""

from secretary.documents.assembly import find_headers_footers, strip_headers_footers


def cleaned(pages: list[str]) -> list[str]:
    lines = find_headers_footers(pages)
    return [strip_headers_footers(page, lines) for page in pages]


def test_a_line_at_the_head_of_three_pages_is_left_out() -> None:
    texts = [f"Of all the texts this is the one that says {word}." for word in ("a", "b", "c")]
    pages = [f"The ledger, page {n}\n\n{text}" for n, text in enumerate(texts)]
    assert cleaned(pages) == texts


def test_pages_that_are_all_alike_are_left_alone() -> None:
    pages = [f"Ticket {n}\n\nAdmit one" for n in range(9)]
    assert cleaned(pages) == pages


def test_a_line_on_two_pages_stays() -> None:
    pages = ["The ledger\n\nOne.", "The ledger\n\nTwo.", "Three."]
    assert cleaned(pages) == pages


def test_numbered_chapters_are_no_running_lines() -> None:
    pages = [f"# Chapter {n}\n\nText {word} here." for n, word in enumerate(("a", "b", "c"))]
    assert cleaned(pages) == pages


def test_a_heading_on_every_page_is_one() -> None:
    pages = [f"# The ledger\n\nText {word} here, at length." for word in ("a", "b", "c")]
    assert cleaned(pages) == [f"Text {word} here, at length." for word in ("a", "b", "c")]


def test_one_on_some_pages_that_follow_each_other_is_none() -> None:
    texts = [f"Text {letter} here, at length." for letter in "abcdefghi"]
    pages = [f"# Results\n\n{text}" if n < 4 else text for n, text in enumerate(texts)]
    assert cleaned(pages) == pages


def test_a_line_that_comes_back_now_and_then_stays() -> None:
    texts = [f"Text {letter} here, at length." for letter in "abcdefghijklmnopqrst"]
    pages = [f"Summary\n\n{text}" if n % 5 == 0 else text for n, text in enumerate(texts)]
    assert cleaned(pages) == pages


def test_left_and_right_pages_may_differ() -> None:
    texts = [f"Text {letter} here, at length." for letter in "abcdefgh"]
    heads = ("The book", "The chapter")
    pages = [f"{heads[n % 2]}\n\n{text}" for n, text in enumerate(texts)]
    assert cleaned(pages) == texts


def test_tables_and_items_are_never_left_out() -> None:
    pages = ["- an item\n\n| a | b |\n| --- | --- |"] * 5
    assert cleaned(pages) == pages


def test_text_in_the_midst_of_pages_stays() -> None:
    pages = [f"Head {w}.\n\nSecond {w}.\n\nThe same.\n\nLast {w}.\n\nFoot {w}." for w in "abc"]
    assert cleaned(pages) == pages
