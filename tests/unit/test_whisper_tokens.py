"""Tokens assembled into words, with loops removed."""

from secretary.media.speech.engines import TimedText
from secretary.media.speech.whisper import _byte_of, is_loop, without_loops, words


def token(text: str, start: float, end: float) -> TimedText:
    return TimedText(start, end, text)


def test_marks_have_no_time_of_their_own() -> None:
    tokens = [token("ĠYes", 1.0, 1.5), token(".", 1.5, 9.0), token("ĠNo", 9.0, 9.5)]
    assert words(tokens) == [TimedText(1.0, 1.5, " Yes."), TimedText(9.0, 9.5, " No")]


def test_a_word_of_several_tokens_is_one() -> None:
    tokens = [token("Ġinc", 0.0, 0.3), token("red", 0.3, 0.5), token("ulity", 0.5, 0.9)]
    assert words(tokens) == [TimedText(0.0, 0.9, " incredulity")]


def test_letters_of_several_bytes_are_put_together() -> None:
    assert words([token("ĠGr", 0, 1), token("Ã¼", 1, 2), token("ÃŁe", 2, 3)])[0].text == " Grüße"


def test_signs_without_spaces_are_words() -> None:
    shown = {byte: letter for letter, byte in _byte_of().items()}
    tokens = [
        token("".join(shown[byte] for byte in part), at, at + 1)
        for at, part in enumerate(
            ["今天".encode(), "好".encode()[:2], "好".encode()[2:], "。".encode()]
        )
    ]
    assert words(tokens) == [TimedText(0, 1, "今天"), TimedText(1, 3, "好。")]


def test_a_loop_is_left_once() -> None:
    tokens = (1, 2, *(3, 4, 5) * 20, 6)
    assert is_loop(tokens)
    assert without_loops(tokens) == (1, 2, 3, 4, 5, 6)


def test_what_people_say_twice_is_no_loop() -> None:
    for tokens in [(7,) * 6, (1, 2, 3, 4) * 2, (1, 2, 3, 9, 1, 2, 3, 8, 1, 2, 3, 7)]:
        assert not is_loop(tokens)
        assert without_loops(tokens) == tokens
