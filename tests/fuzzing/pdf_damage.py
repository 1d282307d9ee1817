"""Damages PDFs behind what packs them: their objects, the streams in them, their tables."""

import io
import random
import re
from typing import Any

import pikepdf

from .damage import HOW_MANY, NUMBERS, TOKENS, hurt

NAMES = (
    *("/Type", "/Page", "/Pages", "/Font", "/XObject", "/Image", "/Form", "/DeviceRGB", "/Indexed"),
    *("/FlateDecode", "/DCTDecode", "/LZWDecode", "/ASCIIHexDecode", "/Identity-H", "/Pattern"),
    *("/JBIG2Decode", "/CCITTFaxDecode", "/JPXDecode", "/RunLengthDecode", "/ICCBased", "/Crypt"),
)
KEYS = (
    *("/Kids", "/Count", "/Parent", "/MediaBox", "/CropBox", "/Rotate", "/Contents", "/Resources"),
    *(
        "/Filter",
        "/DecodeParms",
        "/Length",
        "/Width",
        "/Height",
        "/BitsPerComponent",
        "/ColorSpace",
    ),
    *("/Encoding", "/ToUnicode", "/Widths", "/FirstChar", "/LastChar", "/FontDescriptor", "/W"),
    *("/StructTreeRoot", "/MarkInfo", "/Outlines", "/Annots", "/UserUnit", "/Matrix", "/BBox"),
    *("/SMask", "/Mask", "/Decode", "/Predictor", "/Columns", "/Metadata", "/Names", "/AcroForm"),
)
OPERATORS = (
    *(
        "q",
        "Q",
        "cm",
        "BT",
        "ET",
        "Tf",
        "Td",
        "Tm",
        "Tj",
        "TJ",
        "Do",
        "re",
        "f",
        "S",
        "W",
        "n",
        "sh",
    ),
    *(
        "BI",
        "ID",
        "EI",
        "gs",
        "cs",
        "scn",
        "Tr",
        "Tz",
        "Ts",
        "TL",
        "T*",
        "'",
        '"',
        "BDC",
        "EMC",
        "d",
    ),
)
TABLE = re.compile(
    rb"(?<=\n)\d{10} \d{5} [nf]|startxref\s+\d+|/(?:Size|Prev|Root|W|Index) ?[\[\d]+"
)


def objects(content: bytes, chance: random.Random) -> bytes:
    """Entries of dictionaries and arrays: other values, other objects, circles."""
    with pikepdf.open(io.BytesIO(content)) as document:
        for _ in range(chance.choice((1, 1, 2, 4))):
            _change(document, chance)
        return _saved(document, chance)


def streams(content: bytes, chance: random.Random) -> bytes:
    """What is in a stream, unpacked and packed again."""
    with pikepdf.open(io.BytesIO(content)) as document:
        found = [one for one in document.objects if isinstance(one, pikepdf.Stream)]
        stream = chance.choice(found)
        try:
            stream.write(hurt(stream.read_bytes(), chance))
        except pikepdf.PdfError:  # a picture: hurt as it is
            kind: Any = stream.get("/Filter")
            stream.write(hurt(stream.read_raw_bytes(), chance), filter=kind)
        return _saved(document, chance)


def drawing(content: bytes, chance: random.Random) -> bytes:
    """What pages draw, instruction by instruction."""
    with pikepdf.open(io.BytesIO(content)) as document:
        page = chance.choice(list(document.pages))
        told = [(list(one.operands), one.operator) for one in pikepdf.parse_content_stream(page)]
        for _ in range(chance.choice(HOW_MANY)):
            _redraw(told, chance)
        page.obj.Contents = document.make_stream(pikepdf.unparse_content_stream(told))
        return _saved(document, chance)


def table(content: bytes, chance: random.Random) -> bytes:
    """Where it says that its objects are."""
    places = list(TABLE.finditer(content))
    damaged = bytearray(content)
    for place in sorted(
        chance.choices(places, k=chance.choice((1, 1, 3))), key=lambda m: -m.start()
    ):
        numbers = list(re.finditer(rb"\d+", place.group()))
        number = chance.choice(numbers) if numbers else None
        if number is not None:
            start = place.start() + number.start()
            near = b"%010d" % chance.randrange(len(content))
            odd = chance.choice((*NUMBERS, near, b"%d" % chance.randrange(20)))
            damaged[start : place.start() + number.end()] = odd
    return bytes(damaged)


def _change(document: pikepdf.Pdf, chance: random.Random) -> None:
    holders = [
        one for one in document.objects if isinstance(one, (pikepdf.Dictionary, pikepdf.Stream))
    ]
    one = chance.choice(holders)
    inner = [
        value for value in one.values() if isinstance(value, (pikepdf.Dictionary, pikepdf.Array))
    ]
    place: Any = chance.choice([one, *inner])
    if isinstance(place, pikepdf.Array):
        if len(place):
            place[chance.randrange(len(place))] = _odd(document, chance)
        return
    known = [key for key in place if key != "/Length"]
    if known and chance.random() < 0.25:
        del place[chance.choice(known)]
    else:
        key = chance.choice(known) if known and chance.random() < 0.7 else chance.choice(KEYS)
        if key != "/Length":
            place[key] = _odd(document, chance)


def _odd(document: pikepdf.Pdf, chance: random.Random) -> Any:
    everything = list(document.objects)
    match chance.randrange(7):
        case 0 | 1:
            return chance.choice(everything)
        case 2:
            return chance.choice((0, -1, 1, 2, 65536, 2**31 - 1, -(2**31), 10**18))
        case 3:
            return chance.choice((0.5, -0.001, 1e9, -1e30))
        case 4:
            return pikepdf.Name(chance.choice(NAMES))
        case 5:
            return pikepdf.String(chance.choice(TOKENS))
        case _:
            numbers = [chance.choice((0, 1, -1, 612, 10**9)) for _ in range(chance.randrange(7))]
            return pikepdf.Array([*numbers, chance.choice(everything)])


def _redraw(told: list[tuple[list[Any], Any]], chance: random.Random) -> None:
    if not told:
        return
    at = chance.randrange(len(told))
    operands, operator = told[at]
    match chance.randrange(5):
        case 0:
            del told[at]
        case 1:
            told[at:at] = [told[chance.randrange(len(told))]] * chance.choice((1, 2, 500))
        case 2:
            told[at] = (operands, pikepdf.Operator(chance.choice(OPERATORS)))
        case _ if operands and all(type(one) is not pikepdf.Object for one in operands):
            other = list(operands)
            odd = (
                0,
                -1,
                0.001,
                1e9,
                -1e9,
                pikepdf.Name("/F9"),
                pikepdf.String(chance.choice(TOKENS)),
            )
            other[chance.randrange(len(other))] = chance.choice(odd)
            told[at] = (other, operator)


def _saved(document: pikepdf.Pdf, chance: random.Random) -> bytes:
    file = io.BytesIO()
    packed = chance.choice((pikepdf.ObjectStreamMode.generate, pikepdf.ObjectStreamMode.disable))
    document.save(file, object_stream_mode=packed, deterministic_id=True, encryption=False)
    return file.getvalue()
