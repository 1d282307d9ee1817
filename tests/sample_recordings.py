"""A short valid recording of every supported kind, which tests damage."""

import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from .audio_files import made, speech

WORDS = "The train leaves at nine."
SUBTITLES = """\
1
00:00:00,100 --> 00:00:00,900
<i>The train</i>

2
00:00:01,000 --> 00:00:01,700
leaves at nine.
"""
WEBVTT = """\
WEBVTT

NOTE a note

00:00.100 --> 00:00.900 align:start
<v Ann>The train

00:01.000 --> 00:01.700
leaves &amp; runs
"""
ABOUT = ";FFMETADATA1\ntitle=Trains\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=0\nEND=900\ntitle=One\n"

#: File names and the ffmpeg arguments that encode audio as such a file.
SOUNDS = {
    "a.wav": (),
    "alaw.wav": ("-c:a", "pcm_alaw"),
    "a.mp3": ("-b:a", "24k", "-id3v2_version", "3"),
    "a.m4a": ("-c:a", "aac"),
    "a.aac": ("-c:a", "aac"),
    "a.flac": (),
    "a.ogg": ("-c:a", "libvorbis", "-ar", "16000"),
    "a.opus": ("-c:a", "libopus"),
    "a.mka": ("-c:a", "libvorbis"),
    "a.wma": ("-c:a", "wmav2", "-ar", "16000"),
    "a.aiff": (),
}
#: The same for video with audio and subtitles.
TEXT = ("-map", "2", "-c:s")
VIDEOS = {
    "v.mp4": ("-c:v", "libx264", "-c:a", "aac", *TEXT, "mov_text"),
    "pieces.mp4": ("-c:v", "libx264", "-c:a", "aac", "-movflags", "+frag_keyframe+empty_moov"),
    "v.mov": ("-c:v", "mjpeg", "-c:a", "pcm_s16le"),
    "v.mkv": ("-c:v", "libx264", "-c:a", "flac", *TEXT, "srt"),
    "v.webm": ("-c:v", "libvpx", "-b:v", "100k", "-c:a", "libopus", *TEXT, "webvtt"),
    "v.avi": ("-c:v", "mpeg4", "-c:a", "mp3", "-ar", "44100"),
    "v.ts": ("-c:v", "mpeg2video", "-c:a", "aac"),
    "v.ogv": ("-c:v", "libtheora", "-c:a", "libvorbis"),
    "v.flv": ("-c:v", "flv", "-c:a", "mp3", "-ar", "22050"),
    "v.wmv": ("-c:v", "wmv2", "-c:a", "wmav2", "-ar", "22050"),
}


def a_sound(name: str) -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        return made(Path(directory, name), "-i", speech(WORDS), *SOUNDS[name]).read_bytes()


def a_video(name: str) -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        (subtitles_path := Path(directory, "a.srt")).write_text(SUBTITLES)
        (about := Path(directory, "about.txt")).write_text(ABOUT)
        moving = ("-f", "lavfi", "-i", "testsrc=size=96x64:rate=5:duration=2")
        inputs = (
            *moving,
            "-i",
            speech(WORDS),
            "-i",
            subtitles_path,
            "-i",
            about,
            "-map_metadata",
            "3",
        )
        tracks = ("-map", "0", "-map", "1")
        path = made(Path(directory, name), *inputs, *tracks, *VIDEOS[name])
        return path.read_bytes()


#: By file name.
GOOD_RECORDINGS: dict[str, Callable[[], bytes]] = {
    **{name: cache(partial(a_sound, name)) for name in SOUNDS},
    **{name: cache(partial(a_video, name)) for name in VIDEOS},
}
#: Subtitle files beside a recording, by extension.
GOOD_SUBTITLES: dict[str, Callable[[], bytes]] = {
    "a.srt": SUBTITLES.encode,
    "a.vtt": WEBVTT.encode,
}
