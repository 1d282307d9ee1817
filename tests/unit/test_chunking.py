"""Chunks of Markdown: positions, overlap, headings, and that no text is lost."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secretary.documents.chunking import chunk_markdown

MANUAL = """\
# Manual

Read this first. It matters.

## Safety

Keep away from water. Never open the case.

### Children

Not for children under three years.

## Use

Press the button.
"""

markdown = st.lists(
    st.sampled_from(
        ["# Title\n", "## Part\n\n", "One sentence. ", "word ", "\n", "\n\n", "```\ncode\n```\n",
         "日本語。", "😀", "\r\n", "- item\n", "| a | b |\n", "x" * 40, " " * 30]
    ),
    min_size=1, max_size=60,
).map("".join)  # fmt: skip


@pytest.mark.parametrize("text", ["Short.", "# Only\n\nOne.", "  \n x \n", MANUAL])
def test_a_text_that_fits_is_exactly_one_chunk(text: str) -> None:
    for size in (len(text), len(text) + 100):
        (chunk,) = chunk_markdown(text, size=size)
        assert (chunk.text, chunk.start, chunk.end) == (text, 0, len(text))


def test_chunks_begin_at_headings_and_know_those_above_them() -> None:
    chunks = chunk_markdown(MANUAL, size=80)
    assert [(chunk.text.split("\n")[0], chunk.heading_context) for chunk in chunks] == [
        ("# Manual", "Manual"),
        ("## Safety", "Manual > Safety"),
        ("### Children", "Manual > Safety > Children"),
    ]
    assert chunks[-1].text.endswith("## Use\n\nPress the button.\n")


def test_text_before_the_first_heading_has_no_context() -> None:
    first, second = chunk_markdown("Before it.\n\n# One\n\nAfter it.", size=20)
    assert (first.heading_context, second.heading_context) == (None, "One")


def test_an_overlap_begins_with_a_sentence() -> None:
    text = "The first is here. The second is here. The third is here. The fourth is here."
    chunks = chunk_markdown(text, size=45, overlap=25)
    assert [chunk.text.strip() for chunk in chunks] == [
        "The first is here. The second is here.",
        "The second is here. The third is here.",
        "The third is here. The fourth is here.",
    ]


def test_a_new_section_repeats_nothing_of_the_one_before() -> None:
    text = "# One\n\n" + "word " * 10 + "\n\n# Two\n\n" + "text " * 10
    first, second = chunk_markdown(text, size=100, overlap=30)
    assert first.text.startswith("# One") and second.text.startswith("# Two")


def test_a_heading_before_a_long_paragraph_is_no_chunk_of_its_own() -> None:
    first, *_ = chunk_markdown("# One\n\n" + "word " * 30, size=100, overlap=30)
    assert first.text.startswith("# One\n\nword word")


def test_an_overlap_as_large_as_the_chunk_is_refused() -> None:
    with pytest.raises(ValueError, match="overlap"):
        chunk_markdown("x", size=10, overlap=10)


@given(markdown, st.integers(1, 80), st.data())
def test_chunks_are_slices_that_cover_all_text(text: str, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    chunks = chunk_markdown(text, size=size, overlap=overlap)
    covered = 0
    for chunk in chunks:
        assert chunk.text == text[chunk.start : chunk.end]
        assert len(chunk.text) <= max(size, 1) and chunk.text.strip()
        assert not text[covered : chunk.start].strip()
        assert chunk.end > covered
        covered = chunk.end
    assert not text[covered:].strip()


@given(markdown, st.integers(1, 80))
def test_without_overlap_no_text_is_repeated(text: str, size: int) -> None:
    chunks = chunk_markdown(text, size=size)
    assert all(one.end <= other.start for one, other in pairwise(chunks))


def test_a_long_text_without_any_break_is_split_quickly() -> None:
    chunks = chunk_markdown("x" * 1_000_000, size=1000, overlap=200)
    assert len(chunks) == 1250
    chunks = chunk_markdown("a\n\n" * 300_000, size=2_000_000)
    assert len(chunks) == 1
    assert len(chunk_markdown("a\n\n" * 300_000, size=500_000)) == 2
