"""Images of all kinds, valid and invalid."""

import io
import struct
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy
import pytest
from PIL import Image

from secretary.core.errors import FileCorrupt, FileTooLarge, InvalidParameters, UnsupportedFile
from secretary.documents.ocr.images import count_frames, dpi_of, open_frame, save_jpeg

LIMIT = 1_000_000
HEIC = Path(__file__).parents[1] / "pictures" / "words.heic"


def flag(width: int = 60, height: int = 40) -> Image.Image:
    """White, with a black corner at the top left that shows how an image is rotated."""
    picture = Image.new("RGB", (width, height), "white")
    picture.paste("black", (0, 0, width // 2, height // 2))
    return picture


def saved(path: Path, picture: Image.Image, **options: Any) -> str:
    picture.save(path, **options)
    return str(path)


def corners(picture: Image.Image) -> list[int]:
    """The brightness near each corner: top left, top right, bottom left, bottom right."""
    grey = picture.convert("L")
    right, bottom = grey.width - 4, grey.height - 4
    points = ((3, 3), (right, 3), (3, bottom), (right, bottom))
    values = [grey.getpixel(point) for point in points]
    return [round(value / 255) for value in values if isinstance(value, int | float)]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("png", {}),
        ("jpeg", {}),
        ("jpeg", {"progressive": True}),
        ("tiff", {}),
        ("tiff", {"compression": "tiff_lzw"}),
        ("webp", {"lossless": True}),
        ("bmp", {}),
        ("gif", {}),
        ("jp2", {}),
        ("avif", {}),
    ],
)
def test_a_picture_of_any_kind_is_opened(
    tmp_path: Path, kind: str, options: dict[str, Any]
) -> None:
    path = saved(tmp_path / f"a.{kind}", flag(), **options)
    picture = open_frame(path, 1, max_pixels=LIMIT)
    assert count_frames(path, max_pixels=LIMIT) == 1
    assert (picture.mode, picture.size, corners(picture)) == ("RGB", (60, 40), [0, 1, 1, 1])


def test_a_heic_picture_is_opened() -> None:
    picture = open_frame(str(HEIC), 1, max_pixels=LIMIT)
    assert (picture.mode, picture.size) == ("RGB", (640, 120))


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "CMYK", "YCbCr", "LAB", "I;16", "I", "F"])
def test_every_mode_becomes_grey_or_rgb(tmp_path: Path, mode: str) -> None:
    if mode in ("I;16", "I", "F"):
        values = numpy.asarray(flag().convert("L")).astype(numpy.float64) * 257
        kinds = {"I;16": numpy.uint16, "I": numpy.int32, "F": numpy.float32}
        picture = Image.fromarray(values.astype(kinds[mode]))
    elif mode == "LAB":
        picture = Image.new("LAB", (60, 40), (255, 128, 128))
        picture.paste((0, 128, 128), (0, 0, 30, 20))
    else:
        picture = flag().convert(mode)
    assert picture.mode == mode
    opened = open_frame(saved(tmp_path / "a.tiff", picture), 1, max_pixels=LIMIT)
    assert opened.mode in ("L", "RGB")
    assert corners(opened) == [0, 1, 1, 1]


def test_a_cmyk_jpeg_is_not_inverted(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.jpg", flag().convert("CMYK"))
    assert corners(open_frame(path, 1, max_pixels=LIMIT)) == [0, 1, 1, 1]


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_what_can_be_seen_through_shows_white(tmp_path: Path, mode: str) -> None:
    picture = Image.new(mode, (60, 40), 0)
    black = Image.new(mode, (30, 20), (0, 0, 0, 255) if mode == "RGBA" else (0, 255))
    picture.paste(black, (0, 0))
    path = saved(tmp_path / "a.png", picture)
    assert corners(open_frame(path, 1, max_pixels=LIMIT)) == [0, 1, 1, 1]


def test_a_palette_can_have_a_colour_for_nothing(tmp_path: Path) -> None:
    picture = Image.new("P", (60, 40), 1)
    picture.putpalette([0, 0, 0, 0, 0, 0])
    picture.paste(0, (0, 0, 30, 20))
    path = saved(tmp_path / "a.gif", picture, transparency=1)
    assert corners(open_frame(path, 1, max_pixels=LIMIT)) == [0, 1, 1, 1]


@pytest.mark.parametrize(
    ("orientation", "expected"),
    [(1, [0, 1, 1, 1]), (3, [1, 1, 1, 0]), (6, [1, 0, 1, 1]), (8, [1, 1, 0, 1])],
)
def test_a_photo_is_turned_as_its_camera_was_held(
    tmp_path: Path, orientation: int, expected: list[int]
) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = saved(tmp_path / "a.jpg", flag(), exif=exif)
    assert corners(open_frame(path, 1, max_pixels=LIMIT)) == expected


def test_broken_exif_does_not_matter(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.jpg", flag(), exif=b"Exif\x00\x00II*\x00\xff\xff\xff\x7f")
    assert corners(open_frame(path, 1, max_pixels=LIMIT)) == [0, 1, 1, 1]


def test_the_pages_of_a_tiff_are_read_one_at_a_time(tmp_path: Path) -> None:
    pages = [Image.new("L", (20 + number, 10), 255) for number in range(12)]
    path = saved(tmp_path / "a.tif", pages[0], save_all=True, append_images=pages[1:])
    assert count_frames(path, max_pixels=LIMIT) == 12
    assert open_frame(path, 1, max_pixels=LIMIT).width == 20
    assert open_frame(path, 12, max_pixels=LIMIT).width == 31
    with pytest.raises(InvalidParameters, match="no page 13"):
        open_frame(path, 13, max_pixels=LIMIT)


def test_ten_thousand_pages_are_counted_and_the_last_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    path.write_bytes(tiff_of(10_000))
    assert count_frames(str(path), max_pixels=LIMIT) == 10_000
    assert open_frame(str(path), 10_000, max_pixels=LIMIT).size == (8, 1)


def test_a_tiff_whose_pages_never_end_ends(tmp_path: Path) -> None:
    content = bytearray(tiff_of(3))
    content[-4:] = content[4:8]  # the last page is followed by the first
    path = tmp_path / "a.tif"
    path.write_bytes(content)
    assert count_frames(str(path), max_pixels=LIMIT) == 3


@pytest.mark.parametrize("following", [2**40, 2**63 - 1, 2**64 - 1])
def test_a_tiff_whose_next_page_is_nowhere_ends(tmp_path: Path, following: int) -> None:
    path = tmp_path / "a.tif"
    path.write_bytes(big_tiff_of(following))
    assert count_frames(str(path), max_pixels=LIMIT) == 1
    assert open_frame(str(path), 1, max_pixels=LIMIT).size == (8, 1)


def test_of_a_moving_picture_the_first_frame_counts(tmp_path: Path) -> None:
    frames = [flag(), Image.new("RGB", (60, 40), "red")]
    path = saved(tmp_path / "a.gif", frames[0], save_all=True, append_images=frames[1:])
    assert count_frames(path, max_pixels=LIMIT) == 1
    assert corners(open_frame(path, 1, max_pixels=LIMIT)) == [0, 1, 1, 1]
    with pytest.raises(InvalidParameters):
        open_frame(path, 2, max_pixels=LIMIT)


def test_a_picture_of_too_many_pixels_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png(40_000, 40_000))
    for look in (lambda: count_frames(str(path), max_pixels=10**8), lambda: opened(path)):
        with pytest.raises(FileTooLarge, match="40,000 x 40,000 pixels; the limit is 100,000,000"):
            look()


def opened(path: Path) -> Image.Image:
    return open_frame(str(path), 1, max_pixels=10**8)


def test_a_large_jpeg_is_read_smaller(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.jpg", flag(1200, 800), dpi=(600, 600))
    picture = open_frame(path, 1, max_pixels=250_000)
    assert (picture.size, corners(picture), dpi_of(picture)) == ((600, 400), [0, 1, 1, 1], 300)
    with pytest.raises(FileTooLarge):
        open_frame(path, 1, max_pixels=10_000)


def test_a_large_progressive_jpeg_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.jpg", flag(1200, 800), progressive=True)
    with pytest.raises(FileTooLarge):
        open_frame(path, 1, max_pixels=100_000)


@pytest.mark.parametrize("kind", ["png", "jpeg", "tiff", "webp", "bmp", "gif", "jp2", "avif"])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.8])
def test_a_picture_that_is_cut_off_says_so(tmp_path: Path, kind: str, share: float) -> None:
    form = "JPEG2000" if kind == "jp2" else kind
    noise = numpy.random.default_rng(1).integers(0, 255, (80, 80, 3), numpy.uint8)
    data = io.BytesIO()
    Image.fromarray(noise).save(data, form)
    path = tmp_path / f"a.{kind}"
    path.write_bytes(data.getvalue()[: int(len(data.getvalue()) * share)])
    with pytest.raises(FileCorrupt, match="damaged or cut off"):
        open_frame(str(path), 1, max_pixels=LIMIT)


@pytest.mark.parametrize("size", [30, 400, 2500])
def test_a_heic_that_is_cut_off_says_so(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.heic"
    path.write_bytes(HEIC.read_bytes()[:size])
    with pytest.raises(FileCorrupt):
        open_frame(str(path), 1, max_pixels=LIMIT)


@pytest.mark.parametrize("kind", ["png", "jpeg", "tiff", "webp", "bmp", "gif", "jp2"])
def test_damage_never_ends_in_another_error(tmp_path: Path, kind: str) -> None:
    data = io.BytesIO()
    flag().save(data, "JPEG2000" if kind == "jp2" else kind)
    random = numpy.random.default_rng(7)
    path = tmp_path / f"a.{kind}"
    for _ in range(60):
        content = bytearray(data.getvalue())
        for offset in random.integers(8, len(content), 6):
            content[offset] = int(random.integers(0, 256))
        path.write_bytes(content)
        with suppress(FileCorrupt, FileTooLarge, UnsupportedFile):
            open_frame(str(path), 1, max_pixels=LIMIT)


@pytest.mark.parametrize(
    "content", [b"<!doctype html><p>Not found", b"%PDF-1.4", b"", b"\x00" * 100, b"plain text"]
)
def test_what_is_no_picture_is_refused_whatever_its_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(content)
    with pytest.raises(UnsupportedFile, match="not a picture"):
        count_frames(str(path), max_pixels=LIMIT)


def test_a_preview_is_a_small_jpeg(tmp_path: Path) -> None:
    save_jpeg(flag(1200, 800), str(tmp_path / "a.jpg"), max_side=300, quality=80)
    with Image.open(tmp_path / "a.jpg") as picture:
        assert (picture.format, picture.size, picture.mode) == ("JPEG", (300, 200), "RGB")


@pytest.mark.parametrize(("dpi", "expected"), [(300, 300), (1, None), (72, None), (None, None)])
def test_dots_per_inch_are_believed_where_they_can_be_true(
    tmp_path: Path, dpi: int | None, expected: int | None
) -> None:
    options = {"dpi": (dpi, dpi)} if dpi else {}
    path = saved(tmp_path / "a.png", flag(), **options)
    assert dpi_of(open_frame(path, 1, max_pixels=LIMIT)) == expected


def png(width: int, height: int) -> bytes:
    """The beginning of an image that announces this size."""
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(100))), (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


TAGS = [(256, 8), (257, 1), (258, 1), (259, 1), (262, 1), (278, 1), (279, 1)]


def big_tiff_of(following: int) -> bytes:
    """One page of eight pixels, in a file with 64-bit offsets."""
    tags = sorted([*TAGS, (273, 16)])
    entries = b"".join(struct.pack("<HHQQ", tag, 4, 1, value) for tag, value in tags)
    head = b"II" + struct.pack("<HHHQ", 43, 8, 0, 18) + b"\xf0\x00"
    return head + struct.pack("<Q", len(tags)) + entries + struct.pack("<Q", following)


def tiff_of(pages: int) -> bytes:
    """Pages of eight pixels, whose directories follow each other."""
    tags = sorted([*TAGS, (273, 8)])
    size = 2 + 12 * len(tags) + 4
    content = [b"II*\x00", struct.pack("<I", 10), b"\xf0\x00"]
    for number in range(1, pages + 1):
        entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
        following = 10 + number * size if number < pages else 0
        content.append(struct.pack("<H", len(tags)) + entries + struct.pack("<I", following))
    return b"".join(content)
