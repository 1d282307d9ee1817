"""Pictures of a video as ffmpeg decodes them: many small grey ones, or one as it is."""

import numpy
from numpy.typing import NDArray

from ...errors import FileTooLarge
from .ffmpeg import opening, run
from .recording import PictureTrack

#: Of the small pictures. One pixel is 10 x 10 of a video of 1080 lines: less than a word.
WIDTH, HEIGHT = 192, 108
#: Small pictures a second. To decode is what takes time; to take more of what is decoded does not.
RATE = 4
#: 8K. A decoder may hold 17 pictures of this size, which is 900 MB.
MAX_PIXELS = 8192 * 4608

Frame = NDArray[numpy.uint8]


def small_frames(
    path: str,
    track: PictureTrack,
    start_s: float,
    count: int,
    *,
    timeout_s: float,
    program: str | None,
) -> Frame:
    """What is to be seen at the start and each `1 / RATE` seconds later: fewer at the end."""
    arguments = [
        # Frames that no other frame needs are skipped: half the time, and changes 0.1 s late.
        *_opened(path, track, start_s, "-skip_frame", "noref"),
        *("-vf", f"{_shown(RATE, 0.0, count)},scale={WIDTH}:{HEIGHT}:flags=area,format=gray"),
        *("-f", "rawvideo", "pipe:1"),
    ]
    content = _written(arguments, timeout_s, program)
    size = WIDTH * HEIGHT
    whole = min(count, len(content) // size)
    return numpy.frombuffer(content, numpy.uint8, whole * size).reshape(whole, HEIGHT, WIDTH)


def one_frame(
    path: str,
    track: PictureTrack,
    at_s: float,
    *,
    can_seek: bool,
    max_side: int,
    timeout_s: float,
    program: str | None,
) -> bytes:
    """What is to be seen at a time as a PPM file, upright and with square pixels, or nothing.

    Without a seek all before it is decoded: slow, but right where the file's times are wrong."""
    # Pixels that are not square are stretched; 0 stands for a proportion that the file leaves open.
    sar = "if(sar\\,clip(sar\\,0.1\\,10)\\,1)"
    wide, high = f"(iw*max({sar}\\,1))", f"(ih/min({sar}\\,1))"
    fit = f"min(1\\,{max_side}/max({wide}\\,{high}))"
    scale = ":".join(f"max(1\\,round({side}*{fit}))" for side in (wide, high))
    first = _shown(50, 0.0 if can_seek else at_s, 1)
    arguments = [
        # ffmpeg turns a picture by itself where the file says so.
        *_opened(path, track, at_s if can_seek else 0.0),
        *("-vf", f"{first},scale={scale}:flags=bicubic,setsar=1,format=rgb24"),
        *("-c:v", "ppm", "-f", "image2pipe", "pipe:1"),
    ]
    return bytes(_written(arguments, timeout_s, program))


def _shown(rate: int, start_s: float, count: int) -> str:
    """Filters that give so many frames, from a time on: one that stands for long is repeated."""
    # Cut off here and not when written: in a gap of a year there are very many to be scaled.
    return f"fps={rate}:start_time={start_s:.3f},trim=end_frame={count}"


def _opened(path: str, track: PictureTrack, start_s: float, *options: str) -> list[str]:
    if track.width * track.height > MAX_PIXELS:
        raise FileTooLarge(
            f"The pictures of the video have {track.width} x {track.height} pixels",
            limit_pixels=MAX_PIXELS,
        )
    # A frame may stand for minutes. An accurate seek would drop it, for having begun before.
    place = ("-noaccurate_seek", "-ss", f"{start_s:.3f}")
    # Other windows have the other cores: threads would take memory, and save no time in all.
    options = ("-max_pixels", str(MAX_PIXELS), *options, *place)
    return [
        *opening(path, threads=1, options=options),
        *("-map", f"0:{track.stream}", "-filter_threads", "1", "-max_error_rate", "1"),
    ]


def _written(arguments: list[str], timeout_s: float, program: str | None) -> bytearray:
    """As much as there is: of what is damaged a part can often be shown."""
    content = bytearray()
    run(arguments, timeout_s=timeout_s, program=program, level="quiet", take=content.extend)
    return content
