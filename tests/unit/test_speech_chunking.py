"""How a recording is split into chunks."""

import random
from itertools import pairwise

from secretary.media.speech.chunking import (
    LONGEST,
    Chunk,
    Span,
    Window,
    build_chunks,
)


def windows(*speech: tuple[float, float], duration: float = 10_000.0) -> list[Window]:
    pieces = build_chunks(duration, [Span(*span) for span in speech])
    assert [piece.number for piece in pieces] == list(range(len(pieces)))
    return [window for piece in pieces for window in piece.windows]


def test_without_speech_there_are_no_chunks() -> None:
    assert build_chunks(3600.0, []) == []


def test_a_little_of_the_pause_stays_on_both_sides() -> None:
    assert windows((5.0, 8.0)) == [Window(4.7, 8.3, (Span(5.0, 8.0),))]


def test_nothing_reaches_out_of_the_recording() -> None:
    (only,) = windows((0.1, 3.0), duration=3.1)
    assert (only.start, round(only.end, 2)) == (0.0, 3.1)


def test_a_short_pause_does_not_part() -> None:
    assert len(windows((0.0, 5.0), (8.0, 12.0))) == 1


def test_long_silence_is_left_out() -> None:
    first, second = windows((10.0, 15.0), (100.0, 105.0))
    assert (first.end, second.start) == (15.3, 99.7)


def test_a_full_window_ends_at_its_longest_late_pause() -> None:
    first, second = windows((0.0, 8.0), (10.0, 20.0), (21.0, 26.0), (26.2, 28.0), (28.1, 33.0))
    assert len(first.speech) == 2
    assert first.end < second.start


def test_speech_without_pauses_is_cut_without_a_gap() -> None:
    first, second = windows((0.0, 14.0), (14.0, 28.0), (28.0, 40.0))
    assert first.end == second.start == 28.0


def test_chunks_consist_of_several_windows() -> None:
    pieces = build_chunks(1000.0, [Span(at, at + 9.0) for at in range(0, 1000, 10)])
    sizes = [len(piece.windows) for piece in pieces]
    assert set(sizes[:-4]) == {4}
    assert sizes == sorted(sizes, reverse=True), (
        "small ones last, so that all processes finish together"
    )
    assert pieces[0].start == 0.0 and pieces[0].end == pieces[0].windows[-1].end


def test_all_speech_is_in_some_window_once_and_in_order() -> None:
    chance = random.Random(1)
    for _ in range(200):
        spans, at = [], 0.0
        for _ in range(chance.randrange(1, 200)):
            at += chance.choice([0.0, 0.12, 0.5, 2.0, 30.0])
            spans.append((at, at + chance.uniform(0.1, 14.0)))
            at = spans[-1][1]
        chunks = windows(*spans, duration=at)
        assert [span for window in chunks for span in window.speech] == spans
        assert all(window.end - window.start <= LONGEST + 1e-9 for window in chunks)
        assert all(one.end <= other.start for one, other in pairwise(chunks))
        for window in chunks:
            assert window.start <= window.speech[0].start
            assert window.end >= window.speech[-1].end


def test_a_piece_knows_how_long_it_is() -> None:
    window = Window(1.0, 4.0, (Span(1.2, 2.2), Span(3.0, 3.5)))
    assert Chunk(0, (window,)).end == 4.0
    assert Chunk(0, (window,)).seconds == 3.0
