"""Timestamps of transcriptions are repaired."""

import pytest

from secretary.llm.transcription import repair_timestamps

Segments = list[tuple[float, float, str]]


@pytest.mark.parametrize(
    ("segments", "reported"),
    [
        ([(0.5, 2, " Hello. "), (2, 3, "Bye.")], [(0.5, 2, "Hello."), (2, 3, "Bye.")]),
        # Whisper counts in windows, and rounds.
        ([(0, 4, "a"), (4, 30, "b")], [(0, 4, "a"), (4, 10, "b")]),
        ([(-0.2, 1, "a")], [(0, 1, "a")]),
        # One begins before the last one has ended, or with it.
        ([(0, 3, "a"), (2, 4, "b")], [(0, 2, "a"), (2, 4, "b")]),
        ([(1, 3, "a"), (1, 4, "b")], [(1, 4, "a b")]),
        # No length: until the next one begins, or the audio ends.
        ([(1, 1, "a"), (2, 3, "b")], [(1, 2, "a"), (2, 3, "b")]),
        ([(9, 9, "a")], [(9, 10, "a")]),
        ([(8, 9, "a"), (10.4, 11, "b")], [(8, 10, "a b")]),
        # Nothing is spoken.
        ([(0, 1, " "), (1, 2, "a\n b")], [(1, 2, "a b")]),
    ],
)
def test_small_errors_are_repaired(segments: Segments, reported: Segments) -> None:
    text = " ".join(text for _, _, text in segments)
    assert [tuple(each) for each in repair_timestamps(segments, text, 10)] == reported


@pytest.mark.parametrize(
    "segments",
    [
        [],
        [(-5, 1, "a"), (2, 3, "b")],
        [(0, 100, "a"), (3000, 4000, "b")],  # milliseconds
        [(5, 6, "a"), (1, 2, "b")],
        [(3, 2, "a"), (4, 5, "b")],
        [(10.5, 11, "a")],
    ],
)
def test_times_without_sense_make_one_piece_of_all(segments: Segments) -> None:
    assert repair_timestamps(segments, " a  b ", 10) == ((0, 10, "a b"),)


def test_silence_is_nothing() -> None:
    assert repair_timestamps([(0, 10, "  ")], " ", 10) == ()
