"""Pages as pictures, within a budget of pixels."""

import pypdfium2
from PIL import Image

POINTS_PER_INCH = 72


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
