"""Generates pictures with known text: short notes, lists, rosters, tables, receipts, photos."""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy
from PIL import Image, ImageDraw, ImageFilter, ImageFont

FONT_DIRECTORIES = (
    Path("/usr/share/fonts/truetype/dejavu"),
    Path("/usr/share/fonts/truetype/liberation"),
    Path("/usr/share/fonts/truetype/liberation2"),
)
FONTS = (
    "DejaVuSans.ttf", "DejaVuSerif.ttf", "DejaVuSansMono.ttf", "DejaVuSansCondensed.ttf",
    "LiberationSans-Regular.ttf", "LiberationSerif-Regular.ttf", "LiberationMono-Regular.ttf",
    "LiberationSansNarrow-Regular.ttf",
)  # fmt: skip
FIRST = (
    "Anna", "Benedikt", "Clara", "David", "Elena", "Friedrich", "Greta", "Henry", "Ingrid", "Jonas",
    "Katharina", "Lukas", "Maria", "Noah", "Olivia", "Paul", "Rosa", "Samuel", "Theresa", "Walter",
)  # fmt: skip
LAST = (
    "Baker", "Carter", "Fischer", "Gruber", "Hofmann", "Johnson", "Keller", "Lehmann", "Meyer",
    "Novak", "Parker", "Richter", "Schmidt", "Taylor", "Wagner", "Young", "Zimmermann", "Brown",
)  # fmt: skip
GOODS = (
    "Apples", "Bread", "Butter", "Cheese", "Coffee", "Eggs", "Flour", "Honey", "Milk", "Oranges",
    "Pasta", "Potatoes", "Rice", "Salt", "Sugar", "Tea", "Tomatoes", "Water", "Notebook", "Pencils",
)  # fmt: skip
SENTENCES = (
    "The meeting starts at nine in the large room on the second floor.",
    "Please bring the signed forms and a copy of your passport.",
    "Visitors are asked to register at the main entrance before they enter.",
    "The library is closed on public holidays and on the first Monday in May.",
    "All results were checked twice and sent to the office by mail.",
    "Our next train leaves from platform four in twenty minutes.",
    "Keep this letter with your contract for as long as it runs.",
    "He opened the old wooden box and found three silver coins inside.",
    "Rain is expected in the north while the south stays dry and warm.",
    "Questions about the invoice are answered by the team in Vienna.",
)
KINDS = ("note", "list", "roster", "prose", "ruled table", "plain table", "numbers", "receipt")
#: Degrees clockwise, in turn.
ROTATIONS = (0, 0, 0, 90, 0, 180, 0, 0, 270, 0, 0)


@dataclass(frozen=True)
class Picture:
    name: str
    kind: str
    image: Image.Image
    #: The printed lines from top to bottom; none for a photograph.
    lines: list[str]
    #: Degrees clockwise the upright picture was turned by, and its skew.
    rotation: int
    skew: float


def pictures(count: int = 200) -> Iterator[Picture]:
    """Every kind in every orientation, in eight fonts; some are skewed, noisy or coloured."""
    yield from map(picture, range(count))


def picture(number: int) -> Picture:
    chance = random.Random(100_003 + number)
    kind, rotation = KINDS[number % len(KINDS)], ROTATIONS[number % len(ROTATIONS)]
    font = _font(FONTS[number // len(KINDS) % len(FONTS)], chance.choice((22, 26, 32, 40)))
    image, lines = LAYOUTS[kind](chance, font)
    skew = chance.uniform(-15, 15) if number % 7 == 3 else 0.0
    image = _coloured(image, chance) if number % 5 == 1 else image
    image = _noisy(image, chance) if number % 6 == 2 else image
    if skew:
        image = image.rotate(-skew, Image.Resampling.BICUBIC, expand=True, fillcolor=_paper(image))
    if rotation:
        image = image.rotate(-rotation, expand=True)
    return Picture(f"{number:03}-{kind}", kind, image, lines, rotation, skew)


def photographs(count: int = 50) -> Iterator[Picture]:
    """Scenes without text: gradients, shapes, textures, grain."""
    yield from map(photograph, range(count))


def photograph(number: int) -> Picture:
    scene = _scene(random.Random(7_919 + number))
    return Picture(f"photo-{number:03}", "photograph", scene, [], 0, 0.0)


def _font(name: str, size: int) -> ImageFont.FreeTypeFont:
    path = next((d / name for d in FONT_DIRECTORIES if (d / name).exists()), None)
    font = ImageFont.truetype(str(path), size) if path else ImageFont.load_default(size)
    assert isinstance(font, ImageFont.FreeTypeFont)
    return font


def _column(lines: list[str], font: ImageFont.FreeTypeFont, margin: int = 60) -> Image.Image:
    pitch = round(font.size * 1.45)
    width = max(round(font.getlength(line)) for line in lines) + 2 * margin
    image = Image.new("RGB", (width, len(lines) * pitch + 2 * margin), "white")
    draw = ImageDraw.Draw(image)
    for row, line in enumerate(lines):
        draw.text((margin, margin + row * pitch), line, fill="black", font=font)
    return image


def _grid(
    rows: list[list[str]], font: ImageFont.FreeTypeFont, *, ruled: bool, margin: int = 50
) -> Image.Image:
    pitch, gap = round(font.size * 1.7), round(font.size * 1.6)
    widths = [max(round(font.getlength(row[c])) for row in rows) + gap for c in range(len(rows[0]))]
    size = (sum(widths) + 2 * margin, len(rows) * pitch + 2 * margin)
    image = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(image)
    for r, row in enumerate(rows):
        x = margin
        for c, cell in enumerate(row):
            y = margin + r * pitch
            if ruled:
                draw.rectangle((x, y, x + widths[c], y + pitch), outline="black", width=2)
            is_number = cell.replace(".", "").replace(",", "").isdigit()
            left = x + widths[c] - gap / 2 - font.getlength(cell) if is_number else x + gap / 2
            draw.text((left, y + font.size * 0.25), cell, fill="black", font=font)
            x += widths[c]
    return image


def _note(chance: random.Random, font: ImageFont.FreeTypeFont) -> tuple[Image.Image, list[str]]:
    lines = chance.sample(SENTENCES, chance.randint(1, 3))
    return _column(lines, font), lines


def _prose(chance: random.Random, font: ImageFont.FreeTypeFont) -> tuple[Image.Image, list[str]]:
    lines = [chance.choice(SENTENCES) for _ in range(chance.randint(8, 40))]
    return _column(lines, font), lines


def _list(chance: random.Random, font: ImageFont.FreeTypeFont) -> tuple[Image.Image, list[str]]:
    goods = chance.sample(GOODS, chance.randint(3, 14))
    lines = ["Shopping list", *(f"- {thing}" for thing in goods)]
    return _column(lines, font), lines


def _roster(chance: random.Random, font: ImageFont.FreeTypeFont) -> tuple[Image.Image, list[str]]:
    names = [f"{chance.choice(FIRST)} {chance.choice(LAST)}" for _ in range(chance.randint(3, 30))]
    lines = [f"{number}. {name}" for number, name in enumerate(names, 1)]
    return _column(lines, font), lines


def _table(
    chance: random.Random, font: ImageFont.FreeTypeFont, *, ruled: bool
) -> tuple[Image.Image, list[str]]:
    rows = [["Name", "Town", "Amount"]]
    for _ in range(chance.randint(3, 15)):
        town = chance.choice(("Vienna", "Berlin", "London", "Prague", "Madrid", "Oslo"))
        rows.append([f"{chance.choice(FIRST)} {chance.choice(LAST)}", town, _amount(chance)])
    return _grid(rows, font, ruled=ruled), [" ".join(row) for row in rows]


def _numbers(chance: random.Random, font: ImageFont.FreeTypeFont) -> tuple[Image.Image, list[str]]:
    rows = [[_amount(chance) for _ in range(4)] for _ in range(chance.randint(4, 20))]
    return _grid(rows, font, ruled=False), [" ".join(row) for row in rows]


def _receipt(chance: random.Random, font: ImageFont.FreeTypeFont) -> tuple[Image.Image, list[str]]:
    rows = [[chance.choice(GOODS), _amount(chance)] for _ in range(chance.randint(3, 12))]
    total = sum(float(price.replace(",", "")) for _, price in rows)
    rows += [["TOTAL", f"{total:.2f}"]]
    return _grid(rows, font, ruled=False), [" ".join(row) for row in rows]


def _amount(chance: random.Random) -> str:
    return f"{chance.uniform(1, 2000):,.2f}"


LAYOUTS: dict[
    str, Callable[[random.Random, ImageFont.FreeTypeFont], tuple[Image.Image, list[str]]]
] = {
    "note": _note,
    "list": _list,
    "roster": _roster,
    "prose": _prose,
    "ruled table": lambda chance, font: _table(chance, font, ruled=True),
    "plain table": lambda chance, font: _table(chance, font, ruled=False),
    "numbers": _numbers,
    "receipt": _receipt,
}


def _coloured(image: Image.Image, chance: random.Random) -> Image.Image:
    """Light text on a dark ground, grey text, or text on colour."""
    paper, ink = chance.choice(
        (("#1e2a38", "#f2f2f2"), ("white", "#9a9a9a"), ("#f6e7a1", "#3a2b12"), ("#204a87", "white"))
    )
    mask = image.convert("L")
    result = Image.new("RGB", image.size, ink)
    result.paste(Image.new("RGB", image.size, paper), mask=mask)
    return result


def _noisy(image: Image.Image, chance: random.Random) -> Image.Image:
    return _grainy(image.filter(ImageFilter.GaussianBlur(0.6)), chance.uniform(10, 30), chance)


def _grainy(image: Image.Image, deviation: float, chance: random.Random) -> Image.Image:
    generator = numpy.random.default_rng(chance.randrange(2**32))
    grain = generator.normal(0, deviation, (image.height, image.width, 1))
    return Image.fromarray((numpy.asarray(image) + grain).clip(0, 255).astype(numpy.uint8))


def _paper(image: Image.Image) -> tuple[int, ...]:
    return tuple(numpy.median(numpy.asarray(image)[:20], axis=(0, 1)).astype(int).tolist())


def _scene(chance: random.Random) -> Image.Image:
    size = (chance.choice((640, 800, 1200)), chance.choice((480, 600, 900)))
    image = Image.linear_gradient("L").resize(size).convert("RGB")
    tint = Image.new("RGB", size, tuple(chance.randrange(40, 220) for _ in range(3)))
    image = Image.blend(image, tint, chance.uniform(0.2, 0.8))
    draw = ImageDraw.Draw(image)
    for _ in range(chance.randint(3, 60)):
        x, y = chance.randrange(size[0]), chance.randrange(size[1])
        w, h = chance.randint(8, 240), chance.randint(8, 240)
        colour = tuple(chance.randrange(256) for _ in range(3))
        match chance.randrange(4):
            case 0:
                draw.ellipse((x, y, x + w, y + h), fill=colour)
            case 1:
                draw.rectangle((x, y, x + w, y + h), fill=colour)
            case 2:
                angle = chance.uniform(0, math.tau)
                end = (x + w * math.cos(angle), y + w * math.sin(angle))
                draw.line((x, y, *end), fill=colour, width=chance.randint(1, 9))
            case _:
                draw.polygon([(x, y), (x + w, y + h // 2), (x - w // 2, y + h)], fill=colour)
    if chance.random() < 0.5:
        image = image.filter(ImageFilter.GaussianBlur(chance.uniform(0.5, 3)))
    return _grainy(image, chance.uniform(5, 40), chance)
