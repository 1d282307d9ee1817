"""Long texts are split where it hurts least, and nothing is lost."""

from hypothesis import given, settings
from hypothesis import strategies as st

from secretary.documents.markdown import estimate_tokens, split_blocks, split_text

LINES = st.sampled_from(
    [
        "# A",
        "## B",
        "words here. More of them!",
        "",
        "```",
        "~~~",
        "| a | b |",
        "- x",
        "---",
        "äö" * 30,
    ]
)


@settings(max_examples=60)
@given(st.lists(LINES, max_size=30).map("\n".join) | st.text(), st.integers(4, 60))
def test_parts_join_to_the_text_and_none_is_too_long(text: str, most: int) -> None:
    parts = split_text(text, most)
    assert "".join(parts) == text
    assert all(estimate_tokens(part) <= most for part in parts)


def test_a_text_that_fits_is_one_part() -> None:
    assert split_text("# A\n\nb\n", 100) == ["# A\n\nb\n"]
    assert split_text("", 100) == []


def test_text_is_split_at_the_highest_heading() -> None:
    first = "# One\n\n" + "Words of it. " * 12 + "\n\n"
    second = "# Two\n\n" + "Words of it. " * 4 + "\n\n## Below\n\n" + "Words. " * 4 + "\n\n"
    third = "Words. " * 20
    assert split_text(first + second + third, 95) == [first, second + third]


def test_no_part_ends_with_a_heading() -> None:
    text = "Words. " * 20 + "\n\n## Head\n\n" + "Words. " * 20
    first, second = split_text(text, 55)
    assert first.endswith("Words. \n\n")
    assert second.startswith("## Head")


def test_code_blocks_and_table_rows_are_not_split() -> None:
    code = "```py\n# not a heading\n\nx = 1\n```\n\n"
    text = "Words. " * 8 + "\n\n" + code + "Words. " * 8 + "\n"
    assert any(code in part for part in split_text(text, 25))
    rows = "".join(f"| {number} | a cell |\n" for number in range(20))
    assert all(part.endswith("|\n") and part.startswith("|") for part in split_text(rows, 20))


def test_a_long_paragraph_is_split_after_a_sentence() -> None:
    parts = split_text("One sentence is here. " * 30, 40)
    assert len(parts) > 3
    assert all(part.rstrip().endswith(".") for part in parts)


def test_front_matter_and_code_are_marked_as_code() -> None:
    text = "---\nid: 7\n---\n# A\n\nb\n\n~~~\nc\n~~~\n"
    assert [(piece.text, piece.level, piece.is_code) for piece in split_blocks(text, 100)] == [
        ("---\nid: 7\n---\n", 0, True),
        ("# A\n\n", 1, False),
        ("b\n\n", 0, False),
        ("~~~\nc\n~~~\n", 0, True),
    ]
