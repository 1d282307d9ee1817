"""Test recordings: words by Debian's speech synthesizers, in any format by the real ffmpeg."""

import atexit
import os
import shutil
import struct
import subprocess
import tempfile
import wave
from functools import cache
from pathlib import Path

from secretary.media.ffmpeg import find_ffmpeg

from .requirements import needed

WORDS = (
    "It was the best of times, it was the worst of times."
    " It was the age of wisdom, it was the age of foolishness."
)
WORDS_DE = "Guten Tag. Das Wetter ist heute schön, und wir gehen in den Garten."
RATE = 16_000

#: File names and the ffmpeg arguments that encode audio as such a file.
SOUNDS = {
    "a.mp3": (),
    "a.m4a": ("-c:a", "aac"),
    "a.aac": ("-c:a", "aac", "-ar", "48000"),
    "a.wav": (),
    "rf64.wav": ("-rf64", "always"),
    "a.w64": (),
    "a.flac": (),
    "a.ogg": ("-c:a", "libvorbis"),
    "a.opus": ("-c:a", "libopus"),
    "a.webm": ("-c:a", "libopus"),
    "a.mka": ("-c:a", "libvorbis"),
    "a.aiff": (),
    "a.caf": (),
    "a.au": (),
    "a.wma": ("-ar", "44100"),
    "a.mp2": ("-ar", "48000"),
    "a.3gp": ("-c:a", "aac"),
    "alaw.wav": ("-c:a", "pcm_alaw"),
    "stereo.mp3": ("-ac", "2", "-ar", "44100"),
    "five.flac": ("-ac", "6", "-ar", "48000"),
}
#: The same for video with audio.
VIDEOS = {
    "v.mp4": ("-c:v", "libx264", "-c:a", "aac"),
    "fast.mp4": ("-c:v", "libx264", "-c:a", "aac", "-movflags", "+faststart"),
    "pieces.mp4": (
        *("-c:v", "libx264", "-bf", "0", "-c:a", "aac", "-ar", "48000"),
        *("-movflags", "+frag_keyframe+empty_moov"),
    ),
    "v.mov": ("-c:v", "mjpeg", "-c:a", "pcm_s16le"),
    "v.mkv": ("-c:v", "libx264", "-c:a", "flac"),
    "v.webm": ("-c:v", "libvpx", "-c:a", "libopus"),
    "v.avi": ("-c:v", "mpeg4", "-c:a", "mp3", "-ar", "44100"),
    "v.ts": ("-c:v", "mpeg2video", "-c:a", "aac", "-ar", "48000"),
    "v.mpg": ("-c:v", "mpeg2video", "-c:a", "mp2", "-r", "25", "-ar", "48000"),
    "v.flv": ("-c:v", "flv", "-c:a", "aac", "-ar", "44100"),
    "v.wmv": ("-c:v", "wmv2", "-c:a", "wmav2", "-ar", "44100"),
    "v.ogv": ("-c:v", "libtheora", "-c:a", "libvorbis"),
}


@cache
def _directory() -> Path:
    directory = tempfile.mkdtemp(prefix="sound_files_")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return Path(directory)


@cache
def speech(words: str = WORDS, voice: str = "slt") -> Path:
    """Spoken by flite in English: a WAV at 16 kHz."""
    path = _directory() / f"speech_{len(list(_directory().iterdir()))}.wav"
    command = [needed("flite"), "-voice", voice, "-t", words, "-o", str(path)]
    subprocess.run(command, check=True, timeout=60)
    return path


@cache
def german_speech(words: str = WORDS_DE) -> Path:
    """Spoken by Pico if available, else by eSpeak."""
    path = _directory() / f"german_{len(list(_directory().iterdir()))}.wav"
    if pico := shutil.which("pico2wave"):
        command = [pico, "-l", "de-DE", "-w", str(path), words]
    else:
        command = [needed("espeak-ng"), "-v", "de", "-w", str(path), words]
    subprocess.run(command, check=True, timeout=60)
    return path


def made(path: Path, *arguments: str | Path) -> Path:
    """Run ffmpeg with these arguments followed by the name of the output."""
    command = [find_ffmpeg(), "-nostdin", "-v", "error", "-y", *map(str, arguments), str(path)]
    subprocess.run(command, check=True, timeout=100)
    return path


@cache
def sound(name: str) -> Path:
    """The spoken words as a file of `SOUNDS`."""
    return made(_directory() / name, "-i", speech(), *SOUNDS[name])


@cache
def video(name: str) -> Path:
    """The same with moving pictures, as a file of `VIDEOS`."""
    return made(_directory() / name, *moving(7), "-i", speech(), *VIDEOS[name])


def moving(seconds: float) -> tuple[str, ...]:
    """An ffmpeg input."""
    return ("-f", "lavfi", "-i", f"testsrc2=size=320x240:rate=10:duration={seconds:g}")


def long_sound(path: Path, seconds: float, *arguments: str) -> Path:
    """The words, repeated."""
    return made(path, "-stream_loop", "-1", "-i", speech(), "-t", f"{seconds:g}", *arguments)


@cache
def minute(name: str) -> bytes:
    """A minute of words, in the format of the file name."""
    path = _directory() / f"minute_{name}"
    return long_sound(path, 60, "-ar", "48000", "-movflags", "+faststart").read_bytes()


def long_silence(path: Path, seconds: float) -> Path:
    """A sparse WAV that takes hardly any disk space."""
    size = round(seconds * RATE) * 2
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, size // 2, "NONE", "not compressed"))
    head = bytearray(path.read_bytes())
    head[4:8], head[40:44] = (struct.pack("<I", each) for each in (size + 36, size))
    path.write_bytes(head)
    os.truncate(path, 44 + size)
    return path


def length_of(path: Path) -> float:
    """The length of a WAV in seconds."""
    with wave.open(str(path)) as file:
        frames, rate = int(file.getnframes()), int(file.getframerate())
    return frames / rate
