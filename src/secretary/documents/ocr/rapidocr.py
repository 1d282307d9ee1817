"""RapidOCR in this process, warm: slower than Tesseract, and better with photos."""

import functools
import hashlib
import importlib.util
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from ...core.errors import EngineUnavailable
from ...core.languages import language_codes
from ...storage.cache import fingerprint
from .engines import OcrLine, OcrWord

if TYPE_CHECKING:
    from PIL import Image

Point = tuple[float, float]

#: The letter `x`, and where letters stand, as shares of the height of a piece.
LETTER_SHARE, BASE_SHARE = 0.45, 0.2
#: Columns are parted by a gap of so many heights from top to bottom, and hold so many lines of
#: so many heights' length. What is narrower or shorter are the cells of a table.
MIN_GUTTER, MIN_LINES, MIN_LENGTH = 0.6, 3, 8.0
#: Two pieces stand in one line if their middles differ by less than this share of their height.
SAME_LINE = 0.5


@dataclass(frozen=True, slots=True)
class TextBox:
    """What an engine found in one place: a line, or a part of it."""

    text: str
    #: 0 to 100.
    confidence: float
    #: Seen upright: top left, top right, bottom right, bottom left.
    corners: tuple[Point, Point, Point, Point]
    #: Each with the places where it begins and ends, as shares of the piece.
    words: tuple[tuple[str, float, float], ...]


@dataclass(frozen=True, slots=True)
class _Strip:
    """A piece in the picture as if it were level."""

    piece: TextBox
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


def in_reading_order(pieces: Sequence[TextBox]) -> list[OcrLine]:
    """Column after column; pieces beside each other in one line. Places are those in the picture
    once its lines are level."""
    if not pieces:
        return []
    turn = _turn(pieces)
    strips = [_levelled(piece, turn) for piece in pieces]
    lines: list[OcrLine] = []
    for number, block in enumerate(_blocks(strips), 1):
        lines += [_line(row, number) for row in _rows(block)]
    return lines


def _turn(pieces: Sequence[TextBox]) -> float:
    """The direction that most letters run in, in radians. Long pieces tell it best."""
    angles = []
    for piece in pieces:
        (x0, y0), (x1, y1) = piece.corners[:2]
        angles.append((math.atan2(y1 - y0, x1 - x0), math.hypot(x1 - x0, y1 - y0)))
    angles.sort()
    half, seen = sum(length for _, length in angles) / 2, 0.0
    for angle, length in angles:
        seen += length
        if seen >= half:
            return angle
    return 0.0


def _levelled(piece: TextBox, turn: float) -> _Strip:
    cosine, sine = math.cos(turn), math.sin(turn)
    points = [(x * cosine + y * sine, y * cosine - x * sine) for x, y in piece.corners]
    top_left, top_right, bottom_right, bottom_left = points
    return _Strip(
        piece=piece,
        left=(top_left[0] + bottom_left[0]) / 2,
        right=(top_right[0] + bottom_right[0]) / 2,
        top=(top_left[1] + top_right[1]) / 2,
        bottom=(bottom_left[1] + bottom_right[1]) / 2,
    )


def _blocks(strips: Sequence[_Strip]) -> Iterator[list[_Strip]]:
    """Parts of the page that are read one after the other."""
    gutter = _gutter(strips)
    if gutter is not None:
        yield from _blocks([strip for strip in strips if strip.right <= gutter])
        yield from _blocks([strip for strip in strips if strip.right > gutter])
        return
    plain: list[_Strip] = []
    for band, has_columns in _bands(strips):
        if not has_columns:
            plain += band
            continue
        if plain:
            yield plain
        plain = []
        yield from _blocks(band)
    if plain:
        yield plain


def _bands(strips: Sequence[_Strip]) -> Iterator[tuple[list[_Strip], bool]]:
    """The page from top to bottom: as much as has columns in common, or what stands alone."""
    levels = _levels(strips)
    start = 0
    while start < len(levels):
        end = start + 1
        band = best = levels[start]
        best_end = end if _gutter(band) is not None else start
        while end < len(levels):
            band = band + levels[end]
            end += 1
            if not _gaps(band):
                break
            if _gutter(band) is not None:
                best, best_end = band, end
        has_columns = best_end > start
        yield best, has_columns
        start = best_end if has_columns else start + 1


def _levels(strips: Sequence[_Strip]) -> list[list[_Strip]]:
    """Pieces that overlap from top to bottom, be it through others, are on one level."""
    levels: list[list[_Strip]] = []
    lowest = -math.inf
    for strip in sorted(strips, key=lambda strip: (strip.top, strip.left)):
        # Boxes are drawn a little larger than their letters, so that lines may touch.
        if strip.top + 0.2 * strip.height < lowest:
            levels[-1].append(strip)
        else:
            levels.append([strip])
        lowest = max(lowest, strip.bottom - 0.2 * strip.height)
    return levels


def _gutter(strips: Sequence[_Strip]) -> float | None:
    """Where to part two columns of text, if there are any."""
    for _, left, right in sorted(_gaps(strips), reverse=True):
        middle = (left + right) / 2
        before = [strip for strip in strips if strip.right <= middle]
        after = [strip for strip in strips if strip.right > middle]
        if _is_text(before) and _is_text(after):
            return middle
    return None


def _gaps(strips: Sequence[_Strip]) -> list[tuple[float, float, float]]:
    """Width, left and right of what no piece reaches into, though there are some on both sides."""
    least = MIN_GUTTER * median(strip.height for strip in strips)
    gaps = []
    reached = math.inf
    for strip in sorted(strips, key=lambda strip: strip.left):
        if strip.left - reached >= least:
            gaps.append((strip.left - reached, reached, strip.left))
        reached = strip.right if reached == math.inf else max(reached, strip.right)
    return gaps


def _is_text(strips: Sequence[_Strip]) -> bool:
    """Lines long enough to be a column of text."""
    if len(strips) < MIN_LINES:
        return False
    return median((strip.right - strip.left) / strip.height for strip in strips) >= MIN_LENGTH


def _rows(strips: Sequence[_Strip]) -> Iterator[list[_Strip]]:
    row: list[_Strip] = []
    for strip in sorted(strips, key=lambda strip: strip.middle):
        if row and not _is_beside(strip, row):
            yield sorted(row, key=lambda strip: strip.left)
            row = []
        row.append(strip)
    if row:
        yield sorted(row, key=lambda strip: strip.left)


def _is_beside(strip: _Strip, row: Sequence[_Strip]) -> bool:
    height = min(strip.height, row[0].height)
    return strip.middle - row[0].middle < SAME_LINE * height and not any(
        min(strip.right, other.right) - max(strip.left, other.left) > height for other in row
    )


def _line(row: Sequence[_Strip], block: int) -> OcrLine:
    # A bullet or a dash has a box of its own height: the longest piece tells that of the line.
    longest = max(row, key=lambda strip: strip.right - strip.left)
    letters = sum(len(strip.piece.text) for strip in row)
    return OcrLine(
        text=" ".join(strip.piece.text for strip in row),
        words=tuple(word for strip in row for word in _place_words(strip)),
        confidence=sum(s.piece.confidence * len(s.piece.text) for s in row) / letters,
        box=(
            round(row[0].left),
            round(min(strip.top for strip in row)),
            round(max(strip.right for strip in row)),
            round(max(strip.bottom for strip in row)),
        ),
        baseline=longest.bottom - BASE_SHARE * longest.height,
        height=LETTER_SHARE * longest.height,
        block=block,
    )


def _place_words(strip: _Strip) -> Iterator[OcrWord]:
    width = strip.right - strip.left
    for text, begin, end in strip.piece.words:
        yield OcrWord(text, round(strip.left + begin * width), round(strip.left + end * width))


PACKAGES = ("rapidocr", "onnxruntime")
#: What finds lines, and what reads them: one for all languages.
DETECTION_MODEL, RECOGNITION_MODEL = "PP-OCRv6_det_small.onnx", "PP-OCRv6_rec_small.onnx"
#: Those read without faults in their own letters. Of Czech, Icelandic, Latvian, Slovak and
#: Turkish it mistakes some, and other scripts were not tried.
LANGUAGES = (
    "dan", "deu", "eng", "est", "fin", "fra", "hrv", "hun", "ita", "lit", "nld", "nor", "pol",
    "por", "ron", "slv", "spa", "swe",
)  # fmt: skip
#: To find lines takes 280 MB for each million pixels.
MAX_PIXELS, MAX_SIDE = 2_500_000, 2600
#: A smaller picture is enlarged by the library, or set on black; set it on white instead.
MIN_SIDE = 736
#: What a reader is sure of by half is guessed: print upside down has 0.6 to 0.8.
GUESSED = 0.5
#: Pieces so much higher than wide are read as if turned to the left.
STANDING = 1.5


class RapidOcr:
    name = "rapidocr"

    def __init__(self, models: Path | None = None) -> None:
        self._directory = models
        self._last: tuple[bytes, list[OcrLine]] | None = None

    @functools.cached_property
    def version(self) -> str:
        data = fingerprint({path.name: path for path in self._models})
        packages = "-".join(importlib.metadata.version(package) for package in PACKAGES)
        return f"{packages}-{data}"

    def languages(self) -> tuple[str, ...]:
        return LANGUAGES if self._models else ()

    def read(self, image: "Image.Image", *, languages: str, dpi: int | None) -> list[OcrLine]:
        _require(language_codes(languages))
        # The same picture comes again with other languages, and would be read the same.
        digest = hashlib.blake2b(image.tobytes() + repr(image.size).encode()).digest()
        if self._last is None or self._last[0] != digest:
            self._last = digest, in_reading_order(list(self._pieces(image)))
        return self._last[1]

    def _pieces(self, image: "Image.Image") -> Iterator[TextBox]:
        import numpy

        scale = _scale(image)
        picture = numpy.asarray(_sized(image, scale).convert("RGB"))
        found = self._found(picture)
        if found.txts is None:
            return
        # They are left out where a line has none, and then no longer belong to their lines.
        words = found.word_results if len(found.word_results) == len(found.txts) else None
        for index, text in enumerate(found.txts):
            if text.strip():
                corners = _upright([(x / scale, y / scale) for x, y in found.boxes[index].tolist()])
                yield TextBox(
                    text=" ".join(text.split()),
                    confidence=100 * max(0.0, (found.scores[index] - GUESSED) / (1 - GUESSED)),
                    corners=corners,
                    words=_words(text, words[index] if words else (), corners, scale),
                )

    def _found(self, picture: Any) -> Any:
        engine = self._engine
        from onnxruntime.capi import onnxruntime_pybind11_state as failures

        try:
            return engine(picture)
        except (failures.InvalidProtobuf, failures.InvalidGraph, failures.NoModel):
            raise EngineUnavailable(
                "RapidOCR cannot load its models: a file of them is damaged. Install it again:"
                " pip install --force-reinstall rapidocr"
            ) from None

    @functools.cached_property
    def _models(self) -> tuple[Path, Path]:
        """Found without loading anything."""
        specs = [importlib.util.find_spec(package) for package in PACKAGES]
        origin = specs[0].origin if specs[0] and specs[1] else None
        if origin is None:
            raise EngineUnavailable(
                "RapidOCR is not installed. Install it: pip install 'secretary[rapidocr]', or set"
                " documents.ocr_engine to tesseract"
            )
        directory = self._directory or Path(origin).parent / "models"
        finder, reader = directory / DETECTION_MODEL, directory / RECOGNITION_MODEL
        for path in (finder, reader):
            if not path.is_file():
                raise EngineUnavailable(
                    f"RapidOCR is installed without its model {path.name}; its releases 3.10 and"
                    " later bring it. Install one: pip install 'secretary[rapidocr]'",
                    missing=[path.name],
                )
        return finder, reader

    @functools.cached_property
    def _engine(self) -> Any:
        finder, reader = self._models
        # It tells its maker about each run otherwise, and keeps a file for that in the user's
        # home. It looks at this once, when it is loaded.
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
                # It would turn each line by itself, and leave a page on its head in that order.
                "Global.use_cls": False,
                # Several pages are read at a time, each in a process of its own.
                f"{threads}.intra_op_num_threads": 1,
                f"{threads}.inter_op_num_threads": 1,
                # With their paths given no model is ever downloaded.
                "Det.model_path": str(finder),
                "Rec.model_path": str(reader),
                # Several lines at a time take more memory, and no less time with one thread.
                "Rec.rec_batch_num": 1,
            }
        )


def _require(codes: tuple[str, ...]) -> None:
    missing = [code for code in codes if code not in LANGUAGES]
    if missing or not codes:
        raise EngineUnavailable(
            f"RapidOCR does not read the language {', '.join(missing) or '(none)'};"
            f" it reads: {', '.join(LANGUAGES)}",
            missing=missing,
            installed=list(LANGUAGES),
        )


def _scale(image: "Image.Image") -> float:
    width, height = image.size
    return min(1.0, MAX_SIDE / max(width, height), math.sqrt(MAX_PIXELS / (width * height)))


def _sized(image: "Image.Image", scale: float) -> "Image.Image":
    from PIL import Image

    width, height = (max(1, round(side * scale)) for side in image.size)
    if scale < 1:
        image = image.resize((width, height), Image.Resampling.BICUBIC, reducing_gap=2.0)
    if min(width, height) >= MIN_SIDE:
        return image
    on_white = Image.new("L", (max(width, MIN_SIDE), max(height, MIN_SIDE)), 255)
    on_white.paste(image)
    return on_white


def _upright(corners: Sequence[Point]) -> tuple[Point, Point, Point, Point]:
    """In the order they have once the piece is turned as the reader has seen it."""
    first, second, third, fourth = corners
    width = max(math.dist(first, second), math.dist(third, fourth))
    height = max(math.dist(first, fourth), math.dist(second, third))
    if height < STANDING * width:
        return first, second, third, fourth
    return second, third, fourth, first


def _words(
    text: str, found: Sequence[Any], corners: Sequence[Point], scale: float
) -> tuple[tuple[str, float, float], ...]:
    """The whole line as one word where those found do not make up its text."""
    if "".join(word for word, _, _ in found) != "".join(text.split()):
        return ((" ".join(text.split()), 0.0, 1.0),)
    return tuple(
        (word, *_reach([(x / scale, y / scale) for x, y in box], corners)) for word, _, box in found
    )


def _reach(points: Sequence[Point], corners: Sequence[Point]) -> tuple[float, float]:
    """From where to where the points lie along the top of a box, as shares of it."""
    (left, top), (right, down) = corners[:2]
    run, rise = right - left, down - top
    square = run * run + rise * rise or 1.0
    places = [((x - left) * run + (y - top) * rise) / square for x, y in points]
    return max(0.0, min(places)), min(1.0, max(places))
