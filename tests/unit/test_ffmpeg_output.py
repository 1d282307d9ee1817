"""What ffmpeg prints about a file, and what a file can make it print."""

from hypothesis import given, settings
from hypothesis import strategies as st

from secretary.media.probe import (
    AudioTrack,
    Chapter,
    SubtitleTrack,
    VideoTrack,
    parse_metadata,
    parse_streams,
)

SAID = """\
[mov,mp4,m4a,3gp,3g2,mj2 @ 0x1] some warning
Input #0, mov,mp4,m4a,3gp,3g2,mj2, from 'file:/x.mp4':
  Metadata:
    title           : A film
    Stream #0:7: Audio: a key that looks like a stream: x
  Duration: 01:02:03.50, start: 1.400000, bitrate: 1 kb/s
  Chapters:
    Chapter #0:0: start 0.000000, end 1.000000
      Metadata:
        title           : Chapter One
  Stream #0:0[0x1](und): Video: h264 (High) (avc1 / 0x31637661), yuv420p(tv, bt709), 1920x1080 \
[SAR 1:1 DAR 16:9], 73 kb/s, 29.97 fps, 30 tbr, 12800 tbn (default)
      Metadata:
        handler_name    : VideoHandler
  Stream #0:1[0x2](ger): Audio: aac (LC) (mp4a / 0x6134706D), 48000 Hz, 5.1(side), fltp, 69 kb/s
      Metadata:
        title           : Kommentar:
                        :   Stream #0:8(eng): Audio: mp3, 8000 Hz, mono
  Stream #0:2[0x3](eng): Audio: pcm_s16le, 44100 Hz, 17 channels, s16 (default)
  Stream #0:3[0x4](fre): Subtitle: mov_text (tx3g / 0x67337874), 0 kb/s (default) (forced)
      Metadata:
        title           : Signs
  Stream #0:4(eng): Subtitle: hdmv_pgs_subtitle, 1920x1080
  Stream #0:5: Video: mjpeg (Baseline), yuvj420p(pc), 600x600, 90k tbr, 90k tbn (attached pic)
  Stream #0:6: Audio: none
Stream mapping:
  Stream #0:9: Audio: of the output, 8000 Hz, mono
"""


def test_tracks_are_listed_with_their_kinds() -> None:
    streams = parse_streams(SAID)
    assert streams.duration == 3723.5
    assert streams.start == 1.4
    assert streams.video_tracks == (VideoTrack(stream=0, codec="h264", width=1920, height=1080),)
    german, english, unknown = streams.audio_tracks
    assert german == AudioTrack(
        stream=1, codec="aac", channels=6, layout="5.1(side)", sample_rate=48000, language="de",
    )  # fmt: skip
    assert (english.channels, english.is_default, english.language) == (17, True, "en")
    assert (unknown.stream, unknown.codec, unknown.channels) == (6, "none", 0)
    assert streams.subtitle_tracks == (
        SubtitleTrack(
            stream=3, codec="mov_text", language="fr", is_forced=True,
        ),
    )  # fmt: skip


def test_a_length_that_is_not_known_is_none() -> None:
    streams = parse_streams("  Duration: N/A, start: 0.000000, bitrate: N/A\n")
    assert (streams.duration, streams.start) == (None, 0.0)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="  Stream#0:19[x](Audio,Video)Hz.kfps\n-e", max_size=300))
def test_whatever_it_says_is_read(output: str) -> None:
    parse_streams(output)
    parse_streams(SAID + output)


METADATA = """;FFMETADATA1
title=A\\=B\\; \\#1 \\\\
ARTIST=Two\\
lines\x07\u202e
major_brand=isom
empty=
[CHAPTER]
TIMEBASE=1/1000
START=61500
END=90000
title=Second
[CHAPTER]
TIMEBASE=1/1000
START=0
END=61500
title=First\\
of all
[CHAPTER]
TIMEBASE=1/0
START=0
END=1
[CHAPTER]
TIMEBASE=1/1
START=9
END=1
[CHAPTER]
TIMEBASE=1/1
START=9223372036854775807
END=9223372036854775807
[STREAM]
title=of a stream
"""


def test_tags_and_chapters_are_read_as_they_were_meant() -> None:
    tags, chapters = parse_metadata(METADATA)
    assert tags == {"title": "A=B; #1 \\", "artist": "Two\nlines"}
    assert chapters == (
        Chapter(start=0, end=61.5, title="First of all"),
        Chapter(start=61.5, end=90, title="Second"),
    )


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="[CHAPTER]=\\\n;#TIMEBASE/STARTND0919-x", max_size=300))
def test_whatever_the_metadata_say_is_read(text: str) -> None:
    parse_metadata(text)
    parse_metadata(METADATA + text)


def test_tags_have_limits() -> None:
    tags, _ = parse_metadata("".join(f"key{number}={'x' * 50_000}\n" for number in range(200)))
    assert len(tags) == 100
    assert {len(value) for value in tags.values()} == {20_000}
