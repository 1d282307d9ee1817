"""Small recordings, and the segment lists that sites make of them."""

import subprocess
from importlib import import_module
from pathlib import Path

SECONDS = 3
#: Otherwise, the static ffmpeg crashes on the names inside MPEG-TS.
PLAIN = {"GCONV_PATH": "/nonexistent"}


def make_site(directory: Path) -> dict[str, bytes]:
    """The files of a site by path: a movie, and the same for HLS and DASH."""
    _ffmpeg(
        "-f", "lavfi", "-i", f"testsrc=duration={SECONDS}:size=320x240:rate=10",
        "-f", "lavfi", "-i", f"sine=duration={SECONDS}",
        "-pix_fmt", "yuv420p", "-g", "10", "-shortest", directory / "film.mp4",
    )  # fmt: skip
    copied = ("-i", directory / "film.mp4", "-c", "copy")
    (directory / "hls").mkdir()
    _ffmpeg(
        *copied, "-hls_time", "1", "-hls_playlist_type", "vod",
        "-hls_segment_filename", directory / "hls" / "piece%d.ts", directory / "hls" / "film.m3u8",
    )  # fmt: skip
    (directory / "dash").mkdir()
    _ffmpeg(*copied, "-f", "dash", "-seg_duration", "1", directory / "dash" / "film.mpd")
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {f"/{path.relative_to(directory)}": path.read_bytes() for path in files}


def seconds_of(path: Path) -> float:
    """The actual length, decoded to the end."""
    output = _ffmpeg("-stats", "-i", path, "-f", "null", "-")
    time = output.rpartition("time=")[2].split()[0]
    hours, minutes, seconds = time.split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


def streams_of(path: Path) -> set[str]:
    command = [_program(), "-hide_banner", "-i", str(path)]
    output = subprocess.run(command, capture_output=True, text=True, timeout=60, env=PLAIN).stderr
    return {kind for kind in ("Video", "Audio") if f": {kind}:" in output}


def _ffmpeg(*arguments: str | Path) -> str:
    command = [_program(), "-nostdin", "-y", "-v", "error", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60, env=PLAIN
    )
    return done.stderr


def _program() -> str:
    return str(import_module("imageio_ffmpeg").get_ffmpeg_exe())
