"""A picture made ready to be read: level, dark on white, its print of a good size."""

from dataclasses import dataclass, replace
from typing import Any

import numpy
from numpy.typing import NDArray
from PIL import Image, ImageFilter, ImageOps

Grey = NDArray[numpy.float32]

#: Enough to tell the lines of small print on an A4 page, and a tenth of its pixels at 300 dpi.
ANALYSIS_PIXELS = 1_000_000
#: Beyond this it is no longer a scan that slipped.
MAX_SKEW = 12.0
#: Below this the engine copes by itself, and turning blurs.
MIN_SKEW = 0.4
#: Dots of ink that are projected; more tell nothing more.
MAX_DOTS = 40_000
#: Differences in grey that can be print. Paper alone has less.
MIN_CONTRAST = 10.0
#: Nothing but noise reaches four times its own deviation.
CHANCE = 5.0
#: How much clearer lines must be the other way round before the picture counts as lying.
LYING = 1.25


@dataclass(frozen=True, slots=True)
class Band:
    """A few lines of text across the picture, after it was turned; in shares of its height."""

    top: float
    bottom: float


@dataclass(frozen=True, slots=True)
class Findings:
    #: The darkest print against its paper, up to 255; 0 where there is nothing but paper.
    contrast: float
    is_inverted: bool
    #: The brightness of the paper, on a coarse grid; None where it is about the same everywhere.
    paper: Image.Image | None
    #: Whether lines of text run from top to bottom.
    is_lying: bool
    #: Degrees clockwise that level the lines, once lying ones are put upright.
    skew: float
    #: Lines of text that can be told apart, and their height in pixels of the whole picture.
    line_count: int
    line_height: float | None
    sample: Band | None

    @property
    def is_blank(self) -> bool:
        return not self.contrast


def examine(picture: Image.Image) -> Findings:
    """`picture` is of mode `L`."""
    scale = max(1, round((picture.width * picture.height / ANALYSIS_PIXELS) ** 0.5))
    small = numpy.asarray(picture.reduce(scale) if scale > 1 else picture, numpy.float32)
    is_inverted = _is_inverted(small)
    if is_inverted:
        small = 255 - small
    paper = _paper(small)
    depth = _spread(paper, small.shape) - small
    contrast = float(numpy.percentile(depth, 99.8)) if depth.size else 0.0
    if contrast < max(MIN_CONTRAST, CHANCE * noise_of(small)):
        return Findings(0.0, is_inverted, None, False, 0.0, 0, None, None)
    ink = depth > contrast * 0.4
    is_lying, skew = _direction(ink)
    rows = _rows(numpy.rot90(ink, -1) if is_lying else ink, skew)
    lines = _lines(rows)
    heights = [bottom - top for top, bottom in lines]
    return Findings(
        contrast=contrast,
        is_inverted=is_inverted,
        paper=Image.fromarray(paper) if _is_shaded(paper) else None,
        is_lying=is_lying,
        skew=skew if abs(skew) >= MIN_SKEW else 0.0,
        line_count=len(lines),
        line_height=_line_height(heights, len(rows), scale),
        sample=_sample(rows, lines),
    )


def noise_of(grey: NDArray[Any]) -> float:
    """How far pixels deviate by chance; told by the quietest part of all rows, so without print."""
    values = grey[:: max(1, len(grey) // 200)].astype(numpy.float32)
    if values.shape[1] < 3:
        return 0.0
    bend = numpy.abs(2 * values[:, 1:-1] - values[:, :-2] - values[:, 2:])
    return float(numpy.percentile(bend, 25)) / 0.78  # of normal noise this gives the deviation


def _paper(grey: Grey) -> Grey:
    """The brightness of the paper in each cell: what most of it does not exceed."""
    height, width = grey.shape
    cell = max(8, round((height * width) ** 0.5 / 24))
    tops, lefts = range(0, height, cell), range(0, width, cell)
    return numpy.array(
        [[numpy.percentile(grey[y : y + cell, x : x + cell], 85) for x in lefts] for y in tops],
        numpy.float32,
    )


def _spread(cells: Grey, shape: tuple[int, ...]) -> Grey:
    full = Image.fromarray(cells).resize((shape[1], shape[0]), Image.Resampling.BILINEAR)
    return numpy.asarray(full, numpy.float32)


def _is_inverted(grey: Grey) -> bool:
    """Whether most is dark, and what is not is bright: a shadow alone is no inversion."""
    return float(numpy.median(grey)) < 100 and float(numpy.percentile(grey, 99)) > 140


def _is_shaded(paper: Grey) -> bool:
    low, high = numpy.percentile(paper, (2, 98))
    return bool(low < 0.8 * high)


def _direction(ink: NDArray[numpy.bool_]) -> tuple[bool, float]:
    y, x = numpy.nonzero(ink)
    if len(y) > MAX_DOTS:
        chosen = numpy.linspace(0, len(y) - 1, MAX_DOTS).astype(numpy.intp)
        y, x = y[chosen], x[chosen]
    height = len(ink)
    upright, clear = _skew(x.astype(numpy.float32), y.astype(numpy.float32))
    # Turned by a quarter, clockwise, the column counts from the bottom, and the row is the column.
    lying, clearer = _skew((height - 1 - y).astype(numpy.float32), x.astype(numpy.float32))
    return (True, lying) if clearer > LYING * clear else (False, upright)


def _skew(x: Grey, y: Grey) -> tuple[float, float]:
    """The turn that gathers the ink in the fewest rows, and how well it does."""
    angles = numpy.arange(-MAX_SKEW, MAX_SKEW + 0.1, 1.0)
    _, best = max((_sharpness(x, y, angle), angle) for angle in angles)
    for step in (0.5, 0.25, 0.1):
        near = (best - step, best, best + step)
        sharpness, best = max((_sharpness(x, y, angle), float(angle)) for angle in near)
    return best, sharpness


def _sharpness(x: Grey, y: Grey, angle: float) -> float:
    counts = _projected(x, y, angle)
    change = numpy.diff(counts)
    return float(numpy.dot(change, change))


def _projected(x: Grey, y: Grey, angle: float) -> NDArray[numpy.int64]:
    if not len(y):
        return numpy.zeros(2, numpy.int64)
    rows = numpy.rint(y + x * numpy.float32(numpy.tan(numpy.radians(angle)))).astype(numpy.int64)
    return numpy.bincount(rows - rows.min(), minlength=2)


def _rows(ink: NDArray[numpy.bool_], skew: float) -> NDArray[numpy.int64]:
    """The ink in each row of the levelled picture."""
    height, width = ink.shape
    y, x = numpy.nonzero(ink)
    rows = y + (x - width / 2) * numpy.tan(numpy.radians(skew))
    return numpy.bincount(numpy.clip(numpy.rint(rows), 0, height - 1).astype(int), minlength=height)


def _lines(rows: NDArray[numpy.int64]) -> list[tuple[int, int]]:
    """Top and bottom of each run of rows with ink in them."""
    if not rows.any():
        return []
    # The edge of a sheet on a dark table is ink in every row.
    usual, much = numpy.percentile(rows, 10), numpy.percentile(rows[rows > 0], 90)
    has_ink = rows > usual + 0.08 * (much - usual)
    edges = numpy.flatnonzero(numpy.diff(numpy.concatenate(([0], has_ink.astype(numpy.int8), [0]))))
    runs = list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
    return [(top, bottom) for top, bottom in runs if bottom - top > 2]


def _line_height(heights: list[int], rows: int, scale: int) -> float | None:
    """None where a few runs fill the picture: then they are something else than lines."""
    usual = float(numpy.median(heights)) if heights else 0.0
    is_small = rows < 300
    return usual * scale if usual and (is_small or usual < rows / 8) else None


def _sample(rows: NDArray[numpy.int64], lines: list[tuple[int, int]]) -> Band | None:
    """Two lines of those with the most ink that are as high as lines are."""
    if len(lines) < 4:
        return None
    usual = float(numpy.median([bottom - top for top, bottom in lines]))
    groups = [lines[i : i + 2] for i in range(max(1, len(lines) - 1))]
    even = [group for group in groups if all(b - t < 1.8 * usual for t, b in group)] or groups
    best = max(even, key=lambda group: int(rows[group[0][0] : group[-1][1]].sum()))
    margin = usual * 0.5
    # A run can be a picture, or columns whose lines do not meet: then a part of it must do.
    top, bottom = best[0][0], min(best[-1][1], best[0][0] + len(rows) // 6 + 8 * usual)
    return Band(max(0.0, (top - margin) / len(rows)), min(1.0, (bottom + margin) / len(rows)))


#: Lines lower than this are enlarged, higher ones made smaller: engines read at about this height.
LOW_LINE, GOOD_LINE, HIGH_LINE = 15.0, 30.0, 80.0
#: Noise is smoothed away, and low letters would go with it.
LOW_NOISY_LINE = 17.0
#: Lower still are no letters.
NO_LINE = 5.0
MAX_ENLARGEMENT = 4.0
#: The share of pixels that are dark all alone. Print has next to none.
SPECKS = 0.003
QUIET = 8.0
#: What is larger is made smaller; what is not so large is not made smaller; what may become large.
MAX_PIXELS, MIN_PIXELS, MAX_ENLARGED = 40_000_000, 1_000_000, 12_000_000
#: A picture no larger than this is tried as a whole.
SMALL_PIXELS = 400_000
#: How much neighbouring pixels differ by chance, against the depth of the print.
NOISE = 0.08
#: Print that is hardly darker than its paper.
FAINT = 90.0
#: Letters at the very edge are overlooked.
MARGIN = 12
#: The height of a line, from `d` to `p`, as a share of its letters' nominal size.
LINE_SHARE = 0.75
USUAL_POINTS = 11

QUARTERS = {
    90: Image.Transpose.ROTATE_270,
    180: Image.Transpose.ROTATE_180,
    270: Image.Transpose.ROTATE_90,
}


@dataclass(frozen=True, slots=True)
class Sheet:
    image: Image.Image
    dpi: int | None
    #: What was turned already, in degrees clockwise.
    rotation: int
    skew: float
    #: A few lines to try.
    sample: Band | None

    def turned(self, degrees: int) -> "Sheet":
        if not degrees:
            return self
        sample = self.sample if degrees == 180 else None
        return replace(
            self,
            image=self.image.transpose(QUARTERS[degrees]),
            rotation=(self.rotation + degrees) % 360,
            sample=sample and Band(1 - sample.bottom, 1 - sample.top),
        )

    def sample_image(self) -> Image.Image:
        width, height = self.image.size
        if self.sample:
            band = (0, round(self.sample.top * height), width, round(self.sample.bottom * height))
        elif width * height > SMALL_PIXELS:
            band = (width // 6, height * 2 // 5, width * 5 // 6, height * 3 // 5)
        else:
            return self.image
        return self.image.crop(band)


def without_specks(grey: Image.Image) -> Image.Image:
    """Each speck would be tried as a letter, at great length."""
    values = numpy.asarray(grey)
    starts = numpy.linspace(0, max(0, len(values) - 48), 6).astype(int)
    bands = [values[start : start + 48] < 128 for start in sorted(set(starts.tolist()))]
    alone = sum(_count_alone(band) for band in bands)
    is_speckled = alone > SPECKS * sum(band.size for band in bands)
    # Between specks the paper is quiet; where it is not, this is grain.
    if is_speckled and noise_of(values) < QUIET:
        return grey.filter(ImageFilter.MedianFilter(3))
    return grey


def _count_alone(dark: NDArray[numpy.bool_]) -> int:
    if min(dark.shape) < 3:
        return 0
    middle = dark[1:-1, 1:-1]
    beside = dark[1:-1, :-2] | dark[1:-1, 2:] | dark[:-2, 1:-1] | dark[2:, 1:-1]
    return int((middle & ~beside).sum())


def prepare(grey: Image.Image, findings: Findings, dpi: int | None) -> Sheet:
    """Only what the findings call for: a plain scan goes through as it is."""
    contrast = findings.contrast
    if findings.is_inverted:
        grey = ImageOps.invert(grey)
    if findings.paper is not None:
        grey = _evenly_lit(grey, findings.paper)
    if contrast < FAINT:
        grey = _strengthened(grey)
        contrast = 255.0
    is_noisy = noise_of(numpy.asarray(grey)) > NOISE * contrast
    scale = _scale(grey, findings.line_height, LOW_NOISY_LINE if is_noisy else LOW_LINE)
    if scale != 1:
        size = (max(1, round(grey.width * scale)), max(1, round(grey.height * scale)))
        grey = grey.resize(size, Image.Resampling.BICUBIC, reducing_gap=2.0)
    if is_noisy and scale >= 1:
        grey = grey.filter(ImageFilter.BoxBlur(1))
    if findings.is_lying:
        grey = grey.transpose(QUARTERS[90])
    level = _levelled(grey, findings.skew)
    return Sheet(
        image=level,
        dpi=round(dpi * scale) if dpi else _likely_dpi(findings.line_height, scale),
        rotation=90 if findings.is_lying else 0,
        skew=findings.skew,
        sample=_placed(findings.sample, grey.height, level.height),
    )


def _evenly_lit(grey: Image.Image, paper: Image.Image) -> Image.Image:
    light = numpy.asarray(paper.resize(grey.size, Image.Resampling.BILINEAR), numpy.float32)
    values = numpy.asarray(grey, numpy.float32) * (250.0 / numpy.maximum(light, 1.0))
    return Image.fromarray(numpy.minimum(values, 255.0).astype(numpy.uint8))


def _strengthened(grey: Image.Image) -> Image.Image:
    some = numpy.asarray(grey)[::3, ::3]
    low, high = numpy.percentile(some, (0.2, 80))
    span = max(float(high - low), 1.0)
    return grey.point(
        [round(min(max((value - low) / span, 0.0), 1.0) * 255) for value in range(256)]
    )


def _scale(grey: Image.Image, line_height: float | None, low: float) -> float:
    scale = 1.0
    pixels = grey.width * grey.height
    if line_height and line_height > HIGH_LINE:
        scale = max(GOOD_LINE / line_height, min(1.0, (MIN_PIXELS / pixels) ** 0.5))
    elif line_height and NO_LINE <= line_height < low:
        scale = min(GOOD_LINE / line_height, max(1.0, (MAX_ENLARGED / pixels) ** 0.5))
        scale = min(scale, MAX_ENLARGEMENT)
    most: float = (MAX_PIXELS / pixels) ** 0.5
    return min(scale, most)


def _levelled(grey: Image.Image, skew: float) -> Image.Image:
    if skew:
        grey = grey.rotate(-skew, Image.Resampling.BICUBIC, expand=True, fillcolor=255)
    if min(grey.size) < 30 * MARGIN:
        grey = ImageOps.expand(grey, MARGIN, fill=255)
    return grey


def _placed(band: Band | None, height: int, new_height: int) -> Band | None:
    """Where a band lies once the picture has grown on all sides."""
    if band is None or height == new_height:
        return band
    share = height / new_height
    return Band((band.top - 0.5) * share + 0.5, (band.bottom - 0.5) * share + 0.5)


def _likely_dpi(line_height: float | None, scale: float) -> int | None:
    if line_height is None:
        return None
    return round(min(max(line_height * scale / LINE_SHARE * 72 / USUAL_POINTS, 70), 600))
