"""Runs RapidOCR in this process: slower than Tesseract, but better with photos."""

import functools
import hashlib
import importlib.metadata
import importlib.util
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from ...core.errors import EngineUnavailable
from ...core.languages import language_codes
from ...storage.cache import fingerprint
from .engines import OcrLine, OcrWord, weighted_median

if TYPE_CHECKING:
    from PIL import Image

PACKAGES = ("rapidocr", "onnxruntime")
#: The text detection and recognition models, the same for all languages.
DETECTION_MODEL, RECOGNITION_MODEL = "PP-OCRv6_det_small.onnx", "PP-OCRv6_rec_small.onnx"
#: Languages whose letters are recognised without errors. Some letters of Czech, Icelandic,
#: Latvian, Slovak and Turkish are mistaken; other scripts are untested.
LANGUAGES = (
    "dan", "deu", "eng", "est", "fin", "fra", "hrv", "hun", "ita", "lit", "nld", "nor", "pol",
    "por", "ron", "slv", "spa", "swe",
)  # fmt: skip
#: Detection needs 280 MB of memory per million pixels.
MAX_PIXELS, MAX_SIDE = 2_500_000, 2600
#: The library enlarges smaller images or pads them with black; we pad with white instead.
MIN_SIDE = 736
#: Below this score a reading is a guess: text upside down still scores 0.6 to 0.8.
GUESS_SCORE = 0.5
#: Boxes this much higher than wide are recognised as if turned to the left.
UPRIGHT_RATIO = 1.5
#: The x-height and the depth of the baseline, as shares of a text box's height.
X_HEIGHT_SHARE, BASELINE_SHARE = 0.45, 0.2
#: Columns are separated by a gutter of this many line heights, and have this many lines of this
#: many line heights in length. Anything smaller is a table cell.
MIN_GUTTER, MIN_LINES, MIN_LENGTH = 0.6, 3, 8.0
#: Boxes belong to one line if their centres differ by less than this share of their height.
SAME_LINE = 0.5
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class TextBox:
    """A line, or a part of one, that the engine has detected."""

    text: str
    #: 0 to 100.
    confidence: float
    #: After turning upright: top left, top right, bottom right, bottom left.
    corners: tuple[Point, Point, Point, Point]
    #: Each word with its start and end, as shares of the box's width.
    words: tuple[tuple[str, float, float], ...]


class RapidOcr:
    name = "rapidocr"

    def __init__(self, models: Path | None = None) -> None:
        self._directory = models
        self._cached: tuple[bytes, list[OcrLine]] | None = None

    @functools.cached_property
    def version(self) -> str:
        data = fingerprint({path.name: path for path in self._models})
        packages = "-".join(importlib.metadata.version(package) for package in PACKAGES)
        return f"{packages}-{data}"

    def languages(self) -> tuple[str, ...]:
        return LANGUAGES if self._models else ()

    def read_scattered(
        self, image: "Image.Image", *, languages: str, dpi: int | None
    ) -> list[OcrLine]:
        return []  # `read` finds words anywhere

    def read(self, image: "Image.Image", *, languages: str, dpi: int | None) -> list[OcrLine]:
        codes = language_codes(languages)
        missing = [code for code in codes if code not in LANGUAGES]
        if missing or not codes:
            raise EngineUnavailable(
                f"RapidOCR does not read the language {', '.join(missing) or '(none)'};"
                f" it reads: {', '.join(LANGUAGES)}",
                missing=missing,
                installed=list(LANGUAGES),
            )
        # The same image is read again with other languages, which gives the same result.
        digest = hashlib.blake2b(image.tobytes() + repr(image.size).encode()).digest()
        if self._cached is None or self._cached[0] != digest:
            self._cached = digest, in_reading_order(list(self._text_boxes(image)))
        return self._cached[1]

    def _text_boxes(self, image: "Image.Image") -> Iterator[TextBox]:
        import numpy

        width, height = image.size
        scale = min(1.0, MAX_SIDE / max(width, height), math.sqrt(MAX_PIXELS / (width * height)))
        picture = numpy.asarray(_fit(image, scale).convert("RGB"))
        engine = self._engine
        from onnxruntime.capi import onnxruntime_pybind11_state as failures

        try:
            output = engine(picture)
        except (failures.InvalidProtobuf, failures.InvalidGraph, failures.NoModel):
            raise EngineUnavailable(
                "RapidOCR cannot load its models: a file is damaged. Reinstall it:"
                " pip install --force-reinstall rapidocr"
            ) from None
        if output.txts is None:
            return
        # Word boxes are omitted for lines without any, and then no longer match their lines.
        words = output.word_results if len(output.word_results) == len(output.txts) else None
        for index, text in enumerate(output.txts):
            if not text.strip():
                continue
            corners = [(x / scale, y / scale) for x, y in output.boxes[index].tolist()]
            if _is_turned(*corners):
                corners = [*corners[1:], corners[0]]
            score = (output.scores[index] - GUESS_SCORE) / (1 - GUESS_SCORE)
            yield TextBox(
                text=" ".join(text.split()),
                confidence=100 * max(0.0, score),
                corners=(corners[0], corners[1], corners[2], corners[3]),
                words=_words(text, words[index] if words else (), corners, scale),
            )

    @functools.cached_property
    def _models(self) -> tuple[Path, Path]:
        """Locate the models without loading anything."""
        specs = [importlib.util.find_spec(package) for package in PACKAGES]
        origin = specs[0].origin if specs[0] and specs[1] else None
        if origin is None:
            raise EngineUnavailable(
                "RapidOCR is not installed. Install it: pip install 'secretary[rapidocr]', or set"
                " documents.ocr_engine to tesseract"
            )
        directory = self._directory or Path(origin).parent / "models"
        detection, recognition = directory / DETECTION_MODEL, directory / RECOGNITION_MODEL
        for path in (detection, recognition):
            if not path.is_file():
                raise EngineUnavailable(
                    f"RapidOCR is installed without its model {path.name}, which releases 3.10 and"
                    " later include. Install one: pip install 'secretary[rapidocr]'",
                    missing=[path.name],
                )
        return detection, recognition

    @functools.cached_property
    def _engine(self) -> Any:
        detection, recognition = self._models
        # Otherwise it reports each run to its vendor and keeps a file for that in the user's
        # home. Read once, when the library is loaded.
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"
        import cv2
        import onnxruntime
        import rapidocr

        onnxruntime.disable_telemetry_events()
        cv2.setNumThreads(1)
        threads = "EngineConfig.onnxruntime"
        return rapidocr.RapidOCR(
            params={
                "Global.log_level": "critical",
                "Global.max_side_len": MAX_SIDE,
                "Global.return_word_box": True,
                "Global.text_score": 0.0,
                # It would turn single lines, but keep the line order of an upside-down page.
                "Global.use_cls": False,
                # Several pages are read at a time, each in its own process.
                f"{threads}.intra_op_num_threads": 1,
                f"{threads}.inter_op_num_threads": 1,
                # With explicit paths no model is ever downloaded.
                "Det.model_path": str(detection),
                "Rec.model_path": str(recognition),
                # Batches take more memory, and no less time with one thread.
                "Rec.rec_batch_num": 1,
            }
        )


def _fit(image: "Image.Image", scale: float) -> "Image.Image":
    from PIL import Image

    width, height = (max(1, round(side * scale)) for side in image.size)
    if scale < 1:
        image = image.resize((width, height), Image.Resampling.BICUBIC, reducing_gap=2.0)
    if min(width, height) >= MIN_SIDE:
        return image
    on_white = Image.new("L", (max(width, MIN_SIDE), max(height, MIN_SIDE)), 255)
    on_white.paste(image)
    return on_white


def _is_turned(first: Point, second: Point, third: Point, fourth: Point) -> bool:
    """Return whether the box is so high that its text is turned by 90 degrees."""
    width = max(math.dist(first, second), math.dist(third, fourth))
    height = max(math.dist(first, fourth), math.dist(second, third))
    return height >= UPRIGHT_RATIO * width


def _words(
    text: str, output: Sequence[Any], corners: Sequence[Point], scale: float
) -> tuple[tuple[str, float, float], ...]:
    """Return the whole line as one word if the word boxes do not add up to its text."""
    if "".join(word for word, _, _ in output) != "".join(text.split()):
        return ((" ".join(text.split()), 0.0, 1.0),)
    (left, top), (right, down) = corners[:2]
    run, rise = right - left, down - top
    square = run * run + rise * rise or 1.0
    words = []
    for word, _, box in output:
        # Along the top edge of the line, as shares of its width.
        positions = [((x / scale - left) * run + (y / scale - top) * rise) / square for x, y in box]
        words.append((word, max(0.0, min(positions)), min(1.0, max(positions))))
    return tuple(words)


def in_reading_order(text_boxes: Sequence[TextBox]) -> list[OcrLine]:
    """Group boxes into lines, column by column. Coordinates are those of the deskewed image."""
    edges = (text_box.corners[:2] for text_box in text_boxes)
    # The dominant angle.
    angle = weighted_median(
        (math.atan2(y1 - y0, x1 - x0), math.hypot(x1 - x0, y1 - y0)) for (x0, y0), (x1, y1) in edges
    )
    boxes = [_deskew(text_box, angle) for text_box in text_boxes]
    blocks = enumerate(_blocks(boxes), 1) if boxes else ()
    return [_line(row, number) for number, block in blocks for row in _rows(block)]


@dataclass(frozen=True, slots=True)
class _LevelBox:
    """A text box in the coordinates of the deskewed image."""

    text_box: TextBox
    left: float
    right: float
    top: float
    bottom: float

    @property
    def height(self) -> float:
        return self.bottom - self.top

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2


def _deskew(text_box: TextBox, angle: float) -> _LevelBox:
    cosine, sine = math.cos(angle), math.sin(angle)
    points = [(x * cosine + y * sine, y * cosine - x * sine) for x, y in text_box.corners]
    top_left, top_right, bottom_right, bottom_left = points
    return _LevelBox(
        text_box=text_box,
        left=(top_left[0] + bottom_left[0]) / 2,
        right=(top_right[0] + bottom_right[0]) / 2,
        top=(top_left[1] + top_right[1]) / 2,
        bottom=(bottom_left[1] + bottom_right[1]) / 2,
    )


def _blocks(boxes: Sequence[_LevelBox]) -> Iterator[list[_LevelBox]]:
    """Yield the regions of the page in reading order."""
    gutter = _gutter(boxes)
    if gutter is not None:
        yield from _blocks([box for box in boxes if box.right <= gutter])
        yield from _blocks([box for box in boxes if box.right > gutter])
        return
    for has_columns, bands in groupby(_bands(boxes), key=lambda band: band[1]):
        if has_columns:
            for band, _ in bands:
                yield from _blocks(band)
        else:
            yield [box for band, _ in bands for box in band]


def _bands(boxes: Sequence[_LevelBox]) -> Iterator[tuple[list[_LevelBox], bool]]:
    """Split the page from top to bottom into bands, each with common columns or without any."""
    levels = _levels(boxes)
    start = 0
    while start < len(levels):
        band: list[_LevelBox] = []
        columns, end = None, start + 1
        for number, level in enumerate(levels[start:], start):
            band = band + level
            if number > start and not _gaps(band):
                break
            if _gutter(band) is not None:
                columns, end = band, number + 1
        yield columns or levels[start], columns is not None
        start = end


def _levels(boxes: Sequence[_LevelBox]) -> list[list[_LevelBox]]:
    """Group boxes that overlap vertically, directly or through others."""
    levels: list[list[_LevelBox]] = []
    lowest = -math.inf
    for box in sorted(boxes, key=lambda box: (box.top, box.left)):
        # Boxes are a little larger than their letters, so adjacent lines may touch.
        if box.top + 0.2 * box.height < lowest:
            levels[-1].append(box)
        else:
            levels.append([box])
        lowest = max(lowest, box.bottom - 0.2 * box.height)
    return levels


def _gutter(boxes: Sequence[_LevelBox]) -> float | None:
    """Return where to separate two columns of text, if there are any."""
    for _, left, right in sorted(_gaps(boxes), reverse=True):
        middle = (left + right) / 2
        columns = [[box for box in boxes if (box.right > middle) is side] for side in (False, True)]
        # Their lines must be long enough for a column of text.
        if all(
            len(column) >= MIN_LINES
            and median((box.right - box.left) / box.height for box in column) >= MIN_LENGTH
            for column in columns
        ):
            return middle
    return None


def _gaps(boxes: Sequence[_LevelBox]) -> list[tuple[float, float, float]]:
    """Return width, left and right of each vertical gap that no box reaches into."""
    min_width = MIN_GUTTER * median(box.height for box in boxes)
    gaps = []
    right_edge = math.inf
    for box in sorted(boxes, key=lambda box: box.left):
        if box.left - right_edge >= min_width:
            gaps.append((box.left - right_edge, right_edge, box.left))
        right_edge = box.right if right_edge == math.inf else max(right_edge, box.right)
    return gaps


def _rows(boxes: Sequence[_LevelBox]) -> Iterator[list[_LevelBox]]:
    rows: list[list[_LevelBox]] = []
    for box in sorted(boxes, key=lambda box: box.middle):
        row = rows[-1] if rows else [box]
        height = min(box.height, row[0].height)
        overlaps = (min(box.right, each.right) - max(box.left, each.left) for each in row)
        if not rows or box.middle - row[0].middle >= SAME_LINE * height or max(overlaps) > height:
            rows.append([])
        rows[-1].append(box)
    return (sorted(row, key=lambda box: box.left) for row in rows)


def _line(row: Sequence[_LevelBox], block: int) -> OcrLine:
    # A bullet or a dash has a box of its own height: use the longest box of the line.
    longest = max(row, key=lambda box: box.right - box.left)
    letters = sum(len(box.text_box.text) for box in row)
    words = []
    for box in row:
        width = box.right - box.left
        for text, begin, end in box.text_box.words:
            left, right = round(box.left + begin * width), round(box.left + end * width)
            words.append(OcrWord(text, left, right))
    return OcrLine(
        text=" ".join(box.text_box.text for box in row),
        words=tuple(words),
        confidence=sum(s.text_box.confidence * len(s.text_box.text) for s in row) / letters,
        box=(
            round(row[0].left),
            round(min(box.top for box in row)),
            round(max(box.right for box in row)),
            round(max(box.bottom for box in row)),
        ),
        baseline=longest.bottom - BASELINE_SHARE * longest.height,
        height=X_HEIGHT_SHARE * longest.height,
        block=block,
    )
