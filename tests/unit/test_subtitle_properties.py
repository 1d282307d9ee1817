"""Written subtitles are read back unchanged."""

import itertools
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from secretary.core.json_codec import clean_text
from secretary.media.speech.engines import TimedText, Transcription
from secretary.media.subtitles import (
    LINE_LENGTH,
    LINES,
    as_srt,
    as_vtt,
    format_timestamp,
    parse_subtitles,
)
from secretary.media.transcript import decode_record, encode_record

from ..strategies import TEXT

#: Words as an engine returns them, and some that look like the formats themselves. Without braces,
#: which readers remove as markup of older formats.
LETTERS = st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"], exclude_characters="{")
LIKE_FORMATS = ("-->", "<i>a</i>", "&lt;", "&amp;lt;", "WEBVTT", "NOTE", "1", "00:00:01.000", "<")
WORDS = st.lists(
    st.text(LETTERS, min_size=1, max_size=12)
    | st.sampled_from((*LIKE_FORMATS, ">", "&", "STYLE", "a<b", "<v Ann>")),
    min_size=1,
    max_size=30,
)


@st.composite
def spoken(draw: st.DrawFn) -> list[TimedText]:
    segments, at = [], 0.0
    for words in draw(st.lists(WORDS, min_size=1, max_size=5)):
        start = at + draw(st.floats(0, 50_000))
        at = start + draw(st.floats(0.5, 60))
        segments.append(TimedText(start, at, " ".join(words)))
    return segments


@given(spoken())
def test_what_is_written_as_webvtt_is_read_again(segments: list[TimedText]) -> None:
    text = "".join(as_vtt(segments))
    again = parse_subtitles(text)
    assert words_of(again) == words_of(segments)
    assert again[0].start == round_to_milliseconds(segments[0].start)
    assert all(one.start <= one.end for one in again)
    assert all(before.start <= after.start for before, after in itertools.pairwise(again))


def test_a_word_with_a_hyphen_is_not_split_at_the_end_of_a_line() -> None:
    text = "Some twenty-five letters and then a state-of-the-art machine follows"
    again = parse_subtitles("".join(as_vtt([TimedText(0.0, 9.0, text)])))
    assert words_of(again) == text.split()


@given(spoken())
def test_each_screen_fits_and_takes_its_time(segments: list[TimedText]) -> None:
    for text in ("".join(as_srt(segments)), "".join(as_vtt(segments)).removeprefix("WEBVTT\n\n")):
        for screen in text.strip("\n").split("\n\n"):
            lines = screen.splitlines()
            times = next(index for index, line in enumerate(lines) if " --> " in line)
            assert times <= 1
            shown = lines[times + 1 :]
            assert 1 <= len(shown) <= LINES
            assert "-->" not in "".join(shown)
            begins, _, ends = lines[times].partition(" --> ")
            assert begins < ends or len(begins) != len(ends)
    srt_lines = "".join(as_srt(segments)).splitlines()
    assert all(len(line) <= LINE_LENGTH for line in srt_lines if " --> " not in line)


@given(st.floats(0, 4e6))
def test_a_time_is_written_to_the_millisecond(seconds: float) -> None:
    hours, minutes, rest = format_timestamp(seconds).split(":")
    assert abs(int(hours) * 3600 + int(minutes) * 60 + float(rest) - seconds) <= 0.0005 + 1e-6
    assert float(rest) < 60 and int(minutes) < 60


@given(st.lists(st.builds(TimedText, st.floats(0, 1e6), st.floats(0, 1e6), TEXT), max_size=4), TEXT)
def test_a_transcription_is_stored_unchanged_but_for_control_characters(
    segments: list[TimedText], language: str
) -> None:
    transcription = Transcription(segments=tuple(segments), language=language, confidence=0.5)
    stored = decode_record(encode_record(transcription))
    cleaned = [one._replace(text=clean_text(one.text)) for one in segments]
    assert stored == replace(transcription, segments=tuple(cleaned))


def words_of(segments: list[TimedText]) -> list[str]:
    return " ".join(one.text for one in segments).split()


def round_to_milliseconds(seconds: float) -> float:
    return round(seconds * 1000) / 1000
