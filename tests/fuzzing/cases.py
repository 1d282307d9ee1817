"""What is damaged, and how: a valid file of each kind, and a seed for the damage."""

import random
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath

import pikepdf
from lxml import etree

from secretary.core.files import OFFICE_TYPES

from ..sample_documents import GOOD
from ..sample_recordings import GOOD_RECORDINGS, GOOD_SUBTITLES
from . import archive_damage, chunk_formats, pdf_damage, picture_damage
from .damage import Damage, damage_bytes

PICTURES = Path(__file__).parents[1] / "pictures"
HEIC: dict[str, Callable[[], bytes]] = {"a.heic": cache((PICTURES / "words.heic").read_bytes)}

#: Damage that knows the structure of a kind of file; every file is also damaged bytewise.
ARCHIVE = (archive_damage.part, archive_damage.contents, archive_damage.tree, archive_damage.tree)
PDF = (
    *(pdf_damage.objects, pdf_damage.objects, pdf_damage.streams, pdf_damage.drawing),
    pdf_damage.table,
)
BOXES, RIFF = (chunk_formats.boxes,), (chunk_formats.riff,)
MATROSKA, OGG = (chunk_formats.matroska,), (chunk_formats.ogg,)
INSIDE: Mapping[str, tuple[Damage, ...]] = {
    **dict.fromkeys((".docx", ".xlsx", ".pptx", ".odt", ".ods", ".epub"), ARCHIVE),
    ".pdf": PDF,
    ".png": (chunk_formats.png, picture_damage.png_pixels),
    ".jpg": (chunk_formats.jpeg,),
    ".tiff": (picture_damage.tiff_tags,),
    **dict.fromkeys((".mp4", ".mov", ".m4a", ".heic", ".avif", ".jp2"), BOXES),
    **dict.fromkeys((".wav", ".avi", ".webp"), RIFF),
    **dict.fromkeys((".mkv", ".mka", ".webm"), MATROSKA),
    **dict.fromkeys((".ogg", ".opus", ".ogv"), OGG),
}
#: Encrypted, so its contents cannot be changed.
SEALED = "locked.pdf"
#: Sometimes the damage is such that no library can write it.
UNWRITABLE = (pikepdf.PdfError, etree.LxmlError, ValueError, TypeError, struct.error, zlib.error)
#: How often a file is damaged bytewise.
AS_IT_IS = 0.25


@dataclass(frozen=True, slots=True, order=True)
class Case:
    kind: str
    name: str
    seed: int

    @classmethod
    def named(cls, text: str) -> "Case":
        """Parses the string form of a case."""
        kind, name, seed = text.split("/")
        return cls(kind, name, int(seed))

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}/{self.seed}"

    @property
    def content(self) -> bytes:
        """Always the same for the same seed."""
        chance = random.Random(f"{self.name} {self.seed}")
        good = KINDS[self.kind][self.name]()
        inside = () if self.name == SEALED else INSIDE.get(PurePath(self.name).suffix, ())
        if not inside or chance.random() < AS_IT_IS:
            return damage_bytes(good, chance)
        try:
            return chance.choice(inside)(good, chance)
        except UNWRITABLE:
            return damage_bytes(good, chance)


def _of(*suffixes: str) -> dict[str, Callable[[], bytes]]:
    return {name: make for name, make in GOOD.items() if PurePath(name).suffix in suffixes}


OFFICE_SUFFIXES = (*(f".{kind}" for kind in sorted(OFFICE_TYPES)), ".csv")
KINDS: Mapping[str, Mapping[str, Callable[[], bytes]]] = {
    "pdf": _of(".pdf"),
    "office": _of(*OFFICE_SUFFIXES),
    "pictures": {
        name: make
        for name, make in {**GOOD, **HEIC}.items()
        if PurePath(name).suffix not in (".pdf", *OFFICE_SUFFIXES)
    },
    "media": {**GOOD_RECORDINGS, **GOOD_SUBTITLES},
    #: Office files that are printed before they are read.
    "libreoffice": _of(".docx", ".xlsx", ".pptx", ".odt", ".ods", ".rtf"),
}


def cases(seed: int, *kinds: str) -> Iterator[Case]:
    """Every file of these kinds, with this seed, then with the next."""
    while True:
        for kind in kinds:
            for name in KINDS[kind]:
                yield Case(kind, name, seed)
        seed += 1
