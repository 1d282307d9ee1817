"""Lines that are repeated at the edges of pages."""

from secretary.documents.assembly import find_headers_footers, strip_headers_footers


def cleaned(pages: list[str]) -> list[str]:
    lines = find_headers_footers(pages)
    return [strip_headers_footers(page, lines) for page in pages]


def test_a_header_on_three_pages_is_stripped() -> None:
    texts = [f"Of all the texts this is the one that says {word}." for word in ("a", "b", "c")]
    pages = [f"The ledger, page {n}\n\n{text}" for n, text in enumerate(texts)]
    assert cleaned(pages) == texts


def test_identical_pages_are_kept() -> None:
    pages = [f"Ticket {n}\n\nAdmit one" for n in range(9)]
    assert cleaned(pages) == pages


def test_a_line_on_two_pages_is_kept() -> None:
    pages = ["The ledger\n\nOne.", "The ledger\n\nTwo.", "Three."]
    assert cleaned(pages) == pages


def test_numbered_chapters_are_not_headers() -> None:
    pages = [f"# Chapter {n}\n\nText {word} here." for n, word in enumerate(("a", "b", "c"))]
    assert cleaned(pages) == pages


def test_a_heading_on_every_page_is_a_header() -> None:
    pages = [f"# The ledger\n\nText {word} here, at length." for word in ("a", "b", "c")]
    assert cleaned(pages) == [f"Text {word} here, at length." for word in ("a", "b", "c")]


def test_a_heading_on_some_consecutive_pages_is_kept() -> None:
    texts = [f"Text {letter} here, at length." for letter in "abcdefghi"]
    pages = [f"# Results\n\n{text}" if n < 4 else text for n, text in enumerate(texts)]
    assert cleaned(pages) == pages


def test_a_line_on_scattered_pages_is_kept() -> None:
    texts = [f"Text {letter} here, at length." for letter in "abcdefghijklmnopqrst"]
    pages = [f"Summary\n\n{text}" if n % 5 == 0 else text for n, text in enumerate(texts)]
    assert cleaned(pages) == pages


def test_left_and_right_pages_may_have_different_headers() -> None:
    texts = [f"Text {letter} here, at length." for letter in "abcdefgh"]
    heads = ("The book", "The chapter")
    pages = [f"{heads[n % 2]}\n\n{text}" for n, text in enumerate(texts)]
    assert cleaned(pages) == texts


def test_tables_and_list_items_are_kept() -> None:
    pages = ["- an item\n\n| a | b |\n| --- | --- |"] * 5
    assert cleaned(pages) == pages


def test_text_in_the_middle_of_pages_is_kept() -> None:
    pages = [f"Head {w}.\n\nSecond {w}.\n\nThe same.\n\nLast {w}.\n\nFoot {w}." for w in "abc"]
    assert cleaned(pages) == pages
