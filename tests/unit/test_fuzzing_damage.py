"""The fuzzers damage files below their compression, and always in the same way for a seed."""

import io
import random
import zipfile
from itertools import islice

import pikepdf
import pytest
from lxml import etree
from PIL import Image

from ..fuzzing import archive_damage, chunk_formats, pdf_damage, picture_damage
from ..fuzzing.cases import KINDS, Case, cases
from ..fuzzing.chunks import Reader, Writer
from ..fuzzing.damage import Damage
from ..minimal_files import pdf
from ..sample_documents import a_docx, picture, rich_pdf


def chance(number: int) -> random.Random:
    return random.Random(number)


def test_a_case_is_always_the_same() -> None:
    for case in islice(cases(7, "pdf", "office", "pictures"), 40):
        assert case.content == Case.named(str(case)).content


def test_every_file_of_every_kind_is_covered() -> None:
    count = sum(map(len, KINDS.values()))
    assert len({(one.kind, one.name) for one in islice(cases(1, *KINDS), count)}) == count


RIFF = b"RIFF\x0e\0\0\0WAVEfmt \x01\0\0\0x\0"


@pytest.mark.parametrize(
    ("read", "write", "content"),
    [
        (chunk_formats.read_png, chunk_formats.write_png, picture("PNG")),
        (chunk_formats.read_jpeg, chunk_formats.write_jpeg, picture("JPEG")),
        (chunk_formats.read_riff, chunk_formats.write_riff, picture("WEBP")),
        (chunk_formats.read_riff, chunk_formats.write_riff, RIFF),
        (chunk_formats.read_boxes, chunk_formats.write_boxes, picture("JPEG2000")),
        (chunk_formats.read_boxes, chunk_formats.write_boxes, KINDS["pictures"]["a.heic"]()),
    ],
)
def test_what_is_not_damaged_comes_back(read: Reader, write: Writer, content: bytes) -> None:
    chunks = read(content)
    assert len(chunks) > 0
    assert write(chunks) == content


def test_a_damaged_png_is_opened_far_enough_to_see_the_damage() -> None:
    good, seen = picture("PNG"), 0
    for number in range(40):
        damaged = picture_damage.png_pixels(good, chance(number))
        try:
            with Image.open(io.BytesIO(damaged)) as image:
                image.load()
            seen += 1
        except (OSError, SyntaxError, ValueError):
            continue
    assert seen > 5


def test_xml_stays_well_formed() -> None:
    for number in range(20):
        damaged = archive_damage.tree(a_docx(), chance(number))
        with zipfile.ZipFile(io.BytesIO(damaged)) as archive:
            for name in archive.namelist():
                if name.endswith(".xml"):
                    etree.fromstring(archive.read(name))


@pytest.mark.parametrize("damage", [pdf_damage.objects, pdf_damage.streams, pdf_damage.drawing])
def test_a_damaged_pdf_is_one_that_can_be_opened(damage: Damage) -> None:
    changed = 0
    for number in range(10):
        content = damage(rich_pdf(invariant=1), chance(number))
        with pikepdf.open(io.BytesIO(content)):
            changed += content != damage(rich_pdf(invariant=1), chance(number + 1))
    assert changed > 5


def test_the_table_of_a_pdf_is_damaged_and_nothing_else() -> None:
    good = pdf("One apple")
    for number in range(20):
        damaged = pdf_damage.table(good, chance(number))
        assert damaged.startswith(good[: good.index(b"xref")])
