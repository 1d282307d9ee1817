"""Damages PDFs below the compression: their objects, streams and tables."""

import io
import random
import re
from typing import Any

import pikepdf

from .damage import HOW_MANY, NUMBERS, TOKENS, damage_bytes

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
    """Entries of dictionaries and arrays: other values, other objects, cycles."""
    with pikepdf.open(io.BytesIO(content)) as document:
        for _ in range(chance.choice((1, 1, 2, 4))):
            _change(document, chance)
        return _saved(document, chance)


def streams(content: bytes, chance: random.Random) -> bytes:
    """The contents of a stream, decompressed and compressed again."""
    with pikepdf.open(io.BytesIO(content)) as document:
        candidates = [one for one in document.objects if isinstance(one, pikepdf.Stream)]
        stream = chance.choice(candidates)
        try:
            stream.write(damage_bytes(stream.read_bytes(), chance))
        except pikepdf.PdfError:  # an image: damaged bytewise
            kind: Any = stream.get("/Filter")
            stream.write(damage_bytes(stream.read_raw_bytes(), chance), filter=kind)
        return _saved(document, chance)


def drawing(content: bytes, chance: random.Random) -> bytes:
    """The drawing instructions of pages."""
    with pikepdf.open(io.BytesIO(content)) as document:
        page = chance.choice(list(document.pages))
        operations = [
            (list(one.operands), one.operator) for one in pikepdf.parse_content_stream(page)
        ]
        for _ in range(chance.choice(HOW_MANY)):
            _redraw(operations, chance)
        page.obj.Contents = document.make_stream(pikepdf.unparse_content_stream(operations))
        return _saved(document, chance)


def table(content: bytes, chance: random.Random) -> bytes:
    """The cross-reference table."""
    matches = list(TABLE.finditer(content))
    damaged = bytearray(content)
    for match in sorted(
        chance.choices(matches, k=chance.choice((1, 1, 3))), key=lambda m: -m.start()
    ):
        numbers = list(re.finditer(rb"\d+", match.group()))
        number = chance.choice(numbers) if numbers else None
        if number is not None:
            start = match.start() + number.start()
            near = b"%010d" % chance.randrange(len(content))
            odd = chance.choice((*NUMBERS, near, b"%d" % chance.randrange(20)))
            damaged[start : match.start() + number.end()] = odd
    return bytes(damaged)


def _change(document: pikepdf.Pdf, chance: random.Random) -> None:
    holders = [
        one for one in document.objects if isinstance(one, (pikepdf.Dictionary, pikepdf.Stream))
    ]
    one = chance.choice(holders)
    inner = [
        value for value in one.values() if isinstance(value, (pikepdf.Dictionary, pikepdf.Array))
    ]
    target: Any = chance.choice([one, *inner])
    if isinstance(target, pikepdf.Array):
        if len(target):
            target[chance.randrange(len(target))] = _odd(document, chance)
        return
    keys = [key for key in target if key != "/Length"]
    if keys and chance.random() < 0.25:
        del target[chance.choice(keys)]
    else:
        key = chance.choice(keys) if keys and chance.random() < 0.7 else chance.choice(KEYS)
        if key != "/Length":
            target[key] = _odd(document, chance)


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


def _redraw(operations: list[tuple[list[Any], Any]], chance: random.Random) -> None:
    if not operations:
        return
    at = chance.randrange(len(operations))
    operands, operator = operations[at]
    match chance.randrange(5):
        case 0:
            del operations[at]
        case 1:
            operations[at:at] = [operations[chance.randrange(len(operations))]] * chance.choice(
                (1, 2, 500)
            )
        case 2:
            operations[at] = (operands, pikepdf.Operator(chance.choice(OPERATORS)))
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
            operations[at] = (other, operator)


def _saved(document: pikepdf.Pdf, chance: random.Random) -> bytes:
    file = io.BytesIO()
    packed = chance.choice((pikepdf.ObjectStreamMode.generate, pikepdf.ObjectStreamMode.disable))
    document.save(file, object_stream_mode=packed, deterministic_id=True, encryption=False)
    return file.getvalue()
