"""A picture made ready to be read: level, dark on white, its print of a good size."""

from dataclasses import dataclass, replace

import numpy
from numpy.typing import NDArray
from PIL import Image, ImageFilter, ImageOps

from .straightening import Band, Findings, noise_of

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
