"""Malicious PDFs, each small on disk."""

import zlib
from collections.abc import Sequence

from .hostile_pictures import MIB, zeros
from .minimal_files import FONT, pdf, written
from .sample_documents import picture as good_picture

CATALOG = b"<< /Type /Catalog /Pages 2 0 R >>"


def stream(content: bytes, entries: bytes = b"") -> bytes:
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(content), entries, content)


def packed(content: bytes, entries: bytes = b"") -> bytes:
    return stream(content, b"/Filter /FlateDecode " + entries)


def one_page(
    contents: bytes,
    *,
    resources: bytes = b"/Font << /F1 3 0 R >>",
    box: bytes = b"0 0 612 792",
    more: Sequence[bytes] = (),
    page: bytes = b"",
) -> bytes:
    """Objects: 1 catalog, 2 pages, 3 a font, 4 the contents (a stream), 5 the page, 6... `more`."""
    return written(
        [
            CATALOG,
            b"<< /Type /Pages /Kids [5 0 R] /Count 1 >>",
            FONT,
            contents,
            b"<< /Type /Page /Parent 2 0 R /MediaBox [%s] /Contents 4 0 R"
            b" /Resources << %s >> %s >>" % (box, resources, page),
            *more,
        ]
    )


def text(words: bytes = b"Hello") -> bytes:
    return stream(b"BT /F1 24 Tf 72 700 Td (%s) Tj ET" % words)


def cut(share: float) -> bytes:
    whole = pdf("One apple", "Two pears")
    return whole[: int(len(whole) * share)]


def without_end() -> bytes:
    whole = pdf("One apple")
    at = whole.index(b"xref\n")
    return whole[:at] + b"\xff" * (len(whole) - at)


def without_xref() -> bytes:
    whole = pdf("One apple")
    first, last = whole.index(b"xref\n"), whole.index(b"trailer")
    return whole[:first] + b"\xff" * (last - first) + whole[last:]


def garbage_object_streams() -> bytes:
    garbage = zlib.compress(bytes(range(256)) * 8)
    first = packed(garbage, b"/Type /ObjStm /N 5 /First 100000 ")
    second = packed(b"\x78\x9c" + b"\xff" * 500, b"/Type /ObjStm /N -3 /First -1 ")
    start = b"%PDF-1.7\n1 0 obj\n" + first + b"\nendobj\n2 0 obj\n" + second + b"\nendobj\n"
    table = zlib.compress(b"\x02\x00\x01\x00\x02\x00\x01\x01" * 40)
    xref = packed(table, b"/Type /XRef /W [1 2 1] /Size 80 /Root 3 0 R ")
    body = start + b"9 0 obj\n" + xref + b"\nendobj\n"
    return body + b"startxref\n%d\n%%%%EOF\n" % len(start)


def tree_that_is_its_own_child() -> bytes:
    return written([CATALOG, b"<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 2 /Parent 2 0 R >>"])


def forms_that_draw_each_other(fan: int = 1) -> bytes:
    call = {6: b"/B Do " * fan, 7: b"/A Do " * fan}
    forms = [
        stream(
            call[number],
            b"/Type /XObject /Subtype /Form /BBox [0 0 9 9]"
            b" /Resources << /XObject << /A 6 0 R /B 7 0 R >> >>",
        )
        for number in (6, 7)
    ]
    return one_page(stream(b"/A Do"), resources=b"/XObject << /A 6 0 R >>", more=forms)


def count_that_lies(count: int) -> bytes:
    return pdf("One apple").replace(b"/Count 1", b"/Count %d" % count)


def many_pages(count: int) -> bytes:
    """All the same page: 6 bytes each."""
    kids = b"5 0 R " * count
    return written(
        [
            CATALOG,
            b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, count),
            FONT,
            text(),
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
            b" /Resources << /Font << /F1 3 0 R >> >> >>",
        ]
    )


def boxed(box: bytes, page: bytes = b"") -> bytes:
    return one_page(text(), box=box, page=page)


def millions_of_paths(mebibytes: int = 32) -> bytes:
    """Lines all over the page, from a few hundred kilobytes."""
    lines = b"".join(b"%d 0 m %d 792 l S\n" % (x, 612 - x) for x in range(600))
    return one_page(packed(zlib.compress(lines * (mebibytes * MIB // len(lines)))))


TILED = b"/Pattern cs /P scn 0 0 612 792 re f " * 500


def tiling_for_ever() -> bytes:
    tile = _endless_tile()
    return one_page(stream(TILED), resources=b"/Pattern << /P 6 0 R >>", more=[tile])


def _endless_tile() -> bytes:
    """A hundredth of a point wide, and a stack of transparent strokes."""
    return stream(
        b"/G gs " + b"0 0 m 500 500 l S " * 200,
        b"/Type /Pattern /PatternType 1 /PaintType 1 /TilingType 1 /BBox [0 0 500 500]"
        b" /XStep .02 /YStep .02 /Resources << /ExtGState << /G << /ca .5 /CA .5 >> >> >>",
    )


def second_of_three_for_ever() -> bytes:
    """A page that renders at once, one that never does, and another one."""
    quick = (
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 99 99] /Contents 4 0 R /Resources << >> >>"
    )
    slow = (
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 7 0 R"
        b" /Resources << /Pattern << /P 8 0 R >> >> >>"
    )
    kids = b"<< /Type /Pages /Kids [5 0 R 6 0 R 5 0 R] /Count 3 >>"
    return written([CATALOG, kids, FONT, stream(b""), quick, slow, stream(TILED), _endless_tile()])


def bomb_in_contents(mebibytes: int = 1024) -> bytes:
    return one_page(packed(zeros(mebibytes * MIB)))


def bomb_in_font(mebibytes: int = 1024) -> bytes:
    descriptor = (
        b"<< /Type /FontDescriptor /FontName /X /Flags 4 /FontBBox [0 0 1000 1000] /ItalicAngle 0"
        b" /Ascent 900 /Descent -100 /CapHeight 700 /StemV 80 /FontFile2 8 0 R >>"
    )
    font = (
        b"<< /Type /Font /Subtype /TrueType /BaseFont /X /FirstChar 32 /LastChar 33"
        b" /Widths [500 500] /FontDescriptor 7 0 R /ToUnicode 8 0 R >>"
    )
    file = packed(zeros(mebibytes * MIB), b"/Length1 %d" % (mebibytes * MIB))
    return one_page(text(), resources=b"/Font << /F1 6 0 R >>", more=[font, descriptor, file])


def picture(entries: bytes, content: bytes) -> bytes:
    image = stream(content, b"/Type /XObject /Subtype /Image " + entries)
    return one_page(
        stream(b"q 612 0 0 792 0 0 cm /I Do Q"), resources=b"/XObject << /I 6 0 R >>", more=[image]
    )


def cut_scan() -> bytes:
    """An image of the whole page, of which only the header exists."""
    jpeg = good_picture("JPEG", "L")
    return picture(
        b"/Width 600 /Height 120 /ColorSpace /DeviceGray /BitsPerComponent 8 /Filter /DCTDecode",
        jpeg[:200],
    )


def huge_bitmap(side: int = 60_000) -> bytes:
    return picture(
        b"/Width %d /Height %d /ColorSpace /DeviceGray /BitsPerComponent 1 /Filter /FlateDecode"
        % (side, side),
        zeros(side * side // 8),
    )


def huge_jbig2(side: int = 0x7FFFFFFF) -> bytes:
    page_info = side.to_bytes(4, "big") * 2 + bytes(8) + b"\x00\x00\x00"
    segment = b"\x00\x00\x00\x00\x30\x00\x01" + len(page_info).to_bytes(4, "big") + page_info
    region = (60_000).to_bytes(4, "big") * 2 + bytes(8) + b"\x00" + b"\x00" + bytes(8) + b"\xff\xac"
    generic = b"\x00\x00\x00\x01\x26\x00\x01" + len(region).to_bytes(4, "big") + region
    size = min(side, 60_000)
    return picture(
        b"/Width %d /Height %d /ColorSpace /DeviceGray /BitsPerComponent 1 /Filter /JBIG2Decode"
        % (size, size),
        segment + generic,
    )


def huge_jpx(side: int = 60_000) -> bytes:
    def box(kind: bytes, content: bytes) -> bytes:
        return (len(content) + 8).to_bytes(4, "big") + kind + content

    wide = side.to_bytes(4, "big")
    size_marker = b"\xff\x51\x00\x29\x00\x00" + wide * 2 + bytes(8) + wide * 2 + bytes(8)
    components = b"\x00\x01\x07\x01\x01"
    code = b"\xff\x52\x00\x0c\x00\x00\x00\x01\x00\x05\x04\x04\x00\x00"
    quantized = b"\xff\x5c\x00\x13\x40" + b"\x40" * 16
    tile = b"\xff\x90\x00\x0a\x00\x00\x00\x00\x00\x00\x00\x01\xff\x93" + bytes(64) + b"\xff\xd9"
    codestream = b"\xff\x4f" + size_marker + components + code + quantized + tile
    header = box(b"ihdr", wide * 2 + b"\x00\x01\x07\x07\x00\x00") + box(
        b"colr", b"\x01\x00\x00\x00\x00\x00\x11"
    )
    file = (
        box(b"jP  ", b"\r\n\x87\n")
        + box(b"ftyp", b"jp2 \x00\x00\x00\x00jp2 ")
        + box(b"jp2h", header)
        + box(b"jp2c", codestream)
    )
    return picture(b"/Width %d /Height %d /Filter /JPXDecode" % (side, side), file)


def font_that_is_its_own_descendant() -> bytes:
    font = (
        b"<< /Type /Font /Subtype /Type0 /BaseFont /X /Encoding /Identity-H"
        b" /DescendantFonts [6 0 R] /ToUnicode 6 0 R >>"
    )
    return one_page(text(), resources=b"/Font << /F1 6 0 R >>", more=[font])


def glyph_that_draws_itself() -> bytes:
    font = (
        b"<< /Type /Font /Subtype /Type3 /FontBBox [0 0 1000 1000] /FontMatrix [.001 0 0 .001 0 0]"
        b" /CharProcs << /a 7 0 R >> /Encoding << /Differences [97 /a] >> /FirstChar 97"
        b" /LastChar 97 /Widths [1000] /Resources << /Font << /F1 6 0 R >> >> >>"
    )
    glyph = stream(b"1000 0 d0 BT /F1 800 Tf (aaaaaaaa) Tj ET")
    return one_page(text(b"aaaa"), resources=b"/Font << /F1 6 0 R >>", more=[font, glyph])


def nested(depth: int) -> bytes:
    return one_page(text(), page=b"/X " + b"[" * depth + b"]" * depth)


def long_line(letters: int) -> bytes:
    return one_page(
        packed(zlib.compress(b"BT /F1 1 Tf 10 700 Td (" + b"abcde " * (letters // 6) + b") Tj ET"))
    )


def mapped_to(*characters: str) -> bytes:
    """Letters with these Unicode values."""
    lines = b"".join(
        b"<%02x> <%s>\n" % (65 + at, "".join(f"{ord(c):04x}" for c in chars).encode())
        for at, chars in enumerate(characters)
    )
    to_unicode = stream(
        b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap\n"
        b"1 begincodespacerange <00> <ff> endcodespacerange\n"
        b"%d beginbfchar\n%sendbfchar\nendcmap end end" % (len(characters), lines)
    )
    font = (
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /FirstChar 65 /LastChar 90"
        b" /Widths [%s] /ToUnicode 7 0 R >>" % (b"600 " * 26)
    )
    letters = bytes(range(65, 65 + len(characters)))
    return one_page(
        text(letters + b" plain words"), resources=b"/Font << /F1 6 0 R >>", more=[font, to_unicode]
    )


def title_of_half_a_pair() -> bytes:
    whole = pdf("One apple")
    info = b"/Info << /Title <FEFFD800> /Author <FEFFDC00D800> /Subject (\\000) >> "
    return whole.replace(b"/Root 1 0 R", info + b"/Root 1 0 R")


def odd_encryption(entries: bytes) -> bytes:
    whole = pdf("One apple")
    return whole.replace(b"/Root 1 0 R", b"/Encrypt << %s >> /ID [<00> <00>] /Root 1 0 R" % entries)


def nested_page_tree(depth: int) -> bytes:
    """One page below `depth` nodes."""
    nodes = [
        b"<< /Type /Pages /Kids [%d 0 R] /Count 1 /Parent %d 0 R >>" % (at + 1, max(at - 1, 2))
        for at in range(2, depth + 2)
    ]
    last = b"<< /Type /Page /MediaBox [0 0 99 99] /Parent %d 0 R >>" % (depth + 1)
    return written([CATALOG, *nodes, last])


def chained_xrefs(loop: bool) -> bytes:
    whole = pdf("One apple")
    at = whole.rindex(b"startxref\n")
    offset = int(whole[at + 10 :].split()[0])
    return whole.replace(b"/Root 1 0 R", b"/Root 1 0 R /Prev %d" % (offset if loop else -5))
