"""Pages as pictures, within a budget of pixels."""

from itertools import islice

import pypdfium2
import pypdfium2.raw as raw
from PIL import Image

POINTS_PER_INCH = 72
#: Of the page: a picture that covers so much of it is what there is to read.
MUCH = 0.3
MOST_PICTURES = 50


def draw_page(
    page: pypdfium2.PdfPage, *, dpi: float, max_pixels: int, grey: bool = False
) -> Image.Image:
    """A huge page is drawn more coarsely: memory is bounded, whatever its size."""
    width, height = page.get_size()
    scale = dpi / POINTS_PER_INCH
    pixels = max(width * scale, 1) * max(height * scale, 1)
    if pixels > max_pixels:
        scale *= (max_pixels / pixels) ** 0.5
    bitmap = page.render(scale=scale, grayscale=grey)
    try:
        picture: Image.Image = bitmap.to_pil().convert("L" if grey else "RGB")
        return picture
    finally:
        bitmap.close()


def has_lost_picture(page: pypdfium2.PdfPage) -> bool:
    """Whether a picture that covers much of the page cannot be decoded: it is drawn as nothing."""
    width, height = page.get_size()
    pictures = page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=3)
    for picture in islice(pictures, MOST_PICTURES):
        left, bottom, right, top = picture.get_bounds()
        if (right - left) * (top - bottom) < MUCH * width * height:
            continue
        bitmap = raw.FPDFImageObj_GetBitmap(picture)
        if not bitmap:
            return True
        raw.FPDFBitmap_Destroy(bitmap)
    return False
