"""Words assembled into lines."""

from secretary.media.speech.chunking import Span, clip_to_speech, group_into_lines
from secretary.media.speech.engines import TimedText


def spoken(text: str, *, seconds: float = 0.4) -> list[TimedText]:
    return [
        TimedText(at * seconds, (at + 1) * seconds, f" {word}")
        for at, word in enumerate(text.split())
    ]


def test_a_sentence_is_a_line() -> None:
    lines = group_into_lines(spoken("He came. She left."))
    assert lines == [TimedText(0.0, 0.8, "He came."), TimedText(0.8, 1.6, "She left.")]


def test_a_pause_ends_a_line() -> None:
    assert len(group_into_lines([TimedText(0.0, 0.4, " one"), TimedText(1.3, 1.7, " two")])) == 2
    assert len(group_into_lines([TimedText(0.0, 0.4, " one"), TimedText(1.0, 1.4, " two")])) == 1


def test_a_long_sentence_is_parted_at_a_comma() -> None:
    lines = group_into_lines(spoken("word " * 20 + "comma, and then some words more."))
    assert [line.text.split()[-1] for line in lines] == ["comma,", "more."]


def test_a_line_without_marks_has_an_end_too() -> None:
    assert all(line.end - line.start <= 13 for line in group_into_lines(spoken("on and " * 60)))


def test_marks_alone_are_nothing_said() -> None:
    assert group_into_lines([TimedText(0.0, 1.0, " ."), TimedText(1.0, 2.0, " .")]) == []


def test_a_word_that_reaches_into_silence_is_kept_to_its_speech() -> None:
    speech = [Span(1.0, 2.0), Span(6.0, 7.0)]
    words = [TimedText(0.0, 1.4, " He"), TimedText(1.4, 4.0, " came"), TimedText(4.0, 6.5, " She")]
    assert list(clip_to_speech(speech, words)) == [
        TimedText(1.0, 1.4, " He"), TimedText(1.4, 2.0, " came"), TimedText(6.0, 6.5, " She"),
    ]  # fmt: skip


def test_a_gap_within_a_word_does_not_shorten_it() -> None:
    speech = [Span(1.0, 1.3), Span(1.5, 2.0)]
    assert list(clip_to_speech(speech, [TimedText(1.0, 2.0, " library")])) == [
        TimedText(1.0, 2.0, " library")
    ]


def test_a_word_outside_of_all_speech_keeps_its_time() -> None:
    assert list(clip_to_speech([Span(1.0, 2.0)], [TimedText(3.0, 3.5, " oh")])) == [
        TimedText(3.0, 3.5, " oh")
    ]
