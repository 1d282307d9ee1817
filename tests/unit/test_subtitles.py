"""Subtitles are read from the existing formats, and written so that players show them."""

import contextlib
import itertools
import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secretary.core.errors import FileCorrupt, FileTooLarge
from secretary.media.speech.engines import TimedText
from secretary.media.subtitles import MAX_BYTES, as_srt, as_vtt, format_timestamp, parse_subtitles

VTT = """WEBVTT - made by someone
Kind: captions

STYLE
::cue { color: white }

NOTE a note
of two lines

intro
00:01.000 --> 00:02.500 align:start position:0%
<v Anna>Hello, <i>world</i> &amp; all

01:00:03.000 --> 01:00:04.000
Line one
line two
"""
SRT = (
    "\ufeff1\r\n00:00:01,000 --> 00:00:02,500\r\n{\\an8}<b>Hello</b>\r\n\r\n"
    "2\r\n00:00:03,5 --> 00:00:04,25\r\nagain\r\n"
)


class TestReading:
    def test_webvtt_with_styles_notes_names_and_tags(self) -> None:
        assert parse_subtitles(VTT) == [
            TimedText(1.0, 2.5, "Hello, world & all"),
            TimedText(3603.0, 3604.0, "Line one line two"),
        ]

    def test_subrip_with_tags_and_short_fractions(self) -> None:
        assert parse_subtitles(SRT) == [TimedText(1.0, 2.5, "Hello"), TimedText(3.5, 4.25, "again")]

    def test_captions_that_roll_up_say_each_line_once(self) -> None:
        rolling = (
            "WEBVTT\n\n00:00.000 --> 00:02.000\nfirst line\n\n"
            "00:02.000 --> 00:04.000\nfirst line\nsecond line\n\n"
            "00:04.000 --> 00:04.010\nsecond line\n\n"
            "00:04.010 --> 00:06.000\nsecond line\nthird line\n"
        )
        texts = [segments.text for segments in parse_subtitles(rolling)]
        assert texts == ["first line", "second line", "third line"]

    def test_cues_are_sorted_and_never_end_before_they_begin(self) -> None:
        text = "00:05.000 --> 00:01.000\nlater\n\n00:01.000 --> 00:02.000\nearlier\n"
        assert parse_subtitles(text) == [
            TimedText(1.0, 2.0, "earlier"),
            TimedText(5.0, 5.0, "later"),
        ]

    @pytest.mark.parametrize("text", ["", "WEBVTT\n\n", "just a text\nof two lines"])
    def test_what_holds_none_is_refused(self, text: str) -> None:
        with pytest.raises(FileCorrupt):
            parse_subtitles(text)

    def test_what_is_too_large_is_refused(self) -> None:
        with pytest.raises(FileTooLarge):
            parse_subtitles("x" * (MAX_BYTES + 1))

    @pytest.mark.timeout(20)
    @pytest.mark.parametrize(
        "part", ["<", "{\\", "00:00:00", "1:1:1,1 --> ", "\n", "-->", "&#", "<i", " "]
    )
    def test_hostile_text_takes_no_time(self, part: str) -> None:
        text = "00:01.000 --> 00:02.000\n" + part * (1_000_000 // len(part)) + "\nx\n"
        with contextlib.suppress(FileCorrupt):
            parse_subtitles(text)

    @given(st.text(max_size=300))
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        try:
            segments = parse_subtitles(text)
        except FileCorrupt:
            return
        assert all(one.start <= one.end and one.text for one in segments)


sentences = st.lists(
    st.tuples(
        st.floats(0, 100_000).map(lambda value: round(value, 3)),
        st.floats(0.01, 30),
        st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=300),
    ),
    min_size=1,
    max_size=5,
).map(
    lambda parts: [
        TimedText(start, start + length, " ".join(text.split())) for start, length, text in parts
    ]
)


class TestWriting:
    def test_a_short_sentence_is_one_screen(self) -> None:
        segments = [TimedText(0.5, 61.25, "Tom & Jerry --> <b>")]
        assert "".join(as_vtt(segments)) == (
            "WEBVTT\n\n00:00:00.500 --> 00:01:01.250\nTom &amp; Jerry --&gt; &lt;b&gt;\n\n"
        )
        assert "".join(as_srt(segments)) == (
            "1\n00:00:00,500 --> 00:01:01,250\nTom & Jerry -> <b>\n\n"
        )

    def test_a_long_one_becomes_several_that_follow_each_other(self) -> None:
        text = " ".join(f"word{number}" for number in range(60))
        cues = parse_subtitles("".join(as_vtt([TimedText(10.0, 40.0, text)])))
        assert len(cues) > 3
        assert (cues[0].start, cues[-1].end) == (10.0, 40.0)
        assert all(one.end == other.start for one, other in itertools.pairwise(cues))
        assert " ".join(cue.text for cue in cues) == text

    @given(sentences)
    def test_what_is_written_has_the_words_of_what_was_said(
        self, segments: list[TimedText]
    ) -> None:
        written = "".join(as_vtt(segments))
        text = "".join(" ".join(one.text.split()) for one in segments)
        lines = [line for line in written.splitlines()[1:] if line and " --> " not in line]
        assert re.sub(r"\s", "", unescape("".join(lines))) == re.sub(r"\s", "", text)

    def test_times_are_written_to_the_millisecond(self) -> None:
        assert format_timestamp(3661.0004) == "01:01:01.000"
        assert format_timestamp(59.9996) == "00:01:00.000"
        assert format_timestamp(360_000) == "100:00:00.000"
