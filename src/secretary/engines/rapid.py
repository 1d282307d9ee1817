"""RapidOCR in this process, warm: slower than Tesseract, and better with photos."""

import functools
import hashlib
import importlib.metadata
import importlib.util
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import EngineUnavailable
from .fingerprint import fingerprint
from .languages import language_codes
from .ocr import Line
from .reading_order import Piece, Point, in_reading_order

if TYPE_CHECKING:
    from PIL import Image

PACKAGES = ("rapidocr", "onnxruntime")
#: What finds lines, and what reads them: one for all languages.
FINDER, READER = "PP-OCRv6_det_small.onnx", "PP-OCRv6_rec_small.onnx"
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


class Rapid:
    name = "rapidocr"

    def __init__(self, models: Path | None = None) -> None:
        self._directory = models
        self._last: tuple[bytes, list[Line]] | None = None

    @functools.cached_property
    def version(self) -> str:
        data = fingerprint({path.name: path for path in self._models})
        packages = "-".join(importlib.metadata.version(package) for package in PACKAGES)
        return f"{packages}-{data}"

    def languages(self) -> tuple[str, ...]:
        return LANGUAGES if self._models else ()

    def read(self, image: "Image.Image", *, languages: str, dpi: int | None) -> list[Line]:
        _require(language_codes(languages))
        # The same picture comes again with other languages, and would be read the same.
        digest = hashlib.blake2b(image.tobytes() + repr(image.size).encode()).digest()
        if self._last is None or self._last[0] != digest:
            self._last = digest, in_reading_order(list(self._pieces(image)))
        return self._last[1]

    def _pieces(self, image: "Image.Image") -> Iterator[Piece]:
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
                yield Piece(
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
        finder, reader = directory / FINDER, directory / READER
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
