"""Pictures of a video as ffmpeg decodes them, small and grey or one as it is."""

import os
import select
import time
from collections.abc import Iterator, Sequence

import imageio_ffmpeg
import numpy
from numpy.typing import NDArray

from ...errors import FileTooLarge, ProcessingTimeout
from ..program import started
from .recording import PictureTrack

#: Of the small pictures. One pixel is 10 x 10 of a video of 1080 lines: less than a word.
WIDTH, HEIGHT = 192, 108
#: Small pictures a second. To decode is what takes time; to take more of what is decoded does not.
RATE = 4
#: 8K. A decoder may hold 17 pictures of this size, which is 900 MB.
MAX_PIXELS = 8192 * 4608

Frame = NDArray[numpy.uint8]


def small_frames(
    path: str, track: PictureTrack, start_s: float, count: int, *, patience_s: float
) -> Frame:
    """What is to be seen at the start and each `1 / RATE` seconds later: fewer at the end."""
    # Frames that no other frame needs are skipped: half the time, and changes 0.1 s late.
    command = [
        *_opened(path, track, start_s, "-skip_frame", "noref"),
        *("-vf", f"fps={RATE}:start_time=0,scale={WIDTH}:{HEIGHT}:flags=area,format=gray"),
        *("-frames:v", str(count), "-f", "rawvideo", "pipe:1"),
    ]
    size = WIDTH * HEIGHT
    content = bytearray()
    for part in _output(command, patience_s):
        content += part
        if len(content) >= count * size:
            break
    whole = min(count, len(content) // size)
    return numpy.frombuffer(content, numpy.uint8, whole * size).reshape(whole, HEIGHT, WIDTH)


def one_frame(
    path: str, track: PictureTrack, at_s: float, *, max_side: int, patience_s: float
) -> bytes:
    """What is to be seen at a time as a PPM file, upright and with square pixels, or nothing."""
    # ffmpeg turns a picture by itself where the file says so.
    fit = f"min(1\\,{max_side}/max(iw*max(sar\\,1)\\,ih/min(max(sar\\,0.01)\\,1)))"
    wide = f"max(1\\,trunc({fit}*iw*max(if(sar\\,sar\\,1)\\,1)))"
    high = f"max(1\\,trunc({fit}*ih/min(if(sar\\,sar\\,1)\\,1)))"
    command = [
        *_opened(path, track, at_s),
        *("-vf", f"fps=1:start_time=0,scale={wide}:{high}:flags=bicubic,setsar=1,format=rgb24"),
        *("-frames:v", "1", "-c:v", "ppm", "-f", "image2pipe", "pipe:1"),
    ]
    return b"".join(_output(command, patience_s))


def _opened(path: str, track: PictureTrack, start_s: float, *decoding: str) -> list[str]:
    if track.width * track.height > MAX_PIXELS:
        raise FileTooLarge(
            f"The pictures of the video are {track.width} x {track.height} pixels",
            limit_pixels=MAX_PIXELS,
        )
    return [
        *(_program(), "-v", "quiet", "-nostdin", "-protocol_whitelist", "file,pipe"),
        # Each window has a core: more threads would take more memory, and not less time in all.
        *("-threads", "1", "-filter_threads", "1", "-max_pixels", str(MAX_PIXELS), *decoding),
        # A frame may stand for minutes. An accurate seek would drop it, for having begun before.
        *("-noaccurate_seek", "-ss", f"{start_s:.3f}", "-i", f"file:{path}"),
        *("-map", f"0:{track.stream}", "-an", "-sn", "-dn", "-max_error_rate", "1"),
    ]


def _program() -> str:
    return imageio_ffmpeg.get_ffmpeg_exe()


def _output(command: Sequence[str], patience_s: float) -> Iterator[bytes]:
    deadline = time.monotonic() + patience_s
    with started(command, stdout=-1, stderr=-3) as process:
        assert process.stdout is not None
        file = process.stdout.fileno()
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([file], [], [], left)[0]:
                raise ProcessingTimeout("The pictures of the video take too long to decode")
            part = os.read(file, 1 << 20)
            if not part:
                return
            yield part
