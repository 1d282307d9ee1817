"""Prepares an image for OCR: deskewed, dark on white, with letters of a good size."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray
from PIL import Image, ImageFilter, ImageOps

Grey = NDArray[numpy.float32]
#: Analyse a thumbnail of this size: enough to separate lines of small print on an A4 page.
ANALYSIS_PIXELS = 1_000_000
#: Degrees. More is not the skew of a scanned page.
MAX_SKEW = 16.0
#: Degrees. The engine copes with less, and rotating blurs.
MIN_SKEW = 0.4
#: How many ink pixels are projected; more do not improve the estimate.
MAX_INK_PIXELS = 40_000
#: Brightness differences that can be print; blank paper has less.
MIN_CONTRAST = 10.0
#: Multiples of the noise level that the contrast must exceed to be more than noise.
NOISE_FACTOR = 5.0
#: How much sharper the lines must be after a quarter turn before the page counts as sideways.
SIDEWAYS_RATIO = 1.25
#: Lines outside LOW_LINE..HIGH_LINE are scaled to GOOD_LINE pixels, where engines work best.
LOW_LINE, GOOD_LINE, HIGH_LINE = 15.0, 30.0, 80.0
#: With noise, which is smoothed: smoothing would erase small letters.
LOW_NOISY_LINE = 17.0
#: Lower lines are not letters.
NO_LINE = 5.0
MAX_ENLARGEMENT = 4.0
#: Ink of at least this many pixels in a row, and this fraction of the width, is a rule.
MIN_RULE, RULE_SHARE = 50, 12
#: Share of isolated dark pixels from which an image is despeckled. Print has next to none.
SPECK_SHARE = 0.003
QUIET_NOISE = 8.0
#: Larger images are scaled down; smaller ones never are; enlarging stops here.
MAX_PIXELS, MIN_PIXELS, MAX_ENLARGED = 40_000_000, 1_000_000, 12_000_000
#: An image no larger than this is its own sample.
SAMPLE_PIXELS = 400_000
#: Noise level, as a share of the contrast, from which an image is smoothed.
NOISE_SHARE = 0.08
#: Contrast below which the image is stretched to full contrast.
FAINT_CONTRAST = 90.0
#: Letters at the very edge would be overlooked.
MARGIN = 12
#: The height of a line, from ascender to descender, as a share of the font size.
LINE_SHARE = 0.75
USUAL_POINTS = 11
QUARTER_TURNS = {
    90: Image.Transpose.ROTATE_270,
    180: Image.Transpose.ROTATE_180,
    270: Image.Transpose.ROTATE_90,
}


class Band(NamedTuple):
    """A strip with a few lines of the deskewed image, as fractions of its height."""

    top: float
    bottom: float


@dataclass(frozen=True, slots=True)
class ImageAnalysis:
    #: The darkest print against its paper, up to 255; 0 for blank paper.
    contrast: float
    is_inverted: bool
    #: The brightness of the paper on a coarse grid, or None if the lighting is even.
    background: Image.Image | None
    #: Whether lines of text seem to run from top to bottom. The ink of a ruled table or a short
    #: list says little, so this only decides which orientation is tried first.
    is_sideways: bool
    #: Degrees clockwise that level the lines of an upright page, and of a sideways one after a
    #: quarter turn.
    upright_skew: float
    sideways_skew: float
    #: The number of text lines, and their height in pixels of the full-size image.
    line_count: int
    line_height: float | None
    sample: Band | None

    @property
    def is_blank(self) -> bool:
        return not self.contrast

    def skew(self, rotation: int) -> float:
        skew = self.sideways_skew if rotation % 180 else self.upright_skew
        return skew if abs(skew) >= MIN_SKEW else 0.0


@dataclass(frozen=True, slots=True)
class OrientedImage:
    """A prepared image in one orientation."""

    image: Image.Image
    dpi: int | None
    #: Degrees clockwise that the image was turned by, and was deskewed by in addition.
    rotation: int
    skew: float
    #: A strip with a few lines, to try out languages and rotations.
    sample: Band | None

    def sample_image(self) -> Image.Image:
        width, height = self.image.size
        if self.sample:
            band = (0, round(self.sample.top * height), width, round(self.sample.bottom * height))
        elif width * height > SAMPLE_PIXELS:
            band = (width // 6, height * 2 // 5, width * 5 // 6, height * 3 // 5)
        else:
            return self.image
        return self.image.crop(band)


@dataclass(frozen=True, slots=True)
class PreparedImage:
    """An image as engines read it best, before it is turned and deskewed."""

    image: Image.Image
    dpi: int | None
    analysis: ImageAnalysis

    def oriented(self, rotation: int) -> OrientedImage:
        """Turn the image clockwise by a multiple of 90 degrees, and level its lines."""
        turned = self.image.transpose(QUARTER_TURNS[rotation]) if rotation else self.image
        skew = self.analysis.skew(rotation)
        image = turned
        if skew:
            image = turned.rotate(-skew, Image.Resampling.BICUBIC, expand=True, fillcolor=255)
        sample = self._sample(rotation)
        if sample is not None and image.height != turned.height:  # it has grown on all sides
            share = turned.height / image.height
            sample = Band((sample.top - 0.5) * share + 0.5, (sample.bottom - 0.5) * share + 0.5)
        if min(image.size) < 30 * MARGIN:
            image = ImageOps.expand(image, MARGIN, fill=255)
        return OrientedImage(image, self.dpi, rotation, skew, sample)

    def _sample(self, rotation: int) -> Band | None:
        sample = self.analysis.sample
        if sample is None or self.analysis.is_sideways != bool(rotation % 180):
            return None  # it was measured in the other direction
        return Band(1 - sample.bottom, 1 - sample.top) if rotation >= 180 else sample


def despeckle(grey: Image.Image) -> Image.Image:
    """Remove specks: the engine would try each of them as a letter, which is slow."""
    values = numpy.asarray(grey)
    starts = numpy.linspace(0, max(0, len(values) - 48), 6).astype(int)
    bands = [values[start : start + 48] < 128 for start in sorted(set(starts.tolist()))]
    isolated = 0
    for dark in bands:
        if min(dark.shape) >= 3:
            neighbours = dark[1:-1, :-2] | dark[1:-1, 2:] | dark[:-2, 1:-1] | dark[2:, 1:-1]
            isolated += int((dark[1:-1, 1:-1] & ~neighbours).sum())
    is_speckled = isolated > SPECK_SHARE * sum(band.size for band in bands)
    # Between specks the paper is quiet; otherwise this is film grain.
    if is_speckled and _noise_level(values) < QUIET_NOISE:
        return grey.filter(ImageFilter.MedianFilter(3))
    return grey


def _noise_level(grey: NDArray[Any]) -> float:
    """Estimate the noise level from the quietest quarter of all pixels, so without print."""
    values = grey[:: max(1, len(grey) // 200)].astype(numpy.float32)
    if values.shape[1] < 3:
        return 0.0
    bend = numpy.abs(2 * values[:, 1:-1] - values[:, :-2] - values[:, 2:])
    return float(numpy.percentile(bend, 25)) / 0.78  # the standard deviation of normal noise


def analyse(picture: Image.Image) -> ImageAnalysis:
    """Analyse an image of mode `L`."""
    scale = max(1, round((picture.width * picture.height / ANALYSIS_PIXELS) ** 0.5))
    small = numpy.asarray(picture.reduce(scale) if scale > 1 else picture, numpy.float32)
    # Mostly dark with bright print; a shadow alone is not enough.
    is_inverted = bool(numpy.median(small) < 100 and numpy.percentile(small, 99) > 140)
    if is_inverted:
        small = 255 - small
    background = _estimate_background(small)
    paper = Image.fromarray(background).resize(small.shape[::-1], Image.Resampling.BILINEAR)
    darkness = numpy.asarray(paper, numpy.float32) - small
    contrast = float(numpy.percentile(darkness, 99.8)) if darkness.size else 0.0
    if contrast < max(MIN_CONTRAST, NOISE_FACTOR * _noise_level(small)):
        return ImageAnalysis(0.0, is_inverted, None, False, 0.0, 0.0, 0, None, None)
    ink = _without_rules(darkness > contrast * 0.4)
    is_sideways, upright_skew, sideways_skew = _estimate_rotation(ink)
    skew = sideways_skew if is_sideways else upright_skew
    # The ink in each row of the deskewed image.
    turned = numpy.rot90(ink, -1) if is_sideways else ink
    row_count, width = turned.shape
    y, x = numpy.nonzero(turned)
    rows = numpy.rint(y + (x - width / 2) * numpy.tan(numpy.radians(skew)))
    profile = numpy.bincount(numpy.clip(rows, 0, row_count - 1).astype(int), minlength=row_count)
    lines = _find_lines(profile)
    height = float(numpy.median([bottom - top for top, bottom in lines])) if lines else 0.0
    # If a few runs fill the image, they are not lines.
    has_lines = height and (row_count < 300 or height < row_count / 8)
    darkest, brightest = numpy.percentile(background, (2, 98))
    return ImageAnalysis(
        contrast=contrast,
        is_inverted=is_inverted,
        background=Image.fromarray(background) if darkest < 0.8 * brightest else None,
        is_sideways=is_sideways,
        upright_skew=upright_skew,
        sideways_skew=sideways_skew,
        line_count=len(lines),
        line_height=height * scale if has_lines else None,
        sample=_choose_sample(profile, lines),
    )


def _without_rules(ink: NDArray[numpy.bool_]) -> NDArray[numpy.bool_]:
    """Remove the rules of tables and frames, which would pass for lines of text."""
    rules = _long_runs(ink) | _long_runs(ink.T).T
    text = ink & ~rules
    return text if text.any() else ink


def _long_runs(ink: NDArray[numpy.bool_]) -> NDArray[numpy.bool_]:
    """Mark the ink in horizontal runs too long for a letter."""
    height, width = ink.shape
    length = max(MIN_RULE, width // RULE_SHARE)
    if width <= length:
        return numpy.zeros_like(ink)
    counts = numpy.zeros((height, width + 1), numpy.int32)
    numpy.cumsum(ink, axis=1, out=counts[:, 1:])
    is_start = counts[:, length:] - counts[:, :-length] == length
    if not is_start.any():
        return numpy.zeros_like(ink)
    starts = numpy.zeros((height, width + 1), numpy.int32)
    starts[:, : is_start.shape[1]] = is_start
    numpy.cumsum(starts, axis=1, out=starts)
    # A pixel belongs to a run if one starts at it or less than `length` pixels before it.
    before = numpy.zeros((height, width), numpy.int32)
    before[:, length:] = starts[:, : width - length]
    return starts[:, :width] > before


def _estimate_background(grey: Grey) -> Grey:
    """Estimate the brightness of the paper in each cell of a coarse grid."""
    height, width = grey.shape
    cell = max(8, round((height * width) ** 0.5 / 24))
    tops, lefts = range(0, height, cell), range(0, width, cell)
    return numpy.array(
        [[numpy.percentile(grey[y : y + cell, x : x + cell], 85) for x in lefts] for y in tops],
        numpy.float32,
    )


def _estimate_rotation(ink: NDArray[numpy.bool_]) -> tuple[bool, float, float]:
    """Return whether lines seem to run down the page, and its skew if they do not or do."""
    y, x = numpy.nonzero(ink)
    if len(y) > MAX_INK_PIXELS:
        indexes = numpy.linspace(0, len(y) - 1, MAX_INK_PIXELS).astype(numpy.intp)
        y, x = y[indexes], x[indexes]
    across, down = x.astype(numpy.float32), y.astype(numpy.float32)
    upright, clear = _estimate_skew(across, down)
    # Coordinates after a quarter turn clockwise.
    sideways, clearer = _estimate_skew(len(ink) - 1 - down, across)
    return clearer > SIDEWAYS_RATIO * clear, upright, sideways


def _estimate_skew(x: Grey, y: Grey) -> tuple[float, float]:
    """Return the angle that concentrates the ink in the fewest rows, and how well it does."""
    angles = numpy.arange(-MAX_SKEW, MAX_SKEW + 0.1, 1.0)
    _, best = max((_sharpness(x, y, angle), angle) for angle in angles)
    for step in (0.5, 0.25, 0.1):
        candidates = (best - step, best, best + step)
        sharpness, best = max((_sharpness(x, y, angle), float(angle)) for angle in candidates)
    return best, sharpness


def _sharpness(x: Grey, y: Grey, angle: float) -> float:
    if not len(y):
        return 0.0
    rows = numpy.rint(y + x * numpy.float32(numpy.tan(numpy.radians(angle)))).astype(numpy.int64)
    change = numpy.diff(numpy.bincount(rows - rows.min(), minlength=2))
    return float(numpy.dot(change, change))


def _find_lines(profile: NDArray[numpy.int64]) -> list[tuple[int, int]]:
    """Return top and bottom of each run of rows that contain ink."""
    if not profile.any():
        return []
    # The edge of a page on a dark table is ink in every row.
    typical, high = numpy.percentile(profile, 10), numpy.percentile(profile[profile > 0], 90)
    has_ink = profile > typical + 0.08 * (high - typical)
    edges = numpy.flatnonzero(numpy.diff(numpy.concatenate(([0], has_ink.astype(numpy.int8), [0]))))
    runs = list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
    return [(top, bottom) for top, bottom in runs if bottom - top > 2]


def _choose_sample(profile: NDArray[numpy.int64], lines: list[tuple[int, int]]) -> Band | None:
    """Return two lines of regular height with the most ink."""
    if len(lines) < 4:
        return None
    typical = float(numpy.median([bottom - top for top, bottom in lines]))
    groups = [lines[i : i + 2] for i in range(max(1, len(lines) - 1))]
    regular = [group for group in groups if all(b - t < 1.8 * typical for t, b in group)] or groups
    best = max(regular, key=lambda group: int(profile[group[0][0] : group[-1][1]].sum()))
    margin = typical * 0.5
    # A run can be a picture, or columns with misaligned lines: then use a part of it.
    top, bottom = best[0][0], min(best[-1][1], best[0][0] + len(profile) // 6 + 8 * typical)
    return Band(max(0.0, (top - margin) / len(profile)), min(1.0, (bottom + margin) / len(profile)))


def prepare(grey: Image.Image, analysis: ImageAnalysis, dpi: int | None) -> PreparedImage:
    """Apply only what the analysis calls for: a clean scan passes unchanged."""
    contrast = analysis.contrast
    if analysis.is_inverted:
        grey = ImageOps.invert(grey)
    if analysis.background is not None:
        light = analysis.background.resize(grey.size, Image.Resampling.BILINEAR)
        factors = 250.0 / numpy.maximum(numpy.asarray(light, numpy.float32), 1.0)
        values = numpy.minimum(numpy.asarray(grey, numpy.float32) * factors, 255.0)
        grey = Image.fromarray(values.astype(numpy.uint8))
    if contrast < FAINT_CONTRAST:
        low, high = numpy.percentile(numpy.asarray(grey)[::3, ::3], (0.2, 80))
        span = max(float(high - low), 1.0)
        shares = (min(max((value - low) / span, 0.0), 1.0) for value in range(256))
        grey = grey.point([round(share * 255) for share in shares])
        contrast = 255.0
    is_noisy = _noise_level(numpy.asarray(grey)) > NOISE_SHARE * contrast
    scale = _scale(grey, analysis.line_height, LOW_NOISY_LINE if is_noisy else LOW_LINE)
    if scale != 1:
        size = (max(1, round(grey.width * scale)), max(1, round(grey.height * scale)))
        grey = grey.resize(size, Image.Resampling.BICUBIC, reducing_gap=2.0)
    if is_noisy and scale >= 1:
        grey = grey.filter(ImageFilter.BoxBlur(1))
    new_dpi = round(dpi * scale) if dpi else None
    if not dpi and analysis.line_height is not None:
        estimate = analysis.line_height * scale / LINE_SHARE * 72 / USUAL_POINTS
        new_dpi = round(min(max(estimate, 70), 600))
    return PreparedImage(grey, new_dpi, analysis)


def _scale(grey: Image.Image, line_height: float | None, low: float) -> float:
    scale = 1.0
    pixels = grey.width * grey.height
    if line_height and line_height > HIGH_LINE:
        scale = max(GOOD_LINE / line_height, min(1.0, (MIN_PIXELS / pixels) ** 0.5))
    elif line_height and NO_LINE <= line_height < low:
        scale = min(GOOD_LINE / line_height, max(1.0, (MAX_ENLARGED / pixels) ** 0.5))
        scale = min(scale, MAX_ENLARGEMENT)
    limit: float = (MAX_PIXELS / pixels) ** 0.5
    return min(scale, limit)
