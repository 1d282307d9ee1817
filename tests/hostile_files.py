"""Malicious files, and the expected outcome of each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from . import hostile_office as office
from . import hostile_pdfs as pdfs
from . import hostile_pictures as pictures
from .hostile_office import docx_with_doctype, html, odt_with_doctype, rtf
from .minimal_files import pdf, written, zipped
from .office_files import docx_of, odf_of, ole_of, paragraph
from .sample_documents import GOOD, encrypted_pdf

PDF, OFFICE, PICTURE = "/api/pdf/process", "/api/office/process", "/api/imageocr/process"
OUT_OF_MEMORY = ("OUT_OF_MEMORY", "WORKER_CRASHED")  # PDFium aborts if it gets none
ENDLESS = (*OUT_OF_MEMORY, "PROCESSING_TIMEOUT")  # whichever limit is reached first


@dataclass(frozen=True)
class Hostile:
    name: str
    route: str
    make: Callable[[], bytes]
    #: The expected error; or, for harmless files, a text that must be read.
    code: str | tuple[str, ...] = ()
    says: str = ""
    file: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)


def a_pdf(
    name: str, make: Callable[[], bytes], code: Any = (), says: str = "", **fields: Any
) -> Hostile:
    return Hostile(name, PDF, make, code, says, "a.pdf", fields)


def an_office_file(
    name: str, make: Callable[[], bytes], code: Any = (), says: str = "", file: str = "a.docx"
) -> Hostile:
    return Hostile(name, OFFICE, make, code, says, file)


def a_picture(name: str, make: Callable[[], bytes], code: Any = (), says: str = "") -> Hostile:
    return Hostile(name, PICTURE, make, code, says, "a.png", {"ocr_language": "eng"})


def cut(name: str, share: float) -> bytes:
    whole = GOOD[name]()
    return whole[: int(len(whole) * share)]


REVISIONS: tuple[tuple[str, Literal[2, 3, 4, 6]], ...] = (
    ("RC4-40", 2), ("RC4", 3), ("AES-128", 4), ("AES-256", 6),
)  # fmt: skip

PDFS = [
    *(
        a_pdf(f"cut at {share}", partial(pdfs.cut, share), "FILE_CORRUPT")
        for share in (0.02, 0.3, 0.6, 0.9)
    ),
    a_pdf("no end", pdfs.without_end, "FILE_CORRUPT"),
    a_pdf("no xref", pdfs.without_xref, says="One apple"),
    a_pdf("xref that leads to itself", partial(pdfs.chained_xrefs, True), says="One apple"),
    a_pdf("object streams of garbage", pdfs.garbage_object_streams, "FILE_CORRUPT"),
    a_pdf("page tree in a circle", pdfs.tree_that_is_its_own_child, "FILE_CORRUPT"),
    a_pdf("page tree too deep", partial(pdfs.nested_page_tree, 5000), "FILE_CORRUPT"),
    a_pdf("arrays in arrays", partial(pdfs.nested, 100_000), says="Hello"),
    a_pdf("a billion pages, it says", partial(pdfs.count_that_lies, 10**9), says="One apple"),
    a_pdf("less than no pages, it says", partial(pdfs.count_that_lies, -1), says="One apple"),
    a_pdf("100,000 pages", partial(pdfs.many_pages, 100_000), "FILE_TOO_LARGE"),
    a_pdf(
        "no pages",
        lambda: written([pdfs.CATALOG, b"<< /Type /Pages /Kids [] /Count 0 >>"]),
        "FILE_CORRUPT",
    ),
    *(
        a_pdf(
            f"box {box.decode()}",
            partial(pdfs.boxed, box),
            says="Hello",
            extraction_method="preview_and_native",
        )
        for box in (
            b"0 0 0 0",
            b"0 0 -5 -5",
            b"0 0 nan nan",
            b"0 0 1e30 1e30",
            b"/A (b) null 3",
            b"0 0 99999999999 99999999999",
        )
    ),
    a_pdf("forms that draw each other", partial(pdfs.forms_that_draw_each_other, 9), ENDLESS),
    a_pdf("millions of paths", pdfs.millions_of_paths, ENDLESS, extraction_method="ocr"),
    a_pdf("tiles for ever", pdfs.tiling_for_ever, "PROCESSING_TIMEOUT", extraction_method="ocr"),
    a_pdf("bomb in the contents", pdfs.bomb_in_contents, OUT_OF_MEMORY),
    a_pdf("bomb in a font", pdfs.bomb_in_font, OUT_OF_MEMORY),
    a_pdf("60,000 pixels", pdfs.huge_bitmap, ENDLESS, extraction_method="ocr"),
    *(
        a_pdf(f"{name} of 60,000 pixels", make, ("FILE_CORRUPT", *ENDLESS), extraction_method="ocr")
        for name, make in (("JBIG2", pdfs.huge_jbig2), ("JPX", pdfs.huge_jpx))
    ),
    a_pdf("a scan that is cut", pdfs.cut_scan, "FILE_CORRUPT", extraction_method="ocr"),
    a_pdf("a scan that is cut, auto", pdfs.cut_scan, "FILE_CORRUPT", extraction_method="auto"),
    a_pdf("font that is its own", pdfs.font_that_is_its_own_descendant, says="---"),
    a_pdf(
        "glyph that draws itself",
        pdfs.glyph_that_draws_itself,
        says="aaaa",
        extraction_method="preview_and_native",
    ),
    a_pdf("a million letters", partial(pdfs.long_line, 1_000_000), says="abcde abcde"),
    a_pdf(
        "letters that are none",
        partial(pdfs.mapped_to, "\0", "\ud800", "\u202e", "\uffff", "\x1b", "\u2028"),
        says="plain",
    ),
    a_pdf("title of half a letter", pdfs.title_of_half_a_pair, says="One apple"),
    *(
        a_pdf(f"{name}, {password}", partial(encrypted_pdf, revision), code, says, **fields)
        for name, revision in REVISIONS
        for password, code, says, fields in (
            ("no password", "FILE_ENCRYPTED", "", {}),
            ("wrong password", "FILE_ENCRYPTED", "", {"password": "wrong"}),
            ("password", (), "Apples and pears", {"password": "open"}),
        )
    ),
    a_pdf(
        "encryption of tomorrow",
        partial(pdfs.odd_encryption, b"/Filter /Standard /V 99 /R 99"),
        "FILE_ENCRYPTED",
    ),
    a_pdf("encryption of nobody", partial(pdfs.odd_encryption, b"/Filter /Foo"), "FILE_CORRUPT"),
    a_pdf("nothing", lambda: b"", "UNSUPPORTED_FILE"),
    a_pdf("its beginning", lambda: b"%PDF-1.7", "FILE_CORRUPT"),
    a_pdf("a page of the web", lambda: html("Hello"), "UNSUPPORTED_FILE"),
    a_pdf("a picture", GOOD["a.png"], "UNSUPPORTED_FILE"),
    a_pdf("a zip", lambda: zipped({"a": b"b"}), "UNSUPPORTED_FILE"),
    a_pdf("bytes", lambda: bytes(range(256)) * 10, "UNSUPPORTED_FILE"),
]

OFFICE_FILES = [
    *(
        an_office_file(
            f"{name} cut", partial(cut, name, 0.7), ("FILE_CORRUPT", "UNSUPPORTED_FILE"), file=name
        )
        for name in ("a.docx", "a.xlsx", "a.pptx", "a.odt")
    ),
    an_office_file(
        "a billion laughs",
        partial(docx_with_doctype, office.BILLION_LAUGHS, "&l9;"),
        "FILE_CORRUPT",
    ),
    an_office_file(
        "a billion laughs in an odt",
        partial(odt_with_doctype, office.BILLION_LAUGHS, "&l9;"),
        "FILE_CORRUPT",
        file="a.odt",
    ),
    an_office_file(
        "quadratic blowup",
        partial(docx_with_doctype, office.QUADRATIC, "&a;" * 20_000),
        "FILE_CORRUPT",
    ),
    an_office_file(
        "a file from elsewhere",
        partial(docx_with_doctype, '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>', "&e;"),
        "FILE_CORRUPT",
    ),
    an_office_file("one huge part", office.huge_part, "FILE_TOO_LARGE"),
    an_office_file("zips in zips", partial(office.nested_zips, 3), says="The outside"),
    an_office_file("20,000 parts", office.many_parts, says="x"),
    an_office_file("parts in one place", office.overlapping_parts, says="x"),
    an_office_file("names that lead out", office.names_that_lead_out, says="Inside"),
    an_office_file("relations in a circle", office.related_in_circles, says="Text"),
    an_office_file(
        "tables in tables", lambda: docx_of("<w:tbl><w:tr><w:tc>" * 5000), "FILE_CORRUPT"
    ),
    an_office_file(
        "a cell at the end of the world",
        partial(office.cell_at, "A1", "XFD1048576"),
        says="1",
        file="a.xlsx",
    ),
    an_office_file(
        "a cell behind it",
        partial(office.cell_at, "A1", "Z" * 300 + "9" * 300),
        says="1",
        file="a.xlsx",
    ),
    an_office_file(
        "one text in all cells", office.strings_again_and_again, "FILE_TOO_LARGE", file="a.xlsx"
    ),
    an_office_file(
        "cells without end",
        partial(office.ods_repeated, 16384, 1048576),
        "FILE_TOO_LARGE",
        file="a.ods",
    ),
    an_office_file("spaces without end", partial(office.odt_spaces, 10**9), says="a", file="a.odt"),
    an_office_file(
        "a list at a great depth",
        lambda: office.pptx_of(office.shape("Deep", 10**9)),
        says="Deep",
        file="a.pptx",
    ),
    an_office_file(
        "groups in groups",
        lambda: office.pptx_of("<p:grpSp>" * 5000 + "</p:grpSp>" * 5000),
        "FILE_CORRUPT",
        file="a.pptx",
    ),
    an_office_file("groups of RTF", lambda: rtf(b"{" * 30_000), "FILE_CORRUPT", file="a.rtf"),
    an_office_file(
        "binary without end", lambda: rtf(b"\\bin2147483647 x"), "FILE_CORRUPT", file="a.rtf"
    ),
    an_office_file(
        "cells that span all",
        lambda: html("<table>" + "<tr><td colspan=1000 rowspan=65534>a" * 1000),
        "FILE_TOO_LARGE",
        file="a.html",
    ),
    an_office_file(
        "elements in elements", lambda: html("<b>" * 100_000), "FILE_CORRUPT", file="a.html"
    ),
    an_office_file(
        "macros",
        lambda: zipped(office.members(docx_of(paragraph("Text"))) | {"word/vbaProject.bin": b"x"}),
        says="Text",
        file="a.docm",
    ),
    an_office_file(
        "encrypted", lambda: ole_of("EncryptionInfo", "EncryptedPackage"), "FILE_ENCRYPTED"
    ),
    an_office_file(
        "encrypted odt",
        lambda: odf_of("text", "<text:p/>", is_encrypted=True),
        "FILE_ENCRYPTED",
        file="a.odt",
    ),
    an_office_file("an old one", lambda: ole_of("WordDocument"), "UNSUPPORTED_FILE", file="a.doc"),
    an_office_file("a PDF", lambda: pdf("x"), "UNSUPPORTED_FILE"),
    an_office_file("a zip of something else", lambda: zipped({"a": b"b"}), "UNSUPPORTED_FILE"),
]

PICTURES = [
    a_picture("40,000 pixels", partial(pictures.huge_png, 40_000), "FILE_TOO_LARGE"),
    a_picture(
        "billions of pixels, it says",
        partial(pictures.png_that_lies, 2**31 - 1, 2**31 - 1),
        "FILE_TOO_LARGE",
    ),
    a_picture(
        "millions of pixels, it says", partial(pictures.png_that_lies, 9000, 9000), "FILE_CORRUPT"
    ),
    a_picture("no pixels", partial(pictures.png_that_lies, 0, 0), "FILE_CORRUPT"),
    a_picture("bombs beside the picture", pictures.png_with_bombs, "FILE_CORRUPT"),
    a_picture("30,000 frames", partial(pictures.tiff, 30_000), "FILE_TOO_LARGE"),
    a_picture("frames in a circle", partial(pictures.tiff, 3, loop=True), says="--- Seite 3 ---"),
    a_picture("TIFF of 40,000 pixels", partial(pictures.deflated_tiff, 40_000), "FILE_TOO_LARGE"),
    a_picture("TIFF that leads out", partial(pictures.tiff_tags, offset=2**32 - 1), "FILE_CORRUPT"),
    a_picture("TIFF of many bits", partial(pictures.tiff_tags, bits=4_000_000_000), "FILE_CORRUPT"),
    a_picture("GIF of 65,535 pixels", partial(pictures.gif, 65_535, 65_535), "FILE_TOO_LARGE"),
    a_picture(
        "GIF with a larger frame",
        partial(pictures.gif, 10, 10, frame=(65_535, 65_535)),
        "FILE_TOO_LARGE",
    ),
    a_picture("WebP that lies", partial(pictures.webp_that_lies, 9000), "FILE_CORRUPT"),
    a_picture("WebP with a huge canvas", partial(pictures.webp_canvas, 2**24), "FILE_CORRUPT"),
    a_picture("HEIC that lies", partial(pictures.heic_that_lies, 100), "FILE_CORRUPT"),
    a_picture("HEIC of 60,000 pixels", partial(pictures.heic_that_lies, 60_000), "FILE_TOO_LARGE"),
    a_picture("BMP that lies", partial(pictures.bmp_that_lies, 9000, -9000), "FILE_CORRUPT"),
    a_picture("scans for ever", partial(pictures.scans_without_end, 500), "PROCESSING_TIMEOUT"),
    a_picture("EXIF of garbage", pictures.exif_garbage, says="Forty two apples"),
    a_picture("CMYK with a profile of garbage", pictures.odd_profile, says="Forty two apples"),
    *(
        a_picture(f"{name} cut", partial(cut, name, 0.7), "FILE_CORRUPT")
        for name in ("a.png", "a.jpg", "a.tiff", "a.gif", "a.webp", "a.bmp", "a.jp2", "a.avif")
    ),
    a_picture("a PDF", lambda: pdf("x"), "UNSUPPORTED_FILE"),
    a_picture("nothing", lambda: b"", "UNSUPPORTED_FILE"),
]

ALL = [*PDFS, *OFFICE_FILES, *PICTURES]
REFUSED = [case for case in ALL if case.code]
READ = [case for case in ALL if not case.code]
