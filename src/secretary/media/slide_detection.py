"""Detects the slides of a video (frames that stand still, without build-ups and repetitions), saves
them in the resolution of the video, and reads their text."""

import contextlib
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy
from PIL import Image

from ..core.errors import FileCorrupt, FileTooLarge, InvalidParameters, ProcessingTimeout
from ..documents.ocr.engines import open_engine
from ..documents.ocr.images import open_frame, save_jpeg
from ..documents.ocr.recognition import recognise_upright
from .ffmpeg import input_arguments, run_ffmpeg
from .frame_similarity import (
    COLUMNS,
    FRAME_RATE,
    HEIGHT,
    LOOK_AHEAD_S,
    ROWS,
    SCENE_SHARE,
    STILL_FRAMES,
    WIDTH,
    Blocks,
    Frame,
    Thumbnail,
    ThumbnailIndex,
    changed_pixels,
    detect_motion,
    different_pixels,
    is_blank,
    is_change,
    is_part,
    is_roughly_same,
    is_same,
    is_same_shot,
    over_pixels,
    pack_blocks,
    pack_grey,
    unpack_blocks,
    unpack_thumbnail,
)
from .probe import VideoTrack
from .slides import (
    MAX_SIDE,
    MAX_SLIDES,
    MAX_WINDOW_S,
    ScannedWindow,
    Slide,
    SlideCandidate,
    SlideImage,
    SlideText,
)

#: The share of a frame that has to stand still for a slide to start.
MIN_STILL_SHARE = 0.3
#: Frames between two candidates of one scene.
SCENE_STEP = 60 * FRAME_RATE
#: Per window; those that are shown longest are kept.
MAX_CANDIDATES = 60
#: After this many seconds without a change, the encoder has reached its best quality.
SHARP_S = 2.0
#: Minimum seconds between two frames of filmed scenes, and how many a video may have.
SCENE_DISTANCE_S = 60.0
MAX_SCENES = 40
#: Each slide is compared with all before it; those that are shown longest come first.
MAX_COMPARED = 1_000
#: The share of a transition that may be left for it to count as done.
TRANSITION_REST = 0.25
#: 8K. A decoder may hold 17 frames of this size, which is 900 MB.
MAX_FRAME_PIXELS = 8192 * 4608
MAX_IMAGE_PIXELS = 50_000_000

# Scan a window ----------------------------------------------------------------------------------


def scan_window(
    path: str,
    track: VideoTrack,
    start_s: float,
    end_s: float,
    *,
    timeout_s: float = 600.0,
    program: str | None = None,
) -> ScannedWindow:
    """Find slide candidates between two times of a video, the end excluded."""
    if not 0 <= start_s < end_s <= start_s + MAX_WINDOW_S:
        raise InvalidParameters(f"Invalid window: {start_s} to {end_s} seconds")
    frame_count = max(1, round((end_s - start_s) * FRAME_RATE))
    content = _decode_frames(
        path,
        track,
        seek_s=start_s,
        rate=FRAME_RATE,
        count=frame_count + LOOK_AHEAD_S * FRAME_RATE,
        filters=f"scale={WIDTH}:{HEIGHT}:flags=area,format=gray",
        output=("-f", "rawvideo"),
        # Skipping frames that no other frame needs halves the time and delays changes by 0.1 s.
        options=("-skip_frame", "noref"),
        timeout_s=timeout_s,
        program=program,
    )
    size = WIDTH * HEIGHT
    decoded = min(frame_count + LOOK_AHEAD_S * FRAME_RATE, len(content) // size)
    if not decoded:
        if start_s:
            return ScannedWindow(start=start_s, end=start_s)
        raise FileCorrupt("The frames of the video cannot be decoded")
    frames = numpy.frombuffer(content, numpy.uint8, decoded * size).reshape(-1, HEIGHT, WIDTH)
    # The last frame stays visible if the audio goes on after the video track has ended.
    missing = max(0, min(STILL_FRAMES, frame_count - decoded))
    frames = numpy.concatenate([frames, frames[-1:].repeat(missing, 0)]) if missing else frames
    last_s = start_s + (decoded - 1) / FRAME_RATE
    candidates = [
        replace(each, at=min(each.at, last_s)) for each in _candidates(frames, start_s, frame_count)
    ]
    merged = sorted((each.candidate for each in _merge(candidates)), key=_duration, reverse=True)
    longest = sorted(merged[:MAX_CANDIDATES], key=lambda candidate: candidate.time)
    end = min(end_s, start_s + decoded / FRAME_RATE)
    return ScannedWindow(start=start_s, end=end, candidates=tuple(longest))


class _State(NamedTuple):
    """What the video shows from a frame on."""

    first_frame: int
    lively: Blocks
    is_scene: bool


def _candidates(frames: Frame, start_s: float, frame_count: int) -> Iterator[SlideCandidate]:
    """Yield every state of the picture, including transitions."""
    states = list(_states(frames))
    if not states:
        states = [_State(0, numpy.zeros((ROWS, COLUMNS), numpy.bool_), True)]
    ends = [state.first_frame for state in states[1:]] + [len(frames)]
    for state, end in zip(states, ends, strict=True):
        if state.first_frame < frame_count:
            duration = (end - state.first_frame) / FRAME_RATE
            time = start_s + state.first_frame / FRAME_RATE
            yield SlideCandidate(
                time=time,
                end=time + duration,
                at=time + min(SHARP_S, duration / 2),
                grey=pack_grey(frames[state.first_frame]),
                lively=pack_blocks(state.lively),
                is_scene=state.is_scene,
            )


def _states(frames: Frame) -> Iterator[_State]:
    all_still, all_lively = detect_motion(frames)
    shown: Frame | None = None
    scene_at: int | None = None
    for index in range(len(frames)):
        frame, lively = frames[index], all_lively[index]
        if lively.mean() > SCENE_SHARE:
            if scene_at is None or index - scene_at >= SCENE_STEP:
                shown, scene_at = None, index
                yield _State(index, lively, True)
            continue
        still = all_still[index] & ~lively
        if shown is None:
            is_new = bool(still.mean() >= MIN_STILL_SHARE)
        else:
            is_new = is_change(different_pixels(shown, frame) & over_pixels(still))
        if is_new:
            shown, scene_at = frame, None
            yield _State(index, lively, False)


def _duration(candidate: SlideCandidate) -> float:
    return candidate.end - candidate.time


# Merge candidates -------------------------------------------------------------------------------


class _Unpacked(NamedTuple):
    candidate: SlideCandidate
    thumbnail: Thumbnail


def _merge(candidates: Iterable[SlideCandidate]) -> list[_Unpacked]:
    """Merge adjacent candidates that show the same slide or steps of its build-up, and drop
    transitions."""
    merged: list[_Unpacked] = []
    for state in _without_transitions(
        [_Unpacked(each, unpack_thumbnail(each)) for each in candidates]
    ):
        if merged and (both := _merge_two(merged[-1], state)):
            merged[-1] = both
            continue
        if merged:
            # A window sees the start of the next one, which may detect the change more exactly.
            last, thumbnail = merged[-1]
            end = min(last.end, state.candidate.time)
            merged[-1] = _Unpacked(replace(last, end=end), thumbnail)
        merged.append(state)
    return merged


def _without_transitions(states: list[_Unpacked]) -> list[_Unpacked]:
    """Drop blank frames and unfinished fades, but never everything."""
    filled = [state for state in states if not is_blank(state.thumbnail)]
    standing: list[_Unpacked] = []
    since: float | None = None
    for state, after in pairwise([*filled, None]):
        assert state is not None
        if since is not None:
            state = state._replace(candidate=replace(state.candidate, time=since))
        since = None
        is_standing = _duration(state.candidate) >= STILL_FRAMES / FRAME_RATE
        if is_standing or (after and is_part(state.thumbnail, after.thumbnail)):
            standing.append(state)
        elif after and standing:
            # If most of a transition was done, what follows only looks sharper.
            remaining = int(changed_pixels(state.thumbnail, after.thumbnail).sum())
            whole = int(changed_pixels(standing[-1].thumbnail, after.thumbnail).sum())
            since = state.candidate.time if remaining <= TRANSITION_REST * whole else None
    return standing or filled[:1] or states[:1]


def _merge_two(before: _Unpacked, after: _Unpacked) -> _Unpacked | None:
    """Return the more complete of both with the time of both, or None if they differ."""
    first, second = before.candidate, after.candidate
    if first.is_scene != second.is_scene:
        return None
    if first.is_scene:
        is_first = is_same_shot(before.thumbnail, after.thumbnail)
    else:
        is_first = is_same(before.thumbnail, after.thumbnail) or is_part(
            after.thumbnail, before.thumbnail
        )
    if is_first:
        return _Unpacked(replace(first, end=second.end), before.thumbnail)
    if not first.is_scene and is_part(before.thumbnail, after.thumbnail):
        return _Unpacked(replace(second, time=first.time), after.thumbnail)
    return None


# Select slides ----------------------------------------------------------------------------------


def select_slides(windows: Sequence[ScannedWindow], *, limit: int = MAX_SLIDES) -> list[Slide]:
    """Return each slide once, in the order of the video; of a build-up its complete state."""
    windows = sorted(windows, key=lambda window: window.start)
    candidates = [candidate for window in windows for candidate in window.candidates]
    distinct = _distinct(_merge(_limit(candidates, MAX_COMPARED)))
    end = max((window.end for window in windows if not window.is_empty), default=0.0)
    slides = []
    for number, each in enumerate(_limit([state.candidate for state in distinct], limit), 1):
        times = {"time": each.time, "end": min(each.end, end), "at": each.at}
        rounded = {name: round(time, 2) for name, time in times.items()}
        slides.append(Slide(number=number, **{**asdict(each), **rounded}))
    return slides


def _distinct(states: Iterable[_Unpacked]) -> list[_Unpacked]:
    """Drop what was shown before."""
    seen = ThumbnailIndex(MAX_COMPARED)
    slides: list[_Unpacked] = []
    scenes: list[_Unpacked] = []
    for state in states:
        if not state.candidate.is_scene:
            if not seen.contains(state.thumbnail):
                seen.add(state.thumbnail)
                slides.append(state)
            continue
        earliest = scenes[-1].candidate.time + SCENE_DISTANCE_S if scenes else 0.0
        if state.candidate.time >= earliest and not any(
            is_same_shot(state.thumbnail, scene.thumbnail) for scene in scenes
        ):
            scenes.append(state)
    return scenes + slides


def _limit(candidates: list[SlideCandidate], limit: int) -> list[SlideCandidate]:
    """Keep scenes at even distances, and the slides that are shown longest."""
    scenes = [each for each in candidates if each.is_scene]
    step = -(-len(scenes) // MAX_SCENES) or 1  # rounded up
    slides = [each for each in candidates if not each.is_scene]
    slides.sort(key=_duration, reverse=True)
    return sorted((scenes[::step] + slides)[:limit], key=lambda candidate: candidate.time)


# Save and read slides ---------------------------------------------------------------------------


def save_slides(
    path: str,
    track: VideoTrack,
    slides: Sequence[Slide],
    directory: str,
    *,
    max_side: int = MAX_SIDE,
    timeout_s: float = 60.0,
    program: str | None = None,
) -> list[SlideImage]:
    """Write each slide as `frame_###.jpg` to a directory. The timeout applies to each of them."""
    decode = partial(_decode, path, track, max_side=max_side, timeout_s=timeout_s, program=program)
    images = []
    for slide in slides:
        image = decode(slide.at, can_seek=True)
        if not image or not _shows(image, slide):
            # With wrong timestamps in the index of the file, a seek leads elsewhere.
            with contextlib.suppress(ProcessingTimeout):
                image = decode(slide.at, can_seek=False) or image
        if not image:
            raise FileCorrupt(f"The frame at {slide.at:.1f} s of the video cannot be decoded")
        unfinished = f"{directory}/.{slide.file_name}"
        save_jpeg(image, unfinished)
        os.replace(unfinished, f"{directory}/{slide.file_name}")
        size = {"width": image.width, "height": image.height}
        images.append(SlideImage(number=slide.number, name=slide.file_name, **size))
    return images


def _decode(
    path: str,
    track: VideoTrack,
    at_s: float,
    *,
    can_seek: bool,
    max_side: int,
    timeout_s: float,
    program: str | None,
) -> Image.Image | None:
    """Return the frame at a time, upright and with square pixels. Without a seek everything before
    it is decoded: slow, but right even if the timestamps of the file are wrong."""
    # Stretch pixels that are not square; an aspect ratio of 0 is undefined.
    sar = "if(sar\\,clip(sar\\,0.1\\,10)\\,1)"
    width, height = f"(iw*max({sar}\\,1))", f"(ih/min({sar}\\,1))"
    fit = f"min(1\\,{max_side}/max({width}\\,{height}))"
    scale = ":".join(f"max(1\\,round({side}*{fit}))" for side in (width, height))
    content = _decode_frames(
        path,
        track,
        seek_s=at_s if can_seek else 0.0,
        skip_s=0.0 if can_seek else at_s,
        rate=50,
        count=1,
        # ffmpeg applies the rotation of the file by itself.
        filters=f"scale={scale}:flags=bicubic,setsar=1,format=rgb24",
        output=("-c:v", "ppm", "-f", "image2pipe"),
        timeout_s=timeout_s,
        program=program,
    )
    return Image.open(io.BytesIO(content), formats=["PPM"]) if content else None


def _shows(image: Image.Image, slide: Slide) -> bool:
    if slide.is_scene:
        return True
    thumbnail = image.convert("L").resize((WIDTH, HEIGHT), Image.Resampling.BOX)
    return is_roughly_same(numpy.asarray(thumbnail, numpy.uint8), unpack_thumbnail(slide))


def _decode_frames(
    path: str,
    track: VideoTrack,
    *,
    seek_s: float,
    rate: int,
    count: int,
    filters: str,
    output: Sequence[str],
    skip_s: float = 0.0,
    options: Sequence[str] = (),
    timeout_s: float,
    program: str | None,
) -> bytearray:
    """Return up to `count` filtered frames, `rate` per second of the video, starting `skip_s` after
    the position of the seek. A frame that is shown for longer is repeated. Returns as much as can
    be decoded: a part of a damaged video can often be shown."""
    if track.width * track.height > MAX_FRAME_PIXELS:
        raise FileTooLarge(
            f"The frames of the video have {track.width} x {track.height} pixels",
            limit_pixels=MAX_FRAME_PIXELS,
        )
    # An accurate seek would drop a frame that began before the position, and it may last minutes.
    seek = ("-noaccurate_seek", "-ss", f"{seek_s:.3f}")
    # Trimmed before scaling: a gap of a year would repeat a frame millions of times.
    selected = f"fps={rate}:start_time={skip_s:.3f},trim=end_frame={count}"
    content = bytearray()
    run_ffmpeg(
        [
            # One thread: other windows run on the other cores, so more would only cost memory.
            *input_arguments(
                path, threads=1, options=("-max_pixels", str(MAX_FRAME_PIXELS), *options, *seek)
            ),
            "-map", f"0:{track.stream}", "-filter_threads", "1", "-max_error_rate", "1",
            "-vf", f"{selected},{filters}",
            *output,
            "pipe:1",
        ],
        timeout_s=timeout_s,
        program=program,
        level="quiet",
        on_output=content.extend,
    )  # fmt: skip
    return content


def read_slide(
    image_path: str,
    slide: Slide,
    *,
    languages: str | None = None,
    ocr_engine: str = "tesseract",
    ocr_data_directory: str | None = None,
) -> SlideText:
    """Return the text of a saved slide; it may have none."""
    engine = open_engine(ocr_engine, ocr_data_directory)
    grey = open_frame(image_path, 1, max_pixels=MAX_IMAGE_PIXELS).convert("L")
    if not slide.is_scene:
        _cover_motion(grey, slide.lively)
    recognised = recognise_upright(grey, engine=engine, languages=languages)
    return SlideText(
        text=recognised.text,
        markdown=recognised.markdown,
        confidence=recognised.confidence,
        languages=recognised.languages,
    )


def _cover_motion(grey: Image.Image, lively: str) -> None:
    """Paint blocks in motion with the background colour: OCR would read a face as letters."""
    background = int(numpy.argmax(grey.histogram()))
    width, height = grey.size
    for row, column in numpy.argwhere(unpack_blocks(lively)).tolist():
        box = (
            *(column * width // COLUMNS, row * height // ROWS),
            *((column + 1) * width // COLUMNS, (row + 1) * height // ROWS),
        )
        grey.paste(background, box)
