"""How the pages of a document are distributed over processes."""

import pytest

from secretary.core.errors import InvalidParameters
from secretary.handlers.document_pipeline import (
    NATIVE_BATCH,
    OCR_BATCH,
    RENDERED_BATCH,
    select_pages,
    split_into_batches,
)


@pytest.mark.parametrize("count", [1, 7, 15, 16, 17, 64, 65, 72, 200, 5000])
@pytest.mark.parametrize("workers", [1, 2, 3, 16])
@pytest.mark.parametrize("most", [OCR_BATCH, RENDERED_BATCH, NATIVE_BATCH])
def test_every_page_is_in_exactly_one_batch(count: int, workers: int, most: int) -> None:
    numbers = range(1, count + 1)
    pieces = list(split_into_batches(numbers, workers, most))
    assert [number for piece in pieces for number in piece] == list(numbers)
    assert all(0 < len(piece) <= 2 * most for piece in pieces)


def test_one_process_gets_large_batches() -> None:
    assert [len(piece) for piece in split_into_batches(range(200), 1, NATIVE_BATCH)] == [64, 64, 72]


def test_several_get_smaller_ones_towards_the_end() -> None:
    sizes = [len(piece) for piece in split_into_batches(range(200), 2, NATIVE_BATCH)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 50
    assert sizes[-1] <= 24


def test_each_ocr_page_is_a_batch_of_its_own() -> None:
    assert [len(piece) for piece in split_into_batches(range(5), 2, OCR_BATCH)] == [1] * 5


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (None, None, range(1, 4)),
        (2, None, range(2, 4)),
        (None, 1, range(1, 2)),
        (3, 99, range(3, 4)),
    ],
)
def test_the_pages_that_are_asked_for(first: int | None, last: int | None, expected: range) -> None:
    assert select_pages(first, last, 3) == expected


@pytest.mark.parametrize(("first", "last"), [(4, None), (3, 2)])
def test_pages_that_are_not_there_are_an_error(first: int, last: int | None) -> None:
    with pytest.raises(InvalidParameters, match="3 pages"):
        select_pages(first, last, 3)
