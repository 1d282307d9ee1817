"""The text of PDFs, whole and torn."""

from pathlib import Path

import pytest

from secretary.errors import FileCorrupt, InvalidParameters
from secretary.processors.pdf.reading import PdfText, read_text

from ..documents import pdf


@pytest.fixture
def three_pages(tmp_path: Path) -> str:
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf("One", "Two", "Three"))
    return str(path)


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (None, None, [(1, "One"), (2, "Two"), (3, "Three")]),
        (2, None, [(2, "Two"), (3, "Three")]),
        (None, 1, [(1, "One")]),
        (3, 99, [(3, "Three")]),
    ],
)
def test_the_pages_that_are_asked_for_are_read(
    three_pages: str, first: int | None, last: int | None, expected: list[tuple[int, str]]
) -> None:
    assert read_text(three_pages, None, first, last) == PdfText(3, expected)


@pytest.mark.parametrize(("first", "last"), [(4, None), (3, 2)])
def test_pages_that_are_not_there_are_refused(
    three_pages: str, first: int, last: int | None
) -> None:
    with pytest.raises(InvalidParameters, match="3 pages"):
        read_text(three_pages, None, first, last)


@pytest.mark.parametrize("content", [b"", b"%PDF-1.4", b"PK\x03\x04", b"%PDF-1.4\n" + bytes(999)])
def test_a_torn_file_says_so(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(content)
    with pytest.raises(FileCorrupt):
        read_text(str(path), None, None, None)
