"""From an image to its text, with the real engine."""

from pathlib import Path
from typing import Any

import numpy
import pytest
from PIL import Image, ImageDraw, ImageOps

from secretary.core.errors import EngineUnavailable
from secretary.documents.ocr.engines import open_engine
from secretary.documents.ocr.images import open_frame
from secretary.documents.ocr.preprocess import analyse
from secretary.documents.ocr.recognition import OcrResult, recognise, recognise_upright

from ..error_rate import character_error_rate
from ..rendered_pages import ENGLISH, GERMAN, Print, page, sheet

PRINTED = {"eng": "\n".join(ENGLISH), "deu": "\n".join(GERMAN)}
LINES = {"eng": ENGLISH, "deu": GERMAN}


def read(picture: Image.Image, languages: str | None = "eng", dpi: int | None = None) -> OcrResult:
    return recognise(picture, engine=open_engine(), languages=languages, dpi=dpi)


@pytest.mark.parametrize("language", ["eng", "deu"])
@pytest.mark.parametrize("dpi", [150, 200, 300])
def test_a_plain_page_is_read_without_an_error(language: str, dpi: int) -> None:
    recognised = read(page(LINES[language], dpi=dpi), language, dpi)
    assert recognised.text == PRINTED[language]
    assert recognised.confidence > 90
    assert (recognised.languages, recognised.rotation, recognised.skew) == (language, 0, 0)


@pytest.mark.parametrize(
    ("language", "given"), [("deu", "de-DE"), ("eng", "en"), ("deu", "eng+deu")]
)
def test_languages_are_known_by_their_usual_names(language: str, given: str) -> None:
    assert read(page(LINES[language]), given).text == PRINTED[language]


def test_a_language_that_is_not_installed_is_an_error() -> None:
    with pytest.raises(EngineUnavailable, match="language tlh"):
        read(page(ENGLISH), "tlh")


@pytest.mark.parametrize("language", ["eng", "deu"])
@pytest.mark.parametrize("repeated", [1, 3])
def test_the_language_is_found_out(language: str, repeated: int) -> None:
    recognised = read(page(LINES[language] * repeated), None)
    assert character_error_rate(PRINTED[language] * repeated, recognised.text) < 0.002
    assert language in recognised.languages


def test_a_page_in_two_languages_is_read_in_both() -> None:
    prints = [Print(50, 60 + 16 * i, line) for i, line in enumerate(ENGLISH * 2)]
    prints += [Print(50, 330 + 16 * i, line) for i, line in enumerate(GERMAN)]
    recognised = read(sheet(prints, height=480), None)
    assert character_error_rate(PRINTED["eng"] * 2 + PRINTED["deu"], recognised.text) < 0.01
    assert set(recognised.languages.split("+")) == {"deu", "eng"}


@pytest.mark.parametrize("degrees", [90, 180, 270])
@pytest.mark.parametrize("languages", ["deu", None])
def test_a_page_that_lies_or_stands_on_its_head_is_turned(
    degrees: int, languages: str | None
) -> None:
    lying = page(GERMAN * 2).rotate(degrees, expand=True)
    recognised = read(lying, languages)
    assert recognised.rotation == degrees
    assert character_error_rate(PRINTED["deu"] * 2, recognised.text) < 0.005


@pytest.mark.parametrize("degrees", [1, -3, 7, -10])
def test_a_page_that_slipped_is_levelled(degrees: int) -> None:
    recognised = read(slipped(page(ENGLISH), degrees))
    assert recognised.skew == pytest.approx(degrees, abs=0.3)
    assert character_error_rate(PRINTED["eng"], recognised.text) < 0.005


def test_a_page_that_lies_and_slipped_is_turned_by_both() -> None:
    recognised = read(slipped(page(GERMAN * 2), 94), "deu")
    assert (recognised.rotation, round(recognised.skew)) == (90, 4)
    assert character_error_rate(PRINTED["deu"] * 2, recognised.text) < 0.005


def slipped(picture: Image.Image, degrees: float) -> Image.Image:
    return picture.rotate(degrees, Image.Resampling.BICUBIC, expand=True, fillcolor=255)


def shaded(picture: Image.Image) -> Image.Image:
    """As if lit by a lamp on the right."""
    light = numpy.linspace(0.3, 1, picture.width)[None, :]
    return Image.fromarray((numpy.asarray(picture) * light).astype(numpy.uint8))


def noisy(picture: Image.Image) -> Image.Image:
    noise = numpy.random.default_rng(1).normal(0, 25, (picture.height, picture.width))
    pale = 128 + (numpy.asarray(picture, numpy.float64) - 128) * 0.6
    return Image.fromarray((pale + noise).clip(0, 255).astype(numpy.uint8))


def speckled(picture: Image.Image) -> Image.Image:
    values = numpy.array(picture)
    values[numpy.random.default_rng(1).random(values.shape) < 0.02] = 40
    return Image.fromarray(values)


@pytest.mark.parametrize("degrees", [0, 6])
def test_a_photo_of_a_page_on_a_table_is_read(degrees: int) -> None:
    printed = page(GERMAN * 2, dpi=170)
    service = (printed.width * 5 // 4, printed.height * 4 // 3)
    turned = printed.rotate(degrees, Image.Resampling.BICUBIC, expand=True)
    shape = Image.new("L", printed.size, 255).rotate(degrees, expand=True)
    photo = Image.new("L", service, 60)
    photo.paste(
        turned, ((service[0] - turned.width) // 2, (service[1] - turned.height) // 2), shape
    )
    recognised = read(shaded(photo), "deu")
    assert character_error_rate(PRINTED["deu"] * 2, recognised.text) < 0.01


@pytest.mark.parametrize("language", ["eng", "deu"])
@pytest.mark.parametrize(
    ("name", "picture"),
    [
        ("one bit", lambda p: p.convert("1", dither=Image.Dither.NONE)),
        ("CMYK", lambda p: p.convert("CMYK")),
        ("white on black", ImageOps.invert),
        ("faint", lambda p: p.point(lambda value: 205 + value * 22 // 255)),
        ("shaded", shaded),
        ("noisy", noisy),
        ("speckled", speckled),
        ("on brown paper", lambda p: ImageOps.colorize(p, "#301", "#c96")),
    ],
)
def test_a_picture_that_is_hard_on_the_eye_is_read(
    name: str, picture: object, language: str
) -> None:
    assert callable(picture)
    recognised = read(picture(page(LINES[language], dpi=200)), language)
    assert character_error_rate(PRINTED[language], recognised.text) < 0.005, name


@pytest.mark.parametrize(("size", "dpi"), [(11, 72), (6, 150), (11, 96), (11, 600)])
@pytest.mark.parametrize("language", ["eng", "deu"])
def test_tiny_and_huge_print_is_read(size: float, dpi: int, language: str) -> None:
    recognised = read(page(LINES[language], size=size, dpi=dpi), language)
    assert character_error_rate(PRINTED[language], recognised.text) < 0.01


def test_columns_are_read_one_after_the_other() -> None:
    left = [
        "Anyone who wants to borrow",
        "a book needs a card, which",
        "is free for children and",
        "costs two pounds a year",
        "for everybody else in town.",
    ]
    right = [
        "Our rooms are open daily",
        "from nine in the morning",
        "until six, on Saturdays",
        "until noon; the reading",
        "room stays open longer.",
    ]
    prints = [Print(40, 60 + 16 * i, line) for i, line in enumerate(left)]
    prints += [Print(260, 60 + 16 * i, line) for i, line in enumerate(right)]
    recognised = read(sheet(prints, width=440, height=180, dpi=200))
    assert recognised.text.split("\n\n") == ["\n".join(left), "\n".join(right)]


@pytest.mark.parametrize("size", [(1, 1), (10, 3), (800, 1000)])
@pytest.mark.parametrize("colour", ["white", "black", "#888"])
def test_a_blank_picture_has_no_text(size: tuple[int, int], colour: str) -> None:
    recognised = read(Image.new("RGB", size, colour), None)
    assert (recognised.text, recognised.markdown, recognised.confidence) == ("", "", 0)


@pytest.mark.parametrize("deviation", [3, 10, 30])
def test_paper_alone_has_no_text(deviation: int) -> None:
    grain = numpy.random.default_rng(1).normal(200, deviation, (600, 800)).clip(0, 255)
    assert read(Image.fromarray(grain.astype(numpy.uint8))).text == ""


def test_a_drawing_has_next_to_no_text() -> None:
    picture = Image.new("L", (800, 600), 255)
    draw = ImageDraw.Draw(picture)
    for offset in range(40, 360, 40):
        draw.ellipse((offset, offset, 800 - offset, 600 - offset // 2), outline=0, width=3)
    assert len(read(picture).text) < 10


KINDS = ("note", "list", "roster", "prose", "ruled table", "plain table", "numbers", "receipt")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_an_image_is_turned_only_if_it_is_not_upright(bench: Any, kind: str, rotation: int) -> None:
    """Short lists, rosters, tables and columns of numbers look alike in any orientation."""
    corpus = bench("corpus.pictures")
    number = next(
        number
        for number in range(88)
        if (KINDS[number % 8], corpus.ROTATIONS[number % 11]) == (kind, rotation)
    )
    picture = corpus.picture(number)
    assert (picture.kind, picture.rotation) == (kind, rotation)
    assert read(picture.image, None).rotation == -rotation % 360


def test_a_ruled_table_is_read_as_a_table(bench: Any) -> None:
    picture = bench("corpus.pictures").picture(KINDS.index("ruled table"))
    rows = read(picture.image, None).markdown.splitlines()
    assert len(rows) == len(picture.lines) + 1  # and the line below the head
    assert rows[0] == "| Name | Town | Amount |"


@pytest.mark.parametrize("number", [1, 7, 16])
def test_a_photograph_has_no_text(bench: Any, number: int) -> None:
    assert read(bench("corpus.pictures").photograph(number).image, None).markdown == ""


def test_the_rules_of_a_table_do_not_change_how_its_letters_are_scaled() -> None:
    ruled = Image.new("L", (700, 400), 255)
    draw = ImageDraw.Draw(ruled)
    for y in range(20, 400, 60):
        draw.rectangle((20, y, 680, y + 1), fill=0)
    rules_only = analyse(ruled)
    printed = page(ENGLISH).resize((700, 400))
    with_rules = Image.composite(printed, ruled, ruled)
    assert rules_only.line_count <= 6
    assert analyse(with_rules).line_height == pytest.approx(analyse(printed).line_height, rel=0.3)


def test_the_same_picture_gives_the_same_result() -> None:
    picture = noisy(slipped(page(GERMAN, size=9), 2))
    first = read(picture, None)
    read(page(ENGLISH), None)
    assert read(picture, None) == first


def test_a_heic_photo_is_read() -> None:
    path = Path(__file__).parents[1] / "pictures" / "words.heic"
    assert read(open_frame(str(path), 1, max_pixels=10**6)).text == "Minutes of the meeting"


def test_every_page_of_a_tiff_is_read(tmp_path: Path) -> None:
    pages = [page([line], dpi=150).convert("1") for line in GERMAN[:3]]
    path = str(tmp_path / "a.tif")
    pages[0].save(path, save_all=True, append_images=pages[1:], compression="group4")
    recognised = [read(open_frame(path, n, max_pixels=10**7), "deu").text for n in (1, 2, 3)]
    assert recognised == GERMAN[:3]


def test_a_photo_is_read_as_its_camera_was_held(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    path = str(tmp_path / "a.jpg")
    page(ENGLISH).rotate(90, expand=True).save(path, exif=exif, quality=80)
    recognised = read(open_frame(path, 1, max_pixels=10**7))
    assert (recognised.rotation, character_error_rate(PRINTED["eng"], recognised.text)) == (0, 0)


def test_print_on_nothing_is_read(tmp_path: Path) -> None:
    ink = ImageOps.invert(page(GERMAN))
    picture = Image.new("RGBA", ink.size, (0, 0, 0, 0))
    picture.putalpha(ink)
    path = str(tmp_path / "a.png")
    picture.save(path)
    recognised = read(open_frame(path, 1, max_pixels=10**7), "deu")
    assert recognised.text == PRINTED["deu"]


def test_what_is_known_to_be_upright_is_not_turned() -> None:
    recognised = recognise_upright(page(ENGLISH), engine=open_engine(), languages=None)
    assert character_error_rate(PRINTED["eng"], recognised.text) < 0.005
    upside_down = page(ENGLISH).rotate(180)
    assert recognise_upright(upside_down, engine=open_engine(), languages="en").rotation == 0


def test_nothing_is_read_where_nothing_is_printed() -> None:
    blank = Image.new("L", (400, 300), 255)
    assert recognise_upright(blank, engine=open_engine(), languages="en").text == ""
