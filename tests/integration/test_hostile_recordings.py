"""Malicious recordings processed by ffmpeg: no other file is read, and no request is made."""

import contextlib
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from secretary.core.errors import FileCorrupt, JobFailed, UnsupportedFile
from secretary.media.ffmpeg import find_ffmpeg
from secretary.media.pcm import decode_audio, select_audio_track
from secretary.media.probe import probe
from secretary.media.subtitles import extract_subtitles

from ..audio_files import SOUNDS, VIDEOS, long_silence, made, sound, speech, video
from ..hostile_recordings import DISGUISES, NAMING
from ..web_server import WebRequest, serving

MINUTE = 60.0


def opened(path: Path, directory: Path) -> None:
    """Everything that is done with a recording."""
    recording = probe(str(path), timeout_s=MINUTE)
    for subtitle in recording.subtitle_tracks:
        extract_subtitles(str(path), subtitle, timeout_s=MINUTE)
    track = select_audio_track(recording.audio_tracks)
    if track is not None:
        decode_audio(
            str(path), str(directory / "raw"), recording=recording, track=track,
            max_seconds=3600, timeout_s=MINUTE,
        )  # fmt: skip


@pytest.mark.parametrize("name", NAMING)
async def test_no_address_is_asked(tmp_path: Path, name: str) -> None:
    async def answered(request: WebRequest) -> None:
        await request.answer(speech().read_bytes())

    async with serving(answered) as web:
        for number, disguise in enumerate(DISGUISES.values()):
            path = tmp_path / f"{number}.mp4"
            path.write_bytes(disguise + NAMING[name](web.url("/secret.wav")))
            with contextlib.suppress(FileCorrupt, UnsupportedFile):
                opened(path, tmp_path)
    assert web.connections == 0


@pytest.mark.parametrize("name", NAMING)
def test_no_other_file_is_opened(tmp_path: Path, name: str) -> None:
    """It is a named pipe: opening it would block until the timeout."""
    secret = tmp_path / "secret.wav"
    os.mkfifo(secret)
    for number, disguise in enumerate(DISGUISES.values()):
        for address in (str(secret), f"file://{secret}", f"file:{secret}", "secret.wav"):
            path = tmp_path / f"{number}.mp4"
            path.write_bytes(disguise + NAMING[name](address))
            with contextlib.suppress(FileCorrupt, UnsupportedFile):
                opened(path, tmp_path)


@pytest.mark.parametrize("name", ["hls.m3u8", "concat.mp4"])
def test_left_to_itself_ffmpeg_would_open_it(tmp_path: Path, name: str) -> None:
    """Shows that the two tests above can fail."""
    path = tmp_path / name
    path.write_bytes(NAMING[path.stem](str(speech())))
    allowed = ["-safe", "0"]
    if name == "hls.m3u8":
        allowed = ["-allowed_extensions", "ALL"]
        help_text = subprocess.run([find_ffmpeg(), "-h", "demuxer=hls"], capture_output=True).stdout
        if b"extension_picky" in help_text:  # since ffmpeg 7.1.1
            allowed += ["-extension_picky", "0"]
    command = [find_ffmpeg(), "-v", "error", *allowed, "-i", str(path), "-f", "null", "-"]
    assert subprocess.run(command, check=False, timeout=60).returncode == 0


def test_a_name_is_no_option_and_no_address(tmp_path: Path) -> None:
    for name in ("-i.wav", "concat:a|b.wav", "http:x.wav", "%03d.wav", "a b'\"\n.wav", "pipe:0"):
        path = tmp_path / name
        path.write_bytes(speech().read_bytes())
        assert probe(str(path)).format == "wav"
        opened(path, tmp_path)


GOOD = [
    "a.mp3", "a.m4a", "a.aac", "a.wav", "a.w64", "a.flac", "a.ogg", "a.opus", "a.webm", "a.aiff",
    "a.caf", "a.au", "a.wma", "v.mp4", "pieces.mp4", "v.mkv", "v.avi", "v.ts", "v.mpg", "v.flv",
]  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_damaged_at_random_it_is_read_or_refused_by_name(tmp_path: Path, name: str) -> None:
    assert name in SOUNDS or name in VIDEOS
    content = (sound(name) if name in SOUNDS else video(name)).read_bytes()
    chance = random.Random(name)
    for _ in range(8):
        path = tmp_path / name
        path.write_bytes(damage(content, chance))
        with contextlib.suppress(JobFailed):
            opened(path, tmp_path)


def damage(content: bytes, chance: random.Random) -> bytes:
    """Mostly near the beginning or the end, where the headers are."""
    damaged = bytearray(content)
    for _ in range(chance.choice((1, 3, 10, 40))):
        near = chance.choice((100, 2000, len(damaged)))
        at = chance.randrange(min(near, len(damaged)))
        if chance.random() < 0.3:
            at = len(damaged) - 1 - at
        match chance.randrange(5):
            case 0 | 1:
                damaged[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            case 2:
                damaged[at : at + 4] = chance.randbytes(4)
            case 3:
                del damaged[at : at + chance.randrange(1, 50)]
            case _ if chance.random() < 0.2:
                del damaged[at:]
        if len(damaged) < 50:
            return bytes(damaged)
    return bytes(damaged)


PROGRAM = """
import pathlib, resource, sys
from secretary.media.probe import probe
from secretary.media.pcm import decode_audio
path, into = sys.argv[1:]
recording = probe(path)
decode_audio(
    path, into, recording=recording, track=recording.audio_tracks[0], max_seconds=1e5, timeout_s=100
)
status = pathlib.Path("/proc/self/status").read_text()
# Not ru_maxrss, which begins with the peak of who has started this process.
own = int(status.partition("VmHWM:")[2].split()[0])
print(own // 1024, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
"""


def peaks(path: Path, into: Path) -> tuple[int, int]:
    """Of Python and of ffmpeg, in MB."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), str(into)],
        env=environment, check=True, capture_output=True, text=True, timeout=110,
    )  # fmt: skip
    own, children = result.stdout.split()
    return int(own), int(children)


@pytest.mark.parametrize("kind", ["wav", "mp3", "m4a", "mkv"])
def test_memory_does_not_grow_with_the_length(tmp_path: Path, kind: str) -> None:
    """Two hours compared with a minute. Only the index of an m4a grows."""
    minute = long_silence(tmp_path / "minute.wav", 60)
    encoded = ("-c:a", "pcm_s16le") if kind == "mkv" else ()
    minute = made(tmp_path / f"minute.{kind}", "-i", minute, *encoded) if kind != "wav" else minute
    hours = tmp_path / f"hours.{kind}"
    if kind == "wav":
        long_silence(hours, 7200)
    else:
        made(hours, "-stream_loop", "119", "-i", minute, "-c", "copy")
    lengths = {}
    for seconds, path in ((60, minute), (7200, hours)):
        lengths[seconds] = peaks(path, tmp_path / "raw")
        assert (tmp_path / "raw").stat().st_size >= seconds * 31_900
    assert lengths[7200][0] - lengths[60][0] < 10
    assert lengths[7200][1] - lengths[60][1] < (30 if kind == "m4a" else 10)
    assert max(lengths[7200]) < 150
