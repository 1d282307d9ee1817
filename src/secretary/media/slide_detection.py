"""Detects the slides of a video: frames that stand still, without build-ups and repetitions."""

import contextlib
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
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

# Scan a window ----------------------------------------------------------------------------------


class _State(NamedTuple):
    """What the video shows from a frame on."""

    first_frame: int
    lively: Blocks
    is_scene: bool


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
    frames = _thumbnails(
        path,
        track,
        start_s,
        frame_count + LOOK_AHEAD_S * FRAME_RATE,
        timeout_s=timeout_s,
        program=program,
    )
    if not len(frames):
        if start_s:
            return ScannedWindow(start=start_s, end=start_s)
        raise FileCorrupt("The frames of the video cannot be decoded")
    last_s = start_s + (len(frames) - 1) / FRAME_RATE
    candidates = _candidates(_extend_last(frames, frame_count), start_s, frame_count)
    merged = merge_candidates(replace(each, at=min(each.at, last_s)) for each in candidates)
    longest = sorted(merged, key=_duration, reverse=True)[:MAX_CANDIDATES]
    longest.sort(key=lambda candidate: candidate.time)
    end = min(end_s, start_s + len(frames) / FRAME_RATE)
    return ScannedWindow(start=start_s, end=end, candidates=tuple(longest))


def _thumbnails(
    path: str,
    track: VideoTrack,
    start_s: float,
    count: int,
    *,
    timeout_s: float,
    program: str | None,
) -> Frame:
    """Return the frames from a time on, fewer at the end of the video."""
    content = decode_frames(
        path,
        track,
        seek_s=start_s,
        rate=FRAME_RATE,
        count=count,
        filters=f"scale={WIDTH}:{HEIGHT}:flags=area,format=gray",
        output=("-f", "rawvideo"),
        # Skipping frames that no other frame needs halves the time and delays changes by 0.1 s.
        options=("-skip_frame", "noref"),
        timeout_s=timeout_s,
        program=program,
    )
    size = WIDTH * HEIGHT
    complete = min(count, len(content) // size)
    frames = numpy.frombuffer(content, numpy.uint8, complete * size)
    return frames.reshape(complete, HEIGHT, WIDTH)


def _extend_last(frames: Frame, frame_count: int) -> Frame:
    """The last frame stays visible if the audio goes on after the video track has ended."""
    missing = min(STILL_FRAMES, frame_count - len(frames))
    return numpy.concatenate([frames, frames[-1:].repeat(missing, 0)]) if missing > 0 else frames


def _candidates(frames: Frame, start_s: float, frame_count: int) -> list[SlideCandidate]:
    """Return every state of the picture, including transitions."""
    states = list(_states(frames))
    if not states:
        states = [_State(0, numpy.zeros((ROWS, COLUMNS), numpy.bool_), True)]
    ends = [state.first_frame for state in states[1:]] + [len(frames)]
    return [
        _candidate(frames[state.first_frame], state, end, start_s)
        for state, end in zip(states, ends, strict=True)
        if state.first_frame < frame_count
    ]


def _states(frames: Frame) -> Iterator[_State]:
    motion = detect_motion(frames)
    shown: Frame | None = None
    scene_at: int | None = None
    for index in range(len(frames)):
        frame, lively = frames[index], motion.lively[index]
        if lively.mean() > SCENE_SHARE:
            if scene_at is None or index - scene_at >= SCENE_STEP:
                shown, scene_at = None, index
                yield _State(index, lively, True)
            continue
        still = motion.still[index] & ~lively
        if shown is None:
            is_new = bool(still.mean() >= MIN_STILL_SHARE)
        else:
            is_new = is_change(different_pixels(shown, frame) & over_pixels(still))
        if is_new:
            shown, scene_at = frame, None
            yield _State(index, lively, False)


def _candidate(grey: Frame, state: _State, end_frame: int, start_s: float) -> SlideCandidate:
    duration = (end_frame - state.first_frame) / FRAME_RATE
    time = start_s + state.first_frame / FRAME_RATE
    return SlideCandidate(
        time=time,
        end=time + duration,
        at=time + min(SHARP_S, duration / 2),
        grey=pack_grey(grey),
        lively=pack_blocks(state.lively),
        is_scene=state.is_scene,
    )


def _duration(candidate: SlideCandidate) -> float:
    return candidate.end - candidate.time


# Merge candidates -------------------------------------------------------------------------------


class _Unpacked(NamedTuple):
    candidate: SlideCandidate
    thumbnail: Thumbnail


def merge_candidates(candidates: Iterable[SlideCandidate]) -> list[SlideCandidate]:
    """Merge adjacent candidates that show the same slide or steps of its build-up, and drop
    transitions."""
    return [each.candidate for each in _merge(candidates)]


def _merge(candidates: Iterable[SlideCandidate]) -> list[_Unpacked]:
    states = _without_transitions([_Unpacked(each, unpack_thumbnail(each)) for each in candidates])
    merged: list[_Unpacked] = []
    for state in states:
        both = _merge_two(merged[-1], state) if merged else None
        if both:
            merged[-1] = both
        else:
            merged[-1:] = [_end_before(each, state.candidate.time) for each in merged[-1:]]
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
        elif after and _is_nearly(state, after, standing[-1] if standing else None):
            since = state.candidate.time
    return standing or filled[:1] or states[:1]


def _is_nearly(transition: _Unpacked, after: _Unpacked, before: _Unpacked | None) -> bool:
    """Whether most of a transition was done, so that what follows only looks sharper."""
    if before is None:
        return False
    remaining = int(changed_pixels(transition.thumbnail, after.thumbnail).sum())
    whole = int(changed_pixels(before.thumbnail, after.thumbnail).sum())
    return remaining <= TRANSITION_REST * whole


def _merge_two(before: _Unpacked, after: _Unpacked) -> _Unpacked | None:
    """Return the more complete of both with the time of both, or None if they differ."""
    first, second = before.candidate, after.candidate
    if first.is_scene != second.is_scene:
        return None
    if first.is_scene:
        if not is_same_shot(before.thumbnail, after.thumbnail):
            return None
        return _Unpacked(replace(first, end=second.end), before.thumbnail)
    if is_same(before.thumbnail, after.thumbnail) or is_part(after.thumbnail, before.thumbnail):
        return _Unpacked(replace(first, end=second.end), before.thumbnail)
    if is_part(before.thumbnail, after.thumbnail):
        return _Unpacked(replace(second, time=first.time), after.thumbnail)
    return None


def _end_before(state: _Unpacked, time: float) -> _Unpacked:
    """A window sees the start of the next one, which may have detected the change more exactly."""
    return state._replace(candidate=replace(state.candidate, end=min(state.candidate.end, time)))


# Select slides ----------------------------------------------------------------------------------


def select_slides(windows: Sequence[ScannedWindow], *, limit: int = MAX_SLIDES) -> list[Slide]:
    """Return each slide once, in the order of the video; of a build-up its complete state."""
    windows = sorted(windows, key=lambda window: window.start)
    candidates = [candidate for window in windows for candidate in window.candidates]
    distinct = _distinct(_merge(_limit(candidates, MAX_COMPARED)))
    end = max((window.end for window in windows if not window.is_empty), default=0.0)
    selected = _limit([each.candidate for each in distinct], limit)
    return [
        Slide(
            number=number,
            time=round(candidate.time, 2),
            end=round(min(candidate.end, end), 2),
            at=round(candidate.at, 2),
            grey=candidate.grey,
            lively=candidate.lively,
            is_scene=candidate.is_scene,
        )
        for number, candidate in enumerate(selected, 1)
    ]


def _distinct(states: Iterable[_Unpacked]) -> list[_Unpacked]:
    """Drop what was shown before."""
    seen = ThumbnailIndex(MAX_COMPARED)
    slides: list[_Unpacked] = []
    scenes: list[_Unpacked] = []
    for state in states:
        if state.candidate.is_scene:
            if not _is_known_scene(state, scenes):
                scenes.append(state)
        elif not seen.contains(state.thumbnail):
            seen.add(state.thumbnail)
            slides.append(state)
    return scenes + slides


def _is_known_scene(state: _Unpacked, scenes: Sequence[_Unpacked]) -> bool:
    if scenes and state.candidate.time - scenes[-1].candidate.time < SCENE_DISTANCE_S:
        return True
    return any(is_same_shot(state.thumbnail, scene.thumbnail) for scene in scenes)


def _limit(candidates: list[SlideCandidate], limit: int) -> list[SlideCandidate]:
    """Keep scenes at even distances, and the slides that are shown longest."""
    scenes = [each for each in candidates if each.is_scene]
    step = -(-len(scenes) // MAX_SCENES) or 1  # rounded up
    slides = [each for each in candidates if not each.is_scene]
    slides.sort(key=_duration, reverse=True)
    return sorted((scenes[::step] + slides)[:limit], key=lambda candidate: candidate.time)


#: 8K. A decoder may hold 17 frames of this size, which is 900 MB.
MAX_FRAME_PIXELS = 8192 * 4608
MAX_IMAGE_PIXELS = 50_000_000


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
    return [_save(slide, _frame_of(slide, decode), directory) for slide in slides]


def _frame_of(slide: Slide, decode: "partial[Image.Image | None]") -> Image.Image:
    image = decode(slide.at, can_seek=True)
    if not image or not _shows(image, slide):
        # With wrong timestamps in the index of the file, a seek leads elsewhere.
        with contextlib.suppress(ProcessingTimeout):
            image = decode(slide.at, can_seek=False) or image
    if not image:
        raise FileCorrupt(f"The frame at {slide.at:.1f} s of the video cannot be decoded")
    return image


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
    content = decode_frames(
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


def _save(slide: Slide, image: Image.Image, directory: str) -> SlideImage:
    unfinished = f"{directory}/.{slide.file_name}"
    save_jpeg(image, unfinished)
    os.replace(unfinished, f"{directory}/{slide.file_name}")
    return SlideImage(
        number=slide.number, name=slide.file_name, width=image.width, height=image.height
    )


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


def decode_frames(
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
